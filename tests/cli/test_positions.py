"""The positions command: what is written, and option values that are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from helpers import read_stdout

import ropecli


def test_the_right_ids_are_written(here: Path) -> None:
    read_stdout("positions", "--lengths", "2,3", "-o", "ids.npy")
    assert np.load(here / "ids.npy").tolist() == [0, 1, 0, 1, 2]
    read_stdout("positions", "--lengths", "8", "--chunk", "2,5", "-o", "part.npy")
    assert np.load(here / "part.npy").tolist() == [2, 3, 4]
    np.save("wrong.npy", [3, 1, 2])
    assert read_stdout("positions", "wrong.npy", "--lengths", "3", "-o", "right.npy", code=1)
    assert np.load(here / "right.npy").tolist() == [0, 1, 2]


def test_ids_that_vectors_have_are_written(here: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 64))
    np.save("before.npy", x)
    np.save("after.npy", ropecli.rotate(x, ropecli.Rotary(64), [0, 1, 3]))
    words = "positions --before before.npy --after after.npy --lengths 3 -o got.npy"
    read_stdout(*words.split(), code=1)
    assert np.load(here / "got.npy").tolist() == [[0, 1, 3]]


def test_a_mask_may_have_booleans(here: Path) -> None:
    np.save("mask.npy", np.array([[False, True, True]]))
    np.save("ids.npy", np.array([[7, 0, 1]]))
    assert read_stdout("positions", "ids.npy", "--mask", "mask.npy", "-q").startswith("PASS")
