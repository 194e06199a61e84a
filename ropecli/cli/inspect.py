"""The inspect command."""

from __future__ import annotations

from typing import Annotated

import typer

from ropecli.cli import options
from ropecli.cli.command import command
from ropecli.cli.options import PictureOptions
from ropecli.errors import FileError, NoRotaryError


@command
def inspect(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="Model: config.json, its folder, .gguf, or - for stdin."
        ),
    ],
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
    *,
    output: PictureOptions,
) -> bool:
    """\b
    Examples:
      ropecli inspect config.json
      ropecli inspect model.gguf -o wavelengths.png
      ropecli inspect config.json --as vllm --sequence-length 32768

    Show which RoPE a model uses. For each kind of layer: rope type, base, head dim, layout,
    factors, wavelengths against the context, and what lint finds. Exit code 1 if a finding
    is an error, or if the model has no RoPE.
    """
    from ropecli.models.lint.run import Inspection, lint_description
    from ropecli.models.load import check_length, compute, describe, read_settings

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
    result = Inspection(model=model, findings=lint_description(described))
    output.show(result, output.parameters("reading", **{"as": model.reading}))
    return not any(finding.level == "error" for finding in result.findings)
