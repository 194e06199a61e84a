"""The longest context of a base, and the bases of a context: Men et al. 2024, arXiv:2405.14591."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from helpers import assert_within, slow, slow_rows
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from numpy.typing import NDArray

from ropecli import ArgumentError, Rotary, base_bound, base_scan, rope

U = 2.0**-53


def exact_sum(inv_freq: NDArray[np.float64], m: int) -> Any:
    """B(m) of a float64 table, with 40 digits."""
    with mp.workdps(40):
        return mp.fsum(mp.cos(m * mpf(float(theta))) for theta in inv_freq)


def exact_sum_of_base(base: float, dim: int, m: int) -> Any:
    """B(m) of plain RoPE from the base itself, with 40 digits."""
    with mp.workdps(40):
        powers = [mpf(base) ** (-mpf(2 * i) / dim) for i in range(dim // 2)]
        return mp.fsum(mp.cos(m * theta) for theta in powers)


def error_bound(inv_freq: NDArray[np.float64], m: int) -> float:
    """The largest error of a computed B(m).

    Per pair: u m theta for angles, 4 u for each of cos and sin of two complex numbers, and the
    roundings of as many products and sums as there are cosines and sines.
    """
    pairs = len(inv_freq)
    return 1.01 * U * (m * float(np.abs(inv_freq).sum()) + pairs * (8 * math.sqrt(2) + 2 * pairs))


def holds(base: float, context: int, *, head_dim: int = 128, rotary_dim: int | None = None) -> bool:
    rotary = Rotary(head_dim=head_dim, rotary_dim=rotary_dim, base=base)
    found = base_bound(rotary, context_length=context, positions=1)
    assert found.holds is not None
    return found.holds


# The longest context of a base.

LONGEST = [
    (128, 500.0, 170),
    (128, 1e3, 360),
    (128, 1e4, 1706),
    (64, 1e4, 724),
    *slow_rows(
        (64, 150_000.0, 2773),
        (256, 1e4, 2652),
        (128, 1e5, 7756),
        (128, 5e5, 18_437),
        (128, 2e5, 12_121),
        (128, 1e6, 27_114),
        (128, 5e6, 82_998),
        (128, 1e7, 144_659),
        (64, 1e6, 6234),
    ),
]


@pytest.mark.parametrize(("dim", "base", "longest"), LONGEST)
def test_longest_context_of_a_base(dim: int, base: float, longest: int) -> None:
    found = base_bound(Rotary(head_dim=dim, base=base), positions=200_000)
    assert (found.longest_context, found.first_negative) == (longest, longest + 1)
    assert exact_sum_of_base(base, dim, longest + 1) < 0
    assert exact_sum_of_base(base, dim, longest) >= 0


@pytest.mark.parametrize(("m", "printed"), [(1706, 0.068603), (1707, -0.498932)])
def test_sums_around_the_first_negative_one(m: int, printed: float) -> None:
    found = base_bound(Rotary(head_dim=128, base=1e4), positions=m)
    sums = (exact_sum_of_base(1e4, 128, m), found.lowest.min() if m == 1707 else printed)
    for value in sums:
        assert_within(f"B({m})", got=float(value), expected=printed, tolerance=0.5e-6)


#: Least bases that hold m = 0 ... L - 1 (d = 128), as computed for this project, and where the
#: base below fails. Su Jianlin (kexue.fm/archives/10122) prints them with two digits.
LEAST = [
    (1024, 4293.4376, 1009),
    *slow_rows((2048, 11_587.2443, 1788), (4096, 26_952.3392, 4012), (8192, 83_763.841, 8172)),
]


@pytest.mark.parametrize(("length", "base", "binding"), LEAST)
def test_least_base_of_a_length(length: int, base: float, binding: int) -> None:
    below = base_bound(Rotary(head_dim=128, base=base - 1e-3))
    assert below.first_negative == binding
    assert holds(base + 1e-3, length - 1)


#: A base that holds 1,024 n tokens, next to the least one known, and that of Su's row.
SU = [
    (1, 4293.45, "4.3e+03"),
    *slow_rows(
        (2, 11_587.25, "1.2e+04"),
        (4, 26_952.34, "2.7e+04"),
        (8, 83_763.85, "8.4e+04"),
        (16, 231_650.0, "2.3e+05"),
        (32, 630_200.0, "6.3e+05"),
        (64, 2_090_700.0, "2.1e+06"),
        (128, 4_870_000.0, "4.9e+06"),
        (256, 23_662_800.0, "2.4e+07"),
        (512, 58_496_216.14303192, "5.8e+07"),
        (1024, 65_430_000.0, "6.5e+07"),
    ),
]


@pytest.mark.parametrize(("thousands", "base", "printed"), SU)
def test_least_base_as_su_prints_it(thousands: int, base: float, printed: str) -> None:
    length = 1024 * thousands
    assert holds(base, length - 1)
    assert f"{base:.1e}" == printed
    below = base_scan(context_length=length - 1, low=0.8 * base, high=0.999 * base, grid=20)
    assert below.smallest is None


def test_bases_that_hold_are_not_an_interval() -> None:
    assert [holds(b, 1023) for b in (4290.0, 4302.0, 5000.0, 6000.0, 6100.0)] == [
        False,
        True,
        False,
        False,
        True,
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("thousands", "largest"), [(1, 5.9e3), (2, 2.25e4), (4, 5.8e4), (8, 3.9e5)]
)
def test_bases_far_above_the_least_fail(thousands: int, largest: float) -> None:
    high = 1.05 * largest
    scan = base_scan(context_length=1024 * thousands - 1, low=0.9 * largest, high=high, grid=300)
    assert scan.smallest is not None
    assert scan.safe_above is not None
    assert scan.smallest < scan.safe_above
    assert largest <= scan.safe_above < high


#: Least bases of other head dims for m < L, to the digits computed for this project.
OTHERS = [(64, 2048, 2.96e4), (64, 4096, 1.0e5), (64, 8192, 3.24e5), (256, 4096, 1.77e4)]


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "length", "least"), [*OTHERS, (256, 8192, 4.13e4)])
def test_least_base_of_other_head_dims(dim: int, length: int, least: float) -> None:
    low, high = 0.9 * least, 1.01 * least
    scan = base_scan(context_length=length - 1, head_dim=dim, low=low, high=high, grid=1000)
    assert scan.smallest is not None
    assert f"{scan.smallest:.2e}" == f"{least:.2e}"


# Any table of frequencies.


@given(
    theta=st.lists(st.floats(1e-6, 3.0), min_size=1, max_size=6),
    last=st.integers(1, 10**6),
    part=st.floats(0, 1),
)
def test_sums_are_within_their_bound(theta: list[float], last: int, part: float) -> None:
    table = np.array(theta)
    found = base_bound(Rotary.from_inv_freq(table), context_length=last, positions=1)
    first = found.first_negative
    assert first is None or exact_sum(table, first) < 0
    end = last if first is None else first - 1
    assert all(exact_sum(table, m) >= 0 for m in {1, end // 2, end} if 0 < m <= end)
    row = int(part * (len(found.position) - 1))
    begin, stop = int(found.position[row]), int(found.last_position[row])
    for m in {begin, (begin + stop) // 2, stop}:
        value, error = float(exact_sum(table, m)), error_bound(table, m)
        assert found.lowest[row] - error <= value <= found.highest[row] + error
        if begin == stop:
            assert_within(f"B({m})", got=found.lowest[row], expected=value, tolerance=error)


@pytest.mark.slow
def test_threads_change_no_bit() -> None:
    code = (
        "import ropecli, sys; rope = ropecli.Rotary(head_dim=96, base=1e7);"
        "curve = ropecli.base_bound(rope, context_length=200_000, positions=1);"
        "sys.stdout.write((curve.lowest.tobytes() + curve.highest.tobytes()).hex())"
    )
    curves = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            check=True,
        ).stdout
        for threads in ("1", "2", "3")
    }
    assert len(curves) == 1
    assert len(*curves) > 10_000


QUARTER = math.pi / 2  #: Below the real one by 6e-17.


@pytest.mark.parametrize(
    ("theta", "first"),
    [
        (QUARTER, 2),
        (np.nextafter(QUARTER, 2), 1),
        (3 * QUARTER, 1),
        (QUARTER / 3, 4),
        (QUARTER / 21, 21),  # whose cosine in float64 is positive
        (QUARTER / 83, 83),
    ],
)
def test_a_sum_within_rounding_of_0_has_its_own_sign(theta: float, first: int) -> None:
    found = base_bound(Rotary.from_inv_freq([theta]))
    assert found.first_negative == first
    signs = [exact_sum(np.array([theta]), m) < 0 for m in range(1, first + 1)]
    assert signs == [False] * (first - 1) + [True]


@given(st.integers(2, 16).map(lambda pairs: 2 * pairs), st.integers(0, 40))
def test_pairs_that_never_turn_are_not_counted(rotary_dim: int, more: int) -> None:
    partial = Rotary(head_dim=rotary_dim + 2 * more, rotary_dim=rotary_dim, base=500.0)
    padded = Rotary.from_inv_freq([*partial.inv_freq, *[0.0] * more])
    whole = base_bound(Rotary.from_inv_freq(partial.inv_freq), positions=500)
    for each in (partial, padded):
        found = base_bound(each, positions=500)
        assert found.first_negative == whole.first_negative
        assert found.lowest.tolist() == whole.lowest.tolist()
        assert found.turning == rotary_dim // 2


def test_nothing_that_turns_has_no_sum() -> None:
    with pytest.raises(ArgumentError, match="over pairs that rotate, and none does"):
        base_bound(Rotary.from_inv_freq([0.0, 0.0]))


@pytest.mark.slow
def test_scaled_types_have_a_bound_of_their_own() -> None:
    plain = base_bound(Rotary(head_dim=128, base=5e5), context_length=131_072)
    scaled = rope(
        "llama3",
        head_dim=128,
        rope_theta=5e5,
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=8192,
    )
    found = base_bound(scaled, context_length=131_072)
    assert (plain.longest_context, found.longest_context) == (18_437, 85_132)
    assert (plain.holds, found.holds) == (False, False)
    slower = base_bound(rope("linear", head_dim=128, factor=4.0))
    assert slower.first_negative is not None
    assert 4 * 1706 < slower.first_negative <= 4 * 1707  # at distances between the unscaled ones


# The curve.


def test_curve_has_the_least_and_the_largest_of_its_parts() -> None:
    rotary = Rotary(head_dim=16, base=300.0)
    found = base_bound(rotary, context_length=3000, positions=10)
    assert found.searched == 3000
    assert (found.position[0], found.last_position[-1]) == (0, 3000)
    assert (found.position[1:] == found.last_position[:-1] + 1).all()
    sums = np.cos(np.outer(np.arange(3001), rotary.inv_freq)).sum(axis=1)
    for row in (0, 1, 40, len(found.position) // 2, len(found.position) - 1):
        part = sums[found.position[row] : found.last_position[row] + 1]
        # Both sums round angles of up to 3000 * sum theta, cos, sin and the sums over 8 pairs.
        tolerance = 2 * U * (3000 * float(rotary.inv_freq.sum()) + 8 * 20)
        got = [found.lowest[row], found.highest[row]]
        expected = [part.min(), part.max()]
        assert_within(f"part {row}", got=got, expected=expected, tolerance=tolerance)


def test_the_search_goes_on_to_the_context() -> None:
    found = base_bound(Rotary(head_dim=128, base=1e4), context_length=1706, positions=10)
    assert (found.searched, found.first_negative, found.longest_context) == (1706, None, None)
    assert found.holds
    assert base_bound(Rotary(head_dim=8), positions=1).holds is None


# Scans.


def test_each_base_of_a_scan_is_searched_on_its_own() -> None:
    scan = base_scan(context_length=300, head_dim=24, low=50, high=1e6, grid=40)
    for base, first in zip(scan.base, scan.first_negative, strict=True):
        found = base_bound(Rotary(head_dim=24, base=float(base)), positions=300).first_negative
        assert (None if first < 0 else first) == found
    holding = scan.base[scan.holds]
    assert sum(np.count_nonzero((holding >= a) & (holding <= b)) for a, b in scan.runs) == len(
        holding
    )
    assert scan.smallest == holding.min()
    assert scan.safe_above == scan.base[~scan.holds].max()
    assert_within("ratio", got=scan.ratio, expected=2e4 ** (1 / 39), tolerance=1e-12)


@pytest.mark.parametrize("dim", [6, 24, *slow(128)])
def test_every_base_above_the_proven_one_holds(dim: int) -> None:
    scan = base_scan(context_length=60, head_dim=dim, grid=2)
    assert scan.proven_above is not None
    above = np.random.default_rng(0).uniform(0, 3, 5)
    for base in [scan.proven_above, *(scan.proven_above * 10**above)]:
        assert holds(float(base), 60, head_dim=dim)


def test_a_scan_of_part_of_a_head() -> None:
    scan = base_scan(context_length=500, head_dim=64, rotary_dim=56, low=200, high=20000, grid=9)
    for base, held in zip(scan.base, scan.holds, strict=True):
        assert held == holds(float(base), 500, head_dim=64, rotary_dim=56)
    assert scan.holds.any()
    assert not scan.holds.all()


def test_a_scan_without_one_that_holds_or_one_that_fails() -> None:
    none = base_scan(context_length=1000, low=100, high=200, grid=3)
    assert (none.smallest, none.safe_above, none.runs) == (None, 200.0, ())
    every = base_scan(context_length=100, low=1e5, high=1e6, grid=3)
    assert (every.smallest, every.safe_above, every.runs) == (1e5, None, ((1e5, 1e6),))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"context_length": 0}, "context length must be from 1 to 2^32, got 0"),
        ({"context_length": 2**33}, "context length must be from 1 to 2^32, got 8589934592"),
        ({"grid": 1}, "grid must be from 2 to 1,000,000, got 1"),
        ({"low": 9.0, "high": 9.0}, "low must be below high, got 9 and 9"),
        ({"low": -1.0}, "low must be finite and above 0, got -1"),
        ({"head_dim": 7}, "head dim must be an even number of at least 2, got 7"),
        ({"head_dim": 4}, "high must be given where no base is proven to hold, as with rotary dim"),
    ],
)
def test_refusals_of_a_scan(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        base_scan(**{"context_length": 100, **arguments})
    assert str(caught.value).startswith(message)


def test_refusals() -> None:
    wrong: list[dict[str, Any]] = [{"context_length": 0}, {"positions": 0}, {"positions": 2**33}]
    for arguments in wrong:
        with pytest.raises(ArgumentError, match="must be from 1 to 2\\^32"):
            base_bound(Rotary(head_dim=4), **arguments)
    with pytest.raises(ArgumentError, match="xPos changes lengths"):
        base_bound(rope("xpos", head_dim=4))


def test_a_scan_tells_how_many_of_its_bases_are_done() -> None:
    done: list[tuple[int, int]] = []
    base_scan(context_length=20, head_dim=16, grid=3, progress=lambda *counts: done.append(counts))
    assert done == [(1, 3), (2, 3), (3, 3)]
