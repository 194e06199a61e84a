"""Options of `check`, each declared once: its signature, its command and both pages read them.

NumPy is not needed for it: the help of the command must not import it.
"""

from __future__ import annotations

import functools
import inspect
import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ropecli.checks.implementation.convention import (
    COLUMNS,
    FORMS,
    FRAMEWORKS,
    FREQS,
    POSITIONS_DTYPES,
)
from ropecli.names import choices
from ropecli.units import UNIT

if TYPE_CHECKING:
    from ropecli.checks.expectation import Expectation
    from ropecli.models.model import Model
    from ropecli.rotary.rotary import Rotary

P = ParamSpec("P")
R = TypeVar("R")

TIMEOUT = 60.0  #: Seconds for one call.
#: Headings of the options in the help of the command.
CALLED, EXPECTED, JUDGED, OUTPUT = (
    *("How it is called", "What is expected", "What is judged", "Output"),
)
ANY = "any"  #: Expectation that any RoPE meets.
FOUND = "[default: found by trial]"


@dataclass(frozen=True, kw_only=True)
class OnCommandLine:
    """An option as the command line has it."""

    heading: str
    metavar: str  #: Empty for a flag.
    name: str = ""  #: Where it is not the parameter's.
    spelling: str = ""  #: Where it is not --NAME.
    kind: Any = str  #: Type of its value.
    least: float | None = None


def _option(help: str, *, default: Any = None, kw_only: bool = True, **given: Any) -> Any:
    """Declare an option; without a heading, it is one of Python only."""
    line = OnCommandLine(**given) if given else None
    return field(default=default, kw_only=kw_only, metadata={"help": help, "line": line})


