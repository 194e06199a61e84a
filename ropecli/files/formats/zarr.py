"""The format .zarr, version 3: a folder of chunks, one array or a group of arrays by name."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ropecli.files.formats.base import import_library, translate_read_errors
from ropecli.files.formats.stored import check_name
from ropecli.files.formats.zarr_folder import copy_rest, is_name, new_nodes
from ropecli.files.formats.zarr_metadata import METADATA, Node, parsed, read_nodes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from ropecli.files.formats.protocol import Source
    from ropecli.files.formats.stored import Box, Stored

#: Bytes of a chunk: as many as are rotated at a time, few enough for a machine to hold several,
#: and so many that a terabyte is no more files than a folder can well list.
_CHUNK = 1 << 24
_LARGEST_CHUNK = 1 << 28  #: Bytes of one that is made of another format's chunks.
_TORN = "*.partial"  #: Half a chunk, which a process that was killed has left.
_AT_ONCE = 256  #: Chunks that zarr is asked for at once: each takes memory of its own.


class Zarr:
    """As `Format`."""

    suffixes = (".zarr",)
    named = True
    random = True
    folder = True

    def open(self, path: Path) -> ZarrSource:
        """As `Format.open`."""
        import_library("zarr", path, "reading")
        return ZarrSource(path)

    def as_stored(self, array: Stored) -> Stored:
        """As `Format.as_stored`: in C order, in chunks."""
        import_library("zarr", array.path, "writing")
        check_name(array.path, array.name, is_name)
        dtype = array.dtype.newbyteorder("=")
        return replace(array, dtype=dtype, fortran_order=False, chunks=_chunks(array))

    def create(self, part: Path, arrays: Sequence[Stored], source: Source) -> ZarrSink:
        """As `Format.create`: with all metadata of another store byte for byte."""
        sink = self.resume(part, arrays, source)
        sink.begin()
        return sink

    def resume(self, part: Path, arrays: Sequence[Stored], source: Source) -> ZarrSink:
        """As `Format.resume`."""
        return ZarrSink(part, arrays, source)


class ZarrSource:
    """As `Source`."""

    def __init__(self, path: Path) -> None:
        """Read all metadata."""
        self.path = path
        self.nodes = read_nodes(path)
        self.arrays = {
            name: node.stored for name, node in self.nodes.items() if node.stored is not None
        }

    def reader(self, stored: Stored) -> ZarrReader:
        """As `Source.reader`."""
        # A store that is one array has no names in it.
        name = stored.name if stored.name in self.nodes else ""
        return ZarrReader(stored, _opened(self.path, name, self.nodes[name], read_only=True))

    def close(self) -> None:
        """As `Source.close`: nothing is held open."""

    def __enter__(self) -> Self:
        """As `Source.__enter__`."""
        return self

    def __exit__(self, *_: object) -> None:
        """As `Source.__exit__`."""


class ZarrReader:
    """As `Reader`."""

    in_order = False

    def __init__(self, stored: Stored, array: Any) -> None:
        """Read from an array of zarr's."""
        self.stored = stored
        self._array = array

    def read(self, box: Box, out: NDArray[Any]) -> None:
        """As `Reader.read`."""
        from zarr.core.buffer import default_buffer_prototype

        buffer = default_buffer_prototype().nd_buffer
        elements = out.view(_native(self._array))
        with translate_read_errors(self.stored.label):
            for part, within in _parts(box, self._array):
                into = buffer.from_numpy_array(elements[within])
                self._array.get_basic_selection(part, out=into)


class ZarrSink:
    """As `Sink`."""

    def __init__(self, part: Path, arrays: Sequence[Stored], source: Source) -> None:
        """Write to an existing folder."""
        self._part = part
        if isinstance(source, ZarrSource):
            self._nodes = dict(source.nodes)
        else:
            self._nodes = new_nodes(arrays, alone=list(source.arrays) == [""])
        # An array without a name goes by that of its file.
        alone = self._nodes[""].stored is not None
        self._places = {array.name: "" if alone else array.name for array in arrays}

    def begin(self) -> None:
        """Write what says which arrays there are."""
        for name, node in self._nodes.items():
            (self._part / name).mkdir(parents=True, exist_ok=True)
            (self._part / name / METADATA).write_bytes(node.content)

    def writer(self, name: str) -> ZarrWriter:
        """As `Sink.writer`."""
        place = self._places[name]
        return ZarrWriter(_opened(self._part, place, self._nodes[place], read_only=False))

    def finish(self, source: Source, rest: Collection[str]) -> None:
        """As `Sink.finish`: file by file."""
        if isinstance(source, ZarrSource):
            copy_rest(source.path, self._part, self._places.values())
        for place in self._places.values():
            for torn in (self._part / place).rglob(_TORN):
                torn.unlink(missing_ok=True)

    def close(self) -> None:
        """As `Sink.close`: nothing is held open."""


