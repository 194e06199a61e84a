"""Mistakes that turn one table of frequencies into another one, which was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ropecli.arrays import Array
from ropecli.checks.accuracy import table_roundings
from ropecli.checks.identify.family import (
    BASES,
    Frequencies,
    fit_geometric,
    is_round,
    roundest,
)
from ropecli.errors import RopecliError
from ropecli.rotary import Rotary
from ropecli.rotary.factors import mscale
from ropecli.rotary.formula import Formula
from ropecli.rotary.types.linear import linear
from ropecli.rotary.types.ntk import ntk
from ropecli.units import SINGLE

ALIKE = 1e-4  #: Relative difference of frequencies that are said to be the same.
#: Beginning of the words where no other mistake fits: angles are products of both.
COMMON_FACTOR = "positions or frequencies are multiplied by"
_SURE = 1e-3  #: Relative error within which a factor or a base is a round number.


def find_mistake(
    expected: Rotary, theta: Array, uncertainty: Array, alike: float = 0.0
) -> str | None:
    """Say which mistakes give the frequencies that were measured; None if none of them does.

    Several mistakes that give the same ones are named together, the simplest first. Frequencies
    are the same if they are `alike` relative to each other.
    """
    if len(theta) != len(expected.diagonal_inv_freq):
        return None
    seen = Frequencies(
        theta=theta,
        uncertainty=uncertainty,
        relative=np.maximum(table_roundings(expected) * SINGLE, alike),
        head_dim=expected.head_dim,
        axis=np.zeros(len(theta), dtype=np.int64),
    )
    if seen.misfit(expected.diagonal_inv_freq, expected.formula) <= 1:
        return None
    fitting = (words for words, made in _mistakes(seen, expected) if _fits(seen, made))
    names = list(dict.fromkeys(fitting)) or _common_factor(seen, expected)
    return f"either {' or '.join(names)}" if len(names) > 1 else next(iter(names), None)


def _fits(seen: Frequencies, made: Array | Formula) -> bool:
    if isinstance(made, Formula):
        try:
            made = made.table().inv_freq[: len(seen.theta)]
        except RopecliError:  # parameters that make no sense
            return False
    return seen.misfit(made) <= 1


def _mistakes(seen: Frequencies, expected: Rotary) -> Iterator[tuple[str, Array | Formula]]:
    """Yield what is one mistake away from an encoding's table, with the mistake."""
    table, formula = expected.diagonal_inv_freq, expected.formula
    if formula is not None:
        yield from _other_formulas(formula, seen)
        # Exponents begin late or early: what scales by the index is as it was.
        step = formula["base"] ** (-1 / formula["dim"])
        for words, by in {"half a pair": 1, "one pair": 2}.items():
            yield f"exponents {words} late", table * step**by
            yield f"exponents {words} early", table / step**by
        dim: Any = formula["dim"]
        for other in sorted({expected.head_dim, expected.rotary_dim} - {dim}):
            words = f"exponents over {other} coordinates, expected {dim}"
            yield words, formula.replace(dim=other)
    yield "the pairs in reverse", table[::-1]
    if formula is not None and formula.is_plain and len(table) > 1:
        fewer = np.arange(len(table)) / (len(table) - 1)
        yield "exponents over one pair fewer, d/2 - 1", formula["base"] ** -fewer
    if formula is not None and not formula.is_plain:
        yield from _upside_down(formula, table)


def _common_factor(seen: Frequencies, expected: Rotary) -> list[str]:
    """Return the factor of all frequencies, in words, if they have one."""
    table = expected.diagonal_inv_freq
    turning = seen.turning & (table > 0)
    if not turning.any():
        return []
    times = roundest(float(np.median(seen.theta[turning] / table[turning])), _SURE)
    return [describe_scale(times)] if seen.misfit(times * table) <= 1 else []


def describe_scale(scale: float) -> str:
    """Say by what angles are multiplied, the beginning of which is `COMMON_FACTOR`."""
    twice = ", or rows are rotated twice" if abs(scale / 2 - 1) <= _SURE else ""
    return f"{COMMON_FACTOR} {scale:.6g}{twice}"


def _other_formulas(formula: Formula, seen: Frequencies) -> Iterator[tuple[str, Formula]]:
    """Yield the formula without its scaling, with another base, and with other parameters."""
    title, base, keys = formula.title, formula["base"], formula.own
    if not formula.is_plain:
        yield f"base {base:.10g} without {title}", formula.unscaled
    for other in _bases(seen, formula):
        yield f"base {other:.10g}, expected {base:.10g}", formula.replace(base=other)
        if not formula.is_plain:
            plain = formula.unscaled.replace(base=other)
            yield f"base {other:.10g} without scaling, expected {title} over {base:.10g}", plain
    if "long_factor" in keys:
        lists = keys["short_factor"], keys["long_factor"]
        used, context = keys.get("sequence_length"), keys["original_max_position_embeddings"]
        names = ("long_factor", "short_factor")
        wrong, right = names[::-1] if used is not None and used > context else names
        swapped = formula.replace(short_factor=lists[1], long_factor=lists[0])
        yield f"{wrong}, expected {right}", swapped
    factor = keys.get("factor")
    if factor is None or formula.is_plain:
        return
    dim = formula["dim"]
    for name in (linear.__name__, ntk.__name__):
        if name != formula.rope_type:
            scaled = Formula.from_parameters(name, dim=dim, base=base, own={"factor": factor})
            yield f"{scaled.title}, expected {title}", scaled
    if "sequence_length" not in keys and dim > 2:
        stretched = base * factor ** (dim / (dim - 2))
        yield (
            f"{title} over an NTK-aware base, expected {base:.10g}",
            formula.replace(base=stretched),
        )
    for words, changed in {
        f"mscale {mscale(factor):.6g} for the factor {factor:.6g}": mscale(factor),
        f"the factor {factor:.6g} applied twice": factor**2,
        f"frequencies multiplied by the factor {factor:.6g}, not divided": 1 / factor,
    }.items():
        yield words, formula.replace(factor=changed)
    if "truncate" in formula.defaults:
        kept = keys.get("truncate", True)
        yield f"truncate {not kept}, expected {kept}", formula.replace(truncate=not kept)
    if context := keys.get("original_max_position_embeddings"):
        longer = round(context * factor)
        words = f"trained on {longer:,} positions, expected {context:,}"
        yield words, formula.replace(original_max_position_embeddings=longer)


def _upside_down(formula: Formula, table: Array) -> Iterator[tuple[str, Array]]:
    """Yield the table of a ramp between two tables that is one minus what it should be."""
    factor, plain = formula.get("factor"), formula.unscaled.table().inv_freq
    if factor and factor != 1 and len(plain) == len(table):
        slowed = 1 / factor
        kept = (table / plain - slowed) / (1 - slowed)
        words = "the ramp is upside down: fast pairs are slowed, slow ones kept"
        if np.ptp(kept) > _SURE:  # there is a ramp
            yield words, plain * (slowed + (1 - kept) * (1 - slowed))


def _bases(seen: Frequencies, formula: Formula) -> Iterator[float]:
    """Yield the base that the fastest pairs show, and those of many models."""
    geometric = fit_geometric(seen)
    tried: list[float] = []
    if geometric is not None and geometric[1] < 0:
        tried = [roundest(math.exp(min(-geometric[1] * formula["dim"] / 2, 700.0)), _SURE)]
        tried = tried if is_round(tried[0]) else []
    yield from (base for base in dict.fromkeys([*tried, *BASES]) if base != formula["base"])
