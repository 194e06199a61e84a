"""Encodings that change the scores of queries and keys: Shaw, Transformer-XL, DeBERTa, TUPE, ..."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from ropecli.arrays import Array
from ropecli.checks.encoding.asked import Asked
from ropecli.checks.encoding.reading import Difference, Reading, Values, exact

#: Parts of a score, each (batch, heads, queries, keys); they are added.
Parts = Callable[[Asked, Mapping[str, Any]], list[Array]]
#: Roundings of a sum of products, of the sum of their sizes.
SUM = 8.0
ANGLE = 24.0  #: As of sinusoidal tables.


def _scores(
    *ways: Difference, times: int = 1, angles: bool = False
) -> Callable[[Parts], Callable[[Array, Asked], Iterator[Reading]]]:
    """Declare the function below as the parts of a score, with the ways to read them.

    Args:
        *ways: The options of the parts by what is said of them.
        times: Scores are divided by the root of so many times d.
        angles: Whether parts have the roundings of angles.
    """
    root = f"sqrt({'' if times == 1 else times}d)"
    divisors = [
        Difference("", "", lambda dim: math.sqrt(times * dim)),
        Difference(f"not divided by {root}", "", lambda _: 1.0),
        Difference(f"divided by d, expected {root}", None, float),
    ]
    if times > 1:
        divisors.append(Difference(f"divided by sqrt(d), expected {root}", None, math.sqrt))

    def declare(parts_of: Parts) -> Callable[[Array, Asked], Iterator[Reading]]:
        def compute(
            way: Mapping[str, Any], divisor: Callable[[int], float], asked: Asked
        ) -> Values:
            parts, by = parts_of(asked, way), divisor(asked.dim)
            total = np.sum(np.broadcast_arrays(*parts), axis=0) / by
            size = sum(np.abs(np.nan_to_num(part)) for part in parts) / by
            reach = np.abs(asked.q).max() * np.abs(asked.k).max() * asked.dim / by
            angle = ANGLE * max(asked.queries, asked.keys) if angles else 0.0
            return total, SUM * (size + reach), angle * (size + reach)

        def readings(_got: Array, _asked: Asked) -> Iterator[Reading]:
            for way, divisor in itertools.product(ways, divisors):
                options = {**way.value, "divided": divisor.said}
                of_way = partial(compute, way.value, divisor.value)
                yield Reading.of(of_way, way, divisor, **options)

        return readings

    return declare


def _dots(q: Array, k: Array) -> Array:
    return np.asarray(q @ k.swapaxes(-1, -2))


def _gather_rows(each: Array, rows: Array) -> Array:
    """Return products with the row of a table that each query and key asks for.

    Args:
        each: (batch, heads, tokens, rows).
        rows: (queries, keys), integers.
    """
    tokens = np.arange(each.shape[2])[:, None]
    return np.asarray(each[:, :, tokens, rows.astype(int)])


def _clip_distances(relative: Array, clip: int) -> Array:
    return np.clip(relative, -clip, clip) + clip


@_scores(
    Difference("", "", {}),
    Difference("distances are query minus key, expected key minus query", None, {"sign": -1}),
    Difference("distances are 1 more", None, {"shift": 1}),
    Difference("distances are 1 less", None, {"shift": -1}),
    Difference("distances are not clipped", None, {"unclipped": True}),
    Difference("the table is multiplied with keys, expected queries", None, {"of_keys": True}),
)
def shaw(asked: Asked, way: Mapping[str, Any]) -> list[Array]:
    """A table of distances, clipped, is added to keys (RoFormer Eq. 5)."""
    clip = int(asked.setting("clip", 2))
    table = asked.weight("key_positions", (2 * clip + 1, asked.dim))
    relative = way.get("sign", 1) * asked.relative + way.get("shift", 0)
    rows = np.minimum(_clip_distances(relative, clip), len(table) - 1)
    if way.get("unclipped"):
        rows = (relative + clip) % len(table)
    by_key = way.get("of_keys", False)
    of = asked.k if by_key else asked.q
    products = of @ table.T
    placed = (
        _gather_rows(products, rows.T).swapaxes(-1, -2) if by_key else _gather_rows(products, rows)
    )
    return [_dots(asked.q, asked.k), placed]


@_scores(
    Difference("", "", {}),
    Difference("u and v are exchanged", None, {"exchanged": True}),
    Difference("distances are 1 more: the shift is one off", None, {"shift": 1}),
    Difference("distances are 1 less: the shift is one off", None, {"shift": -1}),
    Difference("rows of r are those of rising distances", None, {"rising": True}),
    Difference("u is not added", None, {"no u": True}),
    Difference("v is not added", None, {"no v": True}),
    Difference("neither u nor v is added", None, {"no u": True, "no v": True}),
)
def transformer_xl(asked: Asked, way: Mapping[str, Any]) -> list[Array]:
    """Content and position, with the biases u and v of queries (RoFormer Eq. 7)."""
    u = asked.weight("u", (asked.heads, asked.dim))[:, None]
    v = asked.weight("v", (asked.heads, asked.dim))[:, None]
    u, v = (v, u) if way.get("exchanged") else (u, v)
    r = asked.weight("r", (asked.heads, asked.queries + asked.keys, asked.dim))
    if r.ndim == 2:
        r = r[None]
    if r.shape[0] != asked.heads and r.ndim == 3 and r.shape[1] == asked.heads:
        r = r.swapaxes(0, 1)
    count, first = r.shape[1], asked.keys - 1
    # Row i of r is that of distance keys - 1 - i, the furthest one first, as released.
    distance = way.get("sign", 1) * (asked.m + asked.keys - asked.queries - asked.n)
    distance = distance + way.get("shift", 0)
    rows = first - distance if not way.get("rising") else distance
    inside = (rows >= 0) & (rows < count) & (asked.n <= asked.m + asked.keys - asked.queries)
    rows = np.where(inside, rows, 0)
    placed = _gather_rows((asked.q + (0 if way.get("no v") else v)) @ r.swapaxes(-1, -2), rows)
    content = _dots(asked.q + (0 if way.get("no u") else u), asked.k)
    return [content, np.where(inside, placed, np.nan)]


@_scores(
    Difference("", "", {}),
    Difference("the last index is delta(j, i)", "the paper", {"printed": True}),
    Difference("distances are key minus query, expected query minus key", None, {"sign": -1}),
    Difference("position keys and position queries are exchanged", None, {"exchanged": True}),
    Difference("the term of content and position is missing", None, {"no c2p": True}),
    Difference("the term of position and content is missing", None, {"no p2c": True}),
    times=3,
)
def deberta(asked: Asked, way: Mapping[str, Any]) -> list[Array]:
    """Content with content, content with position, position with content (RoFormer Eq. 10)."""
    clip = int(asked.setting("clip", 2))
    kr = asked.weight("position_key", (2 * clip, asked.dim))
    qr = asked.weight("position_query", (2 * clip, asked.dim))
    kr, qr = (qr, kr) if way.get("exchanged") else (kr, qr)
    delta = np.clip(-way.get("sign", 1) * asked.relative + clip, 0, 2 * clip - 1)
    other = np.clip(asked.relative + clip, 0, 2 * clip - 1) if way.get("printed") else delta
    parts = [_dots(asked.q, asked.k)]
    if not way.get("no c2p"):
        parts.append(_gather_rows(asked.q @ kr.T, delta))
    if not way.get("no p2c"):
        parts.append(_gather_rows(asked.k @ qr.T, other.T).swapaxes(-1, -2))
    return parts


@_scores(
    Difference("", "", {}),
    Difference("positions are not used", None, {"content": True}),
    Difference("content and position are multiplied with each other", None, {"crossed": True}),
    times=2,
)
def tupe(asked: Asked, way: Mapping[str, Any]) -> list[Array]:
    """Content with content, and position with position (RoFormer Eq. 9)."""
    most = max(asked.queries, asked.keys)
    shape = (asked.heads, most, asked.dim)
    p = asked.weight("position_query", shape)[..., : asked.queries, :]
    r = asked.weight("position_key", shape)[..., : asked.keys, :]
    p, r = (np.reshape(vectors, (-1, *vectors.shape[-2:])) for vectors in (p, r))
    parts = [_dots(asked.q, asked.k)]
    parts += [] if way.get("content") else [_dots(p, r)[None]]
    if way.get("crossed"):
        parts += [_dots(asked.q, r[None]), _dots(p[None], asked.k)]
    return parts


@_scores(
    Difference("halves", "GPT-NeoX, Transformers", {"layout": "half"}),
    Difference("", "", {"layout": "interleaved"}),
    Difference("keys are turned backwards", None, {"layout": "half", "keys": -1}),
    Difference("keys are turned backwards", None, {"layout": "interleaved", "keys": -1}),
    Difference("keys are not turned", None, {"layout": "half", "keys": 0}),
    Difference("keys are not turned", None, {"layout": "interleaved", "keys": 0}),
    angles=True,
)
def rope(asked: Asked, way: Mapping[str, Any]) -> list[Array]:
    """Queries and keys turned by their positions (RoFormer Eq. 16)."""
    dim, base = asked.dim, float(asked.setting("base", 10_000.0))
    half = np.arange(dim // 2)
    first, second = (half, dim // 2 + half)
    if way.get("layout") == "interleaved":
        first, second = 2 * half, 2 * half + 1
    inv_freq = base ** (-2 * half / dim)
    q = asked.q[..., first] + 1j * asked.q[..., second]
    k = asked.k[..., first] + 1j * asked.k[..., second]
    m, n = asked.m[:, 0], asked.n
    turned = q * np.exp(1j * m[:, None] * inv_freq)
    others = k * np.exp(way.get("keys", 1) * 1j * n[:, None] * inv_freq)
    return [np.asarray((turned @ others.conj().swapaxes(-1, -2)).real)]


@_scores(
    Difference("", "", {}),
    Difference("gates of q.k / sqrt(d)", "the paper's listing", {"listed": True}),
    Difference("gates of later keys are counted", None, {"unmasked": True}),
    Difference("gates are counted from the first key on", None, {"forwards": True}),
    Difference("positions are rounded, not interpolated", None, {"nearest": True}),
)
def cope(asked: Asked, way: Mapping[str, Any]) -> list[Array]:
    """Positions that gates of the keys between add up to (Golovneva et al. 2024)."""
    most = int(asked.setting("p_max", 4))
    logits = _dots(asked.q, asked.k) / (math.sqrt(asked.dim) if way.get("listed") else 1.0)
    seen = asked.n <= asked.m
    gates = np.where(seen, 1 / (1 + np.exp(-logits)), 0.0)
    if way.get("unmasked"):
        gates = 1 / (1 + np.exp(-logits))
    counted = np.cumsum(gates[..., ::-1], axis=-1)[..., ::-1]
    if way.get("forwards"):
        counted = np.cumsum(gates, axis=-1)
    at = np.clip(counted, 0, most - 1)
    table = asked.weight("position", (most, asked.dim))
    table = table if table.shape[-1] == asked.dim else table.swapaxes(-1, -2)
    products = asked.q @ table.reshape(-1, asked.dim).T
    low, high = np.floor(at), np.ceil(at)
    share = np.round(at) - low if way.get("nearest") else at - low
    pick = [np.take_along_axis(products, end.astype(int), -1) for end in (low, high)]
    own = pick[0] * (1 - share) + pick[1] * share
    return [np.where(seen, logits, np.nan), own]


@_scores(
    Difference("", "", {}),
    Difference("offsets are not clipped to [-2 pi, 0]", None, {"unclipped": True}),
    Difference("offsets are those of queries, expected keys", None, {"queries": 1}),
    Difference("two coordinates share each frequency", None, {"pairs": True}),
    Difference("no softplus is taken", None, {"plain": True}),
    angles=True,
)
def pope(asked: Asked, way: Mapping[str, Any]) -> list[Array]:
    """Sizes of coordinates, each turned by its position (arXiv:2509.10534)."""
    base, dim = float(asked.setting("base", 10_000.0)), asked.dim
    coordinate = np.arange(dim) // 2 * 2 if way.get("pairs") else np.arange(dim)
    theta = base ** (-coordinate / dim)
    delta = asked.weight("delta", (asked.heads, dim)).reshape(asked.heads, 1, dim)
    delta = delta if way.get("unclipped") else np.clip(delta, -2 * np.pi, 0.0)
    q, k = asked.q, asked.k
    if not way.get("plain"):
        q, k = np.logaddexp(0.0, q), np.logaddexp(0.0, k)
    m, n = asked.m * theta, asked.n[:, None] * theta
    turned = q * np.exp(1j * (m + way.get("queries", 0) * delta))
    others = k * np.exp(1j * (n + (1 - way.get("queries", 0)) * delta))
    return [np.asarray((turned @ others.conj().swapaxes(-1, -2)).real)]


@_scores(Difference("", "", {}))
def nope(asked: Asked, _way: Mapping[str, Any]) -> list[Array]:
    """Parts of scores without positions."""
    return [_dots(asked.q, asked.k)]


def shift_readings(_got: Array, _asked: Asked) -> Iterator[Reading]:
    """Yield what Transformer-XL's shift may do to scores by distance (Dai et al. 2019, App. B)."""
    for said, more in {"": 0, "the shift is one too far": 1, "the shift is one short": -1}.items():
        yield Reading(compute=partial(_shift_columns, more), said=said)
    for said, step in {
        "columns are in reverse order, and not shifted": -1,
        "nothing is shifted": 1,
    }.items():
        yield Reading(compute=partial(_columns, step), said=said)


def _shift_columns(more: int, asked: Asked) -> Values:
    row, key = np.arange(asked.queries)[:, None], np.arange(asked.keys)
    column = key + asked.queries - 1 - row + more
    seen = (key <= row + asked.keys - asked.queries) & (column >= 0) & (column < asked.keys)
    rows = np.where(seen, column, 0)
    return exact(np.where(seen, asked.by_distance[:, :, row, rows], np.nan))


def _columns(step: int, asked: Asked) -> Values:
    return exact(asked.by_distance[..., ::step])
