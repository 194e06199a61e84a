"""The rope types whose formula gives a table that was measured."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.checks.identify.table import CLEARLY, geometric_start, is_round, roundings
from ropecli.rotary.attention import mscale_ratio
from ropecli.rotary.types import formula

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ropecli.checks.identify.table import Seen

    Array = NDArray[np.float64]

FACTOR = 2.0**-9  #: Relative error of all lengths that tables in half precision may bring.
BASES = (10_000.0, 500_000.0, 1_000_000.0, 5_000_000.0)  #: That many models have.
CONTEXTS = tuple(2**power for power in range(9, 21))  #: That models were trained on.

#: A measured length, and a number of pairs.
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
    def is_round(self) -> bool:
        """Whether base and parameters have few digits, those aside that come from elsewhere."""
        own = {key: value for key, value in self.parameters.items() if key not in _FROM_ELSEWHERE}
        return all(is_round(n) for n in (self.base, *own.values()) if isinstance(n, float))


def fits(seen: Seen, dims: tuple[int, ...], attention_factor: float) -> list[Fit]:
    """Formulas for the table, the simplest that fit first, then the others by how far off.

    Args:
        seen: What was measured.
        dims: Coordinates that are rotated, and other denominators that exponents may have.
        attention_factor: What lengths were multiplied by: some types bring their own.
    """
    tried = []
    for rope_type, dimension, base, parameters in _guesses(seen, dims, attention_factor):
        try:
            made = formula(rope_type)(dim=dimension, base=base, **parameters)
        except (ValueError, ArithmeticError):  # nonsense made of noise
            continue
        table = made.inv_freq[: len(seen.theta)]
        count = len(table)
        if made.axis and (np.array(made.axis) != seen.axis[:count])[seen.visible[:count]].any():
            continue
        padded = np.concatenate([table, np.zeros(len(seen.theta) - len(table))])
        tried.append(
            Fit(
                rope_type=rope_type,
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


Guess = tuple[str, int, float, dict[str, Any]]


def _guesses(seen: Seen, dims: tuple[int, ...], attention_factor: float) -> Iterator[Guess]:
    """Types and parameters worth trying: those with round bases first, and simple ones."""
    guesses = [*_axial(seen, dims[0]), *_along_one_line(seen, dims, attention_factor)]
    yield from sorted(guesses, key=lambda guess: not is_round(guess[2]))


def _along_one_line(seen: Seen, dims: tuple[int, ...], attention_factor: float) -> Iterator[Guess]:
    found = geometric_start(seen)
    if found is None:
        if len(seen.theta) == 1:
            yield "default", 2, BASES[0], {}  # whatever the base
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
    first = _roundest(math.exp(-start), sure)
    turning = int(np.flatnonzero(seen.visible).max(initial=-1)) + 1
    for d, base in bases:
        yield "default", d, base, {}
    for d, base in bases:
        share = {"partial_rotary_factor": 2 * turning / d}
        if 2 * turning < d:
            yield "proportional", d, base, share
        if first != 1:
            yield "linear", d, base, {"factor": first}
        if 2 * turning < d and first != 1:
            yield "proportional", d, base, share | {"factor": first}
    yield from _ntk(dims[0], _bases(step, dims[0], sure)[-1], sure)
    for d, base in bases:
        yield from _scaled(seen, d, base, kept, attention_factor)
    for base in BASES:  # what the fastest pairs say is not all there is, where all are stretched
        yield from _mixed(seen, dims[0], base)


def _sureness(seen: Seen, kept: int) -> float:
    """How well the base is known, relative: half the table's length times the error of a step."""
    index = np.arange(kept)
    weight = (seen.theta[:kept] / (seen.uncertainty[:kept] + 2.0**-52 * seen.theta[:kept])) ** 2
    spread = weight @ (index - index @ weight / weight.sum()) ** 2
    chance = CLEARLY / math.sqrt(spread)
    # Errors of the table itself are alike from pair to pair, more or less.
    return float(len(seen.theta) * (chance + 4 * seen.relative / kept))


def _bases(step: float, dim: int, sure: float) -> list[float]:
    return roundings(math.exp(min(-step * dim / 2, 700.0)), sure)


def _roundest(value: float, tolerance: float) -> float:
    return roundings(value, tolerance)[0]


def _digits(value: float) -> int:
    """Digits that it takes to write a number."""
    return len(f"{value:.17g}".partition("e")[0].replace(".", "").strip("0"))


