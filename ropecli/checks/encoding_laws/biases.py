"""Laws of encodings that add a bias to the score: ALiBi, KERPLE, FIRE, T5."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.encoding_laws.subject import EXACT, compare, law
from ropecli.encodings.types.alibi import slopes
from ropecli.encodings.types.fire import Fire
from ropecli.encodings.types.kerple import SMALLEST, Kerple
from ropecli.encodings.types.t5 import buckets
from ropecli.units import DOUBLE

if TYPE_CHECKING:
    from ropecli.checks.encoding_laws.subject import EncodingSubject
    from ropecli.checks.law import Outcome

#: The paper's slopes are powers of 2: these are the exponents.
EXPONENTS = {
    8: [-1, -2, -3, -4, -5, -6, -7, -8],
    12: [-1, -2, -3, -4, -5, -6, -7, -8, -0.5, -1.5, -2.5, -3.5],
    16: [-h / 2 for h in range(1, 17)],
}
#: The first distance of each T5 bucket, 32 buckets up to 128: in both directions, and causal.
BOTH_WAYS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91)
CAUSAL = (*range(16), 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113)
FAR = 200


def _published_slopes(_subject: EncodingSubject) -> Outcome:
    got = np.concatenate([slopes(heads) for heads in EXPONENTS])
    expected = np.concatenate([2.0 ** np.array(powers) for powers in EXPONENTS.values()])
    return compare(got, expected, 2 * DOUBLE)


def _geometric_slopes(_subject: EncodingSubject) -> Outcome:
    return compare(slopes(12), 2.0 ** (-8 * np.arange(1, 13) / 12), 2 * DOUBLE)


def _alibi_bias(subject: EncodingSubject) -> Outcome:
    """Not scaled, and above 0 for a key after its query."""
    m, n = subject.m, subject.n
    got = subject.scores(subject.zeros, subject.zeros)
    expected = -slopes(subject.encoding.sizes.heads)[:, None, None] * (m[:, None] - n)
    return compare(got, expected, subject.rounding(expected))


def _kerple_bias(subject: EncodingSubject) -> Outcome:
    """Both kinds of bias, on the same weights."""
    assert isinstance(subject.encoding, Kerple)
    weights = subject.encoding.weights
    distance = np.abs(subject.m[:, None] - subject.n)
    r1, r2 = (np.maximum(weights[name], SMALLEST)[:, None, None] for name in ("r1", "r2"))
    expected = np.stack([-r1 * np.log(1 + r2 * distance), -r1 * distance ** np.minimum(r2, 2.0)])
    both = [
        replace(subject, encoding=replace(subject.encoding, kind=kind)) for kind in ("log", "power")
    ]
    got = np.stack([each.scores(each.zeros, each.zeros) for each in both])
    return compare(got, expected, subject.rounding(expected))


def _relative_below_threshold(subject: EncodingSubject) -> Outcome:
    assert isinstance(subject.encoding, Fire)
    return _shift(subject, subject.encoding.threshold - len(subject.x))


def _relative_beyond_threshold(subject: EncodingSubject) -> Outcome:
    assert isinstance(subject.encoding, Fire)
    return _shift(subject, 2 * subject.encoding.threshold)


def _shift(subject: EncodingSubject, shift: float) -> Outcome:
    m, last = np.arange(float(len(subject.x))), shift + len(subject.x)
    here = subject.scores(m=m, n=m)
    there = subject.scores(m=m + shift, n=m + shift)
    return compare(there, here, 2 * subject.rounding(here, last))


def _published_buckets(_subject: EncodingSubject) -> Outcome:
    distance = np.arange(FAR)
    got = [buckets(-distance), buckets(distance[1:]), buckets(-distance, bidirectional=False)]
    past = np.searchsorted(BOTH_WAYS, distance, side="right") - 1
    causal = np.searchsorted(CAUSAL, distance, side="right") - 1
    expected = [past, past[1:] + 16, causal]
    return compare(np.concatenate(got), np.concatenate(expected), 0.0)


def _last_bucket_waits(_subject: EncodingSubject) -> Outcome:
    first = np.flatnonzero(buckets(-np.arange(FAR)) == 15)[:1]
    return compare(first, np.array([128]), 0.0)


def _content_is_unscaled(subject: EncodingSubject) -> Outcome:
    return _content(subject, 1.0)


def _content_is_scaled(subject: EncodingSubject) -> Outcome:
    return _content(subject, 1 / np.sqrt(subject.encoding.sizes.head_dim))


def _content(subject: EncodingSubject, scale: float) -> Outcome:
    """Compare the score less its bias with q.k times the scale."""
    weights = subject.encoding.weights
    q, k = subject.x @ weights["query"], subject.y @ weights["key"]
    whole = subject.scores()
    bias = subject.scores(subject.zeros, subject.zeros)
    expected = (q @ k.transpose(0, 2, 1)) * scale
    return compare(whole - bias, expected, 2 * subject.rounding(whole))


ALIBI = (
    law(
        "slopes of 8, 12 and 16 heads",
        "ALiBi section 3",
        _published_slopes,
        because="powers of 2, at most 1, each with a rounding of its exponent and of itself",
    ),
    law("slopes of 12 heads are geometric", "ALiBi section 3", _geometric_slopes, expected="fails"),
    law("bias = -slope (m - n)", "ALiBi section 3", _alibi_bias),
)
KERPLE = (law("bias, log and power", "KERPLE section 4", _kerple_bias),)
FIRE = (
    law("relative up to position L", "FIRE section 3", _relative_below_threshold),
    law("relative beyond L", "FIRE section 3", _relative_beyond_threshold, expected="fails"),
)
T5 = (
    law("published buckets", "T5 section 2.1", _published_buckets, because=EXACT),
    law(
        "the last bucket begins at max_distance",
        "T5 section 2.1",
        _last_bucket_waits,
        because=EXACT,
        expected="fails",
    ),
    law("content is q . k", "8", _content_is_unscaled),
    law("content is q . k / sqrt(d)", "8", _content_is_scaled, expected="fails"),
)
