"""What `decay --encoding` shows: a table that fits, plots of a few curves, a readable figure."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import run_in_terminal

from ropecli import Rotary, decay
from ropecli.analyses.expected import Expected, expected_score
from ropecli.encodings import ENCODINGS, with_table

pytestmark = pytest.mark.slow

BOUND = decay(Rotary(head_dim=4), max_distance=20)


def curves(*names: str) -> list[Expected]:
    return [
        expected_score(with_table(name, 21, model_dim=16, head_dim=4), max_distance=20)
        for name in names
    ]


def test_what_falls_far_does_not_flatten_the_rest() -> None:
    first, *others = curves("alibi", "rope")
    above, below = first.figure(*others, bound=BOUND).axes
    assert (above.get_ylim()[0], below.get_yscale()) == (0, "symlog")
    assert first.figure(bound=BOUND).axes[1].get_yscale() == "linear"


def test_scores_are_drawn_and_printed_without_a_bound() -> None:
    (curve,) = curves("alibi")
    (axes,) = curve.figure().axes
    values = np.asarray(axes.get_lines()[0].get_ydata())
    assert values.tolist() == (curve.expected_score - curve.expected_score[0]).tolist()
    assert "distance   alibi\n       0   2.1" in str(curve)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_table_fits_the_terminal(columns: int) -> None:
    command = ["decay", "--encoding", "all", "--dim", "4", "--max-dist", "20", "-q"]
    code, text, _ = run_in_terminal(*command, columns=columns)
    assert code == 0
    table = [line for line in text.splitlines() if line.strip()][2:]
    assert max(map(len, table)) <= columns
    heads = [line.split()[1:] for line in table if line.startswith("distance")]
    assert (len(heads) > 1) == (columns < 200)
    named = [word for line in heads for word in line]
    assert [word for word in named if word in ENCODINGS] == list(ENCODINGS)


@pytest.mark.parametrize(("names", "plots"), [(["t5"], 2), (["t5", "rope"], 2), (["all"], 0)])
def test_a_few_curves_are_drawn_on_a_terminal(names: list[str], plots: int) -> None:
    words = [word for name in names for word in ("--encoding", name)]
    code, text, _ = run_in_terminal("decay", *words, "--dim", "4", "--max-dist", "20", "-q")
    assert code == 0
    assert text.count("relative distance") == plots
