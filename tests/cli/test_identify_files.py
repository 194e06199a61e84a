"""The files that `identify` reads, and what it refuses."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from cli.rotated import FILES, document, save
from helpers import assert_refused, read_stdout
from models.configs import LLAMA_31, SMOLLM3

from ropecli import Rotary, rotate
from ropecli.cli.app import run
from ropecli.files.formats.safetensors import serialize

pytestmark = pytest.mark.usefixtures("here")


# Files.


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_two_tensors_of_one_file(suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).standard_normal((32, 8)).astype(ml_dtypes.bfloat16)
    x = x.astype(np.float32) if suffix == ".npz" else x
    y = rotate(x, Rotary(head_dim=8))
    path = f"dump{suffix}"
    if suffix == ".npz":
        np.savez(path, q=x, q_out=y, p=np.arange(32))
    else:
        Path(path).write_bytes(serialize({"q": x, "q_out": y, "p": np.arange(32)}))
    text = read_stdout(capsys, "identify", path, path, "--tensor", "q", "--tensor-after", "q_out")
    assert text.startswith("This is RoPE: no scaling, interleaved layout, all 8 dimensions.\n")
    assert f"ulp of {'float32' if suffix == '.npz' else 'bfloat16'} at worst" in text


def test_one_name_is_for_both_files(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).standard_normal((32, 8))
    np.savez("before.npz", q=x, k=x)
    np.savez("after.npz", q=rotate(x, Rotary(head_dim=8)), k=x)
    assert "This is RoPE" in read_stdout(
        capsys, "identify", "before.npz", "after.npz", "--tensor", "q"
    )
    np.save("after.npy", rotate(x, Rotary(head_dim=8)))
    assert "This is RoPE" in read_stdout(
        capsys, "identify", "before.npz", "after.npy", "--tensor", "q"
    )


def test_bfloat16_as_numpy_stores_it(capsys: pytest.CaptureFixture[str]) -> None:
    save(Rotary(head_dim=8), length=64, dtype=ml_dtypes.bfloat16)
    assert "before.npy holds 2-byte void" in assert_refused(capsys, "identify", *FILES)
    text = read_stdout(capsys, "identify", *FILES, "--dtype", "bfloat16")
    assert "ulp of bfloat16 at worst over 64 positions" in text


def test_the_sequence_may_run_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 32, 8))
    y = rotate(x, Rotary(head_dim=8))
    for name, array in (("before", x), ("after", y)):
        np.save(f"{name}.npy", array.swapaxes(1, 2))  # (batch, sequence, heads, dim)
    got = document(capsys, *FILES, "--sequence-axis", "1")
    assert got["parameters"]["sequence_axis"] == 1
    assert (got["result"]["rows"], got["result"]["vectors"]) == (32, 192)
    assert got["result"]["rope_type"] == "default"
    for name, array in (("before", x), ("after", y)):
        np.save(f"{name}.npy", array.swapaxes(1, 2).reshape(2, 32, 24))  # heads side by side
    got = document(capsys, *FILES, "--dim", "8")
    assert (got["result"]["rows"], got["result"]["vectors"]) == (32, 192)
    assert got["result"]["rope_type"] == "default"


def test_positions_of_each_batch(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).standard_normal((2, 32, 3, 8))
    p = np.arange(32) + np.array([[0], [40]])
    y = rotate(x.swapaxes(1, 2), Rotary(head_dim=8), p).swapaxes(1, 2)
    np.save("before.npy", x)
    np.save("after.npy", y)
    np.save("p.npy", p)
    got = document(capsys, *FILES, "--positions", "p.npy", "--sequence-axis", "1")["result"]
    assert (got["recognised"], got["rows"], got["position_offset"]) == (True, 64, 0)


def test_an_axis_that_nobody_named_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 32, 8))
    np.save("before.npy", x)
    np.save("after.npy", rotate(x, Rotary(head_dim=8)))
    assert run(["identify", *FILES]) == 0
    got = capsys.readouterr()
    assert got.err.startswith("note: of 4 axes, 2 (32 long) was taken for the sequence")
    assert read_stdout(capsys, "identify", *FILES, "-q")


# What is refused.


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("missing.npy after.npy", "cannot read missing.npy: No such file or directory"),
        ("before.npy missing.npz", "cannot read missing.npz: No such file or directory"),
        ("before.npy before.npy", "before and after are the same tensor of before.npy: "),
        ("two.npz two.npz --tensor a", "before and after are the same tensor of two.npz: "),
        ("two.npz after.npy", "two.npz holds 2 tensors, name one of a, b"),
        ("two.npz after.npy --tensor c", "two.npz holds no tensor 'c'; expected one of a, b"),
        ("before.npy after.npy --tensor q", "before.npy holds one array without a name"),
        ("words.npy after.npy", "words.npy starts with b'these '"),
        ("empty.npz after.npy", "cannot read empty.npz: "),
        ("words.safetensors after.npy", "words.safetensors is not a whole .safetensors file"),
        ("before.txt after.npy", "cannot read before.txt; expected a name that ends in .npy"),
        ("flat.npy after.npy", "flat.npy has shape (4,); expected two axes or more"),
        ("short.npy after.npy", "before and after must have one shape, got (3, 8) and (2, 512, 8)"),
        ("whole.npy after.npy", "before must be float64, float32, float16, bfloat16, got int64"),
        ("nan.npy after.npy", "before must be finite, got 1 non-finite value"),
        ("odd.npy odd2.npy", "head dim must be an even number of at least 2, got 3"),
        ("before.npy after.npy --dim 6", "the last axis must be a multiple of the head dim 6"),
        ("before.npy after.npy --dim 0", "head dim must be an even number of at least 2, got 0"),
        ("before.npy after.npy --dim -4", "head dim must be an even number of at least 2, got -4"),
        ("loop.npy after.npy", "cannot read loop.npy: "),
        ("before.npy after.npy --sequence-axis 2", "sequence axis must be from 0 to 1 or from"),
        ("before.npy after.npy --positions short.npy", "positions must have shape (512,) or"),
        ("before.npy after.npy --positions nan.npy", "positions must be finite"),
        ("before.npy after.npy --positions column.npy", "positions must have shape (512,) or"),
        (
            "before.npy after.npy --positions two.npz",
            "--positions must be a file of one array, got two.npz with 2: a, b",
        ),
        ("before.npy after.npy --positions missing.npy", "cannot read missing.npy"),
        ("before.npy after.npy --dtype int8", "dtype must be one of float64, float32, float16"),
        ("before.npy after.npy --dtype bfloat16", "before.npy holds float64, "),
        ("before.npy after.npy --model missing.json", "cannot read missing.json"),
        ("before.npy after.npy --model nope.json", "nope.json has no layer with a rotary"),
        ("before.npy after.npy --model m.json --layer x", "layer must be one of all, got 'x'"),
        ("before.npy after.npy --model - --model -", "standard input can be read once"),
        ("before.npy after.npy --layer all", "--layer needs --model, got 'all' of no model"),
        ("before.npy after.npy --sequence-length 9", "--sequence-length needs --model, got 9"),
        ("before.npy after.npy --sequence-axis x", "Invalid value for '--sequence-axis'"),
        ("before.npy", "Missing argument 'AFTER'"),
    ],
)
@pytest.mark.usefixtures("among_bad_files")
def test_what_is_refused(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert assert_refused(capsys, "identify", *words.split()).startswith(message)


@pytest.mark.usefixtures("among_bad_files")
def test_refusals_print_no_document(capsys: pytest.CaptureFixture[str]) -> None:
    message = assert_refused(capsys, "identify", "short.npy", "after.npy", "--json")
    assert message.startswith("before and after must have one shape")


@pytest.fixture
def among_bad_files(here: Path, bad_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the folder with bad files the current one."""
    monkeypatch.chdir(bad_files)


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write before.npy and after.npy, and what is not a match for them, into a folder."""
    folder = tmp_path_factory.mktemp("bad")
    with contextlib.chdir(folder):
        save(Rotary(head_dim=8))
        write_bad_files()
    return folder


def write_bad_files() -> None:
    """Files that hold no vectors, or not those of after.npy."""
    arrays = {
        "flat": np.ones(4),
        "short": np.ones((3, 8)),
        "whole": np.ones((2, 512, 8), np.int64),
        "nan": np.ones((2, 512, 8)),
        "odd": np.ones((4, 3)),
        "column": np.arange(512)[:, None],
        "odd2": np.ones((4, 3)),
    }
    arrays["nan"][0, 1, 2] = np.nan
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    np.savez("two.npz", a=np.ones((3, 8)), b=np.ones((3, 8)))
    Path("loop.npy").symlink_to("loop.npy")
    Path("words.npy").write_text("these are words")
    Path("words.safetensors").write_text("these are words")
    Path("empty.npz").write_bytes(b"")
    Path("before.txt").write_bytes(b"")
    Path("m.json").write_text(json.dumps(LLAMA_31))
    nope = SMOLLM3 | {"no_rope_layers": [0] * SMOLLM3["num_hidden_layers"]}
    Path("nope.json").write_text(json.dumps(nope))
