"""Laws of rounding and of the gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.arrays import DTYPES
from ropecli.checks.implementation.calling.request import Request
from ropecli.checks.implementation.interface import (
    Died,
    ImplementationError,
    Unsupported,
    WrongResult,
    real_numbers,
)
from ropecli.checks.implementation.judge import call_failure, compare_rows, format_position
from ropecli.checks.implementation.oracle import (
    phase_tolerance,
    sequence_length,
)
from ropecli.checks.implementation.subject import needs_oracle
from ropecli.checks.law import Law, Outcome, no_verdict
from ropecli.reference import float64
from ropecli.units import SIGNIFICAND_BITS, SMALLEST_NORMAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ropecli.checks.implementation.subject import Subject

    Array = NDArray[np.float64]

BIASED = 0.25  #: Mean of signed errors, in ulp, that rounding to nearest does not reach.
LARGE = 0.25  #: Share of the largest number of its vector that a result must have.
FEWEST = 1000  #: Numbers of which a mean says something.
ROWS = 1024


def rounding(subject: Subject) -> Iterator[Outcome]:
    """Results in half precision are rounded to nearest: their signed errors average to zero.

    One rounding to nearest is off by -1/2 to 1/2 ulp, 0 on average. One that cuts digits off is off
    by 0 to 1 ulp towards zero, one that rounds down or up by as much: 1/2 on average. Tables in
    half precision shift the mean of rows that have the same cosines, by up to 1/4 of an ulp. The
    mean of n errors, each of a standard deviation of 0.3, is known to 0.3 / sqrt(n), 0.01 here.
    """
    assert subject.oracle is not None
    half = [dtype for dtype in subject.dtypes if "16" in dtype]
    if not half:
        yield no_verdict("it is not given half precision data")
    for dtype in half:
        places = subject.on_axes(np.arange(min(ROWS, subject.context)))
        x = subject.vectors(len(places), dtype, salt=47)
        try:
            got = subject.rotate(x, places, dtype)
        except (ImplementationError, Unsupported) as error:
            yield Outcome(passed=None, note=str(error), dtype=dtype)
            continue
        truth = subject.oracle.truth(x, places.astype(np.float64), dtype)
        rope = subject.oracle.rotary_at(sequence_length(places))
        turned = np.zeros(got.shape, dtype=bool)
        turned[:, rope.pairs_out.ravel()] = True
        # Exact results, of pairs that do not turn, and wrong ones say nothing of rounding, nor do
        # small differences of large products.
        turned &= (np.abs(truth.rows) > SMALLEST_NORMAL[dtype]) & (got != x) & ~truth.wrong(got)
        turned &= np.abs(truth.rows) > LARGE * np.abs(x).max(axis=1, keepdims=True)
        if turned.sum() < FEWEST:
            yield Outcome(passed=None, note="too few numbers are rounded", dtype=dtype)
            continue
        exact = truth.rows[turned]
        ulp = np.ldexp(1.0, np.frexp(exact)[1] - SIGNIFICAND_BITS[dtype])
        off = np.clip((got[turned] - exact) / ulp, -1, 1)  # what one rounding does at most
        outward, upward = float((off * np.sign(exact)).mean()), float(off.mean())
        worst = max(outward, upward, key=abs)
        way = ("away from zero", "towards zero") if worst == outward else ("up", "down")
        passed = abs(worst) <= BIASED
        note = f"results are rounded {way[worst < 0]}, by {abs(worst):.2f} ulp on average"
        yield Outcome(
            passed=passed,
            max_error=abs(worst),
            tolerance=BIASED,
            samples=int(turned.sum()),
            dtype=dtype,
            note=None if passed else note,
        )


def gradient(subject: Subject) -> Outcome:
    """The gradient of the input is the one of the result, turned back and stretched as much."""
    assert subject.oracle is not None
    count = min(32, subject.context)
    places = subject.on_axes(np.arange(count))
    held = DTYPES[subject.dtype]
    x = subject.vectors(count, salt=48).astype(held)[None, None]
    up = subject.vectors(count, salt=49)
    request = Request(q=x, positions=places, gradient=up.astype(held)[None, None])
    try:
        response = subject.implementation.fresh().request(request)
    except Unsupported as error:
        return no_verdict(str(error))
    except (WrongResult, Died) as error:
        return call_failure(error)
    except ImplementationError as error:
        return no_verdict(f"refuses to be differentiated: {error}")
    if response.gradient is None:
        return no_verdict("a decoder keeps what it is given")
    got = real_numbers(response.gradient, x)[0, 0]
    m = places.astype(np.float64)
    rope = subject.oracle.rotary_at(sequence_length(m))
    angles = subject.oracle.angles(rope, m)
    expected = float64.rotate(
        up, -angles, pairs_in=rope.pairs_out, pairs_out=rope.pairs_in, factor=rope.attention_factor
    )
    first, second = rope.pairs_out.T
    size = rope.attention_factor * np.hypot(up[:, first], up[:, second])
    unit = subject.tolerances.of_pair(subject.dtype)
    least = subject.tolerances.of_number(subject.dtype)
    tolerance = unit * np.abs(expected) + least
    lost = phase_tolerance(angles, rope.inv_freq) + subject.oracle.uncertain_phase(rope, m)
    for column in rope.pairs_in.T:
        tolerance[:, column] = (unit + lost) * size + least

    def example(row: int, j: int) -> str:
        return (
            f"{format_position(m[row])}, coordinate {j}: gradient {got[row, j]:.6g}, "
            f"expected {expected[row, j]:.6g}"
        )

    return compare_rows(got, expected, tolerance, dtype=subject.dtype, example=example)


ROUNDING = Law(
    name="rounding",
    equation="34",
    because="half of the mean error of digits cut off, 1/2 ulp",
    judge=rounding,
    meaning="half precision results are biased",
    excuse=needs_oracle,
)
GRADIENT = Law(
    name="gradient",
    equation="34",
    because="the rounding of one rotation",
    judge=gradient,
    meaning="the gradient is not the inverse rotation",
    excuse=needs_oracle,
)
