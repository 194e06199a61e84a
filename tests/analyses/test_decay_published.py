"""The bound and the score against what papers print."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest
from helpers import ROOT, assert_within

from ropecli import Rotary, decay, rotate


def at(distance: float, *, reduce: str = "mean", **rope: float) -> float:
    """The bound at one distance."""
    return decay(
        Rotary(**{"head_dim": 128, **rope}),  # type: ignore[arg-type]
        start=distance,
        max_distance=distance,
        reduce=reduce,
    ).start


def half_unit(printed: str) -> float:
    """Half a unit of the last printed digit, and 1e-10 for the sum.

    A sum of d/2 <= 128 sizes |S_j| <= j is off by (2 r + 8 + d/2) u d/2 at most once divided by
    d/2, u = 2^-53: below 1e-10 up to r = 8192 and below 2e-9 at r = 70508, of which the digits
    printed for that distance hide 5e-7.
    """
    return 0.5 * 10.0 ** -len(printed.partition(".")[2]) + 1e-10


def read_figure2() -> list[tuple[float, float]]:
    lines = (ROOT / "tests" / "data" / "figure2.csv").read_text().splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return [(float(r["relative_distance"]), float(r["relative_upper_bound"])) for r in rows]


FIGURE_2 = read_figure2()


def test_all_printed_points_are_read() -> None:
    assert len(FIGURE_2) == 16
    assert FIGURE_2[0] == (8.098, 19.75)


@pytest.mark.parametrize(("distance", "bound"), FIGURE_2)
def test_figure_2_of_the_paper(distance: float, bound: float) -> None:
    # 2e-3: how exactly points can be read off the paper's vector drawing.
    assert_within(f"bound at {distance}", got=at(distance), expected=bound, tolerance=2e-3)


#: The mean over j of |S_j|, by head dim, base and distance.
TABLE: dict[tuple[int, float], dict[int, str]] = {
    (128, 1e4): {
        0: "32.500000", 1: "31.538166", 2: "28.955988", 3: "25.598997", 4: "22.604043",
        5: "20.845358", 8: "19.817395", 10: "17.954137", 16: "15.774951", 20: "15.242430",
        32: "13.384314", 50: "12.629452", 64: "10.089942", 100: "10.227330", 128: "9.272903",
        150: "7.588477", 200: "7.244771", 236: "6.414997", 250: "6.548179", 256: "6.543097",
        512: "5.311366", 1024: "4.024113", 2048: "3.618515", 4096: "4.882792", 8192: "4.9019",
    },
    (128, 5e5): {1: "31.6469", 10: "20.8857", 100: "13.7088", 1000: "10.2002"},
    (128, 1e6): {1: "31.6639", 10: "21.2886", 100: "13.5328", 1000: "12.5007"},
    (64, 1e4): {1: "15.9478", 10: "8.8143", 100: "7.4653", 1000: "4.0897"},
    (256, 1e4): {1: "62.7113", 10: "36.2177", 100: "18.6161", 1000: "11.2548"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("dim", "base", "distance", "printed"),
    [(*rope, *row) for rope, rows in TABLE.items() for row in rows.items()],
)
def test_bound_to_the_printed_digits(dim: int, base: float, distance: float, printed: str) -> None:
    got = at(distance, head_dim=dim, base=base)
    what = f"bound of dim {dim}, base {base:g} at {distance}"
    assert_within(what, got=got, expected=float(printed), tolerance=half_unit(printed))


def test_lowest_of_the_whole_distances_of_figure_2() -> None:
    curve = decay(Rotary(head_dim=128), start=1, max_distance=256)
    lowest, where = curve.lowest
    assert where == 236
    assert_within("lowest", got=lowest, expected=6.414997, tolerance=half_unit("6.414997"))


def test_lowest_between_whole_distances() -> None:
    # Within 5e-4 of the minimum at 250.685 the curve, whose second derivative is at most the mean
    # over j of sum theta_i^2 < 6, rises by less than 6 (5e-4)^2 / 2 < 1e-6.
    curve = decay(Rotary(head_dim=128), start=250.5, max_distance=251, step=0.001)
    lowest, where = curve.lowest
    assert_within("where", got=where, expected=250.685, tolerance=1e-3)
    assert_within("lowest", got=lowest, expected=6.385217, tolerance=0.5e-6 + 1e-6)


@pytest.mark.parametrize("dim", [2, 4, 64, 128, 130, 256])
@pytest.mark.parametrize("base", [0.5, 1.0, 10_000.0])
def test_bound_at_distance_0_is_half_of_pairs_plus_1_exactly(dim: int, base: float) -> None:
    curve = decay(Rotary(head_dim=dim, base=base), max_distance=0)
    assert curve.relative_distance.tolist() == [0.0]
    assert curve.start == (dim // 2 + 1) / 2


# Figure 5 of the position interpolation paper (arXiv 2306.15595): the sum over d, d = 128.
@pytest.mark.parametrize(
    ("distance", "printed"),
    [(0, "16.25"), (2048, "1.809258"), (3643, "1.115908"), (70508, "0.589676")],
)
def test_position_interpolation_figure_5(distance: float, printed: str) -> None:
    got = at(distance, reduce="sum") / 128
    assert_within(
        f"B({distance})/d", got=got, expected=float(printed), tolerance=half_unit(printed)
    )


def test_position_interpolation_stays_above_1_up_to_4096_and_not_beyond() -> None:
    curve = decay(Rotary(head_dim=128), max_distance=4095, reduce="sum")
    lowest, where = curve.lowest
    assert where == 3643
    assert lowest / 128 > 1
    assert at(70508, reduce="sum") / 128 < 1


# sum_i cos(r theta_i) for d = 128: half of the score of vectors of ones, where every h_i is 2.
COSINES: dict[float, dict[int, str]] = {
    1e4: {
        0: "64", 1: "62.093684", 10: "42.820023", 100: "30.543455", 1000: "10.177728",
        2048: "7.634171", 4096: "-3.382614",
    },
    5e5: {1: "62.58619", 100: "39.103276", 8192: "16.986486"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("base", "distance", "printed"),
    [(base, *row) for base, rows in COSINES.items() for row in rows.items()],
)
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_score_of_ones_is_the_sum_of_cosines(
    base: float, distance: float, printed: str, layout: str
) -> None:
    ones = np.ones(128)
    rope = Rotary(head_dim=128, base=base, layout=layout)
    curve = decay(rope, start=distance, max_distance=distance, q=ones, k=ones)
    assert curve.score is not None
    what = f"sum of cosines at {distance}"
    got = curve.score[0] / 2
    tolerance = half_unit(printed) if distance else 0.0
    assert_within(what, got=got, expected=float(printed), tolerance=tolerance)


@pytest.mark.parametrize("distance", [0, 1, 100, 5000])
def test_scores_of_random_vectors_have_neither_mean_nor_decay(distance: int) -> None:
    """Barbero et al. 2024, Proposition 3.2: the mean is 0 at every distance; the variance is d."""
    count, dim = 4000, 64
    q, k = np.random.default_rng(distance).standard_normal((2, count, dim))
    scores = (rotate(q, Rotary(head_dim=dim), np.full(count, distance)) * k).sum(axis=1)
    # Five standard deviations of the mean, and of the variance of a sum of d products of normals,
    # whose fourth moment is (3 + 6 / d) d^2.
    assert abs(scores.mean()) < 5 * math.sqrt(dim / count)
    assert abs(scores.var() / dim - 1) < 5 * math.sqrt((2 + 6 / dim) / count)
