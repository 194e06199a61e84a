"""Vectors and positions that laws of a rotation are judged on: random ones, and simple ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ropecli.arrays import DTYPES
from ropecli.checks.subject import Sample
from ropecli.kernels.rotation import BLOCK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.subject import Subject

    Array = NDArray[np.float64]

#: Positions where implementations go wrong: the first few, the edges of a block and of what
#: float16, bfloat16 and 7-bit counters hold, negative and fractional ones.
EDGES = (0, 1, 2, 3, 63, 64, BLOCK - 1, BLOCK, BLOCK + 1, 255, 257, 2047, 2049, 4095, 4097)
FRACTIONS = (0.5, 127.5, 128.25, -0.25, -63.75)
COUNT = 48  #: Samples of a law.


def sample(head_dim: int, dtype: str, *, max_position: int, seed: int) -> Sample:
    """Return COUNT normal vectors at positions up to max_position; the first one is all ones.

    Fractional positions are multiples of 1/4, so that sums of positions are exact.
    """
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((2, COUNT, head_dim))
    # Lengths over a wide range within a vector, so that no error hides behind a longer pair.
    vectors *= 2.0 ** random.integers(-3, 4, vectors.shape)
    vectors[:, 0] = 1.0
    q, k = vectors.astype(DTYPES[dtype]).astype(np.float64)
    m = _positions(random, max_position)
    n = random.permutation(m)
    return Sample(q=q, k=k, m=m, n=n, shift=random.permutation(m))


def _positions(random: np.random.Generator, most: int) -> Array:
    fixed = [p for p in (*EDGES, -1, -BLOCK, -BLOCK - 1, *FRACTIONS) if abs(p) <= most]
    fixed += [most, -most, most - 1] if most else []
    fixed = fixed[: COUNT - 8]
    size = COUNT - len(fixed)
    sizes = np.exp(random.uniform(0, np.log(most + 1), size)) - 1
    sampled = np.floor(sizes) * random.choice([1, -1], size)
    return np.concatenate([np.array(fixed, dtype=np.float64), sampled])


def simple(subject: Subject, hard: Sample, *, keys: bool) -> Sample:
    """Return unit vectors and ones at small positions, then at the positions of one hard case.

    Args:
        subject: The rotation whose pairs and head dim they have.
        hard: One row.
        keys: Whether k matters; if not, it is q.
    """
    unit = np.eye(subject.rope.head_dim)
    first, last = subject.oracle.pairs[0], subject.oracle.pairs[-1]
    vectors = [unit[first[0]], unit[first[1]], unit[last[0]], unit[last[1]], np.ones(len(unit))]
    places: list[tuple[float, float, float]] = [
        (0, 0, 0),
        (1, 0, 1),
        (2, 1, 1),
        (1, 2, 3),
        (BLOCK, 1, BLOCK),
        (-1, 1, 1),
    ]
    places += [(0.5, 0, 1), *zip(hard.m, hard.n, hard.shift, strict=True)]
    rows = [
        (q, k, *place)
        for place in places
        for q in vectors
        for k in ((q, unit[first[1]], unit[last[0]]) if keys else (q,))
    ]
    q, k, m, n, shift = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    return Sample(q=q, k=k, m=m, n=n, shift=shift)


def on_one_pair(subject: Subject, sample: Sample) -> Sample:
    """Return the sample with each vector cut down to one pair, another one from row to row.

    A vector with nothing there gets a 1 on the pair's first coordinate.
    """
    pairs = subject.oracle.pairs
    rows = np.arange(len(sample.m))
    chosen = pairs[rows % len(pairs)]
    keep = np.zeros_like(sample.q)
    np.put_along_axis(keep, chosen, 1.0, axis=1)
    q, k = sample.q * keep, sample.k * keep
    for x in (q, k):
        empty = ~x.any(axis=1)
        x[rows[empty], chosen[empty, 0]] = 1.0
    return replace(sample, q=q, k=k)


def few_where_large(subject: Subject, sample: Sample) -> Sample:
    """Return so few rows that the elimination of d x d matrices takes about a second."""
    return sample.rows(slice(max(1, 2**27 // subject.rope.head_dim**3)))
