"""The encode command on tensors by name and on many files: what it writes, says, and compares."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from helpers import (
    assert_refused,
    assert_same_bits,
    random_array,
    read_output,
    read_stdout,
)
from pyarrow.parquet import write_table
from safetensors.numpy import load_file, save_file

from ropecli import Rotary, encode_files, rotate

ROPE = Rotary(head_dim=8)
LLAMA = {"model_type": "llama", "hidden_size": 16, "num_attention_heads": 2, "rope_theta": 1e4}
CONFIG = json.dumps(LLAMA | {"max_position_embeddings": 4096})
HOSTILE = "\x1b[31mX\nerror: fake"
SHOWN = r"\x1b[31mX\nerror: fake"


@pytest.fixture(autouse=True)
def folder(here: Path) -> Path:
    """The current folder: arrays that fit heads of 8 and that do not, and shards of q, k and v."""
    np.save("a.npy", random_array(4, 8))
    np.save("b.npy", random_array(5, 8, seed=1))
    np.save("odd.npy", random_array(4, 7))
    (here / "dump").mkdir()
    for number, rows in ((1, 4), (2, 6), (10, 5)):
        arrays = {name: random_array(rows, 8, seed=number) for name in ("h.q", "h.k", "h.v")}
        save_file(arrays, f"dump/{number}.safetensors", metadata={"made": "by hand"})
    return here


# Tensors by name, and shards.


def test_what_a_library_can_not_copy_is_named() -> None:
    read_output("encode", "a.npy", "-o", "a.parquet")
    _, err = read_output("encode", "a.parquet")
    note = "note: compression and encodings of the columns of a.parquet cannot be copied\n"
    assert err == note
    _, err = read_output("encode", "a.parquet", "a.npy", "-o", "out")
    assert err.startswith(note)
    _, err = read_output("encode", "a.npy", "a.parquet", "-o", "out", "--force")
    assert note in err
    (result,) = encode_files(["a.parquet"], Rotary(head_dim=8), folder="out", force=True).files
    assert result.notes == (note.removeprefix("note: ").rstrip(),)


@pytest.mark.parametrize("given", [["dump/*.safetensors"], ["dump"]])
def test_shards_go_into_a_folder_in_the_order_of_their_numbers(
    given: list[str],
) -> None:
    words = [*given, "--tensor", "h.[qk]", "-o", "out", "--positions-continue"]
    out, err = read_output("encode", *words)
    assert err == ""
    first = "dump/1.safetensors into out/1.safetensors, dump/2.safetensors into "
    assert out.startswith(f"3 files, positions continue from one to the next: {first}")
    assert re.search(r"3 files written to out in \d.*\n\n", out)
    assert re.search(r"\nout/10.safetensors  positions 10 to 14\n$", out)
    got = load_file("out/10.safetensors")["h.q"]
    expected = rotate(load_file("dump/10.safetensors")["h.q"], ROPE, 10 + np.arange(5))
    assert_same_bits("the last", got=got, expected=expected)
    _, err = read_output("encode", *words, code=2)
    assert err.count("exists; pass --force to replace it") == 3
    read_output("encode", *words, "--force")


def test_tensors_that_are_copied_are_named() -> None:
    save_file({name: random_array(2, 8) for name in "abcdq"}, "five.safetensors")
    out, _ = read_output("encode", "five.safetensors", "--tensor", "q")
    assert re.search(r"written in .*; copied as they are: a, b, c and 1 more\n$", out)


def test_check_of_another_engine_shows_how_far_its_angles_are_off() -> None:
    x = random_array(2_000, 8)
    np.save("x.npy", x)
    angle = np.outer(np.arange(2_000, dtype="f4"), ROPE.inv_freq.astype("f4"))
    pairs = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angle)
    np.save("y.npy", np.stack([pairs.real, pairs.imag], -1).reshape(x.shape).astype("f4"))
    before = {path: path.read_bytes() for path in Path().glob("*.npy")}
    out, _ = read_output("encode", "x.npy", "--check", "y.npy")
    assert {path: path.read_bytes() for path in Path().glob("*.npy")} == before
    assert "is the rotation of x.npy, within rounding" in out
    assert re.search(r"angles are off by up to [\d.e-]+ radian, lengths by [\d.e-]+", out)


# One file, or several.


def test_no_document_without_every_file() -> None:
    out, _ = read_output("encode", "a.npy", "odd.npy", "--dim", "8", "-o", "new", "--json", code=2)
    assert out == ""


def test_a_folder_of_a_format_may_end_in_a_slash() -> None:
    read_output("encode", "a.npy", "-o", "in.zarr")
    read_output("encode", "in.zarr/", "--inverse", "-o", "back.npy")
    # Twice 2.5 ulp of a pair's length, an ulp being at most 2^-23 of it.
    x = np.load("a.npy")
    assert np.abs(np.load("back.npy") - x).max() <= 5 * 2.0**-23 * np.sqrt(2) * np.abs(x).max()


def test_a_slash_at_the_end_makes_the_folder_of_one_file() -> None:
    out, _ = read_output("encode", "a.npy", "-o", "new/", "--json")
    assert [each["output"] for each in json.loads(out)["result"]["files"]] == ["new/a.npy"]
    read_output("encode", "a.npy", "-o", "out.zarr/")  # a folder that is one array
    assert Path("out.zarr/zarr.json").is_file()
    Path("file").touch()
    assert assert_refused("encode", "a.npy", "-o", "file/") == "cannot write file: File exists"


# What is wrong with one.


@pytest.mark.parametrize("names", [["odd.npy", "a.npy", "b.npy"], ["a.npy", "b.npy"]])
def test_a_model_on_stdin_is_read_once(names: list[str]) -> None:
    code = 2 if "odd.npy" in names else 0
    _, err = read_output("encode", *names, "--model", "-", stdin=CONFIG, code=code)
    assert "standard input" not in err
    half = Rotary(head_dim=8, layout="half")
    for name in ("a", "b"):
        expected = rotate(np.load(f"{name}.npy"), half)
        assert_same_bits(name, got=np.load(f"{name}.rope.npy"), expected=expected)


def test_a_model_that_can_not_be_read_is_told_once() -> None:
    line = assert_refused("encode", "a.npy", "b.npy", "--model", "-", stdin="{")
    assert line.startswith("standard input is not valid JSON")


# Notes and warnings.


def test_many_different_notes_are_cut() -> None:
    for length in range(1, 13):
        np.save(f"n{length}.npy", random_array(1, 1, length, 8))
    out, err = read_output("encode", "a.npy", "n*.npy", "-o", "out")
    assert err.count("was taken for the sequence") == 8
    assert err.splitlines()[-1] == "note: and 4 more such notes, all in --json"
    out, _ = read_output("encode", "a.npy", "n*.npy", "-o", "out", "--json", "--force")
    assert len(json.loads(out)["result"]["notes"]) == 12


# Names that no terminal should get.


def assert_spelt_out(text: str, times: int) -> None:
    assert "\x1b" not in text
    assert not any(line.startswith("error: fake") for line in text.splitlines())
    assert text.count(SHOWN) == times


def test_tensors_with_names_that_are_no_text() -> None:
    save_file({HOSTILE: random_array(4, 8)}, "x.safetensors")
    out, _ = read_output("encode", "x.safetensors")
    assert_spelt_out(out, 1)
    save_file({HOSTILE: random_array(4, 8)}, "y.safetensors")
    out, _ = read_output("encode", "x.safetensors", "--check", "y.safetensors", code=1)
    assert_spelt_out(out, 3)  # in the plan, next to the first that differs, and in the hint


def test_files_with_names_that_are_no_text() -> None:
    name = HOSTILE.replace("/", "")
    Path(f"{name}.npy").write_bytes(Path("a.npy").read_bytes())
    np.save("p.npy", np.arange(4))
    Path(f"p{name}.npy").write_bytes(Path("p.npy").read_bytes())
    words = [f"{name}.npy", "--positions", f"p{name}.npy"]
    out, _ = read_output("encode", *words)
    assert_spelt_out(out, 5)  # input, positions twice, and the output before and after
    out, _ = read_output("encode", *words, "--check", f"{name}.rope.npy")
    assert_spelt_out(out, 5)
    Path(name).mkdir()
    out, _ = read_output("encode", f"{name}.npy", "a.npy", "-o", name)
    assert_spelt_out(out, 10)
    _, err = read_output("encode", f"{name}.npy", "a.npy", "-o", name, code=2)
    assert_spelt_out(err, err.count(SHOWN))
    assert err.count("\n") == 2


def test_a_dry_run_writes_nothing_and_says_what_would_be_written() -> None:
    before = sorted(Path().rglob("*"))
    words = ["encode", "dump", "--tensor", "h.[qk]", "-o", "out", "--dry-run"]
    out, err = read_output(*words)
    assert err == ""
    first = out.splitlines()[0]
    assert re.fullmatch(
        r"Would write 3 files, 960 bytes: less than 0\.1 s of rotation besides reading and "
        r"writing, \d[\d.]* [MG]B of memory",
        first,
    )
    assert "dump/2.safetensors   to  out/2.safetensors   h.k, h.q; copied: h.v" in out
    result = json.loads(read_stdout(*words, "--json"))["result"]
    assert [each["output"] for each in result["files"]] == [
        f"out/{n}.safetensors" for n in (1, 2, 10)
    ]
    assert result["bytes"] == sum(rows * 2 * 8 * 4 for rows in (4, 6, 5))
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a.npy", "-o", "b.npy"], "b.npy exists; pass --force to replace it"),
        (["a.npy", "-o", "no/new.npy"], "there is no folder"),
        (["dump/1.safetensors", "--tensor", "h.?", "-o", "x.npy"], "it holds one tensor, got 3"),
        (["a.npy", "odd.npy", "--dim", "8", "-o", "no/new"], "there is no folder"),
        (["a.npy", "--check", "b.npy"], "--check writes nothing: leave --dry-run out"),
    ],
)
def test_a_dry_run_refuses_what_would_be_refused(words: list[str], message: str) -> None:
    assert message in assert_refused("encode", *words, "--dry-run")


@pytest.mark.slow
def test_a_file_that_a_library_packs_is_in_memory_twice() -> None:
    def memory(name: str) -> int:
        text = read_stdout("encode", name, "--dry-run", "--json")
        return int(json.loads(text)["result"]["memory"])

    x = random_array(1_000_000, 8)
    np.save("x.npy", x)
    np.savez("x.npz", x=x)
    assert memory("x.npz") - memory("x.npy") > 1.5 * x.nbytes


def test_the_columns_of_a_table_without_vectors_are_named() -> None:
    table = pa.table({"id": pa.array([1, 2]), "text": pa.array(["a", "b"])})
    write_table(table, "t.parquet")
    assert assert_refused("encode", "t.parquet") == (
        "t.parquet holds no tensor; expected a column of vectors, got id int64, text string"
    )


def test_the_command_that_is_proposed_has_the_options_it_needs() -> None:
    for name, seed in (("x", 0), ("y", 1)):
        save_file(
            {"a": random_array(4, 8, seed=seed), "b": random_array(4, 8)}, f"{name}.safetensors"
        )
    np.save("p.npy", np.arange(4) * 2)
    words = ["x.safetensors", "--tensor", "*", "--sequence-axis", "0", "--positions", "p.npy"]
    out, _ = read_output("encode", *words, "--check", "y.safetensors", code=1)
    (hint,) = [line for line in out.splitlines() if "ropecli identify" in line]
    assert hint.partition(": ")[2] == (
        "ropecli identify x.safetensors y.safetensors --tensor a --sequence-axis 0 "
        "--positions p.npy"
    )
    assert read_stdout("identify", *hint.split("identify ")[1].split(), code=1)
    random_array(4, 8).tofile("r.bin")
    words = ["r.bin", "--shape", "4,8", "--dtype", "float32"]
    out, _ = read_output("encode", *words, "--check", "r.bin", code=1)
    assert "identify" not in out, "which reads no file without a header"


def test_what_a_killed_run_left_is_named(here: Path) -> None:
    (here / ".a.rope.npy.ropecli-part").write_bytes(bytes(100))
    _, err = read_output("encode", "a.npy")
    said = "a run that was killed left 100 bytes of a.rope.npy: it is written again"
    assert err == f"note: {said}\n"
    _, err = read_output("encode", "a.npy", "--force")
    assert err == ""
