"""The similarity command."""

from __future__ import annotations

from typing import Annotated

import typer

from ropecli.cli.command import Help, command
from ropecli.cli.options import EncodingOptions, OutputOptions


@command
def similarity(
    max_dist: Annotated[
        int, typer.Option(metavar="R", help="Last distance, in positions, included.")
    ] = 512,
    positions: Annotated[
        int, typer.Option(metavar="N", help="Positions in the heat map of the figure.")
    ] = 128,
    *,
    rope: Annotated[
        EncodingOptions, Help(dim="Dim of the codes, even, at least 2. [default: 128]")
    ],
    output: OutputOptions,
) -> None:
    """\b
    Examples:
      ropecli similarity --dim 128 --max-dist 4096
        distance  similarity     limit
               1    0.970214  0.973963
              64    0.476876  0.487335
            4096  -0.0528533  0.038746
      ropecli similarity --dim 512 --max-dist 4096 -o similarity.png
      ropecli similarity --layout half --positions 64 -o codes.png

    Show inner products of sinusoidal codes against distance. Next to them is their limit for many
    dims, [Ci(r) - Ci(r/b)] / ln b, and the figure has the heat map of the codes.
    """
    from ropecli.analyses.similarity import similarity as analyse

    named = rope.encoding(dim=128, uses_context=False)
    output.note(*named.notes)
    result = analyse(named.rope, max_distance=max_dist, positions=positions, name=named.name)
    own = named.rope
    resolved = {} if rope.model else {"dim": own.head_dim, "base": own.base, "layout": own.layout}
    output.show(result, output.parameters(**resolved))
