"""What the options of `encode` come to, for the file that is looked at first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ropecli.cli.encoding import NamedRotary
    from ropecli.files.axes import Axes
    from ropecli.files.formats.stored import Stored
    from ropecli.files.rotation import Job
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

    def encoding(self, width: int) -> NamedRotary:
        """The encoding of files whose last axis is so long.

        Raises:
            ArgumentError: A value that is not allowed.
            FileError: A model that can't be read.
        """
        from ropecli.cli.encoding import chosen

        if self.model is not None:
            return self.of_model
        return chosen(None, self.layer, self.sequence_length, self.rope, dim=width)

    @cached_property
    def of_model(self) -> NamedRotary:
        """That of the model, which is read once: standard input gives it but once."""
        from ropecli.cli.encoding import chosen

        return chosen(self.model, self.layer, self.sequence_length, self.rope, dim=0)

    def read_model(self) -> None:
        """Say what is wrong with the model, if there is one, before it is said of every file.

        Raises:
            ArgumentError: Options that exclude each other.
            FileError: It can't be read.
        """
        if self.model is not None:
            _ = self.of_model


@dataclass(frozen=True, kw_only=True)
class EncodePlan:
    """What follows from them."""

    asked: Asked
    rope: Rotary
    axes: Axes  #: Of the first array.
    shape: tuple[int, ...] | None
    notes: tuple[str, ...]

    def job(self, input: Path) -> Job:
        """What is to be done to a file."""
        from ropecli.files.rotation import Job

        return Job(input=input, rope=self.rope, **self.options)

    @property
    def options(self) -> dict[str, Any]:
        """What every file is rotated with, as `Job` takes it."""
        return {
            "tensor": self.asked.tensor,
            "positions": self.asked.positions,
            "offset": self.asked.offset,
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
    from ropecli.files.axes import axis_notes, understand_axes
    from ropecli.files.formats.raw import parse_shape

    shape = None if asked.shape is None else parse_shape(asked.shape)
    stored = _first(input, asked, shape)
    width = understand_axes(stored).head_dim
    encoding = asked.encoding(width)
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
    from ropecli.files.formats.stored import check_rotatable

    with open_input(input, shape, asked.dtype) as source:
        stored = source.arrays[choose(source, asked.tensor)[0]]
        return check_rotatable(stored, asked.dtype if shape is None else None)
