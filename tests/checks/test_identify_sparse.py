"""Vectors with many zeros: a pair that is zero in a row shows no phase there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rotated import Array, normals, seen, told

from ropecli import Rotary, rotate
from ropecli.checks.identify import identify

DIM = 16
LAYOUTS = ["interleaved", "half"]


def one_hot(rows: int, dim: int = DIM) -> Array:
    """Each row a unit vector, in no order."""
    chosen = np.random.default_rng(0).integers(0, dim, rows)
    return np.eye(dim, dtype=np.float32)[chosen]


def half_zero(rows: int) -> Array:
    """As after a ReLU: a quarter of the pairs is zero."""
    return np.maximum(normals(rows, DIM), 0)


SPARSE = {
    "one-hot": one_hot(256),
    "one-hot, few rows": one_hot(64),
    "each coordinate in turn": np.eye(DIM, dtype=np.float32),
    "half zero": half_zero(64),
    "one-hot heads": np.repeat(np.eye(DIM, dtype=np.float32)[:, None], 64, axis=1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SPARSE)
def test_zeros_hide_nothing_that_other_rows_show(name: str, layout: Any) -> None:
    before = SPARSE[name]
    rope = Rotary(head_dim=DIM, layout=layout)
    found = told(rope, np.arange(before.shape[-2]), before=before)
    assert found.recognised, found.reason
    assert (found.layout, found.base, found.precision) == (layout, 10_000.0, "exact")
    assert found.undetermined == ()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_pair_may_be_seen_at_far_positions_of_its_own(layout: Any) -> None:
    where = np.random.default_rng(1).integers(0, 4096, 512)
    found = told(
        Rotary(head_dim=DIM, layout=layout, direction="reversed", attention_factor=1.25),
        where,
        before=one_hot(512),
    )
    assert found.recognised, found.reason
    assert (found.layout, found.base, found.direction) == (layout, 10_000.0, "reversed")
    assert found.attention_factor == 1.25


def test_where_positions_begin_is_seen_as_well() -> None:
    where, rope = np.arange(256), Rotary(head_dim=DIM, layout="half")
    found = seen(rope, where + 7, given=where, before=one_hot(256)).found
    assert (found.base, found.position_offset) == (10_000.0, 7.0)


def test_a_pair_that_is_never_seen_is_not_made_up() -> None:
    before = normals(64, DIM)
    before[:, [3, 3 + DIM // 2]] = 0
    found = told(Rotary(head_dim=DIM, layout="half"), before=before)
    assert found.recognised, found.reason
    assert (found.layout, found.base) == ("half", 10_000.0)


def test_one_row_that_is_turned_otherwise_is_no_rounding() -> None:
    before = one_hot(256)
    rope = Rotary(head_dim=DIM, layout="half")
    after = rotate(before, rope, np.arange(256))
    after[100] = -after[100]
    found = identify(before, after, np.arange(256))
    assert not found.recognised
