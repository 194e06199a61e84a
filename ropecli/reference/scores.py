"""Scores of every positional encoding as its paper prints them, a function for each.

Arguments are those of the encoding that is judged: tokens x_query (queries, model_dim) and x_key
(keys, model_dim), their positions m and n, the weights by name with the heads first, and the
encoding's options. Each returns (heads, queries, keys), one formula at a time, in float64.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Weights = Mapping[str, Array]
#: For each rotated pair its two coordinates, theta and the attention factor A.
Turns = Sequence[tuple[int, int, float, float]]
#: Head, query, key, x_m W_q and x_n W_k.
Entry = Callable[[int, int, int, Array, Array], float]


def _every(x_query: Array, x_key: Array, weights: Weights, entry: Entry) -> Array:
    out = np.empty((len(weights["query"]), len(x_query), len(x_key)))
    for h in range(len(out)):
        for a, x in enumerate(x_query):
            for b, y in enumerate(x_key):
                out[h, a, b] = entry(h, a, b, x @ weights["query"][h], y @ weights["key"][h])
    return out


def _root(weights: Weights) -> float:
    """sqrt(d), d the head dim."""
    return math.sqrt(weights["query"].shape[2])


def nope(x_query: Array, x_key: Array, _m: Array, _n: Array, weights: Weights) -> Array:
    """(x_m W_q) . (x_n W_k) / sqrt(d), without positions (RoFormer Eq. 2)."""
    root = _root(weights)
    return _every(x_query, x_key, weights, lambda _h, _a, _b, q, k: float(q @ k / root))


def rope(
    x_query: Array,
    x_key: Array,
    m: Array,
    n: Array,
    weights: Weights,
    *,
    turns: Turns = (),
    softmax_factor: float = 1.0,
) -> Array:
    """Re sum_i A^2 q_i conj(k_i) e^{i (m-n) theta_i} / sqrt(d) (RoFormer Eq. 12 and 16).

    Coordinates in none of the pairs that are given add their plain product.
    """
    if not turns:
        return xpos(x_query, x_key, m, n, weights, scale_base=math.inf)
    root = _root(weights) / softmax_factor

    def entry(_h: int, a: int, b: int, q: Array, k: Array) -> float:
        others = set(range(len(q)))
        total = 0.0
        for i, j, theta, factor in turns:
            turn = factor**2 * cmath.exp(1j * (m[a] - n[b]) * theta)
            total += (complex(q[i], q[j]) * complex(k[i], -k[j]) * turn).real
            others -= {i, j}
        return (total + sum(float(q[c] * k[c]) for c in others)) / root

    return _every(x_query, x_key, weights, entry)


def rope_code(position: float, dim: int, turns: Turns = ()) -> Array:
    """A vector of ones, turned to a position."""
    code = np.ones(dim)
    for i, j, theta, factor in turns or _plain_turns(dim):
        turned = factor * complex(1, 1) * cmath.exp(1j * position * theta)
        code[i], code[j] = turned.real, turned.imag
    return code


def _plain_turns(dim: int, base: float = 10_000.0) -> Turns:
    return [(2 * i, 2 * i + 1, base ** (-2 * i / dim), 1.0) for i in range(dim // 2)]


def xpos_code(
    position: float,
    dim: int,
    base: float = 10_000.0,
    scale_base: float = 512.0,
    gamma: float = 0.4,
) -> Array:
    """A vector of ones, turned and shrunk as a query at a position."""
    code = rope_code(position, dim, _plain_turns(dim, base))
    for c in range(dim):
        zeta = (c // 2 * 2 / dim + gamma) / (1 + gamma)
        code[c] *= zeta ** (position / scale_base)
    return code


def xpos(
    x_query: Array,
    x_key: Array,
    m: Array,
    n: Array,
    weights: Weights,
    *,
    base: float = 10_000.0,
    scale_base: float = 512.0,
    gamma: float = 0.4,
) -> Array:
    """Re sum_i q_i conj(k_i) (z_i^(1/scale_base) e^{i theta_i})^(m-n) / sqrt(d), Sun et al. 2022.

    theta_i = base^(-2i/d) and z_i = (2i/d + gamma) / (1 + gamma), on pairs (2i, 2i+1).
    """
    d = weights["query"].shape[2]

    def entry(_h: int, a: int, b: int, q: Array, k: Array) -> float:
        total = 0.0
        for i in range(d // 2):
            distance = m[a] - n[b]
            zeta = (2 * i / d + gamma) / (1 + gamma)
            turn = cmath.exp(1j * distance * base ** (-2 * i / d))
            product = complex(q[2 * i], q[2 * i + 1]) * complex(k[2 * i], -k[2 * i + 1])
            total += (product * turn).real * zeta ** (distance / scale_base) / math.sqrt(d)
        return total

    return _every(x_query, x_key, weights, entry)


def sinusoidal(
    x_query: Array,
    x_key: Array,
    m: Array,
    n: Array,
    weights: Weights,
    *,
    order: str = "interleaved",
    exponent: str = "2t/d",
) -> Array:
    """(x_m + p_m) W_q . (x_n + p_n) W_k / sqrt(d), p sinusoids (RoFormer Eq. 3 and 4)."""
    dim = weights["query"].shape[1]
    p, r = (np.array([sinusoid(at, dim, order, exponent) for at in ids]) for ids in (m, n))
    return nope(x_query + p, x_key + r, m, n, weights)


def sinusoid(position: float, dim: int, order: str, exponent: str = "2t/d") -> Array:
    """p_(i, 2t) = sin(i / 10000^(2t/d)), p_(i, 2t+1) = cos of the same; or all sines first."""
    p = np.empty(dim)
    for t in range(dim // 2):
        power = 2 * t / dim if exponent == "2t/d" else 2 * t / max(dim - 2, 1)
        angle = position / 10_000**power
        sine, cosine = (2 * t, 2 * t + 1) if order == "interleaved" else (t, dim // 2 + t)
        p[sine], p[cosine] = math.sin(angle), math.cos(angle)
    return p


def learned(
    x_query: Array, x_key: Array, m: Array, n: Array, weights: Weights, *, length: int = 512
) -> Array:
    """(x_m + p_m) W_q . (x_n + p_n) W_k / sqrt(d), p a table (RoFormer Eq. 3)."""
    table = weights["positions"]
    assert len(table) == length
    return nope(x_query + table[m.astype(int)], x_key + table[n.astype(int)], m, n, weights)


def shaw(
    x_query: Array,
    x_key: Array,
    m: Array,
    n: Array,
    weights: Weights,
    *,
    clip: int = 16,
    as_printed: bool = False,
) -> Array:
    """x_i W_q . (x_j W_k + a_clip(j-i)) / sqrt(d), Shaw et al. 2018, Eq. 4.

    As printed in RoFormer Eq. 5: x_m W_q . (x_n + p_clip(m-n)) W_k / sqrt(d).
    """
    root = _root(weights)

    def entry(h: int, a: int, b: int, q: Array, _k: Array) -> float:
        k = _shaw_side("key", x_key[b], m[a], n[b], h, weights, clip, as_printed)
        return float(q @ k / root)

    return _every(x_query, x_key, weights, entry)


def shaw_output(
    attention: Array,
    x_key: Array,
    m: Array,
    n: Array,
    weights: Weights,
    *,
    clip: int = 16,
    as_printed: bool = False,
) -> Array:
    """sum_j attention_ij (x_j W_v + a_clip(j-i)), Shaw et al. 2018, Eq. 3."""
    out = np.zeros((*attention.shape[:2], weights["value"].shape[2]))
    for h, a, b in np.ndindex(*attention.shape):
        i, j = float(m[a]), float(n[b])
        v = _shaw_side("value", x_key[b], i, j, h, weights, clip, as_printed)
        out[h, a] += attention[h, a, b] * v
    return out


def output(attention: Array, x_key: Array, weights: Weights) -> Array:
    """sum_n attention_mn x_n W_v (RoFormer Eq. 2); x_n + p_n for x_n in Eq. 3."""
    out = np.zeros((*attention.shape[:2], weights["value"].shape[2]))
    for h, a, b in np.ndindex(*attention.shape):
        out[h, a] += attention[h, a, b] * (x_key[b] @ weights["value"][h])
    return out


def _shaw_side(
    kind: str,
    y: Array,
    m: float,
    n: float,
    h: int,
    weights: Weights,
    clip: int,
    as_printed: bool,
) -> Array:
    """A key or a value as the query at m sees it."""
    table = weights[f"{kind}_positions"]
    if as_printed:
        p = table[max(-clip, min(clip, int(m - n))) + clip]
        return np.asarray((y + p) @ weights[kind][h])
    return np.asarray(y @ weights[kind][h] + table[max(-clip, min(clip, int(n - m))) + clip])


def transformer_xl(
    x_query: Array,
    x_key: Array,
    m: Array,
    n: Array,
    weights: Weights,
    *,
    as_printed: bool = False,
) -> Array:
    """(q.k + q.r + u.k + v.r) / sqrt(d), r = R_(i-j) W_R, Dai et al. 2019.

    As printed in RoFormer Eq. 7, u and v go through W_q as well.
    """
    dim, root = weights["query"].shape[1], _root(weights)

    def entry(h: int, a: int, b: int, q: Array, k: Array) -> float:
        u = weights["u"] @ weights["query"][h] if as_printed else weights["u"][h]
        v = weights["v"] @ weights["query"][h] if as_printed else weights["v"][h]
        r = sinusoid(m[a] - n[b], dim, "concatenated") @ weights["key_position"][h]
        return float((q @ k + q @ r + u @ k + v @ r) / root)

    return _every(x_query, x_key, weights, entry)


def t5(
    x_query: Array,
    x_key: Array,
    m: Array,
    n: Array,
    weights: Weights,
    *,
    num_buckets: int = 32,
    max_distance: int = 128,
    bidirectional: bool = True,
) -> Array:
    """(x_m W_q) . (x_n W_k) + b_bucket(n-m), not divided (RoFormer Eq. 8, Raffel et al. 2020)."""

    def entry(h: int, a: int, b: int, q: Array, k: Array) -> float:
        row = t5_bucket(int(n[b] - m[a]), num_buckets, max_distance, bidirectional)
        return float(q @ k + weights["bias"][row, h])

    return _every(x_query, x_key, weights, entry)


def t5_bucket(relative: int, num_buckets: int, max_distance: int, bidirectional: bool) -> int:
    """Half of a direction's buckets hold one distance each, the others grow as its logarithm."""
    first = 0
    if bidirectional:
        num_buckets //= 2
        first = num_buckets if relative > 0 else 0
        distance = abs(relative)
    else:
        distance = max(-relative, 0)
    exact = num_buckets // 2
    if distance < exact:
        return first + distance
    share = math.log(distance / exact) / math.log(max_distance / exact)
    # A whole number of steps may come out as a little less.
    steps = math.floor(share * (num_buckets - exact) + 1e-9)
    return first + min(exact + steps, num_buckets - 1)


