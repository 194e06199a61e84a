"""Tables that change with the length of the sequence: from where they should, or too early."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conventions import made
from halves import CONTEXT, DIM, HALF, Array, failed, judged, judged_once, table, turn

import ropecli

pytestmark = pytest.mark.slow

ORIGINAL = 256


class ByLength:
    """Each sequence of a batch is turned by the table of its own length."""

    first = ORIGINAL + 1  #: Length from which the table is another one.

    def stretch(self, length: int) -> float:
        return 1.5 if length >= self.first else 1.0

    def factor(self, _length: int) -> float:
        return 1.0

    def forward(self, x: Array, positions: Array) -> Array:
        if positions.ndim == 2:
            return np.stack([self.forward(*row) for row in zip(x, positions, strict=True)])
        length = int(positions.max()) + 1
        return turn(x, positions, table() / self.stretch(length), self.factor(length))


class Longer(ByLength):
    """With an attention factor of long sequences."""

    def factor(self, length: int) -> float:
        return 1.25 if length >= self.first else 1.0


class TooEarly(ByLength):
    first = ORIGINAL


class Growing(ByLength):
    """Slower, the longer."""

    def stretch(self, length: int) -> float:
        return max(1.0, length / ORIGINAL)


def test_the_table_changes_after_the_original_length() -> None:
    options: dict[str, Any] = {"form": "module", "original_context_length": ORIGINAL}
    assert failed(judged_once(ByLength, **options)) == []
    assert failed(judged_once(TooEarly, **options)) == ["original length"]


def test_a_table_for_each_length_is_a_convention() -> None:
    verdict = judged(Growing, form="module", original_context_length=ORIGINAL, context_length=2048)
    assert failed(verdict) == []
    long = next(each for each in verdict.checks if each.name == "long positions")
    assert long.note == "the frequencies change with the length of the sequence"


@pytest.mark.parametrize("kind", [ByLength, Longer])
@pytest.mark.parametrize("context", [None, 200, CONTEXT])
def test_a_table_for_each_length_needs_no_original_length(kind: Any, context: int | None) -> None:
    assert failed(judged_once(kind, form="module", context_length=context)) == []


@pytest.mark.parametrize("length", [ORIGINAL - 1, ORIGINAL, ORIGINAL + 1])
def test_one_length_around_the_original_may_be_wrong_alone(length: int) -> None:
    def one(x: Array, positions: Array) -> Array:
        return turn(x, positions + 1 if x.shape[-2] == length else positions)

    verdict = judged_once(one, expect=HALF, original_context_length=ORIGINAL)
    assert failed(verdict) == ["original length"]


def test_dynamic_ntk_with_alpha_has_one_table() -> None:
    expect = ropecli.rope(
        "dynamic", head_dim=DIM, layout="half", alpha=1000.0, max_position_embeddings=64
    )

    def rotate(x: Array, positions: Array) -> Array:
        return turn(x, positions, expect.inv_freq)

    assert failed(judged_once(rotate, expect=expect, context_length=512)) == []


def test_two_pairs_of_a_short_sequence_are_as_sure_as_its_rows_show_them() -> None:
    """Two frequencies always fit a formula; negative positions are a sequence of 16 at most."""
    options: dict[str, Any] = {
        "short_factor": (1.2697867137638703, 1.6369616873214543),
        "long_factor": (1.6445777856126347, 2.597967433511593),
        "original_max_position_embeddings": 512,
        "max_position_embeddings": 1024,
    }

    def at(length: int) -> ropecli.Rotary:
        return ropecli.rope(
            "longrope", head_dim=4, rope_theta=1e6, sequence_length=length, **options
        )

    rotate = made(at(1), at_length=at)
    assert failed(judged_once(rotate, head_dim=4, context_length=None)) == []
