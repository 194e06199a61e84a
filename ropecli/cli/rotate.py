"""The rotate command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from ropecli.cli.command import Help, argument, command, option
from ropecli.cli.options import EncodingOptions, OutputOptions, RotaryOffset
from ropecli.errors import ArgumentError

NEAR = 6  #: Positions up to which each one on the way is shown.


@command()
def rotate(
    vector: str = argument("VECTOR", "Numbers, e.g. 1,2,3,4, or a file of a vector."),
    position: float = option("M", "Position of the vector, any real number.", default=1),
    pair: list[int] | None = option("N", "Pair to show, from 0; repeatable. [default: four]"),
    row: int | None = option("N", "Row of a file with several vectors."),
    *,
    rope: Annotated[EncodingOptions, Help(dim="Head dim, even. [default: the length of VECTOR]")],
    rotary_offset: RotaryOffset = None,
    output: OutputOptions,
) -> None:
    """\b
    Examples:
      ropecli rotate "1,2,3,4" --position 5
        coordinate  pair  x     cos  swap(x)      sin      sum
                 0     0  1  0.2837       -2  -0.9589    2.202
                 1     0  2  0.2837        1  -0.9589  -0.3916
                 2     1  3  0.9988       -4  0.04998    2.796
                 3     1  4  0.9988        3  0.04998    4.145
      ropecli rotate "1,0,1,0" --layout half -o figure1.png
      ropecli rotate query.npy --model config.json --position 4096 --pair 63

    Rotate one vector, step by step. Show the columns of RoFormer Eq. 34, each pair as a complex
    number (Eq. 12), the matrix R (Eq. 15), and the pairs in the plane (Figure 1).
    """
    from ropecli.analyses.rotation import rotation
    from ropecli.cli.encoding import read_vector

    values = read_vector("VECTOR", vector, row).values
    encoding = rope.encoding(dim=len(values), uses_context=False, rotary_offset=rotary_offset)
    if encoding.rope.head_dim != len(values):
        raise ArgumentError(
            f"VECTOR must have the head dim, {encoding.rope.head_dim}, got {len(values)} numbers"
        )
    output.note(*encoding.notes)
    places, name = _walk(position), encoding.name
    result = rotation(values, encoding.rope, positions=places, pairs=pair or None, name=name)
    parameters = output.parameters(result, vector=vector.strip(), pair=list(result.pairs))
    output.show(result, parameters)


def _walk(position: float) -> Sequence[float]:
    """Return 0, the position, and all on the way where they are few."""
    if not position.is_integer() or not 0 < abs(position) <= NEAR:
        return (0.0, position) if position else (0.0,)
    step = 1 if position > 0 else -1
    return [float(m) for m in range(0, int(position) + step, step)]
