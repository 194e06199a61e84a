"""The frequencies command."""

from __future__ import annotations

from typing import Annotated

from ropecli.cli.command import Help, command, flag, option
from ropecli.cli.options import EncodingListOptions, OutputOptions

CONTEXT = 4096


@command()
def frequencies(
    trained: int | None = option(
        "N",
        "Context length of training, for the critical dim. "
        "[default: the model's before scaling, or --context]",
    ),
    trained_turns: float = option(
        "X", "Turns that a pair completes in training below the critical dim.", default=1.0
    ),
    all_pairs: bool = flag("--all", "Show every pair, in place of a dozen."),
    *,
    rope: Annotated[
        EncodingListOptions, Help(context="Context length. [default: the model's, or 4096]")
    ],
    output: OutputOptions,
) -> None:
    """\b
    Examples:
      ropecli frequencies --dim 8
        pair  theta  wavelength  degrees per token   turns  degrees covered
           0      1     6.28319            57.2958   651.9              360
           1    0.1     62.8319            5.72958   65.19              360
           2   0.01     628.319           0.572958   6.519              360
           3  0.001     6283.19          0.0572958  0.6519            234.7
      ropecli frequencies --base 500000 --context 8192
        never complete a turn  29 of 64 pairs: 35 to 63
        slowest pair           63: 2,559,195.5 positions per turn, 0.003201 turns
        critical dim           70 for 8,192 positions
        between neighbours     sine 0.078816, cosine 0.977909 on average
      ropecli frequencies --model example:llama-3-8b --context 131072 --all
      ropecli frequencies --model example:llama-3.1-8b -o frequencies.tex
      ropecli frequencies --model llama.json --model qwen.json -o wavelengths.png
      ropecli frequencies --dim 128 --base 500000 -o - --format md

    Show the frequency of each pair, and its turns within a context. Wavelength, degrees per token
    and degrees covered of each, and which pairs never complete a turn, with the critical dim and
    the granularity between neighbours.
    """
    from ropecli.analyses.frequencies import frequency_table
    from ropecli.models.load import trained_length

    ropes = rope.encodings()
    output.note_encodings(ropes)
    tables = []
    for rotary in ropes:
        before = trained
        if before is None and rotary.layer is not None and rotary.described is not None:
            before = trained_length(rotary.layer, rotary.described)
        result = frequency_table(
            rotary.rope,
            context_length=rotary.reach or CONTEXT,
            trained_length=before,
            trained_turns=trained_turns,
            name=rotary.name,
        )
        tables.append(result)
    output.show_all(tables, output.parameters(tables, omit=["all_pairs"]), all_pairs=all_pairs)
