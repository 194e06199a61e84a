"""Rotate the arrays of one file into another."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ropecli.arrays import dtype_name
from ropecli.errors import FileError
from ropecli.files.array_axes import axis_notes
from ropecli.files.arrays import read_part
from ropecli.files.cluster import Cluster, check_shareable, connect, rotate_on
from ropecli.files.encoded import Encoded, EncodedArray
from ropecli.files.formats.base import Format, Sink, Source
from ropecli.files.formats.pipe import as_path, is_pipe
from ropecli.files.formats.registry import output_format
from ropecli.files.formats.stored import Stored
from ropecli.files.formats.zarr import ZARR
from ropecli.files.opened import (
    NonFiniteCounts,
    OpenInput,
    RotatedArray,
    RotationOptions,
    open_rotation,
)
from ropecli.files.output import check_output, open_output
from ropecli.rotary import Rotary

Progress = Callable[[int, int], None]
Start = Callable[[OpenInput], None]


def encode_file(
    input: str | os.PathLike[str],
    output: str | os.PathLike[str],
    rope: Rotary,
    *,
    tensor: str | None = None,
    positions: Any = None,
    offset: int = 0,
    sequence_axis: int | None = None,
    inverse: bool = False,
    dtype: str | None = None,
    shape: Sequence[int] | None = None,
    force: bool = False,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> Encoded:
    """Rotate every vector of a file by its position (RoFormer Eq. 34).

    Files in .npy, .safetensors, .zarr and raw files may be larger than memory; what a library packs
    (.npz, .h5, .parquet, .pt) may take half of it. The output has the input's shape, dtype and, in
    the same format, byte order, memory order and all else that the format's library can copy; it
    appears whole or not at all. The bits are those of `ropecli.rotate`.

    Args:
        input: float64, float32, float16 or bfloat16; C or Fortran order; the last axis is a
            multiple of the rope's head dim and holds one or several heads side by side; "-" for a
            .npy file through standard input.
        output: A new file, in a format of its own if its name says so; "-" for standard output,
            which gets a .npy file, whole or not at all.
        rope: The encoding.
        tensor: Arrays to rotate, where the file holds several: a name, or a pattern
            such as `"*.q"`.
        positions: (sequence,) or (batch, sequence), batch being the first axis, integers or
            floats; with one more axis, last, where the rope has several axes; an array, or the
            path of a file of one. 0 ... sequence-1 by default, on every axis.
        offset: Added to every position.
        sequence_axis: Axis of the positions; the axis before the last by default.
        inverse: Apply the inverse rotation: divide by the attention factor and turn the other way.
        dtype: "bfloat16" to take 2-byte void elements for that; with a shape, the dtype of the
            elements, such as "float32", or ">float32" if they are big-endian.
        shape: Shape of a file without a header, such as a .bin.
        force: Replace the output if it exists.
        scheduler: Address of a Dask scheduler, such as "tcp://127.0.0.1:8786", whose workers
            rotate the file. They need input and output under the same absolute paths.
        progress: Called after each block with the bytes that are done and those in all.

    Raises:
        ArgumentError: A value that does not fit the array, or is out of range.
        ArgumentTypeError: An argument of the wrong type.
        BrokenPipeError: Standard output is no longer read.
        FileError: A file that cannot be read or written, or holds something else.
    """
    options = RotationOptions(
        tensor=tensor,
        positions=positions,
        offset=offset,
        sequence_axis=sequence_axis,
        inverse=inverse,
        dtype=dtype,
        shape=shape,
    )
    with open_rotation(input, rope, **options) as opened:
        return write_rotated(opened, output, force=force, scheduler=scheduler, progress=progress)


def write_rotated(
    opened: OpenInput,
    output: str | os.PathLike[str],
    *,
    force: bool = False,
    scheduler: str | None = None,
    sources: Sequence[Path] = (),
    start: Start | None = None,
    progress: Progress | None = None,
) -> Encoded:
    """Rotate the arrays of an open input into another file, block by block, as `encode_file` does.

    The output must not be one of `sources`, other files that are read. `start` is called once
    nothing speaks against the output, before it is written.
    """
    format, arrays = plan_output(opened, output, force=force, scheduler=scheduler, sources=sources)
    if start is not None:
        start(opened)
    counts, done = [NonFiniteCounts() for _ in arrays], 0
    total = sum(array.nbytes for array in arrays)
    with contextlib.ExitStack() as stack:
        rotate, cluster = _rotate_here, None
        if scheduler is not None:
            cluster = stack.enter_context(connect(scheduler))
            if not (is_copy(opened, format) and format is ZARR):
                return _encode_on_worker(cluster, opened, Path(output), progress)
            rotate = partial(rotate_on, cluster)
        part = stack.enter_context(open_output(output, force=force))
        if cluster is not None:
            part = stack.enter_context(_folder_of_run(part))
        sink = stack.enter_context(closing(format.create(part, arrays, opened.source)))
        for number, (array, stored) in enumerate(zip(opened.arrays, arrays, strict=True)):
            with closing(rotate(array, stored, opened.source, sink)) as blocks:
                for size, found in blocks:
                    counts[number] += found
                    done += size
                    if progress is not None:
                        progress(done, total)
        sink.finish()
    return _result(opened, Path(output), format, counts)


def _rotate_here(
    array: RotatedArray, stored: Stored, source: Source, sink: Sink
) -> Generator[tuple[int, NonFiniteCounts], None, None]:
    """Read, rotate and write an array block by block; yield the bytes and the counts of each."""
    reader = source.reader(array.stored)
    for box in array.blocks(stored.chunks):
        before = read_part(reader, box)
        after = np.empty_like(before)
        counts = array.rotate(box, before, after)
        sink.write(stored.name, box, after)
        yield before.nbytes, counts


def plan_output(
    opened: OpenInput,
    output: str | os.PathLike[str],
    *,
    force: bool = False,
    scheduler: str | None = None,
    sources: Sequence[Path] = (),
) -> tuple[Format, list[Stored]]:
    """Return the format and the arrays of an output, or refuse what cannot be written."""
    positions = opened.options.get("positions")
    if scheduler is not None:
        check_shareable(opened.input, output, positions, scheduler)
    of_positions = [Path(positions)] if isinstance(positions, str | os.PathLike) else []
    planned = output_arrays(opened, output)
    check_output(output, force=force, sources=[as_path(opened.input), *of_positions, *sources])
    return planned


def output_arrays(opened: OpenInput, output: str | os.PathLike[str]) -> tuple[Format, list[Stored]]:
    """Return the format and the arrays of an output, or refuse what it cannot hold."""
    format = _format_of(opened, output)
    count = len(opened.arrays)
    if count > 1 and not format.named:
        raise FileError(
            f"cannot write {output}: it holds one tensor, got {count}; "
            "expected a format of many, such as .safetensors"
        )

    def as_stored(stored: Stored) -> Stored:
        # One without a name is named after its file.
        name = stored.name or ("" if is_copy(opened, format) else stored.path.stem)
        return format.as_stored(
            replace(stored, path=Path(output), name=name if format.named else "")
        )

    arrays = [as_stored(array.stored) for array in opened.arrays]
    if len({array.name for array in arrays}) < count:
        raise FileError(f"cannot write {output}: two of its tensors would have one name")
    return format, arrays


def is_copy(opened: OpenInput, format: Format) -> bool:
    """Return whether an output of a format has everything else of the input, too."""
    return format.named and opened.source.path.suffix.lower() in format.suffixes


def copy_notes(opened: OpenInput, output: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return a note on what of the input cannot be copied into an output."""
    lost = opened.source.not_copied
    copied = bool(lost) and is_copy(opened, _format_of(opened, output))
    return (f"{lost} of {opened.source.path} cannot be copied",) if copied else ()


