"""Calling conventions are found by signature and trial, each as one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from helpers import slow

from ropecli import Rotary
from ropecli.checks.implementation.call import MEMORY, Call, Setup, Unsupported
from ropecli.checks.implementation.calling.discover import NotCallable, Search
from ropecli.checks.implementation.calling.run import Caller
from ropecli.checks.implementation.calling.source import Here
from ropecli.checks.implementation.interface import Implementation

Array = Any  # of NumPy
ROPE = Rotary(head_dim=8, layout="half")
CASES: list[Any] = []
#: Those that are found late in the search.
LONG = {"angles_of_two_sequences", "of_lengths", "side_by_side", "rows_of_frequencies"}


def found(
    target: Any,
    other: Any = None,
    *,
    layout: str = "half",
    init: dict[str, Any] | None = None,
    **given: str,
) -> str:
    """Return the options that say the convention found."""
    search = searching(target, other, Rotary(head_dim=8, layout=layout), init=init or {}, **given)
    return search.find_arrangements(*search.discover()).judged[0].options()


def searching(
    target: Any,
    other: Any = None,
    rope: Rotary = ROPE,
    init: dict[str, Any] | None = None,
    **given: str,
) -> Search:
    caller = Caller(Here(target=target, other=other), isolated=False)
    known = {"framework": "numpy", **given}
    return Search(caller=caller, rope=rope, context=64, given=known, init=init or {})


def made(target: Any, **given: Any) -> tuple[Caller, int]:
    """Make an instance by the convention found."""
    search = searching(target, **given)
    return search.caller, search.caller.make(
        Setup(convention=search.discover()[0], rope=ROPE, context=64)
    )


def add_case(options: str, **how: Any) -> Callable[[Any], Any]:
    """Keep a target as a case: by which options it is called, and how that is asked for."""

    def keep(target: Any) -> Any:
        marks = [pytest.mark.slow] if target.__name__ in LONG or len(CASES) % 2 else []
        CASES.append(pytest.param(target, options, how, id=target.__name__, marks=marks))
        return target

    return keep


def turn_halves(x: Array, cos: Array, sin: Array) -> Array:
    """Rotate halves by tables of single columns that broadcast."""
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def swap_halves(x: Array) -> Array:
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([-b, a], axis=-1)


def swap_neighbours(x: Array) -> Array:
    return np.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape)


def phases(positions: Array, dim: int, base: float = 10000.0) -> Array:
    return positions[..., None] * base ** (-np.arange(0, dim, 2) / dim)


# Positions.


@add_case('--call "by_positions(x, positions)" --axes-of-x "b h s d"')
def by_positions(x: Array, positions: Array) -> Array:
    angles = phases(positions, x.shape[-1])
    return turn_halves(x, np.cos(angles), np.sin(angles))


@add_case('--call "positions_first(positions, x)" --axes-of-x "b h s d"')
def positions_first(pos: Array, x: Array) -> Array:
    return by_positions(x, pos)


@add_case('--call "of_each_sequence(x, positions)" --axes-of-x "b s h d" --axes-of-positions "b s"')
def of_each_sequence(x: Array, position_ids: Array) -> Array:
    angles = phases(position_ids, x.shape[-1])[:, :, None]
    return turn_halves(x, np.cos(angles), np.sin(angles))


@add_case(
    '--call "queries_and_keys(positions, q, k)" --axes-of-x "b*s h*d" --axes-of-positions "b*s"'
)
def queries_and_keys(positions: Array, query: Array, key: Array) -> tuple[Array, Array]:
    assert positions.ndim == 1
    assert query.ndim == 2
    assert len(positions) == len(query)
    angles = phases(positions, 8)[:, None]
    return tuple(
        turn_halves(x.reshape(len(x), -1, 8), np.cos(angles), np.sin(angles)).reshape(x.shape)
        for x in (query, key)
    )


@add_case('--call "only_floats(x, positions)" --axes-of-x "b h s d" --positions-dtype float32')
def only_floats(x: Array, positions: Array) -> Array:
    assert positions.dtype == np.float32
    return by_positions(x, positions)


@add_case('--call "implied(x)" --axes-of-x "s d"')
def implied(x: Array) -> Array:
    length, _ = x.shape
    return by_positions(x, np.arange(length))


@add_case('--call "of_two_sequences(x)" --axes-of-x "s b h d"')
def of_two_sequences(x: Array) -> Array:
    if x.shape[1] > 2:
        raise ValueError(f"at most two sequences, got {x.shape[1]}")
    return by_positions(x.transpose(1, 2, 0, 3), np.arange(len(x))).transpose(2, 0, 1, 3)


@add_case('--call "angles_of_two_sequences(x, freqs)" --axes-of-x "b s h*d"')
def angles_of_two_sequences(x: Array, freqs: Array) -> Array:
    batch, length, _ = x.shape
    if batch > 2 or freqs.shape[:2] != (batch, length):
        raise ValueError(f"at most two sequences and their angles, got {x.shape} and {freqs.shape}")
    heads = x.reshape(batch, length, -1, 8).swapaxes(1, 2)
    y = turn_halves(heads, np.cos(freqs)[:, None, :, :4], np.sin(freqs)[:, None, :, :4])
    return y.swapaxes(1, 2).reshape(x.shape)


@add_case('--call "from_an_offset(x, offset)" --axes-of-x "b h s d"')
def from_an_offset(x: Array, offset: int) -> Array:
    assert isinstance(offset, int)
    return by_positions(x, offset + np.arange(x.shape[-2]))


@add_case('--call "with_defaults(x, start_pos=offset)" --axes-of-x "b s h d"')
def with_defaults(x: Array, start_pos: int = 0, base: float = 10000.0) -> Array:
    angles = phases(start_pos + np.arange(x.shape[1]), x.shape[-1], base)[:, None]
    return turn_halves(x, np.cos(angles), np.sin(angles))


@add_case('--call "offset_of_each(q, k, offsets)" --axes-of-x "b h s d"')
def offset_of_each(q: Array, k: Array, offset: Array) -> list[Array]:
    assert offset.shape == (len(q),)
    angles = phases(offset[:, None] + np.arange(q.shape[2]), q.shape[-1])[:, None]
    return [turn_halves(x, np.cos(angles), np.sin(angles)) for x in (q, k)]


@add_case('--call "names_an_axis(x, 2, offset=offset)" --axes-of-x "b h s d"')
def names_an_axis(x: Array, seq_dim: int, offset: int = 0) -> Array:
    places = offset + np.arange(x.shape[seq_dim])
    moved = np.moveaxis(x, seq_dim, -2)
    return np.moveaxis(by_positions(moved, places), -2, seq_dim)


@add_case('--call "by_dim_and_base(x, head_dim, offset, base=base)" --axes-of-x "b h s d"')
def by_dim_and_base(x: Array, dims: int, start: int, *, base: float) -> Array:
    return turn_halves(
        x, *(f(phases(start + np.arange(x.shape[2]), dims, base)) for f in (np.cos, np.sin))
    )


@add_case(
    '--call "with_inverse(q, k, positions, inv_freq)" --axes-of-x "b h s d" --tables-dtype float64'
)
def with_inverse(q: Array, k: Array, positions: Array, inv_freq: Array) -> dict[str, Array]:
    angles = positions[..., None] * inv_freq
    return {
        "q": turn_halves(q, np.cos(angles), np.sin(angles)),
        "k": turn_halves(k, np.cos(angles), np.sin(angles)),
    }


# Tables of cosines and sines.


@add_case('--call "of_transformers(q, k, cos, sin)" --axes-of-x "b h s d"')
def of_transformers(
    q: Array, k: Array, cos: Array, sin: Array, position_ids: Any = None, unsqueeze_dim: int = 1
) -> tuple[Array, Array]:
    cos, sin = np.expand_dims(cos, unsqueeze_dim), np.expand_dims(sin, unsqueeze_dim)
    return q * cos + swap_halves(q) * sin, k * cos + swap_halves(k) * sin


@add_case('--call "sines_first(x, sin, cos)" --axes-of-x "b s h d" --tables single')
def sines_first(tensor: Array, sin: Array, cos: Array) -> Array:
    cos, sin = (np.repeat(table, 2, axis=-1)[:, :, None] for table in (cos, sin))
    return tensor * cos + swap_neighbours(tensor) * sin


@add_case(
    '--call "interleaved_columns(x, cos, sin)" --axes-of-x "b h s d" --axes-of-tables "s d" '
    "--tables interleaved"
)
def interleaved_columns(x: Array, freqs_cos: Array, freqs_sin: Array) -> Array:
    (_, _, length, _), rows = x.shape, (len(freqs_cos), len(freqs_sin))
    assert rows == (length, length)
    return x * freqs_cos + swap_neighbours(x) * freqs_sin


@add_case('--call "needs_an_axis(x, cos, sin, 1)" --axes-of-x "b h s d"')
def needs_an_axis(x: Array, cos: Array, sin: Array, unsqueeze_dim: int) -> Array:
    return of_transformers(x, x, cos, sin, None, unsqueeze_dim)[0]


@add_case('--call "a_pair(x, (cos, sin))" --axes-of-x "b h s d" --axes-of-tables "s d"')
def a_pair(x: Array, position_embeddings: tuple[Array, Array]) -> Array:
    cos, sin = position_embeddings
    assert cos.ndim == 2
    return x * cos + swap_halves(x) * sin


@add_case('--call "a_pair_of_sines_first(x, (sin, cos))" --axes-of-x "b h s d" --tables single')
def a_pair_of_sines_first(x: Array, sincos: tuple[Array, Array]) -> Array:
    sin, cos = sincos
    return turn_halves(x, cos[:, None], sin[:, None])


@add_case('--call "spelt_out(x, cos, sin)" --axes-of-x "b h s d" --tables single')
def spelt_out(value: Array, cosine: Array, sine: Array) -> Array:
    return turn_halves(value, cosine[:, None], sine[:, None])


@add_case('--call "with_a_dim_of_its_own(x, positions, head_dim=head_dim)" --axes-of-x "b h s d"')
def with_a_dim_of_its_own(x: Array, positions: Array, head_dim: int = 128) -> Array:
    return by_dim_and_base(x, head_dim, positions[0], base=10000.0)


@add_case(
    '--call "of_onnxruntime(x, cos_cache, sin_cache, offset, False)" --axes-of-x "b s h d" '
    "--tables single"
)
def of_onnxruntime(x: Array, cos: Array, sin: Array, pos: int, interleaved: bool) -> Array:
    assert not interleaved
    rows = slice(pos, pos + x.shape[1])
    return turn_halves(x, cos[rows, None], sin[rows, None])


@add_case(
    '--call "rows_by_positions(q, k, cos_cache, sin_cache, positions)" --axes-of-x "b h s d" '
    '--axes-of-positions "b s"'
)
def rows_by_positions(q: Array, k: Array, cos: Array, sin: Array, position_ids: Array) -> Any:
    return of_transformers(q, k, cos[position_ids], sin[position_ids])


@add_case(
    '--call "side_by_side(positions, q, k, cos_sin_cache, True)" --axes-of-x "b*s h d" '
    '--axes-of-positions "b*s"'
)
def side_by_side(
    positions: Array, query: Array, key: Array, cos_sin_cache: Array, is_neox: bool
) -> tuple[Array, Array]:
    assert is_neox
    assert query.ndim == 3
    assert len(positions) == len(query)
    cos, sin = np.split(cos_sin_cache[positions][:, None], 2, axis=-1)
    return turn_halves(query, cos, sin), turn_halves(key, cos, sin)


# Frequencies.


@add_case('--call "angles_of_megatron(x, freqs)" --axes-of-x "s b h d" --axes-of-tables "s 1 1 d"')
def angles_of_megatron(t: Array, freqs: Array) -> Array:
    assert freqs.ndim == 4
    assert freqs.shape[1:3] == (1, 1)
    assert len(freqs) == len(t)
    return t * np.cos(freqs) + swap_halves(t) * np.sin(freqs)


@add_case('--call "freqs_first(freqs, x)" --axes-of-x "b h s d" --axes-of-tables "s d"')
def freqs_first(pos: Array, t: Array) -> Array:
    assert pos.ndim == 2
    assert pos.shape[-1] == t.shape[-1]
    return t * np.cos(pos) + swap_halves(t) * np.sin(pos)


def as_complex(x: Array) -> Array:
    return x[..., ::2] + 1j * x[..., 1::2]


def as_real(z: Array) -> Array:
    return np.stack([z.real, z.imag], axis=-1).reshape(*z.shape[:-1], -1)


@add_case(
    '--call "complex_of_llama(q, k, freqs)" --axes-of-x "b s h d" --axes-of-tables "s d" '
    "--freqs complex"
)
def complex_of_llama(xq: Array, xk: Array, freqs_cis: Array) -> tuple[Array, Array]:
    assert freqs_cis.shape == (xq.shape[1], xq.shape[-1] // 2)
    return tuple(as_real(as_complex(x) * freqs_cis[:, None]) for x in (xq, xk))


@add_case('--call "stack_of_two(x, freqs)" --axes-of-x "b s h d" --tables single --freqs "cos sin"')
def stack_of_two(x: Array, rope_cache: Array) -> Array:
    cos, sin = rope_cache[:, :, None, :, 0], rope_cache[:, :, None, :, 1]
    return as_real(as_complex(x) * (cos + 1j * sin))


@add_case(
    '--call "matrices(q, k, freqs)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --freqs matrix'
)
def matrices(xq: Array, xk: Array, pe: Array) -> list[Array]:
    pairs = [x.reshape(*x.shape[:-1], -1, 1, 2) for x in (xq, xk)]
    return [(pe * x).sum(axis=-1).reshape(xq.shape) for x in pairs]


@add_case(
    '--call "sines_then_cosines(freqs, q, k)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" '
    '--tables single --freqs "sin then cos"'
)
def sines_then_cosines(sinusoidal_pos: Array, query: Array, key: Array, value: Any = None) -> Any:
    assert value is None
    sin, cos = (np.repeat(each, 2, axis=-1) for each in np.split(sinusoidal_pos, 2, axis=-1))
    return query * cos + swap_neighbours(query) * sin, key * cos + swap_neighbours(key) * sin


@add_case(
    '--call "stacked_first(x, freqs)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" '
    "--freqs stacked"
)
def stacked_first(x: Array, rotary_emb: Array) -> Array:
    cos, sin = rotary_emb
    assert rotary_emb.shape[0] == 2
    return x * cos + swap_halves(x) * sin


@add_case(
    '--call "rows_of_frequencies(q, k, positions, freqs_cache)" --axes-of-x "b h s d" '
    '--tables single --freqs "cos then sin"'
)
def rows_of_frequencies(query: Array, key: Array, positions: Array, frequencies: Array) -> Any:
    cos, sin = np.split(frequencies[positions], 2, axis=-1)
    return turn_halves(query, cos, sin), turn_halves(key, cos, sin)


@add_case(
    '--call "single_tables(x, cos, sin)" --axes-of-x "b h s d" --tables single '
    "--tables-dtype float32"
)
def single_tables(x: Array, cos: Array, sin: Array) -> Array:
    assert cos.dtype == sin.dtype == np.float32
    return turn_halves(x, cos[:, None], sin[:, None]).astype(x.dtype)


@add_case(
    '--call "single_inverse(x, positions, inv_freq)" --axes-of-x "b h s d" --tables-dtype float32'
)
def single_inverse(x: Array, positions: Array, inv_freq: Array) -> Array:
    angles = positions.astype(np.float32)[:, None] * inv_freq
    return turn_halves(x, np.cos(angles), np.sin(angles))


@add_case(
    '--call "of_many_options(q, k, positions)" --axes-of-x "b h s d" --axes-of-positions "b s"'
)
def of_many_options(
    q: Array,
    k: Array,
    position_ids: Array,
    cos: Any = None,
    sin: Any = None,
    freqs: Any = None,
    offset: int = 0,
    rotary_dim: Any = None,
    pos: Any = None,
    cache_position: Any = None,
    past_len: int = 0,
    rope: Any = None,
    start_pos: int = 0,
) -> list[Array]:
    assert cos is sin is freqs is rope is None
    angles = phases(position_ids, q.shape[-1])[:, None]
    return [turn_halves(x, np.cos(angles), np.sin(angles)) for x in (q, k)]


# Other axes, numbers and results.


@add_case(
    '--call "of_positions_first(x, positions)" --axes-of-x "s b h d" --axes-of-positions "s b"'
)
def of_positions_first(x: Array, positions: Array) -> Array:
    assert positions.shape == x.shape[:2]
    assert positions.shape == (5, 4)
    angles = phases(positions, x.shape[-1])[:, :, None]
    return turn_halves(x, np.cos(angles), np.sin(angles))


@add_case('--call "several(q, k, cos=cos, sin=sin)" --axes-of-x "b h s d" --tables single')
def several(*tensors: Array, cos: Array, sin: Array) -> list[Array]:
    return [turn_halves(x, cos[:, None], sin[:, None]) for x in tensors]


@add_case('--call "into_out(x, positions, out)" --axes-of-x "b h s d"')
def into_out(x: Array, positions: Array, out: Array) -> None:
    out[...] = by_positions(x, positions)


@add_case('--call "with_heads(x, heads, positions)" --axes-of-x "b s h*d"')
def with_heads(x: Array, n_heads: int, positions: Array) -> Array:
    batch, length, _ = x.shape
    apart = x.reshape(batch, length, n_heads, -1).swapaxes(1, 2)
    return by_positions(apart, positions).swapaxes(1, 2).reshape(x.shape)


@add_case(
    '--call "of_lengths(x, cos, sin, cu_seqlens)" --axes-of-x "b*s h d" --axes-of-tables "s d" '
    "--tables single"
)
def of_lengths(x: Array, cos: Array, sin: Array, cu_seqlens: Array) -> Array:
    assert x.ndim == 3
    assert cu_seqlens[-1] == len(x)
    parts = np.split(x, cu_seqlens[1:-1])
    return np.concatenate([turn_halves(p, cos[: len(p), None], sin[: len(p), None]) for p in parts])


@add_case('--call "channels_before_tokens(x, cos, sin)" --axes-of-x "b h d s" --tables single')
def channels_before_tokens(x: Array, cos: Array, sin: Array) -> Array:
    moved = np.swapaxes(x, -1, -2)
    return np.swapaxes(turn_halves(moved, cos[:, None], sin[:, None]), -1, -2)


@add_case('--call "in_place(x, positions)" --axes-of-x "b h s d"')
def in_place(x: Array, positions: Array) -> None:
    x[...] = by_positions(x, positions)


@add_case('--call "leaves_a_prefix(q, k, sin, cos, 0)" --axes-of-x "b h s d" --tables single')
def leaves_a_prefix(q: Array, k: Array, sin: Array, cos: Array, prefix: int) -> list[Array]:
    assert prefix == 0
    return [turn_halves(x, cos[:, None], sin[:, None]) for x in (q, k)]


@add_case('--call "three_results(q, k, k, cos, sin)" --axes-of-x "b h s d"')
def three_results(q: Array, k: Array, v: Array, cos: Array, sin: Array) -> tuple[Array, ...]:
    return (*of_transformers(q, k, cos, sin), v)


@add_case(
    '--call "packed(qkv, cos, sin)" --axes-of-x "b s 3 h d" --axes-of-tables "s d" --tables single'
)
def packed(qkv: Array, cos: Array, sin: Array, cos_k: Any = None, sin_k: Any = None) -> Array:
    assert qkv.ndim == 5
    assert qkv.shape[1] == len(cos)
    rotated = [turn_halves(qkv[:, :, i], cos[:, None], sin[:, None]) for i in (0, 1)]
    return np.stack([*rotated, qkv[:, :, 2]], axis=2)


@add_case('--call "packed_in_place(qkv, offset)" --axes-of-x "3 b h s d"')
def packed_in_place(qkv: Array, seqlen_offset: int) -> None:
    q, k, _ = qkv
    for x in (q, k):
        x[...] = from_an_offset(x, seqlen_offset)


@add_case('--call "with_sizes(x, cos, sin, rotary_dim, causal=False)" --axes-of-x "b h s d"')
def with_sizes(x: Array, cos: Array, sin: Array, rotary_ndims: int, *, causal: bool) -> Array:
    assert not causal
    assert cos.shape[-1] == rotary_ndims
    return of_transformers(x, x, cos, sin)[0]


@add_case(
    '--call "gathers(q, k, cos_cache, sin_cache, positions)" --axes-of-x "b h s d" '
    '--axes-of-positions "b s" --axes-of-tables "1 1 s d"'
)
def gathers(q: Array, k: Array, cos: Array, sin: Array, position_ids: Array) -> Any:
    assert cos.shape[:2] == (1, 1)
    return of_transformers(q, k, cos[0, 0, position_ids], sin[0, 0, position_ids])


# Classes.


@add_case('--call "OfPositions(dim=head_dim)(x, positions)" --axes-of-x "b h s d"')
class OfPositions:
    def __init__(self, dim: int, base: float = 10000.0, max_len: int = 64) -> None:
        self.dim = dim

    def forward(self, x: Array, positions: Array) -> Array:
        assert x.shape[-1] == self.dim
        return by_positions(x, positions)

    def __call__(self, x: Array, positions: Array) -> Array:
        return self.forward(x, positions)


@add_case(
    '--call "WithFlags(head_size=head_dim, rotary_dim=rotary_dim, max_position=context, base=base, '
    'is_neox_style=True, dtype=dtype)(positions, q, k)" --axes-of-x "b h s d"'
)
class WithFlags:
    def __init__(
        self,
        head_size: int,
        rotary_dim: int,
        max_position: int,
        base: float,
        is_neox_style: bool,
        dtype: Any,
    ) -> None:
        assert is_neox_style
        assert dtype is np.float32
        assert head_size == rotary_dim
        self.table = phases(np.arange(max_position), rotary_dim, base)

    def __call__(self, positions: Array, query: Array, key: Array) -> tuple[Array, Array]:
        cos, sin = np.cos(self.table[positions]), np.sin(self.table[positions])
        return turn_halves(query, cos, sin), turn_halves(key, cos, sin)


@add_case(
    '--call "OtherMethod(dim=head_dim).rotate_queries_or_keys(x, offset=offset)" '
    '--axes-of-x "b h s d"'
)
class OtherMethod:
    def __init__(self, dim: int) -> None:
        self.dim = dim

    def forward(self, t: Array) -> Array:
        return phases(t, self.dim)

    def rotate_queries_or_keys(self, t: Array, offset: int = 0) -> Array:
        return by_positions(t, offset + np.arange(t.shape[-2]))


@dataclass
class Config:
    hidden_size: int
    num_attention_heads: int
    rope_theta: float = 10000.0
    max_position_embeddings: int = 2048
    vocabulary: int = 32000


@add_case(
    '--call "Configured(config=Config(hidden_size=head_dim, num_attention_heads=1, '
    'rope_theta=base, max_position_embeddings=context))(q, k)" --axes-of-x "b h s d"'
)
class Configured:
    def __init__(self, config: Config) -> None:
        self.dim = config.hidden_size // config.num_attention_heads

    def __call__(self, q: Array, k: Array) -> list[Array]:
        return [by_positions(x, np.arange(x.shape[-2])) for x in (q, k)]


@add_case(
    '--call "OfSizes(config=config)(x, positions)" --axes-of-x "b h s d"',
)
class OfSizes:
    def __init__(self, config: Any) -> None:
        self.dim = config.hidden_size // config.num_attention_heads
        self.base = config["rope_theta"]
        assert config.get("vocabulary") is None

    def __call__(self, x: Array, positions: Array) -> Array:
        angles = phases(positions, self.dim, self.base)
        return turn_halves(x, np.cos(angles), np.sin(angles))


# What is wrong is called as it says all the same, and not as is right.


@add_case('--call "by_the_first(x, position_ids=positions)" --axes-of-x "b h s d"')
def by_the_first(x: Array, position_ids: Array | None = None) -> Array:
    places = np.arange(x.shape[-2]) if position_ids is None else position_ids[:1]
    return by_positions(x, np.broadcast_to(places, x.shape[-2]))


@add_case('--call "no_angles(x, positions)" --axes-of-x "b h s d"')
def no_angles(x: Array, input_pos: Array) -> Array:  # the first column of angles is the position
    return by_positions(x, np.broadcast_to(input_pos[..., :1].reshape(-1)[:1], x.shape[-2]))


def test_results_are_read_by_their_names() -> None:
    def rotate(q: Array, k: Array, positions: Array) -> dict[str, Array]:
        return {"key": by_positions(k, positions), "query": by_positions(q, positions)}

    engine, number = made(rotate, call="rotate(q, k, positions)", axes_of_x="b h s d")
    q, k = np.random.default_rng(0).standard_normal((2, 1, 2, 5, 8))
    answer = engine.call(number, Call.of(q, np.arange(5), k))
    np.testing.assert_array_equal(answer.q, by_positions(q, np.arange(5)))
    assert answer.k is not None
    np.testing.assert_array_equal(answer.k, by_positions(k, np.arange(5)))


# Tables that one makes and another takes.


class Tables:
    def __init__(self, dim: int) -> None:
        self.dim = dim

    def __call__(self, x: Array, position_ids: Array) -> tuple[Array, Array]:
        angles = np.concatenate([phases(position_ids, self.dim)] * 2, axis=-1)
        return np.cos(angles), np.sin(angles)


def precompute_freqs_cis(dim: int, end: int, theta: float = 10000.0) -> Array:
    return np.exp(1j * phases(np.arange(end), dim, theta))


def build_rope_cache(seq_len: int, n_elem: int) -> tuple[Array, Array]:
    angles = np.concatenate([phases(np.arange(seq_len), n_elem)] * 2, axis=-1)
    return np.cos(angles), np.sin(angles)


class AnglesAndScale:
    def __init__(self, dim: int) -> None:
        self.dim = dim

    def forward(self, seq_len: int) -> tuple[Array, Array]:
        angles = np.concatenate([phases(np.arange(seq_len), self.dim)] * 2, axis=-1)
        return angles, 0.999 ** np.arange(seq_len)[:, None]


def scaled_by_the_last(pos: Array, t: Array, scale: Any = 1.0) -> Array:
    return (t * np.cos(pos) + swap_halves(t) * np.sin(pos)) * scale


def rope(pos: Array, dim: int, theta: float) -> Array:
    c, s = (f(phases(pos, dim, theta)) for f in (np.cos, np.sin))
    return np.stack([c, -s, s, c], axis=-1).reshape(*c.shape, 2, 2)


@pytest.mark.parametrize(
    ("target", "other", "options"),
    [
        (
            Tables,
            of_transformers,
            '--call "of_transformers(q, k, *Tables(dim=head_dim)(x, positions))" '
            '--axes-of-x "b h s d" --axes-of-positions "b s"',
        ),
        (
            precompute_freqs_cis,
            complex_of_llama,
            '--call "complex_of_llama(q, k, precompute_freqs_cis(head_dim, context)'
            '[offset:offset + length])" --axes-of-x "b s h d"',
        ),
        (
            build_rope_cache,
            interleaved_columns,
            '--call "interleaved_columns(x, *[table[offset:] for table in '
            'build_rope_cache(offset + length, head_dim)])" --axes-of-x "b h s d"',
        ),
        (
            AnglesAndScale,
            scaled_by_the_last,
            '--call "scaled_by_the_last(*[table[offset:] for table in '
            "AnglesAndScale(dim=head_dim).forward(offset + length)][:1], x, *[table[offset:] "
            'for table in AnglesAndScale(dim=head_dim).forward(offset + length)][1:])" '
            '--axes-of-x "b h s d"',
        ),
        (
            rope,
            matrices,
            '--call "matrices(q, k, rope(positions, head_dim, base))" --axes-of-x "b h s d"',
        ),
    ],
)
def test_tables_of_one_are_given_to_the_other(target: Any, other: Any, options: str) -> None:
    assert found(target, other) == options


@pytest.mark.slow
@pytest.mark.parametrize(("target", "options", "how"), CASES)
def test_a_convention_is_found_as_one_line(target: Any, options: str, how: Any) -> None:
    assert found(target, **how) == options


@pytest.mark.parametrize(
    ("cos", "sin"),
    [
        ("cos", "sin"),
        ("cos_cache", "sin_cache"),
        ("cos_cached", "sin_cached"),
        ("freqs_cos", "freqs_sin"),
        ("cos_table", "sin_table"),
    ],
)
def test_who_is_given_tables_is_known(cos: str, sin: str) -> None:
    names = {"turn_halves": turn_halves}
    exec(
        f"def rotate(x, {cos}, {sin}, offset):\n"
        "    rows = slice(offset, offset + x.shape[1])\n"
        f"    return turn_halves(x, {cos}[rows, None], {sin}[rows, None])\n",
        names,
    )
    search = searching(names["rotate"])
    convention, _ = search.discover()
    assert "cos_cache, sin_cache, offset" in convention.call
    implementation = Implementation(search, [convention], {})
    assert implementation.tables is ROPE


# What is not called, and what is called although it is wrong.


@pytest.mark.parametrize("name", ["base", "theta", "seq_dim", "cos", "axis", "max_seq_len"])
def test_a_second_parameter_of_another_name_is_not_positions(name: str) -> None:
    seen: list[Any] = []
    names = {"seen": seen, "by_positions": by_positions, "np": np}
    exec(f"def rotate(x, {name}):\n    seen.append({name})\n    raise ValueError", names)
    with pytest.raises(NotCallable):
        found(names["rotate"])
    assert not any(isinstance(each, np.ndarray) for each in seen)


def test_a_parameter_without_a_meaning_is_named() -> None:
    def rotate(x: Array, axis: int) -> Array:
        return x

    with pytest.raises(NotCallable, match="'axis'"):
        found(rotate)


def test_what_is_given_is_not_guessed() -> None:
    options = found(of_transformers, axes_of_x="b h s d", call="of_transformers(q, k, cos, sin)")
    assert options == '--call "of_transformers(q, k, cos, sin)" --axes-of-x "b h s d"'
    with pytest.raises(NotCallable):
        found(implied, axes_of_x="b h s d")


def test_a_flag_for_the_layout_says_the_layout_asked_for() -> None:
    def rotate(x: Array, positions: Array, interleaved: bool) -> Array:
        assert interleaved
        return x * np.cos(phases(positions, 16)) + swap_neighbours(x) * np.sin(
            phases(positions, 16)
        )

    assert "rotate(x, positions, True)" in found(rotate, layout="interleaved")


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["sign", "one head", *slow("last pair", "first row", "factor")])
def test_a_wrong_kernel_is_called_as_its_signature_says(fault: str) -> None:
    def rotate(q: Array, k: Array, cos: Array, sin: Array) -> Any:
        rows = sin.copy()
        if fault == "sign":
            rows[..., : rows.shape[-1] // 2] *= -1
        if fault == "last pair":
            rows[..., -1] = 0
        if fault == "factor":
            rows *= 1.1
        right = of_transformers(q, k, cos, rows)
        if fault == "one head":
            right[0][:, 1] = q[:, 1]
        if fault == "first row":
            right[0][:, :, 0] = q[:, :, 0]
        return right

    assert found(rotate) == '--call "rotate(q, k, cos, sin)" --axes-of-x "b h s d"'


def test_tables_cut_to_the_tokens_are_not_those_of_sequences() -> None:
    """Cut to the third axis from the end, tables of sequences do where there are more heads."""

    def rotate(x: Array, freqs: Array) -> Array:
        angles = freqs[-x.shape[-3] :][:, None]
        return x * np.cos(angles) + swap_halves(x) * np.sin(angles)

    assert found(rotate) == (
        '--call "rotate(x, freqs)" --axes-of-x "b s h d" --axes-of-tables "s d"'
    )


def test_a_factor_of_its_own_does_not_hide_the_form_of_frequencies() -> None:
    """Complex frequencies are taken as well: their cosines lose the imaginary parts."""

    def rotate(t: Array, freqs: Array, mscale: float = 1.2079) -> Array:
        x, rest = np.split(t, [freqs.shape[-1]], axis=-1)
        cos, sin = ((f(freqs) * mscale).astype(t.dtype) for f in (np.cos, np.sin))
        return np.concatenate([x * cos + swap_halves(x) * sin, rest], axis=-1)

    convention, _ = searching(rotate, rope=Rotary(head_dim=64, layout="half")).discover()
    assert convention.freqs == "angles"


def test_a_kernel_that_ignores_its_offset_is_given_one() -> None:
    def rotate(x: Array, offset: int = 0) -> Array:
        return by_positions(x, np.arange(x.shape[-2]))

    assert found(rotate) == '--call "rotate(x, offset=offset)" --axes-of-x "b h s d"'


def test_keys_may_have_fewer_heads() -> None:
    engine, number = made(of_transformers)
    q = np.random.default_rng(0).standard_normal((2, 6, 5, 8))
    k = np.ascontiguousarray(q[:, :2])
    answer = engine.call(number, Call.of(q, np.arange(5), k))
    assert answer.k is not None
    np.testing.assert_array_equal(answer.k, answer.q[:, :2])


def test_stacked_queries_and_keys_have_as_many_heads() -> None:
    engine, number = made(packed)
    q, k = np.random.default_rng(0).standard_normal((2, 2, 6, 5, 8))
    answer = engine.call(number, Call.of(q, np.arange(5), k))
    assert answer.k is not None
    alone = engine.call(number, Call.of(k, np.arange(5)))
    np.testing.assert_array_equal(answer.k, alone.q)
    with pytest.raises(Unsupported, match="as many heads"):
        engine.call(number, Call.of(q, np.arange(5), k[:, :2]))


@pytest.mark.parametrize("memory", [each for each in MEMORY if each != "expanded"])
def test_what_is_written_in_place_is_not_written_into_the_request(memory: str) -> None:
    engine, number = made(in_place, call="in_place(x, positions)", axes_of_x="b h s d")
    q = np.random.default_rng(0).standard_normal((2, 2, 1, 8))
    before = q.copy()
    engine.call(number, Call.of(q, np.array([1]), memory=memory))
    np.testing.assert_array_equal(q, before)


def test_keyword_arguments_of_its_own_are_said() -> None:
    assert found(with_defaults, init={"base": 500.0}) == (
        '--call "with_defaults(x, start_pos=offset, base=500.0)" --axes-of-x "b s h d"'
    )


def test_angles_are_given_in_single_precision_at_least() -> None:
    seen = []

    def rotate(t: Array, freqs: Array) -> Array:
        seen.append(freqs.dtype)
        return t * np.cos(freqs) + swap_halves(t) * np.sin(freqs)

    engine, number = made(rotate)
    for dtype in (np.float16, np.float32, np.float64):
        x = np.ones((1, 1, 4, 8), dtype=dtype)
        engine.call(number, Call.of(x, np.arange(4)))
    assert seen[-3:] == [np.float32, np.float32, np.float64]
