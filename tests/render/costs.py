"""Costs of linear attention made by hand, such as there are: N of them, and N^2."""

from __future__ import annotations

import dataclasses

import numpy as np

from ropecli import Rotary
from ropecli.analyses.linear import linear
from ropecli.analyses.linear_cost import FORMS, Cost, LinearCost

ROPE = Rotary(head_dim=8)
ONES = np.ones((2, 8))
ATTENTION = linear(ONES, ONES, ONES, ROPE)


def costs(lengths: tuple[int, ...], rows: int, name: str = "elu") -> LinearCost:
    """Costs of which at most that many rows were computed where there are N^2."""
    made = []
    for index, form in enumerate(FORMS):
        work = [(1 + index) * n ** (1 if index < 2 else 2) for n in lengths]
        cost = Cost(
            form=form,
            sequence_length=lengths,
            rows=tuple(n if index < 2 else min(n, rows) for n in lengths),
            seconds=tuple(1e-6 * each for each in work),
            fastest=tuple(0.8e-6 * each for each in work),
            slowest=tuple(2e-6 * each for each in work),
            peak_bytes=tuple(64 * each for each in work),
        )
        made.append(cost)
    attention = dataclasses.replace(ATTENTION, feature_map=name)
    return LinearCost(attention=attention, rope=ROPE, costs=tuple(made))
