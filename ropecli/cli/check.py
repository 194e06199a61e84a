"""The check command."""

from __future__ import annotations

from dataclasses import make_dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from ropecli.checks.implementation.options import CALLED, EXPECTED, JUDGED, OUTPUT, Options
from ropecli.cli.command import Help, Section, argument, command, flag, option
from ropecli.cli.options import ROPE_TYPES, EncodingOptions, PageOptions
from ropecli.cli.reports import ReportOptions
from ropecli.errors import ArgumentError
from ropecli.names import choices

if TYPE_CHECKING:
    from ropecli.checks.expectation import Expectation
    from ropecli.cli.encoding import NamedRotary

#: Options that a project's file may set: they neither write nor run anything, nor name a file.
FROM_PROJECT = (
    *("select", "ignore", "tolerance", "dtype", "result-dtype", "thorough", "fast", "seed"),
    *("dim", "base", "layout", "rotary-dim", "rope-type", "set", "sequence-length"),
    *("axes", "offset", "context", "original", "timeout", "budget", "memory", "json", "quiet"),
)


#: Options that say nothing of an encoding that is not RoPE.
OF_ROPE = (
    *("base", "layout", "rotary_dim", "rope_type", "model", "inv_freq", "layer", "context"),
    *("sequence_length", "write", "axes", "offset", "original", "with", "command", "tables"),
    *("axes_of_x", "axes_of_positions", "positions_dtype", "axes_of_tables", "freqs", "form"),
    *("tables_dtype", "result_dtype", "tolerance"),
)
#: What an option of the encoding means here: nothing that is not given is expected.
ANY = Help(
    dim="Head dim, even, at least 2. [default: that of the code, or 64]",
    base="Base (theta) of a plain table, above 0. [default: any]",
    layout="Pairing: interleaved (2i, 2i+1) or half (i, i + dim/2). [default: any]",
    rotary_dim="Number of rotated coordinates, even. [default: any]",
    rope_type=f"RoPE scaling type: {choices(ROPE_TYPES)}. [default: any]",
)


def _group(heading: str, **more: Any) -> Any:
    """Return the group of options that `ropecli.check` declares under a heading."""
    declared = []
    for field, line in Options.on_command_line(heading):
        name, words = line.name or field.name, field.metadata["help"]
        default = None if line.kind == list[str] else field.default
        how = (
            flag(f"--{name}", words)
            if line.kind is bool
            else option(
                line.metavar,
                words,
                *filter(None, [line.spelling]),
                default=default,
                least=line.least,
            )
        )
        declared.append((name, line.kind if default is not None else line.kind | None, how))
    return make_dataclass(
        "Group", declared, frozen=True, kw_only=True, namespace={"heading": heading, **more}
    )


def _given_arguments(group: Any, heading: str) -> dict[str, Any]:
    """Return the arguments of `ropecli.check` that were given in a group."""
    names = {
        line.name or field.name: field.name for field, line in Options.on_command_line(heading)
    }
    return {names[name]: value for name, value in vars(group).items() if value not in (None, [])}


if TYPE_CHECKING:
    Calling: TypeAlias = Any
    Expected: TypeAlias = Any
    Judged: TypeAlias = Any
    Written: TypeAlias = Any
else:
    Calling, Expected, Written = _group(CALLED), _group(EXPECTED), _group(OUTPUT)
    Judged = _group(JUDGED, excludes={"fast": ("thorough",)})


