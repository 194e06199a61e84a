"""Rotate arrays in memory (RoFormer Eq. 34)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import as_array, as_positions, dtype_name, native
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.kernels import rotation
from ropecli.kernels.jit import thread_count
from ropecli.kernels.streaming import can_stream
from ropecli.rotary.rotary import Rotary, check_rope

#: Elements up to which one thread is as fast as several: some 10 microseconds of work.
SMALL = 1 << 14
KEPT = 512  #: Pairs up to which tables of offsets are kept, 2 MiB each.
#: Types in which the kernels take the bits of float16 and bfloat16, to tell the two apart.
_BITS = {"float16": np.int16, "bfloat16": np.uint16}


def rotate(
    x: Any,
    rope: Rotary,
    positions: Any = None,
    *,
    inverse: bool = False,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Rotate every pair of x by its position's angle: R_m x of RoFormer Eq. 34.

    Angles are float64 for every dtype; float64 and float32 data are rotated in their own
    arithmetic, float16 and bfloat16 in float32 with one rounding at the end. The same row at
    the same position gives the same bits, whatever the other rows are, except for the sign and
    the payload of a NaN.

    Args:
        x: (..., sequence, head_dim), float64, float32, float16 or bfloat16; NumPy, or anything
            `as_array` takes.
        rope: The encoding.
        positions: (sequence,) or (batch, sequence), batch being x's first axis; integers or
            floats up to 2^53 in magnitude; with one more axis, last, where the rope has several
            axes. 0 ... sequence-1 by default, on every axis.
        inverse: Apply the inverse rotation R_m^T x, and divide by the attention factor.
        out: Array to write into, of x's shape and dtype; x itself rotates in place.

    Returns:
        An array of x's shape and dtype, `out` if that was given.

    Raises:
        ArgumentError: A wrong shape, or a position out of range.
        ArgumentTypeError: An unsupported dtype.
    """
    _check_types(rope, out)
    array = as_array("x", x)
    name = dtype_name(array.dtype)
    if name is None:
        raise ArgumentTypeError(
            f"x must be float64, float32, float16 or bfloat16, got {array.dtype}"
        )
    if array.ndim < 2 or array.shape[-1] != rope.head_dim:
        raise ArgumentError(
            f"x must have shape (..., sequence, {rope.head_dim}), got {array.shape}"
        )
    sequence = array.shape[-2]
    if positions is None:
        by_batch = np.arange(sequence, dtype=np.float64)[None]
    else:
        by_batch = _by_batch(as_positions(positions), array.shape, rope.axes)
    if out is not None and not out.flags.writeable:
        raise ArgumentError("out must be writeable, got a read-only array")
    if out is not None and (out.shape != array.shape or out.dtype != array.dtype):
        raise ArgumentError(f"out must be {array.dtype} {array.shape}, got {out.dtype} {out.shape}")

    source = np.ascontiguousarray(native(array))
    direct = (
        out is not None
        and out.flags.c_contiguous
        and out.dtype.isnative
        and (_same_memory(out, source) or not np.may_share_memory(out, source))
    )
    target = out if out is not None and direct else np.empty_like(source)
    if array.size:
        shape = (len(by_batch), -1, sequence, 1, rope.head_dim)
        rotate_into(source.reshape(shape), target.reshape(shape), rope, by_batch, inverse=inverse)
    if out is None:
        return target if array.dtype.isnative else target.astype(array.dtype)
    if not direct:
        out[...] = target
    return out


def rotate_into(
    x: NDArray[Any],
    out: NDArray[Any],
    rope: Rotary,
    positions: NDArray[np.float64],
    *,
    inverse: bool = False,
) -> None:
    """Rotate a checked array into another, or into itself."""
    if rope.grows:
        _rotate_and_grow(x, out, rope, positions, inverse=inverse)
        return
    _copy_rest(x, out, rope)
    if positions.ndim == 2:
        _rotate_pairs(x, out, rope, positions, rope.diagonal_inv_freq, inverse=inverse)
        return
    axis = rope.axis
    if axis is None:
        _rotate_pairs(x, out, rope, positions, rope.inv_freq, inverse=inverse)
        return
    # A pair may be written where one of another axis is yet to be read.
    source = x.copy() if rope.reorders and _same_memory(x, out) else x
    of_pair, inv_freq = np.array(axis), rope.diagonal_inv_freq
    for number in sorted(set(axis)):
        along, members = (
            np.ascontiguousarray(positions[..., number]),
            np.flatnonzero(of_pair == number),
        )
        _rotate_pairs(source, out, rope, along, inv_freq[members], inverse=inverse, which=members)


def _rotate_pairs(
    x: NDArray[Any],
    out: NDArray[Any],
    rope: Rotary,
    positions: NDArray[np.float64],
    inv_freq: NDArray[np.float64],
    *,
    inverse: bool,
    which: slice | NDArray[np.int64] = slice(None),
) -> None:
    """Rotate pairs by positions (batch, sequence) times inv_freq (pairs,); copy nothing.

    Where several axes turn a pair, positions (batch, sequence, axes) and inv_freq (axes, pairs).
    """
    small = x.size <= SMALL
    summed = inv_freq.ndim > 1
    table = np.empty((2, 0, 0)) if summed else _offsets(inv_freq, positions)
    name = str(dtype_name(x.dtype))
    like = np.empty(0, np.float64 if name == "float64" else np.float32)
    if name in _BITS:
        x, out = x.view(_BITS[name]), out.view(_BITS[name])
    batch, outer, sequence, inner, _ = x.shape
    tasks = batch * math.ceil(sequence / rotation.BLOCK)
    groups = 1 if small else min(outer, math.ceil(2 * thread_count() / tasks))
    forward = (rope.direction == "forward") != inverse
    how = (rope.attention_factor, inverse, 1.0 if forward else -1.0, like)
    kernel, where = _kernel(rope, which, inverse=inverse, summed=summed)
    # Small work is not worth a second kernel to compile.
    if outer * inner == 1 and not small and kernel in rotation.ONCE:
        kernel = rotation.ONCE[kernel]
    else:
        where = (groups, *where)
    listed = (rotation.rotate_listed, rotation.rotate_summed)
    stream = kernel not in listed and not _same_memory(x, out)
    stream = stream and can_stream(out, rope.rotary_offset, len(inv_freq))
    # Compiled code never warns; with NUMBA_DISABLE_JIT=1 NumPy's scalars would.
    with np.errstate(all="ignore"):
        arguments = (x, out, positions, inv_freq, *table, *how, *where)
        kernel(*arguments, small=small, stream=stream)


