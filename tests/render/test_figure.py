"""Properties of all figures: the same bytes each time, their command, and distinct curves."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from helpers import run_python, slow
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.style import available
from pictures import assert_legible

import ropecli
from ropecli import Rotary, __version__, decay, rotation
from ropecli.render.figure import COLOURS, LINES, Look, curve_style, figure_bytes, with_style
from ropecli.render.frequencies import wavelengths_figure
from ropecli.render.inline_svg import inline

SVG = "{http://www.w3.org/2000/svg}"
COMMAND = "ropecli decay --dim 16 --base 10000"
BEGIN = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
ROPE = Rotary(head_dim=16)
Q, K = np.random.default_rng(4).standard_normal((2, 16))

frequencies = with_style(wavelengths_figure)


FIGURES: dict[str, Callable[[], Figure]] = {
    "decay": lambda: decay(ROPE, max_distance=64).figure(),
    "scores": lambda: decay(ROPE, max_distance=64, q=Q, k=K).figure(),
    "frequencies": lambda: frequencies([("p", ROPE)], [("c", 2048)]),
    "rotation": lambda: rotation(Q, ROPE).figure(),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "suffix"), [*zip(FIGURES, BEGIN, strict=False)]
)  # each with each in the soak tier
def test_same_bytes_twice_and_what_made_them(name: str, suffix: str) -> None:
    draw = FIGURES[name]
    once, again = (figure_bytes(draw(), suffix=suffix, command=COMMAND) for _ in range(2))
    assert once == again
    assert once.startswith(BEGIN[suffix])
    assert once != figure_bytes(draw(), suffix=suffix, command="b")
    text = once.decode("latin-1")
    assert f"ropecli {__version__}" in text
    assert COMMAND in text
    assert not re.search(r"20\d\d-\d\d-\d\d|D:20\d\d", text)  # no date


@pytest.mark.slow
def test_same_bytes_in_another_process_elsewhere() -> None:
    code = """
import hashlib
import sys
from ropecli import Rotary, decay
from ropecli.render.figure import figure_bytes
rope = Rotary(head_dim=16)
for suffix in (".png", ".svg", ".pdf"):
    content = figure_bytes(decay(rope, max_distance=64).figure(), suffix=suffix, command="c")
    print(hashlib.sha256(content).hexdigest())