def _scaled(
    seen: Seen, dim: int, base: float, kept: int, attention_factor: float
) -> Iterator[Guess]:
    """Types that leave fast pairs alone and divide slow ones by a factor."""
    plain = base ** (-2 * np.arange(dim // 2) / dim)
    if len(plain) != len(seen.theta):
        return
    use = seen.visible & (seen.theta > 0)
    last = int(np.flatnonzero(use).max(initial=0))
    if not use.any() or not (plain > 0).all():
        return
    ratio = seen.theta / plain
    sure = seen.tolerance / np.maximum(np.abs(seen.theta), 1e-100)
    factor, loose_factor = _plateau(ratio[: last + 1], sure[: last + 1])
    if factor <= 1 + loose_factor or kept > last:
        return
    share = (ratio - 1 / factor) / (1 - 1 / factor)  # of the frequency that is left as it was
    loose = sure * ratio / (1 - 1 / factor)
    between = np.flatnonzero(use & (share > 4 * loose) & (share < 1 - 4 * loose))
    yield from _llama3(plain, share, loose, between, dim, base, factor)
    yield from _yarn(share, loose, between, dim, base, factor, attention_factor)


def _plateau(ratio: Array, sure: Array) -> tuple[float, float]:
    """What the slowest pairs are all divided by, and how well that is known, relative."""
    weight = (1 / sure) ** 2  # what is hardly known has next to none
    mean, best = float(ratio[-1]), float(sure[-1])
    for first in range(len(ratio) - 2, -1, -1):
        if not abs(ratio[first] / mean - 1) <= sure[first] + best:
            break
        own = weight[first:]
        mean = float((ratio[first:] * own).sum() / own.sum())
        best = float(1 / np.sqrt(own.sum()))
    return _roundest(1 / mean, best), best


def _llama3(
    plain: Array, share: Array, loose: Array, between: NDArray[np.int64], dim: int, base: float,
    factor: float,
) -> Iterator[Guess]:  # fmt: skip
    """share = (turns in L0 - low) / (high - low): a line in the frequency."""
    known = [(1.0, high, context) for high in (4.0, 1.0, 32.0) for context in (8192, *CONTEXTS)]
    if len(between) > 1:
        weight = 1 / loose[between]
        rows = np.column_stack([plain[between] / (2 * np.pi), np.ones(len(between))])
        slope, shift = np.linalg.lstsq(rows * weight[:, None], share[between] * weight, rcond=None)[
            0
        ]
        if slope > 0 and shift < 0:
            sure = 64 * float(loose[between].min())
            high = _roundest(1 - 1 / shift, sure)  # low 1: the two are known up to a factor
            context = _roundest(slope * (high - 1), sure)
            known = [(1.0, high, round(context)), (1.0, high, _nearest(context)), *known]
    for low, high, context in known:
        parameters = {
            "factor": factor,
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": context,
        }
        yield "llama3", dim, base, parameters
        if high > low:
            by_parts = {
                "factor": factor,
                "beta_slow": low,
                "beta_fast": high,
                "original_max_position_embeddings": context,
            }
            yield "ntk_by_parts", dim, base, by_parts


def _nearest(context: float) -> int:
    nearest: int = min(CONTEXTS, key=lambda known: abs(math.log(known / max(context, 1.0))))
    return nearest


def _yarn(
    share: Array, loose: Array, between: NDArray[np.int64], dim: int, base: float, factor: float,
    attention_factor: float,
) -> Iterator[Guess]:  # fmt: skip
    """share = 1 - (pair - low) / (high - low): a line in the index of the pair."""
    own = {"factor": factor}
    if abs(mscale_ratio(factor, None, None) - attention_factor) > FACTOR * attention_factor:
        own["attention_factor"] = attention_factor
    for truncate in (True, False):
        for context in CONTEXTS:
            yield (
                "yarn", dim, base,
                own | {"original_max_position_embeddings": context, "truncate": truncate},
            )  # fmt: skip
    if len(between) < 2:
        return
    weight = 1 / loose[between]
    rows = np.column_stack([between, np.ones(len(between))])
    slope, shift = np.linalg.lstsq(rows * weight[:, None], share[between] * weight, rcond=None)[0]
    if slope >= 0:
        return
    low, high = (shift - 1) / -slope, shift / -slope
    for truncate in (True, False):
        low_end, high_end = (round(low), round(high)) if truncate else (low, high)
        if high_end <= low_end:
            continue
        for context in (4096, 8192, 32768):
            logarithm = [-2 * end / dim * math.log(base) for end in (low_end, high_end)]
            turns = [context / (2 * math.pi) * math.exp(min(each, 700.0)) for each in logarithm]
            yield (
                "yarn", dim, base,
                own | {
                    "original_max_position_embeddings": context,
                    "beta_fast": _roundest(turns[0], 1e-2 if truncate else 1e-4),
                    "beta_slow": _roundest(turns[1], 1e-2 if truncate else 1e-4),
                    "truncate": truncate,
                },
            )  # fmt: skip


def _ntk(dim: int, larger: float, sure: float) -> Iterator[Guess]:
    """base * factor^(d/(d-2)) of round numbers."""
    for base in BASES:
        if dim > 2 and larger > base:
            factor = _roundest((larger / base) ** ((dim - 2) / dim), sure)
            if is_round(factor) and factor != 1:
                yield "ntk", dim, base, {"factor": factor}


def _mixed(seen: Seen, dim: int, base: float) -> Iterator[Guess]:
    """ln(plain / theta) = ln(factor) ((i + 1) / (d/2))^b: a line in logarithms of logarithms."""
    plain = base ** (-2 * np.arange(dim // 2) / dim)
    if len(plain) != len(seen.theta) or (seen.theta <= 0).any() or not seen.visible.all():
        return
    fall = np.log(plain / seen.theta)
    if (fall <= 0).any():
        return
    place = np.log(np.arange(1, dim // 2 + 1) / (dim / 2))
    weight = fall * np.abs(seen.theta) / seen.tolerance
    rows = np.column_stack([place, np.ones(len(place))])
    b, log_log = np.linalg.lstsq(rows * weight[:, None], np.log(fall) * weight, rcond=None)[0]
    factor, b = _roundest(math.exp(math.exp(log_log)), 1e-3), _roundest(float(b), 1e-3)
    if b > 0:
        yield "ntk_mixed", dim, base, {"factor": factor, "mixed_b": b}


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
            yield "axial", dim, base, parameters | {"take_turns": take_turns, "deal_out": deal_out}