@dataclass(frozen=True)
class RopeOptions:
    """Options of `check` for an implementation of RoPE."""

    target: Any = _option(
        "Function, class or object; or its name: module:function, file.py:function, "
        "library.so:symbol, or a .onnx file.",
        kw_only=False,
    )
    expect: Rotary | Expectation | str | None = _option(
        'The encoding expected, a Rotary; "any", or nothing, where any RoPE is correct.'
    )
    model: Model | str | os.PathLike[str] | None = _option(
        "The model whose encoding is expected: a config.json, its folder, a .gguf, example:NAME, "
        "or what `load_model` returns."
    )
    command: str | None = _option(
        "Program to run in place of TARGET; {x}, {positions} and {out} are .npy files.",
        heading=CALLED,
        metavar="COMMAND",
    )
    apply_with: Any = _option(
        "Function that rotates by the tables that TARGET returns.",
        heading=CALLED,
        metavar="TARGET",
        spelling="--with",
    )
    call: str | None = _option(
        f"The call, such as 'apply(q, k, cos, sin)'. {FOUND}", heading=CALLED, metavar="EXPRESSION"
    )
    axes_of_x: str | None = _option(
        "Axes of the vectors, such as 'b s h d' or 'b*s h*d'.", heading=CALLED, metavar="AXES"
    )
    axes_of_positions: str | None = _option(
        "Axes of positions, such as s, 'b s', 'b*s' or 'c b s'.", heading=CALLED, metavar="AXES"
    )
    positions_dtype: str | None = _option(
        f"Dtype of positions: {choices(POSITIONS_DTYPES)}. {FOUND}",
        heading=CALLED,
        metavar="DTYPE",
    )
    axes_of_tables: str | None = _option(
        "Axes of cos, sin and freqs, such as 's 1 d'.", heading=CALLED, metavar="AXES"
    )
    freqs: str | None = _option(
        f"Form of freqs: {choices([*FREQS])}. {FOUND}", heading=CALLED, metavar="KIND"
    )
    tables: str | None = _option(
        f"Columns of tables: {choices(COLUMNS)}. {FOUND}", heading=CALLED, metavar="WIDTH"
    )
    tables_dtype: str | None = _option(
        f"Dtype of tables and inv_freq: {choices([*UNIT])}. {FOUND}",
        heading=CALLED,
        metavar="DTYPE",
    )
    form: str | None = _option(
        f"Call signature: {choices(FORMS)}. {FOUND}", heading=CALLED, metavar="FORM"
    )
    framework: str | None = _option(
        f"Framework of the arrays: {choices(FRAMEWORKS)}. {FOUND}", heading=CALLED, metavar="NAME"
    )
    device: str | None = _option(
        "Device of the framework, e.g. cuda:0.", heading=CALLED, metavar="NAME"
    )
    init: Mapping[str, Any] | None = _option(
        "Argument of the class or function: a literal such as 64, False or 'half', or a plain "
        "word; repeatable.",
        heading=CALLED,
        metavar="KEY=VALUE",
        kind=list[str],
    )
    head_dim: int | None = _option(
        "Coordinates of a vector. [default: that expected, the default of the code, or 64]"
    )
    axes: int | None = _option(
        "Number of coordinates of a position. [default: that expected, or 1]",
        heading=EXPECTED,
        metavar="N",
        kind=int,
    )
    offset: float | None = _option(
        "Position by which a token at position 0 is rotated. [default: 0]",
        heading=EXPECTED,
        metavar="N",
        kind=float,
    )
    context_length: int | None = _option(
        "Context length to support. [default: the model's, or up to 131072]",
        heading=EXPECTED,
        metavar="N",
        name="context",
        kind=int,
    )
    original_context_length: int | None = _option(
        "Original context length, if frequencies change there. [default: that expected]",
        heading=EXPECTED,
        metavar="N",
        name="original",
        kind=int,
    )
    dtypes: str | Sequence[str] | None = _option(
        f"Dtype of the data: {choices([*UNIT])}; repeatable. [default: those of the framework]",
        heading=JUDGED,
        metavar="DTYPE",
        name="dtype",
        kind=list[str],
    )
    result_dtype: str | None = _option(
        f"Dtype of results: {choices([*UNIT])}. [default: that of the data]",
        heading=JUDGED,
        metavar="DTYPE",
    )
    tolerance: float | str | Sequence[str] | Mapping[str, float | str] | None = _option(
        "Tolerance floor per coordinate: 1e-3, 2ulp or float16=4ulp; repeatable.",
        heading=JUDGED,
        metavar="[DTYPE=]SIZE",
        kind=list[str],
    )
    select: str | Sequence[str] | None = _option(
        "Run only this check, e.g. rotation; repeatable.",
        heading=JUDGED,
        metavar="CHECK",
        kind=list[str],
    )
    ignore: str | Sequence[str] = _option(
        "Skip this check; repeatable.",
        default=(),
        heading=JUDGED,
        metavar="CHECK",
        kind=list[str],
    )
    thorough: bool = _option(
        "Make about ten times as many calls.", default=False, heading=JUDGED, metavar="", kind=bool
    )
    fast: bool = _option(
        "Make about a tenth of the calls, as for a loop in an editor.",
        default=False,
        heading=JUDGED,
        metavar="",
        kind=bool,
    )
    timeout: float = _option(
        "Seconds for one call; loading the code may take five times as many.",
        default=TIMEOUT,
        heading=JUDGED,
        metavar="SECONDS",
        kind=float,
        least=0.01,
    )
    budget: float | None = _option(
        "Seconds for the whole run, after which nothing passes. [default: no limit]",
        heading=JUDGED,
        metavar="SECONDS",
        kind=float,
        least=0.01,
    )
    memory: float | None = _option(
        "Memory that the process of the code may use, on Linux. [default: half of the machine's]",
        heading=JUDGED,
        metavar="GB",
        kind=float,
        least=0.01,
    )
    seed: int = _option("Random seed.", default=0, heading=JUDGED, metavar="N", kind=int)
    isolated: bool = _option(
        "Run it in a process of its own, which may crash or hang.", default=True
    )
    save_failure: str | os.PathLike[str] | None = _option(
        "Write the smallest failing call, with the result expected.",
        heading=OUTPUT,
        metavar="FILE.npz",
        kind=Path,
    )
    force: bool = _option(
        "Replace existing output files.", default=False, heading=OUTPUT, metavar="", kind=bool
    )
    echo: Callable[[str], None] | None = _option("Takes each line that the code prints.")
    progress: Callable[[str], None] | None = _option(
        "Takes a line that says what is being done, several times a second."
    )

    @classmethod
    def help_of(cls, name: str) -> str:
        """Return what an option is, in a sentence."""
        return next(str(member.metadata["help"]) for member in fields(cls) if member.name == name)

    @classmethod
    def on_command_line(cls, *headings: str) -> list[tuple[Field[Any], OnCommandLine]]:
        """Return the options under some headings of the help, in their order."""
        declared = [(member, member.metadata["line"]) for member in fields(cls)]
        return [(member, line) for member, line in declared if line and line.heading in headings]


@dataclass(frozen=True)
class Options(RopeOptions):
    """Options of `check`."""

    encoding: str | None = _option(
        "Positional encoding that the code is of, such as alibi, t5 or sinusoidal. [default: RoPE]",
        heading=EXPECTED,
        metavar="NAME",
    )
    set: Mapping[str, Any] | None = _option(
        "With `encoding`: options of it that are required, such as {'num_buckets': 64}, and its "
        "sizes heads and dim."
    )


def taking(options: Callable[P, Options]) -> Callable[[Callable[[Options], R]], Callable[P, R]]:
    """Have a function of options take them as its own parameters, documented in its docstring."""

    def decorate(function: Callable[[Options], R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return function(options(*args, **kwargs))

        signature = inspect.signature(function)
        parameters = inspect.signature(options).parameters.values()
        call.__signature__ = signature.replace(parameters=[*parameters])  # type: ignore[attr-defined]
        call.__doc__ = (inspect.getdoc(function) or "").replace(
            "Returns:", f"{_arguments()}\n\nReturns:"
        )
        return call

    return decorate


def _arguments() -> str:
    """Return the section of a docstring that says what each option is."""
    lines = ["Args:"]
    for member in fields(Options):
        text = f"    {member.name}: {member.metadata['help']}"
        lines += textwrap.wrap(text, 96, subsequent_indent=" " * 8)
    return "\n".join(lines)
