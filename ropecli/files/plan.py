"""Maps input blocks to output blocks, and writes them, here or on the workers of a cluster."""

from __future__ import annotations

import contextlib
import math
import os
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ropecli.arrays import dtype_name
from ropecli.errors import FileError
from ropecli.files.array_axes import axis_notes
from ropecli.files.array_job import ArrayJob, NonFiniteCounts
from ropecli.files.arrays import read_part
from ropecli.files.cluster import Cluster, check_shareable, connect
from ropecli.files.encoded import Encoded, EncodedArray
from ropecli.files.formats.base import Reader, Sink
from ropecli.files.formats.pipe import as_path
from ropecli.files.formats.registry import output_format
from ropecli.files.formats.stored import Box, Stored, box_shape
from ropecli.files.formats.zarr import ZARR
from ropecli.files.output import check_output, open_output
from ropecli.files.session import Job, Session, open_session

Progress = Callable[[int, int], None]

#: Of a block on a cluster: seconds of work, next to which Dask's milliseconds are small.
TASK_BYTES = 128 << 20


class _Block(NamedTuple):
    """A part of one of the arrays."""

    array: int
    box: Box


Written = Generator[tuple[_Block, NonFiniteCounts], None, None]


class Plan:
    """Write plan for one output."""

    def __init__(
        self,
        session: Session,
        output: str | os.PathLike[str],
        *,
        force: bool = False,
        scheduler: str | None = None,
        sources: Sequence[Path] = (),
    ) -> None:
        """Refuse what cannot be written, or not by the workers of a scheduler."""
        self.session, self.output = session, Path(output)
        self._force, self._scheduler = force, scheduler
        job = session.job
        if scheduler is not None:
            check_shareable(job, output, scheduler)
        self._format = output_format(output, job.input, job.shape, job.dtype)
        is_path = isinstance(job.positions, str | os.PathLike)
        read = [as_path(job.input), *([Path(job.positions)] if is_path else []), *sources]
        check_output(output, force=force, sources=read)
        arrays = session.arrays
        if len(arrays) > 1 and not self._format.named:
            raise FileError(
                f"cannot write {output}: it holds one tensor, got {len(arrays)}; "
                "expected a format of many, such as .safetensors"
            )
        suffix = session.source.path.suffix.lower()
        self._same = self._format.named and suffix in self._format.suffixes
        self._kept = session.rest if self._same else ()
        lost = session.source.not_copied if self._same else ""
        self.notes = (f"{lost} of {session.source.path} cannot be copied",) if lost else ()
        self._arrays = [self._as_stored(each.axes.stored) for each in arrays]
        names = [array.name for array in self._arrays]
        if len(set(names)) < len(names):
            raise FileError(f"cannot write {output}: two of its tensors would have one name")

    def run(self, progress: Progress | None = None) -> Encoded:
        """Write the output."""
        if self._scheduler is None:
            return self._write(progress)
        with connect(self._scheduler) as cluster:
            if self._same and self._format is ZARR:
                return self._write(progress, cluster)
            job = replace(self.session.job, rope=self.session.rope)
            ((_, result),) = encode_on(cluster, [(job, self.output)])
            if isinstance(result, Exception):
                raise result
            if progress is not None:
                progress(result.bytes, result.bytes)
            return replace(result, input=self.session.source.path)

    def _write(self, progress: Progress | None, cluster: Cluster | None = None) -> Encoded:
        counts, done = [NonFiniteCounts() for _ in self._arrays], 0
        source, jobs = self.session.source, self.session.arrays
        total = sum(job.axes.stored.nbytes for job in jobs)
        with contextlib.ExitStack() as stack:
            part = stack.enter_context(open_output(self.output, force=self._force))
            if cluster is not None:
                part = stack.enter_context(_folder_of_run(part))
            sink = stack.enter_context(closing(self._format.create(part, self._arrays, source)))
            rotated = self._rotate(sink) if cluster is None else self._rotate_on(cluster, sink)
            for block, found in stack.enter_context(closing(rotated)):
                counts[block.array] += found
                itemsize = jobs[block.array].axes.stored.dtype.itemsize
                done += math.prod(box_shape(block.box)) * itemsize
                if progress is not None:
                    progress(done, total)
            sink.finish()
        return self._result(counts)

    def _result(self, counts: Sequence[NonFiniteCounts]) -> Encoded:
        session = self.session
        given = session.job.sequence_axis is not None
        arrays = tuple(
            _array(job, found, axis_given=given)
            for job, found in zip(session.arrays, counts, strict=True)
        )
        first = arrays[0]
        return Encoded(
            input=session.source.path,
            output=self.output,
            shape=first.shape,
            dtype=first.dtype,
            layout=session.rope.layout,
            sequence_axis=first.sequence_axis,
            heads=first.heads,
            head_dim=first.head_dim,
            positions=first.positions,
            bytes=sum(array.bytes for array in arrays),
            seconds=time.perf_counter() - session.begin,
            nonfinite=sum(array.nonfinite for array in arrays),
            overflowed=sum(array.overflowed for array in arrays),
            notes=tuple(dict.fromkeys(chain(*(array.notes for array in arrays), self.notes))),
            arrays=arrays,
            kept=self._kept,
            left_out=() if self._same else session.rest,
        )

    def _blocks(self) -> Iterator[_Block]:
        """Return all blocks, in the order of the file."""
        for number, job in enumerate(self.session.arrays):
            for box in job.blocks(self._arrays[number].chunks):
                yield _Block(number, box)

    def _rotate(self, sink: Sink) -> Written:
        """Read, rotate and write block after block; yield each once it is written."""
        for number, job in enumerate(self.session.arrays):
            array = self._arrays[number]
            reader = self.session.source.reader(job.axes.stored)
            for box in job.blocks(array.chunks):
                before = read_part(reader, box)
                after = np.empty_like(before)
                counts = job.rotate(box, before, after)
                sink.write(array.name, box, after)
                yield _Block(number, box), counts

    def _rotate_on(self, cluster: Cluster, sink: Sink) -> Written:
        """Let workers read, rotate and write; a block is of whole chunks of the output."""
        for number, job in enumerate(self.session.arrays):
            array, stored = self._arrays[number], job.axes.stored
            boxes = list(job.blocks(array.chunks, TASK_BYTES))
            job = replace(job, positions=job.positions.in_memory())  # noqa: PLW2901
            reader = self.session.source.reader(stored)
            task = cluster.share(job, reader, sink, array.name)
            labels = [stored.label] * len(boxes)
            for index, found in cluster.map(_rotate_block, [task] * len(boxes), boxes, labels):
                if isinstance(found, Exception):
                    raise found
                yield _Block(number, boxes[index]), found

    def _as_stored(self, stored: Stored) -> Stored:
        """Return an array as the output stores it: one without a name is named after its file."""
        name = stored.name or ("" if self._same else stored.path.stem)
        name = name if self._format.named else ""
        return self._format.as_stored(replace(stored, path=self.output, name=name))


