"""The diff command."""

from __future__ import annotations

from typing import Annotated

import typer

from ropecli.cli import options
from ropecli.cli.options import Force, Json, Quiet


def diff(
    a: Annotated[
        str, typer.Argument(metavar="A", help="config.json, a folder with one, .gguf, or -.")
    ],
    b: Annotated[
        str | None, typer.Argument(metavar="B", help="Likewise; A again by default, with --as.")
    ] = None,
    readings: Annotated[
        list[str] | None,
        typer.Option(
            "--as",
            metavar="STACK",
            help="transformers, vllm, llama.cpp, mlx-lm or paper; twice, for A and for B.",
        ),
    ] = None,
    layer: options.Layer = None,
    sequence_length: options.SequenceLength = None,
    position: Annotated[
        list[int] | None,
        typer.Option(metavar="M", help="Where the phase is told; repeatable."),
    ] = None,
    output: options.Picture = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """\b
    Examples:
      ropecli diff llama-3/config.json llama-3.1/config.json
      ropecli diff config.json model.gguf
      ropecli diff config.json --as transformers --as mlx-lm -o diff.png

    Show where two models part. Or one model as two stacks read it: which fields differ, by how
    many radians, and from which position on. Exit code 1 if they differ.
    """
    from ropecli.cli.inputs import files
    from ropecli.errors import ArgumentError
    from ropecli.models.diff import diff as compare
    from ropecli.models.load import check_length, compute, describe
    from ropecli.render import diff as pages
    from ropecli.render import document
    from ropecli.render.diff_figure import drawn
    from ropecli.render.output import FIGURES, check_output, write_output

    named = [a] if b is None else [a, b]
    check_output(output, force=force, sources=files(models=named), suffixes=FIGURES)
    first, second = _readings(readings or [], one=b is None)
    if (a, b) == ("-", "-"):
        msg = "standard input can be read once: name one of the two, or leave it out with --as"
        raise ArgumentError(msg)
    length = check_length(sequence_length)
    one = describe(a)
    two = one if b is None else describe(b)
    result = compare(
        compute(one, sequence_length=length, reading=first).only(layer),
        compute(two, sequence_length=length, reading=second).only(layer),
        positions=position or None,
    )
    parameters = {
        "a": a,
        "b": a if b is None else b,
        "as": [result.a.reading, result.b.reading],
        "layer": layer,
        "sequence_length": sequence_length,
        "position": position,
    }
    if output is not None:
        command = f"ropecli diff {' '.join(named)} --as {result.a.reading} --as {result.b.reading}"
        content = drawn(result, suffix=output.suffix.lower(), command=command)
        write_output(output, content, force=force)
    if json:
        document.show("diff", parameters, pages.as_json(result))
    else:
        pages.show(result, saved=output, brief=quiet)
    if not result.same:
        raise typer.Exit(1)


def _readings(names: list[str], *, one: bool) -> tuple[str | None, str | None]:
    """The stack that reads A, and the one that reads B; None for the one it was made for."""
    from ropecli.errors import ArgumentError

    if len(names) > 2:
        msg = f"--as is for A and for B, twice at most, got {len(names)}: {', '.join(names)}"
        raise ArgumentError(msg)
    if one and not names:
        msg = "one source needs --as, or a second source to compare it with"
        raise ArgumentError(msg)
    if len(names) == 2:
        return names[0], names[1]
    if one:
        return None, names[0]
    return (names[0], names[0]) if names else (None, None)
