"""Labels tell any two encodings apart, and say any float exactly."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropecli import Rotary, frequency_table, rope
from ropecli.render.labels import curve_label, label, sequences, shortest_repr


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_exact_means_the_very_same_float(number: float) -> None:
    assert float(shortest_repr(number)).hex() == number.hex()


@pytest.mark.parametrize(
    ("number", "text"),
    [(512.0, "512"), (1e6, "1000000"), (0.02, "0.02"), (1e22, "1e+22"), (-0.5, "-0.5"), (3, "3")],
)
def test_exact_is_short(number: float, text: str) -> None:
    assert shortest_repr(number) == text


def test_label_of_a_partial_encoding() -> None:
    assert label(Rotary(head_dim=64, rotary_dim=16)) == "dim 64, rotary dim 16, base 10000"


def test_label_without_a_base() -> None:
    assert label(Rotary.from_inv_freq([1.0, 0.5])) == "dim 4, custom frequencies"


def test_control_characters_of_a_name_are_spelled() -> None:
    # XML cannot hold them, and a terminal would obey them.
    named = frequency_table(Rotary(head_dim=4), name="a\x1b[31m")
    assert curve_label(named) == r"a\x1b[31m: dim 4, base 10000"


def test_bases_that_six_digits_do_not_tell_apart() -> None:
    assert label(Rotary(head_dim=4, base=10_000.001)) == "dim 4, base 10000.001"


def test_which_sequences_frequencies_are_for() -> None:
    lengths: dict[str, Any] = {"factor": 2.0, "max_position_embeddings": 64}
    dynamic = rope("dynamic", head_dim=8, **lengths)
    assert sequences(dynamic) == "short sequences"
    assert sequences(rope("dynamic", head_dim=8, **lengths, sequence_length=1000)) == (
        "sequences of 1,000"
    )
    assert sequences(rope("dynamic", head_dim=8, alpha=2.0)) is None
    assert sequences(rope("linear", head_dim=8, factor=2.0)) is None


@pytest.mark.parametrize(("long", "words"), [(1.0, None), (2.0, "short sequences")])
def test_lists_of_longrope_that_are_one(long: float, words: str | None) -> None:
    found = rope(
        "longrope",
        head_dim=8,
        short_factor=[1.0] * 4,
        long_factor=[long] * 4,
        original_max_position_embeddings=64,
        factor=2.0,
    )
    assert sequences(found) == words
