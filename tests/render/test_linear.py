"""Words, numbers and the picture of `linear`, from costs made by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from render.costs import costs

from ropecli import Rotary
from ropecli.analyses.linear import linear
from ropecli.analyses.linear_cost import Cost, LinearCost
from ropecli.render import linear as pages
from ropecli.render.console import Screen
from ropecli.render.figure import figure_bytes

COST = (
    Cost(
        form="linear",
        sequence_length=(64, 1024),
        rows=(64, 1024),
        seconds=(1.5e-4, 0.25),
        fastest=(1.5e-4, 0.25),
        slowest=(1.5e-4, 0.25),
        peak_bytes=(999, 1_000_000),
    ),
    Cost(
        form="softmax",
        sequence_length=(64, 1024),
        rows=(64, 16),
        seconds=(2.5e-7, 12.345),
        fastest=(2.5e-7, 12.345),
        slowest=(2.5e-7, 12.345),
        peak_bytes=(32_768, 8_388_608),
    ),
)
ONES = np.ones((2, 2))
RESULT = linear(ONES, ONES, ONES, Rotary(head_dim=2))
MEASURED = LinearCost(attention=RESULT, rope=Rotary(head_dim=2), costs=COST)


def test_table_marks_what_is_extrapolated() -> None:
    assert pages.cost_table(COST) == [
        "time, N    sums  softmax",
        "     64  150 us  0.25 us",
        "  1,024  250 ms  ~12.3 s",
        "",
        "memory, N   sums   softmax",
        "       64  999 B   32.8 kB",
        "    1,024   1 MB  ~8.39 MB",
        "",
        "~ extrapolated from 16 rows",
    ]


def test_nothing_is_said_of_rows_where_all_were_computed() -> None:
    assert pages.extrapolated_from(COST[:1]) is None
    assert pages.cost_table(COST[:1])[-1].split() == ["1,024", "1", "MB"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [((1, 1), "from 1 row"), ((16, 8), "from 8 to 16 rows"), ((64, 1000), "from 1,000 rows")],
)
def test_from_how_many_rows(rows: tuple[int, int], words: str) -> None:
    cost = Cost(
        form="softmax",
        sequence_length=(64, 1024),
        rows=rows,
        seconds=(1.0, 1.0),
        fastest=(1.0, 1.0),
        slowest=(1.0, 1.0),
        peak_bytes=(1, 1),
    )
    assert pages.extrapolated_from((cost,)) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [(1e-6, "1 us"), (0.9994, "999 ms"), (0.9996, "1 s"), (113.3, "113 s"), (7200, "7,200 s")],
)
def test_time_has_a_unit(number: float, words: str) -> None:
    assert pages.with_seconds(number) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [(1, "1 B"), (999, "999 B"), (1000, "1 kB"), (34_460_602_856, "34.5 GB"), (5e15, "5,000 TB")],
)
def test_memory_has_a_unit(count: float, words: str) -> None:
    assert pages.with_bytes(count) == words


def test_page_has_attention_then_cost() -> None:
    plain, measured = (pages.page(each, Screen()) for each in (RESULT, MEASURED))
    assert str(RESULT).splitlines()[0] == plain[0]
    assert plain[0].endswith("; every row has an output.")
    assert plain[2] == "elu, 2 tokens"
    assert measured[0].startswith(f"{plain[0][:-1]}; at 1,024 tokens: sums ")
    assert measured[1 : len(plain)] == plain[1:]
    assert measured[len(plain) :] == ["", *pages.cost_table(COST)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "lengths",
    [(5,), tuple(64 * 2**i for i in range(19)), (64, 128, 256, 512, 513)],
)
def test_nothing_is_cut_or_collides(lengths: tuple[int, ...]) -> None:
    picture = costs(lengths, 256).figure()
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


@pytest.mark.slow
def test_a_map_may_have_any_name() -> None:
    picture = costs((64, 128), 128, "my$map").figure()
    title = "Attention with RoPE, dim 8, base 10000; linear with feature map my$map"
    assert picture.get_suptitle() == title
    assert figure_bytes(picture, suffix=".png", command="c").startswith(b"\x89PNG")
