"""Implementations that are right, each in a convention or a way of computing of its own."""

from __future__ import annotations

import numpy as np
from implementations import intended, tables
from implementations.case import Right
from implementations.plain import (
    Array,
    Rotate,
    angles,
    beside,
    half,
    interleaved,
    inv_freq,
    turn,
    turn_axes,
    wide,
)
from implementations.right_state import Decoder, DynamicNtk, GrowingCache, LongRope


def adjacent(x: Array, positions: Array) -> Array:
    return turn(x, positions, inv_freq(x.shape[-1]), interleaved)


def split(x: Array, positions: Array) -> Array:
    return turn(x, positions, inv_freq(x.shape[-1]), half)


def backwards(x: Array, positions: Array) -> Array:
    return turn(x, positions, -inv_freq(x.shape[-1]), half)


def base_500k(x: Array, positions: Array) -> Array:
    return turn(x, positions, inv_freq(x.shape[-1], 500_000.0), interleaved)


def base_1m(x: Array, positions: Array) -> Array:
    return turn(x, positions, inv_freq(x.shape[-1], 1_000_000.0), half)


def complex_numbers(x: Array, positions: Array) -> Array:
    """As Meta's Llama: pairs are complex numbers, multiplied by e^(i m theta)."""
    y = wide(x)
    z = y[..., 0::2] + 1j * y[..., 1::2]
    turned = z * beside(x, np.exp(1j * angles(positions, inv_freq(x.shape[-1]))))
    y[..., 0::2], y[..., 1::2] = turned.real, turned.imag
    return y.astype(x.dtype)


