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
from helpers import assert_refused, read_json, read_output, read_stdout, run_in_terminal
from models.configs import GEMMA_3, GPT_OSS, LLAMA_31, SMOLLM3
from numpy.typing import NDArray

from ropecli import Rotary, identify, load_model, rope, rotate
from ropecli.files.formats.safetensors import serialize
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


def test_document_has_what_the_call_returns() -> None:
    save(CONVENTIONS["written in halves"][0])
    got = read_json("identify", *FILES)
    assert got["parameters"]["dim"] == 16
    assert got["parameters"]["sequence_axis"] == 1
    result = got["result"]
    found = identify(np.load("before.npy"), np.load("after.npy"))
    for name in (
        *("recognised", "layout", "rotary_dim", "rotary_offset", "direction", "base"),
        *("attention_factor", "position_offset", "position_step", "rope_type", "max_residual"),
        *("precision", "reason", "dtype", "rows", "vectors", "positions_needed", "axis"),
    ):
        assert result[name] == getattr(found, name), name
    assert found.rotary is not None
    assert found.inv_freq is not None
    assert result["inv_freq"] == found.inv_freq.tolist()
    assert result["pairs_in"] == found.rotary.pairs_in.tolist()
    assert result["pairs_out"] == Rotary(head_dim=16, layout="half").pairs_in.tolist()
    assert set(result["matches"][0]) == {"name", "max_phase_error", "matches", "mistake"}
    assert [match["name"] for match in result["matches"]] == [m.name for m in found.matches]


# What is not.


def test_no_rotation_is_exit_code_1() -> None:
    x = np.random.default_rng(0).standard_normal((64, 8))
    np.save("before.npy", x)
    np.save("after.npy", x + np.sin(np.arange(64))[:, None])
    text = read_stdout("identify", *FILES, code=1)
    assert text.startswith("This is not a rotation by position: ")
    assert text.endswith(".\n\n  seen: 64 vectors at 64 positions, float64\n")
    result = read_json("identify", *FILES, code=1)["result"]
    assert result["recognised"] is False
    assert result["reason"] in text
    assert result["flags"] is result["layout"] is result["inv_freq"] is result["pairs_in"] is None
    assert result["matches"] == []


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


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_two_tensors_of_one_file(suffix: str) -> None:
    x = np.random.default_rng(0).standard_normal((32, 8)).astype(ml_dtypes.bfloat16)
    x = x.astype(np.float32) if suffix == ".npz" else x
    y = rotate(x, Rotary(head_dim=8))
    path = f"dump{suffix}"
    if suffix == ".npz":
        np.savez(path, q=x, q_out=y, p=np.arange(32))
    else:
        Path(path).write_bytes(serialize({"q": x, "q_out": y, "p": np.arange(32)}))
    text = read_stdout("identify", path, path, "--tensor", "q", "--tensor-after", "q_out")
    assert text.startswith(
        "This is RoPE: no scaling, base 10000, interleaved layout, all 8 dimensions.\n"
    )
    assert f"ulp of {'float32' if suffix == '.npz' else 'bfloat16'} at worst" in text


def test_one_name_is_for_both_files() -> None:
    x = np.random.default_rng(0).standard_normal((32, 8))
    np.savez("before.npz", q=x, k=x)
    np.savez("after.npz", q=rotate(x, Rotary(head_dim=8)), k=x)
    assert "This is RoPE" in read_stdout("identify", "before.npz", "after.npz", "--tensor", "q")
    np.save("after.npy", rotate(x, Rotary(head_dim=8)))
    assert "This is RoPE" in read_stdout("identify", "before.npz", "after.npy", "--tensor", "q")


def test_bfloat16_as_numpy_stores_it() -> None:
    save(Rotary(head_dim=8), length=64, dtype=ml_dtypes.bfloat16)
    assert "before.npy holds 2-byte void" in assert_refused("identify", *FILES)
    text = read_stdout("identify", *FILES, "--dtype", "bfloat16")
    assert "ulp of bfloat16 at worst over 64 positions" in text


def test_the_sequence_may_run_elsewhere() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 32, 8))
    y = rotate(x, Rotary(head_dim=8))
    for name, array in (("before", x), ("after", y)):
        np.save(f"{name}.npy", array.swapaxes(1, 2))  # (batch, sequence, heads, dim)
    got = read_json("identify", *FILES, "--sequence-axis", "1")
    assert got["parameters"]["sequence_axis"] == 1
    assert (got["result"]["rows"], got["result"]["vectors"]) == (32, 192)
    assert got["result"]["rope_type"] == "default"
    for name, array in (("before", x), ("after", y)):
        np.save(f"{name}.npy", array.swapaxes(1, 2).reshape(2, 32, 24))  # heads side by side
    got = read_json("identify", *FILES, "--dim", "8")
    assert (got["result"]["rows"], got["result"]["vectors"]) == (32, 192)
    assert got["result"]["rope_type"] == "default"


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


def test_an_axis_that_nobody_named_is_noted() -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 32, 8))
    np.save("before.npy", x)
    np.save("after.npy", rotate(x, Rotary(head_dim=8)))
    _, err = read_output("identify", *FILES)
    assert err.startswith("note: of 4 axes, 2 (32 long) was taken for the sequence")
    assert read_stdout("identify", *FILES, "-q")


