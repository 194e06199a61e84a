"""Positional encodings as people write them in NumPy, all of them right."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def interleaved(length: int, dim: int) -> Array:
    """Return the table of Vaswani et al., as their equations have it."""
    angles = np.arange(length)[:, None] / 10_000.0 ** (np.arange(0, dim, 2) / dim)
    table = np.zeros((length, dim), np.float32)
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    return table


def concatenated(length: int, dim: int) -> Array:
    """Return all sines before all cosines."""
    angles = np.outer(np.arange(length), 10_000.0 ** (-np.arange(dim // 2) * 2 / dim))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1).astype(np.float32)


def over_fewer(length: int, dim: int) -> Array:
    """Return the table of tensor2tensor, with exponents over d - 2."""
    step = math.log(10_000.0) / max(1, dim // 2 - 1)
    angles = np.outer(np.arange(length), np.exp(-step * np.arange(dim // 2)))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1).astype(np.float32)


def at_positions(positions: Array, dim: int) -> Array:
    """Return codes of positions, whatever their order."""
    angles = np.asarray(positions)[:, None] * np.exp(-math.log(1e4) * np.arange(0, dim, 2) / dim)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(angles), dim)


class Added:
    """A layer that adds the table to embeddings."""

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        self.table = interleaved(max_len, d_model)

    def __call__(self, x: Array) -> Array:
        return (x + self.table[: x.shape[1]]).astype(x.dtype)


def grid_of_mae(embed_dim: int, grid_size: int) -> Array:
    """Return the table of a square grid as MAE has it: columns first."""
    rows, columns = np.divmod(np.arange(grid_size**2), grid_size)
    omega = 10_000.0 ** (-np.arange(embed_dim // 4) / (embed_dim / 4))
    parts = [of(np.outer(each, omega)) for each in (columns, rows) for of in (np.sin, np.cos)]
    return np.concatenate(parts, axis=1)


def learned(positions: Array, table: Array) -> Array:
    """Return rows of a table that is learned."""
    return np.asarray(table[positions])


def learned_from_two(positions: Array, table: Array) -> Array:
    """Return rows of a table whose first two rows are kept for padding."""
    return np.asarray(table[positions + 2])


def slopes(heads: int) -> Array:
    """Return ALiBi's slopes, as the authors' code has them for all numbers of heads."""
    below = 2 ** math.floor(math.log2(heads))
    first = 2.0 ** (-8 * np.arange(1, below + 1) / below)
    more = 2.0 ** (-4 * np.arange(1, 2 * below + 1) / below)
    return np.concatenate([first, more[0::2][: heads - below]])


def alibi(heads: int, query_length: int, key_length: int) -> Array:
    """Return ALiBi's bias with later keys masked."""
    distance = np.arange(key_length) - np.arange(query_length)[:, None]
    bias = slopes(heads)[:, None, None] * distance
    return np.where(distance > 0, -np.inf, bias).astype(np.float32)


def symmetric(heads: int, query_length: int, key_length: int) -> Array:
    """Return ALiBi's bias of an encoder."""
    distance = np.abs(np.arange(key_length) - np.arange(query_length)[:, None])
    return np.asarray((-slopes(heads)[:, None, None] * distance).astype(np.float32))


def of_keys(heads: int, key_length: int) -> Array:
    """Return the bias of keys alone, as BLOOM has it."""
    return (slopes(heads)[:, None, None] * np.arange(key_length)).astype(np.float32)


def of_mask(attention_mask: Array, num_heads: int) -> Array:
    """Return BLOOM's bias from a mask of tokens."""
    positions = (np.cumsum(attention_mask, axis=-1) - 1) * attention_mask
    bias = slopes(num_heads)[None, :, None, None] * positions[:, None, None, :]
    return np.asarray(bias.astype(np.float32))


def buckets(
    relative_position: Array,
    bidirectional: bool = True,
    num_buckets: int = 32,
    max_distance: int = 128,
) -> Array:
    """Return T5's buckets."""
    first: Any = 0
    if bidirectional:
        num_buckets //= 2
        first = (relative_position > 0) * num_buckets
        distance = np.abs(relative_position)
    else:
        distance = np.maximum(-relative_position, 0)
    exact = num_buckets // 2
    share = np.log(np.maximum(distance, 1) / exact) / math.log(max_distance / exact)
    far = exact + (share * (num_buckets - exact)).astype(np.int64)
    found = np.where(distance < exact, distance, np.minimum(far, num_buckets - 1))
    return np.asarray(first + found)