def tupe(
    x_query: Array,
    x_key: Array,
    m: Array,
    n: Array,
    weights: Weights,
    *,
    length: int = 512,
    untie_cls: bool = True,
) -> Array:
    """(x_i W_q . x_j W_k) / sqrt(2d) + reset((p_i U_q . p_j U_k) / sqrt(2d) + b_(j-i)).

    RoFormer Eq. 9 and Ke et al. 2021; with [CLS] untied, reset gives theta1 where i = 0 and theta2
    where j = 0.
    """
    root = math.sqrt(2 * weights["query"].shape[2])
    table = weights["positions"]

    def entry(h: int, a: int, b: int, q: Array, k: Array) -> float:
        i, j = int(m[a]), int(n[b])
        p, r = table[i] @ weights["position_query"][h], table[j] @ weights["position_key"][h]
        place = p @ r / root + weights["bias"][j - i + length - 1, h]
        if untie_cls and i == 0:
            place = weights["theta1"][h]
        elif untie_cls and j == 0:
            place = weights["theta2"][h]
        return float(q @ k / root + place)

    return _every(x_query, x_key, weights, entry)


def deberta(
    x_query: Array,
    x_key: Array,
    m: Array,
    n: Array,
    weights: Weights,
    *,
    clip: int = 16,
    shared: bool = False,
    as_printed: bool = False,
) -> Array:
    """(q_i . k_j + q_i . kr_delta(i,j) + k_j . qr_delta(i,j)) / sqrt(3d), He et al. 2021, Eq. 4.

    As printed there and in RoFormer Eq. 10, the last index is delta(j,i).
    """
    query, key = ("query", "key") if shared else ("position_query", "position_key")
    root = math.sqrt(3 * weights["query"].shape[2])
    table = weights["positions"]

    def entry(h: int, a: int, b: int, q: Array, k: Array) -> float:
        i, j = int(m[a]), int(n[b])
        kr = table[_delta(i, j, clip)] @ weights[key][h]
        qr = table[_delta(j, i, clip) if as_printed else _delta(i, j, clip)] @ weights[query][h]
        return float((q @ k + q @ kr + k @ qr) / root)

    return _every(x_query, x_key, weights, entry)


