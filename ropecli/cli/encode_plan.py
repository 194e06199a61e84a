"""What the options of `encode` come to, for the file that is looked at first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ropecli.files.axes import Axes
    from ropecli.files.formats.stored import Stored
    from ropecli.rotary import Rotary


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options as they were given."""

    tensor: str | None
    rope: dict[str, Any]  #: Those that make an encoding, by name.
    model: str | None
    layer: str | None
    sequence_length: int | None
    sequence_axis: int | None
    positions: Path | None
    offset: int
    inverse: bool
    dtype: str | None
    shape: str | None


@dataclass(frozen=True, kw_only=True)
class EncodePlan:
    """What follows from them."""

    asked: Asked
    rope: Rotary
    axes: Axes  #: Of the first array.
    shape: tuple[int, ...] | None
    notes: tuple[str, ...]

    def check_positions(self) -> None:
        """Say what is wrong with the positions before anything else is said.

        Raises:
            ArgumentError: Positions that do not fit the file.
            FileError: A file of them that can't be read.
        """
        from ropecli.files.positions import open_positions

        asked = self.asked
        with open_positions(asked.positions, self.axes, asked.offset, coordinates=self.rope.axes):
            pass

    @property
    def job(self) -> dict[str, Any]:
        """What every file is rotated with, as `Job` takes it."""
        return {
            "tensor": self.asked.tensor,
            "positions": self.asked.positions,
            "sequence_axis": self.asked.sequence_axis,
            "inverse": self.asked.inverse,
            "dtype": self.asked.dtype,
            "shape": self.shape,
        }

    @property
    def parameters(self) -> dict[str, Any]:
        """What the command worked with."""
        asked = self.asked
        return {
            "tensor": asked.tensor,
            "dim": self.axes.head_dim,
            "base": self.rope.base if asked.rope["base"] is None else asked.rope["base"],
            "layout": self.rope.layout,
            "rotary_dim": self.rope.rotary_dim,
            "rotary_offset": self.rope.rotary_offset,
            "rope_type": self.rope.rope_type,
            "set": asked.rope["set"],
            "model": asked.model,
            "layer": asked.layer,
            "sequence_length": asked.sequence_length,
            "sequence_axis": self.axes.sequence_axis,
            "positions": asked.positions,
            "offset": asked.offset,
            "inverse": asked.inverse,
            "dtype": asked.dtype,
            "shape": self.shape,
        }


def plan_for(input: Path, asked: Asked) -> EncodePlan:
    """Look at a file, and say what is to be done with it.

    Raises:
        ArgumentError: A value that is not allowed, or does not fit the file.
        FileError: A file that can't be read, or holds something else.
    """
    from ropecli.cli.encoding import chosen
    from ropecli.files.axes import axis_notes, understand_axes
    from ropecli.files.formats.raw import parsed_shape

    shape = None if asked.shape is None else parsed_shape(asked.shape)
    stored = _first(input, asked, shape)
    width = understand_axes(stored).head_dim
    encoding = chosen(asked.model, asked.layer, asked.sequence_length, asked.rope, dim=width)
    rope = encoding.rope
    axes = understand_axes(stored, head_dim=rope.head_dim, sequence_axis=asked.sequence_axis)
    named = asked.rope["dim"] is not None or asked.model is not None
    notes = axis_notes(axes, axis_given=asked.sequence_axis is not None, dim_given=named)
    notes += encoding.notes
    if rope.axes > 1 and asked.positions is None:
        notes += (f"positions have {rope.axes} axes, alike without --positions, as in text",)
    return EncodePlan(asked=asked, rope=rope, axes=axes, shape=shape, notes=notes)


def _first(input: Path, asked: Asked, shape: tuple[int, ...] | None) -> Stored:
    from ropecli.files.arrays import choose
    from ropecli.files.formats.registry import open_input
    from ropecli.files.formats.stored import to_rotate

    with open_input(input, shape, asked.dtype) as source:
        stored = source.arrays[choose(source, asked.tensor)[0]]
        return to_rotate(stored, asked.dtype if shape is None else None)
