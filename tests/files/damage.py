"""Damaged copies of files, and reading them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from files.hostile import ROPE
from files.optional_formats import read_hdf5, read_zarr
from helpers import assert_same_bits
from numpy.typing import NDArray

from ropecli import encode_file, rotate
from ropecli.errors import FileError
from ropecli.files.arrays import read_whole
from ropecli.files.formats.registry import open_source


def damaged(data: bytes, random: np.random.Generator) -> bytes:
    """Bytes with one to four changes: of a byte, of eight, or cut short."""
    changed = bytearray(data)
    for _ in range(random.integers(1, 5)):
        place = int(random.integers(len(changed)))
        kind = random.integers(8)
        if kind < 5:
            changed[place] = int(random.integers(256))
        elif kind < 7:
            changed[place : place + 8] = random.bytes(8)
        else:
            del changed[max(1, place) :]
    return bytes(changed)


def damage_file(path: Path, copy: Path, seed: int) -> Path:
    """A damaged copy of a file, or of a folder in which one file is damaged."""
    random = np.random.default_rng(seed)
    if path.is_dir():
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(path, copy)
        files = sorted(Path(below, name) for below, _, names in os.walk(copy) for name in names)
        # Half of them in what describes the arrays: there is little of it.
        metadata = [file for file in files if file.name == "zarr.json"]
        chosen = metadata if random.integers(2) else files
        target = chosen[int(random.integers(len(chosen)))]
        target.write_bytes(damaged(target.read_bytes(), random))
    else:
        copy.write_bytes(damaged(path.read_bytes(), random))
    return copy


def is_rotated(path: Path) -> bool:
    """Rotate "q", assert that its library sees the result, and return whether it was readable."""
    __tracebackhide__ = True
    read = read_zarr if path.is_dir() else read_hdf5
    output = path.with_name("y" + path.suffix)
    try:
        encode_file(path, output, ROPE, tensor="q", force=True)
    except FileError as error:
        message = str(error)
        assert message.isprintable(), f"refused in other than one line: {message!r}"
        return False
    before, after = (native(read(each, "q")) for each in (path, output))
    heads = before.reshape(*before.shape[:-1], -1, 8).swapaxes(-3, -2)
    expected = rotate(heads, ROPE).swapaxes(-3, -2).reshape(before.shape)
    assert_same_bits(str(path), got=after, expected=expected)
    return True


def native(array: NDArray[Any]) -> NDArray[Any]:
    """The array in native byte order."""
    return array.astype(array.dtype.newbyteorder("="))


def is_read(path: Path) -> bool:
    """Return whether all arrays of a file can be read, and assert one line for what can't."""
    __tracebackhide__ = True
    try:
        with open_source(path) as source:
            for stored in source.arrays.values():
                if not stored.unreadable and stored.nbytes < 1 << 27:
                    read_whole(source.reader(stored))
    except FileError as error:
        message = str(error)
        assert message.isprintable(), f"refused in other than one line: {message!r}"
        return False
    return True