def _delta(i: int, j: int, k: int) -> int:
    """He et al. 2021, Eq. 3: 0 where i - j <= -k, 2k - 1 where i - j >= k, else i - j + k."""
    if i - j <= -k:
        return 0
    if i - j >= k:
        return 2 * k - 1
    return i - j + k


def alibi(
    x_query: Array, x_key: Array, m: Array, n: Array, weights: Weights, *, absolute: bool = False
) -> Array:
    """(x_m W_q) . (x_n W_k) / sqrt(d) - slope_h (m - n), Press et al. 2021."""
    root, slopes = _root(weights), alibi_slopes(len(weights["query"]))

    def entry(h: int, a: int, b: int, q: Array, k: Array) -> float:
        distance = abs(m[a] - n[b]) if absolute else m[a] - n[b]
        return float(q @ k / root - slopes[h] * distance)

    return _every(x_query, x_key, weights, entry)


def alibi_slopes(heads: int) -> list[float]:
    """Return the geometric sequence from 2^(-8/n), and the rule for other n than powers of two."""
    if math.log2(heads).is_integer():
        start = 2 ** (-8 / heads)
        return [start**h for h in range(1, heads + 1)]
    below = 2 ** math.floor(math.log2(heads))
    return alibi_slopes(below) + alibi_slopes(2 * below)[0::2][: heads - below]