def _rotate_and_grow(
    x: NDArray[Any],
    out: NDArray[Any],
    rope: Rotary,
    positions: NDArray[np.float64],
    *,
    inverse: bool,
) -> None:
    """Rotate and stretch in float64, and round once at the end."""
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        rotated = x.astype(np.float64)
    rotate_into(rotated, rotated, rope.without_growth, positions, inverse=inverse)
    growth = np.array(rope.growth) * (-1 if inverse else 1)
    with np.errstate(over="ignore", invalid="ignore"):
        # (batch, 1, sequence, 1, pairs), against x (batch, outer, sequence, inner, ...)
        stretch = np.exp(positions[:, None, :, None, None] * growth)
        written = rope.pairs_in if inverse else rope.pairs_out
        for column in map(_as_slice, written.T):
            rotated[..., column] *= stretch
            out[..., column] = rotated[..., column].astype(x.dtype)
    _copy_rest(x, out, rope)


def _as_slice(column: NDArray[np.int64]) -> slice | NDArray[np.int64]:
    """Return evenly spaced coordinates as a slice, which NumPy reads and writes faster."""
    steps = set(np.diff(column).tolist())
    if len(steps) != 1 or (step := steps.pop()) < 1:
        return column
    return slice(int(column[0]), int(column[-1]) + 1, step)


def _kernel(
    rope: Rotary, which: slice | NDArray[np.int64], *, inverse: bool, summed: bool
) -> tuple[Callable[..., None], tuple[Any, ...]]:
    """Return the kernel for these pairs, and its arguments that locate them."""
    if rope.layout == "custom" or rope.reorders or summed or not isinstance(which, slice):
        pairs = (rope.pairs_in[which], rope.pairs_out[which])
        kernel = rotation.rotate_summed if summed else rotation.rotate_listed
        return kernel, pairs[::-1] if inverse else pairs
    named = {"interleaved": rotation.rotate_interleaved, "half": rotation.rotate_half}
    return named[rope.layout], (rope.rotary_offset,)


def _copy_rest(x: NDArray[Any], out: NDArray[Any], rope: Rotary) -> None:
    """Copy the coordinates in no pair."""
    if _same_memory(x, out):
        return
    rest: tuple[slice | NDArray[np.int64], ...] = (
        slice(0, rope.rotary_offset),
        slice(rope.rotary_offset + rope.rotary_dim, None),
    )
    if rope.layout == "custom":
        rest = (np.setdiff1d(np.arange(rope.head_dim), rope.pairs_in),)
    for index in rest:
        out[..., index] = x[..., index]


def _offsets(inv_freq: NDArray[np.float64], positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """cos and sin of each offset within a block that may occur: (2, rows, pairs)."""
    if len(inv_freq) <= KEPT:  # the next call, of another layer, file or token, wants the same
        return _all_offsets(inv_freq.tobytes())
    if positions.size >= rotation.BLOCK:
        return _fill_offsets(inv_freq, rotation.BLOCK)
    return _fill_offsets(inv_freq, 1 + int(np.fmod(np.abs(positions), rotation.BLOCK).max()))


@functools.lru_cache(maxsize=16)
def _all_offsets(inv_freq: bytes) -> NDArray[np.float64]:
    return _fill_offsets(np.frombuffer(inv_freq), rotation.BLOCK)


def _fill_offsets(inv_freq: NDArray[np.float64], rows: int) -> NDArray[np.float64]:
    table = np.empty((2, rows, len(inv_freq)))
    # Kernels are compiled for arrays that may be written to.
    rotation.fill_offsets(inv_freq.copy(), *table, small=table.size <= 2 * KEPT * rotation.BLOCK)
    return table


def _check_types(rope: Rotary, out: object) -> None:
    check_rope(rope)
    if not isinstance(out, np.ndarray | None):
        raise ArgumentTypeError(f"out must be a ndarray, got {type(out).__name__}")


def _by_batch(
    positions: NDArray[np.float64], shape: tuple[int, ...], axes: int
) -> NDArray[np.float64]:
    """Positions with a batch axis first, of length 1 where all rows share them."""
    point = (axes,) if axes > 1 else ()
    shared = (shape[-2], *point)
    if positions.shape == shared:
        return positions[None]
    if len(shape) > 2 and positions.shape == (shape[0], *shared):
        return positions
    expected = f"{shared}"
    if len(shape) > 2:
        expected += f" or {(shape[0], *shared)}"
    raise ArgumentError(
        f"positions must have shape {expected} for x of shape {shape}, got {positions.shape}"
    )


def _same_memory(first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Return whether two contiguous arrays of one shape share all bytes."""
    return bool(first.ctypes.data == second.ctypes.data)
