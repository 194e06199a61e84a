"""An encoding with the tokens that its laws are judged on, and the rounding of its scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array
from ropecli.checks.law import Outcome, judge_errors, shares
from ropecli.encodings import Encoding
from ropecli.units import DOUBLE, TINY

LAST = 199  #: Largest position sampled, unless an option of the encoding reaches further.
EACH = 130  #: Every distance below it is tried.
FURTHEST = 2.0**40  #: Positions up to here, whatever an option reaches.


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodingSubject:
    """An encoding, the options that were chosen, and the seed of tokens."""

    encoding: Encoding
    seed: int
    given: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Tokens:
    """Queries and keys, and their positions."""

    x: Array  #: (queries, model_dim).
    y: Array  #: (keys, model_dim).
    m: Array  #: (queries,).
    n: Array  #: (keys,).


def samples(encoding: Encoding, seed: int) -> list[Tokens]:
    """Return tokens at positions where an encoding may go wrong.

    Some queries and keys at the first positions, on both sides of where the encoding saturates and
    beyond it, and at random ones; and a query with a key at every distance below EACH, and around
    where it saturates.
    """
    random = np.random.default_rng(seed)
    edge = saturation(encoding)
    around = edge + np.array([-2, -1, 0, 1, 2, edge + 3]) if edge else np.zeros(0)
    last = min(getattr(encoding, "length", LAST + 1) - 1, LAST)
    few = np.concatenate([np.arange(5), around, random.choice(LAST + 1, 5, replace=False), [last]])
    most = np.inf if edge else min(getattr(encoding, "length", LAST + 1), _growth_limit(encoding))
    few = np.unique(few[(few >= 0) & (few < most)])
    # CoPE counts gates, about half of which are open.
    keys = 3 * getattr(encoding, "p_max", 0) + 20
    reach = np.unique(np.concatenate([np.arange(max(EACH, keys)), around[around >= 0]]))
    if not edge and not hasattr(encoding, "p_max"):
        reach = reach[reach < max(1, most // 2)]
    middle = float(reach[-1])
    along = np.unique(np.concatenate([middle - reach, middle + reach]))
    dim = encoding.sizes.model_dim
    return [
        Tokens(
            x=random.standard_normal((len(m), dim)),
            y=random.standard_normal((len(n), dim)),
            m=m,
            n=n,
        )
        for m, n in ((few, random.permutation(few)), (np.array([middle]), along))
    ]


def _growth_limit(encoding: Encoding) -> float:
    """Return the first position that is too far: xPos grows to some thousands before it."""
    if encoding.name != "xpos":
        return LAST + 1
    growth = float(np.abs(getattr(encoding, "rotary").growth).max())  # noqa: B009
    return min(LAST + 1, 8 / max(growth, TINY))


def saturation(encoding: Encoding) -> float:
    """Return the distance or position beyond which the encoding changes its rule; 0 for none."""
    named = ("clip", "max_distance", "threshold")
    own = [float(getattr(encoding, name)) for name in named if hasattr(encoding, name)]
    return float(np.ceil(min(max(own, default=0.0), FURTHEST)))


def rounding(encoding: Encoding, tokens: Tokens, scores: Array, last: float = LAST) -> float:
    """Return what rounding may add to a score.

    The content's terms are at most |x||W_q||y||W_k|, and what the position adds shows in the
    scores themselves. Each is rounded as `ROUNDING` says.
    """
    content = size(tokens.x, encoding.weights["query"]) * size(tokens.y, encoding.weights["key"])
    sizes = encoding.sizes
    roundings = 2 * sizes.model_dim + sizes.head_dim + 2 * last
    return float(2 * DOUBLE * roundings * (content + np.abs(scores).max()))


def size(tokens: Array, weight: Array) -> float:
    """Return the largest |x||W| over tokens and heads."""
    largest = np.linalg.norm(weight, axis=(1, 2)).max()
    return float(np.linalg.norm(tokens, axis=1).max() * largest)


def compare(
    got: NDArray[Any], expected: NDArray[Any], tolerance: float, words: str = ""
) -> Outcome:
    """Return the outcome by the largest difference; NaN is larger than all."""
    got, expected = np.broadcast_arrays(np.asarray(got, float), np.asarray(expected, float))
    with np.errstate(invalid="ignore"):
        error = np.where(got == expected, 0.0, np.abs(got - expected))
    error = np.where(np.isnan(error), np.inf, error)
    worst = np.unravel_index(int(error.argmax()), error.shape)
    where = f"entry ({', '.join(str(int(i)) for i in worst)})"
    case = f"{words}: {where}" if words else where
    example = f"{case}: got {got[worst]:.9g}, expected {expected[worst]:.9g}"
    return replace(judge_errors(error, tolerance, counterexample=example), samples=error.size)


def worst_of(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the outcome that comes closest to its tolerance, or passed it by most."""
    each = list(outcomes)
    share = shares(
        np.array([one.max_error for one in each]), np.array([one.tolerance for one in each])
    )
    return replace(
        each[int(share.argmax())],
        passed=all(one.passed for one in each),
        samples=sum(one.samples for one in each),
    )
