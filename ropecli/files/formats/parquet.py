"""The format .parquet: columns of fixed-size lists, the vectors, among any other columns."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ropecli.errors import FileError
from ropecli.files.formats.base import FileSource, Format, Source, closed_on_error
from ropecli.files.formats.library import (
    check_expansion,
    import_library,
    translate_read_errors,
    translate_write_errors,
)
from ropecli.files.formats.spool import Spool
from ropecli.files.formats.stored import Stored, in_c_order, unreadable
from ropecli.files.formats.stream import PieceStream, StreamReader

_DTYPES: dict[str, np.dtype[Any]] = {
    "halffloat": np.dtype("<f2"),
    "float": np.dtype("<f4"),
    "double": np.dtype("<f8"),
}
_BUFFER = 1 << 20  #: Bytes of a column chunk that are read at once.
_BATCH = 1 << 22  #: Bytes of rows that are decoded at once.
_GROUP = 1 << 26  #: Bytes of a row group in memory while it is written; larger ones are split.


class _Source(FileSource):
    not_copied = "compression and encodings of the columns"

    def __init__(self, path: Path) -> None:
        super().__init__(path, "a .parquet file")
        with closed_on_error(self), translate_read_errors(str(path)):
            import_library("pyarrow", path, "reading")
            from pyarrow.parquet import ParquetFile

            self.file = ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)
            self.schema = self.file.schema_arrow
            self.metadata = self.file.metadata
            self.groups = range(self.metadata.num_row_groups)
            self._check()
            rows, size = self.metadata.num_rows, os.fstat(self.fd).st_size
            columns = [_describe(path, column, rows) for column in self.schema]
            self.arrays = {c.name: check_expansion(c, size) for c in columns if c is not None}

    def _check(self) -> None:
        twice = [name for name, times in Counter(self.schema.names).items() if times > 1]
        if twice:
            raise FileError(f"{self.path} holds {min(twice)!r} twice")
        rows = self.metadata.num_rows
        in_groups = sum(self.metadata.row_group(group).num_rows for group in self.groups)
        if rows != in_groups or rows < 0:
            raise FileError(
                f"{self.path} claims {rows:,} rows, but its row groups have {in_groups:,}"
            )

    def reader(self, stored: Stored) -> StreamReader:
        return StreamReader(PieceStream(self._elements(stored)), stored)

    def _elements(self, stored: Stored) -> Iterator[memoryview]:
        rows = max(1, _BATCH // max(1, stored.shape[1] * stored.dtype.itemsize))
        nulls = f"{stored.label} has nulls; expected a vector in each row"
        try:
            for batch in self.batches([stored.name], rows):
                column = batch.column(0)
                values = column.flatten()
                if column.null_count or values.null_count:
                    raise FileError(nulls)
                if len(values):
                    array = np.ascontiguousarray(values.to_numpy(), stored.dtype)
                    yield array.view(np.uint8).data
        except FileError as error:
            # A null is a list of length 0 to older releases of pyarrow, which then cannot read it.
            if "lists to be of size" in error.problem:
                raise FileError(nulls) from None
            raise

    def batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        """Yield some columns, at most `rows` rows at a time."""
        with translate_read_errors(str(self.path)):
            for batch in self.file.iter_batches(rows, columns=columns, use_threads=False):
                if batch.schema.names != columns:
                    raise FileError(f"{self.path} has ambiguous columns, such as {columns[0]!r}")
                yield batch

    def close(self) -> None:
        super().close()
        if hasattr(self, "file"):
            self.file.close()


class _Sink(Spool):
    def finish(self) -> None:
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter

        like = self.source if isinstance(self.source, _Source) else None
        schema = self._schema() if like is None else like.schema
        begin = 0
        with (
            translate_write_errors(self.output),
            self.part.open("wb") as stream,
            ParquetWriter(stream, schema) as writer,
        ):
            for rows, others in self._pieces(like):
                columns = others | {name: self._column(name, begin, rows) for name in self.stored}
                arrays = [columns[name] for name in schema.names]
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema), rows)
                begin += rows
        if like is not None and begin != like.metadata.num_rows:
            raise FileError(f"{like.path} ends after {begin:,} rows of {like.metadata.num_rows:,}")

    def _schema(self) -> Any:
        import pyarrow as pa

        return pa.schema([(name, _type(array)) for name, array in self.stored.items()])

    def _pieces(self, like: _Source | None) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the rows of each row group to be written, and the columns that are kept."""
        rows = next(iter(self.stored.values())).shape[0]
        size = sum(array.nbytes for array in self.stored.values())
        rest: list[str] = []
        if like is not None:
            size = max(size, sum(like.metadata.row_group(n).total_byte_size for n in like.groups))
            rest = [name for name in like.schema.names if name not in self.stored]
        most = max(1, rows * _GROUP // max(_GROUP, size))
        if like is not None and rest:
            for batch in like.batches(rest, most):
                yield batch.num_rows, dict(zip(rest, batch.columns, strict=True))
        else:
            for begin in range(0, rows, most):
                yield min(most, rows - begin), {}

    def _column(self, name: str, begin: int, rows: int) -> Any:
        """Return some rows as Arrow stores them."""
        import pyarrow as pa

        array, kind = self.stored[name], _type(self.stored[name])
        vector = array.shape[1] * array.dtype.itemsize
        data = self.elements(name, begin * vector, rows * vector)
        buffers = [None, pa.py_buffer(data)]
        values = pa.Array.from_buffers(kind.value_type, rows * array.shape[1], buffers)
        return pa.FixedSizeListArray.from_arrays(values, type=kind)


def _type(array: Stored) -> Any:
    import pyarrow as pa

    return pa.list_(pa.from_numpy_dtype(array.dtype), array.shape[1])


def _describe(path: Path, column: Any, rows: int) -> Stored | None:
    """Return the description of a column of vectors; None for any other column."""
    from pyarrow import types

    kind = column.type
    if types.is_fixed_size_list(kind):
        dtype, shape = _DTYPES.get(str(kind.value_type)), (rows, int(kind.list_size))
        if dtype is None:
            return unreadable(path, column.name, f"lists of {kind.value_type}", shape)
        return Stored(path=path, name=column.name, shape=shape, dtype=dtype)
    if (types.is_list(kind) or types.is_large_list(kind)) and types.is_floating(kind.value_type):
        why = f"lists of any length ({kind}), not of one (fixed_size_list)"
        return unreadable(path, column.name, why, (rows,))
    return None


def _as_stored(array: Stored) -> Stored:
    """Return the array little-endian, in C order; it must have a vector per row."""
    import_library("pyarrow", array.path, "writing")
    stored = in_c_order(array, "<")
    if stored.dtype not in _DTYPES.values():
        raise FileError(
            f"cannot write {array.label}: parquet has no {array.described}; "
            "expected float64, float32 or float16"
        )
    if len(array.shape) != 2:
        raise FileError(
            f"cannot write {array.label}: a column holds a vector per row, got {array.shape}"
        )
    return stored


def _create(part: Path, arrays: Sequence[Stored], source: Source) -> _Sink:
    """Begin a file: the columns of another Parquet file, with other vectors in some."""
    rows = {array.shape[0] for array in arrays}
    if len(rows) > 1:
        raise FileError(f"cannot write {arrays[0].path}: columns must have one length, got {rows}")
    return _Sink(part, arrays, source)


PARQUET = Format(
    suffixes=(".parquet",), named=True, open=_Source, create=_create, as_stored=_as_stored
)
