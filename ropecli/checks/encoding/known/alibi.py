"""ALiBi: a bias that falls with distance, by a slope of each head (Press et al. 2022)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ropecli.arrays import Array
from ropecli.checks.encoding.asked import Asked
from ropecli.checks.encoding.reading import Difference, Reading, Values, rounded
from ropecli.reference.scores import alibi_slopes


def _geometric(heads: int, first: float = 1.0, most: float = 8.0) -> Array:
    return np.asarray(2.0 ** (-most * (np.arange(heads) + first) / heads))


def _authors(heads: int) -> Array:
    return np.array(alibi_slopes(heads))


def _next_power(heads: int) -> int:
    return int(2 ** math.ceil(math.log2(heads)))


def _below(heads: int) -> int:
    return _next_power(heads + 1) // 2


def _every_first(heads: int) -> Array:
    more = _authors(2 * _below(heads))[: heads - _below(heads)]
    return np.concatenate([_authors(_below(heads)), more])


NEXT = "slopes of {heads} heads are those of {next}, the "
#: Rules of slopes, functions of the number of heads n.
SLOPES: dict[str, Difference] = {
    "authors": Difference("", "", _authors),
    "sentence": Difference("slopes are 2^(-8h/n) for all n", "the paper's sentence", _geometric),
    "next": Difference(NEXT + "first {heads}", None, lambda n: _authors(_next_power(n))[:n]),
    "last": Difference(NEXT + "last {heads}", None, lambda n: _authors(_next_power(n))[-n:]),
    "below": Difference(
        "slopes of {heads} heads are those of {below}, repeated",
        None,
        lambda n: np.resize(_authors(_below(n)), n),
    ),
    "every first": Difference(
        "further slopes of {heads} heads are the first ones of {next}, expected every second one",
        None,
        _every_first,
    ),
    "from 1": Difference("slopes begin with 1: one head early", None, lambda n: _geometric(n, 0.0)),
    "late": Difference("slopes are one head late", None, lambda n: _geometric(n, 2.0)),
    "reversed": Difference("slopes are in reverse order", None, lambda n: _authors(n)[::-1].copy()),
    "halved": Difference("slopes are 2^(-4h/n)", None, lambda n: _geometric(n, 1.0, 4.0)),
    "same": Difference(
        "all heads have the first head's slope", None, lambda n: np.full(n, _authors(n)[0])
    ),
    "inverse": Difference("slopes are inverted: 2^(+8h/n)", None, lambda n: 1 / _authors(n)),
    "linear": Difference(
        "slopes are h/n, expected powers of 2", None, lambda n: (np.arange(n) + 1.0) / n
    ),
}


def _slopes(rule: Difference, asked: Asked) -> Array:
    most = float(asked.setting("bias_max", 8.0))
    return np.asarray(rule.value(asked.heads)) ** (most / 8.0)


def _rules(asked: Asked) -> dict[str, Difference]:
    """Return the rules, without those that are the same for a number of heads."""
    seen: dict[tuple[float, ...], str] = {}
    for name, rule in SLOPES.items():
        seen.setdefault(tuple(np.round(_slopes(rule, asked), 12)), name)
    heads = asked.heads
    sizes = {"heads": heads, "next": _next_power(heads), "below": _below(heads)}
    rules = {name: SLOPES[name] for name in seen.values()}
    return {k: rule._replace(said=rule.said.format(**sizes)) for k, rule in rules.items()}


def slopes_readings(_got: Array, asked: Asked) -> Iterator[Reading]:
    """Yield the rules of slopes, and their opposite sign."""
    for name, rule in _rules(asked).items():
        yield Reading.of(partial(_signed_slopes, 1, rule), rule, slopes=name)
    negative = Difference("slopes are negative", "")
    yield Reading.of(partial(_signed_slopes, -1, SLOPES["authors"]), negative, slopes="negative")


def _signed_slopes(sign: int, rule: Difference, asked: Asked) -> Values:
    return rounded(sign * _slopes(rule, asked))


def _past(m: Array, n: Array) -> Array:
    """The bias of each distance by a slope of 1: of later keys, whatever there is."""
    return np.where(n <= m, n - m, np.nan)


#: What slopes are multiplied by, of the positions m of queries and n of keys.
DISTANCES: dict[str, Difference] = {
    "symmetric": Difference("symmetric", "x-transformers", lambda m, n: -np.abs(n - m)),
    "past": Difference("", "", _past),
    "key": Difference(
        "slope times the key's position, the same up to a constant of each query",
        "BLOOM, Falcon",
        lambda _, n: n,
    ),
    "last": Difference(
        "distances are those to the last key, the same up to a constant of each query",
        "MPT",
        lambda _, n: n - n[-1],
    ),
    "sign": Difference("the sign is +, expected -", None, lambda m, n: -_past(m, n)),
    "key sign": Difference(
        "the sign is -, expected +, for a key's position", None, lambda _, n: -n
    ),
    "late": Difference(
        "distances are 1 more: a token is 1 from itself", None, lambda m, n: _past(m, n) - 1
    ),
    "early": Difference("distances are 1 less", None, lambda m, n: np.minimum(_past(m, n) + 1, 0)),
    "exchanged": Difference("queries and keys are exchanged", None, lambda m, n: _past(n, m)),
    "query": Difference(
        "slope times the query's position, which a softmax takes out again", None, lambda m, _: -m
    ),
    "squared": Difference("distances are squared", None, lambda m, n: -(_past(m, n) ** 2)),
    "root": Difference(
        "distances are square roots", None, lambda m, n: -np.sqrt(np.abs(_past(m, n)))
    ),
}


def bias_readings(_got: Array, asked: Asked) -> Iterator[Reading]:
    """Yield biases: by their slopes, by what these are multiplied by, and by a factor."""
    for (distance, of), (name, rule) in itertools.product(DISTANCES.items(), _rules(asked).items()):
        compute = partial(_bias, 1.0, rule, of.value)
        yield Reading.of(compute, rule, of, slopes=name, distance=distance)
    for factor, said in (
        (1 / math.sqrt(asked.dim), "the bias is divided by sqrt(d)"),
        (math.sqrt(asked.dim), "the bias is multiplied by sqrt(d)"),
        (0.5, "the bias is halved"),
        (2.0, "the bias is doubled"),
        (math.log2(math.e), "the bias is in powers of 2, for exp2 in place of exp"),
    ):
        yield Reading(compute=partial(_bias, factor, SLOPES["authors"], _past), said=said)


def _bias(
    factor: float, rule: Difference, of: Callable[[Array, Array], Array], asked: Asked
) -> Values:
    by_distance = np.broadcast_to(of(asked.m, asked.n), asked.relative.shape)
    return rounded(factor * _slopes(rule, asked)[:, None, None] * by_distance)
