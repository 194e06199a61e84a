"""KERPLE's two kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_within
from numpy.typing import NDArray

from ropecli.encodings import encoding
from ropecli.errors import ArgumentError


def biases(kind: str, r1: float, r2: float, distances: list[float]) -> NDArray[np.float64]:
    weights = {"r1": np.array([r1]), "r2": np.array([r2])}
    made = encoding("kerple", model_dim=4, heads=1, kind=kind, weights=weights)
    silent = np.zeros((len(distances), 4))
    bias: NDArray[np.float64] = made.scores(silent[:1], silent, [0], distances)[0, 0]
    return bias


def test_log_by_hand() -> None:
    expected = [0, -2 * np.log(2), -2 * np.log(1.5), -2 * np.log(4.5)]
    got = biases("log", 2.0, 0.5, [0, 2, -1, 7])
    # A logarithm is within one unit of its last place, here of 4 at most, on each side.
    assert_within("bias", got=got, expected=expected, tolerance=4 * 2.0**-52)


def test_power_by_hand() -> None:
    assert biases("power", 0.5, 2.0, [0, 2, -1, 7]).tolist() == [0, -2, -0.5, -24.5]
    assert biases("power", 2.0, 1.0, [0, 2, -1, 7]).tolist() == [0, -4, -2, -14]


def test_an_exponent_of_one_is_alibi_s_slope() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((4, 8))
    alibi = encoding("alibi", model_dim=8, heads=2, absolute=True)
    weights = {"r1": np.array([1 / 16, 1.0]), "r2": np.ones(2)}
    made = encoding("kerple", model_dim=8, heads=2, kind="power", weights=weights)
    positions = [0, 5, 2, 9]
    got = made.scores(x, x, positions, positions)[0]
    assert got.tolist() == alibi.scores(x, x, positions, positions)[0].tolist()


def test_parameters_are_clamped_as_in_the_authors_code() -> None:
    assert biases("power", 1.0, 5.0, [3]).tolist() == [-9]
    assert biases("power", -1.0, 1.0, [100]).tolist() == [-1]
    assert biases("log", 1.0, -3.0, [100]).tolist() == [-np.log1p(1.0)]


@pytest.mark.parametrize("kind", ["log", "power"])
def test_the_bias_falls_with_every_step(kind: str) -> None:
    for seed in range(5):
        made = encoding("kerple", model_dim=8, heads=2, kind=kind, seed=seed)
        silent = np.zeros((300, 8))
        bias = made.scores(silent[:1], silent, [0], np.arange(300))
        assert (np.diff(bias, axis=-1) < 0).all()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"kind": "cosine"}, "kind must be log or power, got 'cosine'"),
        ({"weights": {"r1": np.ones(3)}}, r"weight r1 must have shape \(4,\), got \(3,\)"),
        ({"weights": {"r2": np.full(4, np.nan)}}, "weight r2 must be finite"),
    ],
)
def test_refuses(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        encoding("kerple", **arguments)
