"""The usage command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ropecli.cli.command import Help, argument, command, option
from ropecli.cli.options import EncodingOptions, OutputOptions


@command()
def usage(
    q: Annotated[Path, argument("Q", "Queries, a tensor dump in any supported format.")],
    k: Annotated[Path, argument("K", "Keys, also a dump; may be the same file.")],
    q_tensor: Annotated[
        str | None, option("GLOB", "Tensor of the queries, or of each layer's, by name.")
    ] = None,
    k_tensor: Annotated[
        str | None, option("GLOB", "Tensor of the keys, or of each layer's, by name.")
    ] = None,
    sequence_axis: Annotated[
        int | None, option("N", "Axis of the tokens. [default: the one before the last]")
    ] = None,
    average: Annotated[
        list[int] | None, option("N", "Axis to average over, e.g. of the batch; repeatable.")
    ] = None,
    *,
    rope: Annotated[
        EncodingOptions,
        Help(
            dim="Head dim, of which the last axis may hold several. [default: the last axis]",
            layout="Pairing of the vectors: interleaved (2i, 2i+1) or half (i, i + dim/2). "
            "[default: interleaved]",
        ),
    ],
    output: OutputOptions,
) -> None:
    """\b
    Examples:
      ropecli construct --dim 8 --pair 1 --write-q q.npy --write-k k.npy
      ropecli usage q.npy k.npy
        layer  head  pairs for half  largest pair  its wavelength  its share
            0     0               1             1           62.83     100.0%
      ropecli usage q.npy k.npy --layout half
      ropecli usage q.npy k.npy --model config.json -o usage.png
      ropecli usage dump.h5 dump.h5 --q-tensor "*.q" --k-tensor "*.k"
      ropecli usage q.npy k.npy --average 0 -o usage.csv

    Show which frequencies carry a head. Average the length of every pair of queries and keys over
    the tokens, by layer, head and frequency. The tensors have the axes (layers, heads, tokens,
    head dim), of which the first may be missing, before rotation or after it.
    """
    from ropecli.analyses.usage import usage as analyse
    from ropecli.files.load import read_layers

    known = rope.model is not None or rope.dim is not None
    dim = rope.encoding().rope.head_dim if known else None
    queries, keys = (
        read_layers(path, pattern, head_dim=dim, sequence_axis=sequence_axis)
        for path, pattern in ((q, q_tensor), (k, k_tensor))
    )
    named = rope.encoding(dim=queries.shape[-1])
    output.note(*named.notes)
    result = analyse(named.rope, queries, keys, average=average or (), name=named.name)
    output.show(result, output.parameters(**rope.as_parameters(named)))
