"""RoPE in linear attention (RoFormer Eq. 17-19)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.feature_maps import FeatureMap, features
from ropecli.analyses.importance import Importance, compare_importance
from ropecli.arrays import Array, as_floats, evenly_spread
from ropecli.errors import ArgumentError
from ropecli.kernels import linear as kernels
from ropecli.numbers import length
from ropecli.results import Result
from ropecli.rotary.apply import rotate
from ropecli.rotary.rotary import Rotary, check_rope

_ROWS_AT_ONCE = 64  #: Rows of the N x N weights that are in memory together.


@dataclass(frozen=True, kw_only=True)
class RowSum:
    """Sum of the weights of a row; 1 in every row of softmax attention."""

    min: float  #: Smallest over all rows.
    max: float  #: Largest over all rows.
    mean: float  #: Mean over all rows.


@dataclass(frozen=True, kw_only=True, eq=False)
class Attention:
    """Eq. 19 over all keys, or over those up to the query's own row.

    Rows whose denominator is 0 or below have no output (NaN), and are left out of sums and errors.
    """

    output: Array = field(repr=False)  #: (tokens, values), by sums over keys, in O(N) memory.
    row_sum: RowSum  #: Sums of the weights of the values.
    negative_fraction: float  #: Share of the weights' numerators below 0, on the sampled rows.
    denominator_min: float  #: phi(q_m) . sum phi(k_n), smallest over all rows.
    rotated_denominator_min: float  #: The same with both rotated, unlike Eq. 19.
    undefined_rows: int  #: Rows with no output.
    error: float  #: Largest |O(N) form - quadratic form| on the sampled rows.
    importance: Importance  #: Its weights next to those of softmax attention, on some rows.


@dataclass(frozen=True, kw_only=True, eq=False)
class Linear(Result):
    """Linear attention with rotated features, bidirectional and causal."""

    feature_map: str  #: Name of the feature map.
    sequence_length: int  #: Tokens.
    sampled_rows: tuple[int, ...]  #: Rows whose N weights were computed one by one.
    bidirectional: Attention  #: Every query sees every key.
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
    """Run linear attention of one head by sums in O(N) and, on sampled rows, weight by weight.

    Args:
        q: Queries, (tokens, head_dim), floats.
        k: Keys, of the same shape.
        v: Values, (tokens, values).
        rope: The rotation of phi(q) and phi(k), in the numerator only.
        positions: As `rotate` takes them, one per token; 0 ... tokens-1 by default.
        feature_map: "elu", "exp", "softmax", "relu", or a function.
        rows: Rows to sample, evenly spread from the first to the last; all if there are fewer.

    Raises:
        ArgumentError: An unusable shape, position or value.
        ArgumentTypeError: A value of the wrong type.
    """
    queries, keys, values = check_inputs(q, k, v, rope)
    phi_q, phi_k = features(feature_map, queries, keys)
    rotated = rotate_both(phi_q, phi_k, rope, positions)
    count = len(queries)
    sample = evenly_spread(count, length("rows", rows))
    scored_q, scored_k = rotate_both(queries, keys, rope, positions)
    scores = scored_q * (rope.softmax_factor / np.sqrt(rope.head_dim)), scored_k
    by_weights = _quadratic(rotated, (phi_q, phi_k), values, sample)
    forms = []
    for causal, (expected, negative) in zip((False, True), by_weights, strict=True):
        # A further column of ones gives the sums of weights.
        top = sums(*rotated, np.column_stack([values, np.ones(count)]), causal=causal)
        below = sums(phi_q, phi_k, np.ones((count, 1)), causal=causal)[:, 0]
        output = np.full(values.shape, np.nan)
        good = below > 0
        np.divide(top[:, :-1], below[:, None], out=output, where=good[:, None])
        difference = np.abs(expected - output[sample])[good[sample]]
        forms.append(
            Attention(
                output=output,
                row_sum=_row_sum(top[good, -1] / below[good]),
                negative_fraction=negative,
                denominator_min=float(below.min()),
                rotated_denominator_min=float(top[:, -1].min()),
                undefined_rows=int(count - good.sum()),
                error=float(difference.max(initial=0.0)),
                importance=compare_importance(rotated, below, scores, sample, causal=causal),
            )
        )
    return Linear(
        feature_map=map_name(feature_map),
        sequence_length=count,
        sampled_rows=tuple(sample.tolist()),
        bidirectional=forms[0],
        causal=forms[1],
    )


def rotate_both(q: Array, k: Array, rope: Rotary, positions: Any = None) -> tuple[Array, Array]:
    """Return queries and keys after their rotation."""
    return rotate(q, rope, positions), rotate(k, rope.for_keys, positions)


def sums(q: Array, k: Array, v: Array, *, causal: bool) -> Array:
    """Return the sum over n of (q_m . k_n) v_n for each m, in O(N) memory."""
    blocks = -(-len(k) // kernels.BLOCK)
    small = blocks == 1  # nothing for several threads to share
    totals = np.empty((blocks, k.shape[1], v.shape[1]))
    kernels.fill_block_sums(k, v, totals, small=small)
    np.cumsum(totals, axis=0, out=totals)
    out = np.empty((len(q), v.shape[1]))
    if causal:
        before = np.concatenate([np.zeros_like(totals[:1]), totals[:-1]])
        kernels.fill_causal(q, k, v, before, out, small=small)
    else:
        kernels.fill_whole(q, totals[-1], out, small=small)
    return out


def _quadratic(
    rotated: tuple[Array, Array],
    plain: tuple[Array, Array],
    v: Array,
    sample: NDArray[np.int64],
) -> list[tuple[Array, float]]:
    """Return outputs of some rows by all their weights, and the share of numerators below 0.

    First over all keys, then over those up to the row itself.
    """
    outputs = np.empty((2, len(sample), v.shape[1]))
    negative, seen = [0, 0], [0, 0]
    for start in range(0, len(sample), _ROWS_AT_ONCE):
        part = sample[start : start + _ROWS_AT_ONCE]
        top, below = rotated[0][part] @ rotated[1].T, plain[0][part] @ plain[1].T
        for causal in (False, True):
            if causal:
                for row, m in enumerate(part):
                    top[row, m + 1 :] = below[row, m + 1 :] = 0
            negative[causal] += int(np.count_nonzero(top < 0))
            seen[causal] += int((part + 1).sum()) if causal else top.size
            total = below.sum(axis=1, keepdims=True)
            # Rows without a denominator are left out by the caller.
            output = top @ v / np.where(total > 0, total, 1.0)
            outputs[int(causal), start : start + len(part)] = output
    return [(outputs[form], negative[form] / seen[form]) for form in (0, 1)]


def _row_sum(sums: Array) -> RowSum:
    if not len(sums):
        return RowSum(min=np.nan, max=np.nan, mean=np.nan)
    return RowSum(min=float(sums.min()), max=float(sums.max()), mean=float(sums.mean()))


def check_inputs(q: Any, k: Any, v: Any, rope: Rotary) -> tuple[Array, Array, Array]:
    """Return queries, keys and values as float64 in C order."""
    check_rope(rope)
    queries, keys, values = (_floats(name, x) for name, x in (("q", q), ("k", k), ("v", v)))
    if queries.shape[1] != rope.head_dim:
        raise ArgumentError(f"q must have shape (tokens, {rope.head_dim}), got {queries.shape}")
    if keys.shape != queries.shape:
        raise ArgumentError(f"k must have q's shape, {queries.shape}, got {keys.shape}")
    if len(values) != len(queries):
        raise ArgumentError(f"v must have shape ({len(queries)}, values), got {values.shape}")
    return queries, keys, values


def _floats(name: str, value: Any) -> Array:
    array = as_floats(name, value)
    if array.ndim != 2 or 0 in array.shape:
        raise ArgumentError(f"{name} must have two axes, neither empty, got shape {array.shape}")
    floats: Array = np.ascontiguousarray(array, dtype=np.float64)
    if not np.isfinite(floats).all():
        raise ArgumentError(f"{name} must be finite")
    return floats


def map_name(feature_map: object) -> str:
    """Return the name of a feature map."""
    if isinstance(feature_map, str):
        return feature_map
    return str(getattr(feature_map, "__name__", type(feature_map).__name__))
