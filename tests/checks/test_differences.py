"""How the rotation found differs from the one expected, in the words of check, identify, trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ropecli
from ropecli import Rotary
from ropecli.checks.identify.differences import compare_positions, list_differences

HALF = Rotary(head_dim=16, layout="half")
PAPER = Rotary(head_dim=16)
CUSTOM = Rotary(head_dim=16, pairs_in=[[2 * i, (2 * i + 3) % 16] for i in range(8)])
YARN: dict[str, Any] = {"factor": 4.0, "original_max_position_embeddings": 64}
EXPECTED = [
    (HALF, PAPER, "layout half, expected interleaved"),
    (PAPER, CUSTOM, "pairs (0, 1), ..., expected (0, 3), ... (custom)"),
    (
        HALF,
        Rotary(head_dim=16, layout="half", rotary_dim=8),
        "rotary dim 16, expected 8; pairs (i, i + 8), expected (i, i + 4)",
    ),
    (
        Rotary(head_dim=16, rotary_dim=8),
        Rotary(head_dim=16, rotary_dim=8, rotary_offset=8),
        "rotary offset 0, expected 8",
    ),
    (
        Rotary(head_dim=16, pairs_out=HALF.pairs_in),
        PAPER,
        "pairs written to (i, i + 8), expected where they are read",
    ),
    (
        Rotary(head_dim=16, layout="half", direction="reversed", attention_factor=1.25),
        HALF,
        "direction reversed, expected forward; attention factor 1.25, expected 1",
    ),
    (HALF, HALF.with_axis([0] * 4 + [1] * 4), "axes of the pairs 8, expected 4/4: pair 4 follows"),
    (HALF, Rotary(head_dim=16, layout="half", base=500.0), "base 10000, expected 500"),
    (
        ropecli.rope("yarn", head_dim=16, **YARN | {"factor": 5.0}),
        ropecli.rope("yarn", head_dim=16, **YARN),
        "factor 5, expected 4; attention factor 1.16094, expected 1.13863",
    ),
    (
        ropecli.rope("yarn", head_dim=16, **YARN | {"beta_fast": 2.0, "attention_factor": 1.5}),
        ropecli.rope("yarn", head_dim=16, **YARN),
        "beta_fast 2, expected its default; attention factor 1.5, expected 1.13863",
    ),
    (
        ropecli.rope("yarn", head_dim=16, **YARN | {"factor": 1.65737052099, "beta_fast": 8.0}),
        ropecli.rope("yarn", head_dim=16, **YARN),
        "other frequencies: pair ",
    ),
    (
        ropecli.rope("linear", head_dim=16, factor=4.0),
        PAPER,
        "frequencies of linear, base 10000, factor 4, expected default, base 10000",
    ),
    (
        PAPER.with_inv_freq(3 * PAPER.inv_freq),
        PAPER,
        "positions or frequencies are multiplied by 3",
    ),
    (
        PAPER.with_inv_freq(np.where(np.arange(8) == 5, 0.5, PAPER.inv_freq)),
        PAPER,
        "other frequencies: pair 5 rotates by 0.5 per position, expected 0.00316228",
    ),
    (
        PAPER,
        ropecli.rope("xpos", head_dim=16, scale_base=512),
        "lengths constant, expected growing",
    ),
]


@pytest.mark.parametrize(("found", "expected", "words"), EXPECTED, ids=[w for *_, w in EXPECTED])
def test_each_difference_is_named(found: Rotary, expected: Rotary, words: str) -> None:
    assert "; ".join(list_differences(found, expected)).startswith(words)


@pytest.mark.parametrize("rope", [HALF, PAPER, CUSTOM, ropecli.rope("yarn", head_dim=16, **YARN)])
def test_a_rotation_does_not_differ_from_itself(rope: Rotary) -> None:
    assert list_differences(rope, rope) == []


def test_details_say_what_to_do_or_how_much_it_is() -> None:
    found = Rotary(head_dim=16, layout="half", base=500.0, attention_factor=1.5625)
    expected = Rotary(head_dim=16, attention_factor=1.25)
    assert list_differences(found, expected, details=True) == [
        "layout half, expected interleaved: permute the q/k weights or pair (2i, 2i+1)",
        "base 500, expected 10000; pair 7 rotates by 0.00434912 per position, expected 0.000316228",
        "attention factor 1.5625, expected 1.25: it is applied twice",
    ]


@pytest.mark.parametrize(
    ("step", "offset", "expected", "words"),
    [
        (1.0, 0.0, 0.0, None),
        (1.0, 2.0, 2.0, None),
        (1.0, -1.0, 0.0, "positions are off by -1"),
        (1.0, 3.0, 1.0, "positions are off by +2: offset 3, expected 1"),
        (0.5, 0.0, 0.0, "positions or frequencies are multiplied by 0.5"),
        (2.0, 0.0, 0.0, "positions or frequencies are multiplied by 2, or rows are rotated twice"),
    ],
)
def test_positions_that_differ(
    step: float, offset: float, expected: float, words: str | None
) -> None:
    assert compare_positions(step, offset, expected, 1e-3) == words
