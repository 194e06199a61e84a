"""The check command."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
CALLED = "How it is called"
EXPECTED = "What is expected"
JUDGED = "What is judged"
OUTPUT = "Output"
#: Options that a project's file may set: they neither write nor run anything, nor name a file.
FROM_PROJECT = (
    *("select", "ignore", "tolerance", "dtype", "result-dtype", "thorough", "fast", "seed"),
    *("dim", "base", "layout", "rotary-dim", "rope-type", "set", "sequence-length"),
    *("axes", "context", "original", "timeout", "budget", "memory", "json", "quiet"),
)


@command(excludes={"fast": ("thorough",)})
def check(
    target: str | None = argument(
        "TARGET",
        "Implementation to run: module:function, file.py:function, library.so:symbol, "
        "or a .onnx, .pt or .pt2 file.",
    ),
    *,
    command: str | None = option(
        "COMMAND",
        "Program to run in place of TARGET; {x}, {positions} and {out} are .npy files.",
        under=CALLED,
    ),
    apply_with: str | None = option(
        "TARGET", "Function that rotates by the tables that TARGET returns.", "--with", under=CALLED
    ),
    call: str | None = option(
        "EXPRESSION",
        "The call, such as 'apply(q, k, cos, sin)'. [default: found by trial]",
        under=CALLED,
    ),
    axes_of_x: str | None = option(
        "AXES", "Axes of the vectors, such as 'b s h d' or 'b*s h*d'.", under=CALLED
    ),
    axes_of_positions: str | None = option(
        "AXES", "Axes of positions, such as s, 'b s', 's b' or 'b*s'.", under=CALLED
    ),
    positions_dtype: str | None = option(
        "DTYPE",
        f"Dtype of positions: {choices(POSITIONS_DTYPES)}. [default: found by trial]",
        under=CALLED,
    ),
    axes_of_tables: str | None = option(
        "AXES", "Axes of cos, sin and freqs, such as 's 1 d'.", under=CALLED
    ),
    freqs: str | None = option(
        "KIND", f"Form of freqs: {choices([*FREQS])}. [default: found by trial]", under=CALLED
    ),
    tables: str | None = option(
        "WIDTH", f"Columns of tables: {choices(COLUMNS)}. [default: found by trial]", under=CALLED
    ),
    tables_dtype: str | None = option(
        "DTYPE",
        f"Dtype of tables and inv_freq: {choices([*UNIT])}. [default: found by trial]",
        under=CALLED,
    ),
    form: str | None = option(
        "FORM", f"Call signature: {choices(FORMS)}. [default: found by trial]", under=CALLED
    ),
    framework: str | None = option(
        "NAME",
        f"Framework of the arrays: {choices(FRAMEWORKS)}. [default: found by trial]",
        under=CALLED,
    ),
    device: str | None = option("NAME", "Device of the framework, e.g. cuda:0.", under=CALLED),
    init: list[str] | None = option(
        "KEY=VALUE",
        "Argument of the class or function: a literal such as 64, False or 'half', or a "
        "plain word; repeatable.",
        under=CALLED,
    ),
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
    dtype: list[str] | None = option(
        "DTYPE",
        f"Dtype: {choices([*UNIT])}; repeatable. [default: those of the framework]",
        under=JUDGED,
    ),
    result_dtype: str | None = option(
        "DTYPE", f"Dtype of results: {choices([*UNIT])}. [default: that of the data]", under=JUDGED
    ),
    tolerance: list[str] | None = option(
        "[DTYPE=]SIZE",
        "Tolerance floor per coordinate: 1e-3, 2ulp or float16=4ulp; repeatable.",
        under=JUDGED,
    ),
    select: list[str] | None = option(
        "LAW", "Run only this check, e.g. norm; repeatable.", under=JUDGED
    ),
    ignore: list[str] | None = option("LAW", "Skip this law; repeatable.", under=JUDGED),
    thorough: bool = flag("--thorough", "Make about ten times as many calls.", under=JUDGED),
    fast: bool = flag(
        "--fast", "Make about a tenth of the calls, as for a loop in an editor.", under=JUDGED
    ),
    timeout: float = option(
        "SECONDS",
        "Seconds for one call; loading the code may take five times as many.",
        default=60.0,
        least=0.01,
        under=JUDGED,
    ),
    budget: float | None = option(
        "SECONDS",
        "Seconds for the whole run, after which nothing passes. [default: no limit]",
        least=0.01,
        under=JUDGED,
    ),
    memory: float | None = option(
        "GB",
        "Memory that the process of the code may use. [default: half of the machine's]",
        least=0.01,
        under=JUDGED,
    ),
    seed: int = option("N", "Random seed.", under=JUDGED, default=0),
    junit: Path | None = option("FILE", "Write JUnit XML for CI.", under=OUTPUT),
    sarif: Path | None = option("FILE", "Write SARIF 2.1.0 for code hosts.", under=OUTPUT),
    save_failure: Path | None = option(
        "FILE.npz",
        "Write the smallest failing call, and a script that shows it without ropecli.",
        under=OUTPUT,
    ),
    force: bool = flag("--force", "Replace existing output files.", under=OUTPUT),
    page: Annotated[PageOptions, Section(OUTPUT)],
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
    sources = files_named(target, apply_with, *(command or "").split())
    if outputs:
        from ropecli.render.check_reports import check_files

        check_files(outputs, sources=sources, force=force)
    # The positions to check are those that a new rope type is for.
    expected = _expected_encoding(
        rope if rope.rope_type is None else replace(rope, context=context)
    )
    name = target or command or ""
    source_of(target, command, apply_with, {}, device)  # refuses what is not there
    page.note(*(() if expected is None else expected.notes), f"running the code of {name}")
    if context is None and expected is not None:
        context = expected.context
    try:
        with progress_line(name, wanted=not page.quiet, after=1.0) as progress:
            result = judge(
                target,
                command=command,
                apply_with=apply_with,
                expect=None if expected is None else expected.rope,
                framework=framework,
                form=form,
                call=call,
                axes_of_x=axes_of_x,
                axes_of_positions=axes_of_positions,
                positions_dtype=positions_dtype,
                axes_of_tables=axes_of_tables,
                freqs=freqs,
                tables=tables,
                tables_dtype=tables_dtype,
                head_dim=rope.dim,
                context_length=context,
                original_context_length=original,
                dtypes=dtype,
                device=device,
                init=_arguments(init),
                axes=axes,
                result_dtype=result_dtype,
                tolerance=tolerance or None,
                select=select or None,
                ignore=ignore or (),
                thorough=thorough,
                fast=fast,
                timeout=timeout,
                budget=budget,
                memory=memory,
                echo=lambda line: page.note(line, kind="target"),
                seed=seed,
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


def _arguments(words: list[str] | None) -> dict[str, Any]:
    """Parse the words of --init as keyword arguments."""
    from ropecli.cli.encoding import key_values

    found = key_values("--init", words, python=True)
    for key in found:
        if not key.isidentifier():
            raise ArgumentError(f"--init must be KEY=VALUE, KEY a Python name, got {key!r}")
    return found
