"""Time and memory against N, drawn from costs made by hand."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from ropecli import Rotary
from ropecli.analyses.linear import linear
from ropecli.analyses.linear_cost import FORMS, Cost, LinearCost
from ropecli.render.figure import figure_bytes
from ropecli.render.linear import NAMES

pytestmark = pytest.mark.slow

ROPE = Rotary(head_dim=8)


def costs_of(lengths: tuple[int, ...], rows: int) -> tuple[Cost, ...]:
    """Costs such as there are: N of them, and N^2, of which `rows` rows were computed."""
    return tuple(
        Cost(
            form=form,
            sequence_length=lengths,
            rows=tuple(n if index < 2 else min(n, rows) for n in lengths),
            seconds=tuple((1 + index) * 1e-6 * n ** (1 if index < 2 else 2) for n in lengths),
            peak_bytes=tuple((1 + index) * 64 * n ** (1 if index < 2 else 2) for n in lengths),
        )
        for index, form in enumerate(FORMS)
    )


ONES = np.ones((2, 8))


def result(costs: tuple[Cost, ...], name: str = "elu") -> LinearCost:
    attention = linear(ONES, ONES, ONES, ROPE)
    return LinearCost(
        attention=dataclasses.replace(attention, feature_map=name), rope=ROPE, costs=costs
    )


def draw(
    costs: tuple[Cost, ...], name: str = "elu", *, suffix: str = ".png", command: str = "c"
) -> bytes:
    return figure_bytes(result(costs, name).figure(), suffix=suffix, command=command)


COST = costs_of((64, 128, 256, 512), 128)


def lines(axes: Any) -> list[tuple[str, list[float], list[float]]]:
    return [
        (line.get_linestyle(), list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.get_lines()
    ]


def test_panels_are_time_and_memory_on_logarithmic_scales() -> None:
    time, memory = result(COST).figure().axes
    assert (time.get_ylabel(), memory.get_ylabel()) == ("time (s)", "memory (bytes)")
    for axes in (time, memory):
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert axes.get_xlabel() == "tokens N"
        assert [text.get_text() for text in axes.get_xticklabels()] == ["64", "128", "256", "512"]


def test_what_is_extrapolated_is_dashed_and_joined_to_what_is_measured() -> None:
    for axes, name in zip(result(COST).figure().axes, ("seconds", "peak_bytes"), strict=True):
        got = lines(axes)
        values = [list(getattr(each, name)) for each in COST]
        assert got[:2] == [("-", [64, 128, 256, 512], values[i]) for i in (0, 1)]
        for i in (2, 3):
            assert got[2 * i - 2 : 2 * i] == [
                ("-", [64, 128], values[i][:2]),
                ("--", [128, 256, 512], values[i][1:]),
            ]


def test_all_of_a_line_may_be_extrapolated() -> None:
    cost = costs_of((64, 128), 3)
    got = lines(result(cost).figure().axes[0])
    assert [line[0] for line in got] == ["-", "-", "--", "--"]
    assert got[3][1] == [64, 128]
    assert draw(cost).startswith(b"\x89PNG")


def test_legend_names_every_form_and_what_the_dashes_mean() -> None:
    (legend,) = result(COST).figure().legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words == [*(NAMES[form] for form in FORMS), "extrapolated from 128 rows"]
    (legend,) = result(costs_of((64,), 64)).figure().legends
    assert len(legend.get_texts()) == 4


def test_forms_differ_in_colour_and_in_marker() -> None:
    axes = result(costs_of((64, 128), 128)).figure().axes[0]
    assert len({line.get_color() for line in axes.get_lines()}) == 4
    assert len({line.get_marker() for line in axes.get_lines()}) == 4


def test_title_says_what_was_measured() -> None:
    title = result(COST, "my$map").figure().get_suptitle()
    assert title == "Attention with RoPE, dim 8, base 10000; linear with feature map my$map"
    assert draw(COST, "my$map").startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "lengths",
    [(5,), (64, 65), (64, 128, 200), tuple(64 * 2**i for i in range(19)), (*COST[0].rows, 513)],
)
def test_nothing_is_cut_or_collides(lengths: tuple[int, ...]) -> None:
    picture = result(costs_of(lengths, 256)).figure()
    canvas = FigureCanvasAgg(picture)
    canvas.draw()  # type: ignore[no-untyped-call]
    width, height = picture.bbox.width, picture.bbox.height
    for axes in picture.axes:
        labels = [text for text in axes.get_xticklabels() if text.get_text()]
        assert labels[-1].get_text() == f"{lengths[-1]:,}"
        boxes = [text.get_window_extent() for text in labels]
        assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))
        assert boxes[0].x0 >= 0
        assert boxes[-1].x1 <= width
        low, high = axes.get_ylim()
        drawn_values = np.concatenate([np.asarray(line.get_ydata()) for line in axes.get_lines()])
        assert low <= drawn_values.min() <= drawn_values.max() <= high
        assert high >= 10 * low
    (legend,) = picture.legends
    box = legend.get_window_extent()
    assert min(box.x0, box.y0) >= 0
    assert box.x1 <= width
    assert box.y1 <= height
    around = [axes.get_tightbbox() for axes in picture.axes]
    assert box.y1 < min(0.0 if each is None else each.y0 for each in around)
