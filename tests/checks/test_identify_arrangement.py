"""The axes of arrays are found: that of the positions, and heads side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rotated import value_of

import ropecli
from ropecli import Rotary, identify, rotate

HEADS, COUNT, DIM = 3, 40, 16
X = np.random.default_rng(0).standard_normal((2, HEADS, COUNT, DIM)).astype(np.float32)
TABLE = Rotary.from_inv_freq(np.linspace(1, 0.05, DIM // 2), head_dim=DIM)  # of no formula

#: How arrays of (batch, heads, sequence, dim) are arranged, the axis of the positions, and heads.
ARRANGED: dict[str, tuple[Callable[[Any], Any], int, int]] = {
    "b h s d": (lambda x: x, 2, 1),
    "b s h d": (lambda x: x.swapaxes(1, 2), 1, 1),
    "s b h d": (lambda x: x.transpose(2, 0, 1, 3), 0, 1),
    "s h d": (lambda x: x[0].swapaxes(0, 1), 0, 1),
    "b s hd": (lambda x: x.swapaxes(1, 2).reshape(2, COUNT, -1), 1, HEADS),
    "s hd": (lambda x: x[0].swapaxes(0, 1).reshape(COUNT, -1), 0, HEADS),
    "s b hd": (lambda x: x.transpose(2, 0, 1, 3).reshape(COUNT, 2, -1), 0, HEADS),
}
ROPES = [
    Rotary(head_dim=DIM, layout="half"),
    Rotary(head_dim=DIM, layout="interleaved", base=500.0),
    Rotary(head_dim=DIM, layout="half", rotary_dim=8),
]


@pytest.mark.parametrize("name", ARRANGED)
@pytest.mark.parametrize("rope", ROPES, ids=["half", "interleaved", "partial"])
def test_axes_are_found(name: str, rope: Rotary) -> None:
    arrange, axis, heads = ARRANGED[name]
    found = identify(arrange(X), arrange(rotate(X, rope)))
    assert found.recognised, found.reason
    assert (found.sequence_axis, found.heads, found.vectors) == (axis, heads, arrange(X).size / DIM)
    assert (found.layout, found.base, found.rotary_dim) == (rope.layout, rope.base, rope.rotary_dim)
    named = identify(
        arrange(X), arrange(rotate(X, rope)), head_dim=DIM, sequence_axis=axis - arrange(X).ndim
    )
    assert (named.base, named.sequence_axis, named.heads) == (rope.base, axis, heads)


def test_positions_say_which_axis_is_theirs() -> None:
    where = np.arange(COUNT) + 100
    after = rotate(X, ROPES[0], positions=where).swapaxes(1, 2)
    found = identify(X.swapaxes(1, 2), after, where)
    assert (found.recognised, found.sequence_axis, found.position_offset) == (True, 1, 0)
    with pytest.raises(
        ropecli.ArgumentError, match=r"positions must have shape \(3,\) or \(2, 3\)"
    ):
        identify(X.swapaxes(1, 2), after, where[1:])


@pytest.mark.slow
def test_a_table_of_no_formula_is_split_by_its_head_dim_alone() -> None:
    """Equal tables side by side may be one table as well."""
    arrange = ARRANGED["s hd"][0]
    before, after = arrange(X), arrange(rotate(X, TABLE))
    found = identify(before, after)
    assert (found.recognised, found.heads, found.rotary_dim) == (True, 1, HEADS * DIM)
    found = identify(before, after, candidates={"own": TABLE})
    assert (found.recognised, found.heads, found.rotary_dim) == (True, HEADS, DIM)
    assert identify(before, after, head_dim=DIM).heads == HEADS


def test_another_axis_is_no_way_out() -> None:
    """Vectors that no formula explains along the last axis but one are refused for that axis."""
    after = rotate(X, ROPES[0])
    after[:, 1] = X[:, 1]
    found = identify(X, after)
    assert not found.recognised
    assert (found.sequence_axis, found.shape) == (2, X.shape)
    assert value_of(found.parting).where == "rows 1 to 39, index 1 of axis 1"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"head_dim": 6}, r"head dim must divide the last axis, got 6 for shape \(2, 3, 40, 16\)"),
        ({"head_dim": 5}, "head dim must be an even number"),
        ({"sequence_axis": 3}, "sequence axis must be from 0 to 2 or from -4 to -2, got 3"),
    ],
)
def test_axes_that_do_not_exist_are_refused(given: dict[str, int], message: str) -> None:
    with pytest.raises(ropecli.ArgumentError, match=message):
        identify(X, X, **given)  # type: ignore[arg-type]
