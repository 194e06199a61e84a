"""The picture of `diff` says what its lines are of."""

from __future__ import annotations

from models.configs import LLAMA_31

from ropecli import diff, load_model
from ropecli.render.diff_figure import figure


def test_the_phase_is_that_of_the_worst_pair() -> None:
    other = LLAMA_31 | {"rope_theta": 400_000.0}
    above, below = figure(diff(load_model(LLAMA_31), load_model(other))).axes
    assert above.get_ylabel() == "phase difference\nof the worst pair (radians)"
    assert below.get_xlabel() == "pair"
