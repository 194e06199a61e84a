"""The bound command."""

from __future__ import annotations

from typing import Annotated

import typer

from ropecli.cli.command import Help, command
from ropecli.cli.options import EncodingListOptions, OutputOptions
from ropecli.errors import ArgumentError


@command
def bound(
    q: Annotated[
        str,
        typer.Argument(metavar="Q", help="Query before rotation: numbers, e.g. 1,2,3,4, or .npy."),
    ],
    k: Annotated[str, typer.Argument(metavar="K", help="Key before rotation, typed or a file.")],
    q_row: Annotated[
        int | None, typer.Option(metavar="N", help="Row of a file Q with several vectors.")
    ] = None,
    k_row: Annotated[
        int | None, typer.Option(metavar="N", help="Row of a file K with several vectors.")
    ] = None,
    max_dist: Annotated[
        int, typer.Option(metavar="R", help="Last relative distance, included.")
    ] = 512,
    at: Annotated[
        float, typer.Option(metavar="R", help="Distance at which each pair is shown.")
    ] = 0,
    *,
    rope: Annotated[EncodingListOptions, Help(dim="Head dim, even. [default: the length of Q]")],
    output: OutputOptions,
) -> None:
    """\b
    Examples:
      ropecli bound "1,0,1,0" "1,0,0,1"
        bound on |score|     least  largest  best |score|/bound  median
        max bound (Eq. 37)   1.415    4.243              0.9994  0.2366
        Abel bound (Eq. 37)  1.415    3.414              0.9996  0.2821
        norms |q||k|             2        2              0.9984  0.3696
        envelope, sum |h_i|      2        2              0.9984  0.3696
      ropecli bound q.npy k.npy --model config.json -o bound.png
      ropecli bound q.npy k.npy --base 10000 --base 500000
      ropecli bound q.npy k.npy --q-row 3 --k-row 7 --at 100 --json

    Show how tight the bounds on a score of two vectors are. They are both of RoFormer Eq. 37, and
    Cauchy-Schwarz over the head and pair by pair. Also show the part of each pair, the sums S_j of
    Eq. 36, and the error of interpolating between positions.
    """
    from ropecli.analyses.bound import bound as analyse
    from ropecli.analyses.several import Several
    from ropecli.cli.encoding import named_notes, read_vector

    query = read_vector("Q", q, q_row, option="--q-row")
    key = read_vector("K", k, k_row, option="--k-row")
    if len(query) != len(key):
        raise ArgumentError(
            f"Q and K must be equally long, got {len(query)} and {len(key)} coordinates"
        )
    ropes = rope.encodings(dim=len(query), uses_context=False)
    output.note(*named_notes(ropes))
    found = [
        analyse(each.rope, query, key, max_distance=max_dist, at=at, name=each.name)
        for each in ropes
    ]
    resolved = rope.resolved(ropes) | {"q": q.strip(), "k": k.strip()}
    output.show(Several(results=tuple(found)), output.parameters(**resolved))
