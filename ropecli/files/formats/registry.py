"""Formats by the suffix of a file name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from numpy.lib.format import MAGIC_PREFIX

from ropecli.errors import FileError
from ropecli.files.formats.base import Format, Source
from ropecli.files.formats.hdf5 import HDF5
from ropecli.files.formats.npy import NPY
from ropecli.files.formats.npz import NPZ
from ropecli.files.formats.parquet import PARQUET
from ropecli.files.formats.pipe import StdinSource, is_pipe
from ropecli.files.formats.raw import RAW, raw
from ropecli.files.formats.safetensors import SAFETENSORS
from ropecli.files.formats.torch import TORCH
from ropecli.files.formats.zarr import ZARR
from ropecli.plugins import plugins

FORMATS = (NPY, NPZ, SAFETENSORS, RAW, ZARR, HDF5, PARQUET, TORCH)


class UnknownFormatError(FileError):
    """A file name whose suffix belongs to no format."""


def format_of(path: str | os.PathLike[str], *, action: str = "read") -> Format:
    """Return the format of a file by the suffix of its name."""
    suffix = Path(path).suffix.lower()
    for known in FORMATS:
        if suffix in known.suffixes:
            return known
    plugin = plugins("format").get(suffix.removeprefix("."))
    if plugin is not None:
        format_class: Format = plugin.load()
        return format_class
    listed = ", ".join(suffix for known in FORMATS for suffix in known.suffixes)
    raise UnknownFormatError(
        f"cannot {action} {os.fspath(path)}; expected a name that ends in {listed}"
    )


def open_source(path: str | os.PathLike[str]) -> Source:
    """Open a file of arrays in the format of its name; a .npy file whatever its name."""
    file = Path(path)
    try:
        return format_of(file).open(file)
    except UnknownFormatError:
        if _may_be_npy(file):
            return NPY.open(file)
        raise


def _may_be_npy(path: Path) -> bool:
    """Return whether a file begins as .npy files do, or has no beginning that can be read."""
    try:
        if not path.is_file():
            return True  # so that the message is that of a .npy file
        with path.open("rb") as stream:
            return stream.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return True


def open_input(
    path: str | os.PathLike[str], shape: Sequence[int] | None = None, dtype: str | None = None
) -> Source:
    """Open the input of a rotation."""
    suffix = Path(path).suffix.lower()
    if shape is None:
        if suffix in RAW.suffixes:
            raise FileError(
                f"{path} has no header; shape and dtype are required", "pass `shape` and `dtype`"
            )
        return StdinSource() if is_pipe(path) else open_source(path)
    headed = [known for known in FORMATS if known is not RAW]
    if is_pipe(path) or any(suffix in known.suffixes for known in headed):
        what = "stdin is a .npy file" if is_pipe(path) else f"{os.fspath(path)} is a {suffix} file"
        raise FileError(f"{what}, which contains its shape", "omit `shape`")
    return raw(shape, dtype).open(Path(path))


def output_format(
    path: str | os.PathLike[str],
    input: str | os.PathLike[str],
    shape: Sequence[int] | None = None,
    dtype: str | None = None,
) -> Format:
    """Return the format of an output by its suffix; raw if it has the suffix of a raw input."""
    if is_pipe(path):
        return NPY
    suffixes = {Path(input).suffix.lower(), *RAW.suffixes}
    if shape is not None and Path(path).suffix.lower() in suffixes:
        return raw(shape, dtype)
    return format_of(path, action="write")
