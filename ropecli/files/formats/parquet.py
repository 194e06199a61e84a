"""The format .parquet: columns of lists of one length, the vectors."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.errors import FileError
from ropecli.files.formats.base import (
    FileSource,
    closed_on_error,
    import_library,
    translate_read_errors,
    translate_write_errors,
)
from ropecli.files.formats.density import believed
from ropecli.files.formats.flat import FlatWriter
from ropecli.files.formats.parquet_pages import Pages
from ropecli.files.formats.parquet_schema import DTYPES, column_of, options_of
from ropecli.files.formats.spool import Spool
from ropecli.files.formats.stream import StreamReader
from ropecli.regular import open_regular

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from ropecli.files.formats.protocol import Source
    from ropecli.files.formats.stored import Stored

_BUFFER = 1 << 20  #: Bytes of a column that are read at once.
_BATCH = 1 << 22  #: Bytes of rows that are unpacked at once.
#: Bytes of a group of rows, which is in memory while it is written: larger groups are cut.
_GROUP = 1 << 26
_LONGEST_TEXT = 1 << 24  #: Bytes of a string in the metadata, and members of a list there.
_AXES = 2  #: Rows, and the vector in each.
_Group = tuple[int, int, "Iterator[Any] | None"]


class Parquet:
    """As `Format`."""

    suffixes = (".parquet",)
    named = True
    random = False
    folder = False

    def open(self, path: Path) -> ParquetSource:
        """As `Format.open`."""
        import_library("pyarrow", path, "reading", "parquet")
        return ParquetSource(path)

    def as_stored(self, array: Stored) -> Stored:
        """As `Format.as_stored`: a vector a row, little-endian."""
        import_library("pyarrow", array.path, "writing", "parquet")
        dtype = array.dtype.newbyteorder("<")
        if dtype not in map(np.dtype, DTYPES.values()):
            msg = f"cannot write {array.label}: parquet has no {array.described}; allowed are "
            msg += "float64, float32 and float16"
            raise FileError(msg)
        if len(array.shape) != _AXES:
            msg = f"cannot write {array.label}: a column holds a vector a row, got {array.shape}"
            raise FileError(msg)
        return replace(array, dtype=dtype, fortran_order=False, chunks=None)

    def create(self, part: Path, arrays: Sequence[Stored], source: Source) -> ParquetSink:
        """As `Format.create`."""
        rows = {array.shape[0] for array in arrays}
        if len(rows) > 1:
            msg = f"cannot write {arrays[0].path}: its columns must have one length, got {rows}"
            raise FileError(msg)
        return ParquetSink(part, arrays)

    def resume(self, part: Path, arrays: Sequence[Stored], source: Source) -> ParquetSink:
        """As `Format.resume`, which this format does not allow."""
        raise AssertionError


class ParquetSource(FileSource):
    """As `Source`: columns of lists of numbers; all others are only kept."""

    def __init__(self, path: Path) -> None:
        """Open a file, and read its schema."""
        super().__init__(path, open_regular(path, "a .parquet file"))
        self._stream = open(self.fd, "rb", closefd=False)  # noqa: SIM115 - closed with the source
        with closed_on_error(self), translate_read_errors(str(path)):
            self.file = self._opened()
            self.pages = Pages(path, self.fd)
            self.schema = self.file.schema_arrow
            twice = {name for name, times in Counter(self.schema.names).items() if times > 1}
            if twice:
                msg = f"{path} holds {min(twice)!r} twice"
                raise FileError(msg)
            rows, found = self.file.metadata.num_rows, sum(self._rows())
            if rows != found:
                msg = f"{path} says that it has {rows:,} rows; its groups of rows have {found:,}"
                raise FileError(msg)
            columns = [column_of(path, column, rows) for column in self.schema]
        packed = os.fstat(self.fd).st_size
        self.arrays = {c.name: believed(c, packed) for c in columns if c is not None}

    def _opened(self) -> Any:
        from pyarrow.parquet import ParquetFile

        return ParquetFile(
            self._stream,
            buffer_size=_BUFFER,
            pre_buffer=False,
            thrift_string_size_limit=_LONGEST_TEXT,
            thrift_container_size_limit=_LONGEST_TEXT,
        )

    def close(self) -> None:
        """As `Source.close`."""
        self._stream.close()
        super().close()

    def reader(self, stored: Stored) -> StreamReader:
        """As `Source.reader`."""
        return StreamReader(_Elements(self, stored), stored)

    def _rows(self) -> list[int]:
        """Rows of each group."""
        metadata = self.file.metadata
        return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]

    def batches(self, columns: list[str], rows: int, group: int | None = None) -> Iterator[Any]:
        """Some columns, so many rows at a time, of one group of rows or of all."""
        groups = range(self.file.metadata.num_row_groups) if group is None else [group]
        for number in groups:
            self.pages.check(number, columns)
            for batch in self.file.iter_batches(rows, [number], columns, use_threads=False):
                if batch.schema.names != columns:
                    msg = f"{self.path} has columns that can't be told apart, "
                    msg += f"such as {columns[0]!r}"
                    raise FileError(msg)
                yield batch


class _Elements:
    """The elements of a column as a stream."""

    def __init__(self, source: ParquetSource, stored: Stored) -> None:
        rows = max(1, _BATCH // max(1, stored.shape[1] * stored.dtype.itemsize))
        self._batches = source.batches([stored.name], rows)
        self._stored = stored
        self._rest = memoryview(b"")

    def readinto(self, into: memoryview, /) -> int:
        """As `Stream.readinto`."""
        while not self._rest:
            batch = next(self._batches, None)
            if batch is None:
                return 0
            self._rest = self._elements(batch.column(0))
        count = min(len(into), len(self._rest))
        into[:count], self._rest = self._rest[:count], self._rest[count:]
        return count

    def _elements(self, column: Any) -> memoryview:
        values = column.flatten()
        if column.null_count or values.null_count:
            msg = f"{self._stored.label} has nulls; allowed are rows that all hold a vector"
            raise FileError(msg)
        array = values.to_numpy(zero_copy_only=True)
        return np.ascontiguousarray(array, self._stored.dtype).view(np.uint8).data


class ParquetSink:
    """As `Sink`. Arrays wait in temporary files, since a file is written in one go."""

    def __init__(self, part: Path, arrays: Sequence[Stored]) -> None:
        """Begin a file without a name, on the disk of the output."""
        self._part = part
        self._columns = {array.name: _Column(array) for array in arrays}
        self._rows = arrays[0].shape[0]
        self._waiting = Spool(part.parent, ((array, b"") for array in arrays))

    def writer(self, name: str) -> FlatWriter:
        """As `Sink.writer`."""
        return self._waiting.writer(name)

    def finish(self, source: Source, rest: Collection[str]) -> None:
        """As `Sink.finish`: group after group of rows, with the other columns as they were."""
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter

        with translate_read_errors(str(source.path)):
            like = source if isinstance(source, ParquetSource) else None
            schema = self._schema() if like is None else like.schema
            options = {} if like is None else options_of(like.pages)
        begin = 0
        with (
            translate_write_errors(self._part),
            self._part.open("wb") as stream,
            ParquetWriter(stream, schema, **options) as writer,
        ):
            for rows, step, others in self._groups(like):
                batches = list(self._batches(schema, begin, rows, step, others))
                writer.write_table(pa.Table.from_batches(batches, schema), rows)
                begin += rows

    def _schema(self) -> Any:
        import pyarrow as pa

        return pa.schema([(name, column.type) for name, column in self._columns.items()])

    def _groups(self, like: ParquetSource | None) -> Iterator[_Group]:
        """How many rows are written together, how many at a time, and their other columns."""
        row = max(1, sum(column.row for column in self._columns.values()))
        if like is None:
            size = max(1, _GROUP // row)
            for begin in range(0, self._rows, size):
                yield min(size, self._rows - begin), max(1, _BATCH // row), None
            return
        rest = [name for name in like.schema.names if name not in self._columns]
        for group in range(like.file.metadata.num_row_groups):
            facts = like.file.metadata.row_group(group)
            size = max(1, facts.num_rows // max(1, -(-facts.total_byte_size // _GROUP)))
            step = max(1, min(size, _BATCH // row))
            size -= size % step  # so that the other columns are cut where groups are
            others = _read(like, rest, step, group) if rest else None
            for begin in range(0, facts.num_rows, size):
                yield min(size, facts.num_rows - begin), step, others

    def _batches(
        self, schema: Any, begin: int, rows: int, step: int, others: Iterator[Any] | None
    ) -> Iterator[Any]:
        """The rows of a group, few at a time: packing takes as much memory again for each few."""
        import pyarrow as pa

        for start in range(begin, begin + rows, step):
            count = min(step, begin + rows - start)
            found: dict[str, Any] = {}
            if others is not None:
                batch = next(others)
                found = dict(zip(batch.schema.names, batch.columns, strict=True))
            for name, column in self._columns.items():
                data = self._waiting.elements(name, start * column.row, count * column.row)
                found[name] = column.packed(data, count)
            yield pa.record_batch([found[name] for name in schema.names], schema=schema)

    def close(self) -> None:
        """As `Sink.close`."""
        self._waiting.close()


def _read(source: ParquetSource, names: list[str], rows: int, group: int) -> Iterator[Any]:
    """Columns of a group, so many rows at a time, whose damage is not that of what is written."""
    batches = source.batches(names, rows, group)
    with translate_read_errors(str(source.path)):
        yield from batches


class _Column:
    """How a column is packed."""

    def __init__(self, array: Stored) -> None:
        import pyarrow as pa

        self.type = pa.list_(pa.from_numpy_dtype(array.dtype), array.shape[1])
        self.row = array.shape[1] * array.dtype.itemsize

    def packed(self, elements: bytes, rows: int) -> Any:
        """So many rows as Arrow has them."""
        import pyarrow as pa

        buffers = [None, pa.py_buffer(elements)]
        values = pa.Array.from_buffers(self.type.value_type, rows * self.type.list_size, buffers)
        return pa.FixedSizeListArray.from_arrays(values, type=self.type)
