"""The check command."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ropecli.checks.implementation.convention import (
    COLUMNS,
    FORMS,
    FRAMEWORKS,
    FREQS,
    POSITIONS_DTYPES,
)
from ropecli.cli.command import Section, argument, command, flag, option
from ropecli.cli.options import EncodingOptions, PageOptions, choices
from ropecli.errors import ArgumentError
from ropecli.units import UNIT

if TYPE_CHECKING:
    from ropecli.cli.encoding import NamedRotary

#: Headings of the options in the help.
EXPECTED = "What is expected"
OUTPUT = "Output"
#: Options that a project's file may set: they neither write nor run anything, nor name a file.
FROM_PROJECT = (
    *("select", "ignore", "tolerance", "dtype", "result-dtype", "thorough", "fast", "seed"),
    *("dim", "base", "layout", "rotary-dim", "rope-type", "set", "sequence-length"),
    *("axes", "context", "original", "timeout", "budget", "memory", "json", "quiet"),
)


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """The options that say how an implementation is called."""

    heading: ClassVar[str] = "How it is called"
    command: str | None = option(
        "COMMAND",
        "Program to run in place of TARGET; {x}, {positions} and {out} are .npy files.",
    )
    apply_with: str | None = option(
        "TARGET", "Function that rotates by the tables that TARGET returns.", "--with"
    )
    call: str | None = option(
        "EXPRESSION",
        "The call, such as 'apply(q, k, cos, sin)'. [default: found by trial]",
    )
    axes_of_x: str | None = option("AXES", "Axes of the vectors, such as 'b s h d' or 'b*s h*d'.")
    axes_of_positions: str | None = option(
        "AXES", "Axes of positions, such as s, 'b s', 's b' or 'b*s'."
    )
    positions_dtype: str | None = option(
        "DTYPE",
        f"Dtype of positions: {choices(POSITIONS_DTYPES)}. [default: found by trial]",
    )
    axes_of_tables: str | None = option("AXES", "Axes of cos, sin and freqs, such as 's 1 d'.")
    freqs: str | None = option(
        "KIND", f"Form of freqs: {choices([*FREQS])}. [default: found by trial]"
    )
    tables: str | None = option(
        "WIDTH", f"Columns of tables: {choices(COLUMNS)}. [default: found by trial]"
    )
    tables_dtype: str | None = option(
        "DTYPE",
        f"Dtype of tables and inv_freq: {choices([*UNIT])}. [default: found by trial]",
    )
    form: str | None = option(
        "FORM", f"Call signature: {choices(FORMS)}. [default: found by trial]"
    )
    framework: str | None = option(
        "NAME",
        f"Framework of the arrays: {choices(FRAMEWORKS)}. [default: found by trial]",
    )
    device: str | None = option("NAME", "Device of the framework, e.g. cuda:0.")
    init: list[str] | None = option(
        "KEY=VALUE",
        "Argument of the class or function: a literal such as 64, False or 'half', or a "
        "plain word; repeatable.",
    )

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `ropecli.check` that are given."""
        from ropecli.cli.encoding import key_values

        init = key_values("--init", self.init, python=True)
        for key in init:
            if not key.isidentifier():
                raise ArgumentError(f"--init must be KEY=VALUE, KEY a Python name, got {key!r}")
        return _set_values(self) | {"init": init}


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """The options that say what is judged, and for how long."""

    heading: ClassVar[str] = "What is judged"
    excludes: ClassVar[dict[str, tuple[str, ...]]] = {"fast": ("thorough",)}
    dtype: list[str] | None = option(
        "DTYPE",
        f"Dtype: {choices([*UNIT])}; repeatable. [default: those of the framework]",
    )
    result_dtype: str | None = option(
        "DTYPE", f"Dtype of results: {choices([*UNIT])}. [default: that of the data]"
    )
    tolerance: list[str] | None = option(
        "[DTYPE=]SIZE",
        "Tolerance floor per coordinate: 1e-3, 2ulp or float16=4ulp; repeatable.",
    )
    select: list[str] | None = option("LAW", "Run only this check, e.g. rotation; repeatable.")
    ignore: list[str] | None = option("LAW", "Skip this law; repeatable.")
    thorough: bool = flag("--thorough", "Make about ten times as many calls.")
    fast: bool = flag("--fast", "Make about a tenth of the calls, as for a loop in an editor.")
    timeout: float = option(
        "SECONDS",
        "Seconds for one call; loading the code may take five times as many.",
        default=60.0,
        least=0.01,
    )
    budget: float | None = option(
        "SECONDS",
        "Seconds for the whole run, after which nothing passes. [default: no limit]",
        least=0.01,
    )
    memory: float | None = option(
        "GB",
        "Memory that the process of the code may use. [default: half of the machine's]",
        least=0.01,
    )
    seed: int = option("N", "Random seed.", default=0)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `ropecli.check` that are given."""
        found = _set_values(self)
        return {"dtypes": found.pop("dtype", None), **found}


def _set_values(group: object) -> dict[str, Any]:
    return {name: value for name, value in vars(group).items() if value not in (None, [])}


@command()
def check(
    target: str | None = argument(
        "TARGET",
        "Implementation to run: module:function, file.py:function, library.so:symbol, "
        "or a .onnx, .pt or .pt2 file.",
    ),
    *,
    calling: CallOptions,
    rope: Annotated[EncodingOptions, Section(EXPECTED)],
    axes: int | None = option(
        "N", "Number of coordinates of a position. [default: 1]", under=EXPECTED
    ),
    context: int | None = option(
        "N", "Context length to support. [default: the model's, or up to 131072]", under=EXPECTED
    ),
    original: int | None = option(
        "N", "Original context length, if frequencies change there.", under=EXPECTED
    ),
    judged: JudgeOptions,
    junit: Path | None = option("FILE", "Write JUnit XML for CI.", under=OUTPUT),
    sarif: Path | None = option("FILE", "Write SARIF 2.1.0 for code hosts.", under=OUTPUT),
    save_failure: Path | None = option(
        "FILE.npz",
        "Write the smallest failing call, and a script that shows it without ropecli.",
        under=OUTPUT,
    ),
    force: bool = flag("--force", "Replace existing output files.", under=OUTPUT),
    page: PageOptions,
) -> bool:
    """\b
    Examples:
      ropecli check my_kernels.rope:apply
      ropecli check my_kernels.rope:apply --model config.json
      ropecli check kernel.py:rotate --layout half --base 500000
      ropecli check model.py:Rotary --init dim=64
      ropecli check llama.py:apply --call "apply(q, k, cos, sin)"
      ropecli check librope.so:rope_f32
      ropecli check rope.onnx
      ropecli check --command "./kernel {x} {positions} {out}"

    Check another implementation of RoPE. Its code is run, the laws are checked, and every row that
    it rotates is compared with a float64 rotation. Without a model or parameters any RoPE is
    correct, in any convention; with them, only the one described. Exit code 1 if a law
    fails, or if the budget ends before all are judged.
    """
    from ropecli.checks.implementation.calling.find import CallError
    from ropecli.checks.implementation.calling.source import source_of
    from ropecli.checks.implementation.check import check as judge
    from ropecli.cli.progress import progress_line
    from ropecli.files.function import files_named
    from ropecli.render import console

    outputs = [each for each in (junit, sarif) if each is not None]
    if save_failure is not None:
        outputs += [save_failure, save_failure.with_suffix(".py")]
    sources = files_named(target, calling.apply_with, *(calling.command or "").split())
    if outputs:
        from ropecli.render.check_reports import check_files

        check_files(outputs, sources=sources, force=force)
    # The positions to check are those that a new rope type is for.
    expected = _expected_encoding(
        rope if rope.rope_type is None else replace(rope, context=context)
    )
    name = target or calling.command or ""
    # Refuses what is not there.
    source_of(target, calling.command, calling.apply_with, {}, calling.device)
    page.note(*(() if expected is None else expected.notes), f"running the code of {name}")
    if context is None and expected is not None:
        context = expected.context
    try:
        with progress_line(name, wanted=not page.quiet, after=1.0) as progress:
            result = judge(
                target,
                **calling.arguments(),
                **judged.arguments(),
                expect=None if expected is None else expected.rope,
                head_dim=rope.dim,
                context_length=context,
                original_context_length=original,
                axes=axes,
                echo=lambda line: page.note(line, kind="target"),
                save_failure=save_failure,
                force=force,
                progress=progress,
            )
    except CallError as error:
        page.note(*error.adapter.splitlines(), kind="adapter")
        raise
    resolved = {
        "dim": result.head_dim,
        "dtype": result.dtypes,
        "axes": result.axes,
        "context": result.context_length,
        "original": result.original_context_length,
    }
    page.show(result, page.parameters(**resolved), target=name, model=rope.model)
    on_github = os.environ.get("GITHUB_ACTIONS") == "true"
    if junit or sarif or on_github:
        from ropecli.render import check_reports
        from ropecli.render.save import write_output

        if junit is not None:
            write_output(junit, check_reports.junit(result, name), force=force)
        if sarif is not None:
            write_output(sarif, check_reports.sarif(result, name), force=force)
        if on_github:
            console.annotate(check_reports.github_annotations(result, name))
    return result.passed is True


def _expected_encoding(rope: EncodingOptions) -> NamedRotary | None:
    """Return the encoding that is described; None where any RoPE is correct."""
    describes = rope.numbers | {
        "dim": None,  # which the head may have whatever rotates it
        "sequence_length": rope.sequence_length,
        "model": rope.model,
        "inv_freq": rope.inv_freq,
    }
    if all(value in (None, []) for value in describes.values()):
        return None
    return rope.encoding()
