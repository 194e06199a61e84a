"""Right code passes however its arguments may broadcast, and its wrong twin fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from implementations.plain import Array, inv_freq
from implementations.signatures import (
    CONTEXT,
    DIM,
    SIGNATURES,
    Signature,
    apply,
    right,
    tables,
)
from judging import failures, refusals

from ropecli.checks.implementation.calling.find import CallError
from ropecli.checks.implementation.check import Verdict, check

pytestmark = pytest.mark.slow


def judge(target: Any, **options: Any) -> Verdict:
    given: dict[str, Any] = {
        "head_dim": DIM,
        "context_length": CONTEXT,
        "dtypes": "float32",
        "select": ["rotation", "every shape", "batched positions"],
        "isolated": False,
    }
    verdict: Verdict = check(target, **given | options)
    return verdict


EVERY = [pytest.param(each, id=each.make.__name__) for each in SIGNATURES]


def test_there_are_enough() -> None:
    assert len(SIGNATURES) >= 15


@pytest.mark.parametrize("signature", EVERY)
def test_the_right_one_passes_in_its_axes(signature: Signature) -> None:
    verdict = judge(signature.make(right))
    assert (verdict.passed, refusals(verdict)) == (True, [])
    if signature.axes not in verdict.arrangements:  # tables with other axes are as right
        assert judge(signature.make(right), axes_of_x=signature.axes).passed


@pytest.mark.parametrize("signature", EVERY)
def test_the_wrong_one_fails(signature: Signature) -> None:
    verdict = judge(signature.make(signature.broken))
    assert verdict.passed is False, verdict.arrangements


# What an argument promises.


def first_positions(x: Array, offsets: Array) -> Array:
    """Rotate by first positions, which are added along the tokens."""
    cos, sin = tables(offsets + np.arange(x.shape[-2]))
    return apply(x, cos, sin)


def documented(x: Array, offsets: Array) -> Array:
    """Rotate.

    offsets: first position of each sequence, (batch,).
    """
    return first_positions(x, offsets)


def documented_in_a_sentence(x: Array, offsets: Array) -> Array:
    """Rotate x (b, h, s, d) from the positions offsets (b,) on."""
    return first_positions(x, offsets)


def annotated(x: Array, offsets: Array) -> Array:
    return first_positions(x, offsets)


annotated.__annotations__["offsets"] = "Int[Array, 'batch']"


def of_one_sequence(x: Array, offsets: Array) -> Array:
    assert offsets.shape == (1,)
    return first_positions(x, offsets)


@pytest.mark.parametrize(
    ("target", "options"),
    [
        (first_positions, {"call": "first_positions(x, offsets)"}),
        (documented, {}),
        (annotated, {}),
        (documented_in_a_sentence, {}),
    ],
)
def test_a_batch_that_was_promised_and_raises_is_a_failure(target: Any, options: Any) -> None:
    verdict = judge(target, **options)
    assert failures(verdict) == ["batched positions"]
    assert "batches raise: ValueError" in str(verdict.diagnosis)


def test_a_batch_that_a_name_seems_to_promise_and_that_raises_is_in_line_1() -> None:
    verdict = judge(of_one_sequence)
    assert verdict.passed
    line = str(verdict).splitlines()[0]
    assert line.endswith(", of one sequence only: batches raise")


# Coordinates of positions come first, as Qwen-VL and GLM-V take them, or last.


def by_coordinates(x: Array, position_ids: Array) -> Array:
    """Runs of pairs follow the coordinates of position_ids (batch, sequence, coordinates)."""
    of_pairs = np.repeat([0, 1, 2], [2, 3, 3])
    angles = position_ids[..., of_pairs] * inv_freq(DIM)
    cos, sin = (f(np.concatenate([angles, angles], axis=-1))[:, None] for f in (np.cos, np.sin))
    return apply(x, cos, sin)


def coordinates_first(x: Array, position_ids: Array) -> Array:
    if position_ids.shape[0] != 3 or position_ids.ndim != 3:
        raise ValueError(f"position_ids must be (3, batch, sequence), got {position_ids.shape}")
    return by_coordinates(x, np.moveaxis(position_ids, 0, -1))


def coordinates_first_or_shared(x: Array, position_ids: Array) -> Array:
    if position_ids.ndim == 2:  # as Transformers takes them for text
        position_ids = np.broadcast_to(position_ids, (3, *position_ids.shape))
    return coordinates_first(x, position_ids)


def coordinates_last(x: Array, position_ids: Array) -> Array:
    assert position_ids.shape[-1] == 3
    return by_coordinates(x, position_ids)


def of_the_first(x: Array, position_ids: Array) -> Array:
    """All sequences have the positions of the first one."""
    return coordinates_first(x, np.broadcast_to(position_ids[:, :1], position_ids.shape))


@pytest.mark.parametrize(
    ("target", "axes"),
    [
        (coordinates_first, "c b s"),
        (coordinates_first_or_shared, "c b s"),
        (coordinates_last, "s"),
    ],
)
def test_coordinates_of_positions_come_first_or_last(target: Any, axes: str) -> None:
    verdict = judge(target, axes=3)
    assert (verdict.passed, refusals(verdict)) == (True, [])
    assert verdict.convention.axes_of_positions == axes


def test_coordinates_of_another_sequence_are_found() -> None:
    assert judge(of_the_first, axes=3, select=["rotation", "every shape"]).passed is False


# No verdict without rows.


def test_nothing_is_judged_without_rows() -> None:
    left = [40]  #: Calls that are answered.

    def tires(x: Array, positions: Array) -> Array:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("no more calls")
        return apply(x, *tables(positions))

    with pytest.raises(CallError, match=r"no row was: .*positions.*: RuntimeError: no more calls"):
        judge(tires)


def test_checks_that_say_nothing_are_no_verdict() -> None:
    with pytest.raises(CallError, match="it takes no keys"):
        judge(lambda x, positions: apply(x, *tables(positions)), select="keys")
