"""The rope types whose formula gives a table that was measured."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.checks.identify.scaled import Guess, scaled, through
from ropecli.checks.identify.table import (
    CLEARLY,
    geometric_start,
    is_round,
    roundest,
    roundings,
)
from ropecli.rotary.formula import Formula
from ropecli.rotary.types.axial import axial
from ropecli.rotary.types.default import default
from ropecli.rotary.types.linear import linear
from ropecli.rotary.types.ntk import ntk
from ropecli.rotary.types.ntk_mixed import ntk_mixed
from ropecli.rotary.types.proportional import proportional
from ropecli.units import DOUBLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ropecli.checks.identify.table import Seen

    Array = NDArray[np.float64]

BASES = (10_000.0, 500_000.0, 1_000_000.0, 5_000_000.0)  #: That many models have.

_LARGEST = 6.0  #: Logarithm of a logarithm: of factors up to e^403.

#: Not round by nature: a length as measured, and a share of counted pairs.
_FROM_ELSEWHERE = ("attention_factor", "partial_rotary_factor")


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """A formula with its arguments, and how far it is off."""

    rope_type: str  #: A file of `ropecli.rotary.types`.
    dim: int  #: Denominator of the exponents.
    base: float
    parameters: dict[str, Any] = field(default_factory=dict)  #: The type's own.
    table: Array  #: What the formula gives.
    attention_factor: float  #: Likewise.
    off: float  #: As a share of the tolerance; up to 1 fits.

    @property
    def formula(self) -> Formula:
        """The formula with its arguments."""
        return Formula.from_parameters(
            self.rope_type, dim=self.dim, base=self.base, own=self.parameters
        )

    @property
    def is_round(self) -> bool:
        """Whether base and parameters have few digits, those aside that come from elsewhere."""
        own = {key: value for key, value in self.parameters.items() if key not in _FROM_ELSEWHERE}
        return is_round(self.base) and all(
            is_round(number, digits=2) for number in own.values() if isinstance(number, float)
        )


def fits(seen: Seen, dims: tuple[int, ...], attention_factor: float) -> list[Fit]:
    """Formulas for the table, the simplest that fit first, then the others by how far off.

    Args:
        seen: What was measured.
        dims: Coordinates that are rotated, and other denominators that exponents may have.
        attention_factor: What lengths were multiplied by: some types bring their own.
    """
    tried = []
    for formula, dimension, base, parameters in _guesses(seen, dims, attention_factor):
        try:
            made = formula(dim=dimension, base=base, **parameters)
        except (ValueError, ArithmeticError):  # nonsense made of noise
            continue
        table = made.inv_freq[: len(seen.theta)]
        count = len(table)
        if made.axis and (np.array(made.axis) != seen.axis[:count])[seen.visible[:count]].any():
            continue
        padded = np.concatenate([table, np.zeros(len(seen.theta) - len(table))])
        tried.append(
            Fit(
                rope_type=formula.__name__,
                dim=dimension,
                base=base,
                parameters=parameters,
                table=padded,
                attention_factor=made.attention_factor,
                off=seen.off(padded),
            )
        )
    good = [fit for fit in tried if fit.off <= 1]
    return good + sorted((fit for fit in tried if fit.off > 1), key=lambda fit: fit.off)


def _guesses(seen: Seen, dims: tuple[int, ...], attention_factor: float) -> Iterator[Guess]:
    """Types and parameters worth trying: those with round bases first, and simple ones."""
    guesses = [*_axial(seen, dims[0]), *_along_one_line(seen, dims, attention_factor)]
    yield from sorted(guesses, key=lambda guess: not is_round(guess[2]))


def _along_one_line(seen: Seen, dims: tuple[int, ...], attention_factor: float) -> Iterator[Guess]:
    found = geometric_start(seen)
    if found is None:
        if len(seen.theta) == 1:
            yield default, 2, BASES[0], {}  # whatever the base
        return
    start, step, kept = found
    if step >= 0:
        return
    sure = _sureness(seen, kept)
    bases = sorted(
        (
            (d, base)
            for d in dict.fromkeys((*dims, seen.head_dim))
            for base in _bases(step, d, sure)
        ),
        key=lambda pair: _digits(pair[1]),
    )
    first = roundest(math.exp(-start), sure)
    turning = int(np.flatnonzero(seen.visible).max(initial=-1)) + 1
    for d, base in bases:
        yield default, d, base, {}
    for d, base in bases:
        share = {"partial_rotary_factor": 2 * turning / d}
        if 2 * turning < d:
            yield proportional, d, base, share
        if first != 1:
            yield linear, d, base, {"factor": first}
        if 2 * turning < d and first != 1:
            yield proportional, d, base, share | {"factor": first}
    yield from _ntk(dims[0], _bases(step, dims[0], sure)[-1], sure)
    for d, base in bases:
        yield from scaled(seen, d, base, kept, attention_factor)
    for base in BASES:  # what the fastest pairs say is not all there is, where all are stretched
        yield from _mixed(seen, dims[0], base)


def _sureness(seen: Seen, kept: int) -> float:
    """How well the base is known, relative: half the table's length times the error of a step."""
    index = np.arange(kept)
    weight = (seen.theta[:kept] / (seen.uncertainty[:kept] + 2 * DOUBLE * seen.theta[:kept])) ** 2
    spread = weight @ (index - index @ weight / weight.sum()) ** 2
    chance = CLEARLY / math.sqrt(spread)
    # Errors of the table itself are alike from pair to pair, more or less.
    return float(len(seen.theta) * (chance + 4 * seen.relative / kept))


