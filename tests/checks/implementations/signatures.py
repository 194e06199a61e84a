"""Signatures that broadcasting and reshapes let run in ways that nobody meant, right and wrong.

Each is made by a function of a fault, which gets right rows and the vectors that went in, both with
axes of sequences, tokens, heads and coordinates, (batch, sequence, heads, head_dim), and returns
the rows to give back. None of them refuses a call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from implementations.plain import Array, inv_freq, rotate_half

DIM, CONTEXT = 16, 512
Fault = Callable[[Array, Array], Array]
Make = Callable[[Fault], Any]


@dataclass(frozen=True, kw_only=True)
class Signature:
    """A signature and the axes of its vectors."""

    make: Make
    axes: str  #: In which it is to be called.
    broken: Fault  #: What its wrong twin does.


SIGNATURES: list[Signature] = []


def right(y: Array, _x: Array) -> Array:
    return y


def heads_left(y: Array, x: Array) -> Array:
    """Heads from the second on are not rotated."""
    return np.concatenate([y[:, :, :1], x[:, :, 1:]], axis=2)


def heads_exchanged(y: Array, _x: Array) -> Array:
    """Each head gets the rows of the one before it."""
    return np.roll(y, 1, axis=2)


def sequences_left(y: Array, x: Array) -> Array:
    """Sequences from the second on are not rotated."""
    return np.concatenate([y[:1], x[1:]], axis=0)


def last_left(y: Array, x: Array) -> Array:
    """The last token is not rotated, where it is not the only one."""
    return np.concatenate([y[:, :1], y[:, 1:-1], x[:, 1:][:, -1:]], axis=1)


def signature(axes: str, broken: Fault) -> Callable[[Make], Make]:
    def add(make: Make) -> Make:
        SIGNATURES.append(Signature(make=make, axes=axes, broken=broken))
        return make

    return add


def tables(positions: Any) -> tuple[Array, Array]:
    """Cosines and sines with each frequency in both halves, (..., head_dim)."""
    angles = np.asarray(positions)[..., None] * np.tile(inv_freq(DIM), 2)
    return np.cos(angles), np.sin(angles)


def apply(x: Array, cos: Array, sin: Array) -> Array:
    """As everybody writes it: what fits broadcasts."""
    y: Array = (x * cos + rotate_half(x) * sin).astype(x.dtype)
    return y


def cut(table: Array, first: int, count: int) -> Array:
    rows = table[first : first + count]
    if len(rows) < count:
        raise IndexError(f"{len(table)} rows, asked for {first} to {first + count}")
    return rows


@signature("b s h d", heads_left)
def offset_only(fault: Fault) -> Any:
    def start_only(x: Array, start_pos: int) -> Array:
        cos, sin = tables(start_pos + np.arange(x.shape[1]))
        return fault(apply(x, cos[None, :, None], sin[None, :, None]), x)

    return start_only


@signature("b s h d", heads_exchanged)
def offset_and_buffers(fault: Fault) -> Any:
    class Module:
        def __init__(self, dim: int) -> None:
            assert dim == DIM
            self.cos, self.sin = tables(np.arange(CONTEXT))

        def forward(self, x: Array, offset: int = 0) -> Array:
            cos, sin = (cut(t, offset, x.shape[1])[:, None] for t in (self.cos, self.sin))
            return fault(apply(x, cos, sin), x)

    return Module


@signature("b h s d", last_left)
def offset_before_tokens(fault: Fault) -> Any:
    def rotate(x: Array, offset: int = 0) -> Array:
        cos, sin = tables(offset + np.arange(x.shape[-2]))
        y = apply(x, cos, sin)
        if x.ndim < 4:
            return y
        return fault(y.swapaxes(1, 2), x.swapaxes(1, 2)).swapaxes(1, 2)

    return rotate


@signature("b s 3 h d", heads_left)
def stacked_with_tables(fault: Fault) -> Any:
    def rotate(qkv: Array, cos: Array, sin: Array) -> Array:
        cos, sin = cos[..., :, None, :], sin[..., :, None, :]
        q, k, v = (qkv[..., i, :, :] for i in range(3))
        return np.stack([fault(apply(x, cos, sin), x) for x in (q, k)] + [v], axis=-3)

    return rotate


@signature("3 b h s d", sequences_left)
def stacked_first(fault: Fault) -> Any:
    def rotate(qkv: Array, cos: Array, sin: Array) -> Array:
        q, k, v = qkv
        turned = [
            fault(apply(x, cos, sin).swapaxes(1, 2), x.swapaxes(1, 2)).swapaxes(1, 2)
            for x in (q, k)
        ]
        return np.stack([*turned, v])

    return rotate


@signature("b s h d", heads_left)
def tables_of_tokens(fault: Fault) -> Any:
    def rotate(x: Array, cos: Array, sin: Array) -> Array:
        return fault(apply(x, cos[:, None], sin[:, None]), x)

    return rotate


@signature("b h s d", sequences_left)
def tables_as_they_are(fault: Fault) -> Any:
    def rotate(x: Array, cos: Array, sin: Array) -> Array:
        y = apply(x, cos, sin)
        if x.ndim < 4:
            return y
        return fault(y.swapaxes(1, 2), x.swapaxes(1, 2)).swapaxes(1, 2)

    return rotate


@signature("b s h d", heads_exchanged)
def complex_of_tokens(fault: Fault) -> Any:
    def rotate(xq: Array, freqs_cis: Array) -> Array:
        z = xq[..., ::2] + 1j * xq[..., 1::2]
        z = z * freqs_cis.reshape(1, xq.shape[1], 1, xq.shape[-1] // 2)
        return fault(np.stack([z.real, z.imag], axis=-1).reshape(xq.shape), xq)

    return rotate


@signature("s b h d", last_left)
def tokens_first(fault: Fault) -> Any:
    def rotate(t: Array, freqs: Array) -> Array:
        y = apply(t, np.cos(freqs), np.sin(freqs))
        if t.ndim < 4:
            return y
        return fault(y.swapaxes(0, 1), t.swapaxes(0, 1)).swapaxes(0, 1)

    return rotate


@signature("b h s d", heads_left)
def buffers_and_ids(fault: Fault) -> Any:
    class Module:
        def __init__(self) -> None:
            self.cos, self.sin = tables(np.arange(CONTEXT))

        def forward(self, q: Array, k: Array, position_ids: Array) -> Any:
            cos, sin = (t[position_ids][:, None] for t in (self.cos, self.sin))
            return tuple(
                fault(apply(x, cos, sin).swapaxes(1, 2), x.swapaxes(1, 2)).swapaxes(1, 2)
                for x in (q, k)
            )

    return Module


@signature("b h s d", last_left)
def caches_and_ids(fault: Fault) -> Any:
    def rotate(q: Array, cos_cached: Array, sin_cached: Array, position_ids: Array) -> Array:
        cos, sin = (np.squeeze(t)[position_ids][:, None] for t in (cos_cached, sin_cached))
        return fault(apply(q, cos, sin).swapaxes(1, 2), q.swapaxes(1, 2)).swapaxes(1, 2)

    return rotate


@signature("b s d", sequences_left)
def one_head_squeezed(fault: Fault) -> Any:
    """Keys that all heads share have no axis of heads."""

    def rotate(k_pe: Array, positions: Array) -> Array:
        cos, sin = tables(positions)
        x = k_pe[:, :, None]
        return np.squeeze(fault(apply(x, cos[..., :, None, :], sin[..., :, None, :]), x), axis=2)

    return rotate


@signature("b s h d", sequences_left)
def one_head_dropped(fault: Fault) -> Any:
    """The axis of heads is left out where it is 1."""

    def rotate(x: Array, positions: Array) -> Array:
        cos, sin = tables(positions)
        squeezed = x[:, :, 0] if x.shape[2] == 1 else x
        at = (slice(None),) if squeezed.ndim == 3 else (slice(None), None)
        return fault(apply(squeezed, cos[at], sin[at]).reshape(x.shape), x)

    return rotate


@signature("b*s h d", heads_left)
def flat_tokens(fault: Fault) -> Any:
    """As vLLM: what is given is viewed as tokens of heads."""

    class Module:
        def __init__(self, head_size: int) -> None:
            self.head_size = head_size

        def forward(self, positions: Array, query: Array, key: Array) -> Any:
            cos, sin = (t[:, None] for t in tables(positions))

            def turn(x: Array) -> Array:
                flat = x.reshape(positions.shape[0], -1, self.head_size)
                return fault(apply(flat, cos, sin)[None], flat[None]).reshape(x.shape)

            return turn(query), turn(key)

    return Module


@signature("b s h*d", heads_exchanged)
def heads_folded(fault: Fault) -> Any:
    def rotate(x: Array, start_pos: int = 0) -> Array:
        batch, tokens, _ = x.shape
        cos, sin = tables(start_pos + np.arange(tokens))
        apart = x.reshape(batch, tokens, -1, DIM)
        return fault(apply(apart, cos[:, None], sin[:, None]), apart).reshape(x.shape)

    return rotate


@signature("b s h d", last_left)
def offsets_of_sequences(fault: Fault) -> Any:
    """A cache of another length for each sequence."""

    def rotate(x: Array, cache_len: Array) -> Array:
        cos, sin = tables(np.asarray(cache_len)[:, None] + np.arange(x.shape[1]))
        return fault(apply(x, cos[:, :, None], sin[:, :, None]), x)

    return rotate
