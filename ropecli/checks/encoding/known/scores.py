"""Encodings that change the scores of queries and keys: Shaw, Transformer-XL, DeBERTa, TUPE, ..."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ropecli.arrays import Array
from ropecli.checks.encoding.asked import Asked
from ropecli.checks.encoding.reading import Reading, Values, released_by

SETTINGS: dict[str, Mapping[str, Any]] = {
    "shaw": {"clip": 2},
    "deberta": {"clip": 2},
    "transformer_xl": {},
    "tupe": {},
    "rope": {"base": 10_000.0},
    "cope": {"p_max": 4},
    "nope": {},
    "pope": {"base": 10_000.0},
}
#: Parts of a score, each (batch, heads, queries, keys); they are added.
Parts = Callable[[Asked, Mapping[str, Any]], list[Array]]


def _dots(q: Array, k: Array) -> Array:
    return np.asarray(q @ k.swapaxes(-1, -2))


def _gathered(each: Array, rows: Array) -> Array:
    """Return products with the row of a table that each query and key asks for.

    Args:
        each: (batch, heads, tokens, rows).
        rows: (queries, keys), integers.
    """
    tokens = np.arange(each.shape[2])[:, None]
    return np.asarray(each[:, :, tokens, rows.astype(int)])


def _clipped(relative: Array, clip: int) -> Array:
    return np.clip(relative, -clip, clip) + clip


def _shaw(asked: Asked, way: Mapping[str, Any]) -> list[Array]:
    clip = int(asked.setting("clip", 2))
    table = asked.weight("key_positions", (2 * clip + 1, asked.dim))
    relative = way.get("sign", 1) * asked.relative + way.get("shift", 0)
    rows = np.minimum(_clipped(relative, clip), len(table) - 1)
    if way.get("unclipped"):
        rows = (relative + clip) % len(table)
    by_key = way.get("of_keys", False)
    of = asked.k if by_key else asked.q
    products = of @ table.T
    placed = _gathered(products, rows.T).swapaxes(-1, -2) if by_key else _gathered(products, rows)
    return [_dots(asked.q, asked.k), placed]


def _transformer_xl(asked: Asked, way: Mapping[str, Any]) -> list[Array]:
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
    placed = _gathered((asked.q + (0 if way.get("no v") else v)) @ r.swapaxes(-1, -2), rows)
    content = _dots(asked.q + (0 if way.get("no u") else u), asked.k)
    return [content, np.where(inside, placed, np.nan)]


def _deberta(asked: Asked, way: Mapping[str, Any]) -> list[Array]:
    clip = int(asked.setting("clip", 2))
    kr = asked.weight("position_key", (2 * clip, asked.dim))
    qr = asked.weight("position_query", (2 * clip, asked.dim))
    kr, qr = (qr, kr) if way.get("exchanged") else (kr, qr)
    delta = np.clip(-way.get("sign", 1) * asked.relative + clip, 0, 2 * clip - 1)
    other = np.clip(asked.relative + clip, 0, 2 * clip - 1) if way.get("printed") else delta
    parts = [_dots(asked.q, asked.k)]
    if not way.get("no c2p"):
        parts.append(_gathered(asked.q @ kr.T, delta))
    if not way.get("no p2c"):
        parts.append(_gathered(asked.k @ qr.T, other.T).swapaxes(-1, -2))
    return parts


def _tupe(asked: Asked, way: Mapping[str, Any]) -> list[Array]:
    most = max(asked.queries, asked.keys)
    shape = (asked.heads, most, asked.dim)
    p = asked.weight("position_query", shape)[..., : asked.queries, :]
    r = asked.weight("position_key", shape)[..., : asked.keys, :]
    p, r = (np.reshape(each, (-1, *each.shape[-2:])) for each in (p, r))
    parts = [_dots(asked.q, asked.k)]
    parts += [] if way.get("content") else [_dots(p, r)[None]]
    if way.get("crossed"):
        parts += [_dots(asked.q, r[None]), _dots(p[None], asked.k)]
    return parts


def _rope(asked: Asked, way: Mapping[str, Any]) -> list[Array]:
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


def _cope(asked: Asked, way: Mapping[str, Any]) -> list[Array]:
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
    pick = [np.take_along_axis(products, each.astype(int), -1) for each in (low, high)]
    own = pick[0] * (1 - share) + pick[1] * share
    return [np.where(seen, logits, np.nan), own]


def _pope(asked: Asked, way: Mapping[str, Any]) -> list[Array]:
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


#: Of each encoding: its parts, what its scores are divided by, and the ways to read it.
ENCODINGS: dict[str, tuple[Parts, int, list[tuple[str, Mapping[str, Any], str | None]]]] = {
    "shaw": (
        _shaw,
        1,
        [
            ("", {}, ""),
            ("distances are query minus key, expected key minus query", {"sign": -1}, None),
            ("distances are 1 more", {"shift": 1}, None),
            ("distances are 1 less", {"shift": -1}, None),
            ("distances are not clipped", {"unclipped": True}, None),
            ("the table is multiplied with keys, expected queries", {"of_keys": True}, None),
        ],
    ),
    "transformer_xl": (
        _transformer_xl,
        1,
        [
            ("", {}, ""),
            ("u and v are exchanged", {"exchanged": True}, None),
            ("distances are 1 more: the shift is one off", {"shift": 1}, None),
            ("distances are 1 less: the shift is one off", {"shift": -1}, None),
            ("rows of r are those of rising distances", {"rising": True}, None),
            ("u is not added", {"no u": True}, None),
            ("v is not added", {"no v": True}, None),
            ("neither u nor v is added", {"no u": True, "no v": True}, None),
        ],
    ),
    "deberta": (
        _deberta,
        3,
        [
            ("", {}, ""),
            ("the last index is delta(j, i)", {"printed": True}, "the paper"),
            ("distances are key minus query, expected query minus key", {"sign": -1}, None),
            ("position keys and position queries are exchanged", {"exchanged": True}, None),
            ("the term of content and position is missing", {"no c2p": True}, None),
            ("the term of position and content is missing", {"no p2c": True}, None),
        ],
    ),
    "tupe": (
        _tupe,
        2,
        [
            ("", {}, ""),
            ("positions are not used", {"content": True}, None),
            ("content and position are multiplied with each other", {"crossed": True}, None),
        ],
    ),
    "rope": (
        _rope,
        1,
        [
            ("halves", {"layout": "half"}, "GPT-NeoX, Transformers"),
            ("", {"layout": "interleaved"}, ""),
            ("keys are turned backwards", {"layout": "half", "keys": -1}, None),
            ("keys are turned backwards", {"layout": "interleaved", "keys": -1}, None),
            ("keys are not turned", {"layout": "half", "keys": 0}, None),
            ("keys are not turned", {"layout": "interleaved", "keys": 0}, None),
        ],
    ),
    "cope": (
        _cope,
        1,
        [
            ("", {}, ""),
            ("gates of q.k / sqrt(d)", {"listed": True}, "the paper's listing"),
            ("gates of later keys are counted", {"unmasked": True}, None),
            ("gates are counted from the first key on", {"forwards": True}, None),
            ("positions are rounded, not interpolated", {"nearest": True}, None),
        ],
    ),
    "pope": (
        _pope,
        1,
        [
            ("", {}, ""),
            ("offsets are not clipped to [-2 pi, 0]", {"unclipped": True}, None),
            ("offsets are those of queries, expected keys", {"queries": 1}, None),
            ("two coordinates share each frequency", {"pairs": True}, None),
            ("no softplus is taken", {"plain": True}, None),
        ],
    ),
    "nope": (lambda asked, _: [_dots(asked.q, asked.k)], 1, [("", {}, "")]),
}
#: Roundings of a sum of products, of the sum of their sizes.
SUM = 8.0
ANGLE = 24.0  #: As of sinusoidal tables.


def readings_of(name: str) -> Callable[[Array, Asked], Iterator[Reading]]:
    """Return what yields the readings of an encoding of scores."""
    parts_of, times, ways = ENCODINGS[name]

    def readings(got: Array, asked: Asked) -> Iterator[Reading]:
        del got
        of = f"sqrt({'' if times == 1 else times}d)"
        divisors: list[tuple[Callable[[int], float], str, str | None]] = [
            (lambda dim: math.sqrt(times * dim), "", ""),
            (lambda _: 1.0, f"not divided by {of}", ""),
            (float, f"divided by d, expected {of}", None),
        ]
        if times > 1:
            divisors.append((math.sqrt, f"divided by sqrt(d), expected {of}", None))
        for (said, way, released), (divisor, words, who) in itertools.product(ways, divisors):

            def compute(
                asked: Asked,
                way: Mapping[str, Any] = way,
                divisor: Callable[[int], float] = divisor,
            ) -> Values:
                parts, by = parts_of(asked, way), divisor(asked.dim)
                total = np.sum(np.broadcast_arrays(*parts), axis=0) / by
                size = sum(np.abs(np.nan_to_num(each)) for each in parts) / by
                reach = np.abs(asked.q).max() * np.abs(asked.k).max() * asked.dim / by
                angle = ANGLE * max(asked.queries, asked.keys) if name in {"rope", "pope"} else 0.0
                return total, SUM * (size + reach), angle * (size + reach)

            yield Reading(
                compute=compute,
                said=", ".join(filter(None, [said, words])),
                released=released_by(released, who),
                options={**way, "divided": words},
            )

    return readings


def shift_readings(got: Array, asked: Asked) -> Iterator[Reading]:
    """Yield what Transformer-XL's shift may do to scores by distance (Dai et al. 2019, App. B)."""
    del got
    ways = {"": 0, "the shift is one too far": 1, "the shift is one short": -1}
    for said, more in ways.items():

        def compute(asked: Asked, more: int = more) -> Values:
            row, key = np.arange(asked.queries)[:, None], np.arange(asked.keys)
            column = key + asked.queries - 1 - row + more
            seen = (key <= row + asked.keys - asked.queries) & (column >= 0) & (column < asked.keys)
            rows = np.where(seen, column, 0)
            values = np.where(seen, asked.by_distance[:, :, row, rows], np.nan)
            return values, np.zeros_like(values), np.zeros_like(values)

        yield Reading(compute=compute, said=said)

    def turned(asked: Asked) -> Values:
        values = asked.by_distance[..., ::-1]
        return values, np.zeros_like(values), np.zeros_like(values)

    def untouched(asked: Asked) -> Values:
        values = asked.by_distance
        return values, np.zeros_like(values), np.zeros_like(values)

    yield Reading(compute=turned, said="columns are in reverse order, and not shifted")
    yield Reading(compute=untouched, said="nothing is shifted")
