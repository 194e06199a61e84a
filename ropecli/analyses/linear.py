"""RoPE in linear attention (RoFormer Eq. 17-19): what it computes, and what it no longer is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.analyses.feature_maps import features
from ropecli.arrays import as_array
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.kernels import linear as kernels
from ropecli.rotary.apply import rotate
from ropecli.rotary.numbers import length
from ropecli.rotary.rotary import Rotary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.analyses.feature_maps import FeatureMap

    Array = NDArray[np.float64]

_ROWS_AT_ONCE = 16  #: Rows of the N x N weights that are in memory together.


@dataclass(frozen=True, kw_only=True)
class RowSum:
    """Sums of a row's weights, over all rows; softmax attention has 1 in each."""

    min: float
    max: float
    mean: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Attention:
    """Eq. 19 over every key, or over those up to the query's own row.

    Rows whose denominator is 0 or below have no output (NaN), and count in no sum and no error.
    """

    output: Array = field(repr=False)  #: (tokens, values), by sums over keys, in O(N) memory.
    row_sum: RowSum  #: Of the weights that the values get.
    negative_fraction: float  #: Of the weights' numerators, on the sampled rows.
    denominator_min: float  #: phi(q_m) . sum phi(k_n), smallest over all rows.
    rotated_denominator_min: float  #: The same with both of them rotated, which Eq. 19 does not do.
    undefined_rows: int  #: Rows with no output.
    error: float  #: Largest |O(N) form - quadratic form| on the sampled rows.


@dataclass(frozen=True, kw_only=True, eq=False)
class Linear:
    """Linear attention with rotated features, not causal and causal."""

    feature_map: str
    sequence_length: int
    sampled_rows: tuple[int, ...]  #: Rows whose N weights were computed one by one.
    whole: Attention  #: Every query sees every key.
    causal: Attention  #: Query m sees keys 0 ... m.


def linear(
    q: Any,
    k: Any,
    v: Any,
    rope: Rotary,
    positions: Any = None,
    *,
    feature_map: str | FeatureMap = "elu",
    rows: int = 256,
) -> Linear:
    """Linear attention of one head, by sums in O(N) and, on sampled rows, weight by weight.

    Args:
        q: Queries, (tokens, head_dim), floats.
        k: Keys, of the same shape.
        v: Values, (tokens, values).
        rope: What rotates phi(q) and phi(k); in the numerator only.
        positions: As `rotate` takes them, one a token; 0 ... tokens-1 by default.
        feature_map: "elu", "exp", "softmax", "relu", or a function.
        rows: Rows to sample, evenly spread, the first and the last among them; all if there are
            no more than that.

    Raises:
        ArgumentError: A shape, a position or a value that is not allowed.
        ArgumentTypeError: A value of the wrong type.
    """
    queries, keys, values = _checked(q, k, v, rope)
    phi_q, phi_k = features(feature_map, queries, keys)
    turned = _contiguous(rotate(phi_q, rope, positions), rotate(phi_k, rope.for_keys, positions))
    count = len(queries)
    sample = np.unique(np.linspace(0, count - 1, min(count, length("rows", rows))).astype(int))
    forms = []
    for causal in (False, True):
        # A column of ones beside the values makes the sums of weights.
        top = _sums(*turned, np.column_stack([values, np.ones(count)]), causal=causal)
        below = _sums(phi_q, phi_k, np.ones((count, 1)), causal=causal)[:, 0]
        output = np.full(values.shape, np.nan)
        good = below > 0
        np.divide(top[:, :-1], below[:, None], out=output, where=good[:, None])
        checked = _quadratic(turned, (phi_q, phi_k), values, sample, causal=causal)
        difference = np.abs(checked[0] - output[sample])[good[sample]]
        forms.append(
            Attention(
                output=output,
                row_sum=_row_sum(top[good, -1] / below[good]),
                negative_fraction=checked[1],
                denominator_min=float(below.min()),
                rotated_denominator_min=float(top[:, -1].min()),
                undefined_rows=int(count - good.sum()),
                error=float(difference.max(initial=0.0)),
            )
        )
    return Linear(
        feature_map=feature_map if isinstance(feature_map, str) else _name(feature_map),
        sequence_length=count,
        sampled_rows=tuple(sample.tolist()),
        whole=forms[0],
        causal=forms[1],
    )


