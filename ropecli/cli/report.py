"""The report command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ropecli.cli import options
from ropecli.cli.command import Help, argument, command, option
from ropecli.cli.options import FileOptions, OverrideOptions
from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    from ropecli.models.report import Report


@dataclass(frozen=True, kw_only=True)
class HtmlOptions(FileOptions):
    """The options of a command that prints a result, and writes its page of HTML."""

    needs: ClassVar[dict[str, str]] = {"docs": "output"}
    output: Path | None = option("FILE", "Page, .html; - for stdout.", "-o", "--output")
    docs: str | None = option("URL", "Address of ropecli's documentation, for links to it.")

    suffixes: ClassVar[tuple[str, ...]] = (".html",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.output is not None:
            from ropecli.render.report import template

            template(self.docs)  # refuses before anything is computed

    @property
    def _form(self) -> str | None:
        """The only form, on stdout and in a file of either suffix."""
        short = self.output is not None and self.output.suffix.lower() == ".htm"
        return "html" if short or str(self.output) == "-" else None

    def _content(
        self, result: Report, parameters: dict[str, Any], options: dict[str, Any]
    ) -> bytes:
        return result.html(docs=self.docs).encode()


@command()
def report(
    sources: list[str] = argument("SOURCE", f"Models: {options.SOURCE}; a pattern of such."),
    base: float | None = option(
        "B", "Base (theta), above 0. [default: the model's]", under=OverrideOptions.heading
    ),
    *,
    rope: Annotated[
        OverrideOptions,
        Help(
            layout="Pairing: interleaved or half. [default: the model's]",
            rope_type=f"RoPE scaling type: {options.choices(options.ROPE_TYPES)}. "
            "[default: the model's]",
            layer="Layer type. [default: each rotation of the text part]",
        ),
    ],
    page: HtmlOptions,
) -> None:
    """\b
    Examples:
      ropecli report example:qwen3-8b
        encoding  rope type       base  length  incomplete  halved by  holds up to
        qwen3-8b  default    1,000,000  40,960    41 to 63         35       27,114
      ropecli report config.json -o report.html
      ropecli report example:gemma-3-4b gemma.gguf -o report.html
      ropecli report config.json --rope-type yarn --context 65536 -o yarn.html
      ropecli report config.json -o - > report.html

    Write one page about a model, or about several side by side. It shows what the model uses,
    what lint finds, and frequencies, decay, coverage, base bound, precision and context extension,
    with sliders for position and distance. It is a self-contained HTML file, below 1 MB.
    """
    from ropecli.cli.encoding import write_configuration
    from ropecli.models.load import check_length, compute, describe
    from ropecli.models.overrides import override
    from ropecli.models.report import gather
    from ropecli.models.source import expand

    names = list(dict.fromkeys(expand(sources)))
    if sources.count("-") > 1:
        raise ArgumentError(f"stdin (-) can be given only once, got - {sources.count('-')} times")
    if rope.write is not None and len(names) > 1:
        raise ArgumentError(f"--write takes one source, got {len(names)}")
    used, overrides = check_length(rope.sequence_length), rope.overrides(base)
    described = [describe(name) for name in names]
    result = gather(described, overrides=overrides, sequence_length=used, layer=rope.layer)
    for model in result.models:
        page.note(*(f"{model.name}: {note}" for note in model.notes))
    if rope.write is not None:
        written = override(described[0], overrides, layer=rope.layer)
        layers = compute(written.description, sequence_length=used).layers
        write_configuration(rope.write, written, layers, sequence_length=used)
        page.note(f"configuration written to {rope.write}")
    page.show(result, page.parameters(sources=names), output=page.output)
