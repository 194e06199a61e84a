"""The similarity command."""

from __future__ import annotations

from typing import Annotated

import typer

from ropecli.cli.command import Help, command
from ropecli.cli.options import EncodingListOptions, OutputOptions


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
        EncodingListOptions, Help(dim="Dim of the codes, even; repeatable. [default: 128]")
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
      ropecli similarity --base 10000 --base 500000

    Show inner products of sinusoidal codes against distance. Next to them is their limit for many
    dims, [Ci(r) - Ci(r/b)] / ln b, and the figure has the heat map of the codes.
    """
    from ropecli.analyses.several import Several
    from ropecli.analyses.similarity import similarity as analyse
    from ropecli.cli.encoding import named_notes

    ropes = rope.encodings(dim=128, uses_context=False)
    output.note(*named_notes(ropes))
    found = [
        analyse(each.rope, max_distance=max_dist, positions=positions, name=each.name)
        for each in ropes
    ]
    output.show(Several(results=tuple(found)), output.parameters(**rope.resolved(ropes)))
