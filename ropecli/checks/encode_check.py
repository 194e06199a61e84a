"""Comparison of a file with the exact rotation of another, in float64 and not by the kernels."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import dtype_name
from ropecli.checks.accuracy import phase_tolerance, table_roundings
from ropecli.checks.truth import Truth, rotated
from ropecli.errors import FileError
from ropecli.files.array_axes import blocks
from ropecli.files.arrays import list_names, read_part
from ropecli.files.formats.base import Source
from ropecli.files.formats.raw import RAW, raw
from ropecli.files.formats.registry import open_source
from ropecli.files.formats.stored import Box, Stored, box_shape, check_rotatable
from ropecli.files.opened import OpenInput, RotatedArray, open_rotation
from ropecli.reference.float64 import angles
from ropecli.results import Result
from ropecli.rotary import Rotary
from ropecli.rotary.pairs import as_complex
from ropecli.units import SINGLE, UNIT

Progress = Callable[[int, int], None]
Compare = Callable[[Progress | None], "Compared"]

COMPARED_BYTES = 2 << 20  #: Judged at a time: some twenty times as much is in memory.
#: Roundings of a pair's length: cos and sin, two products and a sum, each on both coordinates
#: (3 sqrt 2), a factor, and one more where the result is rounded again to a smaller dtype.
_ROUNDINGS = 8


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """A vector that is not what it should be."""

    index: tuple[int, ...]  #: In the array, on all axes but the last.
    head: int  #: Along the last axis.
    position: tuple[float, ...]  #: A coordinate for each axis of the encoding.
    coordinate: int  #: The one of the head that is furthest off.
    expected: float
    got: float


@dataclass(frozen=True, kw_only=True)
class Compared(Result, view="encode_check"):
    """Comparison of a file with the rotation of another."""

    input: Path  #: The file before the rotation.
    output: Path  #: The file that was judged.
    tensors: tuple[str, ...]  #: Empty names where the files have none.
    shape: tuple[int, ...]  #: Of the first.
    dtype: str  #: Of the first.
    passed: bool  #: Whether it is the rotation.
    identical: bool  #: Whether the bits are those that `encode` writes.
    vectors: int  #: One for each head of each row.
    differing: int  #: How many of them differ.
    first: Wrong | None  #: The first that differs, in the order of the file.
    first_tensor: str  #: The tensor that it is in.
    max_phase_error: float  #: The largest of the pairs that agree, in radians.
    max_length_error: float  #: The largest of the pairs that agree, relative.
    bytes: int  #: Size of the input's elements.
    seconds: float  #: Time it took.


def compare_file(
    input: str | os.PathLike[str],
    output: str | os.PathLike[str],
    rope: Rotary,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> Compared:
    """Compare a file with the rotation of another (RoFormer Eq. 34).

    The truth is computed in float64 by complex multiplication (Eq. 12), not by the kernels that
    `encode_file` uses. A pair agrees if its length is right to 8 roundings of the dtype and its
    direction to that and the error of float32 tables (float64 tables for float64 data), as
    `ropecli.checks.accuracy` derives it. Coordinates in no pair must be equal.

    Args:
        input: The file before the rotation.
        output: The file that is judged, in any format; one without a header has the input's shape
            and dtype.
        rope: The encoding.
        progress: Called after each block with the bytes that are done and those in all.
        **options: As in `encode_file`: tensor, positions, offset, sequence_axis, inverse, dtype
            and shape.

    Raises:
        ArgumentError: A value that does not fit the arrays.
        FileError: A file that cannot be read, or arrays of another shape or dtype.
    """
    with (
        open_rotation(input, rope, **options) as opened,
        comparison(opened, Path(output)) as compare,
    ):
        return compare(progress)


@contextlib.contextmanager
def comparison(opened: OpenInput, output: Path) -> Iterator[Compare]:
    """Open the file that is judged; yield the function that compares it with an open input."""
    with _open_output(output, opened) as other:
        dtype, alone = opened.options.get("dtype"), len(opened.arrays) == 1
        found = [_counterpart(array.stored, other, dtype, alone=alone) for array in opened.arrays]
        yield partial(_compare, opened, other, list(zip(opened.arrays, found, strict=True)))


def _compare(
    opened: OpenInput,
    other: Source,
    pairs: list[tuple[RotatedArray, Stored]],
    progress: Progress | None = None,
) -> Compared:
    total = sum(stored.nbytes for _, stored in pairs)
    done, parts = 0, list[tuple[str, _Part]]()
    for array, stored in pairs:
        before, after = opened.source.reader(array.stored), other.reader(stored)
        for box in blocks(array.axes, COMPARED_BYTES):
            x = read_part(before, box)
            parts.append((array.stored.name, _judge(array, box, x, read_part(after, box))))
            done += x.nbytes
            if progress is not None:
                progress(done, total)
    judged, of_first = [part for _, part in parts], opened.axes.stored
    tensor, first = next(((name, part.first) for name, part in parts if part.first), ("", None))
    differing = sum(part.differing for part in judged)
    return Compared(
        input=opened.source.path,
        output=other.path,
        tensors=tuple(array.stored.name for array in opened.arrays),
        shape=of_first.shape,
        dtype=str(dtype_name(of_first.dtype)),
        passed=not differing,
        identical=all(part.identical for part in judged),
        vectors=sum(part.vectors for part in judged),
        differing=differing,
        first=first,
        first_tensor=tensor,
        max_phase_error=max((part.phase for part in judged), default=0.0),
        max_length_error=max((part.length for part in judged), default=0.0),
        bytes=total,
        seconds=time.perf_counter() - opened.begin,
    )


def _open_output(output: Path, opened: OpenInput) -> Source:
    """Open the file that is judged; one without a header as `encode` writes it."""
    array, options = opened.axes.stored, opened.options
    suffix = output.suffix.lower()
    shape = options.get("shape")
    if shape is not None and suffix in {opened.input.suffix.lower(), *RAW.suffixes}:
        return raw(shape, options.get("dtype")).open(output)
    if suffix in RAW.suffixes:
        return raw(array.shape, dtype_name(array.dtype)).open(output)
    return open_source(output)


def _counterpart(stored: Stored, other: Source, dtype: str | None, *, alone: bool) -> Stored:
    """Return the array that should be the rotation of another: that of its name."""
    found = other.arrays.get(stored.name)
    if found is None and alone and len(other.arrays) == 1:
        (found,) = other.arrays.values()
    if found is None:
        raise _missing(stored, other)
    if found.dtype == np.dtype("V2"):
        is_bfloat16 = dtype_name(stored.dtype) == "bfloat16"
        found = check_rotatable(found, "bfloat16" if is_bfloat16 else dtype)
    mine = f"{stored.shape} {dtype_name(stored.dtype)}"
    its = f"{found.shape} {found.described}"
    if its != mine:
        raise FileError(f"{found.label} is {its}, expected {mine} as in {stored.label}")
    return found


def _missing(stored: Stored, other: Source) -> FileError:
    """Return the error of a file that holds nothing that could be the rotation of an array."""
    names = list(other.arrays)
    if not names:
        return FileError(f"{other.path} holds no tensor")
    if names == [""]:
        return FileError(
            f"{other.path} holds one array without a name, got several tensors of {stored.path}",
            "name one of them with `tensor`",
        )
    if not stored.name:
        return FileError(
            f"{other.path} holds {len(names)} tensors, {list_names(names)}; expected one, "
            f"since {stored.path} has no name that says which"
        )
    return FileError(
        f"{other.path} holds no tensor {stored.name!r}, which should be the rotation of "
        f"{stored.label}; expected one of {list_names(names)}"
    )


class _Part(NamedTuple):
    """Findings in a part of an array."""

    vectors: int
    differing: int
    identical: bool  #: Whether the bits are the kernels'.
    phase: float  #: The largest error of the pairs that agree, in radians.
    length: float  #: The same of their lengths, relative.
    first: Wrong | None


def _judge(array: RotatedArray, box: Box, before: NDArray[Any], after: NDArray[Any]) -> _Part:
    """Compare a part with what it should be: pairs as complex numbers (Eq. 12)."""
    kernels = np.empty_like(before)
    array.rotate(box, before, kernels)
    identical = bool((_bits(kernels) == _bits(after)).all())
    shape = array.kernel_shape(box_shape(box))
    before, after = before.reshape(shape), after.reshape(shape)
    limits = ml_dtypes.finfo(before.dtype)  # type: ignore[no-untyped-call]
    unit = UNIT[str(dtype_name(before.dtype))]
    rounding, least = _ROUNDINGS * unit, 8 * float(limits.smallest_subnormal)
    written = array.rope.pairs_in if array.inverse else array.rope.pairs_out
    wrong = _bits(after) != _bits(before)  # of the coordinates in no pair
    with np.errstate(all="ignore"):  # far from 0, what grows leaves every range
        truth = _truth(array, box, before, unit, least)
        expected, got = as_complex(truth.rows, written), as_complex(after, written)
        size = np.abs(expected)
        stretched = np.abs(np.abs(got) - size)
        near = np.abs(got - expected) <= truth.tolerance[..., written[:, 0]]
        right = near & (stretched <= rounding * size + least)
        # A pair too large for the dtype, or not finite before, is not finite afterwards.
        lost = ~(size <= float(limits.max))
        right |= lost & ~np.isfinite(got)
        counted = right & ~lost & (size > least / rounding)
        phase = np.abs(np.angle(got[counted] * expected[counted].conj()))
        relative = stretched[counted] / size[counted]
    for column in written.T:
        wrong[..., column] = ~right
    vectors = wrong.any(axis=-1)
    return _Part(
        vectors=vectors.size,
        differing=int(np.count_nonzero(vectors)),
        identical=identical,
        phase=float(phase.max(initial=0.0)),
        length=float(relative.max(initial=0.0)),
        first=_describe(array, box, truth.rows, after, wrong) if vectors.any() else None,
    )


def _truth(array: RotatedArray, box: Box, before: NDArray[Any], unit: float, least: float) -> Truth:
    """Return the rotation of a part, with its tolerance."""
    rope, sign = array.rope, -1 if array.inverse else 1
    read, written = (rope.pairs_in, rope.pairs_out)[::sign]
    factor: Any = 1 / rope.attention_factor if array.inverse else rope.attention_factor
    positions = array.positions.of(box)
    inv_freq = rope.diagonal_inv_freq if positions.ndim == 2 else rope.inv_freq
    angle = sign * angles(positions, inv_freq, direction=rope.direction)[:, None, :, None, :]
    if rope.grows:
        exponent = sign * angles(positions, np.array(rope.growth))
        factor = factor * np.exp(exponent)[:, None, :, None, :]
    # Tables in float32, or float64 for float64 data.
    m = positions[..., None] if positions.ndim == 2 else positions
    phase = phase_tolerance(m, inv_freq, table_roundings(rope), unit=min(unit, SINGLE))
    return rotated(
        before.astype(np.float64),
        np.cos(angle),
        np.sin(angle),
        pairs_in=read,
        pairs_out=written,
        factor=factor,
        relative=_ROUNDINGS * unit,
        phase=phase[:, None, :, None, :],
        least=least,
    )


def _describe(array: RotatedArray, box: Box, *rows: NDArray[Any]) -> Wrong:
    """Describe the first wrong vector, of the rows expected and got, and of what is wrong."""
    vector = int(rows[-1].any(axis=-1).argmax())
    expected, got, off = (row.reshape(-1, row.shape[-1])[vector] for row in rows)
    got = got.astype(np.float64)
    *places, width = box_shape(box)
    axes, positions = array.axes, array.positions
    *index, head = map(int, np.unravel_index(vector, (*places, width // axes.head_dim)))
    place = 0 if axes.sequence_axis is None else index[axes.sequence_axis]
    position = positions.of(box)[index[0] if positions.per_batch else 0, place]
    with np.errstate(all="ignore"):
        apart = np.where(off, np.abs(got - expected), -1.0)
    coordinate = int(np.nan_to_num(apart, nan=np.inf).argmax())
    return Wrong(
        index=tuple(i + part.start for i, part in zip(index, box, strict=False)),
        head=head + box[-1].start // axes.head_dim,
        position=tuple(map(float, np.atleast_1d(position))),
        coordinate=coordinate,
        expected=float(expected[coordinate]),
        got=float(got[coordinate]),
    )


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    return array.view(f"u{array.dtype.itemsize}")
