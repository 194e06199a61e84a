"""Checks of numbers that a caller gives."""

from __future__ import annotations

import math

import numpy as np

from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.names import quote

LARGEST_DIM = 2**20  #: A thousand times any model's; more is a mistake, and would take hours.


def integer(name: str, value: object) -> int:
    """The value as an int."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ArgumentTypeError(f"{name} must be an integer, got {quote(value)}")
    return int(value)


def at_least(name: str, value: object, least: int) -> int:
    """The value as an int from `least` on."""
    result = integer(name, value)
    if result < least:
        raise ArgumentError(f"{name} must be at least {least}, got {result}")
    return result


def between(name: str, value: object, least: int, most: int) -> int:
    """The value as an int from `least` to `most`."""
    result = integer(name, value)
    if not least <= result <= most:
        power = most.bit_length() - 1
        limit = f"2^{power}" if power > 30 and most == 2**power else f"{most:,}"
        raise ArgumentError(f"{name} must be from {least} to {limit}, got {quote(result)}")
    return result


def even(name: str, value: object) -> int:
    """The value as an even int from 2 to LARGEST_DIM."""
    dim = integer(name, value)
    if dim < 2 or dim % 2:
        raise ArgumentError(f"{name} must be an even number of at least 2, got {dim}")
    if dim > LARGEST_DIM:
        raise ArgumentError(f"{name} must be at most {LARGEST_DIM:,}, got {dim:,}")
    return dim


def number(name: str, value: object) -> float:
    """The value as a finite float."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ArgumentTypeError(f"{name} must be a number, got {quote(value)}")
    try:
        result = float(value)
    except OverflowError:  # an integer beyond every float
        result = math.inf
    if not math.isfinite(result):
        raise ArgumentError(f"{name} must be finite, got {result:g}")
    return result


def positive(name: str, value: object) -> float:
    """The value as a finite float above 0."""
    result = _finite_or_nan(name, value)
    if not result > 0:
        raise ArgumentError(f"{name} must be finite and above 0, got {_as_float(value)}")
    return result


def not_negative(name: str, value: object) -> float:
    """The value as a finite float of at least 0."""
    result = _finite_or_nan(name, value)
    if not result >= 0:
        raise ArgumentError(f"{name} must be finite and at least 0, got {_as_float(value)}")
    return result


def _finite_or_nan(name: str, value: object) -> float:
    try:
        return number(name, value)
    except ArgumentError:
        return math.nan


def _as_float(value: object) -> str:
    try:
        return f"{float(value):g}"  # type: ignore[arg-type]
    except OverflowError:
        return "inf"


def length(name: str, value: object) -> int:
    """The value as a number of positions; a float that is whole counts, as in some files."""
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return between(name, whole, 1, 2**53)


def increasing(low_name: str, low: object, high_name: str, high: object) -> tuple[float, float]:
    """Two positive numbers, the first below the second."""
    small, large = positive(low_name, low), positive(high_name, high)
    if small >= large:
        raise ArgumentError(f"{low_name} must be below {high_name}, got {small:g} and {large:g}")
    return small, large


def stretched_base(base: float, stretch: float, dim: int) -> float:
    """base * stretch^(d/(d-2)): the slowest of d/2 pairs is then divided by the stretch."""
    if dim < 4:
        raise ArgumentError(f"rotary dim must be at least 4 for a stretched base, got {dim}")
    try:
        return positive("stretched base", base * stretch ** (dim / (dim - 2)))
    except OverflowError:
        raise ArgumentError(
            f"stretched base must be finite, got {base:g} * {stretch:g}^({dim}/{dim - 2})"
        ) from None
