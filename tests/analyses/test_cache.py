"""Errors of cached keys: shifted, of another length, quantized."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers import assert_within, for_each, slow_rows
from mpmath import mp, mpf

from ropecli import (
    ArgumentError,
    ArgumentTypeError,
    Rotary,
    cache_mix,
    cache_quantize,
    cache_shift,
    load_model,
    rope,
    rotate,
)
from ropecli.analyses.cache import ShiftingCache
from ropecli.analyses.quantization import Quantization
from ropecli.arrays import DTYPES

PLAIN = Rotary(128)
SMALL = Rotary(8)
YARN = rope("yarn", head_dim=16, factor=16.0, original_max_position_embeddings=4096)
DYNAMIC = rope("dynamic", head_dim=128, factor=1.0, max_position_embeddings=2048)
NARROW = rope("dynamic", head_dim=16, factor=2.0, max_position_embeddings=64)
LONGROPE = rope(
    "longrope",
    head_dim=4,
    short_factor=[1.0, 2.0],
    long_factor=[1.0, 8.0],
    original_max_position_embeddings=16,
    factor=4.0,
)
#: Encodings in which a shift of the keys is a rotation, or that and a growth.
SHIFTABLE = {
    "plain": SMALL,
    "half": Rotary(8, layout="half"),
    "reversed": Rotary(8, direction="reversed"),
    "partial": Rotary(8, rotary_dim=4, rotary_offset=2),
    "several axes": Rotary(8, axis=[0, 1, 2, 0]),
    "reordered": Rotary(4, pairs_in=[[0, 1], [2, 3]], pairs_out=[[0, 2], [1, 3]]),
    "xpos": rope("xpos", head_dim=8),
    "linear": rope("linear", head_dim=8, factor=4.0),
    "llama3": rope(
        "llama3",
        head_dim=8,
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=8192,
    ),
    "p-rope": rope("p_rope", head_dim=8, p=0.5),
    "a fixed alpha": rope("dynamic", head_dim=8, alpha=1000.0),
}


# Shifts.


@pytest.mark.slow
@for_each("shift, times", [(-1, 30), (7, 30), (-1000, 3)])
@for_each("name", SHIFTABLE)
def test_shifts_add_up(name: str, shift: int, times: int) -> None:
    """R_s R_n = R_(n + s); a growth, a direction or a pair that is left out shows at once."""
    result = cache_shift(SHIFTABLE[name], shift=shift, times=times, dtype="float64")
    # Each shift rounds cos and sin, a product and a sum by 2^-53 at most, and its angle once.
    angle = abs(shift) * times + 256
    assert result.by_pair.max() < (4 * times + 3 * angle) * 2.0**-53
    assert result.valid
    assert result.reason.startswith("rotations ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("bfloat16", 0.53), *slow_rows(("float32", 2.0e-5), ("float16", 0.061))],
)
def test_a_thousand_shifts_have_the_errors_that_were_measured(dtype: str, expected: float) -> None:
    result = cache_shift(PLAIN, dtype=dtype)
    assert result.key_error == pytest.approx(expected, rel=0.1)
    assert result.score_error_rms == pytest.approx(result.key_error, rel=1e-12)
    assert result.by_shifts[-1] == result.key_error
    assert (result.shifts[0], result.shifts[-1]) == (1, 1000)
    assert (np.diff(result.by_shifts) > 0).all()


@for_each("dtype", ["float32", "float16", "bfloat16"])
def test_shifts_are_those_of_the_rotation_in_the_dtype_of_the_cache(dtype: str) -> None:
    white = np.random.default_rng(3).standard_normal((256, 128)).astype(DTYPES[dtype])
    keys = rotate(white, PLAIN, np.arange(256) + 20)
    for _ in range(10):
        keys = rotate(keys, PLAIN, np.full(256, -2))
    exact = rotate(white.astype(float), PLAIN)
    expected = np.linalg.norm(keys.astype(float) - exact) / np.linalg.norm(exact)
    result = cache_shift(PLAIN, shift=-2, times=10, dtype=dtype, seed=3)
    assert result.key_error == pytest.approx(expected, rel=1e-3)


@pytest.mark.slow
def test_a_slow_pair_in_bfloat16_does_not_move() -> None:
    """A turn below half a unit of the last bit, 2^-9 of the smaller number, is rounded away."""
    result = cache_shift(PLAIN)
    still = PLAIN.inv_freq < 2.0**-12
    missing = 2 * np.sin(500 * PLAIN.inv_freq[still])
    assert_within("error", got=result.by_pair[still], expected=missing, tolerance=0.02)


def test_what_a_shift_by_the_own_tables_of_yarn_does_is_named() -> None:
    assert YARN.attention_factor == pytest.approx(0.1 * math.log(16) + 1)
    once = rotate(np.ones((1, 16)), YARN, [5])
    naive = rotate(once, YARN, [-1])
    right = rotate(np.ones((1, 16)), YARN, [4])
    assert np.allclose(naive, YARN.attention_factor * right)
    result = cache_shift(YARN, dtype="float64")
    assert not result.valid
    assert "multiply the keys by the attention factor again, x 1.277 at each" in result.reason
    assert result.key_error < 1e-12  # of shifts without it


def test_a_table_that_depends_on_the_length_allows_no_shift() -> None:
    result = cache_shift(DYNAMIC, times=1)
    assert not result.valid
    assert "the frequencies of dynamic depend on the sequence length" in result.reason
    both = cache_shift(LONGROPE, times=1).reason
    assert "attention factor again" in both
    assert "the frequencies of longrope depend" in both


def test_the_growth_of_xpos_is_a_part_of_its_shift() -> None:
    result = cache_shift(SHIFTABLE["xpos"], times=1)
    assert result.valid
    assert "if a shift scales pairs too" in result.reason


@pytest.mark.slow
@for_each("dtype, times", [("float16", 300), ("bfloat16", 100), ("q8_0", 20), ("float32", 40)])
def test_safe_shifts_are_all_that_keep_scores_within_a_hundredth(dtype: str, times: int) -> None:
    encoding, start = Rotary(32), np.arange(256) + times
    kind = DTYPES.get(dtype, np.dtype("f4"))
    blocks = Quantization.of(32, dtype) if dtype == "q8_0" else None
    white = np.random.default_rng(0).standard_normal((256, 32)).astype(kind)
    cache = ShiftingCache(rope=encoding, white=white, start=start, shift=-1, blocks=blocks)
    keys, safe = cache.store(rotate(white, encoding, start)), 0
    while safe < times:
        keys = cache.shift_again(keys, 1)
        if cache.errors(keys, safe + 1)["score_error_rms"] > 0.01:
            break
        safe += 1
    assert cache_shift(encoding, times=times, dtype=dtype).safe_shifts == safe
    assert (safe == times) == (dtype == "float32")


def hadamard(size: int) -> np.ndarray[Any, Any]:
    """Return the matrix of Sylvester: the sign at (i, j) is the parity of the bits of i & j."""
    signs = [[(-1) ** (i & j).bit_count() for j in range(size)] for i in range(size)]
    return np.asarray(np.array(signs) / np.sqrt(size))


def plain_blocks(row: np.ndarray[Any, Any], format: str) -> list[np.float32]:
    """Return 32 numbers as ggml stores them, one by one."""
    one = np.float32
    largest = max(row, key=abs)
    scale = abs(largest) / one(127) if format == "q8_0" else largest / one(-8)
    levels = []
    for x in row:
        y = x * (one(1) / scale) if scale else one(0)
        if format == "q8_0":
            levels.append(math.copysign(math.floor(abs(float(y)) + 0.5), y))
        else:
            levels.append(min(15, math.floor(y + one(8.5))) - 8)
    return [one(level) * one(np.float16(scale)) for level in levels]


@pytest.mark.slow
@for_each("dim, mixes", [(32, None), (64, None), (64, False), (96, True)])
@for_each("format", ["q8_0", "q4_0"])
def test_shifts_of_blocks_are_those_of_llama_cpp(format: str, dim: int, mixes: Any) -> None:
    """Dequantize, mix, rotate, mix, quantize, each time; channels of 96 are mixed in 32."""
    encoding = Rotary(dim, layout="half")
    size = {32: 1, 64: 1 if mixes is False else 64, 96: 32}[dim]
    mixing = np.kron(np.eye(dim // size), hadamard(size)).astype(np.float32)
    white = np.random.default_rng(0).standard_normal((256, dim)).astype(np.float32)

    def store(keys: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        rows = (keys @ mixing).reshape(-1, 32)
        return np.array([plain_blocks(row, format) for row in rows]).reshape(-1, dim) @ mixing

    keys = store(rotate(white, encoding, np.arange(256) + 6))
    for _ in range(2):
        keys = store(rotate(keys, encoding, np.full(256, -3)))
    exact = rotate(white.astype(float), encoding)
    expected = np.linalg.norm(keys - exact) / np.linalg.norm(exact)
    result = cache_shift(encoding, shift=-3, times=2, dtype=format, hadamard=mixes)
    # Sums in another order move some numbers, of which there are 8,192 and more, to the next level.
    assert result.key_error == pytest.approx(expected, rel=1e-3)
    assert result.hadamard == (size > 1)


def test_coordinates_in_no_pair_have_no_error() -> None:
    partial = cache_shift(Rotary(16, rotary_dim=4))
    assert partial.by_pair.shape == (2,)
    assert 0 < partial.score_error_rms < 0.7 * partial.key_error


# Mixed lengths.


def test_a_base_that_is_stretched_by_two_leaves_scores_without_meaning() -> None:
    result = cache_mix(DYNAMIC, prefill=2048, decode=4096)
    assert round(result.score_error_rms, 2) == 1.16
    assert not result.valid
    assert result.reason == "the frequencies of dynamic change between the two lengths"
    two = rope("dynamic", head_dim=128, factor=2.0, max_position_embeddings=2048)
    assert round(cache_mix(two, prefill=2048, decode=4096).score_error_rms, 2) == 1.19


@pytest.mark.slow
@for_each("encoding, prefill, decode", [(NARROW, 70, 500), (LONGROPE, 10, 40)])
def test_errors_of_lengths_are_those_of_sampled_scores(
    encoding: Rotary, prefill: int, decode: int
) -> None:
    count, dim = 4000, encoding.head_dim
    q, k = np.random.default_rng(0).standard_normal((2, count, 1, dim))
    short, long = encoding.at_length(prefill), encoding.at_length(decode)
    query = rotate(q, long, [decode - 1])
    keys = np.broadcast_to(k, (count, prefill, dim)).copy()
    got, exact = ((rotate(keys, each) * query).sum(axis=-1) for each in (short, long))
    rms = np.sqrt((exact**2).mean())
    by_key = np.sqrt(((got - exact) ** 2).mean(axis=0)) / rms
    result = cache_mix(encoding, prefill=prefill, decode=decode)
    parts = [np.sqrt((p**2).mean()) for p in np.array_split(by_key, len(result.distance))]
    # A mean square of 4,000 products of normal numbers is off by some 5 %.
    assert_within("rms", got=result.by_distance, expected=parts[::-1], tolerance=0.12)
    assert result.distance[0] == pytest.approx(decode - prefill, abs=1)
    assert (np.diff(result.distance) > 0).all()


@pytest.mark.slow
@for_each("encoding", [NARROW, LONGROPE])
def test_keys_decoded_since_the_prefill_have_the_table_of_their_length(encoding: Rotary) -> None:
    count, prefill, decode = 4000, 12, 100
    q, k = np.random.default_rng(0).standard_normal((2, count, 1, encoding.head_dim))
    long = encoding.at_length(decode)
    query = rotate(q, long, [decode - 1])
    got, exact = np.empty((2, decode, count))
    for n in range(decode):
        own = encoding.at_length(max(prefill, n + 1))
        got[n], exact[n] = ((rotate(k, x, [n]) * query).sum(axis=(1, 2)) for x in (own, long))
    by_key = ((got - exact) ** 2).mean(axis=1) / (exact**2).mean()
    result = cache_mix(encoding, prefill=prefill, decode=decode, decoded=True)
    parts = [np.sqrt(p.mean()) for p in np.array_split(by_key, len(result.distance))]
    # As above; the last key is that of the query, whose table is right.
    assert_within("rms", got=result.by_distance, expected=parts[::-1], tolerance=0.12)
    assert result.by_distance[0] < 0.03 < result.by_distance.max()
    assert result.distance[0] < 1
    assert result.score_error_rms == pytest.approx(np.sqrt(by_key.mean()), abs=0.05)


def test_errors_of_pairs_in_extended_precision() -> None:
    encoding = rope("dynamic", head_dim=8, factor=2.0, max_position_embeddings=64)
    with mp.workdps(40):
        bases = [mpf(10_000) * mpf(stretch) ** (mpf(8) / 6) for stretch in (1, 3)]
        expected = []
        for i in range(4):
            short, long = (base ** (-mpf(2 * i) / 8) for base in bases)
            squares = [abs(mp.expj(n * short) - mp.expj(n * long)) ** 2 for n in range(64)]
            expected.append(float(mp.sqrt(mp.fsum(squares) / 64)))
    result = cache_mix(encoding, prefill=64, decode=128)
    # Phases of up to 64 radians are rounded a few times.
    assert_within("pairs", got=result.by_pair, expected=expected, tolerance=64 * 4 * 2.0**-52)


@for_each(
    "encoding, decode, reason",
    [
        (YARN, 4096, "the frequencies of yarn are those of every length"),
        (SHIFTABLE["a fixed alpha"], 10**6, "the frequencies of dynamic are those of every length"),
        (DYNAMIC, 2048, "both lengths have one table of dynamic"),
        (LONGROPE, 16, "both lengths have one table of longrope"),
    ],
)
def test_lengths_of_one_table_may_be_mixed(encoding: Rotary, decode: int, reason: str) -> None:
    result = cache_mix(encoding, prefill=10, decode=decode)
    assert result.valid
    assert result.reason == reason
    assert result.score_error_rms == result.by_pair.max() == result.by_distance.max() == 0


# Quantized keys.


def plainly_quantized(x: np.ndarray[Any, Any], form: str) -> np.ndarray[Any, Any]:
    """Return the numbers that share a scale, each as its nearest level."""
    if form.startswith("fp8"):
        parts, least, most, largest = (4, -16, 14, 57344) if "e5" in form else (8, -9, 6, 448)
        fractions = np.arange(parts, 2 * parts) * 2.0 ** np.arange(least, most)[:, None]
        levels = np.unique([0.0, *(np.arange(parts) * 2.0**least), *fractions.ravel()])
        levels = levels[levels <= largest] * np.abs(x).max() / largest
        levels = np.union1d(-levels, levels)
    else:
        levels = np.linspace(x.min(), x.max(), 2 ** int(form[3:]))
    return np.asarray(levels[np.abs(x[..., None] - levels).argmin(axis=-1)])


@for_each("when", ["before", "after"])
@for_each("per", ["channel", "token", "group"])
@for_each("form", ["int8", "int4", "int3", "int2", "fp8", "fp8_e5m2"])
def test_quantized_keys_are_the_nearest_levels(form: str, per: str, when: str) -> None:
    k = np.random.default_rng(1).standard_normal((2, 12, 8)) + np.arange(8)
    exact = rotate(k, SMALL)
    stored = k if when == "before" else exact
    read = np.empty_like(stored)
    for head in range(2):
        shared: list[Any]
        if per == "channel":
            shared = [np.s_[head, :, i] for i in range(8)]
        else:
            step = 8 if per == "token" else 4
            shared = [np.s_[head, t, i : i + step] for t in range(12) for i in range(0, 8, step)]
        for each in shared:
            read[each] = plainly_quantized(stored[each], form)
    error = (rotate(read, SMALL) if when == "before" else read) - exact
    group = 4 if per == "group" else None
    result = cache_quantize(SMALL, k, format=form, per=per, group=group, when=when)
    expected = np.linalg.norm(error) / np.linalg.norm(exact)
    assert result.key_error == pytest.approx(expected, rel=1e-9)
    pairs = np.linalg.norm(error.reshape(24, 4, 2), axis=(0, 2))
    pairs /= np.linalg.norm(exact.reshape(24, 4, 2), axis=(0, 2))
    assert_within("pairs", got=result.by_pair, expected=pairs, tolerance=1e-9)
    rows = np.sqrt((error**2).sum(axis=2).mean(axis=0) / (exact**2).sum(axis=2).mean())
    assert_within("rows", got=result.by_distance, expected=rows[::-1], tolerance=1e-9)
    assert result.distance.tolist() == list(range(12))


def test_numbers_that_are_levels_have_no_error() -> None:
    k = np.random.default_rng(0).integers(0, 16, (64, 8)).astype(float)
    k[:2], k[:, 7] = [[0.0], [15.0]], 3.0  # a channel of one number has one level
    for form in ("int4", "int8"):
        k[1] = 15.0 if form == "int4" else 255.0
        assert cache_quantize(SMALL, k, format=form, when="before").key_error < 1e-15


def test_a_channel_far_from_zero_is_better_quantized_before_the_rotation() -> None:
    k = np.random.default_rng(0).standard_normal((512, 8))
    k[:, 3] += 20
    before, after = (
        cache_quantize(SMALL, k, format="int4", when=when).by_pair[1]
        for when in ("before", "after")
    )
    assert after > 5 * before
    white = [cache_quantize(SMALL, format="int4", when=w).key_error for w in ("before", "after")]
    assert white[0] == pytest.approx(white[1], rel=0.05)


def test_white_keys_and_groups_by_default() -> None:
    result = cache_quantize(PLAIN, per="group")
    assert (result.tokens, result.group, result.seed) == (1024, 32, 0)
    other = cache_quantize(PLAIN, per="group", seed=1)
    assert other.key_error != result.key_error
    given = cache_quantize(SMALL, np.ones((3, 8)))
    assert (given.tokens, given.group, given.seed) == (3, None, None)


@for_each("format", ["q8_0", "q4_0"])
def test_blocks_are_those_of_ggml(format: str) -> None:
    k = np.random.default_rng(0).standard_normal((20, 32)).astype(np.float32)
    k[0], k[1, :3] = 0, [8, -8, 8]  # no scale, and two of the largest magnitude
    read = np.array([plain_blocks(row, format) for row in k])
    exact, rotated = rotate(k.astype(float), Rotary(32)), rotate(read.astype(float), Rotary(32))
    result = cache_quantize(Rotary(32), k, format=format, when="before")
    expected = np.linalg.norm(rotated - exact) / np.linalg.norm(exact)
    assert result.key_error == pytest.approx(expected, rel=1e-12)
    assert (result.per, result.group, result.hadamard) == ("group", 32, False)


@for_each("format, dim, usual", [("q8_0", 64, True), ("q4_0", 32, False), ("int4", 64, False)])
def test_channels_are_mixed_where_llama_cpp_does(format: str, dim: int, usual: bool) -> None:
    assert cache_quantize(Rotary(dim), format=format).hadamard is usual
    k = np.random.default_rng(0).standard_normal((64, dim)).astype(np.float32)
    mixed, plain = (
        cache_quantize(Rotary(dim), keys, format=format, hadamard=each, when="before").key_error
        for keys, each in ((k, True), (k @ hadamard(dim), False))
    )
    assert mixed == pytest.approx(plain, rel=1e-3)


# Attention.


@pytest.mark.slow
@for_each("dtype, times", [("float16", 1000), ("bfloat16", 300), ("q4_0", 2)])
def test_the_share_of_attention_that_moves_is_that_of_sampled_softmax(
    dtype: str, times: int
) -> None:
    """Errors of a few pairs are not quite normal, and 256 keys are not many: 5 %."""
    white = np.random.default_rng(5).standard_normal((256, 128)).astype(DTYPES.get(dtype, "f4"))
    blocks = Quantization.of(128, dtype) if dtype == "q4_0" else None
    start = np.arange(256) + times
    cache = ShiftingCache(rope=PLAIN, white=white, start=start, shift=-1, blocks=blocks)
    keys = cache.shift_again(cache.store(rotate(white, PLAIN, start)), times).astype(float)
    q = np.random.default_rng(6).standard_normal((500, 128))
    weights = [np.exp(q @ k.T / 128**0.5) for k in (keys, rotate(white.astype(float), PLAIN))]
    got, exact = (each / each.sum(axis=1, keepdims=True) for each in weights)
    expected = np.abs(got - exact).sum(axis=1).mean() / 2
    result = cache_shift(PLAIN, times=times, dtype=dtype, seed=5)
    assert result.attention_error == pytest.approx(expected, rel=0.05)


# Refusals.


@pytest.mark.slow
@for_each(
    "call, message",
    [
        (lambda: cache_shift(SMALL, shift=0), "shift must be from 1 to 2^30 in either direction"),
        (lambda: cache_shift(SMALL, times=0), "times must be from 1 to 100,000, got 0"),
        (lambda: cache_shift(SMALL, dtype="int8"), "dtype must be one of float64, float32"),
        (lambda: cache_shift(SMALL, seed=-1), "seed must be at least 0, got -1"),
        (
            lambda: cache_shift(SHIFTABLE["xpos"], shift=100_000, times=1, dtype="float16"),
            "keys up to position 100,255 overflow float16 by shift 1",
        ),
        (lambda: cache_mix(SMALL, prefill=0, decode=3), "prefill must be from 1 to 1,048,576"),
        (lambda: cache_mix(SMALL, prefill=4, decode=3), "decode must be at least prefill, 4, got"),
        (
            lambda: cache_quantize(SMALL, format="int5"),
            "quantization format must be one of int8, int4, int3, int2, fp8, fp8_e5m2, q8_0, q",
        ),
        (lambda: cache_quantize(SMALL, per="head"), "per must be one of channel, token, group"),
        (lambda: cache_quantize(SMALL, when="never"), "when must be before or after, got 'never'"),
        (lambda: cache_quantize(SMALL, group=4), "group has no effect on scales per channel"),
        (lambda: cache_quantize(SMALL, per="group"), "group must divide the head dim, 8, got 32"),
        (lambda: cache_quantize(SMALL, per="group", group=0), "group must be at least 1, got 0"),
        (
            lambda: cache_shift(SMALL, dtype="q8_0"),
            "head dim must be a multiple of 32 for q8_0, got 8",
        ),
        (
            lambda: cache_shift(SMALL, hadamard=True),
            "hadamard has no effect on bfloat16; expected q8_0 or q4_0",
        ),
        (
            lambda: cache_shift(PLAIN, dtype="q4_0", hadamard=False),
            "keys up to position 1,255 overflow q4_0 by shift",
        ),
        (
            lambda: cache_mix(SMALL, prefill=1, decode=2**15 + 2, decoded=True),
            "decoded keys must be at most 2^15, got 32,769",
        ),
        (
            lambda: cache_quantize(PLAIN, format="q8_0", per="token"),
            "per has no effect on q8_0, whose blocks have 32",
        ),
        (
            lambda: cache_quantize(PLAIN, format="q8_0", group=64),
            "group has no effect on q8_0, whose blocks have 32",
        ),
        (
            lambda: cache_quantize(PLAIN, np.full((3, 128), 1e9), format="q8_0"),
            "k overflows q8_0, whose scale is a float16",
        ),
        (lambda: cache_quantize(SMALL, np.ones((3, 4))), "k must have shape (..., tokens, 8), got"),
        (lambda: cache_quantize(SMALL, np.full((3, 8), np.nan)), "k must be finite"),
        (lambda: cache_quantize(SMALL, np.zeros((3, 8))), "k must not be all zeros"),
    ],
)
def test_what_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        call()
    assert str(raised.value).startswith(message)


@for_each("call", [cache_shift, lambda x: cache_mix(x, prefill=1, decode=2), cache_quantize])
def test_a_model_is_not_an_encoding(call: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="rope must be a Rotary"):
        call(load_model("example:llama-2-7b"))
