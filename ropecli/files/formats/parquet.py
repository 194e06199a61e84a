"""The format .parquet: columns of fixed-size lists, the vectors, among any other columns."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import is_shape
from ropecli.errors import FileError
from ropecli.files.formats.base import Format, Source, closed_on_error
from ropecli.files.formats.library import import_library, translate_read_errors
from ropecli.files.formats.packed import Arrays, PackedSink, PackedSource
from ropecli.files.formats.stored import Stored, in_c_order, short, unreadable
from ropecli.regular import open_regular

_DTYPES: dict[str, np.dtype[Any]] = {
    "halffloat": np.dtype("<f2"),
    "float": np.dtype("<f4"),
    "double": np.dtype("<f8"),
}


class _Source(PackedSource):
    not_copied = "compression and encodings of the columns"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream = os.fdopen(open_regular(path, "a .parquet file"), "rb")
        with closed_on_error(self), translate_read_errors(str(path)):
            import_library("pyarrow", path, "reading")
            from pyarrow.parquet import ParquetFile

            self.file = ParquetFile(self._stream)
            schema, rows = self.file.schema_arrow, self.file.metadata.num_rows
            twice = [name for name, times in Counter(schema.names).items() if times > 1]
            if twice:
                raise FileError(f"{path} holds {min(twice)!r} twice")
            if rows < 0:
                raise FileError(f"{path} claims {rows:,} rows")
            columns = [_describe(path, column, rows) for column in schema]
            self.arrays = {column.name: column for column in columns if column is not None}
            kinds = ", ".join(f"{short(field.name)} {field.type}" for field in schema)
            self.instead = f"; expected a column of vectors, got {kinds[:200]}"

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        metadata = self.file.metadata
        groups = range(metadata.num_row_groups)
        return sum(metadata.row_group(group).total_byte_size for group in groups)

    def load(self, name: str) -> NDArray[Any]:
        """Return the vectors of a column."""
        nulls = f"{self.path}: {name} has nulls; expected a vector in each row"
        try:
            table = self.file.read([name], use_threads=False)
        except ValueError as error:
            # A null is a list of length 0 to older releases of pyarrow, which then cannot read it.
            if "lists to be of size" in str(error):
                raise FileError(nulls) from None
            raise
        if table.schema.names != [name]:
            raise FileError(f"{self.path} has ambiguous columns, such as {name!r}")
        column = table.column(0)
        vectors = column.type.list_size
        array: NDArray[Any] = np.empty((len(column), vectors), self.arrays[name].dtype)
        row = 0
        for chunk in column.chunks:
            values = chunk.flatten()
            if chunk.null_count or values.null_count:
                raise FileError(nulls)
            array[row : row + len(chunk)] = values.to_numpy().reshape(-1, vectors)
            row += len(chunk)
        return array

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def _write(part: Path, arrays: Arrays, source: Source) -> None:
    """Write columns, among those of the Parquet file that they come from."""
    import pyarrow as pa
    from pyarrow.parquet import write_table

    columns = {name: _column(array) for name, array in arrays.items()}
    if isinstance(source, _Source):
        with translate_read_errors(str(source.path)):
            table = source.file.read(use_threads=False)
        for name, column in columns.items():
            index = table.schema.names.index(name)
            table = table.set_column(index, table.schema.field(index), column)
    else:
        table = pa.table(columns)
    with part.open("wb") as stream:
        write_table(table, stream)


def _column(array: NDArray[Any]) -> Any:
    """Return rows as Arrow stores them."""
    import pyarrow as pa

    kind = pa.list_(pa.from_numpy_dtype(array.dtype), array.shape[1])
    return pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), type=kind)


def _describe(path: Path, column: Any, rows: int) -> Stored | None:
    """Return the description of a column of vectors; None for any other column."""
    from pyarrow import types

    kind = column.type
    if types.is_fixed_size_list(kind):
        dtype, shape = _DTYPES.get(str(kind.value_type)), (rows, int(kind.list_size))
        if dtype is None or not is_shape(shape):
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


def _create(part: Path, arrays: Sequence[Stored], source: Source) -> PackedSink:
    rows = {array.shape[0] for array in arrays}
    if len(rows) > 1:
        raise FileError(f"cannot write {arrays[0].path}: columns must have one length, got {rows}")
    copied = source.nbytes if isinstance(source, _Source) else 0
    return PackedSink(part, arrays, source, write=_write, more=copied)


PARQUET = Format(
    suffixes=(".parquet",),
    named=True,
    packed=True,
    open=_Source,
    create=_create,
    as_stored=_as_stored,
)