def kerple(
    x_query: Array, x_key: Array, m: Array, n: Array, weights: Weights, *, kind: str = "log"
) -> Array:
    """(x_m W_q) . (x_n W_k) / sqrt(d) - r1 ln(1 + r2 |m-n|), or - r1 |m-n|^r2, Chi et al. 2022."""
    root = _root(weights)

    def entry(h: int, a: int, b: int, q: Array, k: Array) -> float:
        r1, r2 = max(0.01, float(weights["r1"][h])), max(0.01, float(weights["r2"][h]))
        distance = abs(float(m[a]) - float(n[b]))
        if kind == "log":
            bias = -r1 * math.log(1 + r2 * distance)
        else:
            bias = -r1 * distance ** min(2.0, r2)
        return float(q @ k / root + bias)

    return _every(x_query, x_key, weights, entry)


def fire(
    x_query: Array,
    x_key: Array,
    m: Array,
    n: Array,
    weights: Weights,
    *,
    c: float = 0.1,
    threshold: float = 512.0,
) -> Array:
    """(x_m W_q) . (x_n W_k) / sqrt(d) + f(ln(c|m-n| + 1) / ln(c max(L, m) + 1)), Li et al. 2023."""
    root = _root(weights)

    def entry(h: int, a: int, b: int, q: Array, k: Array) -> float:
        near = math.log(c * abs(m[a] - n[b]) + 1)
        far = math.log(c * max(threshold, m[a]) + 1)
        units = near / far * weights["hidden"][0] + weights["hidden_bias"]
        network = np.maximum(units, 0) @ weights["output"] + weights["output_bias"]
        return float(q @ k / root + network[h])

    return _every(x_query, x_key, weights, entry)


def cope(
    x_query: Array,
    x_key: Array,
    m: Array,
    n: Array,
    weights: Weights,
    *,
    p_max: int = 64,
    as_listed: bool = False,
) -> Array:
    """(q_m . k_n + q_m . e[p_mn]) / sqrt(d), p_mn = sum over n <= t <= m of sigmoid(q_m . k_t).

    Golovneva et al. 2024; as in the paper's listing, sigmoid and q.k take q.k / sqrt(d).
    """
    inside, outside = (_root(weights), 1.0) if as_listed else (1.0, _root(weights))
    table = weights["position"]
    out = np.empty((len(weights["query"]), len(x_query), len(x_key)))
    for h, a in np.ndindex(*out.shape[:2]):
        q = x_query[a] @ weights["query"][h]
        logits = [float(q @ (y @ weights["key"][h])) / inside for y in x_key]
        gates = [_sigmoid(logit) for logit in logits]
        for b in range(len(x_key)):
            between = [gate for gate, at in zip(gates, n, strict=True) if n[b] <= at <= m[a]]
            position = min(sum(between), p_max - 1)
            low, high = math.floor(position), math.ceil(position)
            share = position - low
            own = (q @ table[low]) * (1 - share) + (q @ table[high]) * share
            out[h, a, b] = (logits[b] + own) / outside
    return out


def _sigmoid(logit: float) -> float:
    if logit < 0:
        return math.exp(logit) / (1 + math.exp(logit))
    return 1 / (1 + math.exp(-logit))


def pope(
    x_query: Array, x_key: Array, m: Array, n: Array, weights: Weights, *, base: float = 10_000.0
) -> Array:
    """Sum_c ln(1 + e^q_c) ln(1 + e^k_c) cos((n-m) base^(-c/d) + delta_c) / sqrt(d), 2509.10534."""
    d, root = weights["query"].shape[2], _root(weights)

    def entry(h: int, a: int, b: int, q: Array, k: Array) -> float:
        total = 0.0
        for c in range(d):
            delta = min(0.0, max(-2 * math.pi, float(weights["delta"][h, c])))
            angle = (n[b] - m[a]) * base ** (-c / d) + delta
            total += _softplus(float(q[c])) * _softplus(float(k[c])) * math.cos(angle)
        return total / root

    return _every(x_query, x_key, weights, entry)


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))
