"""Names that a caller gives: refusals, and suggestions."""

from __future__ import annotations

import pytest

from ropecli.errors import ArgumentError
from ropecli.names import one_of, quote

LAYOUTS = ("interleaved", "half")
DTYPES = ("float64", "float32", "float16", "bfloat16")


def test_a_name_that_is_allowed_is_returned() -> None:
    assert one_of("layout", "half", LAYOUTS) == "half"


@pytest.mark.parametrize(
    ("value", "allowed", "message"),
    [
        ("neox", LAYOUTS, "interleaved or half, got 'neox'; neox is half"),
        ("GPT_J", LAYOUTS, "interleaved or half, got 'GPT_J'; GPT_J is interleaved"),
        ("Half", LAYOUTS, "interleaved or half, got 'Half'; did you mean half?"),
        (
            "intreleaved",
            LAYOUTS,
            "interleaved or half, got 'intreleaved'; did you mean interleaved?",
        ),
        (
            "bfloat",
            DTYPES,
            "one of float64, float32, float16, bfloat16, got 'bfloat'; did you mean bfloat16?",
        ),
        ("half", DTYPES, "one of float64, float32, float16, bfloat16, got 'half'; half is float16"),
        ("xyz", LAYOUTS, "interleaved or half, got 'xyz'"),
        (3, LAYOUTS, "interleaved or half, got 3"),
    ],
)
def test_another_name_is_refused(value: object, allowed: tuple[str, ...], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        one_of("it", value, allowed)
    assert str(caught.value) == f"it must be {message}"


@pytest.mark.parametrize(
    ("length", "shown"),
    [(58, f"'{'x' * 58}'"), (59, f"'{'x' * 56}...")],  # a message has 60 letters of a value
)
def test_a_long_value_is_cut(length: int, shown: str) -> None:
    assert quote("x" * length) == shown
