"""Feature maps of linear attention: phi of queries and of keys, in place of the exponential."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ropecli.arrays import Array, as_array
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.names import one_of

FeatureMap = Callable[[Array], Any]


def features(name: object, q: Array, k: Array) -> tuple[Array, Array]:
    """Return phi of the queries and phi of the keys.

    "elu" is elu(x) + 1 (Katharopoulos et al. 2020), and "softmax" that of Shen et al. 2021: over
    the features of a query, but over the positions of a key.
    """
    if name == "softmax":
        return _softmax(q, axis=1), _softmax(k, axis=0)
    if isinstance(name, str):
        name = _MAPS[one_of("feature map", name, FEATURE_MAPS)]
    if not callable(name):
        raise ArgumentTypeError(
            f"feature map must be a name or a function, got {type(name).__name__}"
        )
    return _apply(name, "queries", q), _apply(name, "keys", k)


def _apply(function: FeatureMap, what: str, x: Array) -> Array:
    try:
        with np.errstate(over="ignore"):
            result = function(x.copy())
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ArgumentError(f"feature map failed for the {what}: {reason}") from error
    mapped = as_array("feature map's result", result)
    if mapped.dtype.kind != "f":
        raise ArgumentTypeError(
            f"feature map must return floats, got {mapped.dtype} for the {what}"
        )
    if mapped.shape != x.shape:
        raise ArgumentError(
            f"feature map must keep the shape {x.shape}, got {mapped.shape} for the {what}"
        )
    floats: Array = np.ascontiguousarray(mapped, dtype=np.float64)
    if not np.isfinite(floats).all():
        raise ArgumentError(f"feature map must return finite numbers, got others for the {what}")
    return floats


def _elu(x: Array) -> Array:
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


def _softmax(x: Array, axis: int) -> Array:
    raised: Array = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.ascontiguousarray(raised / raised.sum(axis=axis, keepdims=True))


_MAPS: dict[str, FeatureMap] = {"elu": _elu, "exp": np.exp, "relu": _relu}
FEATURE_MAPS = ("elu", "exp", "softmax", "relu")
