"""Values of a file of any type, and numbers in messages."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from ropecli.errors import RopecliError

Value = TypeVar("Value")


def number(value: object) -> float | None:
    """Return a finite number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        result = float(value)
    except OverflowError:
        return None
    return result if math.isfinite(result) else None


def whole(value: object) -> int | None:
    """Return a whole number, given as an integer or a float, or None for anything else."""
    result = number(value)
    return int(result) if result is not None and result.is_integer() else None


def numbers(value: object) -> list[float] | None:
    """Return a list of finite numbers, or None for anything else."""
    if not isinstance(value, list | tuple):
        return None
    values = [n for n in map(number, value) if n is not None]
    return values if len(values) == len(value) else None


def positive(value: object) -> float | None:
    """Return a finite number above 0, or None for anything else."""
    result = number(value)
    return result if result is not None and result > 0 else None


def value_or_none(call: Callable[[], Value]) -> Value | None:
    """Return the value of a call, or None if it raises an error of ropecli or of arithmetic."""
    try:
        return call()
    except (RopecliError, ArithmeticError):
        return None


def shown(value: float) -> str:
    """Format a number: whole or large ones with commas, others with five digits."""
    if abs(value) < 1e15 and (abs(value) >= 1e4 or float(value).is_integer()):
        return f"{value:,.0f}"
    return f"{value:.5g}"