def t5(query_length: int, key_length: int, table: Array) -> Array:
    """Return T5's bias of a table of values, (buckets, heads)."""
    relative = np.arange(key_length) - np.arange(query_length)[:, None]
    return np.asarray(table[buckets(relative)].transpose(2, 0, 1))


def kerple(query_length: int, key_length: int, r1: Array, r2: Array) -> Array:
    """Return KERPLE's bias in its logarithmic form."""
    r1, r2 = (np.maximum(each, 0.01).reshape(-1, 1, 1) for each in (r1, r2))
    distance = np.abs(np.arange(key_length) - np.arange(query_length)[:, None])
    return np.asarray(-r1 * np.log1p(r2 * distance))


def fire(
    query_length: int,
    key_length: int,
    hidden: Array,
    hidden_bias: Array,
    output: Array,
    output_bias: Array,
    c: Array,
    threshold: Array,
) -> Array:
    """Return FIRE's bias by a network of two layers."""
    m = np.arange(query_length)[:, None]
    distance = np.abs(m - np.arange(key_length))
    c, threshold = np.abs(c), np.abs(threshold)
    with np.errstate(all="ignore"):
        ratio = np.log1p(c * distance) / np.log1p(c * np.maximum(threshold, m))
    units = np.maximum(ratio[..., None] * hidden.reshape(-1) + hidden_bias, 0)
    return np.asarray((units @ output + output_bias).transpose(2, 0, 1))


def shaw(q: Array, k: Array, key_positions: Array) -> Array:
    """Return scores with a vector for each clipped distance."""
    clip = len(key_positions) // 2
    relative = np.arange(k.shape[-2]) - np.arange(q.shape[-2])[:, None]
    vectors = key_positions[np.clip(relative, -clip, clip) + clip]
    both = q @ k.swapaxes(-1, -2) + np.einsum("bhqd,qkd->bhqk", q, vectors)
    return np.asarray(both / math.sqrt(q.shape[-1]))


def rel_shift(x: Array) -> Array:
    """Return scores by distance moved to their keys, by Dai et al.'s trick of padding."""
    batch, heads, queries, keys = x.shape
    padded = np.concatenate([np.zeros((batch, heads, queries, 1), x.dtype), x], axis=-1)
    return padded.reshape(batch, heads, keys + 1, queries)[:, :, 1:].reshape(x.shape)


def transformer_xl(q: Array, k: Array, r: Array, u: Array, v: Array) -> Array:
    """Return Transformer-XL's scores."""
    content = (q + u[:, None]) @ k.swapaxes(-1, -2)
    by_distance = (q + v[:, None]) @ r.swapaxes(-1, -2)
    return (content + rel_shift(by_distance)) / math.sqrt(q.shape[-1])


def deberta(q: Array, k: Array, pos_key: Array, pos_query: Array) -> Array:
    """Return the disentangled scores of DeBERTa."""
    clip = len(pos_key) // 2
    delta = np.arange(q.shape[-2])[:, None] - np.arange(k.shape[-2]) + clip
    delta = np.clip(delta, 0, 2 * clip - 1)
    total = q @ k.swapaxes(-1, -2) + np.einsum("bhqd,qkd->bhqk", q, pos_key[delta])
    total = total + np.einsum("bhkd,qkd->bhqk", k, pos_query[delta])
    return np.asarray(total / math.sqrt(3 * q.shape[-1]))


def log_buckets(relative_pos: Array, bucket_size: int = 32, max_position: int = 128) -> Array:
    """Return DeBERTa v2's buckets."""
    sign, middle = np.sign(relative_pos), bucket_size // 2
    distance = np.abs(relative_pos)
    share = np.log(np.maximum(distance, 1) / middle) / math.log((max_position - 1) / middle)
    far = np.ceil(share * (middle - 1)) + middle
    return np.where(distance <= middle, relative_pos, sign * far).astype(np.int64)


