"""Rope types that leave fast pairs alone and divide slow ones by a factor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.checks.identify.table import CLEARLY, roundest
from ropecli.rotary.attention import mscale_ratio
from ropecli.rotary.frequencies import Table
from ropecli.rotary.types.llama3 import llama3
from ropecli.rotary.types.ntk_by_parts import ntk_by_parts
from ropecli.rotary.types.yarn import yarn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ropecli.checks.identify.table import Seen

    Array = NDArray[np.float64]

FACTOR = 2.0**-9  #: Relative error of all lengths that tables in half precision may bring.
CONTEXTS = tuple(2**power for power in range(9, 21))  #: That models were trained on.

#: The formula of a rope type, dim, base and the type's own parameters.
Guess = tuple[Callable[..., Table], int, float, dict[str, Any]]


def scaled(
    seen: Seen, dim: int, base: float, kept: int, attention_factor: float
) -> Iterator[Guess]:
    """Those worth trying.

    Args:
        seen: What was measured.
        dim: Denominator of the exponents.
        base: What the fastest pairs show.
        kept: How many of them keep to it.
        attention_factor: What lengths were multiplied by.
    """
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
    # A share is off by its own frequency, by the base, and twice by the factor, each up to loose.
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
    return roundest(1 / mean, best), best


def _llama3(
    plain: Array, share: Array, loose: Array, between: NDArray[np.int64], dim: int, base: float,
    factor: float,
) -> Iterator[Guess]:  # fmt: skip
    """share = (turns in L0 - low) / (high - low): a line in the frequency."""
    contexts = dict.fromkeys((8192, *CONTEXTS))  # what Llama 3.1 was trained on goes first
    known = [(1.0, high, context) for high in (4.0, 1.0, 32.0) for context in contexts]
    if len(between) > 1:
        slope, shift, off = through(plain[between] / (2 * np.pi), share[between], loose[between])
        if slope > 0 and shift < 0:
            sure = off[0] / slope - off[1] / shift
            high = roundest(1 - 1 / shift, sure)  # low 1: the two are known up to a factor
            context = roundest(slope * (high - 1), sure)
            known = [(1.0, high, round(context)), (1.0, high, _nearest(context)), *known]
    for low, high, context in known:
        parameters = {
            "factor": factor,
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": context,
        }
        yield llama3, dim, base, parameters
        if high > low:
            by_parts = {
                "factor": factor,
                "beta_slow": low,
                "beta_fast": high,
                "original_max_position_embeddings": context,
            }
            yield ntk_by_parts, dim, base, by_parts


def through(x: NDArray[Any], y: Array, loose: Array) -> tuple[float, float, list[float]]:
    """Slope and shift of a line, and how far off both are at most if y is off by loose."""
    rows = np.column_stack([x, np.ones(len(x))]) / loose[:, None]
    inverse = np.linalg.pinv(rows)
    slope, shift = inverse @ (y / loose)
    off: list[float] = np.abs(inverse).sum(axis=1).tolist()
    return float(slope), float(shift), off


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
                yarn, dim, base,
                own | {"original_max_position_embeddings": context, "truncate": truncate},
            )  # fmt: skip
    if len(between) < 2:
        return
    slope, shift, off = through(between, share[between], loose[between])
    if slope >= 0:
        return
    low, high = (shift - 1) / -slope, shift / -slope
    fall = 2 * math.log(base) / dim  # of the logarithm of a frequency from pair to pair
    for truncate in (True, False):
        if truncate:  # whole ends: any betas half a pair around those between two pairs give them
            ends, sure = (round(low) + 0.5, round(high) - 0.5), [-math.expm1(-fall / 2)] * 2
        else:  # by a standard deviation at most: they make up for a factor that is a little off
            ends = low, high
            sure = [fall * (off[1] + abs(end) * off[0]) / -slope / CLEARLY for end in ends]
        if ends[1] <= ends[0]:
            continue
        for context in (4096, 8192, 32768):
            turns = [context / (2 * math.pi) * math.exp(min(-fall * end, 700.0)) for end in ends]
            yield (
                yarn, dim, base,
                own | {
                    "original_max_position_embeddings": context,
                    "beta_fast": roundest(turns[0], sure[0]),
                    "beta_slow": roundest(turns[1], sure[1]),
                    "truncate": truncate,
                },
            )  # fmt: skip
