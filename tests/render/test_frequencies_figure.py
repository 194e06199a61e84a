"""The figure of wavelengths: lines, labels, what never turns, and the same bytes each time."""

from __future__ import annotations

import itertools

import pytest

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
