"""The check of rounding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ropecli.arrays import DTYPES, Array
from ropecli.checks.implementation.call import ImplementationError, Unsupported
from ropecli.checks.implementation.oracle import Oracle, sequence_length
from ropecli.checks.implementation.rows import find_truth, oracle_law
from ropecli.checks.implementation.subject import Subject
from ropecli.checks.law import Outcome, no_verdict
from ropecli.units import SIGNIFICAND_BITS, SMALLEST_NORMAL

BIASED = 0.25  #: Mean of signed errors, in ulp, that rounding to nearest does not reach.
LARGE = 0.25  #: Share of the largest number of its vector that a result must have.
FEWEST = 1000  #: Numbers of which a mean says something.
ROWS = 1024


@oracle_law(
    "rounding",
    "half precision results are biased",
    because="half of the mean error of digits cut off, 1/2 ulp",
)
def rounding(subject: Subject) -> Iterator[Outcome]:
    """Results in half precision are rounded to nearest: their signed errors average to zero.

    One rounding to nearest is off by -1/2 to 1/2 ulp, 0 on average. One that cuts digits off is off
    by 0 to 1 ulp towards zero, one that rounds down or up by as much: 1/2 on average. The mean of n
    errors, each of a standard deviation of 0.3, is known to 0.3 / sqrt(n), 0.01 here.

    A factor rounded to u before makes every result longer or shorter by up to u, which is up to an
    ulp; so do cosines of slow pairs, which are all alike. Results are compared with those of the
    exact tables, or of the rounded ones, whichever leaves less of a spread: digits cut off shift
    the mean, and leave the spread as it is.
    """
    half = [dtype for dtype in subject.dtypes if "16" in dtype]
    if not half:
        yield no_verdict("it is not given half precision data")
    shown = subject.evidence.dtype
    for dtype in half:
        if not subject.as_expected and SIGNIFICAND_BITS[dtype] > SIGNIFICAND_BITS[shown]:
            note = f"{shown} shows the attention factor, not to the digits of {dtype}"
            yield no_verdict(note, dtype)
            continue
        step = subject.step(range(min(ROWS, subject.context)), 47, dtype)
        x, m = step.x, step.m
        try:
            got = subject.rotate(*step)
        except (ImplementationError, Unsupported) as error:
            yield no_verdict(str(error), dtype)
            continue
        (oracle,), truth, _ = find_truth(subject, step, got)
        rope = oracle.rotary_at(sequence_length(m))
        rotated = np.zeros(got.shape, dtype=bool)
        rotated[:, rope.pairs_out.ravel()] = True
        # Exact results, of pairs that do not rotate, and wrong ones say nothing of rounding, nor do
        # small differences of large products.
        rotated &= (np.abs(truth.rows) > SMALLEST_NORMAL[dtype]) & (got != x) & ~truth.wrong(got)
        rotated &= np.abs(truth.rows) > LARGE * np.abs(x).max(axis=1, keepdims=True)
        if rotated.sum() < FEWEST:
            yield no_verdict("too few numbers are rounded", dtype)
            continue
        exact = truth.rows[rotated]
        ulp = np.ldexp(1.0, np.frexp(exact)[1] - SIGNIFICAND_BITS[dtype])
        every = [
            (got[rotated] - rows[rotated]) / ulp * np.sign(exact)
            for rows in _by_tables(oracle, x, m, dtype)
        ]
        off = np.clip(min(every, key=np.std), -1, 1)  # what one rounding does at most
        outward, upward = float(off.mean()), float((off * np.sign(exact)).mean())
        worst = max(outward, upward, key=abs)
        way = ("away from zero", "towards zero") if worst == outward else ("up", "down")
        passed = abs(worst) <= BIASED
        note = f"results are rounded {way[worst < 0]}, by {abs(worst):.2f} ulp on average"
        yield Outcome(
            passed=passed,
            max_error=abs(worst),
            tolerance=BIASED,
            samples=int(rotated.sum()),
            dtype=dtype,
            note=None if passed else note,
        )


def _by_tables(oracle: Oracle, x: Array, m: Array, dtype: str) -> Iterator[Array]:
    """Yield rows by exact tables, and by those and factors that right code rounds to the dtype."""

    def round_to_dtype(number: Any) -> Array:
        return np.asarray(number).astype(DTYPES[dtype]).astype(np.float64)

    rope = oracle.rotary_at(sequence_length(m))
    angles, factor = oracle.angles(rope, m), rope.attention_factor
    exact = np.exp(1j * angles)
    table = round_to_dtype(exact.real) + 1j * round_to_dtype(exact.imag)
    whole, twice = factor * exact, round_to_dtype(factor) * table
    z = x[:, rope.pairs_in[:, 0]] + 1j * x[:, rope.pairs_in[:, 1]]
    for each in (
        whole,
        round_to_dtype(factor) * exact,
        round_to_dtype(whole.real) + 1j * round_to_dtype(whole.imag),
        twice,
        round_to_dtype(twice.real) + 1j * round_to_dtype(twice.imag),
    ):
        rows, rotated = x.copy(), z * each
        rows[:, rope.pairs_out[:, 0]], rows[:, rope.pairs_out[:, 1]] = rotated.real, rotated.imag
        yield rows
