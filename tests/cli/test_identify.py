"""The identify command, as a user meets it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from golden import assert_golden, page
from helpers import read_json, read_output, read_stdout, run_in_terminal
from models.configs import LLAMA_31
from numpy.typing import NDArray

from ropecli import Rotary, load_model, rope, rotate
from ropecli.render.console import UNCUT

pytestmark = pytest.mark.usefixtures("here")

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
#: By name, an encoding and its positions; whole ones from 0 without.
CONVENTIONS: dict[str, tuple[Rotary, NDArray[Any] | None]] = {
    "plain": (Rotary(head_dim=16), None),
    "half": (Rotary(head_dim=16, base=5e5, layout="half"), None),
    "partial, last": (Rotary(head_dim=32, rotary_dim=8, rotary_offset=24), None),
    "reversed": (Rotary(head_dim=16, layout="half", direction="reversed"), None),
    "offset": (Rotary(head_dim=16), np.arange(64) + 100),
    "attention factor": (Rotary(head_dim=16, attention_factor=1.25), None),
    "linear": (rope("linear", head_dim=16, factor=4.0), None),
    "ntk": (rope("ntk", head_dim=16, factor=4.0), None),
    "llama3": (rope("llama3", head_dim=64, rope_theta=5e5, layout="half", **LLAMA), None),
    "yarn": (rope("yarn", head_dim=64, factor=16.0, original_max_position_embeddings=4096), None),
    "proportional": (
        rope("proportional", head_dim=32, layout="half", partial_rotary_factor=0.25),
        None,
    ),
    "other pairs": (Rotary(head_dim=8, pairs_in=[[0, 5], [7, 2], [3, 4], [1, 6]]), None),
    "written in halves": (
        Rotary(head_dim=16, pairs_out=Rotary(head_dim=16, layout="half").pairs_in),
        None,
    ),
    "axial": (rope("axial", head_dim=16, layout="half"), GRID),
    "M-RoPE": (rope("default", head_dim=24, layout="half", mrope_section=[2, 4, 6]), VIDEO),
    "interleaved M-RoPE": (
        rope("default", head_dim=24, mrope_section=[6, 4, 2], mrope_interleaved=True),
        VIDEO,
    ),
}
#: What no flags of the command give again.
OTHERS: dict[str, tuple[Rotary, NDArray[Any] | None]] = {
    "step": (Rotary(head_dim=16), np.arange(64) * 3 + 5),
    "bfloat16 positions": (
        Rotary(head_dim=16),
        np.arange(600).astype(ml_dtypes.bfloat16).astype(np.float64),
    ),
    "no formula": (Rotary.from_inv_freq([0.9, 0.31, 0.3, 0.01], head_dim=8), None),
}


def save(
    encoding: Rotary,
    positions: NDArray[Any] | None = None,
    *,
    length: int = 512,
    dtype: Any = np.float64,
) -> None:
    """Write before.npy, after.npy and positions.npy into the current folder."""
    count = length if positions is None else len(positions)
    before = np.random.default_rng(0).standard_normal((2, count, encoding.head_dim)).astype(dtype)
    np.save("before.npy", before)
    np.save("after.npy", rotate(before, encoding, positions))
    if positions is not None:
        np.save("positions.npy", positions)


# What is found.


def shown(*words: str) -> str:
    """The page of the files, without what another machine's sine may change."""
    text = page("identify", " ".join([*FILES, *words]), UNCUT)
    return re.sub(r"[\d.]+ ulp", "# ulp", text)


def pages() -> Iterator[tuple[str, str]]:
    for name, (encoding, positions) in (CONVENTIONS | OTHERS).items():
        save(encoding, positions, dtype=np.float32)
        if encoding.axes == 1:
            yield name, shown()
        if encoding.axes > 1 or name == "step":
            yield f"{name}, positions given", shown("--positions", "positions.npy")
    x = np.random.default_rng(0).standard_normal((2, 600, 16)).astype(ml_dtypes.bfloat16)
    encoding, positions = OTHERS["bfloat16 positions"]
    for name, array in (("before", x), ("after", rotate(x, encoding, positions))):
        np.save(f"{name}.npy", array.astype(np.float32))
    yield "bfloat16 saved as float32", shown()


@pytest.mark.slow
def test_pages_are_as_they_were_looked_at() -> None:
    assert_golden("pages/identify", pages())


