"""The calls that a signature suggests, as expressions, likely ones first."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from ropecli.checks.implementation.calling.convention import CACHES, TABLES
from ropecli.checks.implementation.calling.vocabulary import NEUTRAL, roles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

    from ropecli.checks.implementation.calling.request import Description, Parameter

MAIN = ("forward", "__call__", "call")
MOST_CALLS = 200
VECTORS, PLACES = {"x", "q", "qkv"}, {"positions", "offset", "offsets"}
PAIRS = {"(cos, sin)", "(sin, cos)"}
#: What an optional parameter is given; any other one keeps its default.
OPTIONAL = {*PLACES, *TABLES, *PAIRS, "k", "cos_sin_cache"}
#: What is known when an instance is made.
SIZES = {"head_dim", "rotary_dim", "base", "context", "halves", "neighbours", "dtype"}
#: Fields of configurations.
FIELDS = {
    "num_attention_heads": "1",
    "num_heads": "1",
    "n_heads": "1",
    "n_head": "1",
    "num_key_value_heads": "1",
    "num_layers": "1",
    "num_hidden_layers": "1",
    "n_layers": "1",
    "n_layer": "1",
    "rope_parameters": "{'rope_type': 'default', 'rope_theta': base}",
}
#: A function of no known signature is called in these ways.
USUAL = ("x, positions", "x", "q, k, cos, sin", "x, cos, sin", "q, k, positions", "x, offset")


def calls(description: Description, init: Mapping[str, Any], *, half: bool) -> list[str]:
    """Return expressions that call it with all that its parameters may mean.

    Args:
        description: What it looks like.
        init: Keyword arguments of its own.
        half: Whether a flag for the layout is to say halves.
    """
    found = _of_two(description, init) if description.other else _of_one(description, init)
    flags = {"halves": str(half), "neighbours": str(not half)}
    texts = [re.sub(r"\b(halves|neighbours)\b", lambda m: flags[m[0]], text) for text in found]
    # Where positions are given too, they choose rows of a cache.
    likely = sorted(texts, key=lambda text: _mentions(text, TABLES) and _mentions(text, PLACES))
    return [*dict.fromkeys(likely)][:MOST_CALLS]


def _of_one(description: Description, init: Mapping[str, Any]) -> Iterator[str]:
    name = description.name
    if description.kind == "function":
        for call in _of(name, description.parameters, init):
            if _rotates(call):
                yield call
        return
    for made in _constructions(description, init):
        if {"prefill", "step"} <= description.methods.keys():
            yield f"{made}.prefill(x)"
            return
        ways = [
            [
                call
                for call in _of(_method(made, method, description), parameters, {})
                if _rotates(call)
            ]
            for method, parameters in description.methods.items()
        ]
        # The likeliest call of every method comes before an unlikely one of the first.
        for same_rank in itertools.zip_longest(*ways):
            yield from filter(None, same_rank)


def _of_two(description: Description, init: Mapping[str, Any]) -> Iterator[str]:
    """Yield calls of a second function with the tables that the first one returns."""
    names = [p.name for p in description.other_parameters or () if p.kind not in _REST]
    apart = any("cos" in name.lower() and "sin" not in name.lower() for name in names)
    forms = (
        ("*{}", "*[table[None] for table in {}]", "*{}[::-1]")
        if apart
        else ("{}", "*{}", "{}[:, None]", "{}[:, :, None]")
    )
    for tables in _tables(description, init):
        for form in forms:
            yield from _given_tables(description, form.format(tables))


def _tables(description: Description, init: Mapping[str, Any]) -> Iterator[str]:
    """Yield expressions of the tables of a request's positions."""
    ways: list[tuple[str, tuple[Parameter, ...] | None, Mapping[str, Any]]]
    if description.kind == "function":
        ways = [(description.name, description.parameters, init)]
    else:
        ways = [
            (_method(made, method, description), parameters, {})
            for made in _constructions(description, init)
            for method, parameters in description.methods.items()
            if method in MAIN or not {*MAIN} & description.methods.keys()
        ]
    for called, parameters, words in ways:
        for text in _of(called, parameters, words, optional={*OPTIONAL, "length"}):
            places = sum(len(_find(text, place)) for place in PLACES)
            if places > 1 or _mentions(text, {"k", *TABLES, *CACHES}):
                continue
            if _mentions(text, PLACES):
                yield text
            elif _mentions(text, {"length"}):
                longer = re.sub(r"\blength\b(?!=)", "offset + length", text)
                yield from (f"{longer}[offset:]", f"[table[offset:] for table in {longer}]")
                yield from (f"{longer}[:, offset:]", text)
            elif _mentions(text, {"context"}):
                rows = "[offset:offset + length]"
                yield from (f"{text}{rows}", f"[table{rows} for table in {text}]")
                yield f"{text}[:, offset:offset + length]"
            elif _mentions(text, VECTORS):
                yield text


