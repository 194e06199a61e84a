"""Arrays of files that are small enough to be read whole."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES, as_sequences
from ropecli.errors import ArgumentError, FileError
from ropecli.files.array_axes import Axes, understand_axes
from ropecli.files.arrays import choose, open_array, read_part, read_whole
from ropecli.files.formats.registry import open_source
from ropecli.files.formats.stored import Stored, check_numeric, check_rotatable, is_readable
from ropecli.names import one_of

WEIGHTS = (".npz", ".safetensors")  #: Suffixes of files of named arrays.


def read_tensor(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    dtype: str | None = None,
    booleans: bool = False,
) -> NDArray[Any]:
    """Read one array: integers, float64, float32, float16 or bfloat16, in native byte order.

    A mask may have booleans, where they are allowed.
    """
    if dtype is not None:
        one_of("dtype", dtype, DTYPES)

    def accept(stored: Stored) -> Stored:
        if booleans and stored.dtype.kind == "b" and not stored.unreadable:
            return stored
        void = stored.dtype == np.dtype("V2")
        return (
            check_rotatable(stored, dtype) if void or dtype is not None else check_numeric(stored)
        )

    with open_array(path, name, accept=accept) as reader:
        return read_whole(reader)


def read_sequences(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    head_dim: int | None = None,
    sequence_axis: int | None = None,
    dtype: str | None = None,
) -> tuple[NDArray[Any], Axes]:
    """Read a tensor of several positions, with its axes."""
    array = read_tensor(path, name, dtype=dtype)
    stored = Stored(path=Path(path), shape=array.shape, dtype=array.dtype)
    if array.ndim < 2:
        raise FileError(
            f"{stored.label} has shape {stored.shape}; "
            "expected two axes or more, the last of them along the vectors"
        )
    return array, understand_axes(stored, head_dim=head_dim, sequence_axis=sequence_axis)


def read_layers(
    path: str | os.PathLike[str],
    pattern: str | None = None,
    *,
    head_dim: int | None = None,
    sequence_axis: int | None = None,
) -> NDArray[Any]:
    """Read one tensor as (..., sequence, head_dim), or several of one shape as (layers, ...)."""
    with open_source(path) as source:
        names: list[str | None] = [*choose(source, pattern)]
    if len(names) == 1:
        names = [pattern if names == [""] else names[0]]
    names.sort(key=lambda name: [int(digits) for digits in re.findall(r"\d+", name or "")])

    def read(name: str | None) -> NDArray[Any]:
        array, axes = read_sequences(path, name, head_dim=head_dim, sequence_axis=sequence_axis)
        assert axes.sequence_axis is not None
        return as_sequences(array, axes.sequence_axis, axes.head_dim)

    first = read(names[0])
    if len(names) == 1:
        return first
    layers = np.empty((len(names), *first.shape), first.dtype)
    layers[0] = first
    for index, name in enumerate(names[1:], 1):
        found = read(name)
        if found.shape != first.shape:
            raise FileError(f"{name} of {path} must have shape {first.shape}, got {found.shape}")
        layers[index] = found
    return layers


@dataclass(frozen=True, kw_only=True, eq=False)
class Vector:
    """A vector, and its place in its file if it was not typed."""

    values: NDArray[np.float64]  #: (dim,).
    path: Path | None = None  #: The file.
    rows: int | None = None  #: Rows in the file; None for a single vector.
    row: int | None = None  #: Row of this vector; None for a single vector.

    @property
    def notes(self) -> tuple[str, ...]:
        """A note on the row, where the file has others."""
        if self.rows is None or self.rows == 1:
            return ()
        return (f"{self.path}: row {self.row} of {self.rows:,} taken",)


def load_vector(path: Path, row: int | None = None) -> Vector:
    """Read a vector (dim,), or one row of an array (..., dim), the first by default."""
    with open_array(path, accept=check_numeric) as reader:
        shape = reader.stored.shape
        if not shape or not math.prod(shape):
            raise FileError(
                f"{path} has shape {shape}; expected a vector, or a sequence of vectors"
            )
        rows = math.prod(shape[:-1])
        if len(shape) == 1 and row is not None:
            raise ArgumentError(f"{path} holds one vector and no rows, got row {row}")
        index = 0 if row is None else row
        if not -rows <= index < rows:
            raise ArgumentError(
                f"{path} has rows 0 to {rows - 1}, or -{rows} to -1, got row {index}"
            )
        index %= rows
        start = np.unravel_index(index, shape[:-1])
        box = (*(slice(int(i), int(i) + 1) for i in start), slice(0, shape[-1]))
        values = read_part(reader, box).reshape(-1)
    single = len(shape) == 1
    return Vector(
        values=values.astype(np.float64),
        path=path,
        rows=None if single else rows,
        row=None if single else index,
    )


def load_tokens(path: Path) -> NDArray[np.float64]:
    """Read a sequence of tokens, (tokens, model_dim)."""
    with open_array(path, accept=check_numeric) as reader:
        shape = reader.stored.shape
        if len(shape) != 2 or not math.prod(shape):
            raise FileError(f"{path} has shape {shape}; expected (tokens, model dim)")
        tokens = read_whole(reader).astype(np.float64)
    bad = (~np.isfinite(tokens)).any(axis=1)
    if bad.any():
        raise FileError(f"{path} must be finite, and is not in row {int(bad.argmax())}")
    return tokens


def load_weights(path: Path) -> dict[str, NDArray[np.float64]]:
    """Read all arrays of a file by name, as float64."""
    if path.suffix.lower() not in WEIGHTS:
        raise FileError(
            f"weights must be in a file that ends in {', '.join(WEIGHTS)}, got {path.name!r}"
        )
    weights = {}
    with open_source(path) as source:
        for name, stored in source.arrays.items():
            if not is_readable(stored):
                raise FileError(f"{stored.label} must be floats, got {stored.described}")
            weights[name] = read_whole(source.reader(stored)).astype(np.float64)
    return weights
