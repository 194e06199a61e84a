"""What is written from what, block by block."""

from __future__ import annotations

import hashlib
import math
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ropecli.errors import FileError
from ropecli.files.formats.direct import PAGE
from ropecli.files.formats.flat import FlatWriter
from ropecli.files.formats.pipe import StdinSource, StdoutSink
from ropecli.files.formats.stored import box_shape
from ropecli.files.pipeline import overlapped

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from ropecli.files.formats.protocol import Format, Reader, Sink, Writer
    from ropecli.files.formats.stored import Box, Stored
    from ropecli.files.rotation import OpenJob, Unfinite


DIGEST_BYTES = 16  #: Of the hash of a block.


@dataclass(frozen=True)
class Step:
    """One block of one array."""

    number: int  #: Counted over all arrays.
    array: int  #: Which array.
    box: Box
    bytes: int


@dataclass(frozen=True)
class Written:
    """A block that is written, and what was seen in it."""

    step: Step
    unfinite: Unfinite
    digest: str  #: Hash of its elements, where one was asked for.


class Runner(Protocol):
    """What turns blocks, as `Plan.run` does."""

    def __call__(
        self, sink: Sink, steps: Iterable[Step], /, *, hashed: bool
    ) -> Generator[Written, None, None]:
        """Tell of each block once it is written; in any order."""


class Plan:
    """What is written from an open file, and how."""

    def __init__(self, opened: OpenJob, target: Format, output: Path) -> None:
        """Refuse what the format has no place for.

        Raises:
            FileError: Several arrays for a format of one, or a dtype that it does not have.
        """
        self.opened = opened
        self.format = target
        if len(opened.rotations) > 1 and not target.named:
            msg = (
                f"cannot write {output}: it holds one tensor, got {len(opened.rotations)}; "
                "allowed is a format of many, such as .safetensors"
            )
            raise FileError(msg)
        keeps = target.named and opened.source.path.suffix.lower() in target.suffixes
        self.kept = opened.rest if keeps else ()
        self.left_out = () if keeps else opened.rest
        self.arrays = [self._kept(rotation.axes.stored, output) for rotation in opened.rotations]
        self.bytes = sum(rotation.axes.stored.nbytes for rotation in opened.rotations)

    def _kept(self, stored: Stored, output: Path) -> Stored:
        name = (stored.name or stored.path.stem) if self.format.named else ""
        return self.format.as_stored(replace(stored, path=output, name=name))

    def steps(self) -> Iterator[Step]:
        """All blocks, in the order of the file."""
        number = 0
        for array, rotation in enumerate(self.opened.rotations):
            stored = rotation.axes.stored
            for box in rotation.blocks(self.arrays[array].chunks):
                yield Step(number, array, box, math.prod(box_shape(box)) * stored.dtype.itemsize)
                number += 1

    def run(
        self, sink: Sink, steps: Iterable[Step], *, hashed: bool = False
    ) -> Generator[Written, None, None]:
        """Read, turn and write block after block; each is told once it is written.

        Args:
            sink: What they are written to.
            steps: Which.
            hashed: Whether to hash what is written.
        """
        rotations = self.opened.rotations
        readers: dict[int, Reader] = {}
        writers: dict[int, Writer] = {}
        digests: dict[int, str] = {}

        def like(step: Step) -> tuple[tuple[int, ...], np.dtype[Any]]:
            dtype = rotations[step.array].axes.stored.dtype
            return box_shape(step.box), dtype.newbyteorder("=")

        def read(step: Step, block: NDArray[Any]) -> None:
            if step.array not in readers:
                readers.clear()  # the one before is done: it may hold a file open
                stored = rotations[step.array].axes.stored
                readers[step.array] = self.opened.source.reader(stored)
            readers[step.array].read(step.box, block)

        def turn(step: Step, before: NDArray[Any], after: NDArray[Any]) -> Unfinite:
            unfinite = rotations[step.array].turn(step.box, before, after)
            if hashed:  # here, because writing takes longer, and uses the block up
                digests[step.number] = digest(after)
            return unfinite

        def writer(step: Step) -> Writer:
            if step.array not in writers:
                writers[step.array] = sink.writer(self.arrays[step.array].name)
            return writers[step.array]

        def lead(step: Step) -> int:
            found = writer(step)
            if not isinstance(found, FlatWriter):
                return 0
            # Elements stand at multiples of their size in memory, though not in every file.
            size = self.arrays[step.array].dtype.itemsize
            return found.place(step.box) % PAGE // size * size

        def write(step: Step, block: NDArray[Any]) -> None:
            writer(step).write(step.box, block)

        turned = overlapped(
            steps,
            like=like,
            read=read,
            turn=turn,
            write=write,
            lead=lead,
            endless_read=isinstance(self.opened.source, StdinSource),
            endless_write=isinstance(sink, StdoutSink),
        )
        with closing(turned):
            for step, unfinite in turned:
                yield Written(step, unfinite, digests.pop(step.number, ""))


def digest(block: NDArray[Any]) -> str:
    """The hash of a block's elements: C-contiguous, in native byte order."""
    return hashlib.blake2b(
        block.reshape(-1).view(np.uint8).data, digest_size=DIGEST_BYTES
    ).hexdigest()
