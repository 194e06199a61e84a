"""ALiBi: a bias that falls with distance, by a slope of each head (Press et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ropecli.arrays import Array
from ropecli.checks.encoding.asked import Asked
from ropecli.checks.encoding.reading import Reading, Values, released_by, rounded
from ropecli.reference.scores import alibi_slopes

SETTINGS: Mapping[str, Any] = {"bias_max": 8.0}


def _geometric(heads: int, first: float = 1.0, most: float = 8.0) -> Array:
    return np.asarray(2.0 ** (-most * (np.arange(heads) + first) / heads))


def _authors(heads: int) -> Array:
    return np.array(alibi_slopes(heads))


def _is_power(heads: int) -> bool:
    return math.log2(heads).is_integer()


def _next_power(heads: int) -> int:
    return int(2 ** math.ceil(math.log2(heads)))


#: Rules of slopes for a number of heads: what is said of them, and who releases them so.
SLOPES: dict[str, tuple[Callable[[int], Array], str, str | None]] = {
    "authors": (_authors, "", ""),
    "sentence": (_geometric, "slopes are 2^(-8h/n) for all n", "the paper's sentence"),
    "next": (
        lambda heads: _authors(_next_power(heads))[:heads],
        "slopes of {heads} heads are those of {next}, the first {heads}",
        None,
    ),
    "last": (
        lambda heads: _authors(_next_power(heads))[-heads:],
        "slopes of {heads} heads are those of {next}, the last {heads}",
        None,
    ),
    "below": (
        lambda heads: np.resize(_authors(_next_power(heads + 1) // 2), heads),
        "slopes of {heads} heads are those of {below}, repeated",
        None,
    ),
    "every first": (
        lambda heads: np.concatenate(
            [
                _authors(_next_power(heads + 1) // 2),
                _authors(_next_power(heads + 1))[: heads - _next_power(heads + 1) // 2],
            ]
        ),
        "further slopes of {heads} heads are the first ones of {next}, expected every second one",
        None,
    ),
    "from 1": (lambda heads: _geometric(heads, 0.0), "slopes begin with 1: one head early", None),
    "late": (lambda heads: _geometric(heads, 2.0), "slopes are one head late", None),
    "reversed": (lambda heads: _authors(heads)[::-1].copy(), "slopes are in reverse order", None),
    "halved": (lambda heads: _geometric(heads, 1.0, 4.0), "slopes are 2^(-4h/n)", None),
    "same": (
        lambda heads: np.full(heads, _authors(heads)[0]),
        "all heads have the first head's slope",
        None,
    ),
    "inverse": (lambda heads: 1 / _authors(heads), "slopes are inverted: 2^(+8h/n)", None),
    "linear": (
        lambda heads: (np.arange(heads) + 1.0) / heads,
        "slopes are h/n, expected powers of 2",
        None,
    ),
}


def _slopes(rule: str, asked: Asked) -> Array:
    most = float(asked.setting("bias_max", 8.0))
    return np.asarray(SLOPES[rule][0](asked.heads)) ** (most / 8.0)


def _said(rule: str, heads: int) -> str:
    below = _next_power(heads + 1) // 2
    return SLOPES[rule][1].format(heads=heads, next=_next_power(heads), below=below)


def slopes_readings(got: Array, asked: Asked) -> Iterator[Reading]:
    """Yield the rules of slopes, and their opposite sign."""
    for rule in _distinct(asked):
        yield Reading(
            compute=lambda asked, rule=rule: rounded(_slopes(rule, asked)),  # type: ignore[misc]
            said=_said(rule, asked.heads),
            released=SLOPES[rule][2],
            options={"slopes": rule},
        )
    yield Reading(
        compute=lambda asked: rounded(-_slopes("authors", asked)),
        said="slopes are negative",
        released="",
        options={"slopes": "negative"},
    )
    del got


def _distinct(asked: Asked) -> list[str]:
    """Return the rules, without those that are the same for a number of heads."""
    seen: dict[tuple[float, ...], str] = {}
    for rule in SLOPES:
        seen.setdefault(tuple(np.round(_slopes(rule, asked), 12)), rule)
    return [*seen.values()]


def _past(asked: Asked) -> Array:
    """What the bias of each distance is, by a slope of 1: of later keys, whatever there is."""
    return np.where(asked.relative <= 0, asked.relative, np.nan)


#: What slopes are multiplied by, (queries, keys).
DISTANCES: dict[str, tuple[Callable[[Asked], Array], str, str | None]] = {
    "symmetric": (
        lambda asked: -np.abs(asked.relative),
        "symmetric",
        "x-transformers",
    ),
    "past": (_past, "", ""),
    "key": (
        lambda asked: np.broadcast_to(asked.n, asked.relative.shape),
        "slope times the key's position, the same up to a constant of each query",
        "BLOOM, Falcon",
    ),
    "last": (
        lambda asked: np.broadcast_to(asked.n - asked.keys + 1, asked.relative.shape),
        "distances are those to the last key, the same up to a constant of each query",
        "MPT",
    ),
    "sign": (
        lambda asked: np.where(asked.relative <= 0, -asked.relative, np.nan),
        "the sign is +, expected -",
        None,
    ),
    "key sign": (
        lambda asked: np.broadcast_to(-asked.n, asked.relative.shape),
        "the sign is -, expected +, for a key's position",
        None,
    ),
    "late": (
        lambda asked: np.where(asked.relative <= 0, asked.relative - 1, np.nan),
        "distances are 1 more: a token is 1 from itself",
        None,
    ),
    "early": (
        lambda asked: np.where(asked.relative <= 0, np.minimum(asked.relative + 1, 0), np.nan),
        "distances are 1 less",
        None,
    ),
    "exchanged": (
        lambda asked: np.where(asked.relative >= 0, -asked.relative, np.nan),
        "queries and keys are exchanged",
        None,
    ),
    "query": (
        lambda asked: np.broadcast_to(-asked.m, asked.relative.shape),
        "slope times the query's position, which a softmax takes out again",
        None,
    ),
    "squared": (
        lambda asked: np.where(asked.relative <= 0, -(asked.relative**2), np.nan),
        "distances are squared",
        None,
    ),
    "root": (
        lambda asked: np.where(asked.relative <= 0, -np.sqrt(np.abs(asked.relative)), np.nan),
        "distances are square roots",
        None,
    ),
}


def bias_readings(got: Array, asked: Asked) -> Iterator[Reading]:
    """Yield biases: by their slopes, by what these are multiplied by, and by a factor."""
    for distance, (of, said_of, where) in DISTANCES.items():
        for rule in _distinct(asked):
            _, _, released = SLOPES[rule]
            words = ", ".join(filter(None, [_said(rule, asked.heads), said_of]))
            yield Reading(
                compute=lambda asked, of=of, rule=rule: _bias(of, rule, asked),  # type: ignore[misc]
                said=words,
                released=released_by(released, where),
                options={"slopes": rule, "distance": distance},
            )
    for factor, said in (
        (1 / math.sqrt(asked.dim), "the bias is divided by sqrt(d)"),
        (math.sqrt(asked.dim), "the bias is multiplied by sqrt(d)"),
        (0.5, "the bias is halved"),
        (2.0, "the bias is doubled"),
        (math.log2(math.e), "the bias is in powers of 2, for exp2 in place of exp"),
    ):
        yield Reading(
            compute=lambda asked, factor=factor: _bias(_past, "authors", asked, factor),  # type: ignore[misc]
            said=said,
        )
    del got


def _bias(of: Callable[[Asked], Array], rule: str, asked: Asked, factor: float = 1.0) -> Values:
    return rounded(factor * _slopes(rule, asked)[:, None, None] * of(asked))
