"""The table command."""

from __future__ import annotations

from typing import Annotated

from ropecli.cli.command import Help, command
from ropecli.cli.options import EncodingListOptions, OutputOptions


@command
def table(
    *,
    rope: Annotated[EncodingListOptions, Help(dim="Head dim, even; repeatable. [default: 128]")],
    output: OutputOptions,
) -> None:
    """\b
    Examples:
      ropecli table --dim 8
        pair  theta  wavelength  degrees per token
           0      1     6.28319            57.2958
           1    0.1     62.8319            5.72958
           2   0.01     628.319           0.572958
           3  0.001     6283.19          0.0572958
      ropecli table --model example:llama-3.1-8b -o frequencies.tex
      ropecli table --base 10000 --base 500000 -o wavelengths.png
      ropecli table --dim 128 --base 500000 -o - --format md

    Show frequency, wavelength and degrees per token of each pair. As text, or with -o as CSV,
    Markdown or LaTeX.
    """
    from ropecli.analyses.frequencies import frequency_table
    from ropecli.analyses.several import Several
    from ropecli.cli.encoding import named_notes

    ropes = rope.encodings(dim=128, uses_context=False)
    output.note(*named_notes(ropes))
    found = [frequency_table(each.rope, name=each.name) for each in ropes]
    output.show(Several(results=tuple(found)), output.parameters(**rope.resolved(ropes)))
