"""Kernels that are wrong in some shapes alone: each is caught and named, and its twin passes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import for_each
from invented_mutants import INVENTED, MUTANTS, TWINS
from judging import check_here
from numpy.typing import NDArray
from shape_mutants import DIM, GENERATED, REPORTED, Mutant, Sample, assert_named, assert_twin_passes

from ropecli.arrays import DTYPES

Array = NDArray[Any]


def run(target: Any, form: str, sample: Sample) -> tuple[Array, Array, Array]:
    """The vectors and positions of a sample, and what a kernel makes of them."""
    kernel = target() if form in {"class", "decoder"} else target
    for seed, before in enumerate(sample.after):
        call(kernel, form, before, seed)
    return call(kernel, form, sample, len(sample.after))


def call(kernel: Any, form: str, sample: Sample, seed: int) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(seed)
    batch, heads, length = sample.shape
    q = random.standard_normal((batch, heads, length, DIM)).astype(DTYPES[sample.dtype])
    k = random.standard_normal((batch, sample.key_heads or heads, length, DIM)).astype(q.dtype)
    at = np.arange(length) + sample.first if sample.positions is None else sample.positions
    positions = np.asarray(at)
    if sample.memory == "expanded":
        q, k = (np.broadcast_to(each[:1], each.shape) for each in (q, k))
    given_q, given_k = (in_memory(each, sample.memory) for each in (q, k))
    if form == "decoder":
        whole = length - sample.steps
        parts = [kernel.prefill(q[:, :, :whole])] if whole else []
        parts += [kernel.step(q[:, :, i : i + 1]) for i in range(whole, length)]
        return q, positions, np.concatenate(parts, axis=2)
    calls: dict[str, Callable[[], Any]] = {
        "both": lambda: kernel(given_q, given_k, positions)[sample.part == "k"],
        "function": lambda: kernel(given_q, positions),
    }
    results = []
    do = calls["both" if form == "both" else "function"]
    if sample.thread:
        thread = threading.Thread(target=lambda: results.append(do()))
        thread.start()
        thread.join()
    else:
        results.append(do())
    return (k if sample.part == "k" else q), positions, results[0]


def in_memory(x: Array, kind: str) -> Array:
    """The same numbers, laid out otherwise."""
    if kind == "transposed":
        return np.swapaxes(np.swapaxes(x, 1, 2).copy(), 1, 2)
    if kind in {"contiguous", "expanded"}:
        return x
    room = np.full((*x.shape[:-1], 3 * DIM), 9.0).astype(x.dtype)
    if kind == "offset":
        view = room.ravel()[7 : 7 + x.size].reshape(x.shape)
    else:
        view = room[..., DIM : 2 * DIM] if kind == "sliced" else room[..., : 2 * DIM : 2]
    view[...] = x
    return view


def rotate(x: Array, positions: Array) -> Array:
    """RoPE as multiplication by exp(i m theta), half-split."""
    angle = np.atleast_2d(positions)[:, None, :, None] * 10_000.0 ** (-np.arange(0, DIM, 2) / DIM)
    z = x[..., : DIM // 2].astype(np.float64) + 1j * x[..., DIM // 2 :].astype(np.float64)
    turned = z * np.exp(1j * angle)
    y: Array = np.concatenate([turned.real, turned.imag], axis=-1)
    return y


def differing_rows(one: Array, other: Array) -> Array:
    differ: Array = ((one != other) & ~(np.isnan(one) & np.isnan(other))).any(axis=-1)
    return differ


NAMES = [*MUTANTS]


@for_each("name", NAMES[::8])
def test_mutant_differs_from_its_twin_exactly_where_it_says(name: str) -> None:
    assert_differs_where_it_says(name)


@pytest.mark.slow
@for_each("name", NAMES)
def test_every_mutant_differs_from_its_twin_exactly_where_it_says(name: str) -> None:
    assert_differs_where_it_says(name)


def assert_differs_where_it_says(name: str) -> None:
    mutant = MUTANTS[name]
    place = mutant.place
    for sample, shown in ((place.shows, True), (place.hides, False)):
        x, positions, right = run(mutant.target(on=False), place.form, sample)
        unit = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}[sample.dtype]
        off = np.abs(right.astype(np.float64) - rotate(x, positions))
        assert (off <= 4 * unit * (1 + np.abs(x).max())).all()
        _, _, got = run(mutant.target(), place.form, sample)
        if not shown:
            assert got.dtype == right.dtype
            assert np.array_equal(got, right)
        elif mutant.fault.effect is None:
            assert got.shape == right.shape
            wrong = differing_rows(got.astype(np.float64), right.astype(np.float64))
            expected = np.zeros_like(wrong)
            expected[place.where] = True
            assert wrong.any()
            assert not (wrong & ~expected).any()
            assert mutant.fault.spares or wrong[expected].all()


def test_there_are_enough_of_each_kind() -> None:
    assert len(GENERATED) >= 80
    assert len(REPORTED) >= 20
    assert len(INVENTED) >= 30


#: The slow tier tries one in 64 and these; `tests/soak/test_shape_mutants_soak.py` all.
#: Escaped once, or were named by another fault's name.
ESCAPED = [
    "factor: k with fewer heads",
    "positions run on in the next sequence: sequences from index 1",
    "returned in float64: one token of half precision",
    "turned as its neighbour: the last row of sequences of more than one token",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*NAMES[::64], *ESCAPED}))
def test_mutant_is_caught_and_named(name: str) -> None:
    assert_named(MUTANTS[name])


@pytest.mark.slow
@pytest.mark.parametrize("twin", [*TWINS.values()][::8], ids=lambda mutant: mutant.name)
def test_twin_passes(twin: Mutant) -> None:
    assert_twin_passes(twin)


@pytest.mark.slow
def test_sequences_of_a_batch_are_not_taken_for_positions() -> None:
    mutant = MUTANTS["factor: sequences from index 1"]
    verdict = check_here(mutant.target(), **mutant.options, select="norm")
    assert verdict.convention.call == "apply(x, positions)"
    assert verdict.convention.axes_of_x == "b h s d"