def generator(x: Array, positions: Array) -> Array:
    """By the matrix G that turns every pair by a right angle: x cos + Gx sin."""
    d = x.shape[-1]
    matrix = np.kron(np.eye(d // 2), [[0.0, -1.0], [1.0, 0.0]])
    angle = beside(x, np.repeat(angles(positions, inv_freq(d)), 2, axis=-1))
    y = x.astype(np.float64)
    turned: Array = y * np.cos(angle) + y @ matrix.T * np.sin(angle)
    return turned.astype(x.dtype)


def two_steps(x: Array, positions: Array) -> Array:
    """Angle addition: the angle of a block of 64 positions, then the rest of the way."""
    m = np.asarray(positions, np.float64)
    block = 64 * np.trunc(m / 64)
    theta = inv_freq(x.shape[-1])
    z = np.exp(1j * angles(block, theta)) * np.exp(1j * angles(m - block, theta))
    return half(x, z.real, z.imag)


def first_quarter(x: Array, positions: Array) -> Array:
    """As GPT-NeoX with rotary_pct 0.25."""
    return turn(x, positions, inv_freq(x.shape[-1] // 4), half)


def first_quarter_adjacent(x: Array, positions: Array) -> Array:
    """As GPT-J with rotary_dim."""
    return turn(x, positions, inv_freq(x.shape[-1] // 4), interleaved)


def last_quarter(x: Array, positions: Array) -> Array:
    """As DeepSeek-V4: the rotated coordinates come last."""
    start = x.shape[-1] * 3 // 4
    y = x.copy()
    y[..., start:] = turn(x[..., start:], positions, inv_freq(x.shape[-1] // 4), interleaved)
    return y


def middle(x: Array, positions: Array) -> Array:
    """A window from coordinate 8 on."""
    y = x.copy()
    y[..., 8:40] = turn(x[..., 8:40], positions, inv_freq(32), interleaved)
    return y


def proportional(x: Array, positions: Array) -> Array:
    """As Gemma 4: pairs across the whole head, of which the first quarter turns."""
    theta = inv_freq(x.shape[-1], 1_000_000.0)
    theta[len(theta) // 4 :] = 0
    return turn(x, positions, theta, half)


def mirrored_pairs(x: Array, positions: Array) -> Array:
    """Coordinate i is paired with the i-th from the end."""
    order = np.append(np.arange(x.shape[-1] // 2), np.arange(x.shape[-1] // 2, x.shape[-1])[::-1])
    y = np.empty_like(x)
    y[..., order] = split(x[..., order], positions)
    return y


def deepseek_order(x: Array, positions: Array) -> Array:
    """As DeepSeek-V3 in Transformers: read interleaved, written in halves."""
    split_order = np.append(x[..., 0::2], x[..., 1::2], axis=-1)
    return split(split_order, positions)


def linear(x: Array, positions: Array) -> Array:
    """Position interpolation, by the positions."""
    return turn(x, np.asarray(positions, np.float64) / 8, inv_freq(x.shape[-1]), half)


def ntk(x: Array, positions: Array) -> Array:
    d = x.shape[-1]
    return turn(x, positions, inv_freq(d, 10_000.0 * 4.0 ** (d / (d - 2))), half)


def llama3(x: Array, positions: Array) -> Array:
    return turn(x, positions, tables.llama3(x.shape[-1]), half)


def yarn(x: Array, positions: Array) -> Array:
    """As Transformers: the attention factor on cos and sin."""
    return turn(x, positions, tables.yarn(x.shape[-1]), half, tables.mscale(16.0))


def gpt_oss(x: Array, positions: Array) -> Array:
    theta = tables.yarn(x.shape[-1], base=150_000.0, factor=32.0, truncate=False)
    return turn(x, positions, theta, half, tables.mscale(32.0))


def rotate_half(x: Array) -> Array:
    n = x.shape[-1] // 2
    return np.concatenate([-x[..., n:], x[..., :n]], axis=-1)


def float32_tables(x: Array, positions: Array) -> tuple[Array, Array]:
    d = x.shape[-1]
    exponents = np.arange(0, d, 2).astype(np.float32) / np.float32(d)
    theta = np.float32(1.0) / np.float32(10_000.0) ** exponents
    angle = np.asarray(positions).astype(np.float32)[..., None] * theta
    both = np.concatenate([angle, angle], axis=-1)
    return np.cos(both), np.sin(both)


def transformers_float32(x: Array, positions: Array) -> Array:
    """Tables in float32, the rotation in float32 at least, rounded once at the end."""
    cos, sin = (beside(x, table) for table in float32_tables(x, positions))
    y = wide(x)
    turned: Array = y * cos + rotate_half(y) * sin
    return turned.astype(x.dtype)


def transformers(x: Array, positions: Array) -> Array:
    """As Transformers' Llama: tables in float32, cast to the data's dtype, which turns."""
    cos, sin = (beside(x, t).astype(x.dtype) for t in float32_tables(x, positions))
    turned: Array = x * cos + rotate_half(x) * sin
    return turned


def mrope(x: Array, positions: Array) -> Array:
    """As Qwen2-VL: a run of pairs for time, height and width."""
    theta = inv_freq(x.shape[-1], 1_000_000.0)
    return turn_axes(x, positions, theta, tables.in_sections((8, 12, 12)))


def mrope_in_turns(x: Array, positions: Array) -> Array:
    """As Qwen3-VL: time, height and width take turns."""
    theta = inv_freq(x.shape[-1], 1_000_000.0)
    return turn_axes(x, positions, theta, tables.in_turns((12, 10, 10)))


def axial(x: Array, positions: Array) -> Array:
    """As vision encoders: one table for rows and one for columns, the same."""
    theta = inv_freq(x.shape[-1] // 2)
    axis = tables.in_sections((len(theta), len(theta)))
    return turn_axes(x, positions, np.tile(theta, 2), axis)


def score(q: Array, k: Array, positions: Array, *, softmax_factor: float | None = None) -> Array:
    """DeepSeek-V2's: m(s, mscale_all_dim)^2 on the score, nothing on cos and sin."""
    theta = tables.yarn(q.shape[-1], factor=40.0)
    factor = tables.mscale(40.0, 0.707) ** 2 if softmax_factor is None else softmax_factor
    rotate: Rotate = interleaved
    turned = [turn(x.astype(np.float64), positions, theta, rotate) for x in (q, k)]
    scores: Array = turned[0] @ turned[1].swapaxes(-1, -2) * factor / np.sqrt(q.shape[-1])
    return scores


THREE = {"axes": 3}
LENGTHS = {"original_context_length": intended.ORIGINAL}

CASES = (
    Right(name="interleaved", target=adjacent, intended=intended.INTERLEAVED),
    Right(name="half", target=split, intended=intended.HALF),
    Right(name="half, not told", target=split, intended=intended.HALF, told=False),
    Right(name="reversed", target=backwards, intended=intended.REVERSED),
    Right(name="reversed, not told", target=backwards, intended=intended.REVERSED, told=False),
    Right(name="base 500000", target=base_500k, intended=intended.INTERLEAVED_500K),
    Right(name="base 1000000", target=base_1m, intended=intended.HALF_1M),
    Right(name="complex numbers", target=complex_numbers, intended=intended.INTERLEAVED),
    Right(name="matrix", target=generator, intended=intended.INTERLEAVED),
    Right(name="angle addition", target=two_steps, intended=intended.HALF),
    Right(name="partial half", target=first_quarter, intended=intended.PARTIAL),
    Right(
        name="partial interleaved",
        target=first_quarter_adjacent,
        intended=intended.PARTIAL_INTERLEAVED,
    ),
    Right(name="trailing", target=last_quarter, intended=intended.TRAILING),
    Right(name="trailing, not told", target=last_quarter, intended=intended.TRAILING, told=False),
    Right(name="middle", target=middle, intended=intended.MIDDLE, told=False),
    Right(name="proportional", target=proportional, intended=intended.PROPORTIONAL),
    Right(
        name="proportional, not told",
        target=proportional,
        intended=intended.PROPORTIONAL,
        told=False,
    ),
    Right(name="pairs of its own", target=mirrored_pairs, intended=intended.MIRRORED, told=False),
    Right(name="interleaved in, half out", target=deepseek_order, intended=intended.REORDERED),
    Right(name="linear", target=linear, intended=intended.LINEAR),
    Right(name="NTK", target=ntk, intended=intended.NTK),
    Right(name="llama3", target=llama3, intended=intended.LLAMA3),
    Right(name="YaRN", target=yarn, intended=intended.YARN),
    Right(name="YaRN, not told", target=yarn, intended=intended.YARN, told=False),
    Right(name="gpt-oss", target=gpt_oss, intended=intended.GPT_OSS),
    Right(
        name="float32 tables",
        target=transformers_float32,
        intended=intended.HALF,
        tables="float32",
    ),
    Right(
        name="float32 tables, not told",
        target=transformers_float32,
        intended=intended.HALF,
        told=False,
        tables="float32",
    ),
    Right(name="as Transformers", target=transformers, intended=intended.HALF, tables="data"),
    Right(name="M-RoPE", target=mrope, intended=intended.MROPE, more=THREE),
    Right(name="M-RoPE in turns", target=mrope_in_turns, intended=intended.MROPE_TURNS, more=THREE),
    Right(name="axial", target=axial, intended=intended.AXIAL, more={"axes": 2}),
    Right(
        name="axial, not told",
        target=axial,
        intended=intended.AXIAL,
        told=False,
        more={"axes": 2},
    ),
    Right(name="growing cache", target=GrowingCache, kind="class", intended=intended.HALF),
    Right(
        name="dynamic NTK",
        target=DynamicNtk,
        kind="class",
        intended=intended.DYNAMIC,
        at_length=intended.dynamic_at,
        more=LENGTHS,
    ),
    Right(
        name="LongRoPE",
        target=LongRope,
        kind="class",
        intended=intended.LONGROPE,
        at_length=intended.longrope_at,
        more=LENGTHS,
    ),
    Right(name="decoder", target=Decoder, kind="decoder", intended=intended.HALF),
    Right(name="DeepSeek's score", target=score, kind="score", intended=intended.DEEPSEEK),
)
