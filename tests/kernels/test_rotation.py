"""The rotation kernels: as accurate as documented, and the same bits however they are called."""

from __future__ import annotations

import hashlib
from itertools import product
from typing import Any

import numba
import numpy as np
import pytest
import strategies as domain
from helpers import assert_same_bits, assert_within, mark_slow, run_python, slow_rows
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ropecli import Rotary
from ropecli.arrays import DTYPES
from ropecli.checks.accuracy import ACCURACY, ANGLE
from ropecli.kernels import streaming
from ropecli.kernels.jit import on_this_thread
from ropecli.kernels.rotation import BLOCK
from ropecli.reference import rotation as reference
from ropecli.rotary import apply
from ropecli.rotary.apply import rotate_into

Array = NDArray[Any]

EDGES = [
    0.0,
    1.0,
    BLOCK - 1,
    BLOCK,
    BLOCK + 1,
    2.0**24 + 1,
    2.0**40 + 3,
    2.0**53,
    0.5,
    BLOCK - 0.25,
]
POSITIONS = np.array([sign * p for p in EDGES for sign in (1.0, -1.0)])


def rotate_rows(x: Array, rope: Rotary, positions: Array, *, inverse: bool = False) -> Array:
    """Rows (count, head_dim) at positions (count,)."""
    out = np.empty_like(x)
    shape = (1, 1, len(x), 1, rope.head_dim)
    rotate_into(x.reshape(shape), out.reshape(shape), rope, positions[None], inverse=inverse)
    return out


