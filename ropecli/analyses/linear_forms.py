"""Attention in the forms that are timed: linear (RoFormer Eq. 19), and softmax (Eq. 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ropecli.analyses.feature_maps import features
from ropecli.analyses.linear import sums
from ropecli.rotary.apply import rotate

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ropecli.analyses.feature_maps import FeatureMap
    from ropecli.rotary.rotary import Rotary

    Array = NDArray[np.float64]
    Rows = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Ready:
    """Queries and keys as a form needs them, (tokens, head_dim)."""

    turned: tuple[Array, Array]  #: Rotated.
    plain: tuple[Array, Array]  #: Not rotated.
    scale: float = 1.0  #: Of a score.


@dataclass(frozen=True, kw_only=True)
class Form:
    """One way to compute attention: what each takes once, and what each row takes."""

    prepare: Callable[[Array, Array, Rotary, str | FeatureMap], Ready]
    finish: Callable[[Ready, Array, Rows], Array]  #: Outputs of those rows.
    by_row: bool  #: Whether some rows can be had without the others.


def _features(q: Array, k: Array, rope: Rotary, feature_map: str | FeatureMap) -> Ready:
    plain = features(feature_map, q, k)
    return Ready(turned=_turned(*plain, rope), plain=plain)


def _vectors(q: Array, k: Array, rope: Rotary, _: object) -> Ready:
    scale = rope.softmax_factor / math.sqrt(rope.head_dim)
    return Ready(turned=_turned(q, k, rope), plain=(q, k), scale=scale)


def _turned(q: Array, k: Array, rope: Rotary) -> tuple[Array, Array]:
    return rotate(q, rope), rotate(k, rope.for_keys)


def _by_sums(ready: Ready, v: Array, _: Rows, *, causal: bool = False) -> Array:
    """Eq. 19 by sums over keys."""
    top = sums(*ready.turned, v, causal=causal)
    below = sums(*ready.plain, np.ones((len(v), 1)), causal=causal)
    return _divided(top, below)


def _by_prefix_sums(ready: Ready, v: Array, rows: Rows) -> Array:
    """Eq. 19 where query m sees keys 0 ... m."""
    return _by_sums(ready, v, rows, causal=True)


def _by_weights(ready: Ready, v: Array, rows: Rows) -> Array:
    """Eq. 19 weight by weight."""
    weights = ready.plain[0][rows] @ ready.plain[1].T
    below = weights.sum(axis=1, keepdims=True)
    np.matmul(ready.turned[0][rows], ready.turned[1].T, out=weights)
    return _divided(weights @ v, below)


def _by_softmax(ready: Ready, v: Array, rows: Rows) -> Array:
    """Softmax attention of rotated queries and keys (Eq. 2)."""
    weights = ready.turned[0][rows] @ ready.turned[1].T
    weights *= ready.scale
    weights -= weights.max(axis=1, keepdims=True)
    np.exp(weights, out=weights)
    return _divided(weights @ v, weights.sum(axis=1, keepdims=True))


def _divided(top: Array, below: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):  # relu: a row may have no denominator
        top /= below
    return top


#: By name: how each is computed.
FORMS = {
    "linear": Form(prepare=_features, finish=_by_sums, by_row=False),
    "linear_causal": Form(prepare=_features, finish=_by_prefix_sums, by_row=False),
    "linear_quadratic": Form(prepare=_features, finish=_by_weights, by_row=True),
    "softmax": Form(prepare=_vectors, finish=_by_softmax, by_row=True),
}
