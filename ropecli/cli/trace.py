"""The trace command."""

from __future__ import annotations

from typing import Annotated

import typer

from ropecli.cli import options
from ropecli.cli.command import command
from ropecli.cli.options import PageOptions


@command
def trace(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="Model: config.json, its folder, or - for stdin."),
    ],
    sequence_length: options.SequenceLength = None,
    seed: options.Seed = 0,
    timeout: Annotated[
        float, typer.Option(metavar="S", help="Seconds for building and running the model.")
    ] = 300.0,
    *,
    page: PageOptions,
) -> bool:
    """\b
    Examples:
      ropecli trace config.json
      ropecli trace config.json --sequence-length 131072
      ropecli trace config.json --json

    Trace which RoPE the layers of a running model really apply. The installed Transformers builds
    the model of a config.json at small width with random weights. It runs a prefill, chunks and
    single steps with a cache. Exit code 1 if a layer differs from what the file says.
    """
    from ropecli.checks.trace import trace as run

    result = run(source, sequence_length=sequence_length, seed=seed, timeout=timeout)
    page.show(result, page.parameters())
    return result.passed