def tupe(q: Array, k: Array, pos_q: Array, pos_k: Array) -> Array:
    """Return TUPE's scores: of contents and of positions, apart."""
    both = q @ k.swapaxes(-1, -2) + pos_q @ pos_k.swapaxes(-1, -2)
    return np.asarray(both / math.sqrt(2 * q.shape[-1]))


def cope(q: Array, k: Array, pos_emb: Array) -> Array:
    """Return scores with positions counted by gates (CoPE)."""
    logits = q @ k.swapaxes(-1, -2)
    seen = np.tri(q.shape[-2], k.shape[-2], dtype=bool)
    gates = np.where(seen, 1 / (1 + np.exp(-logits)), 0)
    counted = np.cumsum(gates[..., ::-1], axis=-1)[..., ::-1]
    counted = np.minimum(counted, len(pos_emb) - 1)
    low, high = np.floor(counted), np.ceil(counted)
    products = q @ pos_emb.T
    below, above = (np.take_along_axis(products, each.astype(np.int64), -1) for each in (low, high))
    share = counted - low
    own = below * (1 - share) + above * share
    return np.where(seen, (logits + own) / math.sqrt(q.shape[-1]), -np.inf)


def rope(q: Array, k: Array) -> Array:
    """Return scores of queries and keys that are rotated in halves."""

    def rotate(x: Array) -> Array:
        half = x.shape[-1] // 2
        angles = np.outer(np.arange(x.shape[-2]), 10_000.0 ** (-np.arange(half) / half))
        first, second = x[..., :half], x[..., half:]
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

    return rotate(q) @ rotate(k).swapaxes(-1, -2) / math.sqrt(q.shape[-1])


def nope(q: Array, k: Array) -> Array:
    """Return scores without positions."""
    return q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])


@dataclass(frozen=True, kw_only=True)
class Right:
    """Right code of an encoding, and the words that its verdict has."""

    name: str
    code: Callable[..., Any]
    encoding: str
    form: str
    reading: str = ""  #: All of it.
    released: str = ""  #: One of those who release it so.
    options: Mapping[str, Any] = field(default_factory=dict)


def _right(code: Callable[..., Any], encoding: str, form: str, *words: str, **more: Any) -> Right:
    reading, released = (*words, "", "")[:2]
    return Right(
        name=code.__name__.lower(),
        code=code,
        encoding=encoding,
        form=form,
        reading=reading,
        released=released,
        **more,
    )


RIGHT: dict[str, Right] = {
    each.name: each
    for each in (
        _right(interleaved, "sinusoidal", "table"),
        _right(concatenated, "sinusoidal", "table", "all sines before all cosines", "Whisper"),
        _right(
            over_fewer,
            "sinusoidal",
            "table",
            "all sines before all cosines, exponents are over d - 2",
            "tensor2tensor",
        ),
        _right(at_positions, "sinusoidal", "table"),
        _right(Added, "sinusoidal", "table"),
        _right(grid_of_mae, "sinusoidal", "grid", "columns first", "MAE"),
        _right(learned, "learned", "table"),
        _right(learned_from_two, "learned", "table", "positions start at 2", "OPT"),
        _right(slopes, "alibi", "slopes"),
        _right(alibi, "alibi", "bias"),
        _right(symmetric, "alibi", "bias", "symmetric", "x-transformers"),
        _right(
            of_keys,
            "alibi",
            "bias",
            "slope times the key's position, the same up to a constant of each query",
            "BLOOM",
        ),
        _right(
            of_mask,
            "alibi",
            "bias",
            "slope times the key's position, the same up to a constant of each query",
            "BLOOM",
        ),
        _right(buckets, "t5", "buckets"),
        _right(t5, "t5", "bias"),
        _right(kerple, "kerple", "bias"),
        _right(fire, "fire", "bias"),
        _right(shaw, "shaw", "scores"),
        _right(transformer_xl, "transformer_xl", "scores"),
        _right(rel_shift, "transformer_xl", "shift"),
        _right(deberta, "deberta", "scores"),
        _right(log_buckets, "deberta", "buckets"),
        _right(tupe, "tupe", "scores"),
        _right(cope, "cope", "scores"),
        _right(rope, "rope", "scores", "halves", "GPT-NeoX"),
        _right(nope, "nope", "scores"),
    )
}
