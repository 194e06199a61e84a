"""The calls that a signature suggests, as expressions, likely ones first."""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, TypeVar

from ropecli.checks.implementation.calling.describe import Description, Parameter
from ropecli.checks.implementation.calling.vocabulary import FIELDS, NEUTRAL, roles, size_of
from ropecli.checks.implementation.convention import CACHES, PREFILL, TABLES

T = TypeVar("T")

MAIN = ("forward", "__call__", "call")
ROLES_OF_UNKNOWN_NAME = roles("", 1)
LAYER_TYPE = "layer_type"  #: Parameter of modules that have a table for each type of layer.
MOST_CALLS = 200
MOST_COMBINATIONS = 4000  #: Of what the parameters of one function may mean.
VECTORS, PLACES = {"x", "q", "qkv"}, {"positions", "offset", "offsets"}
PAIR, PAIRS = {"cos", "sin"}, {"(cos, sin)", "(sin, cos)"}
#: What an optional parameter is given; any other one keeps its default.
OPTIONAL = {*PLACES, *TABLES, *PAIRS, "k", "cos_sin_cache"}
#: What `*args` may be.
SEVERAL = ("", "q, k", "x", "cos, sin", "freqs")
#: What is known when an instance is made.
SIZES = {
    *("head_dim", "rotary_dim", "heads", "key_heads", "base", "context", "dtype", "config"),
    *("halves", "neighbours", "axes_dims", "grid"),
}
#: A function of no known signature is called in these ways.
USUAL = ("x, positions", "x", "q, k, cos, sin", "x, cos, sin", "q, k, positions", "x, offset")


def calls(description: Description, init: Mapping[str, Any], *, half: bool) -> Iterator[str]:
    """Yield expressions that call it with all that its parameters may mean, likely ones first."""
    expressions = _of_two(description, init) if description.other else _of_one(description, init)
    flags = {"halves": str(half), "neighbours": str(not half)}
    seen: set[str] = set()
    later: list[str] = []
    for expression in itertools.islice(expressions, MOST_CALLS):
        text = re.sub(r"\b(halves|neighbours)\b", lambda m: flags[m[0]], expression)
        # Where positions are given too, they choose rows of a cache.
        if _mentions(text, TABLES) and _mentions(text, PLACES):
            later.append(text)
        elif text not in seen:
            yield text
        seen.add(text)
    yield from dict.fromkeys(later)


def explain_lack(description: Description, init: Mapping[str, Any]) -> tuple[str, str]:
    """Say why there are no calls of it: the parameter in the way, and what to give.

    Parameters of ropecli's own are in backquotes.
    """
    given = "give it with `init` {}=VALUE, or the call with `call`"
    remedy = "give the call with `call`"
    every = [p for p in description.parameters or () if p.kind not in _REST]
    unknown = "parameter {!r} has no known meaning"
    if description.kind != "instance":
        is_class = description.kind == "class"
        for place, parameter in enumerate(every):
            meant = _sizes(parameter, place) if is_class else _words(parameter, place, OPTIONAL)
            if parameter.required and parameter.name not in init and not meant:
                return f"its {unknown.format(parameter.name)}", given.format(parameter.name)
    for method, parameters in description.methods.items():
        for place, parameter in enumerate(parameters):
            if parameter.required and not _words(parameter, place, OPTIONAL):
                return f"{unknown.format(parameter.name)} in its method {method}", remedy
    for place, parameter in enumerate(description.other_parameters or ()):
        if parameter.required and not roles(parameter.name, place, parameter.annotation):
            return f"{unknown.format(parameter.name)} in {description.other}", remedy
    if description.kind != "function" and not description.methods:
        return "it has no method whose parameters are known", remedy
    for method, parameters in description.methods.items():
        if any(param.name == LAYER_TYPE and param.required for param in parameters):
            return _explain_layer_types(description, method, parameters)
    return _explain_together(description, remedy)


def _explain_together(description: Description, whole: str) -> tuple[str, str]:
    """Say what parameters that have a meaning each lack together, and what to give."""
    every = [p for p in description.parameters or () if p.kind not in _REST]
    ways = [every] if description.kind == "function" else [*description.methods.values()]
    meant_by = [{*roles(p.name, i, p.annotation)} for call in ways for i, p in enumerate(call)]
    names = ", ".join(dict.fromkeys(p.name for call in ways for p in call)) or "none"
    if not description.other and not any(meanings & VECTORS for meanings in meant_by):
        tables = "name the function that rotates by its result with `apply_with`"
        return f"none of its parameters ({names}) is known to be vectors", f"{tables}, or {whole}"
    return f"its parameters ({names}) have no known meaning together", whole


