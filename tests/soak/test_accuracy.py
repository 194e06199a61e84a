"""The accuracy promised, on many random pairs: `pytest -s tests/soak/test_accuracy.py`.

Prints the worst error of each dtype as a share of what is promised.
"""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp

from ropecli import Rotary, rotate
from ropecli.arrays import DTYPES
from ropecli.checks.accuracy import ACCURACY, ANGLE
from ropecli.checks.rotation_laws.subject import sample
from ropecli.reference import rotation as reference
from ropecli.reference.double_double import DIGITS, ERROR, cos_sin

ROWS, DIM = 5_000, 32


@pytest.mark.parametrize("largest", [2.0**7, 2.0**17, 2.0**40], ids=["2^7", "2^17", "2^40"])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_every_coordinate_is_within_its_bound(layout: str, largest: float) -> None:
    random = np.random.default_rng(7)
    rope = Rotary(head_dim=DIM, layout=layout, base=float(np.exp(random.uniform(1, 16))))
    positions = np.floor(np.exp(random.uniform(0, np.log(largest), ROWS))) - 1
    positions[::3] *= -1
    positions[::5] += 0.25
    cosine, sine = reference.cos_sin(positions, rope.inv_freq)
    pairs = rope.pairs_in
    for dtype, accuracy in ACCURACY.items():
        x = random.standard_normal((ROWS, DIM)) * 2.0 ** random.integers(-6, 7, (ROWS, DIM))
        stored = x.astype(DTYPES[dtype])
        x = stored.astype(np.float64)
        exact = reference.elementwise(x, cosine, sine, pairs)
        got = rotate(stored, rope, positions=positions).astype(np.float64)
        error = np.abs((got - exact).astype(np.float64))
        length = np.hypot(x[:, pairs[:, 0]], x[:, pairs[:, 1]])
        angle = ANGLE * np.abs(np.outer(positions, rope.inv_freq)) * length
        allowed = np.empty_like(error)
        per_pair = accuracy.per_coordinate(length) + angle
        allowed[:, pairs[:, 0]] = allowed[:, pairs[:, 1]] = per_pair
        share = float((error / allowed).max())
        print(  # noqa: T201
            f"{layout:11} |m| < {largest:.3g}  {dtype:8}  worst {share:.3f} of its bound"
        )
        assert share <= 1


@pytest.mark.parametrize("head_dim", [64, 256])
def test_every_cosine_that_verify_uses_is_that_of_forty_digits(head_dim: int) -> None:
    rope = Rotary(head_dim=head_dim)
    for seed, largest in ((0, 131_072), (1, 2**49)):
        vectors = sample(head_dim, "float64", max_position=largest, seed=seed)
        for positions in (vectors.m, np.abs(vectors.m - vectors.n)):
            exact = reference.cos_sin(positions, rope.inv_freq)
            for got, right in zip(cos_sin(positions, rope.inv_freq), exact, strict=True):
                with mp.workdps(DIGITS):
                    assert max(abs(right - got.high - got.low).ravel()) < ERROR
