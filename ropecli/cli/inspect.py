"""The inspect command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ropecli.cli import options
from ropecli.cli.command import argument, command, flag, option
from ropecli.cli.options import PictureOptions, raise_last
from ropecli.errors import ArgumentError, FileError, NoRotaryError

if TYPE_CHECKING:
    from ropecli.models.lint.run import Inspection


@command(excludes={"examples": ("source", "output")})
def inspect(
    source: list[str] | None = argument("SOURCE", f"Model: {options.SOURCE}; a pattern of such."),
    reading: str | None = option(
        "STACK",
        "Stack that reads the file: transformers, vllm, llama.cpp, mlx-lm or paper.",
        "--as",
    ),
    layer: options.Layer = None,
    sequence_length: options.SequenceLength = None,
    examples: bool = flag("--examples", "List the bundled configurations and exit."),
    *,
    output: PictureOptions,
) -> bool:
    """\b
    Examples:
      ropecli inspect config.json
      ropecli inspect model.gguf -o wavelengths.png
      ropecli inspect config.json --as vllm --sequence-length 32768
      ropecli inspect example:llama-3.1-8b 'models/*/config.json'

    Show which RoPE a model uses. For each layer type: rope type, base, head dim, layout,
    factors, wavelengths against the context, and what lint finds. Exit code 1 if a finding
    is an error, or if the model has no RoPE.
    """
    from ropecli.cli.encoding import length_notes
    from ropecli.models.load import check_length
    from ropecli.models.source import expand

    if examples:
        from ropecli.models.examples import examples as list_examples

        output.show(list_examples(), {"examples": True})
        return True
    if not source:
        raise ArgumentError(f"name a model: {options.SOURCE}; --examples lists the names")
    names, length = expand(source), check_length(sequence_length)
    if len(names) > 1 and output.output is not None:
        raise ArgumentError(f"-o takes a single model, got {len(names)}: {', '.join(names)}")
    inspections, refused = _inspect(names, reading, length, layer)
    if refused and (output.json or not inspections):
        raise refused[0]
    output.note(*(note for inspection in inspections for note in length_notes(inspection.model)))
    named = {"source": names[0]} if len(names) == 1 else {"sources": names}
    used = {**named, "as": inspections[0].model.reading}
    parameters = output.parameters(omit=["source", "reading", "examples"], **used)
    if len(names) == 1:
        output.show(inspections[0], parameters)
    else:
        output.show_all(inspections, parameters)
    raise_last(refused)
    return not any(
        finding.level == "error" for inspection in inspections for finding in inspection.findings
    )


def _inspect(
    names: list[str], reading: str | None, length: int | None, layer: str | None
) -> tuple[list[Inspection], list[FileError]]:
    """Return what each model uses, and the errors of those that say nothing or can't be read."""
    from ropecli.models.lint.run import Inspection, lint_description
    from ropecli.models.load import compute, describe, read_settings

    inspections: list[Inspection] = []
    refused: list[FileError] = []
    for name in names:
        try:
            described = describe(name)
            read_settings(described, reading)
        except NoRotaryError as error:
            error.exit_code = 1  # an answer, and not a file that can't be read
            refused.append(error)
            continue
        except FileError as error:
            refused.append(error)
            continue
        try:
            model = compute(described, sequence_length=length, reading=reading).only(layer)
        except FileError as error:
            refused.append(FileError(f"{error}; see ropecli lint {name}"))
        else:
            inspections.append(Inspection(model=model, findings=lint_description(described)))
    return inspections, refused
