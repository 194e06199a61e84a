"""Laws that the figure of every command keeps, in one column of a paper and in two."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.text import Text
from pictures import assert_legible
from render.command_figures import COMMANDS, measure, write_files

import ropecli
from ropecli.render.figure import PAGE, Look

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    write_files(folder)
    return folder


def axes_of(picture: Figure) -> list[Axes]:
    """Panels and colour bars."""
    return picture.findobj(Axes)


def maps_of(picture: Figure) -> list[Axes]:
    return [axes for axes in axes_of(picture) if axes.images]


def shown_labels(axis: XAxis | YAxis) -> list[Text]:
    low, high = sorted(axis.get_view_interval())
    ticks = (tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high)
    labels = [tick.label1 for tick in ticks]
    return [each for each in labels if each.get_visible() and each.get_text()]


def assert_ticks_are_apart(picture: Figure) -> None:
    """Assert that no label of an axis touches the next one, where both would read as one."""
    for axes in axes_of(picture):
        for axis, side in ((axes.xaxis, 0), (axes.yaxis, 1)):
            labels = shown_labels(axis)
            boxes = [text.get_window_extent() for text in labels]
            gap = 0.45 * min((box.height for box in boxes), default=0) * (side == 0)
            ends = sorted(box.get_points()[:, side].tolist() for box in boxes)
            for one, other in pairwise(ends):
                assert one[1] + gap <= other[0], [text.get_text() for text in labels]


def assert_colour_bars_fit(picture: Figure) -> None:
    """Assert that no colour bar is higher than its map, or than the maps that share it."""
    for axes in maps_of(picture):
        bar = axes.images[0].colorbar
        if bar is not None:
            shared = bar.ax not in axes.child_axes
            maps = [each.get_window_extent() for each in (maps_of(picture) if shared else [axes])]
            box = bar.ax.get_window_extent()
            assert min(each.y0 for each in maps) - 1 <= box.y0, "the bar begins below its map"
            assert box.y1 <= max(each.y1 for each in maps) + 1, "the bar ends above its map"


def assert_no_word_is_broken(picture: Figure, wide: Figure) -> None:
    """Assert that words are those of a figure with room for all of them in one line."""
    known = words_of(wide)
    parts = {part for word in known for part in re.split("(?<=[-/])", word)}
    assert words_of(picture) <= known | parts


def words_of(picture: Figure) -> set[str]:
    """Return the words of all texts but the labels of ticks, of which wide figures have others."""
    named = [text for text in picture.findobj(Text) if re.search("^[^$]*[a-z]{2}", text.get_text())]
    return {word for text in named for word in text.get_text().split()}


@pytest.mark.parametrize(
    ("name", "title"),
    [
        (
            "cache-shift",
            "example:llama-3.1-8b: dim 128, base 500000, llama3 factor 8\n"
            "bfloat16 keys shifted by -256",
        ),
        ("cache-quantize", "dim 128, base 10000\nint4 per token, before rotation"),
        (
            "usage-layers",
            "small.json: dim 16, base 500000, llama3 factor 8\n"
            "expected norms for white-noise input",
        ),
        ("rotate-four", "dim 4, base 10000, half"),
        ("inspect-gemma", "example:gemma-3-4b, as transformers 5.24.0 reads it"),
    ],
)
def test_titles_say_what_was_measured(
    name: str, title: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    assert measure(COMMANDS[name])(20.0).get_suptitle() == title


def test_documents_are_shaded_in_turn() -> None:
    (axes,) = ropecli.positions(lengths=[20, 44, 6, 10]).figure().axes
    (shades,) = axes.collections
    spans = [path.get_extents().intervalx.tolist() for path in shades.get_paths()]
    assert spans == [[19.5, 63.5], [69.5, 79.5]]
    assert axes.get_ylim()[1] > 40  # of the ids, and not of the shades


def test_documents_of_a_part_of_the_tokens_are_not_shaded(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    (axes,) = measure(COMMANDS["positions-parallel"])(6.4).axes
    assert not axes.collections


def test_diagonal_and_previous_token_are_apart() -> None:
    heads = ropecli.construct(ropecli.Rotary(16), context_length=4096)
    diagonal, previous, *_ = heads.figure().axes
    (zero, _), (one, _) = (
        axes.transData.transform(axes.get_lines()[-1].get_xydata())[0]
        for axes in (diagonal, previous)
    )
    assert one - zero > 0.1 * diagonal.bbox.width


def test_a_word_that_is_too_long_is_smaller_and_whole() -> None:
    with Look(width=3.4, title="a" * 90).apply():
        picture = ropecli.decay(ropecli.Rotary(16), max_distance=64).figure()
    assert picture.axes[0].get_title() == "a" * 90
    assert_legible(picture)


def test_more_rows_than_fit_a_page_make_a_higher_figure() -> None:
    far = ropecli.construct(ropecli.Rotary(16), distances=range(12), context_length=64)
    with Look(width=3.4).apply():
        picture = far.figure()
    assert PAGE < picture.get_size_inches()[1] < 1.2 * 13
    assert_legible(picture)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_laws_of_figures(name: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    draw = measure(COMMANDS[name])
    wide = draw(60.0)
    for width in (3.4, 6.4):
        picture = draw(width)
        assert_legible(picture)
        assert_ticks_are_apart(picture)
        assert_colour_bars_fit(picture)
        assert_no_word_is_broken(picture, wide)
        assert picture.get_size_inches()[1] <= PAGE
        for axes in maps_of(picture):
            assert axes.get_window_extent().width > 0.7 * picture.dpi
        for axes in axes_of(picture):
            assert len(shown_labels(axes.xaxis)) != 1
            if axes.xaxis.get_label_text() in {"pair", "token"}:
                labels = shown_labels(axes.xaxis)
                assert all(float(each.get_text()) % 1 == 0 for each in labels)
