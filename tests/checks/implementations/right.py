"""Implementations that are right, each in a convention or a way of computing of its own."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from implementations import intended
from implementations.case import right
from implementations.intended import DIM, ORIGINAL
from implementations.plain import (
    Array,
    align,
    along,
    along_all,
    angles,
    dynamic,
    half,
    in_sections,
    in_turns,
    interleaved,
    inv_freq,
    llama3,
    mixed_frequencies,
    mscale,
    on,
    rotate_half,
    rotation,
    turn,
    wide,
    yarn,
)

THETA = inv_freq(DIM)
MILLION = inv_freq(DIM, 1_000_000.0)
#: Coordinate i is paired with the i-th from the end.
MIRRORED = np.append(np.arange(DIM // 2), np.arange(DIM // 2, DIM)[::-1])
#: Pairs across the whole head, of which the first quarter turns.
QUARTER = np.where(np.arange(DIM // 2) < DIM // 8, MILLION, 0)
#: NTK's base, as it is for a factor of 4.
STRETCHED = inv_freq(DIM, 10_000.0 * 4.0 ** (DIM / (DIM - 2)))
GPT_OSS = yarn(DIM, base=150_000.0, factor=32.0, truncate=False)

right("interleaved", intended.INTERLEAVED)(rotation(THETA, interleaved))
right("half", untold=True)(rotation(THETA))
right("reversed", intended.REVERSED, untold=True)(rotation(-THETA))
right("base 500000", intended.INTERLEAVED_500K)(rotation(inv_freq(DIM, 500_000.0), interleaved))
right("base 1000000", intended.HALF_1M)(rotation(MILLION))
# As GPT-NeoX with rotary_pct 0.25, as GPT-J with rotary_dim, as DeepSeek-V4, and a window.
right("partial half", intended.PARTIAL)(rotation(inv_freq(16)))
right("partial interleaved", intended.PARTIAL_INTERLEAVED)(rotation(inv_freq(16), interleaved))
right("trailing", intended.TRAILING, untold=True)(
    on(slice(48, None), rotation(inv_freq(16), interleaved))
)
right("middle", intended.MIDDLE, told=False)(on(slice(8, 40), rotation(inv_freq(32), interleaved)))
right("proportional", intended.PROPORTIONAL, untold=True)(rotation(QUARTER))  # as Gemma 4
right("pairs of its own", intended.MIRRORED, told=False)(on(MIRRORED, rotation(THETA)))
right("linear", intended.LINEAR)(rotation(THETA, positions=lambda m: m / 8))
right("NTK", intended.NTK)(rotation(STRETCHED))
right("llama3", intended.LLAMA3)(rotation(llama3(DIM)))
right("YaRN", intended.YARN, untold=True)(rotation(yarn(DIM), factor=mscale(16.0)))
right("gpt-oss", intended.GPT_OSS)(rotation(GPT_OSS, factor=mscale(32.0)))
# As Qwen2-VL, with a run of pairs for each axis, as Qwen3-VL, and as vision encoders.
right("M-RoPE", intended.MROPE, more={"axes": 3})(along(in_sections((8, 12, 12)), MILLION))
right("M-RoPE in turns", intended.MROPE_TURNS, more={"axes": 3})(
    along(in_turns((12, 10, 10)), MILLION)
)
right("axial", intended.AXIAL, untold=True, more={"axes": 2})(
    along(in_sections((16, 16)), np.tile(inv_freq(DIM // 2), 2))
)
right("RoPE-Mixed", intended.MIXED, untold=True, more={"axes": 2})(
    along_all(mixed_frequencies(DIM, 0.7), interleaved)
)


@right("complex numbers", intended.INTERLEAVED)
def complex_numbers(x: Array, positions: Array) -> Array:
    """Meta's Llama: pairs are complex numbers, multiplied by e^(i m theta)."""
    y = wide(x)
    z = y[..., 0::2] + 1j * y[..., 1::2]
    turned = z * align(x, np.exp(1j * angles(positions, THETA)))
    y[..., 0::2], y[..., 1::2] = turned.real, turned.imag
    return y.astype(x.dtype)