def random_rows(count: int, rope: Rotary, dtype: str, seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    x = random.standard_normal((count, rope.head_dim))
    x *= 2.0 ** random.integers(-4, 5, x.shape)
    return x.astype(DTYPES[dtype])


def tolerance(x: Array, rope: Rotary, positions: Array, dtype: str) -> Array:
    """Tolerance of each coordinate: docs/performance.md and checks/accuracy.py."""
    pairs = rope.pairs_in
    values = x.astype(np.float64)
    length = rope.attention_factor * np.hypot(values[:, pairs[:, 0]], values[:, pairs[:, 1]])
    angle = ANGLE * np.abs(np.outer(positions, rope.inv_freq)) * length
    allowed = np.zeros(values.shape)
    per_pair = ACCURACY[dtype].per_coordinate(length) + angle
    allowed[:, rope.pairs_out[:, 0]] = allowed[:, rope.pairs_out[:, 1]] = per_pair
    return allowed


def exact(x: Array, rope: Rotary, positions: Array) -> Array:
    sign = 1 if rope.direction == "forward" else -1
    cosine, sine = reference.cos_sin(positions, sign * rope.inv_freq)
    y = reference.elementwise(
        x.astype(np.float64), cosine, sine, rope.pairs_in, rope.attention_factor
    )
    placed = y.copy()
    placed[:, rope.pairs_out] = y[:, rope.pairs_in]
    return placed


ROPES = {
    "interleaved": Rotary(head_dim=16),
    "half": Rotary(head_dim=16, layout="half", base=500_000.0),
    "partial": Rotary(head_dim=16, rotary_dim=6, rotary_offset=5, layout="half"),
    "stretched": Rotary(head_dim=8, attention_factor=1.3689, direction="reversed"),
    "listed": Rotary(head_dim=8, pairs_in=[[7, 0], [1, 6], [5, 2], [3, 4]]),
    "reordered": Rotary(
        head_dim=8, layout="interleaved", pairs_out=[[0, 4], [1, 5], [2, 6], [3, 7]]
    ),
}


def assert_accurate(x: Array, rope: Rotary, positions: Array, dtype: str) -> None:
    got = rotate_rows(x, rope, positions).astype(np.float64)
    error = np.abs((got - exact(x, rope, positions)).astype(np.float64))
    bound = tolerance(x, rope, positions, dtype)
    assert_within(f"{rope}, {dtype}", got=error, expected=np.zeros_like(error), tolerance=bound)


@pytest.mark.parametrize("name", ROPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_accuracy_at_every_kind_of_position(name: str, dtype: str) -> None:
    rope = ROPES[name]
    assert_accurate(random_rows(len(POSITIONS), rope, dtype), rope, POSITIONS, dtype)


@given(data=st.data())
def test_accuracy_of_any_encoding(data: Any) -> None:
    rope, dtype = data.draw(domain.ropes()), data.draw(domain.dtypes)
    positions = np.array(data.draw(st.lists(domain.positions, min_size=1, max_size=4)))
    x = np.array([data.draw(domain.vectors(rope.head_dim, dtype)) for _ in positions])
    assert_accurate(x, rope, positions, dtype)


@pytest.mark.parametrize("name", ROPES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_accuracy_of_subnormal_values(name: str, dtype: str) -> None:
    rope = ROPES[name]
    tiny = float(np.finfo(DTYPES[dtype]).smallest_subnormal)
    x = (random_rows(len(POSITIONS), rope, "float64") * 64).astype(int) * tiny
    assert_accurate(x.astype(DTYPES[dtype]), rope, POSITIONS, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_position_0_is_exact(layout: str, dtype: str) -> None:
    rope = Rotary(head_dim=16, layout=layout)
    x = random_rows(5, rope, dtype)
    assert (rotate_rows(x, rope, np.zeros(5)) == x).all()


def test_a_position_given_as_negative_turns_exactly_the_other_way() -> None:
    rope, back = Rotary(head_dim=16), Rotary(head_dim=16, direction="reversed")
    x = random_rows(len(POSITIONS), rope, "float64")
    there, here = rotate_rows(x, rope, -POSITIONS), rotate_rows(x, back, POSITIONS)
    assert_same_bits("turned", got=there, expected=here)


arrangements = st.tuples(
    st.integers(1, 2), st.integers(1, 3), st.integers(1, 2 * BLOCK + 5), st.integers(1, 3)
)


@given(
    arrangement=arrangements,
    name=st.sampled_from(sorted(ROPES)),
    dtype=domain.dtypes,
    start=st.sampled_from([0.0, -200.0, 100.5, 2.0**30 - 7]),
    seed=st.integers(0, 9),
)
def test_bits_do_not_depend_on_the_arrangement(
    arrangement: tuple[int, ...], name: str, dtype: str, start: float, seed: int
) -> None:
    """(batch, outer, sequence, inner) at once against a row at a time, in any order."""
    batch, outer, sequence, inner = arrangement
    rope = ROPES[name]
    if batch * outer * sequence * inner * rope.head_dim > apply.SMALL:
        dtype = "float32"  # each dtype has parallel kernels of its own, slow to compile
    positions = start + np.random.default_rng(seed).permutation(batch * sequence).astype(float)
    positions = positions.reshape(batch, sequence)
    x = random_rows(batch * outer * sequence * inner, rope, dtype, seed)
    x = x.reshape(batch, outer, sequence, inner, rope.head_dim)
    whole = np.empty_like(x)
    rotate_into(x, whole, rope, positions)
    chosen = np.random.default_rng(seed).integers(0, sequence, 6)
    for n in chosen:
        rows = np.ascontiguousarray(x[-1, -1, n, :])
        alone = rotate_rows(rows, rope, np.full(inner, positions[-1, n]))
        assert_same_bits(f"row {n}", got=whole[-1, -1, n], expected=alone)
    in_place = x.copy()
    rotate_into(in_place, in_place, rope, positions)
    assert_same_bits("in place", got=in_place, expected=whole)


@given(
    cut=st.integers(1, 3 * BLOCK - 1),
    offset=st.integers(-3 * BLOCK, 3 * BLOCK),
    dtype=domain.dtypes,
    name=st.sampled_from(["interleaved", "half", "partial"]),
)
def test_bits_do_not_depend_on_where_a_chunk_begins(
    cut: int, offset: int, dtype: str, name: str
) -> None:
    rope = ROPES[name]
    positions = np.arange(3 * BLOCK, dtype=np.float64) + offset
    x = random_rows(len(positions), rope, dtype)
    whole = rotate_rows(x, rope, positions)
    parts = [rotate_rows(x[:cut].copy(), rope, positions[:cut])]
    parts.append(rotate_rows(x[cut:].copy(), rope, positions[cut:]))
    assert_same_bits("two chunks", got=np.concatenate(parts), expected=whole)


@given(dtype=domain.dtypes, inverse=st.booleans(), name=st.sampled_from(sorted(ROPES)))
def test_inverse_is_as_accurate(dtype: str, inverse: bool, name: str) -> None:
    rope = ROPES[name]
    x = random_rows(len(POSITIONS), rope, dtype)
    back = rotate_rows(
        rotate_rows(x, rope, POSITIONS, inverse=inverse), rope, POSITIONS, inverse=not inverse
    )
    pairs = rope.pairs_out if inverse else rope.pairs_in
    values = x.astype(np.float64)
    length = np.hypot(values[:, pairs[:, 0]], values[:, pairs[:, 1]])
    allowed = np.zeros(values.shape)
    # Two rotations by one and the same angle, the first result's length being A or 1/A of it.
    allowed[:, pairs[:, 0]] = allowed[:, pairs[:, 1]] = (
        2 * ACCURACY[dtype].relative * length + 2 * ACCURACY[dtype].floor
    )
    assert_within(
        f"{name}, {dtype}", got=back.astype(np.float64), expected=values, tolerance=allowed
    )


DIGEST = """
import contextlib, hashlib, os
import numpy as np
from ropecli import Rotary, rotate
from ropecli.kernels.jit import on_this_thread
digest = hashlib.sha256()
with on_this_thread() if "ALONE" in os.environ else contextlib.nullcontext():
    for layout in ("interleaved", "half"):
        for dtype in (np.float64, np.float32, np.float16):
            x = np.random.default_rng(0).standard_normal((3, 3_000, 16)).astype(dtype)
            for heads in (x, x[0]):
                digest.update(rotate(heads, Rotary(head_dim=16, layout=layout)).tobytes())
print(digest.hexdigest())
"""


@pytest.mark.slow
def test_bits_do_not_depend_on_threads_or_on_the_serial_twin() -> None:
    environments: list[dict[str, Any]] = [
        {"NUMBA_NUM_THREADS": "1"},
        {"NUMBA_NUM_THREADS": "4"},
        {"ALONE": "1"},
    ]
    outputs = set()
    for environment in environments:
        done = run_python(DIGEST, NUMBA_DISABLE_JIT="0", **environment)
        assert done.returncode == 0, done.stderr
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert len(outputs.pop().strip()) == hashlib.sha256().digest_size * 2


WORK = """
import threading, time
import numpy as np
from ropecli import Rotary, rotate
from ropecli.kernels.jit import on_this_thread
x = np.random.default_rng(0).standard_normal((4_096, 64)).astype("f4")
rope = Rotary(head_dim=64)
results = []
def alone():
    with on_this_thread():
        results.append(rotate(x, rope).tobytes())
def share_of_this_thread():
    rotate(x, rope)
    process, thread = time.process_time(), time.thread_time()
    for _ in range(200):
        rotate(x, rope)
    return (time.thread_time() - thread) / (time.process_time() - process)
"""
ALONE = """
threads = [threading.Thread(target=alone) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert {rotate(x, rope).tobytes()} == set(results)
with on_this_thread():
    assert share_of_this_thread() > 0.9
try:
    with on_this_thread():
        raise KeyError
except KeyError:
    assert share_of_this_thread() < 0.8
"""


@pytest.mark.slow
def test_no_other_thread_works_until_the_block_ends_and_the_bits_are_the_same() -> None:
    done = run_python(WORK + ALONE, NUMBA_DISABLE_JIT="0", NUMBA_NUM_THREADS="2")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("layout", "dtype"),
    [
        ("half", "float32"),
        *slow_rows(
            *product(["half"], ["float64", "float16", "bfloat16"]),
            *product(["interleaved"], ["float32", "float64"]),
        ),
    ],
)
def test_every_way_gives_the_same_bits(
    layout: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20,000 positions: alone and with another head, on one thread, in place, past the caches."""
    rope = Rotary(head_dim=40, rotary_dim=32, rotary_offset=4, layout=layout)
    x = random_rows(1_000 if numba.config.DISABLE_JIT else 20_000, rope, dtype)
    positions = np.random.default_rng(1).permutation(len(x)).astype(np.float64) - 500
    positions[::7] += 0.375
    expected = rotate_rows(x, rope, positions)
    heads = {"one head": x[None, None, :, None], "two heads": np.stack([x, x])[None, :, :, None]}
    heads["two heads a token"] = np.stack([x, x], axis=1)[None, None]

    def compare(way: str, *, in_place: bool = False) -> None:
        for name, values in heads.items():
            source = values.copy()
            got = source if in_place else np.zeros_like(source)
            rotate_into(source, got, rope, positions[None])
            for o, h in np.ndindex(values.shape[1], values.shape[3]):
                assert_same_bits(f"{name}, {way}", got=got[0, o, :, h], expected=expected)

    compare("all threads")
    compare("in place", in_place=True)
    with on_this_thread():
        compare("one thread")
    few = rotate_rows(x[:400], rope, positions[:400])
    assert few.size <= apply.SMALL
    assert_same_bits("a few", got=few, expected=expected[:400])
    monkeypatch.setattr(streaming, "LARGE", 0)
    assert streaming.can_stream(x, rope.rotary_offset, 16) == (x.itemsize > 2)
    compare("past the caches")


@pytest.mark.parametrize("dtype", mark_slow(DTYPES, quick=["float16"]))
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_one_vector_a_position_gets_the_bits_of_a_small_call(
    layout: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sequences, each with its own positions."""
    rope = Rotary(head_dim=16, layout=layout)
    x = random_rows(1_200, rope, dtype).reshape(2, 1, 600, 1, 16)
    positions = np.random.default_rng(0).permutation(1_200).reshape(2, 600) / 4 - 100
    got, expected = np.empty_like(x), np.empty_like(x)
    assert x.size > apply.SMALL
    rotate_into(x, got, rope, positions)
    monkeypatch.setattr(apply, "SMALL", x.size)
    rotate_into(x, expected, rope, positions)
    assert_same_bits("one vector a position", got=got, expected=expected)


def test_large_aligned_results_are_stored_past_the_caches() -> None:
    large = np.empty(2 * streaming.LARGE, np.uint8)
    aligned = large[-large.ctypes.data % 64 :][: streaming.LARGE]
    rows = aligned.view(np.float32).reshape(-1, 128)
    assert streaming.can_stream(rows, 0, 64)
    assert not streaming.can_stream(rows[:-1], 0, 64)  # it fits into the caches
    assert not streaming.can_stream(rows, 2, 32)  # pairs begin within a vector
    assert not streaming.can_stream(rows, 0, 60)  # and end within one
    assert not streaming.can_stream(aligned.view(np.float16).reshape(-1, 128), 0, 64)
    shifted = large[-large.ctypes.data % 64 + 4 :][: streaming.LARGE]
    assert not streaming.can_stream(shifted.view(np.float32).reshape(-1, 128), 0, 64)