def _format_of(opened: OpenInput, output: str | os.PathLike[str]) -> Format:
    options = opened.options
    return output_format(output, opened.input, options.get("shape"), options.get("dtype"))


def encode_on(
    cluster: Cluster, files: Sequence[tuple[OpenInput, Path]]
) -> Iterator[tuple[int, Encoded | Exception]]:
    """Encode each of several files on one worker; yield results by number, as they come."""
    calls, paths = [], []
    for opened, output in files:
        options = opened.options.copy()
        positions = options.get("positions")
        if isinstance(positions, str | os.PathLike):
            options["positions"] = Path(positions).absolute()
        calls.append({**options, "rope": opened.rope})
        paths.append((opened.input.absolute(), output.absolute()))
    labels = [str(opened.input) for opened, _ in files]
    for number, results in cluster.map(_encode_task, calls, paths, labels):
        opened, output = files[number]  # with the paths as they were given
        failed = isinstance(results, Exception)
        yield (
            number,
            results if failed else replace(results, input=opened.source.path, output=output),
        )


def _encode_task(options: dict[str, Any], paths: tuple[Path, Path]) -> Encoded:
    """Encode a whole file on a worker.

    The client has refused outputs that exist. One that is here now was written by a worker that
    died before it could say so.
    """
    return encode_file(*paths, force=True, **options)


def _encode_on_worker(
    cluster: Cluster, opened: OpenInput, output: Path, progress: Progress | None
) -> Encoded:
    ((_, result),) = encode_on(cluster, [(opened, output)])
    if isinstance(result, Exception):
        raise result
    if progress is not None:
        progress(result.bytes, result.bytes)
    return result


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


def _result(
    opened: OpenInput, output: Path, format: Format, counts: Sequence[NonFiniteCounts]
) -> Encoded:
    given = opened.options.get("sequence_axis") is not None
    arrays = tuple(
        EncodedArray(
            name=array.stored.name,
            shape=array.stored.shape,
            dtype=str(dtype_name(array.stored.dtype)),
            sequence_axis=array.axes.sequence_axis,
            heads=array.axes.heads,
            head_dim=array.axes.head_dim,
            positions=array.positions.ends,
            furthest=array.positions.furthest,
            bytes=array.stored.nbytes,
            nonfinite=found.nonfinite,
            overflowed=found.overflowed,
            notes=axis_notes(array.axes, axis_given=given, dim_given=True),
        )
        for array, found in zip(opened.arrays, counts, strict=True)
    )
    first = arrays[0]
    notes = chain(*(array.notes for array in arrays), copy_notes(opened, output))
    copied = is_copy(opened, format)
    return Encoded(
        input=opened.source.path,
        output=output,
        shape=first.shape,
        dtype=first.dtype,
        layout=opened.rope.layout,
        sequence_axis=first.sequence_axis,
        heads=first.heads,
        head_dim=first.head_dim,
        positions=first.positions,
        bytes=sum(array.bytes for array in arrays),
        seconds=time.perf_counter() - opened.begin,
        nonfinite=sum(array.nonfinite for array in arrays),
        overflowed=sum(array.overflowed for array in arrays),
        notes=tuple(dict.fromkeys(notes)),
        arrays=arrays,
        kept=opened.others if copied else (),
        left_out=() if copied else opened.others,
    )


def default_output(input: str | os.PathLike[str]) -> Path:
    """Return the output of an input: input.rope.npy for input.npy, and - for -."""
    path = Path(input)
    if is_pipe(path):
        return path
    if not path.name:
        raise FileError(
            f"cannot name an output next to {path}; expected a file, or a name for the output"
        )
    return path.with_name(f"{path.stem}.rope{path.suffix}")