def _array(job: ArrayJob, counts: NonFiniteCounts, *, axis_given: bool) -> EncodedArray:
    axes = job.axes
    return EncodedArray(
        name=job.name,
        shape=axes.stored.shape,
        dtype=str(dtype_name(axes.stored.dtype)),
        sequence_axis=axes.sequence_axis,
        heads=axes.heads,
        head_dim=axes.head_dim,
        positions=job.positions.ends,
        furthest=job.positions.furthest,
        bytes=axes.stored.nbytes,
        nonfinite=counts.nonfinite,
        overflowed=counts.overflowed,
        notes=axis_notes(axes, axis_given=axis_given, dim_given=True),
    )


def encode_on(
    cluster: Cluster, jobs: Sequence[tuple[Job, Path]]
) -> Iterator[tuple[int, Encoded | Exception]]:
    """Encode each of several files on one worker; yield results by number, as they come."""
    inputs, outputs = [_absolute(job) for job, _ in jobs], [path.absolute() for _, path in jobs]
    labels = [str(job.input) for job, _ in jobs]
    for number, found in cluster.map(_encode_file, inputs, outputs, labels):
        job, output = jobs[number]  # with the paths as they were given
        failed = isinstance(found, Exception)
        yield number, found if failed else replace(found, input=job.input, output=output)


def _encode_file(job: Job, output: Path) -> Encoded:
    """Encode a whole file on a worker.

    The client has refused outputs that exist. One that is here now was written by a worker that
    died before it could say so.
    """
    with open_session(job) as session:
        return Plan(session, output, force=True).run()


def _rotate_block(task: tuple[ArrayJob, Reader, Sink, str], box: Box) -> NonFiniteCounts:
    """Rotate a block on a worker, from store to store."""
    job, reader, sink, name = task
    before = read_part(reader, box)
    after = np.empty_like(before)
    counts = job.rotate(box, before, after)
    sink.write(name, box, after)
    return counts


@contextlib.contextmanager
def _folder_of_run(part: Path) -> Iterator[Path]:
    """Yield a folder whose content is moved to the part at the end.

    Tasks of another run, whose client has died, may still be writing into its own.
    """
    store = part.absolute() / uuid.uuid4().hex
    store.mkdir()
    yield store
    for path in list(store.iterdir()):
        path.rename(part / path.name)
    store.rmdir()


def _absolute(job: Job) -> Job:
    """Return the job as it is understood in another folder."""
    positions = job.positions
    if isinstance(positions, str | os.PathLike):
        positions = Path(positions).absolute()
    return replace(job, input=job.input.absolute(), positions=positions)