def _sums(q: Array, k: Array, v: Array, *, causal: bool) -> Array:
    """Sum over n of (q_m . k_n) v_n."""
    blocks = -(-len(k) // kernels.BLOCK)
    sums = np.empty((blocks, k.shape[1], v.shape[1]))
    kernels.fill_block_sums(k, v, sums)
    np.cumsum(sums, axis=0, out=sums)
    out = np.empty((len(q), v.shape[1]))
    if causal:
        before = np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])
        kernels.fill_causal(q, k, v, before, out)
    else:
        kernels.fill_whole(q, sums[-1], out)
    return out


def _quadratic(
    turned: tuple[Array, Array],
    plain: tuple[Array, Array],
    v: Array,
    sample: NDArray[np.int64],
    *,
    causal: bool,
) -> tuple[Array, float]:
    """Outputs of some rows by all their weights, and the share of numerators below 0."""
    out = np.empty((len(sample), v.shape[1]))
    negative = seen = 0
    for start in range(0, len(sample), _ROWS_AT_ONCE):
        part = sample[start : start + _ROWS_AT_ONCE]
        top, below = turned[0][part] @ turned[1].T, plain[0][part] @ plain[1].T
        if causal:
            ahead = np.arange(len(v)) > part[:, None]
            top[ahead] = below[ahead] = 0
        negative += int((top < 0).sum())
        seen += int((part + 1).sum()) if causal else top.size
        total = below.sum(axis=1, keepdims=True)
        # Rows without a denominator are left out by the caller.
        out[start : start + len(part)] = top @ v / np.where(total > 0, total, 1.0)
    return out, negative / seen


def _row_sum(sums: Array) -> RowSum:
    if not len(sums):
        return RowSum(min=np.nan, max=np.nan, mean=np.nan)
    return RowSum(min=float(sums.min()), max=float(sums.max()), mean=float(sums.mean()))


def _checked(q: Any, k: Any, v: Any, rope: object) -> tuple[Array, Array, Array]:
    if not isinstance(rope, Rotary):
        msg = f"rope must be a Rotary, got {type(rope).__name__}"
        raise ArgumentTypeError(msg)
    queries, keys, values = (_floats(name, x) for name, x in (("q", q), ("k", k), ("v", v)))
    if queries.shape[1] != rope.head_dim:
        msg = f"q must have shape (tokens, {rope.head_dim}), got {queries.shape}"
        raise ArgumentError(msg)
    if keys.shape != queries.shape:
        msg = f"k must have q's shape, {queries.shape}, got {keys.shape}"
        raise ArgumentError(msg)
    if len(values) != len(queries):
        msg = f"v must have shape ({len(queries)}, values), got {values.shape}"
        raise ArgumentError(msg)
    return queries, keys, values


def _floats(name: str, value: Any) -> Array:
    array = as_array(name, value)
    if array.dtype.kind != "f":
        msg = f"{name} must be floats, got {array.dtype}"
        raise ArgumentTypeError(msg)
    if array.ndim != 2 or 0 in array.shape:
        msg = f"{name} must have two axes, neither empty, got shape {array.shape}"
        raise ArgumentError(msg)
    settled: Array = np.ascontiguousarray(array, dtype=np.float64)
    if not np.isfinite(settled).all():
        msg = f"{name} must be finite"
        raise ArgumentError(msg)
    return settled


def _contiguous(q: Array, k: Array) -> tuple[Array, Array]:
    return np.ascontiguousarray(q), np.ascontiguousarray(k)


def _name(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
