"""The inspect command."""

from __future__ import annotations

from typing import Annotated

import typer

from ropecli.cli import options
from ropecli.cli.options import Force, Json, Quiet


def inspect(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="config.json, a folder with one, .gguf, or -.")
    ],
    reading: options.Reading = None,
    layer: options.Layer = None,
    sequence_length: options.SequenceLength = None,
    output: options.Picture = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """\b
    Examples:
      ropecli inspect config.json
      ropecli inspect model.gguf -o wavelengths.png
      ropecli inspect config.json --as vllm --sequence-length 32768

    Show which RoPE a model uses. For each kind of layer: rope type, base, head dim, layout,
    factors, wavelengths against the context, and what lint finds. Exit code 1 if it finds an
    error.
    """
    from ropecli.cli.inputs import files
    from ropecli.errors import FileError
    from ropecli.models.lint.run import lint
    from ropecli.models.load import check_length, compute, describe
    from ropecli.render import document, frequencies_figure
    from ropecli.render import inspect as pages
    from ropecli.render.lint import lines_of
    from ropecli.render.output import FIGURES, check_output

    check_output(output, force=force, sources=files(models=[source]), suffixes=FIGURES)
    length = check_length(sequence_length)
    described = describe(source)
    try:
        model = compute(described, sequence_length=length, reading=reading).only(layer)
    except FileError as error:
        msg = f"{error}; see ropecli lint {source}"
        raise FileError(msg) from None
    # Standard input can be read once.
    findings = lint(described.raw if described.format == "config.json" else source)
    parameters = {
        "source": source,
        "as": model.reading,
        "layer": layer,
        "sequence_length": sequence_length,
    }
    if output is not None:
        frequencies_figure.write(
            output,
            [(each.name, each.rotary) for each in model.layers if each.rotary is not None],
            pages.contexts(model),
            title=f"{model.model_type or model.source}, as {model.reading} reads it",
            command=f"ropecli inspect {source}",
            force=force,
        )
    if json:
        document.show("inspect", parameters, pages.as_json(model, findings))
    else:
        pages.show(model, lines_of(findings), saved=output, brief=quiet)
    if any(finding.level == "error" for finding in findings):
        raise typer.Exit(1)