def _explain_layer_types(
    description: Description, method: str, parameters: Sequence[Parameter]
) -> tuple[str, str]:
    """Say which types of layers a method takes, and the call that names one of them."""
    types = description.layer_types
    problem = f"its method {method} requires {LAYER_TYPE!r}"
    if not types:
        problem += ", one of those of its configuration"
        return problem, "give an instance as the target, and the call with `call`"
    words = [
        repr(types[0])
        if parameter.name == LAYER_TYPE
        else (roles(parameter.name, place, parameter.annotation) or (parameter.name,))[0]
        for place, parameter in enumerate(parameters)
        if parameter.required
    ]
    made = description.name + ("" if description.is_callable else f".{method}")
    call = f"{made}({', '.join(words)})"
    if description.other:
        call = f"{description.other}(x, x, *{call})"
    problem += f", one of {', '.join(map(repr, types))}"
    return problem, f'name one in the call with `call`, such as "{call}"'


def _of_one(description: Description, init: Mapping[str, Any]) -> Iterator[str]:
    name = description.name
    if description.kind == "function":
        for call in _of(name, description.parameters, init):
            if _rotates(call):
                yield call
        return
    for made in _constructions(description, init):
        if {"prefill", "step"} <= description.methods.keys():
            yield made + PREFILL
            return
        ways = [
            filter(_rotates, _of(_method(made, method, description), parameters, {}))
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
    meant = [roles(name, 1)[:1] for name in names if roles(name, 1) != ROLES_OF_UNKNOWN_NAME]
    looked_up = ("positions",) in meant and any({*reading} & {*TABLES, *PAIRS} for reading in meant)
    for tables in _tables(description, init, whole=looked_up):
        for form in forms:
            yield from _given_tables(description, form.format(tables))


def _tables(description: Description, init: Mapping[str, Any], *, whole: bool) -> Iterator[str]:
    """Yield expressions of the tables of a request's positions; if whole, of those from 0 on."""
    ways: list[tuple[str, tuple[Parameter, ...] | None, Mapping[str, Any]]]
    if description.kind == "function":
        ways = [(description.name, description.parameters, init)]
    else:
        ways = [
            (_method(made, method, description), parameters, {})
            for made in _constructions(description, init)
            for method, parameters in description.methods.items()
            if method in MAIN
            or _mentions(made, {"grid"})
            or not {*MAIN} & description.methods.keys()
        ]
    for called, parameters, words in ways:
        for text in _of(called, parameters, words, optional={*OPTIONAL, "length"}):
            places = sum(_count(text)[place] for place in PLACES)
            if places > 1 or _mentions(text, {"k", *TABLES, *CACHES}):
                continue
            if _mentions(text, {"grid"}):
                yield from (f"{text}[places]", f"[table[places] for table in {text}]")
            elif _mentions(text, PLACES):
                yield text
            elif whole and _mentions(text, {"length", "context"}):
                yield re.sub(r"\blength\b(?!=)", "end", text)
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
    of_tables = [i for i, reading in enumerate(meant) if {*reading[:1]} & {*TABLES, *PAIRS}]
    of_tables = of_tables or [i for i, reading in enumerate(meant) if "freqs" in reading][:1]
    words: list[list[str]] = [] if of_tables else [[tables]]
    for i, (parameter, reading) in enumerate(zip(every, meant, strict=True)):
        if i in of_tables:
            words += [[tables]] if i == of_tables[0] else []
        elif parameter.required or reading[:1] == ("k",):
            by_name = "" if parameter.required else f"{parameter.name}="
            words.append([by_name + role for role in reading if not role.endswith(" axis")] + [""])
    more = ""
    if tables.startswith("*") and len(of_tables) == 1 and words[-1] != [tables]:
        # What comes with the angles, such as a scale, has its parameter after those of vectors.
        words[words.index([tables])] = [f"{tables}[:1]"]
        tables, more = f"{tables}[:1]", f", {tables}[1:]"
    for chosen in itertools.islice(likely_first(words), MOST_COMBINATIONS):
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
        if parameter.required:
            words.append(_sizes(parameter, place))
        else:
            known = {f"{parameter.name}={size}" for size in ("head_dim", "rotary_dim", "grid")}
            words += [[size, ""] for size in _sizes(parameter, place)[:1] if size in known]
    words += [[f"{key}={value!r}"] for key, value in init.items()]
    for chosen in itertools.islice(likely_first(words), MOST_COMBINATIONS):
        yield f"{name}({', '.join(filter(None, chosen))})"


def _sizes(parameter: Parameter, place: int) -> list[str]:
    """Return what a parameter may be given where an instance is made."""
    meant = roles(parameter.name, place + 1, parameter.annotation)
    meant = ("context",) if meant[:1] == ("length",) else meant
    usable = [role for role in meant if role in SIZES or role in NEUTRAL]
    return [*_configuration(parameter), *(f"{parameter.name}={role}" for role in usable)]


def _configuration(parameter: Parameter) -> list[str]:
    """Return the call that makes a configuration of the annotated class, if there is one."""
    if parameter.made_by is None:
        return []
    name, fields = parameter.made_by
    words = []
    for field in fields:
        meant = size_of(field.name)
        if field.name in FIELDS:
            words.append(f"{field.name}={FIELDS[field.name]}")
        elif meant in {"head_dim", "base", "context"}:
            words.append(f"{field.name}={meant}")
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
    if parameters is None or (parameters and all(p.kind in _REST for p in parameters)):
        yield from (f"{name}({words})" for words in USUAL)
        return
    choices: list[list[str]] = []
    for place, parameter in enumerate(parameters):
        if parameter.name in init:
            choices.append([f"{parameter.name}={init[parameter.name]!r}"])
        elif parameter.kind == "VAR_POSITIONAL":
            choices.append([*SEVERAL])
        elif parameter.kind not in _REST:
            choices.append(_words(parameter, place, optional))
    known = {parameter.name for parameter in parameters}
    choices += [[f"{key}={value!r}"] for key, value in init.items() if key not in known]
    others = {p.name for p in parameters if not p.required}
    for chosen in itertools.islice(likely_first(choices, _is_once), MOST_COMBINATIONS):
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
        made = [text.partition("=")[2] for text in _configuration(parameter)]
        return [by_name + text for text in (*made, *meant)]
    if place > 0 and roles(parameter.name, 1) == ROLES_OF_UNKNOWN_NAME:
        return [""]  # its name says nothing
    given = [f"{parameter.name}={role}" for role in meant if role in optional]
    # A dim of its own is changed only where it does not fit.
    fitting = [f"{parameter.name}={role}" for role in meant if role == "head_dim"]
    return [*given, "", *fitting]


_POSITIONAL = {"POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY"}
_REST = {"VAR_POSITIONAL", "VAR_KEYWORD"}


def _method(made: str, method: str, description: Description) -> str:
    itself = method in MAIN and description.is_callable
    return made if itself else f"{made}.{method}"


def _rotates(call: str) -> bool:
    """Return True if a call gets vectors once, and its angles or positions in one way."""
    count = {role: _count(call)[role] for role in (*VECTORS, *PLACES, *TABLES, *CACHES)}
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
    of_keys = count["cos"] == 2 and _mentions(call, "k")  # keys have tables of their own
    most = {role: 1 + of_keys * (role in PAIR) for role in count}
    once = (
        all(count[role] <= most[role] for role in count)
        and places <= 1
        and sum(count[role] for role in VECTORS) == 1
    )
    return bool(once and in_pairs and rows and ways <= 1)


def _is_once(words: tuple[str, ...]) -> bool:
    """Return True if arguments of a call say nothing twice."""
    count = _count(", ".join(words))
    once = {*VECTORS, *TABLES, *CACHES} - ({*PAIR} if count["k"] else set())
    return max((count[role] for role in once), default=0) <= 1 and (
        sum(count[place] for place in PLACES) <= 1 and sum(count[role] for role in VECTORS) <= 1
    )


def _mentions(call: str, names: Iterable[str]) -> bool:
    return any(_count(call)[name] for name in names)


@functools.lru_cache(maxsize=1024)
def _count(call: str) -> Counter[str]:
    """Return how often each name is used in a call, those of keywords and attributes apart."""
    return Counter(re.findall(r"(?<![\w.'\"])([A-Za-z_]\w*)(?![\w'\"])(?!=[^=])", call))


def likely_first(
    choices: Sequence[Sequence[T]], fits: Callable[[tuple[T, ...]], bool] = lambda _: True
) -> Iterator[tuple[T, ...]]:
    """Yield one of each of the choices, by the sum of their ranks.

    Combinations of one sum come in the order of `itertools.product`.
    """
    if all(choices):
        for total in range(_largest_sum(choices) + 1):
            yield from of_sum(choices, total, fits)


def of_sum(
    choices: Sequence[Sequence[T]],
    total: int,
    fits: Callable[[tuple[T, ...]], bool] = lambda _: True,
    before: tuple[T, ...] = (),
) -> Iterator[tuple[T, ...]]:
    """Yield the combinations whose ranks add up to a total, each after what comes before it."""
    if not choices:
        yield from [before] if total == 0 else []
        return
    first, others = choices[0], choices[1:]
    least = max(0, total - _largest_sum(others))
    for rank in range(least, min(total, len(first) - 1) + 1):
        begin = (*before, first[rank])
        if fits(begin):
            yield from of_sum(others, total - rank, fits, begin)


def _largest_sum(choices: Sequence[Sequence[T]]) -> int:
    return sum(len(choice) - 1 for choice in choices)
