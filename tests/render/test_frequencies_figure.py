"""The figure of wavelengths: lines, labels, what never turns, and the same bytes each time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ropecli import ArgumentError, Rotary, rope
from ropecli.render.figure import with_style
from ropecli.render.frequencies import wavelengths_figure

pytestmark = pytest.mark.slow

figure = with_style(wavelengths_figure)

PLAIN = Rotary(head_dim=32)
LINEAR = rope("linear", head_dim=32, factor=8.0)
STILL = rope("proportional", head_dim=32, partial_rotary_factor=0.25)  # 4 of 16 pairs turn
CURVES = [("default", PLAIN), ("linear, factor 8", LINEAR)]
CONTEXTS = [("original", 2048), ("context", 16_384)]


def lines(axes: Axes) -> dict[str, list[tuple[float, float]]]:
    """The points of each curve by its label; what has no label begins with an underscore."""
    return {
        str(line.get_label()): [(float(x), float(y)) for x, y in np.asarray(line.get_xydata())]
        for line in axes.get_lines()
    }


def side_labels(axes: Axes) -> dict[str, float]:
    """The labels at the right, and their heights."""
    return {text.get_text(): text.get_position()[1] for text in axes.texts}


def below(picture: Figure) -> list[str]:
    (legend,) = picture.legends
    return [text.get_text() for text in legend.get_texts()]


def test_lines_are_the_wavelengths() -> None:
    picture = figure(CURVES, title="two of them")
    (axes,) = picture.axes
    assert (axes.get_xlabel(), axes.get_yscale()) == ("pair", "log")
    assert axes.get_ylabel() == "wavelength (positions per turn)"
    assert picture.get_suptitle() == "two of them"
    assert lines(axes) == {name: list(enumerate(each.wavelength.tolist())) for name, each in CURVES}
    assert below(picture) == ["default", "linear, factor 8"]
    first, second = axes.get_lines()
    assert first.get_color() != second.get_color()
    assert first.get_linestyle() != second.get_linestyle()
    assert first.get_linewidth() > second.get_linewidth()  # seen where they coincide


def test_contexts_are_lines_and_what_is_beyond_is_grey() -> None:
    picture = figure(CURVES, CONTEXTS)
    (axes,) = picture.axes
    levels = [points[0][1] for name, points in lines(axes).items() if name.startswith("_")]
    assert levels == [2048, 16_384]
    assert list(side_labels(axes)) == ["original 2,048", "context 16,384"]
    (grey,) = axes.patches
    assert grey.get_window_extent().y0 == pytest.approx(
        axes.transData.transform((0, 16_384))[1], abs=1e-6
    )  # pixels, of which there are about a thousand
    assert below(picture)[-1] == "no full turn within 16,384 positions"


def test_pairs_that_never_turn_stand_on_a_line_that_says_so() -> None:
    (axes,) = figure([("p", STILL)], CONTEXTS).axes
    points = lines(axes)
    turning = [y for _, y in points["p"]]
    assert turning[:4] == STILL.wavelength[:4].tolist()
    assert np.isnan(turning[4:]).all()
    level = next(text for text in axes.texts if text.get_text() == "never turns")
    still = [line for line in axes.get_lines() if line.get_linestyle() == "None"]
    (at,) = {float(y) for y in np.asarray(still[0].get_ydata())}
    assert np.asarray(still[0].get_xdata()).tolist() == list(range(4, 16))
    assert 16_384 < at < axes.get_ylim()[1]
    height = axes.transAxes.inverted().transform(axes.transData.transform((0, at)))[1]
    assert level.get_position()[1] == pytest.approx(height, abs=1e-9)
    assert "never turns" not in side_labels(figure(CURVES, CONTEXTS).axes[0])


def test_each_axis_of_the_positions_is_a_line_of_its_own() -> None:
    mrope = rope("default", head_dim=16, mrope_section=[3, 2, 3])
    picture = figure([("M-RoPE", mrope), ("default", PLAIN)])
    (axes,) = picture.axes
    points = lines(axes)
    for each, own in enumerate([(0, 1, 2), (3, 4), (5, 6, 7)]):
        there = {x: y for x, y in points[f"M-RoPE, axis {each}"] if not np.isnan(y)}
        assert there == {i: mrope.wavelength[i] for i in own}
    shapes = [line.get_marker() for line in axes.get_lines()[:3]]
    assert len(set(shapes)) == 3
    assert below(picture) == ["M-RoPE, axis 0", "M-RoPE, axis 1", "M-RoPE, axis 2", "default"]


@pytest.mark.parametrize(
    "contexts",
    [
        CONTEXTS,
        [("original", 4096), ("sliding window", 4096)],
        [("a", 1000), ("b", 1001), ("c", 1002), ("d", 1003), ("a long name for a context", 9)],
    ],
)
def test_nothing_overlaps(contexts: list[tuple[str, int]]) -> None:
    curves = [("p", STILL), *CURVES, ("a name as long as one gets, base 1000000, partial", PLAIN)]
    picture = figure(curves, contexts, title="models/a-long-name-of-a-model/config.json " * 3)
    picture.draw_without_rendering()  # lays it out
    (axes,) = picture.axes
    (legend,) = picture.legends
    boxes = {
        "axes": axes.get_tightbbox(for_layout_only=False, bbox_extra_artists=[]),
        "legend": legend.get_window_extent(),
        "title": picture.texts[0].get_window_extent(),
    }
    boxes |= {
        f"{i} {text.get_text()}": text.get_window_extent() for i, text in enumerate(axes.texts)
    }
    whole = picture.bbox
    for name, box in boxes.items():
        assert box is not None
        assert box.x0 >= whole.x0 - 1, f"{name} is cut off"  # a pixel
        assert box.x1 <= whole.x1 + 1, f"{name} is cut off"
        assert box.y0 >= whole.y0 - 1, f"{name} is cut off"
        assert box.y1 <= whole.y1 + 1, f"{name} is cut off"
    for (name, one), (other, two) in itertools.combinations(boxes.items(), 2):
        assert one is not None
        assert two is not None
        assert not one.overlaps(two), f"{name} lies on {other}"


def test_no_curve_is_refused() -> None:
    with pytest.raises(ArgumentError, match="needs an encoding that rotates, got none"):
        figure([], CONTEXTS)


def test_names_are_taken_as_they_are() -> None:
    picture = figure([("_$a$", PLAIN)], [("$b$", 2048)], title="$c$")
    texts = [*picture.legends[0].get_texts(), *picture.axes[0].texts, *picture.texts]
    grey = "no full turn within 2,048 positions"
    assert [text.get_text().strip() for text in texts] == ["_$a$", grey, "$b$ 2,048", "$c$"]
    assert not any(text.get_parse_math() for text in texts)
