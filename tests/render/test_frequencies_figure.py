"""The figure of wavelengths: lines, labels, what never turns, and the same bytes each time."""

from __future__ import annotations

import hashlib
import itertools
import re
import warnings
from typing import Any

import numpy as np
import pytest
from helpers import run_python
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ropecli import ArgumentError, Rotary, __version__, rope
from ropecli.render.figure import figure_bytes
from ropecli.render.frequencies_figure import figure

pytestmark = pytest.mark.slow

PLAIN = Rotary(head_dim=32)
LINEAR = rope("linear", head_dim=32, factor=8.0)
STILL = rope("proportional", head_dim=32, partial_rotary_factor=0.25)  # 4 of 16 pairs turn
CURVES = [("default", PLAIN), ("linear, factor 8", LINEAR)]
CONTEXTS = [("original", 2048), ("context", 16_384)]
COMMAND = "ropecli inspect config.json -o x.png"


def lines(axes: Axes) -> dict[str, list[tuple[float, float]]]:
    """The points of each curve by its label; what has no label begins with an underscore."""
    return {
        str(line.get_label()): [(float(x), float(y)) for x, y in np.asarray(line.get_xydata())]
        for line in axes.get_lines()
    }


def saved(*curves: Any, suffix: str, title: str = "", command: str = "") -> bytes:
    """A figure as a file."""
    return figure_bytes(figure(*curves, title=title), suffix=suffix, command=command)


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


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_same_bytes_from_run_to_run(suffix: str) -> None:
    once, again = (saved(CURVES, CONTEXTS, suffix=suffix, command=COMMAND) for _ in range(2))
    assert once == again


def test_same_bytes_in_another_process_elsewhere() -> None:
    code = """
import hashlib
import sys
from ropecli import Rotary
from ropecli.render.figure import figure_bytes
from ropecli.render.frequencies_figure import figure
for suffix in (".png", ".svg", ".pdf"):
    picture = figure([("p", Rotary(head_dim=32))], [("c", 2048)])
    content = figure_bytes(picture, suffix=suffix, command="")
    print(hashlib.sha256(content).hexdigest())
assert "matplotlib.pyplot" not in sys.modules
"""
    done = run_python(code, TZ="Asia/Tokyo", PYTHONHASHSEED="5", SOURCE_DATE_EPOCH="")
    assert done.returncode == 0, done.stderr
    here = [saved([("p", PLAIN)], [("c", 2048)], suffix=s) for s in (".png", ".svg", ".pdf")]
    assert done.stdout.split() == [hashlib.sha256(content).hexdigest() for content in here]


@pytest.mark.parametrize(
    ("suffix", "begin"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")]
)
def test_file_says_what_made_it(suffix: str, begin: bytes) -> None:
    content = saved(CURVES, CONTEXTS, suffix=suffix, command=COMMAND)
    assert content.startswith(begin)
    text = content.decode("latin-1")
    assert f"ropecli {__version__}" in text
    assert COMMAND in text
    assert not re.search(r"20\d\d-\d\d-\d\d|D:20\d\d", text)  # no date


def test_title_and_command_are_in_the_file() -> None:
    plain = saved(CURVES, suffix=".svg")
    assert saved(CURVES, suffix=".svg", title="t") != plain
    assert saved(CURVES, suffix=".svg", command="c") != plain


@pytest.mark.parametrize(
    "curve",
    [
        Rotary(head_dim=2),
        Rotary.from_inv_freq([0.0, 0.0]),
        Rotary.from_inv_freq([1e300, -1e-300]),
        Rotary.from_inv_freq([1.7e308, 3.6e-308]),
    ],
    ids=["one pair", "all still", "far apart", "as far as float64"],
)
def test_any_frequencies_draw_without_a_warning(curve: Rotary) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(saved([("c", curve)], [("context", 4096)], suffix=".png")) > 1000
        assert len(saved([("c", curve)], suffix=".pdf")) > 1000


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_any_name_draws_without_a_warning(suffix: str) -> None:
    name = "a$b$c_ 模型 line\nbreak\x00 \udcff"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        content = saved([(name, PLAIN)], [(name, 2048)], suffix=suffix, title=name, command=name)
    assert len(content) > 1000


def test_no_curve_is_refused() -> None:
    with pytest.raises(ArgumentError, match="needs an encoding that rotates, got none"):
        figure([], CONTEXTS)


def test_names_are_taken_as_they_are() -> None:
    picture = figure([("_$a$", PLAIN)], [("$b$", 2048)], title="$c$")
    texts = [*picture.legends[0].get_texts(), *picture.axes[0].texts, *picture.texts]
    grey = "no full turn within 2,048 positions"
    assert [text.get_text().strip() for text in texts] == ["_$a$", grey, "$b$ 2,048", "$c$"]
    assert not any(text.get_parse_math() for text in texts)
