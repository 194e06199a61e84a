"""Maps input blocks to output blocks, and writes them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.errors import FileError
from ropecli.files.array_job import Block, NonFiniteCounts
from ropecli.files.encoded import Encoded, encoded
from ropecli.files.formats.pipe import StdinSource, StdoutSink, as_path
from ropecli.files.formats.protocol import Reader, Sink, Writer
from ropecli.files.formats.registry import output_format
from ropecli.files.formats.stored import Stored, box_shape
from ropecli.files.output import check_output, open_output
from ropecli.files.pipeline import overlapped
from ropecli.files.session import Session

Progress = Callable[[int, int], None]


class Plan:
    """Write plan for one output."""

    def __init__(
        self,
        session: Session,
        output: str | os.PathLike[str],
        *,
        force: bool = False,
        sources: Sequence[Path] = (),
    ) -> None:
        """Refuse what cannot be written."""
        self.session, self.output = session, Path(output)
        self.force = force
        job = session.job
        self.format = output_format(output, job.input, job.shape, job.dtype)
        is_path = isinstance(job.positions, str | os.PathLike)
        read = [as_path(job.input), *([Path(job.positions)] if is_path else []), *sources]
        check_output(output, force=force, sources=read)
        arrays = session.arrays
        if len(arrays) > 1 and not self.format.named:
            raise FileError(
                f"cannot write {output}: it holds one tensor, got {len(arrays)}; "
                "expected a format of many, such as .safetensors"
            )
        same = self.format.named and session.source.path.suffix.lower() in self.format.suffixes
        self.kept = session.rest if same else ()
        self.left_out = () if same else session.rest
        lost = session.source.not_copied if same else ""
        self.notes = (f"{lost} of {session.source.path} cannot be copied",) if lost else ()
        self.arrays = [self._as_stored(each.axes.stored, same=same) for each in arrays]
        names = [array.name for array in self.arrays]
        if len(set(names)) < len(names):
            raise FileError(f"cannot write {output}: two of its tensors would have one name")
        self.bytes = sum(each.axes.stored.nbytes for each in arrays)

    def blocks(self) -> Iterator[Block]:
        """Return all blocks, in the order of the file."""
        number = 0
        for array, job in enumerate(self.session.arrays):
            itemsize = job.axes.stored.dtype.itemsize
            for box in job.blocks(self.arrays[array].chunks):
                yield Block(number, array, box, math.prod(box_shape(box)) * itemsize)
                number += 1

    def run(self, progress: Progress | None = None) -> Encoded:
        """Write the output."""
        with open_output(self.output, force=self.force) as part:
            counts = self._write(part, progress)
        return self.result(counts)

    def result(self, counts: Sequence[NonFiniteCounts]) -> Encoded:
        """Return what was written, with the counts of each array."""
        return encoded(self.session, self.output, counts, kept=self.kept, left_out=self.left_out)

    def _write(self, part: Path, progress: Progress | None) -> list[NonFiniteCounts]:
        counts, done = [NonFiniteCounts() for _ in self.arrays], 0
        source = self.session.source
        with ExitStack() as stack:
            sink = self.format.create(part, self.arrays, source)
            stack.callback(sink.close)
            for block, found in stack.enter_context(closing(self._rotate(sink))):
                counts[block.array] += found
                done += block.bytes
                if progress is not None:
                    progress(done, self.bytes)
            sink.finish(source, self.kept)
        return counts

    def _rotate(self, sink: Sink) -> Generator[tuple[Block, NonFiniteCounts], None, None]:
        """Read, rotate and write block after block; yield each once it is written."""
        jobs = self.session.arrays
        readers: dict[int, Reader] = {}
        writers: dict[int, Writer] = {}

        def like(block: Block) -> tuple[tuple[int, ...], np.dtype[Any]]:
            return box_shape(block.box), jobs[block.array].axes.stored.dtype.newbyteorder("=")

        def read(block: Block, before: NDArray[Any]) -> None:
            if block.array not in readers:
                readers.clear()  # the one before is done: it may hold a file open
                stored = jobs[block.array].axes.stored
                readers[block.array] = self.session.source.reader(stored)
            readers[block.array].read(block.box, before)

        def turn(block: Block, before: NDArray[Any], after: NDArray[Any]) -> NonFiniteCounts:
            return jobs[block.array].rotate(block.box, before, after)

        def write(block: Block, after: NDArray[Any]) -> None:
            if block.array not in writers:
                writers[block.array] = sink.writer(self.arrays[block.array].name)
            writers[block.array].write(block.box, after)

        return overlapped(
            self.blocks(),
            like=like,
            read=read,
            turn=turn,
            write=write,
            endless_read=isinstance(self.session.source, StdinSource),
            endless_write=isinstance(sink, StdoutSink),
        )

    def _as_stored(self, stored: Stored, *, same: bool) -> Stored:
        """Return an array as the output stores it: one without a name is named after its file."""
        name = stored.name or ("" if same else stored.path.stem)
        name = name if self.format.named else ""
        return self.format.as_stored(replace(stored, path=self.output, name=name))