@command(excludes={"encoding": OF_ROPE})
def check(
    target: str | None = argument("TARGET", Options.help_of("target")),
    *,
    calling: Calling,
    rope: Annotated[EncodingOptions, Section(EXPECTED), ANY],
    expected: Expected,
    judged: Judged,
    reports: ReportOptions,
    written: Written,
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
      ropecli check model.py:alibi_bias --encoding alibi
      ropecli check --command "./kernel {x} {positions} {out}"

    Check another implementation of RoPE. Its code is run, and every row that it rotates is compared
    with a float64 rotation. What was given of an encoding, or read from a model, is required; the
    rest may be any. With --encoding, code of another positional encoding is compared with the
    formula of its paper and with released variants; --set requires one. Exit code 1 if a check
    fails, or if the budget ends before all are made.
    """
    from ropecli.checks.implementation.calling.find import CallError
    from ropecli.checks.implementation.calling.source import source_of
    from ropecli.checks.implementation.check import check as judge
    from ropecli.cli.progress import progress_line
    from ropecli.files.function import files_named
    from ropecli.render import check_reports

    save_failure, force = written.save_failure, written.force
    sources = files_named(target, calling.apply_with, *(calling.command or "").split())
    reports.refuse(filter(None, [save_failure]), sources=sources, force=force)
    options = {
        **_given_arguments(calling, CALLED),
        **_given_arguments(expected, EXPECTED),
        **_given_arguments(judged, JUDGED),
        **_given_arguments(written, OUTPUT),
        "init": _keywords(calling.init),
    }
    name = target or calling.command or ""
    if expected.encoding is not None:
        from ropecli.cli.encoding import key_values

        options |= {"head_dim": rope.dim, "set": key_values("--set", rope.set) or None}
        return _check_encoding(target, options, reports, page, force=force)
    # The positions to check are those that a new rope type is for.
    rope = replace(rope, context=expected.context if rope.rope_type else None)
    named, expect = _expectation(rope)
    if named is not None:
        options.setdefault("context_length", named.context)
    # Refuses what is not there.
    source_of(target, calling.command, calling.apply_with, {}, calling.device)
    page.note(*(() if named is None else named.notes), f"running the code of {name}")
    try:
        with progress_line(name, wanted=not page.quiet, after=1.0) as progress:
            result = judge(
                target,
                expect=expect,
                head_dim=rope.dim,
                echo=lambda line: page.note(line, kind="target"),
                progress=progress,
                **options,
            )
    except CallError as error:
        page.note(*error.adapter.splitlines(), kind="adapter")
        raise
    reports.write(lambda: check_reports.report(result, name), force=force)
    page.show(result, page.parameters(result), target=name, model=rope.model)
    return result.passed is True


def _check_encoding(
    target: str | None,
    options: dict[str, Any],
    reports: ReportOptions,
    page: PageOptions,
    *,
    force: bool,
) -> bool:
    """Check code of another positional encoding."""
    from ropecli.checks.implementation.check import check as judge
    from ropecli.cli.progress import progress_line
    from ropecli.render import check_reports

    name = target or ""
    page.note(f"running the code of {name}")
    with progress_line(name, wanted=not page.quiet, after=1.0) as progress:
        result = judge(
            target,
            echo=lambda line: page.note(line, kind="target"),
            progress=progress,
            **options,
        )
    reports.write(lambda: check_reports.report(result, name), force=force)
    page.show(result, page.parameters(result), target=name)
    return result.passed is True


def _keywords(words: list[str] | None) -> dict[str, Any]:
    """Return the arguments of the code that words of --init name."""
    from ropecli.cli.encoding import key_values

    init = key_values("--init", words, python=True)
    for key in init:
        if not key.isidentifier():
            raise ArgumentError(f"--init must be KEY=VALUE, KEY a Python name, got {key!r}")
    return init


def _expectation(rope: EncodingOptions) -> tuple[NamedRotary | None, Expectation | None]:
    """Return the encoding that is described, and what of it is; None where any is correct."""
    from ropecli.checks.expectation import Expectation

    given = {
        "head_dim": rope.dim,
        "layout": rope.layout,
        "rotary_dim": rope.rotary_dim or rope.inv_freq,
        "base": rope.base or rope.inv_freq,
        "rope_type": rope.rope_type or rope.set or rope.sequence_length,
    }
    names = [name for name, value in given.items() if value]
    if not {*names} - {"head_dim"} and rope.model is None:
        return None, None
    named = rope.encoding()
    if named.model is None or named.layer is None:
        return named, Expectation.of_parameters(named.rope, names)
    expected = Expectation.of_layer(named.model, named.layer, names)
    if not expected.grounds:
        assumed = "; ".join(named.layer.settings.assumed)
        raise ArgumentError(f"{rope.model} leaves nothing to compare with: {assumed}")
    return named, expected
