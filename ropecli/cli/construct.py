"""The construct command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ropecli.cli.command import Help, command, option
from ropecli.cli.options import EncodingListOptions, OutputOptions
from ropecli.errors import ArgumentError


@command()
def construct(
    distance: list[int] | None = option(
        "R",
        "Distance whose score is to be largest; repeatable. [default: 0, 1 and half of "
        "the context]",
    ),
    epsilon: float = option("E", "Maximum total attention on all other tokens.", default=0.01),
    psi: Path | None = option(
        "FILE", "Direction of the query, .npy. [default: equal weight on all rotating pairs]"
    ),
    pair: list[int] | None = option("I", "Index of a pair that holds the vectors; repeatable."),
    write_q: Path | None = option("FILE", "Output of the queries, one row per head, .npy."),
    write_k: Path | None = option("FILE", "Output of the keys, one row per head, .npy."),
    *,
    rope: Annotated[
        EncodingListOptions,
        Help(
            dim="Head dim, even; repeatable. [default: 128, or that of --psi]",
            context="Context length. [default: the model's, or 4096]",
        ),
    ],
    output: OutputOptions,
) -> None:
    """\b
    Examples:
      ropecli construct --dim 128 --context 8192
        head            |q|^2 = |k|^2  attention  margin  next at  ties in float32
        diagonal              154.271       0.99  0.0298        1                0
        previous token        177.541       0.99  0.0298        0                0
        4,096 back            177.541       0.99  0.0298    4,095                0
      ropecli construct --distance 1000 -o peak.png
      ropecli construct --rope-type p-rope --set p=0.75
      ropecli construct --pair 63 --distance 1
      ropecli construct --base 10000 --base 500000 -o heads.png
      ropecli construct --model example:llama-2-7b --write-q q.npy --write-k k.npy

    Make vectors whose score is largest at a chosen distance. They are those of a diagonal
    head (0), of a head of the previous token (1), or of any other, with the length that
    attention needs. Also show which pairs keep the sign of a match within the context.
    """
    import numpy as np

    from ropecli.analyses.construct import construct as analyse
    from ropecli.files.load import load_vector
    from ropecli.render.save import check_savable, npy, write_output

    if write_q is not None and write_q == write_k:
        raise ArgumentError(f"--write-q and --write-k must be two files, got {write_q} twice")
    for path in (write_q, write_k):
        if path is not None:
            read = [] if psi is None else [psi]
            check_savable(path, force=output.force, sources=read, suffixes=(".npy",))
    vector = None if psi is None else load_vector(psi)
    ropes = rope.encodings(dim=128 if vector is None else len(vector.values))
    if len(ropes) > 1 and (write_q or write_k):
        raise ArgumentError(f"--write-q and --write-k take one encoding, got {len(ropes)}")
    output.note_encodings(ropes)
    output.note(*(() if vector is None else vector.notes))
    constructs = [
        analyse(
            rotary.rope,
            distances=distance or None,
            context_length=4096 if rotary.context is None else rotary.context,
            epsilon=epsilon,
            psi=None if vector is None else vector.values,
            pairs=pair or None,
            name=rotary.name,
        )
        for rotary in ropes
    ]
    for path, rows in (
        (write_q, [head.q for head in constructs[0].heads]),
        (write_k, [head.k for head in constructs[0].heads]),
    ):
        if path is not None:
            write_output(path, npy(np.stack(rows)), force=output.force)
    heads = [head for example in constructs for head in example.heads]
    output.show_all(constructs, output.parameters(*constructs, *heads))
