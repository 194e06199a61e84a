"""Words and numbers of `decay`, from hand-made curves where that is enough."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_within
from hypothesis import given
from hypothesis import strategies as st

from ropecli import Decay, Rotary, decay
from ropecli.render import columns as columns_of
from ropecli.render import view_of
from ropecli.render.console import Screen
from ropecli.render.decay import COLUMNS
from ropecli.render.save import csv as csv_text
from ropecli.results import ResultGroup

Q, K = np.random.default_rng(8).standard_normal((2, 4))


def curve(
    bounds: list[float], *, start: float = 0.0, step: float = 1.0, dim: int = 4, base: float = 1e4
) -> Decay:
    return Decay(
        rope=Rotary(head_dim=dim, base=base),
        reduce="mean",
        relative_distance=np.array([start + step * i for i in range(len(bounds))]),
        relative_upper_bound=np.array(bounds, dtype=float),
    )


def shown(
    curves: list[Decay],
    *,
    figure2: bool = False,
    brief: bool = False,
    saved: Path | None = None,
    plots: bool = False,
) -> str:
    """The page, on a terminal of 80 columns or elsewhere."""
    screen = Screen(brief=brief, saved=saved, braille=plots, width=80 if plots else 1000)
    group = ResultGroup(results=tuple(curves))
    return "\n".join(view_of(group).page(group, screen, figure2=figure2))


def table(text: str) -> tuple[list[str], list[list[str]]]:
    """The heading and the rows of the table, its cells as they stand."""
    block = next(b for b in text.split("\n\n") if b.lstrip().startswith("relative distance"))
    heading, *rows = block.splitlines()
    return re.split(r"\s{2,}", heading.strip()), [row.split() for row in rows]


# The table.


@given(
    st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=9),
    st.floats(0, 1e9),
    st.floats(1e-6, 1e6),
)
def test_every_number_of_the_page_has_six_digits(
    bounds: list[float], start: float, step: float
) -> None:
    curves = [
        curve(bounds, start=start, step=step),
        curve(bounds[::-1], start=start, step=step, dim=2),
    ]
    heading, rows = table(shown(curves))
    assert heading == [
        "relative distance",
        "relative upper bound (dim 4, base 10000)",
        "relative upper bound (dim 2, base 10000)",
    ]
    distances = curves[0].relative_distance.tolist()
    chosen = [i for i in range(len(bounds)) if i in {0, 1, 2, 4, 8, len(bounds) - 1}]
    got = [[float(cell) for cell in row] for row in rows]
    # The distances are exact.
    assert [row[0] for row in got] == [distances[i] for i in chosen]
    for row, i in zip(got, chosen, strict=True):
        assert row[1:] == pytest.approx([bounds[i], bounds[::-1][i]], rel=5e-6, abs=0)


def test_wide_tables_are_folded() -> None:
    text = str(ResultGroup(results=tuple(curve([0.1, 0.2], base=base) for base in (1e4, 1e5, 1e6))))
    blocks = [each for each in text.split("\n\n") if each.startswith("relative distance")]
    assert [each.splitlines()[1].split() for each in blocks] == [["0", "0.1"]] * 3
    assert [each.splitlines()[2].split() for each in blocks] == [["1", "0.2"]] * 3
    assert max(len(line) for each in blocks for line in each.splitlines()) <= 80


# The words.


# On a terminal.


# CSV.


def csv_rows(*curves: Decay) -> list[list[str]]:
    return list(csv.reader(io.StringIO(csv_text(columns_of(ResultGroup(results=curves))))))


def test_csv_holds_every_value_exactly() -> None:
    scored = decay(Rotary(head_dim=4), max_distance=9, step=0.3, q=Q, k=K)
    heading, *rows = csv_rows(scored)
    assert heading == ["relative_distance", *COLUMNS, "norms", "envelope"]
    columns = np.array(rows, dtype=float).T
    for name, column in zip(heading, columns, strict=True):
        wanted = scored.bounds[name] if name in scored.bounds else getattr(scored, name)
        assert column.tolist() == wanted.tolist()


def test_csv_of_several_curves_has_them_one_after_another() -> None:
    curves = [curve([2, 1]), curve([4, 3], base=10_000.001)]
    heading, *rows = csv_rows(*curves)
    assert heading == ["encoding", "relative_distance", "relative_upper_bound"]
    first, second = "dim 4, base 10000", "dim 4, base 10000.001"
    assert rows == [
        [first, "0.0", "2.0"],
        [first, "1.0", "1.0"],
        [second, "0.0", "4.0"],
        [second, "1.0", "3.0"],
    ]


# Contributions.

PAIRS = decay(Rotary(head_dim=4), max_distance=2, contributions=True)


def test_csv_of_contributions_has_a_row_for_each_distance_and_pair() -> None:
    heading, *rows = csv_rows(PAIRS)
    assert heading == ["relative_distance", "pair", "contribution"]
    assert [row[:2] for row in rows] == [[f"{r}.0", f"{i}"] for r in range(3) for i in range(2)]
    expected = [np.cos(r * theta) for r in range(3) for theta in (1.0, 0.01)]
    # An angle of at most 2 and its cosine: a rounding each.
    got = [float(row[2]) for row in rows]
    assert_within("contribution", got=got, expected=expected, tolerance=4 * 2.0**-53)
    assert csv_rows(PAIRS, PAIRS)[1][0] == "dim 4, base 10000"
