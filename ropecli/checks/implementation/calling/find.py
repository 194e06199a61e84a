"""The convention of an implementation: what was given of it, and the rest found."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ropecli.checks.implementation.call import ImplementationError
from ropecli.checks.implementation.calling.describe import Description, Parameter
from ropecli.checks.implementation.calling.discover import Arrangements, NotCallable, Search
from ropecli.checks.implementation.calling.vocabulary import roles
from ropecli.checks.implementation.convention import FORMS, PREFILL, STEP
from ropecli.errors import ArgumentError, RopecliError

FEW = 60  #: Trials in other dtypes than the first.
#: What is tried in turn: the dtype of the data, by its place among those of the framework, and what
#: else is not as usual.
DTYPES_TRIED: tuple[tuple[int, dict[str, str]], ...] = (
    (0, {}),
    (0, {"positions_dtype": "int32"}),
    (1, {}),
    (2, {}),
    (3, {}),
    (-1, {"tables_dtype": "float32"}),
    (0, {"tables_dtype": "bfloat16"}),
)


class CallError(RopecliError, ValueError):
    """An implementation that can't be called in any way that is known."""

    def __init__(self, problem: str, advice: str, adapter: str) -> None:
        super().__init__(problem, advice)
        self.adapter = adapter  #: Lines of Python to fill in.


class Verbatim(str):
    """Text that is in a call as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def keyword_texts(init: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return keyword arguments as a call has them, and objects that need a name there."""
    texts, objects = {}, {}
    for key, value in init.items():
        try:
            literal = ast.literal_eval(repr(value)) == value
        except (ValueError, SyntaxError, TypeError):
            literal = False
        if not literal:
            objects[f"init_{key}"] = value
        texts[key] = value if literal else Verbatim(f"init_{key}")
    return texts, objects


def find_convention(search: Search, form: str | None) -> tuple[Arrangements, tuple[str, ...]]:
    """Return how to call an implementation, and the dtypes of its data."""
    caller, given = search.caller, search.given
    try:
        description = caller.describe()
    except ImplementationError as error:
        raise CallError(f"it can't be loaded: {error}", "", "") from None
    known = {**given}
    if form is not None:
        known = {**_of_form(form, description, search.init), **known}
    first: NotCallable | None = None
    for index, other in DTYPES_TRIED:
        most = search.most if first is None else FEW
        tried = replace(search, given={**other, **known}, dtype_index=index, most=most)
        try:
            found, dtype = tried.discover()
        except NotCallable as error:
            first = first or error
            continue
        every = tried.find_arrangements(found, dtype)
        if "call" not in given and found.call.endswith(PREFILL):  # the class has a step as well
            step = found.call.removesuffix(PREFILL) + STEP
            judged = tuple(replace(each, step=step) for each in every.judged)
            every = replace(every, judged=judged)
        held = search.dtypes or caller.dtypes(found.framework)
        return every, (dtype, *(each for each in held if each != dtype))
    assert first is not None
    raise _explain(first, description, known, search.axes)


def _of_form(form: str, description: Description, init: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a form says."""
    name, is_class = description.name, description.kind == "class"
    words = [f"{key}={value!r}" for key, value in init.items()]
    made = f"{name}({', '.join(words)})"
    if form == "decoder":
        if not is_class:
            raise ArgumentError(f"form decoder takes a class, got a {description.type_name}")
        return {"call": made + PREFILL, "step": made + STEP}
    arguments = FORMS[form]
    if is_class:
        call = f"{made if description.is_callable else made + '.forward'}({arguments})"
    elif form == "module":
        if init:
            raise ArgumentError(
                f"init needs a class with form module, got a {description.type_name}"
            )
        call = f"{name if description.is_callable else name + '.forward'}({arguments})"
    else:
        call = f"{name}({', '.join([arguments, *words])})"
    return {"call": call}


def _explain(
    error: NotCallable, description: Description, given: Mapping[str, Any], axes: int
) -> CallError:
    """Say which conventions were tried, how the nearest one failed, and what would help."""
    tried: Sequence[Any] = error.tried
    advice = error.advice
    if not tried:
        problem = f"{description.name} can't be called: {error.missing}"
    else:
        calls = list(dict.fromkeys(each.convention.call for each in tried))
        shown = ", ".join(calls[:3]) + (f" and {len(calls) - 3} more" if len(calls) > 3 else "")
        nearest = tried[0]
        problem = (
            f"{description.name} can't be called: {shown} failed with {len(tried)} arrangements of "
            f"axes; {nearest.convention.options()}: {nearest.error}"
        )
        advice = "" if "call" in given else "give the call with `call`, or an adapter"
        meant = {role for p in description.all_parameters for role in roles(p.name, 1)}
        if axes == 1 and meant & {"axes_dims", "grid"}:
            advice = "give the number of coordinates of a position with `axes`"
    return CallError(problem, advice, adapter(description))


def adapter(description: Description) -> str:
    """Return a file to fill in that calls an implementation with what it requires."""

    def list_required(parameters: Sequence[Parameter] | None) -> str:
        return ", ".join(
            f"{each.name}={each.name}" if each.kind == "KEYWORD_ONLY" else each.name
            for each in parameters or ()
            if each.required
        )

    path = description.path or description.name
    call = path
    if description.kind != "instance":
        call += f"({list_required(description.parameters)})"
    if description.kind != "function" and description.methods:
        method, parameters = next(iter(description.methods.items()))
        call += ("" if method == "__call__" else f".{method}") + f"({list_required(parameters)})"
    imported = ""
    if description.module:
        imported = f"from {description.module} import {path.partition('.')[0]}\n"
    return ADAPTER.format(imported=imported, call=call)


ADAPTER = """\
# rope_under_test.py
{imported}
def apply(x, positions):  # x (batch, heads, sequence, head dim), positions (sequence,)
    return {call}
"""
