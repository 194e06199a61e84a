"""What the zarr.json of a node says: an array or a group of a store."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import BFLOAT16, MOST_AXES, is_shape
from ropecli.errors import FileError
from ropecli.files.formats.density import believed, enough, unpacked_bytes
from ropecli.files.formats.json_text import load_json
from ropecli.files.formats.stored import Stored
from ropecli.regular import open_regular, opened, read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zarr.core.metadata import ArrayV3Metadata

METADATA = "zarr.json"  #: The file in each folder that says what the folder is.
_LONGEST = 1 << 24  #: Bytes of it that are still read.
#: The attribute of an array of 16-bit integers that are bfloat16, for which zarr has no dtype.
MARK = {"dtype": "bfloat16"}
_NO_DTYPE = "bfloat16"  #: What other writers put for a dtype of it.


@dataclass(frozen=True, kw_only=True)
class Node:
    """A folder of a store."""

    content: bytes  #: Its zarr.json.
    stored: Stored | None = None  #: None of a group.
    metadata: ArrayV3Metadata | None = None  #: None where the array can't be read.


def read_nodes(root: Path) -> dict[str, Node]:
    """All groups and arrays by their paths in a store; the root's is empty.

    Raises:
        FileError: No store of version 3, or one that is damaged.
    """
    if not os.path.isdir(root):  # noqa: PTH112 - which never raises
        os.close(open_regular(root, "a folder"))
        msg = f"{root} is a file; allowed is the folder of a zarr store"
        raise FileError(msg)
    if not _is_there(root / METADATA):
        old = any(_is_there(root / name) for name in (".zarray", ".zgroup", ".zmetadata"))
        found = "is a store of zarr's version 2" if old else f"holds no {METADATA}"
        msg = f"{root} {found}; allowed is a store of version 3"
        raise FileError(msg)
    nodes, waiting = {}, [""]
    while waiting:
        name = waiting.pop()
        nodes[name] = node = _read(root, name)
        if node.stored is None:
            waiting += sorted(_members(root, name), reverse=True)
    return nodes


def new_array(array: Stored) -> bytes:
    """The zarr.json of an array."""
    assert array.chunks is not None
    is_bfloat16 = array.dtype == BFLOAT16
    fields = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(array.shape),
        "data_type": "uint16" if is_bfloat16 else array.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(array.chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0 if is_bfloat16 else 0.0,
        # Not compressed: of floats that nearly fill their range, a tenth would be won.
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": MARK if is_bfloat16 else {},
    }
    return json.dumps(fields, indent=2).encode()


def new_group() -> bytes:
    """The zarr.json of a group."""
    fields = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    return json.dumps(fields, indent=2).encode()


def parsed(path: Path, fields: dict[str, Any]) -> ArrayV3Metadata:
    """What zarr makes of the metadata of an array.

    Raises:
        FileError: It is none that can be read.
    """
    from zarr.core.metadata import ArrayV3Metadata

    from ropecli.files.formats.zarr_guards import guarded

    try:
        chunks = tuple(fields["chunk_grid"]["configuration"]["chunk_shape"])
        if not (is_shape(fields["shape"]) and is_shape(chunks)):
            msg = f"a shape that no array has; allowed are at most {MOST_AXES} lengths of 0 or more"
            raise ValueError(msg)
        if min(chunks, default=1) < 1 or fields.get("storage_transformers"):
            msg = "chunks without elements, or transformed in storage; allowed are others"
            raise ValueError(msg)
        known = {**fields, "codecs": guarded(fields["codecs"], chunks)}
        if known["data_type"] == _NO_DTYPE:
            known |= {"data_type": "uint16", "fill_value": _bits(known["fill_value"])}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that an element has no dtype in the specification
            return ArrayV3Metadata.from_dict(known)
    # What damage was seen to raise has no common base below Exception.
    except Exception as error:
        said = str(error).partition("\n")[0] or type(error).__name__
        if isinstance(error, KeyError):
            said = f"no {said}"
        msg = f"{path} can't be understood: {said}"
        raise FileError(msg) from None


def _read(root: Path, name: str) -> Node:
    from ropecli.files.formats.zarr_guards import check_no_link

    path = root / name / METADATA
    check_no_link(root, f"{name}/{METADATA}")
    content = read_text(path)
    try:
        # An array has fourteen lists and objects in 500 bytes or more.
        fields = load_json(content, sparsest=20)
    except ValueError as error:
        msg = f"{path} is no JSON: {error}"
        raise FileError(msg) from None
    kind = fields.get("node_type") if isinstance(fields, dict) else None
    if kind not in {"array", "group"} or fields.get("zarr_format") != 3:
        msg = f"{path} is no array and no group of zarr's version 3"
        raise FileError(msg)
    if kind == "group":
        return Node(content=content)
    try:
        metadata = parsed(path, fields)
        stored = _stored(root, name, fields, metadata)
    except FileError as error:
        if not name:
            raise
        # One array that can't be read does not keep the others of its group from being read.
        what = f"what can't be read: {error}"
        stored = Stored(path=root, name=name, shape=(), dtype=np.dtype(np.uint8), unreadable=what)
        return Node(content=content, stored=stored)
    return Node(content=content, stored=stored, metadata=metadata)


def _stored(root: Path, name: str, fields: dict[str, Any], metadata: ArrayV3Metadata) -> Stored:
    dtype = np.dtype(metadata.data_type.to_native_dtype()).newbyteorder("=")
    chunks = tuple(fields["chunk_grid"]["configuration"]["chunk_shape"])
    marked = metadata.attributes.get("dtype") == MARK["dtype"]
    integers = dtype == np.dtype(np.uint16)
    if integers and (marked or fields["data_type"] == _NO_DTYPE):
        dtype = BFLOAT16
    stored = Stored(
        path=root,
        name=name,
        shape=tuple(metadata.shape),
        dtype=dtype,
        chunks=chunks,
        chunk_files=True,
        may_be_bfloat16=integers,
    )
    return believed(stored, _size_of(root / name, unpacked_bytes(stored)))


def _size_of(folder: Path, unpacked: int) -> int:
    """Bytes of the files in a folder, or as many as are enough to unpack to so many."""
    found = 0
    for below, _, files in os.walk(folder):
        for name in files:
            if enough(found) >= unpacked:
                return found
            found += os.lstat(os.path.join(below, name)).st_size  # noqa: PTH118 - millions of files
    return found


def read_text(path: Path) -> bytes:
    """The zarr.json of a folder.

    Raises:
        FileError: It can't be read, or is too long.
    """
    with opened(path, f"the {METADATA} of a zarr store") as fd:
        size = os.fstat(fd).st_size
        if size > _LONGEST:
            msg = f"{path} has {size:,} bytes; allowed are {_LONGEST:,}"
            raise FileError(msg)
        return read_bytes(path, fd, 0, size)


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise FileError(msg) from None
    return True


def _members(root: Path, name: str) -> Iterator[str]:
    """Folders of a group that are groups or arrays themselves."""
    try:
        with os.scandir(root / name) as entries:
            for entry in entries:
                below = f"{name}/{entry.name}" if name else entry.name
                if entry.is_dir() and _is_there(root / below / METADATA):
                    yield below
    except OSError as error:
        msg = f"cannot read {root / name}: {error.strerror}"
        raise FileError(msg) from None


def _bits(fill: Any) -> int:
    """A fill value of bfloat16 as the integer that has its bits."""
    if isinstance(fill, str) and fill.startswith("0x"):
        return int(fill, 16)
    return int(np.array(float(fill), BFLOAT16).view(np.uint16))