# Models.


@pytest.fixture
def models(here: Path) -> None:
    """Configurations in the current folder."""
    configs = {"llama": LLAMA_31, "gemma": GEMMA_3, "gpt-oss": GPT_OSS, "smollm": SMOLLM3}
    for name, config in configs.items():
        Path(f"{name}.json").write_text(json.dumps(config))
    small = LLAMA_31 | {"head_dim": 16}
    Path("small.json").write_text(json.dumps(small))
    plain = {key: value for key, value in small.items() if key != "rope_scaling"}
    Path("plain.json").write_text(json.dumps(plain))
    phi = plain | {
        "rope_scaling": {
            "rope_type": "longrope",
            "short_factor": [1.0, 1.1, 1.3, 1.2, 1.7, 2.0, 2.2, 3.0],
            "long_factor": [1.0, 2.1, 3.3, 9.2, 9.7, 12.0, 22.2, 33.0],
            "original_max_position_embeddings": 4096,
            "attention_factor": 1.0,
        }
    }
    Path("phi.json").write_text(json.dumps(phi))


def compare_with(*sources: str, more: tuple[str, ...] = (), code: int = 0) -> str:
    words = [word for source in sources for word in ("--model", source)]
    return read_output("identify", *FILES, *words, *more, code=code)[0]


@pytest.mark.usefixtures("models")
def test_a_rotation_of_none_of_the_models_is_exit_code_1() -> None:
    save(rope("llama3", head_dim=16, rope_theta=5e5, layout="half", **LLAMA))
    assert compare_with("small.json", more=("-q",)).endswith(", all 16 dimensions.\n")
    assert compare_with("plain.json", "small.json", more=("-q",)).endswith("all 16 dimensions.\n")
    other = compare_with("plain.json", "gemma.json", more=("-q",), code=1)
    assert other.endswith(
        ", all 16 dimensions. It is not that of plain.json, gemma.json (sliding_attention) or "
        "gemma.json (full_attention).\n"
    )


@pytest.mark.usefixtures("models")
def test_models_are_compared() -> None:
    save(rope("llama3", head_dim=16, rope_theta=5e5, layout="half", **LLAMA))
    text = compare_with("small.json", "plain.json", "gemma.json", "gpt-oss.json")
    assert "  small.json matches exactly.\n" in text
    # The two differ most in the slowest pairs but one, by 7/8 of a frequency, at position 511.
    assert "  plain.json differs: frequencies of llama3, base 500000, " in text
    assert "rad at position 511.\n" in text
    for layer in ("sliding_attention", "full_attention"):
        words = "head dim 16, expected 256; rotary dim 16, expected 256; "
        assert f"  gemma.json ({layer}) differs: {words}" in text
    assert "  gpt-oss.json differs: head dim 16, expected 64; " in text
    got = read_json("identify", *FILES, "--model", "small.json", "--model", "gemma.json")["result"]
    found = {match["name"]: match for match in got["matches"]}
    assert found["small.json"]["matches"] is True
    assert found["gemma.json (full_attention)"]["max_phase_error"] is None


@pytest.mark.usefixtures("models")
def test_what_a_model_does_otherwise() -> None:
    save(Rotary(head_dim=16, base=5e5, direction="reversed"))
    text = compare_with("plain.json", code=1)
    assert (
        "  plain.json differs: layout interleaved, expected half; direction reversed, expected "
        "forward; wrong by 0 rad at position 511.\n"
    ) in text


@pytest.mark.usefixtures("models")
def test_a_model_explains_a_table() -> None:
    encoding = load_model("phi.json", sequence_length=10_000).layer().rotary
    assert encoding is not None
    save(encoding)
    length = ("--sequence-length", "10000")
    text = compare_with("phi.json", more=length)
    assert text.startswith("This is RoPE: the frequencies of phi.json, half-split layout")
    result = read_json("identify", *FILES, "--model", "phi.json", *length)["result"]
    assert result["flags"] == ["--model", "phi.json", *length]
    read_stdout("encode", "before.npy", "-o", "again.npy", *result["flags"], "-q")
    # The table itself, rotated twice to 7e-16 and 1.2e-16 of an angle below 512.
    after = np.load("after.npy")
    assert np.abs(np.load("again.npy") - after).max() <= 2e-13 * np.abs(after).max()
    short = compare_with("phi.json", code=1)
    assert "phi.json differs: long_factor, expected short_factor; wrong by" in short


@pytest.mark.usefixtures("models")
def test_one_kind_of_layer() -> None:
    save(Rotary(head_dim=256, layout="half"), length=64)
    text = compare_with("gemma.json", more=("--layer", "sliding_attention"))
    assert "  gemma.json (sliding_attention) matches exactly.\n" in text
    assert "full_attention" not in text


@pytest.mark.usefixtures("models")
def test_layers_without_position_are_passed_over() -> None:
    save(Rotary(head_dim=16))
    assert "nope" not in compare_with("smollm.json", code=1)
