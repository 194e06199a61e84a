"""What a Parquet file says of its columns, and how they are packed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.errors import FileError
from ropecli.files.formats.stored import Stored

if TYPE_CHECKING:
    from pathlib import Path

    from ropecli.files.formats.parquet_pages import Pages

#: Ways of packing, by their numbers in a file, as the library that writes them calls them. It
#: writes the old LZ4, 5, as the new one.
_CODECS = {0: "NONE", 1: "SNAPPY", 2: "GZIP", 4: "BROTLI", 5: "LZ4", 6: "ZSTD", 7: "LZ4"}
_BYTE_STREAM_SPLIT = 9  #: Among the encodings.
DTYPES = {"halffloat": "<f2", "float": "<f4", "double": "<f8"}  #: By what Arrow calls them.


def column_of(path: Path, column: Any, rows: int) -> Stored | None:
    """A column of vectors; None of any other."""
    import pyarrow.types as kinds

    kind = column.type
    if kinds.is_fixed_size_list(kind):
        dtype = DTYPES.get(str(kind.value_type))
        what = "" if dtype else f"lists of {kind.value_type}"
        shape = (rows, int(kind.list_size))
        if min(shape) < 0:
            msg = f"{path}: {column.name} can't have shape {shape}"
            raise FileError(msg)
        return Stored(
            path=path,
            name=column.name,
            shape=shape,
            dtype=np.dtype(dtype or np.uint8),
            unreadable=what,
        )
    if (kinds.is_list(kind) or kinds.is_large_list(kind)) and kinds.is_floating(kind.value_type):
        return Stored(
            path=path,
            name=column.name,
            shape=(rows,),
            dtype=np.dtype(np.uint8),
            unreadable=f"lists of any length ({kind}), not of one (fixed_size_list)",
        )
    return None


def options_of(pages: Pages) -> dict[str, Any]:
    """How to write as another file was written.

    Raises:
        ValueError: It is damaged, or packed in a way that nothing writes any more.
        FileError: It can't be read.
    """
    if not pages.groups:
        return {}
    columns = pages.groups[0]
    unknown = next((column for column in columns if column.codec not in _CODECS), None)
    if unknown is not None:
        msg = f"{unknown.path} is packed in a way ({unknown.codec}) that can't be written"
        raise ValueError(msg)
    return {
        "compression": {column.path: _CODECS[column.codec] for column in columns},
        "use_dictionary": [column.path for column in columns if column.has_dictionary],
        "use_byte_stream_split": [
            column.path for column in columns if _BYTE_STREAM_SPLIT in column.encodings
        ],
        "write_statistics": [column.path for column in columns if column.has_statistics],
    }
