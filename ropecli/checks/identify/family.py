"""Rope types whose formula gives a table of frequencies that was measured."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array, Index
from ropecli.checks.accuracy import formula_roundings
from ropecli.checks.identify.lines import CLEARLY
from ropecli.rotary.factors import mscale_ratio
from ropecli.rotary.formula import Formula
from ropecli.rotary.frequencies import Table
from ropecli.rotary.types.axial import axial
from ropecli.rotary.types.default import default
from ropecli.rotary.types.linear import linear
from ropecli.rotary.types.llama3 import llama3
from ropecli.rotary.types.ntk import ntk
from ropecli.rotary.types.ntk_by_parts import ntk_by_parts
from ropecli.rotary.types.ntk_mixed import ntk_mixed
from ropecli.rotary.types.proportional import proportional
from ropecli.rotary.types.yarn import yarn
from ropecli.units import DOUBLE, SINGLE, TINY

#: The formula of a rope type, dim, base and the type's own parameters.
Guess = tuple[Callable[..., Table], int, float, dict[str, Any]]

FACTOR = 2.0**-9  #: Relative error of all lengths that tables in half precision may cause.
_LEAST, _MOST = 10.0, 1e10  #: Bases of models are between these.
BASES = (10_000.0, 500_000.0, 1_000_000.0, 5_000_000.0)  #: Bases of many models.
CONTEXTS = tuple(2**power for power in range(9, 21))  #: Context lengths of pre-training.

#: Share of the tolerance up to which a formula may explain it by magnifying errors of its powers.
_MAGNIFIED = 64
_DIGITS = 4  #: Significant digits of a round number; with more, chance makes one.
_SAME_BASE = 1e-5  #: Relative error up to which a measured base is one of two digits.
_LARGEST = 6.0  #: Logarithm of a logarithm: of factors up to e^403.
#: Parameters that are not round by nature: a length as measured, and a share of counted pairs.
_MEASURED = ("attention_factor", "partial_rotary_factor")


@dataclass(frozen=True, kw_only=True, eq=False)
class Frequencies:
    """Frequencies as measured, in the order of a table, those of forward rotations above 0."""

    theta: Array  #: (pairs,), radians per position.
    uncertainty: Array  #: (pairs,), one standard deviation.
    relative: Array  #: (pairs,), relative error that a table in lower precision may have.
    head_dim: int  #: Coordinates of a head.
    axis: Index  #: (pairs,), coordinate of the position that rotates each.

    @property
    def tolerance(self) -> Array:
        """Largest error that a table may have, (pairs,)."""
        return CLEARLY * self.uncertainty + self.relative * np.abs(self.theta)

    @property
    def turning(self) -> NDArray[np.bool_]:
        """Pairs that clearly turn with the position."""
        return np.abs(self.theta) > CLEARLY * self.uncertainty

    def misfit(self, table: Array, formula: Formula | None = None) -> float:
        """Return the largest difference as a share of the tolerance: up to 1, the table fits."""
        if len(table) != len(self.theta):
            return np.inf
        apart = np.abs(table - self.theta)
        share = float((apart / np.maximum(self.tolerance, TINY)).max(initial=0.0))
        if formula is None or not 1 < share < _MAGNIFIED:
            return share
        relative = np.maximum(self.relative, formula_roundings(table, formula) * SINGLE)
        return replace(self, relative=relative).misfit(table)


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """A formula with its arguments, and its misfit."""

    rope_type: str  #: A file of `ropecli.rotary.types`.
    dim: int  #: Denominator of the exponents.
    base: float
    parameters: dict[str, Any] = field(default_factory=dict)  #: The type's own.
    table: Array  #: (pairs,), frequencies by the formula.
    attention_factor: float  #: Attention factor by the formula.
    misfit: float = math.inf  #: Share of the tolerance: up to 1, it fits.

    @property
    def formula(self) -> Formula:
        """The formula with its arguments."""
        return Formula.from_parameters(
            self.rope_type, dim=self.dim, base=self.base, own=self.parameters
        )

    @property
    def is_round(self) -> bool:
        """True if base and parameters have few digits, except those that are measured."""
        parameters = {key: value for key, value in self.parameters.items() if key not in _MEASURED}
        return is_round(self.base) and all(
            is_round(number, digits=2)
            for number in parameters.values()
            if isinstance(number, float)
        )


def fit_formulas(seen: Frequencies, dims: tuple[int, ...], attention_factor: float) -> list[Fit]:
    """Return formulas for the table: the simplest that fit first, the others by their misfit."""
    fits = []
    guesses = [*_axial(seen, dims[0]), *_plain_and_scaled(seen, dims, attention_factor)]
    # Round bases go first, and of these the simple types.
    by_base = sorted(guesses, key=lambda each: (_is_absurd(each[2]), not is_round(each[2])))
    for formula, dim, base, parameters in by_base:
        try:
            made = formula(dim=dim, base=base, **parameters)
        except (ValueError, ArithmeticError):  # noise can suggest parameters that make no sense
            continue
        table = made.inv_freq[: len(seen.theta)]
        count = len(table)
        if made.axis and (np.array(made.axis) != seen.axis[:count])[seen.turning[:count]].any():
            continue
        padded = np.concatenate([table, np.zeros(len(seen.theta) - count)])
        fit = Fit(
            rope_type=formula.__name__,
            dim=dim,
            base=base,
            parameters=parameters,
            table=padded,
            attention_factor=made.attention_factor,
        )
        fits.append(replace(fit, misfit=seen.misfit(padded, fit.formula)))
    others = sorted((fit for fit in fits if fit.misfit > 1), key=lambda fit: fit.misfit)
    return [fit for fit in fits if fit.misfit <= 1] + others


def fit_geometric(seen: Frequencies) -> tuple[float, float, int] | None:
    """Fit the fastest pairs, which every scaling leaves in one ratio.

    Returns:
        ln of the first frequency, ln of the ratio of neighbours, and the number of pairs that keep
        to it; None if fewer than two are seen.
    """
    usable = seen.turning & (seen.theta > 0)
    count = len(usable) if usable.all() else int(usable.argmin())
    if count < 2:
        return None
    log = np.log(seen.theta[:count])
    relative = seen.tolerance[:count] / seen.theta[:count]
    sure = seen.uncertainty[:count] / seen.theta[:count] + 2 * DOUBLE
    kept, line = 2, _weighted_line(log[:2], sure[:2])
    for more in range(3, count + 1):
        start, step = _weighted_line(log[:more], sure[:more])
        if (np.abs(log[:more] - start - step * np.arange(more)) > relative[:more]).any():
            break
        kept, line = more, (start, step)
    return (*line, kept)


def _weighted_line(log: Array, relative: Array) -> tuple[float, float]:
    """Return start and step of a line, each point weighted by the inverse of its error."""
    weight = 1 / relative
    rows = np.column_stack([np.ones(len(log)), np.arange(len(log))])
    start, step = np.linalg.lstsq(rows * weight[:, None], log * weight, rcond=None)[0]
    return float(start), float(step)


def round_numbers(value: float, tolerance: float) -> list[float]:
    """Return numbers within a relative tolerance, the roundest first, the value itself last."""
    if not np.isfinite(value) or value <= 0:
        return [value]
    tried = [float(f"{value:.{digits}e}") for digits in range(_DIGITS)]
    if value * tolerance < 1:
        tried.append(float(round(value)))
    near = [number for number in tried if abs(number / value - 1) <= tolerance]
    return list(dict.fromkeys([*near, value]))


def roundest(value: float, tolerance: float) -> float:
    """Return the number of fewest digits within a relative tolerance."""
    return round_numbers(value, tolerance)[0]


def is_round(value: float, digits: int = _DIGITS) -> bool:
    """Return whether a number has few digits."""
    return float(f"{value:.{digits - 1}e}") == value


def other_exponents(formula: Formula | None) -> list[str]:
    """Say with which other exponents a round base gives the same frequencies."""
    if formula is None:
        return []
    base, pairs = formula["base"], formula["dim"] // 2
    if formula.rope_type == linear.__name__:
        late = part_of_a_pair(base, formula["dim"], formula["factor"])
        return [f"base {base:g} with exponents {late} late gives these frequencies"] if late else []
    if not formula.is_plain or is_round(base) or pairs < 2:
        return []
    over_fewer = base ** (1 - 1 / pairs)
    rounded = float(f"{over_fewer:.1e}")
    if abs(over_fewer / rounded - 1) > _SAME_BASE:
        return []
    return [
        f"base {rounded:g} with exponents over d/2 - 1, one pair fewer, gives these frequencies"
    ]


def part_of_a_pair(base: float, dim: int, factor: float) -> str | None:
    """Return the part of a pair over which frequencies fall by a factor of many digits."""
    for words, by in {"half a pair": 1, "one pair": 2}.items():
        if not is_round(factor) and abs(factor / base ** (by / dim) - 1) <= _SAME_BASE:
            return words
    return None


def _plain_and_scaled(
    seen: Frequencies, dims: tuple[int, ...], attention_factor: float
) -> Iterator[Guess]:
    geometric = fit_geometric(seen)
    if geometric is None:
        if len(seen.theta) == 1:
            yield default, 2, BASES[0], {}  # any base gives a single pair the frequency 1
        return
    start, step, kept = geometric
    if step >= 0:
        return
    sure = _base_uncertainty(seen, kept)
    bases = sorted(
        (
            (d, base)
            for d in dict.fromkeys((*dims, seen.head_dim))
            for base in _bases(step, d, sure)
        ),
        key=lambda pair: (_is_absurd(pair[1]), _digits(pair[1])),
    )
    first = roundest(math.exp(-start), sure)
    turning = int(np.flatnonzero(seen.turning).max(initial=-1)) + 1
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
        yield from _scale_slow_pairs(seen, d, base, kept, attention_factor)
    for base in BASES:  # all pairs are scaled, so that the fastest ones do not show the base
        yield from _ntk_mixed(seen, dims[0], base)


def _base_uncertainty(seen: Frequencies, kept: int) -> float:
    """Return the relative error of the base: half the table's length times that of a step."""
    index = np.arange(kept)
    weight = (seen.theta[:kept] / (seen.uncertainty[:kept] + 2 * DOUBLE * seen.theta[:kept])) ** 2
    spread = weight @ (index - index @ weight / weight.sum()) ** 2
    chance = CLEARLY / math.sqrt(spread)
    # Errors of the table itself are more or less alike from pair to pair.
    return float(len(seen.theta) * (chance + 4 * seen.relative[:kept].max() / kept))


