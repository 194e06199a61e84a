"""Formats of few bits in which a cache keeps keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.policy import rounded
from ropecli.arrays import Array
from ropecli.errors import ArgumentError
from ropecli.names import one_of
from ropecli.numbers import at_least

GROUP = 32  #: Channels that share a scale.
BLOCKS = ("q8_0", "q4_0")  #: Of llama.cpp: groups of 32, whose scale is a float16.
#: Dtype of each float format, and its largest number.
FLOATS = {"fp8": ("float8_e4m3fn", 448.0), "fp8_e5m2": ("float8_e5m2", 57344.0)}
FORMATS = ("int8", "int4", "int3", "int2", *FLOATS, *BLOCKS)
PER = ("channel", "token", "group")
HADAMARD = 64  #: llama.cpp mixes the channels of heads whose dim is a multiple of it.


@dataclass(frozen=True, kw_only=True)
class Quantization:
    """A format, and the numbers that share a scale."""

    format: str
    per: str
    group: int | None  #: Channels of a group, where a group shares a scale.
    mixed: int  #: Neighbouring channels that a Hadamard matrix mixes, a power of two; 1 for none.

    @classmethod
    def of(
        cls,
        head_dim: int,
        format: str,
        *,
        per: str | None = None,
        group: int | None = None,
        hadamard: bool | None = None,
    ) -> Quantization:
        """Return the quantization of heads, whose arguments are those of `cache_quantize`."""
        one_of("quantization format", format, FORMATS)
        if format in BLOCKS:
            if (per, group) != (None, None):
                name = "group" if per is None else "per"
                raise ArgumentError(f"{name} has no effect on {format}, whose blocks have {GROUP}")
            if head_dim % GROUP:
                raise ArgumentError(
                    f"head dim must be a multiple of {GROUP} for {format}, got {head_dim}"
                )
            per = "group"
        per = one_of("per", per or "channel", PER)
        size = None
        if per == "group":
            size = at_least("group", GROUP if group is None else group, 1)
            if head_dim % size:
                raise ArgumentError(f"group must divide the head dim, {head_dim}, got {size}")
        elif group is not None:
            raise ArgumentError(f"group has no effect on scales per {per}; expected per group")
        usual = format in BLOCKS and head_dim % HADAMARD == 0
        mixes = usual if hadamard is None else hadamard
        largest_power = head_dim & -head_dim
        return cls(format=format, per=per, group=size, mixed=largest_power if mixes else 1)

    def round_trip(self, keys: NDArray[Any]) -> NDArray[Any]:
        """Return keys (tokens, head_dim) quantized and dequantized."""
        shared = _mix(keys, self.mixed)
        if self.group is not None:
            shared = shared.reshape(len(keys), -1, self.group)
        axis = 0 if self.per == "channel" else -1
        read = (
            _blocks(shared, self.format)
            if self.format in BLOCKS
            else self._round_to_scale(shared, axis)
        )
        return _mix(read.reshape(keys.shape).astype(keys.dtype, copy=False), self.mixed)

    def _round_to_scale(self, shared: Array, axis: int) -> Array:
        if self.format in FLOATS:
            dtype, largest = FLOATS[self.format]
            scale = _step(np.abs(shared).max(axis=axis, keepdims=True), largest)
            return rounded(shared / scale, dtype) * scale
        low = shared.min(axis=axis, keepdims=True)
        levels = 2 ** int(self.format.removeprefix("int")) - 1
        scale = _step(shared.max(axis=axis, keepdims=True) - low, levels)
        read: Array = np.rint((shared - low) / scale).clip(0, levels) * scale + low
        return read


def _step(extent: Array, levels: float) -> Array:
    """Return the scale of an extent; 1 where there is none."""
    return np.where(extent > 0, extent / levels, 1.0)


def _blocks(shared: NDArray[Any], format: str) -> NDArray[np.float32]:
    """Return blocks quantized by the reference code of ggml, in its float32.

    Numbers are divided by the scale before that is rounded to float16, and read with it after. The
    number of largest magnitude is level 127 or -127 of q8_0, and level -8 of q4_0, whose last is 7.
    """
    values = shared.astype(np.float32)
    place = np.abs(values).argmax(axis=-1, keepdims=True)
    largest = np.take_along_axis(values, place, axis=-1)
    scale = np.abs(largest) / np.float32(127) if format == "q8_0" else largest / np.float32(-8)
    scaled = values * np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)
    if format == "q8_0":
        integers = np.trunc(scaled)
        levels = integers + np.trunc(2 * (scaled - integers))  # halves away from 0
    else:
        levels = np.minimum(np.trunc(scaled + np.float32(8.5)), 15) - 8
    read: NDArray[np.float32] = levels * scale.astype(np.float16).astype(np.float32)
    return read


def _mix(keys: NDArray[Any], size: int) -> NDArray[Any]:
    """Multiply groups of channels by the Hadamard matrix of Sylvester, its own inverse."""
    if size == 1:
        return keys
    half, mixed = 1, np.ascontiguousarray(keys.T)  # sums of whole rows are faster
    while half < size:
        a, b = np.moveaxis(mixed.reshape(-1, 2, half, len(keys)), 1, 0)
        mixed = np.stack([a + b, a - b], axis=1)
        half *= 2
    product: NDArray[Any] = mixed.reshape(keys.shape[::-1]).T / mixed.dtype.type(size**0.5)
    return product
