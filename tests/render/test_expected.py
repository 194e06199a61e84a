"""The figure of `decay --encoding`."""

from __future__ import annotations

import numpy as np
import pytest

from ropecli import Rotary, decay
from ropecli.analyses.expected import Expected, expected_score
from ropecli.encodings import with_table

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


def test_scores_are_drawn_without_a_bound() -> None:
    (curve,) = curves("alibi")
    (axes,) = curve.figure().axes
    values = np.asarray(axes.get_lines()[0].get_ydata())
    assert values.tolist() == (curve.expected_score - curve.expected_score[0]).tolist()
