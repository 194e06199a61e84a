"""The trace command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ropecli.cli import options
from ropecli.cli.command import argument, command, option
from ropecli.cli.options import FileOptions

if TYPE_CHECKING:
    from ropecli.checks.trace import Trace


@dataclass(frozen=True, kw_only=True)
class VectorOptions(FileOptions):
    """The options of a command that prints a result, and writes the vectors that show it."""

    suffixes: ClassVar[tuple[str, ...]] = (".safetensors",)
    output: Path | None = option(
        "FILE", "Queries and keys before and after their rotation, .safetensors.", "-o", "--output"
    )

    def _content(self, result: Trace, parameters: dict[str, Any], options: dict[str, Any]) -> bytes:
        from ropecli.files.formats.safetensors import serialize

        return serialize(result.seen.tensors())


@command()
def trace(
    source: str = argument(
        "SOURCE", "Model: config.json, its folder, example:NAME, or - for stdin."
    ),
    sequence_length: options.SequenceLength = None,
    seed: options.Seed = 0,
    timeout: float = option("S", "Seconds for building and running the model.", default=300.0),
    *,
    page: VectorOptions,
) -> bool:
    """\b
    Examples:
      ropecli trace config.json
      ropecli trace example:phi-4-mini --sequence-length 131072
      ropecli trace config.json -o vectors.safetensors

    Trace which RoPE the layers of a running model really apply. The installed Transformers (pip
    install torch transformers) builds the model of a config.json at small width with random
    weights. It runs a prefill, chunks and single steps with a cache. Exit code 1 if a layer differs
    from what the file says.
    """
    from ropecli.checks.trace import trace as run
    from ropecli.cli.progress import progress_line

    with progress_line(source, wanted=not page.quiet, after=1.0) as progress:
        result = run(
            source, sequence_length=sequence_length, seed=seed, timeout=timeout, progress=progress
        )
    page.show(result, page.parameters())
    return result.passed
