"""The inspect command."""

from __future__ import annotations

from typing import Annotated

import typer

from ropecli.cli import options
from ropecli.cli.command import command
from ropecli.cli.options import PictureOptions
from ropecli.errors import ArgumentError, FileError, NoRotaryError


@command
def inspect(
    source: Annotated[
        str | None,
        typer.Argument(metavar="SOURCE", help=f"Model: {options.SOURCE}."),
    ] = None,
    reading: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="STACK",
            help="Stack that reads the file: transformers, vllm, llama.cpp, mlx-lm or paper.",
        ),
    ] = None,
    layer: options.Layer = None,
    sequence_length: options.SequenceLength = None,
    examples: Annotated[
        bool, typer.Option("--examples", help="List the bundled configurations and exit.")
    ] = False,
    *,
    output: PictureOptions,
) -> bool:
    """\b
    Examples:
      ropecli inspect config.json
      ropecli inspect model.gguf -o wavelengths.png
      ropecli inspect config.json --as vllm --sequence-length 32768
      ropecli inspect example:llama-3.1-8b

    Show which RoPE a model uses. For each kind of layer: rope type, base, head dim, layout,
    factors, wavelengths against the context, and what lint finds. Exit code 1 if a finding
    is an error, or if the model has no RoPE.
    """
    from ropecli.cli.encoding import length_notes
    from ropecli.models.lint.run import Inspection, lint_description
    from ropecli.models.load import check_length, compute, describe, read_settings

    if examples:
        _list_examples(source, output)
        return True
    if source is None:
        msg = f"name a model: {options.SOURCE}; --examples lists the names"
        raise ArgumentError(msg)
    length = check_length(sequence_length)
    try:
        described = describe(source)
        read_settings(described, reading)
    except NoRotaryError as error:
        error.exit_code = 1  # an answer, and not a file that can't be read
        raise
    try:
        model = compute(described, sequence_length=length, reading=reading).only(layer)
    except FileError as error:
        msg = f"{error}; see ropecli lint {source}"
        raise FileError(msg) from None
    output.note(*length_notes(model))
    result = Inspection(model=model, findings=lint_description(described))
    output.show(result, output.parameters("reading", "examples", **{"as": model.reading}))
    return not any(finding.level == "error" for finding in result.findings)


def _list_examples(source: str | None, output: PictureOptions) -> None:
    from ropecli.models.examples import examples

    if source is not None or output.output is not None:
        msg = f"--examples takes neither a source nor -o, got {source or output.output}"
        raise ArgumentError(msg)
    output.show(examples(), {"examples": True})
