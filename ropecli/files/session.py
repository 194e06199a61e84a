"""An input that is open: its arrays, their axes, and the rotation of each."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ropecli.errors import ArgumentTypeError, FileError
from ropecli.files.array_axes import Axes, understand_axes, vector_length
from ropecli.files.array_job import ArrayJob
from ropecli.files.arrays import choose
from ropecli.files.formats.base import Source
from ropecli.files.formats.registry import open_input
from ropecli.files.formats.stored import check_rotatable
from ropecli.files.positions import open_positions
from ropecli.rotary import Rotary


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """A file, and its rotation."""

    input: Path
    #: The encoding, or the function that returns it for the length of the last axis.
    rope: Rotary | Callable[[int], Rotary]
    tensor: str | None = None  #: A name, or a pattern of names, where the file holds several.
    positions: Any = None  #: As in `open_positions`.
    offset: int = 0  #: Added to every position.
    sequence_axis: int | None = None  #: The axis before the last by default.
    inverse: bool = False  #: Apply the inverse rotation.
    dtype: str | None = None  #: "bfloat16" to take 2-byte void elements for that.
    shape: Sequence[int] | None = None  #: Where the file has no header; `dtype` then is its own.

    def __post_init__(self) -> None:
        """Refuse what is not an encoding."""
        rope: object = self.rope
        if not (isinstance(rope, Rotary) or callable(rope)):
            raise ArgumentTypeError(f"rope must be a Rotary, got {type(rope).__name__}")


@contextlib.contextmanager
def open_session(job: Job) -> Iterator[Session]:
    """Open the input of a job, once, for all that is done with it."""
    begin = time.perf_counter()
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(open_input(job.input, job.shape, job.dtype))
        dtype = job.dtype if job.shape is None else None
        arrays = [
            check_rotatable(source.arrays[name], dtype) for name in choose(source, job.tensor)
        ]
        rope = job.rope if isinstance(job.rope, Rotary) else job.rope(vector_length(arrays[0]))
        axes = tuple(
            understand_axes(each, head_dim=rope.head_dim, sequence_axis=job.sequence_axis)
            for each in arrays
        )
        for each in axes:
            source.check(each.stored)
            if each.sequence_axis is None and job.positions is None and not job.offset:
                raise FileError(
                    f"{each.stored.label} has shape {each.stored.shape}, a single vector",
                    "give its position with `offset`",
                )
        yield Session(job=job, source=source, rope=rope, all_axes=axes, begin=begin, stack=stack)


@dataclass(frozen=True, kw_only=True, eq=False)
class Session:
    """An open input."""

    job: Job
    source: Source
    rope: Rotary
    all_axes: tuple[Axes, ...]  #: Axes of each array that is rotated.
    begin: float  #: Time at which it was opened, in seconds.
    stack: contextlib.ExitStack  #: Of what else is open until the end.

    @property
    def axes(self) -> Axes:
        """Axes of the first array."""
        return self.all_axes[0]

    @cached_property
    def arrays(self) -> tuple[ArrayJob, ...]:
        """The rotation of each array, for which the positions are opened and checked."""
        job = self.job
        positions_of = self.stack.enter_context(
            open_positions(job.positions, job.offset, coordinates=self.rope.axes)
        )
        return tuple(
            ArrayJob(axes, positions_of(axes), self.rope, job.inverse) for axes in self.all_axes
        )

    @property
    def rest(self) -> tuple[str, ...]:
        """Names of the arrays that stay as they are."""
        chosen = {axes.stored.name for axes in self.all_axes}
        return tuple(name for name in self.source.arrays if name not in chosen)
