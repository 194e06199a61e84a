"""The vectors command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ropecli.cli.command import command
from ropecli.cli.options import PageOptions, Seed


@command
def vectors(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Output folder.")
    ],
    format: Annotated[
        str, typer.Option(metavar="FORMAT", help="File format: npy, safetensors or json.")
    ] = "npy",
    seed: Seed = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a folder that this command wrote.")
    ] = False,
    *,
    page: PageOptions,
) -> None:
    """\b
    Examples:
      ropecli vectors -o golden
      ropecli vectors -o golden --format safetensors
      ropecli vectors -o golden --format json --force

    Write golden test vectors for other implementations. They are exact rotations, rounded once
    to each dtype: every rope type in both layouts, partial, trailing and reversed rotations,
    M-RoPE, long positions, and ONNX's operator. A README explains how to compare.
    """
    from ropecli.checks.vectors.folder import write_vectors

    result = write_vectors(output, format=format, seed=seed, force=force)
    page.show(result, page.parameters("force"))
