"""The frequencies command."""

from __future__ import annotations

from helpers import read_output


def test_wavelengths_beyond_all_digits_have_an_exponent() -> None:
    words = ["--dim", "8", "--base", "1e300"]
    alone, _ = read_output("frequencies", *words)
    assert "  slowest pair           3: 6.28319e+225 positions per turn, 6.519e-223 turns" in alone
    both, _ = read_output("frequencies", *words, "--base", "10000")
    assert max(map(len, both.splitlines())) <= 100
