"""Calls that run, and of which the rows show whether they were meant."""

from __future__ import annotations

import numpy as np
import pytest
from implementations.plain import half, inv_freq
from numpy.typing import NDArray

from ropecli.checks.implementation.call import Call
from ropecli.checks.implementation.calling.meant import MEANT, RUNS, Rotate, Trials
from ropecli.checks.implementation.convention import Convention

DIM = 16


def rotated(call: Call) -> NDArray[np.float64]:
    angles = call.positions[..., None] * inv_freq(DIM, 10_000.0)
    x: NDArray[np.float64] = call.q.astype(np.float64)
    return np.asarray(half(x, np.cos(angles), np.sin(angles)))


def of_other_sequences(call: Call) -> NDArray[np.float64]:
    """Rows at their own positions, each of another sequence than the one before."""
    token = np.arange(call.length)
    sequence = (np.arange(call.batch)[:, None] + token) % call.batch
    return np.asarray(rotated(call)[sequence, :, token].transpose(0, 2, 1, 3))


@pytest.mark.parametrize(("rotate", "meaning"), [(rotated, MEANT), (of_other_sequences, RUNS)])
def test_tokens_of_one_sequence_show_it(rotate: Rotate, meaning: int) -> None:
    convention = Convention(call="rope(x, positions)", axes_of_x="b h s d")
    trials = Trials(
        convention=convention, rotate=rotate, dim=DIM, axes=1, context=4096, dtype="float32"
    )
    assert trials.meaning(4, 7) == meaning
