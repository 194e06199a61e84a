"""The figures: axes, data, frame, metadata, and the same bytes each time."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_within

from ropecli import Rotary, decay
from ropecli.render.decay import BOUNDS, CLIPPED_AT, PRINTED

pytestmark = pytest.mark.slow

PLAIN = decay(Rotary(head_dim=16), max_distance=64)
OTHER = decay(Rotary(head_dim=16, base=500.0), max_distance=64)
Q, K = np.random.default_rng(4).standard_normal((2, 16))
SCORED = decay(Rotary(head_dim=16), max_distance=64, q=Q, k=K)


def test_axes_have_the_papers_names() -> None:
    (axes,) = PLAIN.figure().axes
    assert axes.get_xlabel() == "relative distance"
    assert axes.get_ylabel() == "relative upper bound"
    assert axes.get_title() == "dim 16, base 10000"
    assert axes.get_legend() is None


def test_line_is_the_curve() -> None:
    (axes,) = PLAIN.figure().axes
    (line,) = axes.get_lines()
    x, y = np.asarray(line.get_xydata()).T
    assert x.tolist() == PLAIN.relative_distance.tolist()
    assert y.tolist() == PLAIN.relative_upper_bound.tolist()
    assert axes.get_xlim() == (0, 64)


def test_several_curves_have_a_legend_and_styles_of_their_own() -> None:
    picture = PLAIN.figure(OTHER)
    (axes,) = picture.axes
    first, second = axes.get_lines()
    assert np.asarray(second.get_ydata()).tolist() == OTHER.relative_upper_bound.tolist()
    assert axes.get_legend() is None
    (legend,) = picture.legends  # below the axes, where it hides no curve
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["dim 16, base 10000", "dim 16, base 500"]
    assert first.get_color() != second.get_color()
    assert first.get_linestyle() != second.get_linestyle()
    assert axes.get_title() == ""


def test_bound_stands_on_0() -> None:
    (axes,) = PLAIN.figure().axes
    assert axes.get_ylim()[0] == 0


def test_waves_beyond_number_are_means_and_ranges() -> None:
    long = decay(Rotary(head_dim=16), max_distance=5000)
    (axes,) = long.figure().axes
    (line,) = axes.get_lines()
    y = np.asarray(line.get_ydata())
    assert len(y) <= 256
    first = long.relative_upper_bound[:20]  # 5001 values in groups of 20
    assert y[0] == pytest.approx(first.mean(), rel=1e-14)  # a sum of 20
    (band,) = axes.collections
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    assert (heights.min(), heights.max()) == (
        long.relative_upper_bound.min(),
        long.relative_upper_bound.max(),
    )
    assert axes.get_xlabel().endswith("lines: mean of neighbours, bands: their range")
    (fine,) = decay(Rotary(head_dim=16), max_distance=256, step=0.02).figure().axes
    assert len(np.asarray(fine.get_lines()[0].get_xydata())) == 12_801


def test_papers_frame() -> None:
    curve = decay(Rotary(head_dim=128), max_distance=256, step=0.25)
    picture = curve.figure(figure2=True)
    (axes,) = picture.axes
    assert axes.get_xlim() == (0, 256)
    assert axes.get_ylim() == PRINTED == (6.385, 19.75)
    assert axes.get_xticks().tolist() == [0, 50, 100, 150, 200, 250]
    assert axes.get_title() == ""
    width, height = picture.get_size_inches()
    # Two lengths in inches, each a rounding off.
    assert_within("aspect", got=width / height, expected=(1 + 5**0.5) / 2, tolerance=1e-15)


def test_papers_frame_clips_what_the_paper_clips() -> None:
    curve = decay(Rotary(head_dim=128), max_distance=256, step=0.25)
    (axes,) = curve.figure(figure2=True).axes
    x, y = np.asarray(axes.get_lines()[0].get_xydata()).T
    bound = curve.relative_upper_bound
    assert np.isnan(y).tolist() == (bound > CLIPPED_AT).tolist()
    assert np.isnan(y[0])
    assert y[~np.isnan(y)].tolist() == bound[bound <= CLIPPED_AT].tolist()
    # The paper's curve enters its frame at 8.098; the step is 0.25.
    assert 8.098 <= x[~np.isnan(y)][0] <= 8.098 + 0.25


def test_score_and_bounds_stand_in_one_figure() -> None:
    together, alone, pairs = SCORED.figure().axes  # at 0, the sums S_j are real
    assert together.get_yscale() == "log"
    assert alone.get_xlabel() == "relative distance"
    assert (together.get_ylabel(), alone.get_ylabel()) == ("|score| and its bounds", "score")
    got = {str(line.get_label()): np.asarray(line.get_ydata()) for line in together.get_lines()}
    assert SCORED.score is not None
    wanted = [np.abs(SCORED.score), *SCORED.bounds.values()]
    assert list(got) == ["|score|", *BOUNDS.values()]
    assert [y.tolist() for y in got.values()] == [y.tolist() for y in wanted]
    curve = alone.get_lines()[0]  # before the line at 0
    assert np.asarray(curve.get_ydata()).tolist() == SCORED.score.tolist()
    assert np.asarray(curve.get_xdata()).tolist() == SCORED.relative_distance.tolist()
    assert pairs.get_ylabel() == "contribution at 0"
    sums = decay(SCORED.rope, max_distance=64, q=Q, k=K, at=3).figure().axes[3]
    assert sums.get_ylabel() == "Im S_j at 3"


def test_several_scores_are_named() -> None:
    other = decay(Rotary(head_dim=16, base=500.0), max_distance=64, q=Q, k=K)
    titles = [axes.get_title() for axes in SCORED.figure(other).axes]
    assert [title for title in titles if title] == ["dim 16, base 10000", "dim 16, base 500"]