@pytest.mark.slow
@pytest.mark.parametrize("name", CONVENTIONS)
def test_its_flags_make_the_rotation_again(name: str) -> None:
    encoding, positions = CONVENTIONS[name]
    save(encoding, positions)
    given = ["--positions", "positions.npy"] if encoding.axes > 1 else []
    words = read_json("identify", *FILES, *given)["result"]["flags"]
    offset = ["--offset", "100"] if name == "offset" else []
    read_output("encode", "before.npy", "-o", "again.npy", *words, *given, *offset)
    again, after = np.load("again.npy"), np.load("after.npy")
    # Of an attention factor that formulas don't give, no more than 1e-9 is known from float64
    # data; all else is the same table, rotated twice to 7e-16 and 1.2e-16 of an angle below 512.
    length = np.abs(after).max()
    allowed = 1e-9 * length if encoding.attention_factor != 1 else 2e-13 * length
    assert np.abs(again - after).max() <= allowed


# Terminals.


@pytest.mark.slow
def test_eighty_columns(here: Path) -> None:
    save(CONVENTIONS["written in halves"][0])
    Path("model.json").write_text(json.dumps(LLAMA_31))
    words = ("identify", *FILES, "--model", "model.json")
    screen = run_in_terminal(*words, cwd=here)
    assert screen.code == 1
    lines = screen.text.splitlines()
    assert max(map(len, lines)) <= 80
    # A shell can take the lines as printed: they are broken only between arguments.
    start = next(index for index, line in enumerate(lines) if line.startswith("  As flags: "))
    pasted = "\n".join(lines[start:]).removeprefix("  As flags: ")
    found = shlex.split(pasted.replace("\\\n", ""))
    assert found[:2] == ["--dim", "16"]
    assert json.loads(found[-1].removeprefix("pairs_out="))[0] == [0, 8]


# Files.


@pytest.mark.parametrize("side_by_side", [False, True])
def test_axes_that_are_found_are_options_of_encode(side_by_side: bool) -> None:
    x = np.random.default_rng(0).standard_normal((32, 3, 8))  # (sequence, heads, dim)
    y = rotate(x.swapaxes(0, 1), Rotary(head_dim=8)).swapaxes(0, 1)
    for name, array in (("before", x), ("after", y)):
        np.save(f"{name}.npy", array.reshape(32, 24) if side_by_side else array)
    got = read_json("identify", *FILES)
    assert (got["parameters"]["dim"], got["parameters"]["sequence_axis"]) == (8, 0)
    lines = read_stdout("identify", *FILES).splitlines()
    axis = [] if side_by_side else lines[-1].removeprefix("  encode takes the axis: ").split()
    flags = next(line for line in lines if line.startswith("  As flags: ")).split()[2:]
    read_output("encode", "before.npy", "-o", "again.npy", *flags, *axis)
    # The same table, rotated twice to 7e-16 of a length and 1.2e-16 of an angle up to 31.
    again, after = np.load("again.npy"), np.load("after.npy")
    assert np.abs(again - after).max() <= 1e-14 * np.abs(after).max()


# Models.


def test_a_model_explains_a_table() -> None:
    phi = LLAMA_31 | {
        "head_dim": 16,
        "rope_scaling": {
            "rope_type": "longrope",
            "short_factor": [1.0, 1.1, 1.3, 1.2, 1.7, 2.0, 2.2, 3.0],
            "long_factor": [1.0, 2.1, 3.3, 9.2, 9.7, 12.0, 22.2, 33.0],
            "original_max_position_embeddings": 4096,
            "attention_factor": 1.0,
        },
    }
    Path("phi.json").write_text(json.dumps(phi))
    encoding = load_model("phi.json", sequence_length=10_000).layer().rotary
    assert encoding is not None
    save(encoding)
    length = ("--sequence-length", "10000")
    words = ("identify", *FILES, "--model", "phi.json")
    text = read_stdout(*words, *length)
    assert text.startswith("This is RoPE: the frequencies of phi.json, half-split layout")
    result = read_json(*words, *length)["result"]
    assert result["flags"] == ["--model", "phi.json", *length]
    read_stdout("encode", "before.npy", "-o", "again.npy", *result["flags"], "-q")
    # The table itself, rotated twice to 7e-16 and 1.2e-16 of an angle below 512.
    after = np.load("after.npy")
    assert np.abs(np.load("again.npy") - after).max() <= 2e-13 * np.abs(after).max()
    short = read_output(*words, code=1)[0]
    assert "phi.json differs: long_factor, expected short_factor; wrong by" in short
