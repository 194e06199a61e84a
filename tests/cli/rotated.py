"""Rotated vectors in files, in many conventions, and the output of `identify`."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from helpers import read_stdout
from numpy.typing import NDArray

from ropecli import Rotary, rope, rotate

FILES = ("before.npy", "after.npy")
LLAMA: dict[str, Any] = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
#: Of an image: row and column.
GRID = np.stack([np.arange(144) // 12, np.arange(144) % 12], axis=-1)
#: Of a video: time, height and width, none of them following from the others.
VIDEO = np.random.default_rng(3).integers(0, 40, (128, 3))
CONVENTIONS: dict[str, tuple[Rotary, NDArray[Any] | None, str]] = {
    "plain": (Rotary(head_dim=16), None, "--dim 16 --layout interleaved --base 10000"),
    "half": (
        Rotary(head_dim=16, base=5e5, layout="half"),
        None,
        "--dim 16 --layout half --base 500000",
    ),
    "partial, last": (
        Rotary(head_dim=32, rotary_dim=8, rotary_offset=24),
        None,
        "--dim 32 --layout interleaved --base 10000 --rotary-dim 8 --rotary-offset 24",
    ),
    "reversed": (
        Rotary(head_dim=16, layout="half", direction="reversed"),
        None,
        "--dim 16 --layout half --base 10000 --set direction=reversed",
    ),
    "offset": (Rotary(head_dim=16), np.arange(64) + 100, "--dim 16 --layout interleaved"),
    "attention factor": (Rotary(head_dim=16, attention_factor=1.25), None, "--rope-type yarn"),
    "linear": (
        rope("linear", head_dim=16, factor=4.0),
        None,
        "--dim 16 --layout interleaved --base 10000 --rope-type linear --set factor=4",
    ),
    "ntk": (rope("ntk", head_dim=16, factor=4.0), None, "--rope-type ntk --set factor=4"),
    "llama3": (
        rope("llama3", head_dim=64, rope_theta=5e5, layout="half", **LLAMA),
        None,
        "--rope-type llama3 --set factor=8 --set high_freq_factor=4 --set low_freq_factor=1",
    ),
    "yarn": (
        rope("yarn", head_dim=64, factor=16.0, original_max_position_embeddings=4096),
        None,
        "--rope-type yarn --set factor=16 --set original_max_position_embeddings=4096",
    ),
    "proportional": (
        rope("proportional", head_dim=32, layout="half", partial_rotary_factor=0.25),
        None,
        "--rope-type proportional --set partial_rotary_factor=0.25",
    ),
    "other pairs": (
        Rotary(head_dim=8, pairs_in=[[0, 5], [7, 2], [3, 4], [1, 6]]),
        None,
        "--dim 8 --base 10000 --set 'pairs_in=[[0, 5], ",
    ),
    "written in halves": (
        Rotary(head_dim=16, pairs_out=Rotary(head_dim=16, layout="half").pairs_in),
        None,
        "--set 'pairs_out=[[0, 8], ",
    ),
    "axial": (rope("axial", head_dim=16, layout="half"), GRID, "--rope-type axial"),
    "M-RoPE": (
        rope("default", head_dim=24, layout="half", mrope_section=[2, 4, 6]),
        VIDEO,
        "--set 'mrope_section=[2, 4, 6]'",
    ),
    "interleaved M-RoPE": (
        rope("default", head_dim=24, mrope_section=[6, 4, 2], mrope_interleaved=True),
        VIDEO,
        "--set mrope_interleaved=true",
    ),
}


def save(
    encoding: Rotary,
    positions: NDArray[Any] | None = None,
    *,
    length: int = 512,
    dtype: Any = np.float64,
    to: str = "",
) -> None:
    """Write before.npy and after.npy into the current folder."""
    count = length if positions is None else len(positions)
    before = np.random.default_rng(0).standard_normal((2, count, encoding.head_dim)).astype(dtype)
    np.save(f"{to}before.npy", before)
    np.save(f"{to}after.npy", rotate(before, encoding, positions))


def document(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    got: dict[str, Any] = json.loads(read_stdout(capsys, "identify", *words, "--json", code=code))
    assert got["schema"] == "ropecli.identify/1"
    return got