def _given_tables(description: Description, tables: str) -> Iterator[str]:
    """Yield calls of the second function with an expression for its tables."""
    every = [p for p in description.other_parameters or () if p.kind not in _REST]
    meant = [roles(p.name, place, p.annotation) for place, p in enumerate(every)]
    told = [i for i, each in enumerate(meant) if {*each[:1]} & {*TABLES, *PAIRS}]
    told = told or [i for i, each in enumerate(meant) if "freqs" in each][:1]
    words: list[list[str]] = [] if told else [[tables]]
    for i, (parameter, each) in enumerate(zip(every, meant, strict=True)):
        if i in told:
            words += [[tables]] if i == told[0] else []
        elif parameter.required or each[:1] == ("k",):
            by_name = "" if parameter.required else f"{parameter.name}="
            words.append([by_name + role for role in each if not role.endswith(" axis")] + [""])
    more = ""
    if tables.startswith("*") and len(told) == 1 and words[-1] != [tables]:
        # What comes with the angles, such as a scale, has its parameter after those of vectors.
        words[words.index([tables])] = [f"{tables}[:1]"]
        tables, more = f"{tables}[:1]", f", {tables}[1:]"
    for chosen in _likely_first(words):
        given = ", ".join(filter(None, chosen))
        if _rotates(given.replace(tables, "freqs")):
            yield f"{description.other}({given}{more})"


def _constructions(description: Description, init: Mapping[str, Any]) -> Iterator[str]:
    """Yield expressions that make an instance."""
    name = description.name
    if description.kind != "class":
        yield name
        return
    words: list[list[str]] = []
    for place, parameter in enumerate(description.parameters or ()):
        if parameter.name in init or parameter.kind in _REST:
            continue
        meant = roles(parameter.name, place + 1, parameter.annotation)
        if not parameter.required and meant[:1] in {("head_dim",), ("rotary_dim",)}:
            words.append([f"{parameter.name}={meant[0]}", ""])
        elif parameter.required:
            known = [
                f"{parameter.name}={role}" for role in meant if role in SIZES or role in NEUTRAL
            ]
            known += _configuration(parameter)
            words.append(known)
    words += [[f"{key}={value!r}"] for key, value in init.items()]
    for chosen in _likely_first(words):
        yield f"{name}({', '.join(filter(None, chosen))})"


def _configuration(parameter: Parameter) -> list[str]:
    """Return the call that makes a configuration of the annotated class, if there is one."""
    if parameter.made_by is None:
        return []
    name, fields = parameter.made_by
    words = []
    for field in fields:
        meant = roles(field.name, 1, field.annotation)
        if field.name in FIELDS:
            words.append(f"{field.name}={FIELDS[field.name]}")
        elif meant[:1] in {("head_dim",), ("base",), ("context",)}:
            words.append(f"{field.name}={meant[0]}")
        elif field.required:
            return []
    return [f"{parameter.name}={name}({', '.join(words)})"]