def _bases(step: float, dim: int, sure: float) -> list[float]:
    return round_numbers(math.exp(min(-step * dim / 2, 700.0)), sure)


def _is_absurd(base: float) -> bool:
    """Return whether a base is more likely another one, over another denominator."""
    return not _LEAST <= base <= _MOST


def _digits(value: float) -> int:
    """Return the number of digits that it takes to write a number."""
    return len(f"{value:.17g}".partition("e")[0].replace(".", "").strip("0"))


def _ntk(dim: int, larger: float, sure: float) -> Iterator[Guess]:
    """Yield base * factor^(d/(d-2)) of round numbers."""
    for base in BASES:
        if dim > 2 and larger > base:
            factor = roundest((larger / base) ** ((dim - 2) / dim), sure)
            if is_round(factor) and factor != 1:
                yield ntk, dim, base, {"factor": factor}


def _ntk_mixed(seen: Frequencies, dim: int, base: float) -> Iterator[Guess]:
    """ln(plain / theta) = ln(factor) ((i + 1) / (d/2))^b: a line in logarithms of logarithms."""
    plain = base ** (-2 * np.arange(dim // 2) / dim)
    if len(plain) != len(seen.theta) or (seen.theta <= 0).any() or not seen.turning.all():
        return
    fall = np.log(plain / seen.theta)
    if (fall <= 0).any():
        return
    place = np.log(np.arange(1, dim // 2 + 1) / (dim / 2))
    # A frequency's tolerance is that of its logarithm, which the second logarithm divides by.
    b, log_log, error = _bounded_line(
        place, np.log(fall), seen.tolerance / (fall * np.abs(seen.theta))
    )
    if b > 0 and log_log < _LARGEST:
        factor = roundest(math.exp(math.exp(log_log)), math.exp(log_log) * error[1])
        parameters = {"factor": factor, "mixed_b": roundest(b, error[0] / b)}
        yield ntk_mixed, dim, base, parameters


def _axial(seen: Frequencies, dim: int) -> Iterator[Guess]:
    """Yield the same table for each axis, and one table dealt out to the axes."""
    axes = int(seen.axis.max()) + 1
    first_axis = np.flatnonzero(seen.axis == seen.axis[0])
    one = replace(
        seen,
        theta=seen.theta[first_axis],
        uncertainty=seen.uncertainty[first_axis],
        relative=seen.relative[first_axis],
        axis=seen.axis[first_axis],
    )
    geometric = fit_geometric(one)
    if axes < 2 or geometric is None or geometric[1] >= 0:
        return
    base = _bases(geometric[1], 2 * len(first_axis), _base_uncertainty(seen, geometric[2]))[0]
    for order in itertools.permutations(range(axes)):
        for take_turns, deal_out in itertools.product((False, True), repeat=2):
            parameters = {"axes": axes, "axis_order": order}
            yield axial, dim, base, parameters | {"take_turns": take_turns, "deal_out": deal_out}
    sections = tuple(int((seen.axis == axis).sum()) for axis in range(axes))
    firsts = seen.theta[np.unique(seen.axis, return_index=True)[1]]
    if len(set(sections)) > 1 and np.ptp(firsts) <= seen.tolerance.max():
        order = tuple(dict.fromkeys(seen.axis.tolist()))
        yield axial, dim, base, {"axes": axes, "axis_order": order, "sections": sections}


def _scale_slow_pairs(
    seen: Frequencies, dim: int, base: float, kept: int, attention_factor: float
) -> Iterator[Guess]:
    """Yield types that leave fast pairs alone and divide slow ones by a factor."""
    plain = base ** (-2 * np.arange(dim // 2) / dim)
    if len(plain) != len(seen.theta):
        return
    use = seen.turning & (seen.theta > 0)
    last = int(np.flatnonzero(use).max(initial=0))
    if not use.any() or not (plain > 0).all():
        return
    ratio = seen.theta / plain
    sure = seen.tolerance / np.maximum(np.abs(seen.theta), 1e-100)
    factor, factor_error = _slow_factor(ratio[: last + 1], sure[: last + 1])
    if factor <= 1 + factor_error or kept > last:
        return
    share = (ratio - 1 / factor) / (1 - 1 / factor)  # of the frequency that is left unscaled
    error = sure * ratio / (1 - 1 / factor)
    # A share is off by the frequency's error, by the base's, and twice by the factor's.
    between = np.flatnonzero(use & (share > 4 * error) & (share < 1 - 4 * error))
    more = {}
    if abs(mscale_ratio(factor, None, None) - attention_factor) > FACTOR * attention_factor:
        more["attention_factor"] = attention_factor
    fall = 2 * math.log(base) / dim  # of the logarithm of a frequency from pair to pair
    for formula, parameters in _llama3(plain, share, error, between):
        yield formula, dim, base, {"factor": factor} | parameters
    for parameters in _yarn(share, error, between, fall):
        yield yarn, dim, base, {"factor": factor} | more | parameters


def _slow_factor(ratio: Array, sure: Array) -> tuple[float, float]:
    """Return the factor that divides the slowest pairs, and its relative error."""
    weight = (1 / sure) ** 2
    mean, best = float(ratio[-1]), float(sure[-1])
    for first in range(len(ratio) - 2, -1, -1):
        if not abs(ratio[first] / mean - 1) <= sure[first] + best:
            break
        slow_weight = weight[first:]
        mean = float((ratio[first:] * slow_weight).sum() / slow_weight.sum())
        best = float(1 / np.sqrt(slow_weight.sum()))
    return roundest(1 / mean, best), best


def _llama3(
    plain: Array, share: Array, error: Array, between: Index
) -> Iterator[tuple[Callable[..., Table], dict[str, Any]]]:
    """share = (turns in L0 - low) / (high - low): a line in the frequency."""
    contexts = dict.fromkeys((8192, *CONTEXTS))  # that of Llama 3.1 goes first
    known = [(1.0, high, context) for high in (4.0, 1.0, 32.0) for context in contexts]
    if len(between) > 1:
        slope, shift, off = _bounded_line(
            plain[between] / (2 * np.pi), share[between], error[between]
        )
        if slope > 0 and shift < 0:
            sure = off[0] / slope - off[1] / shift
            high = roundest(1 - 1 / shift, sure)  # low 1: the two are known up to a factor
            context = roundest(slope * (high - 1), sure)
            near = min(CONTEXTS, key=lambda each: abs(math.log(each / max(context, 1.0))))
            known = [(1.0, high, round(context)), (1.0, high, near), *known]
    for low, high, context in known:
        trained = {"original_max_position_embeddings": context}
        yield llama3, {"low_freq_factor": low, "high_freq_factor": high} | trained
        if high > low:
            yield ntk_by_parts, {"beta_slow": low, "beta_fast": high} | trained


def _bounded_line(x: NDArray[Any], y: Array, error: Array) -> tuple[float, float, list[float]]:
    """Return slope and shift of a line, and the largest error of both if y is off by `error`."""
    rows = np.column_stack([x, np.ones(len(x))]) / error[:, None]
    inverse = np.linalg.pinv(rows)
    slope, shift = inverse @ (y / error)
    return float(slope), float(shift), np.abs(inverse).sum(axis=1).tolist()


def _yarn(share: Array, error: Array, between: Index, fall: float) -> Iterator[dict[str, Any]]:
    """share = 1 - (pair - low) / (high - low): a line in the index of the pair."""
    for truncate in (True, False):
        for context in CONTEXTS:
            yield {"original_max_position_embeddings": context, "truncate": truncate}
    if len(between) < 2:
        return
    slope, shift, off = _bounded_line(between, share[between], error[between])
    if slope >= 0:
        return
    low, high = (shift - 1) / -slope, shift / -slope
    for truncate in (True, False):
        if truncate:  # whole ends: any betas within half a pair of the middle give them
            ends, sure = (round(low) + 0.5, round(high) - 0.5), [-math.expm1(-fall / 2)] * 2
        else:  # by a standard deviation at most: they make up for a factor that is a little off
            ends = low, high
            sure = [fall * (off[1] + abs(end) * off[0]) / -slope / CLEARLY for end in ends]
        if ends[1] <= ends[0]:
            continue
        for context in (4096, 8192, 32768):
            turns = [context / (2 * math.pi) * math.exp(min(-fall * end, 700.0)) for end in ends]
            yield {
                "original_max_position_embeddings": context,
                "beta_fast": roundest(turns[0], sure[0]),
                "beta_slow": roundest(turns[1], sure[1]),
                "truncate": truncate,
            }