assert "matplotlib.pyplot" not in sys.modules  # it would keep figures, and look for a display
"""
    done = run_python(code, TZ="Asia/Tokyo", PYTHONHASHSEED="5", SOURCE_DATE_EPOCH="")
    assert done.returncode == 0, done.stderr
    here = [figure_bytes(FIGURES["decay"](), suffix=suffix, command="c") for suffix in BEGIN]
    assert done.stdout.split() == [hashlib.sha256(content).hexdigest() for content in here]


ZEROS = np.zeros(4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "draw",
    [
        lambda: decay(Rotary(head_dim=4), max_distance=4, q=ZEROS, k=ZEROS).figure(),
        lambda: decay(Rotary(head_dim=4), max_distance=0).figure(),
        lambda: frequencies([("c", Rotary(head_dim=2))], [("context", 4096)]),
        lambda: frequencies([("c", Rotary.from_inv_freq([0.0, 0.0]))], [("context", 4096)]),
        lambda: frequencies([("c", Rotary.from_inv_freq([0.0, 0.0]))]),
        lambda: frequencies([("c", Rotary.from_inv_freq([1e300, -1e-300]))], [("context", 4096)]),
        lambda: frequencies([("c", Rotary.from_inv_freq([1.7e308, 3.6e-308]))], [("c", 4096)]),
    ],
    ids=["zeros", "one distance", "one pair", "still", "no context", "far", "as far as float64"],
)
def test_odd_values_draw_without_a_warning(draw: Callable[[], Figure]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(figure_bytes(draw(), suffix=".svg", command="c")) > 1000


@pytest.mark.parametrize("suffix", slow(".png", ".pdf"))
def test_any_name_draws_without_a_warning(suffix: str) -> None:
    name = "a$b$c_ 模型 line\nbreak\x00 \udcff"
    picture = frequencies([(name, ROPE)], [(name, 2048)], title=name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(figure_bytes(picture, suffix=suffix, command=name)) > 1000


def test_no_two_of_many_curves_look_the_same() -> None:
    looks = [tuple(curve_style(index).values()) for index in range(len(COLOURS) * len(LINES))]
    assert len(set(looks)) == len(looks) >= 42


def test_neighbours_differ_in_both_colour_and_line() -> None:
    for index in range(50):
        one, two = curve_style(index), curve_style(index + 1)
        assert one["color"] != two["color"]
        assert one["linestyle"] != two["linestyle"]


# How a figure is to look.


def picture_with(**look: Any) -> Figure:
    wanted = Look(**look)
    with wanted.apply():
        return FIGURES["decay"]()


def test_size_and_title() -> None:
    picture = picture_with(width=4.0, title="a $b")
    assert picture.get_size_inches()[0] == 4
    assert [axes.get_title() for axes in picture.axes] == ["a $b"]
    assert picture_with(title="").axes[0].get_title() == ""
    assert picture_with(height=9.0).get_size_inches().tolist() == pytest.approx([6.4, 9])


@pytest.mark.slow
def test_title_of_several_panels() -> None:
    with Look(title="all").apply():
        picture = FIGURES["rotation"]()
    assert picture.get_suptitle() == "all"
    assert picture.axes[0].get_title().startswith("pair 0")


def test_logarithmic_axis_begins_at_the_first_value_above_0() -> None:
    (axes,) = picture_with(log_x=True).axes
    assert axes.get_xscale() == "log"
    assert axes.get_xlim() == (1, 64)


@pytest.mark.slow
def test_bins_of_a_logarithmic_axis_begin_at_1_and_are_as_wide_as_each_other() -> None:
    with Look(log_x=True).apply():
        (axes,) = decay(ROPE, max_distance=8192).figure().axes
    x = np.asarray(axes.get_lines()[0].get_xdata(), float)
    assert x[:4].tolist() == [1, 2, 3, 4]
    assert np.ptp(x[-20:] / x[-21:-1]) < 0.01


@pytest.mark.slow
def test_a_title_is_broken_where_it_is_too_long_for_the_figure() -> None:
    title = f"a title of many words, and the path {'of/a/folder/' * 9}config.json"
    for width in (3.4, 6.4):
        picture = picture_with(width=width, title=title)
        shown = picture.axes[0].get_title()
        assert "".join(shown.split()) == "".join(title.split())
        assert_legible(picture)
    picture = picture_with(width=3.4, height=3.0, title=title)
    assert picture.get_size_inches().tolist() == [3.4, 3.0]


@pytest.mark.slow
def test_columns_of_panels_are_below_each_other_in_a_narrow_figure() -> None:
    curve = decay(ROPE, max_distance=64, q=Q, k=K)
    for width, across in ((3.4, 1), (6.4, 2)):
        with Look(width=width).apply():
            picture = curve.figure(decay(Rotary(16, base=7.0), max_distance=64, q=Q, k=K))
        assert len({round(axes.get_position().x0, 2) for axes in picture.axes}) == across
        sizes = {text.get_fontsize() for text in picture.legends[0].get_texts()}
        assert sizes == {8.0 if across == 1 else 10.0}


@pytest.mark.slow
def test_panels_in_the_figure_of_somebody_else_are_legible() -> None:
    picture = plt.figure(figsize=(8, 7))
    (a, b), (c, d) = picture.subplots(2, 2)
    decay(ROPE, max_distance=64).figure(decay(Rotary(16, base=7.0), max_distance=64), ax=a)
    ropecli.base_bound(ROPE, positions=64).figure(ax=b)
    ropecli.frequency_table(ROPE, name="a long name of a model, in a narrow panel").figure(ax=c)
    ropecli.precision(ROPE, ["float32", "bfloat16"], context_length=64).figure(ax=d)
    assert_legible(picture)
    assert picture.get_size_inches().tolist() == [8, 7]
    plt.close(picture)


#: Figures of which each thing that is drawn has a colour of the style.
COLOURED: dict[str, Callable[[], Figure]] = {
    "construct": lambda: ropecli.construct(ROPE, context_length=8).figure(),
    "similarity": lambda: ropecli.similarity(ROPE, max_distance=8, positions=2).figure(),
    "precision": lambda: ropecli.precision(ROPE, context_length=64).figure(),
    "frequencies": lambda: ropecli.frequency_table(ROPE).figure(),
    "base-bound": lambda: ropecli.base_bound(ROPE, positions=64).figure(),
    "scale": lambda: ropecli.scale(ROPE, factor=2, original_length=64).figure(),
    **FIGURES,
}


@pytest.mark.parametrize("name", ["scores", *slow(*sorted({*COLOURED} - {"scores"}))])
def test_all_colours_are_those_of_the_style(name: str, tmp_path: Path) -> None:
    path = tmp_path / "my.mplstyle"
    path.write_text("axes.prop_cycle: cycler('color', ['00ff00'])\ntext.color: ff00ff\n")
    with Look(style=str(path)).apply():
        picture = COLOURED[name]()
    colours = [line.get_color() for axes in picture.axes for line in axes.get_lines()]
    colours += [patch.get_facecolor() for axes in picture.axes for patch in axes.patches]
    drawn = {to_hex(each) for each in colours}
    assert drawn
    assert drawn <= {"#00ff00", "#ff00ff"}


@pytest.mark.slow
def test_every_style_that_matplotlib_names_can_draw() -> None:
    for name in (*available, "default"):
        with Look(style=name).apply():
            assert COLOURED["frequencies"]().axes


@pytest.mark.slow
def test_pixels() -> None:
    for dpi, width in ((None, 960), (50.0, 320)):
        content = figure_bytes(FIGURES["decay"](), suffix=".png", command="c", dpi=dpi)
        assert int.from_bytes(content[16:20], "big") == width


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scores", "rotation"])
def test_fonts_are_truetype_and_text_is_text(name: str) -> None:
    picture = FIGURES[name]()
    pdf = figure_bytes(picture, suffix=".pdf", command="c")
    assert b"/Subtype /CIDFontType2" in pdf
    assert b"/Type3" not in pdf
    svg = ElementTree.fromstring(figure_bytes(picture, suffix=".svg", command="c"))
    texts = ["".join(text.itertext()).strip() for text in svg.iter(f"{SVG}text")]
    for axes in picture.axes:
        for line in axes.get_title().splitlines():
            assert line in texts
        assert axes.get_xlabel() in [*texts, ""]
    title, description = (svg.findtext(f"{SVG}{tag}") for tag in ("title", "desc"))
    assert title
    assert description
    assert svg.get("role") == "img"


def test_description_names_axes_and_curves() -> None:
    curve = decay(ROPE, max_distance=8)
    other = decay(Rotary(head_dim=16, base=7.0), max_distance=8)
    svg = figure_bytes(curve.figure(other), suffix=".svg", command="c").decode()
    said = "relative upper bound against relative distance: dim 16, base 10000, dim 16, base 7"
    assert f"<desc>{said}</desc>" in svg


@pytest.mark.slow
@pytest.mark.parametrize("suffix", BEGIN)
def test_a_matplotlibrc_changes_nothing(suffix: str) -> None:
    def draw() -> bytes:
        return figure_bytes(FIGURES["decay"](), suffix=suffix, command="c")

    theirs: dict[Any, Any] = {
        "font.size": 30,
        "savefig.bbox": "tight",
        "pdf.fonttype": 3,
        "axes.facecolor": "red",
    }
    with mpl.rc_context(theirs):
        assert mpl.rcParams["font.size"] == 30
        changed = draw()
        assert mpl.rcParams["font.size"] == 30  # theirs again
    assert changed == draw()


@pytest.mark.parametrize("words", [1, 60])
def test_the_title_of_a_figure_in_a_page_fits_into_it(words: int) -> None:
    picture = decay(Rotary(64), max_distance=64, name="word " * words).figure()
    inline(picture, "decay")
    assert picture.axes[0].title.get_window_extent().y1 <= picture.bbox.height
