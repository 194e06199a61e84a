"""Which format a file has, by its name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from numpy.lib.format import MAGIC_PREFIX

from ropecli.errors import FileError
from ropecli.files.formats.hdf5 import Hdf5
from ropecli.files.formats.npy import Npy
from ropecli.files.formats.npz import Npz
from ropecli.files.formats.parquet import Parquet
from ropecli.files.formats.pipe import Pipe, is_pipe
from ropecli.files.formats.raw import Raw
from ropecli.files.formats.safetensors import Safetensors
from ropecli.files.formats.torch import Torch
from ropecli.files.formats.zarr import Zarr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ropecli.files.formats.protocol import Format, Source

FORMATS: tuple[Format, ...] = (
    Npy(),
    Npz(),
    Safetensors(),
    Raw(),
    Zarr(),
    Hdf5(),
    Parquet(),
    Torch(),
)
_PIPE = Pipe()


class UnknownFormatError(FileError):
    """A name that stands for no format."""


def format_of(path: str | os.PathLike[str], *, action: str = "read") -> Format:
    """The format that a name's suffix stands for.

    Args:
        path: The name of a file.
        action: What is to be done with it, for messages.

    Raises:
        FileError: No format has this suffix.
    """
    suffix = Path(path).suffix.lower()
    for known in FORMATS:
        if suffix in known.suffixes:
            return known
    listed = ", ".join(suffix for known in FORMATS for suffix in known.suffixes)
    msg = f"cannot {action} {os.fspath(path)}: allowed is a name that ends in {listed}"
    raise UnknownFormatError(msg)


def open_source(path: str | os.PathLike[str]) -> Source:
    """Open a file of arrays in the format of its name; a .npy file whatever its name.

    Raises:
        FileError: A name that stands for no format, or a file that can't be read.
    """
    file = Path(path)
    try:
        return format_of(file).open(file)
    except UnknownFormatError:
        if _may_be_npy(file):
            return Npy().open(file)
        raise


def _may_be_npy(path: Path) -> bool:
    """Whether a file begins as .npy files do, or is none that has a beginning."""
    try:
        if not path.is_file():
            return True  # which Npy says best
        with path.open("rb") as stream:
            return stream.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return True


def open_input(
    path: str | os.PathLike[str], shape: Sequence[int] | None = None, dtype: str | None = None
) -> Source:
    """Open what is to be rotated.

    Args:
        path: A file of arrays, or - for standard input.
        shape: Of the one array, where the file has no header.
        dtype: Of its elements, as in `Raw`, beside a shape.

    Raises:
        ArgumentError: A shape or dtype that is not allowed.
        ArgumentTypeError: A shape that is no sequence of integers.
        FileError: A shape for a file that has a header, or a file that can't be read.
    """
    if shape is None:
        return _PIPE.open(Path(path)) if is_pipe(path) else open_source(path)
    suffix = Path(path).suffix.lower()
    headed = [known for known in FORMATS if not isinstance(known, Raw)]
    if is_pipe(path) or any(suffix in known.suffixes for known in headed):
        what = "stdin is a .npy file" if is_pipe(path) else f"{os.fspath(path)} is a {suffix} file"
        msg = f"{what}, which says its shape itself; leave the shape out"
        raise FileError(msg)
    return Raw(shape, dtype).open(Path(path))


def output_format(
    path: str | os.PathLike[str],
    input: str | os.PathLike[str],
    shape: Sequence[int] | None = None,
    dtype: str | None = None,
) -> Format:
    """The format of an output: that of its name, and raw where it is named as a raw input is.

    Args:
        path: A file, or - for standard output.
        input: What is read.
        shape: As in `open_input`.
        dtype: As in `open_input`.

    Raises:
        ArgumentError: As `open_input`.
        ArgumentTypeError: As `open_input`.
        FileError: A name that stands for no format.
    """
    if is_pipe(path):
        return _PIPE
    raw = {Path(input).suffix.lower(), *Raw.suffixes}
    if shape is not None and Path(path).suffix.lower() in raw:
        return Raw(shape, dtype)
    return format_of(path, action="write")