@right("matrix", intended.INTERLEAVED)
def generator(x: Array, positions: Array) -> Array:
    """By the matrix G that turns every pair by a right angle: x cos + Gx sin."""
    matrix = np.kron(np.eye(DIM // 2), [[0.0, -1.0], [1.0, 0.0]])
    angle = align(x, np.repeat(angles(positions, THETA), 2, axis=-1))
    y = x.astype(np.float64)
    turned: Array = y * np.cos(angle) + y @ matrix.T * np.sin(angle)
    return turned.astype(x.dtype)


@right("angle addition")
def two_steps(x: Array, positions: Array) -> Array:
    """The angle of a block of 64 positions, then the rest of the way."""
    m = np.asarray(positions, np.float64)
    block = 64 * np.trunc(m / 64)
    z = np.exp(1j * angles(block, THETA)) * np.exp(1j * angles(m - block, THETA))
    return half(x, z.real, z.imag)


@right("interleaved in, half out", intended.REORDERED)
def deepseek_order(x: Array, positions: Array) -> Array:
    """DeepSeek-V3 in Transformers: read interleaved, written in halves."""
    return turn(np.append(x[..., 0::2], x[..., 1::2], axis=-1), positions, THETA)


def float32_tables(positions: Array) -> tuple[Array, Array]:
    exponents = np.arange(0, DIM, 2).astype(np.float32) / np.float32(DIM)
    theta = np.float32(1.0) / np.float32(10_000.0) ** exponents
    angle = np.asarray(positions).astype(np.float32)[..., None] * theta
    both = np.concatenate([angle, angle], axis=-1)
    return np.cos(both), np.sin(both)


@right("float32 tables", untold=True)
def transformers_float32(x: Array, positions: Array) -> Array:
    """Tables in float32, the rotation in float32 at least, rounded once at the end."""
    cos, sin = (align(x, table) for table in float32_tables(positions))
    y = wide(x)
    turned: Array = y * cos + rotate_half(y) * sin
    return turned.astype(x.dtype)


@right("as Transformers")
def transformers(x: Array, positions: Array) -> Array:
    """Transformers' Llama: tables in float32, cast to the data's dtype, which turns."""
    cos, sin = (align(x, t).astype(x.dtype) for t in float32_tables(positions))
    turned: Array = x * cos + rotate_half(x) * sin
    return turned


# What keeps something between calls.


class WithBase:
    """An instance that is made with its base."""

    def __init__(self, base: float = 10_000.0) -> None:
        self.base = base


@right("growing cache", kind="class")
class GrowingCache(WithBase):
    """Tables of whole positions, twice as long whenever they are too short."""

    largest = 1 << 14
    table: Array = np.empty((0, 0), np.complex128)

    def __call__(self, x: Array, positions: Array) -> Array:
        theta = inv_freq(DIM, self.base)
        m = np.asarray(positions, np.float64)
        if m.min() < 0 or m.max() >= self.largest or (m % 1).any():
            return turn(x, m, theta, half)
        if m.max() >= len(self.table):
            length = 1 << int(m.max()).bit_length()
            self.table = np.exp(1j * angles(np.arange(length), theta))
        z = self.table[m.astype(np.int64)]
        return half(x, z.real, z.imag)


def length_of(positions: Array) -> int:
    """Positions of a sequence from 0 to the last one in use."""
    return math.floor(float(np.max(positions))) + 1


class ByLength(WithBase, ABC):
    """Each sequence is turned by the frequencies of its own length."""

    factor = 1.0

    def __call__(self, x: Array, positions: Array) -> Array:
        m = np.asarray(positions, np.float64)
        lengths = [length_of(row) for row in np.atleast_2d(m)]
        tables = {length: self.theta(length) for length in set(lengths)}
        theta = np.stack([tables[length] for length in lengths])
        angle = m[..., None] * (theta[0] if m.ndim == 1 else theta[:, None])
        return half(x, self.factor * np.cos(angle), self.factor * np.sin(angle))

    @abstractmethod
    def theta(self, length: int) -> Array:
        """Return the frequencies of sequences of a length."""


@right(
    "dynamic NTK",
    intended.DYNAMIC,
    kind="class",
    at_length=intended.dynamic_at,
    more={"original_context_length": ORIGINAL},
)
class DynamicNtk(ByLength):
    """The base follows the length of each sequence, and comes back."""

    def theta(self, length: int) -> Array:
        return dynamic(DIM, length, base=self.base, factor=4.0, longest=ORIGINAL)


@right(
    "LongRoPE",
    intended.LONGROPE,
    kind="class",
    at_length=intended.longrope_at,
    more={"original_context_length": ORIGINAL},
)
class LongRope(ByLength):
    """Factors for long sequences from ORIGINAL + 1 positions on."""

    factor = math.sqrt(1 + math.log(4.0) / math.log(ORIGINAL))

    def theta(self, length: int) -> Array:
        long = length > ORIGINAL
        return inv_freq(DIM, self.base) / (np.linspace(1.0, 32.0, DIM // 2) if long else 1.0)


def decoder(place: Callable[[int], int] = lambda n: n, counts: int = 1) -> type:
    """Fed a prompt and then one token after another: counts the positions itself.

    A token after n others is rotated at place(n), and counts as that many.
    """

    class Decoder(WithBase):
        length = 0

        def prefill(self, x: Array) -> Array:
            self.length = x.shape[-2]
            return turn(x, np.arange(self.length), inv_freq(DIM, self.base))

        def step(self, x: Array) -> Array:
            y = turn(x, np.array([place(self.length)]), inv_freq(DIM, self.base))
            self.length += counts
            return y

    return Decoder


right("decoder", kind="decoder")(decoder())
