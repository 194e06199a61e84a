"""Positions from vectors on the command line: what is shown, what is not, and what was assumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from helpers import assert_refused, read_json

import ropecli

GIVEN = ("--base", "1e6", "--layout", "half")
SECTIONS = ("--set", "mrope_section=[4,6,6]")


def save(folder: Path, points: Any, dtype: Any = "float32", **parameters: Any) -> tuple[str, ...]:
    """Write vectors before and after, and return the command."""
    rope = ropecli.rope("default", head_dim=32, rope_theta=1e6, layout="half", **parameters)
    x = np.random.default_rng(0).standard_normal((4, len(points), 32)).astype(dtype)
    np.save(folder / "x.npy", x.astype("float32"))
    np.save(folder / "y.npy", ropecli.rotate(x, rope, points).astype("float32"))
    return ("positions", "--before", "x.npy", "--after", "y.npy")


def test_what_is_not_shown_fails_only_if_all_must_be(here: Path) -> None:
    points = np.repeat(np.arange(40)[:, None], 3, axis=1)
    command = save(here, points, ml_dtypes.bfloat16, mrope_section=[4, 6, 6])
    found = read_json(*command, *GIVEN, *SECTIONS)["result"]
    assert (found["wrong"], found["unexplained"]) == (0, 0)
    assert found["uncertain"] > 0
    read_json(*command, *GIVEN, *SECTIONS, "--all-shown", code=1)


def test_a_context_narrows_the_search(here: Path) -> None:
    points = np.repeat(np.arange(32_700, 32_730)[:, None], 3, axis=1)
    command = (*save(here, points, mrope_section=[4, 6, 6]), *GIVEN, *SECTIONS, "--chunk", "32700")
    uncertain = [
        read_json(*command, *more)["result"]["uncertain"] for more in ((), ("--context", "32768"))
    ]
    assert uncertain[0] > uncertain[1] == 0


def test_whole_positions_are_written_as_integers(here: Path) -> None:
    read_json(*save(here, np.arange(40)), *GIVEN, "-o", "p.npy")
    written = np.load(here / "p.npy")
    assert written.dtype == np.int64
    assert written.ravel().tolist() == list(range(40))
    read_json(*save(here, np.arange(40) / 4), *GIVEN, "-o", "quarters.npy", code=1)
    assert np.load(here / "quarters.npy").dtype == np.float64


def test_whole_ids_of_a_family_with_fractions_are_written_as_integers(here: Path) -> None:
    for seconds, kind in (("1", np.int64), ("0.33", np.float32)):
        command = ("positions", "--grid", "2,4,4", "--mrope", "qwen3-omni", "--seconds", seconds)
        read_json(*command, "-o", f"{seconds}.npy")
        assert np.load(here / f"{seconds}.npy").dtype == kind


def test_an_assumed_encoding_fails_nothing(here: Path) -> None:
    command = save(here, np.arange(100, 140))
    said = assert_refused(*command)
    assert said.startswith("no position explains the vectors of ")
    assert "assumed: base 10000, layout interleaved; give the encoding with --model" in said
    read_json(*command, "--base", "1e4", "--layout", "half", code=1)
