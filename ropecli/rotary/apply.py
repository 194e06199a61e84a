"""Rotate arrays in memory (RoFormer Eq. 34)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import as_array, dtype_name, native
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.kernels import rotation
from ropecli.kernels._jit import thread_count
from ropecli.rotary.positions import as_positions
from ropecli.rotary.rotary import Rotary

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

#: Elements up to which one thread is as fast as several: some 10 microseconds of work.
_SMALL = 1 << 14
#: How the kernels take float16 and bfloat16: as bits of a type that tells the two apart.
_BITS = {"float16": np.int16, "bfloat16": np.uint16}


def rotate(
    x: Any,
    rope: Rotary,
    positions: Any = None,
    *,
    inverse: bool = False,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Turn every pair of x by its position's angle: R_m x of RoFormer Eq. 34.

    Angles are float64 whatever the dtype; float64 and float32 data are turned in their own
    arithmetic, float16 and bfloat16 in float32 with one rounding at the end. The same row at
    the same position gives the same bits, whatever stands beside it.

    Args:
        x: (..., sequence, head_dim), float64, float32, float16 or bfloat16; NumPy, or anything
            `as_array` takes.
        rope: The encoding.
        positions: (sequence,) or (batch, sequence), batch being x's first axis; integers or
            floats up to 2^53 in magnitude. 0 ... sequence-1 by default.
        inverse: Turn back: R_m^T x, divided by the attention factor.
        out: Array to write into, of x's shape and dtype; x itself rotates in place.

    Returns:
        An array of x's shape and dtype, `out` if that was given.

    Raises:
        ArgumentError: A shape, or a position, that is not allowed.
        ArgumentTypeError: A dtype that is not allowed.
    """
    _check_types(rope, out)
    array = as_array("x", x)
    name = dtype_name(array.dtype)
    if name is None:
        msg = f"x must be float64, float32, float16 or bfloat16, got {array.dtype}"
        raise ArgumentTypeError(msg)
    if array.ndim < 2 or array.shape[-1] != rope.head_dim:
        msg = f"x must have shape (..., sequence, {rope.head_dim}), got {array.shape}"
        raise ArgumentError(msg)
    sequence = array.shape[-2]
    if positions is None:
        settled = np.arange(sequence, dtype=np.float64)
    else:
        settled = as_positions(positions)
    by_batch = _by_batch(settled, array.shape)
    if out is not None and not out.flags.writeable:
        msg = "out must be writeable, got a read-only array"
        raise ArgumentError(msg)
    if out is not None and (out.shape != array.shape or out.dtype != array.dtype):
        msg = f"out must be {array.dtype} {array.shape}, got {out.dtype} {out.shape}"
        raise ArgumentError(msg)

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
        turn(source.reshape(shape), target.reshape(shape), rope, by_batch, inverse=inverse)
    if out is None:
        return target if array.dtype.isnative else target.astype(array.dtype)
    if not direct:
        out[...] = target
    return out


def turn(
    x: NDArray[Any],
    out: NDArray[Any],
    rope: Rotary,
    positions: NDArray[np.float64],
    *,
    inverse: bool = False,
) -> None:
    """Rotate a checked array into another, or into itself.

    Args:
        x: (batch, outer, sequence, inner, head_dim), C-contiguous, native byte order.
        out: As x, the same array or one that shares no memory with it.
        rope: The encoding.
        positions: (batch, sequence), float64.
        inverse: Turn back.
    """
    inv_freq = rope.inv_freq
    small = x.size <= _SMALL
    table = np.empty((2, _offsets(positions), len(inv_freq)))
    rotation.fill_offsets(inv_freq, *table, small=small)
    name = str(dtype_name(x.dtype))
    like = np.empty(0, np.float64 if name == "float64" else np.float32)
    if name in _BITS:
        x, out = x.view(_BITS[name]), out.view(_BITS[name])
    batch, outer, sequence = x.shape[:3]
    tasks = batch * math.ceil(sequence / rotation.BLOCK)
    groups = 1 if small else min(outer, math.ceil(2 * thread_count() / tasks))
    forward = (rope.direction == "forward") != inverse
    how = (rope.attention_factor, inverse, 1.0 if forward else -1.0, groups)
    kernel, where = _kernel(rope, inverse=inverse)
    if not _same_memory(x, out):
        for rest in _rest(rope):
            out[..., rest] = x[..., rest]
    # Compiled code never warns; with NUMBA_DISABLE_JIT=1 NumPy's scalars would.
    with np.errstate(all="ignore"):
        kernel(x, out, positions, inv_freq, *table, like, *how, *where, small=small)


def _kernel(rope: Rotary, *, inverse: bool) -> tuple[Callable[..., None], tuple[Any, ...]]:
    """The kernel of a layout, and what tells it where the pairs are."""
    if rope.layout == "custom":
        pairs = (rope.pairs_in, rope.pairs_out)
        return rotation.rotate_listed, pairs[::-1] if inverse else pairs
    named = {"interleaved": rotation.rotate_interleaved, "half": rotation.rotate_half}
    return named[rope.layout], (rope.rotary_offset,)


def _rest(rope: Rotary) -> tuple[slice | NDArray[np.int64], ...]:
    """The coordinates in no pair."""
    if rope.layout == "custom":
        return (np.setdiff1d(np.arange(rope.head_dim), rope.pairs_in),)
    return slice(0, rope.rotary_offset), slice(rope.rotary_offset + rope.rotary_dim, None)


def _offsets(positions: NDArray[np.float64]) -> int:
    """Rows that the table of offsets needs."""
    if positions.size >= rotation.BLOCK:
        return rotation.BLOCK  # as good as certain, and quicker than to look
    return int(np.fmod(np.abs(positions), rotation.BLOCK).max()) + 1


def _check_types(rope: object, out: object) -> None:
    for name, value, wanted in (("rope", rope, Rotary), ("out", out, np.ndarray)):
        if not (isinstance(value, wanted) or (name == "out" and value is None)):
            msg = f"{name} must be a {wanted.__name__}, got {type(value).__name__}"
            raise ArgumentTypeError(msg)


def _by_batch(positions: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Positions as (batch, sequence), with a batch of one where all rows share them."""
    sequence = shape[-2]
    if positions.shape == (sequence,):
        return positions[None]
    if len(shape) > 2 and positions.shape == (shape[0], sequence):
        return positions
    allowed = f"({sequence},)"
    if len(shape) > 2:
        allowed += f" or ({shape[0]}, {sequence})"
    msg = f"positions must have shape {allowed} for x of shape {shape}, got {positions.shape}"
    raise ArgumentError(msg)


def _same_memory(first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Whether two contiguous arrays of one shape lie on the very same bytes."""
    return bool(first.ctypes.data == second.ctypes.data)
