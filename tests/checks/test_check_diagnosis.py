"""What `check` says is wrong, in one sentence."""

from __future__ import annotations

import numpy as np
import pytest
from halves import DIM, HALF, Array, judged_once, turn, turned

import ropecli

pytestmark = pytest.mark.slow


def test_all_that_differs_is_said() -> None:
    expect = ropecli.Rotary(head_dim=DIM, layout="interleaved", base=500_000.0)
    diagnosis = judged_once(turn, expect=expect).diagnosis
    assert diagnosis is not None
    assert "expected interleaved" in diagnosis
    assert "; other frequencies: base 10000, expected 500000" in diagnosis


@pytest.mark.parametrize(
    ("told", "factor", "words"),
    [
        (False, 0, "; coordinates 16 to 31 come back as 0"),
        (True, 3, "; coordinates that are not rotated are multiplied by 3"),
    ],
)
def test_coordinates_in_no_pair_must_pass_through(told: bool, factor: int, words: str) -> None:
    part = ropecli.Rotary(head_dim=DIM, layout="half", rotary_dim=16)

    def rotate(x: Array, positions: Array) -> Array:
        angle = np.asarray(positions, float)[..., None] * part.inv_freq
        angle = angle[:, None] if angle.ndim == 3 and x.ndim == 4 else angle
        return np.concatenate([turned(x[..., :16], angle), factor * x[..., 16:]], axis=-1)

    diagnosis = judged_once(rotate, expect=part if told else None).diagnosis
    assert diagnosis is not None
    assert words in diagnosis


def test_what_was_expected_to_pass_through_is_named_beside_the_convention() -> None:
    diagnosis = judged_once(turn, expect=ropecli.Rotary(head_dim=DIM, rotary_dim=16)).diagnosis
    assert diagnosis is not None
    assert diagnosis.startswith("it rotates half-split, 32 coordinates from 0 on")
    assert diagnosis.endswith("; coordinates expected to pass through, 16 to 31, do not")


def test_axes_that_are_added_up_are_named() -> None:
    def added(x: Array, positions: Array) -> Array:
        return turn(x, np.asarray(positions).sum(axis=-1))

    diagnosis = judged_once(added, axes=2, context_length=512).diagnosis
    assert diagnosis is not None
    assert diagnosis.endswith("; pairs do not each follow one axis of the position")


def test_half_precision_is_named_with_its_cure() -> None:
    verdict = judged_once(lambda x, p: turn(x, np.asarray(p).astype(np.float16)))
    words = "float16 positions under float32 data: compute them in float32 at least"
    assert verdict.diagnosis == words


@pytest.mark.parametrize(("base", "right"), [(10_000.0, True), (500_000.0, False)])
def test_what_was_found_is_compared_with_what_is_expected(base: float, right: bool) -> None:
    expect = ropecli.Rotary(head_dim=DIM, layout="half", base=base)
    found = judged_once(turn, expect=expect, context_length=512).identified
    assert found is not None
    assert [each.matches for each in found.matches if each.name == "expected"] == [right]


def test_a_few_right_rows_are_no_beginning() -> None:
    """Eight of them are, and a row at position 0 is right in many a wrong one."""
    notes = {}
    for start in (5, 3000):
        verdict = judged_once(lambda x, p, s=start: turn(x, p + 0.5 * (p >= s)), expect=HALF)
        words = [each.note for each in verdict.checks if each.passed is False and each.note]
        notes[start] = any(note.startswith("rows are right up to") for note in words)
    assert notes == {5: False, 3000: True}
