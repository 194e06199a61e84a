"""Words and numbers of `decay`, from hand-made curves where that is enough."""

from __future__ import annotations

import csv
import html
import io
import re
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_within
from hypothesis import given
from hypothesis import strategies as st

from ropecli import Decay, Rotary, decay
from ropecli.analyses.several import Several
from ropecli.render import columns as columns_of
from ropecli.render import several
from ropecli.render.console import Screen
from ropecli.render.decay import COLUMNS
from ropecli.render.save import csv as csv_text

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


def decay_with_bounds() -> Decay:
    """Four distances with a score that falls below 0 and both bounds."""
    return Decay(
        rope=Rotary(head_dim=2),
        reduce="mean",
        relative_distance=np.arange(4.0),
        relative_upper_bound=np.array([1.0, 1.0, 1.0, 1.0]),
        score=np.array([4.0, 1 / 3, -2.5, 0.1]),
        abel_bound=np.array([4.0, 5.0, 6.5, 4.25]),
        max_bound=np.array([8.0, 7.0, 9.75, 8.5]),
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
    return "\n".join(several.page(Several(results=tuple(curves)), screen, figure2=figure2))


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


def test_whole_table_says_nothing_of_other_values() -> None:
    assert "all of them" not in shown([curve([3, 2, 1])])


def test_wide_tables_are_folded() -> None:
    text = str(Several(results=tuple(curve([0.1, 0.2], base=base) for base in (1e4, 1e5, 1e6))))
    blocks = [each for each in text.split("\n\n") if each.startswith("relative distance")]
    assert [each.splitlines()[1].split() for each in blocks] == [["0", "0.1"]] * 3
    assert [each.splitlines()[2].split() for each in blocks] == [["1", "0.2"]] * 3
    assert max(len(line) for each in blocks for line in each.splitlines()) <= 80


def test_table_of_vectors_names_score_and_bounds() -> None:
    heading, rows = table(shown([decay_with_bounds()]))
    assert heading == [
        "relative distance",
        "relative upper bound",
        "score",
        "Abel bound",
        "max bound",
    ]
    assert rows[1] == ["1", "1", "0.333333", "5", "7"]


# The words.


def facts(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line.startswith("  ") and "  " in line.strip()]
    pairs = [re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in lines]
    return dict(pairs)


@pytest.mark.parametrize("reduce", ["mean", "sum"])
@pytest.mark.parametrize("start", [0.0, 1.0])
def test_exactly_is_said_of_the_mean_at_0_alone(reduce: str, start: float) -> None:
    text = shown([decay(Rotary(head_dim=4), start=start, max_distance=3, reduce=reduce)])
    assert ("exactly" in text) == (reduce == "mean" and start == 0)


def test_what_never_happens_is_said() -> None:
    got = facts(shown([curve([4, 3.5, 3])]))
    assert got["halved by"] == got["rises first at"] == "not in this range"


def test_one_distance_has_no_trend() -> None:
    got = facts(shown([curve([4.0], start=7)]))
    assert got.pop("at distance 7") == "4"
    assert got == {"7": "4"}  # the table's row


def test_the_answer_names_both_ends() -> None:
    text = str(decay(Rotary(head_dim=4), start=9, max_distance=10))
    assert " at distance 9 to 0.7354 at 10," in text


def test_one_pair_is_no_pairs() -> None:
    assert "dim 2, base 10000, 1 pair\n" in shown([curve([1.0], dim=2)])


def test_scores_are_summed_up() -> None:
    text = shown([decay_with_bounds()])
    assert text.startswith(
        "The bound goes from 1 at distance 0 to 1 at 3, not to half of it.\n\n"
        "The score and RoPE's upper bounds against distance (RoFormer Eq. 35-37)"
    )
    got = facts(text)
    assert got["highest score"] == "4        at 0"
    assert got["lowest score"] == "-2.5     at 2"
    page = str(decay(Rotary(head_dim=4), max_distance=9, q=Q, k=K))
    for words in ("bound on |score|", "norms |q||k|", "At distance 0, the pairs:", "Theorem 2.1"):
        assert words in page
    assert "--figure2" not in text  # that frame is for the bound alone


def test_brief_leaves_out_what_is_not_a_result() -> None:
    text = shown([curve([4, 2, 1])], brief=True)
    assert "Save the figure" not in text
    assert "A falling bound" not in text
    assert facts(text)["halved by"] == "1"


def test_print_and_notebooks_show_the_short_page() -> None:
    one = curve([4, 2])
    assert str(one) == shown([one], brief=True)
    assert one._repr_html_() == f"<pre>{html.escape(str(one))}</pre>"


# On a terminal.


def test_terminal_clips_the_papers_frame() -> None:
    bounds = [32.5, 19.0, 10.0, 6.5]
    assert "19.8 |" in shown([curve(bounds)], figure2=True, plots=True)
    assert "32.5 |" in shown([curve(bounds)], plots=True)


def test_terminal_draws_bounds_and_score_apart() -> None:
    text = shown([decay_with_bounds()], plots=True)
    first, second = text.index("  max bound and Abel bound\n"), text.index("  score\n")
    bounds, score = text[first:second], text[second:]
    assert "9.75 |" in bounds
    assert re.search(r"solid +max bound\n +dashed +Abel bound\n", bounds)
    assert "-2.5 |" in score
    assert "  4 |" in score
    assert max(map(len, text.splitlines())) <= 80


# CSV.


def csv_rows(*curves: Decay) -> list[list[str]]:
    return list(csv.reader(io.StringIO(csv_text(columns_of(Several(results=curves))))))


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


def test_page_says_up_to_where_each_pair_adds() -> None:
    lines = shown([PAIRS]).splitlines()
    start = lines.index("What each pair adds to the score of q = k of length 1 in each pair")
    assert [line.split() for line in lines[start + 2 : start + 4]] == [
        ["0", "6.2832", "1", "1", "0", "2"],
        ["1", "628.32", "1", "1", "0", "never"],
    ]


def test_figure_of_contributions_is_a_map_of_them() -> None:
    axes, bar = PAIRS.figure().axes
    image = axes.images[0]
    assert np.asarray(image.get_array()).tolist() == np.asarray(PAIRS.contributions).tolist()
    assert list(image.get_extent()) == [-0.5, 2.5, 1.5, -0.5]
    assert image.get_clim() == (-1, 1)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("relative distance", "pair")
    assert bar.get_ylabel() == "contribution to the score"
    assert not axes.title.get_parse_math()  # a model's path may hold dollar signs
