"""The coverage command."""

from __future__ import annotations

from typing import Annotated

import typer

from ropecli.cli.command import Help, command
from ropecli.cli.options import EncodingListOptions, OutputOptions

DIM, CONTEXT = 128, 4096


@command
def coverage(
    trained: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Context length of training, for the critical dim. "
            "[default: the model's before scaling, or --context]",
        ),
    ] = None,
    trained_turns: Annotated[
        float,
        typer.Option(
            metavar="X", help="Turns that a pair completes in training below the critical dim."
        ),
    ] = 1.0,
    *,
    rope: Annotated[
        EncodingListOptions,
        Help(
            dim="Head dim, even; repeatable. [default: 128]",
            context="Context length. [default: the model's, or 4096]",
        ),
    ],
    output: OutputOptions,
) -> None:
    """\b
    Examples:
      ropecli coverage --base 500000 --context 8192
        never complete a turn  29 of 64 pairs: 35 to 63
        slowest pair           63: 2,559,195.5 positions per turn, 0.003201 turns
        critical dim           70 for 8,192 positions
        between neighbours     sine 0.078816, cosine 0.977909 on average
      ropecli coverage --model example:llama-3-8b --context 131072
      ropecli coverage --model llama.json --model qwen.json -o wavelengths.png
      ropecli coverage --base 10000 --base 500000 -o coverage.csv

    Show how far each pair rotates within a context. Wavelengths, turns, degrees, and which pairs
    never complete a turn, with the critical dim and the granularity between neighbours.
    """
    from ropecli.analyses.coverage import Coverages
    from ropecli.analyses.coverage import coverage as analyse

    ropes = rope.encodings(dim=DIM)
    output.note(*(f"{each.name}: {note}" for each in ropes for note in each.notes))
    found = []
    for each in ropes:
        before = None if each.layer is None else each.layer.trained_length
        result = analyse(
            each.rope,
            context_length=each.reach or CONTEXT,
            trained_length=before if trained is None else trained,
            trained_turns=trained_turns,
            name=each.name,
        )
        found.append(result)
    resolved = {
        "context": rope.context if rope.model else rope.context or CONTEXT,
        **rope.resolved(ropes),
    }
    output.show(Coverages(coverages=tuple(found)), output.parameters(**resolved))
