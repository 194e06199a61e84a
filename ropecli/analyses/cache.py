"""Errors that shifts, mixed lengths and quantization make in the keys of a KV cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.quantization import BLOCKS, Quantization
from ropecli.arrays import DTYPES, Array, as_real, on_all_axes
from ropecli.errors import ArgumentError
from ropecli.names import one_of
from ropecli.numbers import at_least, between, integer, length
from ropecli.results import Drawable
from ropecli.rotary import Rotary
from ropecli.rotary.apply import rotate
from ropecli.rotary.rotary import check_rope

TIMES, MOST_TIMES = 1000, 100_000  #: Shifts by default and at most, which take a minute.
LARGEST_SHIFT = 2**30  #: Positions, in either direction.
LONGEST_PREFILL = 2**20  #: Positions whose phases are computed; they take two seconds.
MOST_DECODED = 2**15  #: Keys with a table each, which take some seconds.
SAFE = 0.01  #: Error of scores up to which shifts are called safe: that of a cache in int8, about.
SHIFTED, QUANTIZED = 256, 1024  #: White keys of which errors are measured.
POINTS = 32  #: Numbers of shifts of the curve, at most.
PARTS = 64  #: Parts of the cache by distance, at most.
#: When keys are quantized: before or after the rotation, and what that means.
WHEN = {
    "before": "keys are rotated whenever they are read",
    "after": "keys are stored as they are scored",
}
LARGEST_KEY = 1e100  #: Its square is finite, and no cache holds more.


@dataclass(frozen=True, kw_only=True, eq=False)
class CachedKeys(Drawable):
    """Errors of cached keys, and of their scores.

    Scores are those of white queries: independent coordinates of one variance. The rms error of
    the score of a key then is the length of the key's own error, at whatever position.
    """

    mode: ClassVar[str]  #: "shift", "lengths" or "quantize".
    rope: Rotary  #: The encoding.
    name: str | None  #: Name of the model, if any.
    valid: bool  #: False if the rope type makes it wrong, apart from rounding.
    reason: str  #: Why, in a sentence.
    key_error: float  #: Rms error of the rotated coordinates, over their rms.
    score_error_rms: float  #: Rms error of scores over the rms of scores.
    attention_error: float  #: Share of the attention that moves to other keys, by `_moved_share`.
    by_pair: Array  #: Rms error of each pair, over the rms of that pair, (pairs,).
    distance: Array  #: Mean distance from the query to each part of the cache, rising, (parts,).
    by_distance: Array  #: Rms error of scores with each part, over the rms of scores, (parts,).


@dataclass(frozen=True, kw_only=True, eq=False)
class ShiftedKeys(CachedKeys):
    """Errors of keys that were rotated again and again."""

    mode: ClassVar[str] = "shift"
    shift: int  #: Positions of each shift.
    times: int  #: Number of shifts.
    dtype: str  #: Dtype of the cache, or q8_0 or q4_0.
    hadamard: bool  #: True if a Hadamard matrix mixes the channels of what is quantized.
    seed: int  #: Seed of the keys.
    safe_shifts: int  #: Shifts up to which scores are off by 1 % of their rms at most.
    shifts: NDArray[np.int64]  #: Numbers of shifts of the curve, rising, (points,).
    by_shifts: Array  #: Error of the keys after each of them, as `key_error`, (points,).


@dataclass(frozen=True, kw_only=True, eq=False)
class MixedKeys(CachedKeys):
    """Errors of keys of one sequence length, under queries of another."""

    mode: ClassVar[str] = "lengths"
    prefill: int  #: Sequence length with which keys were cached, at positions from 0.
    decode: int  #: Sequence length of the query, which is at its last position.
    decoded: bool  #: True if keys from `prefill` on count, each of its own sequence length.


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantizedKeys(CachedKeys):
    """Errors of quantized keys."""

    mode: ClassVar[str] = "quantize"
    format: str  #: int8, int4, int3, int2, fp8, fp8_e5m2, q8_0 or q4_0.
    per: str  #: What shares a scale: a channel, a token, or a group of channels of a token.
    group: int | None  #: Channels of a group, where a group shares a scale.
    hadamard: bool  #: True if a Hadamard matrix mixes the channels of what is quantized.
    when: str  #: Quantized before or after the rotation.
    seed: int | None  #: Seed of white keys; None for keys that were given.
    tokens: int  #: Number of keys in each head.


def cache_shift(
    rope: Rotary,
    *,
    shift: int = -1,
    times: int = TIMES,
    dtype: str = "bfloat16",
    hadamard: bool | None = None,
    seed: int = 0,
    name: str | None = None,
) -> ShiftedKeys:
    """Measure keys that a cache rotates again and again, against keys rotated once.

    R_s R_n = R_(n + s) (RoFormer Eq. 16), so that a cache may move its keys by s positions. Here
    256 keys of Gaussian white noise are rounded to the dtype, rotated, rounded, and then shifted:
    cos and sin of the shift in float32, products and sums in float32, one rounding to the dtype for
    each shift (all in float64 for float64). Errors are rms differences from the rotation of the
    rounded keys to their last position in float64, over the rms of that. Keys end at positions 0 to
    255, or begin there if the shift is positive, and the query is at the last of them.

    q8_0 and q4_0 are kept as llama.cpp keeps them: blocks of 32 neighbouring channels of a token
    with a scale in float16, of channels that a Hadamard matrix has mixed where the head dim is a
    multiple of 64. A shift dequantizes, rotates in float32 and quantizes again.

    Shifts leave out the attention factor, which the keys have already. Those of xPos scale pairs
    as well. With several axes, the shift is the same on all of them.

    Args:
        rope: The encoding.
        shift: Positions of each shift, not 0, up to 2^30 either way.
        times: Number of shifts, up to 100,000.
        dtype: Dtype of the cache: float64, float32, float16 or bfloat16; or q8_0 or q4_0.
        hadamard: True to mix the channels of q8_0 or q4_0, False not to; as llama.cpp by default.
        seed: Seed of the keys.
        name: Name of the model, if any.

    Raises:
        ArgumentError: A value out of range, or keys that leave the range of the dtype.
        ArgumentTypeError: A value of the wrong type.
    """
    check_rope(rope)
    by = integer("shift", shift)
    if not 0 < abs(by) <= LARGEST_SHIFT:
        raise ArgumentError(f"shift must be from 1 to 2^30 in either direction, got {by}")
    count = between("times", times, 1, MOST_TIMES)
    one_of("dtype", dtype, (*DTYPES, *BLOCKS))
    blocks = None
    if dtype in BLOCKS:
        blocks = Quantization.of(rope.head_dim, dtype, hadamard=hadamard)
    elif hadamard is not None:
        raise ArgumentError(f"hadamard has no effect on {dtype}; expected {' or '.join(BLOCKS)}")
    kind = DTYPES.get(dtype, np.dtype(np.float32))
    seed = at_least("seed", seed, 0)
    white = np.random.default_rng(seed).standard_normal((SHIFTED, rope.head_dim)).astype(kind)
    start = np.arange(SHIFTED) + max(0, -by * count)
    cache = ShiftingCache(rope=rope, white=white, start=start, shift=by, blocks=blocks)
    shifts = np.unique(np.geomspace(1, count, POINTS).round().astype(np.int64))
    summaries, safe, done = [], 0, 0
    with np.errstate(over="ignore", invalid="ignore"):
        keys = cache.store(_rotate(rope, white, start))
        for point in shifts.tolist():
            before, keys = keys, cache.shift_again(keys, point - done)
            summaries.append(cache.errors(keys, point))
            if safe == done:
                within = summaries[-1]["score_error_rms"] <= SAFE
                safe = point if within else cache.last_safe(before, done, point)
            done = point
    errors = np.array([summary["key_error"] for summary in summaries])
    finite = np.isfinite(errors)
    if not finite.all():
        last, point = int(start[-1]) + max(0, by * count), shifts[~finite][0]
        raise ArgumentError(f"keys up to position {last:,} overflow {dtype} by shift {point:,}")
    valid, reason = _validate_shift(rope)
    return ShiftedKeys(
        rope=rope,
        name=name,
        shift=by,
        times=count,
        dtype=dtype,
        hadamard=blocks is not None and blocks.mixed > 1,
        seed=seed,
        safe_shifts=safe,
        valid=valid,
        reason=reason,
        shifts=shifts,
        by_shifts=errors,
        **summaries[-1],
    )


@dataclass(frozen=True, kw_only=True)
class ShiftingCache:
    """White keys, how they are stored, and the shift that moves them."""

    rope: Rotary
    white: NDArray[Any]  #: (tokens, head_dim).
    start: NDArray[np.int64]  #: Position of each before the first shift.
    shift: int
    blocks: Quantization | None  #: None of keys in the dtype of the white ones.

    def store(self, keys: NDArray[Any]) -> NDArray[Any]:
        """Return keys as they are read again."""
        return self.blocks.round_trip(keys) if self.blocks else keys.astype(self.white.dtype)

    def shift_again(self, keys: NDArray[Any], times: int) -> NDArray[Any]:
        """Return stored keys after a number of shifts, each of them rounded."""
        rope, shift = self.rope, self.shift
        work = np.dtype(np.float64 if keys.dtype == np.float64 else np.float32)
        angle = shift * rope.diagonal_inv_freq * (1 if rope.direction == "forward" else -1)
        growth = np.exp(shift * np.array(rope.for_keys.growth))
        cos, sin = ((growth * f(angle)).astype(work) for f in (np.cos, np.sin))
        first, second = rope.pairs_out.T
        for _ in range(times):
            turned = keys.astype(work)
            x, y = turned[:, first], turned[:, second]
            turned[:, first], turned[:, second] = x * cos - y * sin, x * sin + y * cos
            keys = self.store(turned)
        return keys

    def errors(self, keys: NDArray[Any], done: int) -> dict[str, Any]:
        """Return the errors of stored keys after a number of shifts."""
        exact = _rotate(self.rope, self.white.astype(np.float64), self.start + self.shift * done)
        error = keys.astype(np.float64) - exact
        return _errors(self.rope, error**2, exact**2, np.arange(len(keys))[::-1])

    def last_safe(self, keys: NDArray[Any], low: int, high: int) -> int:
        """Return the most shifts below `high` with safe scores, from safe keys after `low`."""
        while high - low > 1:
            middle = (low + high) // 2
            trial = self.shift_again(keys, middle - low)
            if self.errors(trial, middle)["score_error_rms"] <= SAFE:
                keys, low = trial, middle
            else:
                high = middle
        return low


def _rotate(rope: Rotary, keys: NDArray[Any], positions: NDArray[np.int64]) -> NDArray[Any]:
    """Rotate keys to positions, the same on all axes."""
    return rotate(keys, rope.for_keys, on_all_axes(positions, rope.axes))


def _validate_shift(rope: Rotary) -> tuple[bool, str]:
    """Return whether shifts of the rope type are valid, and why."""
    reasons = []
    if rope.attention_factor != 1:
        reasons.append(
            "the model's own cos and sin multiply the keys by the attention factor again, "
            f"x {rope.attention_factor:.4g} at each shift"
        )
    if rope.depends_on_length:
        reasons.append(
            f"the frequencies of {rope.rope_type} depend on the sequence length, and a shift is "
            "right only within lengths of one table"
        )
    if reasons:
        return False, "; ".join(reasons)
    if rope.grows:
        return True, "rotations and growth add up, if a shift scales pairs too, and so do roundings"
    return True, "rotations add up, and so do their roundings"


def cache_mix(
    rope: Rotary, *, prefill: int, decode: int, decoded: bool = False, name: str | None = None
) -> MixedKeys:
    """Compare keys cached with the frequencies of one length with all keys at a new length.

    Dynamic NTK and LongRoPE have other frequencies in longer sequences. A query rotated by those of
    `decode`, against a key at position n rotated by those of `prefill`, sees pair i off by the
    phase n |theta_i - theta'_i|. With white keys and queries, the mean square error of a score over
    its mean square is the mean over pairs of 4 sin^2 of half that phase: at most sqrt(2) in rms
    where nothing is left. It is computed in float64 at every position, with nothing sampled.

    Keys that were decoded one at a time, from `prefill` on, each have the table of the length at
    that moment, n + 1 at position n. They count with `decoded`.

    Args:
        rope: The encoding. Positions are the same on all axes.
        prefill: Sequence length of the cached keys, which are at 0 ... prefill - 1; up to 2^20.
        decode: Sequence length of the query, which is at decode - 1; at least `prefill`.
        decoded: True to count the keys that were decoded since, up to 2^15.
        name: Name of the model, if any.

    Raises:
        ArgumentError: A value out of range.
        ArgumentTypeError: A value of the wrong type.
    """
    check_rope(rope)
    cached = between("prefill", prefill, 1, LONGEST_PREFILL)
    used = length("decode", decode)
    if used < cached:
        raise ArgumentError(f"decode must be at least prefill, {cached:,}, got {used:,}")
    if decoded and used - cached > MOST_DECODED:
        raise ArgumentError(f"decoded keys must be at most 2^15, got {used - cached:,}")
    short, long = rope.at_length(cached), rope.at_length(used)
    keys = used if decoded else cached
    parts = np.array_split(np.arange(keys), min(PARTS, keys))
    error2, size2 = np.zeros((len(parts), rope.head_dim)), np.ones((len(parts), rope.head_dim))
    for error, part in zip(error2, parts, strict=True):
        own = [short if n < cached else rope.at_length(n + 1) for n in part.tolist()]
        error[rope.pairs_out] = _phase_error(own if part[-1] >= cached else [short], long, part)
    size2[:, rope.pairs_out] = long.attention_factor**2
    return MixedKeys(
        rope=rope,
        name=name,
        prefill=cached,
        decode=used,
        decoded=decoded,
        valid=short == long,
        reason=_why_mixable(rope, same=short == long),
        **_errors(
            rope,
            error2,
            size2,
            distance=np.array([used - 1 - part.mean() for part in parts]),
            count=np.array([len(part) for part in parts]),
        ),
    )


def _phase_error(own: Sequence[Rotary], long: Rotary, positions: NDArray[np.int64]) -> Array:
    """Return the mean square difference of unit white keys over positions, (pairs, 1).

    `own` is the encoding of the key at each position, or one of all.
    """
    difference = np.array([rope.diagonal_inv_freq for rope in own]) - long.diagonal_inv_freq
    sin = np.sin(positions[:, None] * (difference / 2))
    a, b = np.array([[rope.attention_factor] for rope in own]), long.attention_factor
    error: Array = np.mean((a - b) ** 2 + 4 * a * b * sin**2, axis=0)
    return error[:, None]


def _why_mixable(rope: Rotary, *, same: bool) -> str:
    if not rope.depends_on_length:
        return f"the frequencies of {rope.rope_type} are those of every length"
    if same:
        return f"both lengths have one table of {rope.rope_type}"
    return f"the frequencies of {rope.rope_type} change between the two lengths"


def cache_quantize(
    rope: Rotary,
    k: Any = None,
    *,
    format: str = "int8",
    per: str | None = None,
    group: int | None = None,
    hadamard: bool | None = None,
    when: str = "after",
    seed: int = 0,
    name: str | None = None,
) -> QuantizedKeys:
    """Measure keys that are quantized, before or after their rotation.

    Integers are asymmetric, as in KIVI (Liu et al. 2024, arXiv:2402.02750): the least and the
    largest number of what shares a scale become the first and the last of 2^bits levels. fp8 is
    e4m3 (largest number 448) and fp8_e5m2 is e5m2 (57,344), both symmetric. Scales and zero points
    are kept in float64. q8_0 and q4_0 are those of llama.cpp: symmetric, in blocks of 32 channels
    of a token, with a scale in float16. Keys are at 0 ... tokens - 1, and the query is at the last.
    Everything else is float64.

    Args:
        rope: The encoding. Positions are the same on all axes.
        k: Keys before rotation, (..., tokens, head_dim); 1,024 of white noise by default.
        format: "int8", "int4", "int3", "int2", "fp8", "fp8_e5m2", "q8_0" or "q4_0".
        per: What shares a scale: all tokens of a "channel" (of each head; the default), all
            channels of a "token", or a "group" of neighbouring channels of a token.
        group: Channels of a group, of which head_dim is a multiple; 32 by default.
        hadamard: True to mix channels by a Hadamard matrix first, over the largest power of two
            that divides the head dim; by default only q8_0 and q4_0 of a multiple of 64, as in
            llama.cpp.
        when: "before" the rotation, which then is that of each reading, or "after" it.
        seed: Seed of the white keys.
        name: Name of the model, if any.

    Raises:
        ArgumentError: A value out of range or of no effect, or keys that are not finite.
        ArgumentTypeError: A value of the wrong type.
    """
    check_rope(rope)
    kept = Quantization.of(rope.head_dim, format, per=per, group=group, hadamard=hadamard)
    one_of("when", when, WHEN)
    if k is None:
        random = np.random.default_rng(at_least("seed", seed, 0))
        keys = random.standard_normal((QUANTIZED, rope.head_dim))
    else:
        keys = _given_keys(rope, k)
    tokens = keys.shape[-2]
    positions = np.arange(tokens)
    error2, size2 = np.zeros((2, tokens, rope.head_dim))
    with np.errstate(over="ignore", invalid="ignore"):
        for head in keys.reshape(-1, tokens, rope.head_dim):
            exact = _rotate(rope, head, positions)
            if when == "before":
                cached = _rotate(rope, kept.round_trip(head), positions)
            else:
                cached = kept.round_trip(exact)
            error2 += (cached - exact) ** 2
            size2 += exact**2
    if not np.isfinite(error2).all():
        raise ArgumentError(f"k overflows {format}, whose scale is a float16")
    return QuantizedKeys(
        rope=rope,
        name=name,
        format=format,
        per=kept.per,
        group=kept.group,
        hadamard=kept.mixed > 1,
        when=when,
        seed=seed if k is None else None,
        tokens=tokens,
        valid=True,
        reason=WHEN[when],
        **_errors(rope, error2, size2, positions[::-1]),
    )


def _given_keys(rope: Rotary, k: Any) -> Array:
    array = as_real("k", k)
    if array.ndim < 2 or array.shape[-1] != rope.head_dim or not array.size:
        raise ArgumentError(f"k must have shape (..., tokens, {rope.head_dim}), got {array.shape}")
    keys = array.astype(np.float64)
    if not (np.abs(keys) < LARGEST_KEY).all():
        raise ArgumentError("k must be finite and below 1e100 in magnitude, and is not")
    if not keys.any():
        raise ArgumentError("k must not be all zeros")
    return keys


def _rms_ratio(error2: Any, size2: Any) -> Any:
    """Return the root of the ratio of two sums of squares, each or an array; 0 where both are 0."""
    return np.sqrt(np.divide(error2, size2, out=np.zeros(np.shape(error2)), where=size2 > 0))


def _errors(
    rope: Rotary, error2: Array, size2: Array, distance: NDArray[Any], count: Array | None = None
) -> dict[str, Any]:
    """Return errors of keys and scores, over all tokens, by pair and by distance.

    Args:
        rope: The encoding.
        error2: Squared errors of the rotated keys, (rows, head_dim).
        size2: Squares of the exact ones, (rows, head_dim).
        distance: Distance from the query to each row, falling, (rows,).
        count: Number of tokens of which each row is the mean, (rows,); 1 by default.
    """
    weight = np.ones(len(distance)) if count is None else count
    # Not a matrix product, whose bits depend on the threads.
    error, size = ((weight[:, None] * array).sum(axis=0) for array in (error2, size2))
    pair_error, pair_size = (array[rope.pairs_out].sum(axis=1) for array in (error, size))
    rows = np.array_split(np.arange(len(distance))[::-1], min(PARTS, len(distance)))
    by_distance, mean_distance = (
        np.array([np.average(values[some], weights=weight[some]) for some in rows])
        for values in (error2.sum(axis=1), distance)
    )
    score_error = _rms_ratio(by_distance, size.sum() / weight.sum())
    return {
        "key_error": float(_rms_ratio(pair_error.sum(), pair_size.sum())),
        "score_error_rms": float(_rms_ratio(error.sum(), size.sum())),
        "attention_error": _moved_share(score_error, [weight[some].sum() for some in rows]),
        "by_pair": _rms_ratio(pair_error, pair_size),
        "distance": mean_distance,
        "by_distance": score_error,
    }


def _moved_share(score_error: Array, count: Sequence[float]) -> float:
    """Return the expected total variation distance of softmax weights, with and without errors.

    It is half of the sum of |p' - p|, the share of the attention that moves to other keys. Scores
    are q k / sqrt(d) of white vectors, so normal with a standard deviation of 1, and errors are
    normal with a standard deviation of e. Over many keys the sums that softmax divides by are
    their means, so that N p and N p' are log-normal numbers of mean 1 whose logarithms differ by
    a normal number of standard deviation e. For two such numbers E |p' - p| / 2 is
    erf(e / (2 sqrt 2)) / N, whatever their correlation (Margrabe 1978): 0.4 e for small e.
    `score_error` has the e of each part of the cache, and `count` the keys there.
    """
    moved = [math.erf(e / math.sqrt(8)) for e in score_error.tolist()]
    return float(np.average(moved, weights=count))
