"""The folder of a zarr store: what belongs in it, and copying what does."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ropecli.errors import FileError
from ropecli.files.formats.json_text import load_json
from ropecli.files.formats.stored import short
from ropecli.files.formats.zarr_metadata import METADATA, Node, new_array, new_group, read_text
from ropecli.regular import open_regular

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ropecli.files.formats.stored import Stored

_CHUNK_NAME = re.compile(r"(c|\d+)([./]\d+)*")  #: The path of a chunk in the folder of an array.


def is_name(name: str) -> bool:
    """Whether an array of a store can have a name: a path within it.

    Raises:
        UnicodeEncodeError: It can't.
    """
    return b"\0" not in os.fsencode(name) and not any(
        part in {"", ".", "..", METADATA} or part.startswith("__") for part in name.split("/")
    )


def new_nodes(arrays: Sequence[Stored], *, alone: bool) -> dict[str, Node]:
    """The nodes of a new store.

    Args:
        arrays: By names that are paths.
        alone: Whether there is one, which is the store itself.

    Raises:
        FileError: An array whose path leads through another.
    """
    if alone:
        return {"": Node(content=new_array(arrays[0]), stored=arrays[0])}
    nodes = {array.name: Node(content=new_array(array), stored=array) for array in arrays}
    for array in arrays:
        for folder in Path(array.name).parents:
            name = "" if folder == Path() else str(folder)
            if nodes.setdefault(name, Node(content=new_group())).stored is not None:
                above = short(repr(name))
                msg = f"cannot write {array.label}: {above} is an array, and holds no others"
                raise FileError(msg)
    return nodes


def copy_rest(root: Path, target: Path, without: Collection[str]) -> None:
    """Copy all files of a store but those of some arrays.

    Args:
        root: The store.
        target: The folder to copy into.
        without: Paths of the arrays within the store.

    Raises:
        FileError: A file that can't be read, or is none.
        OSError: One that can't be written.
    """
    left_out = {root / name for name in without}
    for below, folders, files in os.walk(root, onerror=_refuse):
        folder = Path(below)
        if folder in left_out:
            folders.clear()
            continue
        inside = target / folder.relative_to(root)
        inside.mkdir(parents=True, exist_ok=True)
        link = next((name for name in folders if (folder / name).is_symlink()), None)
        if link is not None:
            raise _is_link(folder / link)
        for name in files:
            _copy(folder / name, inside / name)


def stranger(folder: Path) -> str | None:
    """Something in a folder that is no part of a store, if there is any."""
    return next(strangers(folder, ""), None)


def strangers(folder: Path, name: str) -> Iterator[str]:
    """What is no part of a store in a folder of it, by the names below the store's own."""
    kind = _kind(folder / name)
    with os.scandir(folder / name) as entries:
        for entry in entries:
            below = f"{name}/{entry.name}" if name else entry.name
            if kind == "group" and entry.is_dir(follow_symlinks=False):
                yield from strangers(folder, below)
            elif kind == "array" and entry.is_dir(follow_symlinks=False):
                yield from _other_than_chunks(folder, name, below)
            elif kind and entry.is_file(follow_symlinks=False):
                is_chunk = kind == "array" and _CHUNK_NAME.fullmatch(entry.name)
                if not (is_chunk or entry.name == METADATA):
                    yield below
            else:
                yield below


def _other_than_chunks(folder: Path, name: str, below: str) -> Iterator[str]:
    for place, folders, files in os.walk(folder / below):
        for entry in [*files, *(f for f in folders if Path(place, f).is_symlink())]:
            path = Path(place, entry)
            is_file = path.is_file() and not path.is_symlink()
            if not (is_file and _CHUNK_NAME.fullmatch(str(path.relative_to(folder / name)))):
                yield str(path.relative_to(folder))


def _kind(folder: Path) -> str:
    """What a folder says that it is: "array", "group", or nothing."""
    try:
        kind = load_json(read_text(folder / METADATA))["node_type"]
    except (FileError, ValueError, KeyError, TypeError):
        return ""
    return kind if kind in {"array", "group"} else ""


def _copy(path: Path, target: Path) -> None:
    if path.is_symlink():
        raise _is_link(path)
    with os.fdopen(open_regular(path), "rb") as read, target.open("wb") as written:
        shutil.copyfileobj(read, written)


def _refuse(error: OSError) -> None:
    msg = f"cannot read {error.filename}: {error.strerror}"
    raise FileError(msg) from None


def _is_link(path: Path) -> FileError:
    return FileError(f"{path} is a link; allowed in a store are files and folders")