def _of(
    name: str,
    parameters: Sequence[Parameter] | None,
    init: Mapping[str, Any],
    *,
    optional: Set[str] = OPTIONAL,
) -> Iterator[str]:
    """Yield calls of something with these parameters, those of `optional` where they have one."""
    if parameters is None:
        yield from (f"{name}({words})" for words in USUAL)
        return
    choices: list[list[str]] = []
    for place, parameter in enumerate(parameters):
        if parameter.name in init:
            choices.append([f"{parameter.name}={init[parameter.name]!r}"])
        elif parameter.kind not in _REST:
            choices.append(_words(parameter, place, optional))
    known = {parameter.name for parameter in parameters}
    choices += [[f"{key}={value!r}"] for key, value in init.items() if key not in known]
    others = {p.name for p in parameters if not p.required}
    for chosen in _likely_first(choices):
        words = [word for word in chosen if word]
        more = [word for word in words if word.partition("=")[0] in others]
        # Tables have a row for each token: what else says where the tokens are is not needed.
        twice = _mentions(", ".join(words), TABLES) and _mentions(", ".join(more), PLACES)
        # With x, "key" is something else, such as that of random numbers.
        lonely = _mentions(", ".join(more), {"k"}) and not _mentions(", ".join(words), {"q"})
        if not twice and not lonely:
            yield f"{name}({', '.join(words)})"


def _words(parameter: Parameter, place: int, optional: Set[str]) -> list[str]:
    """Return what may stand for a parameter in a call; an empty word is its default."""
    meant = roles(parameter.name, place, parameter.annotation)
    if parameter.required:
        by_name = f"{parameter.name}=" if parameter.kind == "KEYWORD_ONLY" else ""
        meant = ("k",) if meant == ("values",) else meant
        return [by_name + role for role in meant] + [
            by_name + text.partition("=")[2] for text in _configuration(parameter)
        ]
    if place > 0 and roles(parameter.name, 1) == roles("", 1):
        return [""]  # its name says nothing
    given = [f"{parameter.name}={role}" for role in meant if role in optional]
    # A dim of its own is changed only where it does not fit.
    fitting = [f"{parameter.name}={role}" for role in meant if role == "head_dim"]
    return [*given, "", *fitting]


def _likely_first(choices: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Yield combinations by the sum of their ranks."""
    ranked = itertools.product(*(list(enumerate(words)) for words in choices))
    few = itertools.islice(ranked, 20 * MOST_CALLS)
    for chosen in sorted(few, key=lambda each: sum(rank for rank, _ in each)):
        yield tuple(word for _, word in chosen)


_POSITIONAL = {"POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY"}
_REST = {"VAR_POSITIONAL", "VAR_KEYWORD"}


def _method(made: str, method: str, description: Description) -> str:
    itself = method in MAIN and description.is_callable
    return made if itself else f"{made}.{method}"


def _rotates(call: str) -> bool:
    """Return True if a call gets vectors once, and its angles or positions in one way."""
    count = {role: len(_find(call, role)) for role in (*VECTORS, *PLACES, *TABLES, *CACHES)}
    angles = [
        count["cos"] and count["sin"],
        count["freqs"],
        count["cos_cache"] and count["sin_cache"],
        count["cos_sin_cache"] + count["freqs_cache"],
    ]
    in_pairs = count["cos"] == count["sin"] and count["cos_cache"] == count["sin_cache"]
    places = sum(count[place] for place in PLACES)
    rows = places or not any(count[cache] for cache in CACHES)
    ways = sum(map(bool, angles))
    once = max(count.values()) <= 1 and places <= 1 and sum(count[role] for role in VECTORS) == 1
    return bool(once and in_pairs and rows and ways <= 1)


def _mentions(call: str, names: Iterable[str]) -> bool:
    return any(_find(call, name) for name in names)


def _find(call: str, role: str) -> list[str]:
    return re.findall(rf"(?<![\w.'\"]){role}(?![\w'\"])(?!=[^=])", call)
