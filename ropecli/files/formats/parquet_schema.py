"""What a Parquet file says of its columns, and how they are packed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.errors import FileError
from ropecli.files.formats.stored import Stored

if TYPE_CHECKING:
    from pathlib import Path

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


def options_of(file: Any) -> dict[str, Any]:
    """How to write as another file was written."""
    metadata = file.metadata
    if not metadata.num_row_groups:
        return {}
    group = metadata.row_group(0)
    columns = [group.column(index) for index in range(metadata.num_columns)]
    packed = {c.path_in_schema: c.compression.replace("UNCOMPRESSED", "NONE") for c in columns}
    return {
        "compression": packed,
        "use_dictionary": [c.path_in_schema for c in columns if c.has_dictionary_page],
        "use_byte_stream_split": [
            c.path_in_schema for c in columns if "BYTE_STREAM_SPLIT" in c.encodings
        ],
        "write_statistics": [c.path_in_schema for c in columns if c.is_stats_set],
    }