def _bases(step: float, dim: int, sure: float) -> list[float]:
    return roundings(math.exp(min(-step * dim / 2, 700.0)), sure)


def _digits(value: float) -> int:
    """Digits that it takes to write a number."""
    return len(f"{value:.17g}".partition("e")[0].replace(".", "").strip("0"))


def _ntk(dim: int, larger: float, sure: float) -> Iterator[Guess]:
    """base * factor^(d/(d-2)) of round numbers."""
    for base in BASES:
        if dim > 2 and larger > base:
            factor = roundest((larger / base) ** ((dim - 2) / dim), sure)
            if is_round(factor) and factor != 1:
                yield ntk, dim, base, {"factor": factor}


def _mixed(seen: Seen, dim: int, base: float) -> Iterator[Guess]:
    """ln(plain / theta) = ln(factor) ((i + 1) / (d/2))^b: a line in logarithms of logarithms."""
    plain = base ** (-2 * np.arange(dim // 2) / dim)
    if len(plain) != len(seen.theta) or (seen.theta <= 0).any() or not seen.visible.all():
        return
    fall = np.log(plain / seen.theta)
    if (fall <= 0).any():
        return
    place = np.log(np.arange(1, dim // 2 + 1) / (dim / 2))
    # A frequency's tolerance is that of its logarithm, which the second logarithm divides by.
    b, log_log, off = through(place, np.log(fall), seen.tolerance / (fall * np.abs(seen.theta)))
    if b > 0 and log_log < _LARGEST:
        factor = roundest(math.exp(math.exp(log_log)), math.exp(log_log) * off[1])
        own = {"factor": factor, "mixed_b": roundest(b, off[0] / b)}
        yield ntk_mixed, dim, base, own


def _axial(seen: Seen, dim: int) -> Iterator[Guess]:
    """The same table for each axis, or one that the axes deal out."""
    axes = int(seen.axis.max()) + 1
    own = np.flatnonzero(seen.axis == seen.axis[0])
    found = geometric_start(
        replace(seen, theta=seen.theta[own], uncertainty=seen.uncertainty[own], axis=seen.axis[own])
    )
    if axes < 2 or found is None or found[1] >= 0:
        return
    base = _bases(found[1], 2 * len(own), _sureness(seen, found[2]))[0]
    for order in itertools.permutations(range(axes)):
        for take_turns, deal_out in itertools.product((False, True), repeat=2):
            parameters = {"axes": axes, "axis_order": order}
            yield axial, dim, base, parameters | {"take_turns": take_turns, "deal_out": deal_out}
