"""The convention of an implementation: what was given of it, and the rest found."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ropecli.checks.implementation.call import ImplementationError, OutOfTime
from ropecli.checks.implementation.calling.describe import Description, Parameter
from ropecli.checks.implementation.calling.discover import (
    RAISED,
    Arrangements,
    NotCallable,
    Search,
    Trial,
)
from ropecli.checks.implementation.calling.run import Clock
from ropecli.checks.implementation.calling.vocabulary import roles
from ropecli.checks.implementation.convention import (
    FORMS,
    PREFILL,
    STEP,
    TABLES,
    Convention,
)
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

    device = ""  #: Device that its error names, if there is one on this machine.

    def __init__(self, problem: str, advice: str, adapter: str) -> None:
        super().__init__(problem, advice)
        self.adapter = adapter  #: Lines of Python to fill in.


class Verbatim(str):
    """Text that is in a call as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@contextlib.contextmanager
def within_budget(clock: Clock) -> Iterator[None]:
    """Refuse an implementation that is not called and recognised within the budget."""
    try:
        yield
    except OutOfTime:
        raise CallError(
            f"no verdict within the budget of {clock.budget:g} s, still {clock.doing}",
            "raise `budget`, or give the call with `call`",
            "",
        ) from None


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
            convention, dtype = tried.discover()
        except NotCallable as error:
            first = first or error
            continue
        every = tried.find_arrangements(convention, dtype)
        names = every.judged[0].names
        if not every.shown and "positions" in names and names & {*TABLES} and "call" not in given:
            raise _explain(_not_meant(convention), description, known, search.axes)
        if "call" not in given and convention.call.endswith(
            PREFILL
        ):  # the class has a step as well
            step = convention.call.removesuffix(PREFILL) + STEP
            judged = tuple(replace(convention, step=step) for convention in every.judged)
            every = replace(every, judged=judged)
        held = search.dtypes or caller.dtypes(convention.framework)
        return every, (dtype, *(other for other in held if other != dtype))
    assert first is not None
    failure = _explain(first, description, known, search.axes)
    dtype_taken = _other_dtype(search, known)
    if dtype_taken is not None:
        failure.advice = f"it takes {dtype_taken}: give that with `dtypes`"
    if first.tried:
        nearest = _nearest(first.tried)
        device = _named_device(nearest.error)
        if device and caller.has_device(nearest.convention.framework, device):
            failure.device = device
    raise failure


def _other_dtype(search: Search, given: Mapping[str, Any]) -> str | None:
    """Return a dtype that is taken in place of those that were asked for; None if none is."""
    for index in range(len(DTYPES_TRIED) if search.dtypes else 0):
        tried = replace(search, given=given, dtypes=None, dtype_index=index, most=FEW, failed={})
        with contextlib.suppress(NotCallable):
            return tried.discover()[1]
    return None


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


def _not_meant(found: Convention) -> NotCallable:
    """Return the failure of a call that gives tables and positions, and rotates by neither."""
    error = "it runs, and its rows are not those of x rotated by their positions"
    return NotCallable([Trial(convention=found, level=RAISED, error=error)], "")


def _explain(
    error: NotCallable, description: Description, given: Mapping[str, Any], axes: int
) -> CallError:
    """Say which conventions were tried, how the nearest one failed, and what would help."""
    tried: Sequence[Trial] = error.tried
    advice = error.advice
    if not tried:
        problem = f"{description.name} can't be called: {error.missing}"
    else:
        calls = list(dict.fromkeys(trial.convention.call for trial in tried))
        shown = ", ".join(calls[:3]) + (f" and {len(calls) - 3} more" if len(calls) > 3 else "")
        nearest = _nearest(tried)
        count = f"{len(tried)} arrangement{'s' * (len(tried) > 1)} of axes"
        problem = (
            f"{description.name} can't be called: {shown} failed with {count}; "
            f"{nearest.convention.options()}: {nearest.error}"
        )
        advice = "" if "call" in given else "give the call with `call`, or an adapter"
        advice = _advise(nearest, description, axes) or advice
    return CallError(problem, advice, adapter(description, axes))


def _nearest(tried: Sequence[Trial]) -> Trial:
    """Return the trial that came furthest, the likeliest of those that came as far."""
    return tried[0] if _has_returned(tried[0]) else max(tried, key=_how_far)


def _how_far(trial: Trial) -> tuple[bool, list[int]]:
    """Return how far a call came that raised: to a result of as many axes, or to which lines."""
    shapes = re.findall(r"shape \(([^)]*)\)", trial.error)
    as_many = len({text.rstrip(",").count(",") for text in shapes}) == 1
    lines = [int(part.rpartition(":")[2]) for part in trial.place.split()]
    return _has_returned(trial) and as_many, lines


def _has_returned(trial: Trial) -> bool:
    """Return True if a call ended, with a result that is not one for x."""
    return trial.error.startswith("it returned ")


def _advise(nearest: Trial, description: Description, axes: int) -> str:
    """Return what would help, by what the parameters mean and what the nearest call raised."""
    named = [roles(p.name, 1, p.annotation) for p in description.all_parameters]
    meant = {role for meanings in named for role in meanings}
    of_axes = "the number of coordinates of a position with `axes`"
    if axes == 1 and meant & {"axes_dims", "grid"}:
        return f"give {of_axes}"
    first = {meanings[0] for meanings in named if meanings}
    if first & {"cos", "sin", "cos_cache", "sin_cache"} and not description.other:
        several = f", and {of_axes}" if axes == 1 and "positions" in first else ""
        return (
            "give the function or class that makes its tables as the target, and this one with "
            f"`apply_with`{several}"
        )
    half = re.search(r"b?float16|half|fp16|bf16", nearest.error, re.IGNORECASE)
    if half:
        name = "bfloat16" if half[0].lower().startswith("b") else "float16"
        return f"give the dtype of its data with `dtypes`, such as {name}"
    device = _named_device(nearest.error)
    return f"give the device that it needs with `device`, such as {device}" if device else ""


def _named_device(error: str) -> str:
    """Return the device that an error asks for; empty if it names none."""
    match = re.search(r"\b(cuda|mps|xpu)\b|\bGPU\b|Triton", error, re.IGNORECASE)
    return (match[1] or "cuda").lower() if match else ""


def adapter(description: Description, axes: int = 1) -> str:
    """Return a file to fill in that calls an implementation with what it requires."""

    def list_required(parameters: Sequence[Parameter] | None) -> str:
        return ", ".join(
            f"{parameter.name}={parameter.name}"
            if parameter.kind == "KEYWORD_ONLY"
            else parameter.name
            for parameter in parameters or ()
            if parameter.required
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
    shape, first = "(sequence,)", ""
    if axes > 1:
        shape = f"(sequence, {axes})"
        moved = "positions.movedim(-1, 0)"
        if description.frameworks[:1] != ("torch",):
            moved = "np.moveaxis(positions, -1, 0)"
        first = f"    # where the coordinates come first: {moved}\n"
    return ADAPTER.format(imported=imported, call=call, shape=shape, first=first)


ADAPTER = """\
# rope_under_test.py
{imported}
def apply(x, positions):  # x (batch, heads, sequence, head dim), positions {shape}
{first}    return {call}
"""