class ZarrWriter:
    """As `Writer`."""

    def __init__(self, array: Any) -> None:
        """Write to an array of zarr's."""
        self._array = array

    def write(self, box: Box, block: NDArray[Any]) -> None:
        """As `Writer.write`."""
        elements = block.view(_native(self._array))
        for part, within in _parts(box, self._array):
            self._array[part] = elements[within]


def _opened(root: Path, name: str, node: Node, *, read_only: bool) -> Any:
    """An array as zarr has it."""
    from zarr import Array
    from zarr.core.array import AsyncArray
    from zarr.storage import StorePath

    from ropecli.files.formats.zarr_guards import GuardedStore, most_bytes

    with translate_read_errors(str(root / name)):
        metadata: Any = node.metadata or parsed(root / name / METADATA, json.loads(node.content))
        # Chunks of fill values need no file. But NaNs count as equal whatever their bits.
        all_chunks = bool(np.isnan(metadata.fill_value))
        store = GuardedStore(root, read_only=read_only)
        itemsize = metadata.data_type.to_native_dtype().itemsize
        store.largest = most_bytes(metadata.chunk_grid.chunk_shape, itemsize)
        inner = AsyncArray(metadata, StorePath(store, name), {"write_empty_chunks": all_chunks})
        return Array(inner)


def _native(array: Any) -> np.dtype[Any]:
    dtype: np.dtype[Any] = array.dtype
    return dtype.newbyteorder("=")


def _parts(box: Box, array: Any) -> Iterator[tuple[Box, Box]]:
    """Cut a part into parts of few chunks: where they are in the array, and where in the part."""
    for part in _cut(box, array.metadata.chunk_grid.chunk_shape):
        yield (
            part,
            tuple(
                slice(inner.start - outer.start, inner.stop - outer.start)
                for inner, outer in zip(part, box, strict=True)
            ),
        )


def _cut(box: Box, chunk: tuple[int, ...]) -> Iterator[Box]:
    pairs = list(zip(box, chunk, strict=True))
    counts = [-(-part.stop // size) - part.start // size for part, size in pairs]
    if math.prod(counts) <= _AT_ONCE:
        yield box
        return
    axis = counts.index(max(counts))
    middle = (box[axis].start // chunk[axis] + counts[axis] // 2) * chunk[axis]
    for half in (slice(box[axis].start, middle), slice(middle, box[axis].stop)):
        yield from _cut((*box[:axis], half, *box[axis + 1 :]), chunk)


def _chunks(array: Stored) -> tuple[int, ...]:
    """Whole vectors, then as much of the axes before as fits, the last first.

    That is one piece of a file in C order, and one block. What an array had for chunks is joined
    to whole vectors. Then only chunks that are files stay whole, however large they are: two
    processes must not write to one at once.
    """
    shape = [max(1, length) for length in array.shape]
    lengths = [1] * len(shape) if array.chunks is None else list(map(min, array.chunks, shape))
    lengths[-1] = shape[-1]
    for axis in range(0 if array.chunk_files else len(shape) - 1):
        times = math.ceil(math.prod(lengths) * array.dtype.itemsize / _LARGEST_CHUNK)
        lengths[axis] = max(1, lengths[axis] // times)
    size = math.prod(lengths) * array.dtype.itemsize
    for axis in reversed(range(len(shape))):
        whole = -(-shape[axis] // lengths[axis])
        room = max(1, min(_CHUNK // size, whole))
        lengths[axis] = min(lengths[axis] * room, shape[axis])
        size *= room
        if room < whole:
            break
    return tuple(lengths)
