"""Blocks of .npy files, read into memory and written in kind.

Files are read and written, not mapped: mapped pages would count towards the resident set, and a
file that shrinks would end the process.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np

from ropecli.errors import FileError
from ropecli.files.npy_header import NpyFile, of_numbers, read_header, to_rotate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

SUFFIX = ".npy"


def open_npy(path: str | os.PathLike[str], dtype: str | None = None) -> NpyReader:
    """Open a .npy file whose elements can be rotated.

    Args:
        path: The file.
        dtype: "bfloat16" where 2-byte void elements are that; else only held against the header.

    Raises:
        ArgumentError: Not the name of a dtype that can be rotated.
        FileError: A file that can't be read, or elements that can't be rotated.
    """
    return NpyReader(Path(path), lambda file: to_rotate(file, dtype))


def open_numbers(path: str | os.PathLike[str]) -> NpyReader:
    """Open a .npy file of integers or floats.

    Raises:
        FileError: A file that can't be read, or other elements.
    """
    return NpyReader(Path(path), of_numbers)


class NpyReader:
    """An open .npy file. Several threads may read at once."""

    file: NpyFile  #: What the header says.

    def __init__(self, path: Path, accept: Callable[[NpyFile], NpyFile]) -> None:
        """Open a file that `accept` takes."""
        self._fd = _open(path)
        try:
            self.file = accept(read_header(path, self._fd))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def __enter__(self) -> Self:
        """Close the file at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def read_run(self, first: int, out: NDArray[Any]) -> None:
        """Fill `out` with elements that follow one another in the file.

        Args:
            first: The first of them.
            out: C-contiguous, of the stored dtype.

        Raises:
            FileError: The file ends too soon, or can't be read.
        """
        rest = out.reshape(-1).view(np.uint8).data
        place = len(self.file.header) + first * self.file.dtype.itemsize
        while rest:
            try:
                count = os.preadv(self._fd, [rest], place)
            except OSError as error:
                msg = f"cannot read {self.file.path}: {error.strerror}"
                raise FileError(msg) from None
            if not count:
                msg = f"{self.file.path} became shorter while it was being read"
                raise FileError(msg)
            rest, place = rest[count:], place + count

    def read_tile(self, rows: range, columns: range, out: NDArray[Any]) -> None:
        """Fill `out` with a part of the matrix that has the last axis along its columns.

        Args:
            rows: Of the matrix.
            columns: Of the matrix.
            out: (rows, columns), C-contiguous, in native byte order.

        Raises:
            FileError: The file ends too soon, or can't be read.
        """
        dtype = self.file.dtype
        if self.file.fortran_order:
            stored = np.empty((len(columns), len(rows)), dtype)
        else:
            stored = out.view(dtype)
        for first, run in _runs(self.file, rows, columns, stored):
            self.read_run(first, run)
        if self.file.fortran_order:
            out[...] = stored.T
        elif not dtype.isnative:
            out.byteswap(inplace=True)


class NpyWriter:
    """Writes an array of the same shape, dtype, byte order and memory order as another file's."""

    def __init__(self, stream: BinaryIO, like: NpyFile) -> None:
        """Write the other file's header, byte for byte."""
        self._stream = stream
        self._like = like
        stream.write(like.header)

    def write_tile(self, rows: range, columns: range, tile: NDArray[Any]) -> None:
        """Write a part of the matrix, as `NpyReader.read_tile` gives it; the tile is used up."""
        dtype = self._like.dtype
        if self._like.fortran_order:
            stored = np.empty((len(columns), len(rows)), dtype)
            stored[...] = tile.T
        else:
            stored = tile
            if not dtype.isnative:
                stored.byteswap(inplace=True)
        for first, run in _runs(self._like, rows, columns, stored):
            self._stream.seek(len(self._like.header) + first * dtype.itemsize)
            self._stream.write(run.view(np.uint8).data)


def _runs(
    file: NpyFile, rows: range, columns: range, stored: NDArray[Any]
) -> Iterator[tuple[int, NDArray[Any]]]:
    """The parts of a tile that lie in one piece in the file, and the first element of each.

    In C order the file is the matrix, row after row; in Fortran order, column after column.
    """
    height, width = file.matrix_shape
    if file.fortran_order:
        rows, columns, width = columns, rows, height
    if len(columns) == width:
        yield rows.start * width, stored.reshape(-1)
        return
    for row, run in zip(rows, stored, strict=True):
        yield row * width + columns.start, run


def _open(path: Path) -> int:
    try:
        # Asked before opening: a pipe would wait for its other end.
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        msg = f"cannot read {path}: {getattr(error, 'strerror', error)}"
        raise FileError(msg) from None
    what = "a folder" if stat.S_ISDIR(mode) else "no regular file"
    msg = f"{path} is {what}; allowed is a .npy file"
    raise FileError(msg)
