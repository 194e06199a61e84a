"""The frozen value: its derived fields, its refusals, and equality."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from helpers import assert_within_ulps

from ropecli import ArgumentError, ArgumentTypeError, RopecliError, Rotary


def test_the_paper_s_encoding_is_the_default() -> None:
    rope = Rotary(head_dim=8)
    assert (rope.base, rope.layout, rope.rotary_dim, rope.rotary_offset) == (
        1e4,
        "interleaved",
        8,
        0,
    )
    assert (rope.direction, rope.attention_factor, rope.rope_type) == ("forward", 1.0, "default")
    assert rope.pairs_in.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert rope.inv_freq.dtype == np.float64
    # 10000^(-2i/8) = 10^-i; pow and the exponent's rounding, ln(10000) half-ulps and two.
    assert_within_ulps("inv_freq", got=rope.inv_freq, expected=[1, 0.1, 0.01, 0.001], ulps=6)


def test_rotary_dim_follows_the_table() -> None:
    rope = Rotary.from_inv_freq([1.0, 0.5, 0.0], head_dim=8, layout="half", attention_factor=1.25)
    assert (rope.rotary_dim, rope.base, rope.rope_type) == (6, None, "custom")
    assert rope.wavelength.tolist() == [2 * math.pi, 4 * math.pi, math.inf]


def test_factors_of_a_table_are_kept() -> None:
    made = Rotary.from_inv_freq([1.0, 0.5], attention_factor=2.0, softmax_factor=3.0)
    assert (made.attention_factor, made.softmax_factor) == (2.0, 3.0)


def test_equal_encodings_are_equal_and_hash_alike() -> None:
    listed = Rotary(head_dim=6, pairs_in=[[0, 3], [1, 4], [2, 5]])
    assert listed.layout == "half"
    assert listed == Rotary(head_dim=6, layout="half")
    assert hash(listed) == hash(Rotary(head_dim=6, layout="half"))
    assert Rotary(head_dim=6) != Rotary(head_dim=6, base=500_000.0)
    assert len({Rotary(head_dim=6), Rotary(head_dim=6), listed}) == 2


def test_pairs_listed_out_of_order_are_custom() -> None:
    assert Rotary(head_dim=4, pairs_in=[[1, 0], [2, 3]]).layout == "custom"
    written = Rotary(head_dim=4, pairs_out=[[0, 2], [1, 3]])
    assert (written.layout, written.reorders) == ("interleaved", True)  # as they are read


def test_offset_follows_listed_pairs() -> None:
    assert Rotary(head_dim=6, rotary_dim=4, pairs_in=[[2, 3], [4, 5]]).rotary_offset == 2


def test_it_is_frozen_and_hands_out_copies() -> None:
    rope = Rotary(head_dim=4)
    with pytest.raises(FrozenInstanceError):
        rope.base = 1.0  # type: ignore[misc]
    rope.inv_freq[0] = 7
    assert rope.inv_freq[0] == 1


def test_repr_shows_what_differs_from_plain() -> None:
    assert repr(Rotary(head_dim=4)) == "Rotary(head_dim=4, base=10000.0, layout='interleaved')"
    text = repr(
        Rotary(
            head_dim=8, rotary_dim=4, rotary_offset=2, direction="reversed", attention_factor=2.0
        )
    )
    for part in ("rotary_dim=4", "rotary_offset=2", "direction='reversed'", "attention_factor=2.0"):
        assert part in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"head_dim": 7}, "head dim must be an even number of at least 2, got 7"),
        ({"head_dim": 0}, "head dim must be an even number of at least 2, got 0"),
        ({"head_dim": 8, "rotary_dim": 3}, "rotary dim must be an even number"),
        ({"head_dim": 8, "rotary_dim": 10}, "must lie within the head dim 8, got rotary dim 10"),
        (
            {"head_dim": 8, "rotary_dim": 4, "rotary_offset": 6},
            "got rotary dim 4 from coordinate 6",
        ),
        ({"head_dim": 8, "rotary_offset": -1}, "from coordinate -1"),
        ({"head_dim": 8, "base": 0}, "base must be finite and above 0, got 0"),
        ({"head_dim": 8, "base": -1.0}, "base must be finite and above 0, got -1"),
        ({"head_dim": 8, "base": math.nan}, "base must be finite and above 0, got nan"),
        ({"head_dim": 8, "base": math.inf}, "base must be finite and above 0, got inf"),
        (
            {"head_dim": 128, "base": 5e-324},
            "large enough for finite frequencies, got 4.94066e-324",
        ),
        ({"head_dim": 8, "base": 10**400}, "base must be finite and above 0, got inf"),
        ({"head_dim": 2**21}, "head dim must be at most 1,048,576, got 2,097,152"),
        ({"head_dim": 8, "layout": "sideways"}, "layout must be interleaved or half"),
        ({"head_dim": 8, "direction": "up"}, "direction must be forward or reversed, got 'up'"),
        ({"head_dim": 8, "attention_factor": 0.0}, "attention factor must be finite and above 0"),
        ({"head_dim": 4, "pairs_in": [[0, 1]]}, "pairs_in must be integers of shape (2, 2)"),
        ({"head_dim": 4, "pairs_in": [[0, 1], [1, 2]]}, "must name different coordinates"),
        ({"head_dim": 4, "pairs_in": [[0, 1], [2, 4]]}, "from 0 to 3"),
        ({"head_dim": 4, "pairs_in": [[0.5, 1], [2, 3]]}, "pairs_in must be integers"),
        (
            {"head_dim": 6, "rotary_dim": 4, "pairs_out": [[2, 3], [4, 5]]},
            "pairs_out must name the same coordinates as pairs_in",
        ),
    ],
)
def test_values_out_of_range_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        Rotary(**arguments)
    assert message in str(caught.value)
    assert isinstance(caught.value, RopecliError | ValueError)


@pytest.mark.parametrize(
    "arguments",
    [
        {"head_dim": "8"},
        {"head_dim": 8.0},
        {"head_dim": True},
        {"head_dim": 8, "base": "big"},
        {"head_dim": 8, "rotary_offset": 1.5},
        {"head_dim": 8, "attention_factor": None},
        {"head_dim": 4, "pairs_in": [[0, 1], [2]]},
    ],
)
def test_wrong_types_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentTypeError):
        Rotary(**arguments)


@pytest.mark.parametrize("table", [["a", "b"], [1j, 2j], [[1.0], [1.0, 2.0]], None])
def test_tables_of_the_wrong_type(table: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="inv_freq must be"):
        Rotary.from_inv_freq(table)


def test_base_of_a_table_is_checked_too() -> None:
    with pytest.raises(ArgumentTypeError, match="base must be a number"):
        Rotary.from_inv_freq([1.0], base="x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "table", [[], [[[1.0]]], [[]], [[1.0]] * 17, [math.nan], [[1.0, math.inf]]]
)
def test_tables_that_are_refused(table: Any) -> None:
    with pytest.raises(ArgumentError, match="inv_freq must be finite numbers"):
        Rotary.from_inv_freq(table)
