"""What vectors are drawn with."""

from __future__ import annotations

from ropecli.errors import ArgumentError
from ropecli.numbers import integer


def checked_seed(value: object) -> int:
    """The seed of a random number generator.

    Raises:
        ArgumentError: Below 0.
        ArgumentTypeError: Not an integer.
    """
    seed = integer("seed", value)
    if seed < 0:
        msg = f"seed must be at least 0, got {seed}"
        raise ArgumentError(msg)
    return seed
