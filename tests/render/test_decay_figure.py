"""The figures: axes, data, frame, metadata, and the same bytes each time."""

from __future__ import annotations

import numpy as np
import pytest

from ropecli import Rotary, decay
from ropecli.render.decay import CLIPPED_AT

pytestmark = pytest.mark.slow

Q, K = np.random.default_rng(4).standard_normal((2, 16))


def test_waves_beyond_number_are_means_and_ranges() -> None:
    long = decay(Rotary(head_dim=16), max_distance=5000)
    picture = long.figure()
    (axes,) = picture.axes
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
    (entry,) = picture.legends[0].get_texts()
    assert entry.get_text() == "range of neighbours, the line is their mean"
    (fine,) = decay(Rotary(head_dim=16), max_distance=256, step=0.02).figure().axes
    assert len(np.asarray(fine.get_lines()[0].get_xydata())) == 12_801


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
