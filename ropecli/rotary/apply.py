"""Rotate arrays in memory (RoFormer Eq. 34)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import as_array, dtype_name, native
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.kernels import half_precision, rotation
from ropecli.kernels._jit import thread_count
from ropecli.rotary.positions import as_positions
from ropecli.rotary.rotary import Rotary

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: How the kernel is told a layout.
_LAYOUTS = {
    "interleaved": rotation.INTERLEAVED,
    "half": rotation.HALF,
    "custom": rotation.PAIRED,
}
#: float32 elements that a half-precision array passes through at a time: they stay in the cache.
_CHUNK = 1 << 18
#: Elements up to which one thread is as fast as several: some 10 microseconds of work.
_SMALL = 1 << 14

_WIDEN = {"float16": half_precision.widen_float16, "bfloat16": half_precision.widen_bfloat16}
_NARROW = {"float16": half_precision.narrow_float16, "bfloat16": half_precision.narrow_bfloat16}


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
    plan = _Plan(rope, positions, inverse=inverse)
    name = dtype_name(x.dtype)
    if name in _WIDEN:
        _turn_half_precision(x, out, plan, name, positions)
    else:
        plan.run(x, out, positions)


class _Plan:
    """What the kernel needs besides the data: the table of offsets, and the pairs."""

    def __init__(self, rope: Rotary, positions: NDArray[np.float64], *, inverse: bool) -> None:
        self.rope = rope
        self.inv_freq = rope.inv_freq
        self.divide = inverse
        self.sign = 1.0 if (rope.direction == "forward") != inverse else -1.0
        pairs_in, pairs_out = rope.pairs_in, rope.pairs_out
        self.pairs_in, self.pairs_out = (pairs_out, pairs_in) if inverse else (pairs_in, pairs_out)
        offsets = np.fmod(np.abs(positions), rotation.BLOCK)
        shape = (int(offsets.max()) + 1, len(self.inv_freq))
        self.table = np.empty(shape), np.empty(shape)
        rotation.fill_offsets(self.inv_freq, *self.table, small=True)

    def run(self, x: NDArray[Any], out: NDArray[Any], positions: NDArray[np.float64]) -> None:
        """Call the kernel with enough tasks for every thread."""
        batch, outer, sequence = x.shape[:3]
        tasks = batch * math.ceil(sequence / rotation.BLOCK)
        small = x.size <= _SMALL
        rotation.rotate(
            x,
            out,
            positions,
            self.inv_freq,
            *self.table,
            self.rope.attention_factor,
            self.divide,
            self.sign,
            _LAYOUTS[self.rope.layout],
            self.rope.rotary_offset,
            self.pairs_in,
            self.pairs_out,
            1 if small else min(outer, math.ceil(2 * thread_count() / tasks)),
            small=small,
        )


def _turn_half_precision(
    x: NDArray[Any], out: NDArray[Any], plan: _Plan, name: str, positions: NDArray[np.float64]
) -> None:
    """Rotate float16 or bfloat16 by way of float32, a cacheful at a time."""
    batch, outer, sequence, inner, head_dim = x.shape
    width = inner * head_dim  # elements of one position
    step = min(sequence, max(rotation.BLOCK, _CHUNK // (outer * width)))
    rows = min(outer, max(1, _CHUNK // (step * width)))
    bits, out_bits = (a.view(np.uint16).reshape(batch, outer, sequence * width) for a in (x, out))
    scratch = np.empty(rows * step * width, np.float32)
    for b in range(batch):
        for low in range(0, outer, rows):
            high = min(low + rows, outer)
            for begin in range(0, sequence, step):
                end = min(begin + step, sequence)
                shape = (1, high - low, end - begin, inner, head_dim)
                wide = scratch[: math.prod(shape)].reshape(shape)
                flat = wide.reshape(high - low, -1)
                small = flat.size <= _SMALL
                _WIDEN[name](bits[b, low:high], begin * width, flat, small=small)
                plan.run(wide, wide, positions[b : b + 1, begin:end])
                _NARROW[name](flat, begin * width, out_bits[b, low:high], small=small)


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
