"""Many files in one run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import names, refusal_of, save
from helpers import assert_same_bits
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from ropecli import ArgumentTypeError, Rotary, rotate
from ropecli.files.many import encode_files, expand_inputs
from ropecli.files.opened import OpenInput

ROPE = Rotary(head_dim=8)


def random_rows(rows: int, seed: int = 0) -> NDArray[Any]:
    return np.random.default_rng(seed).standard_normal((rows, 8))


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """Files of 3, 5 and 4 rows, in the order of their numbers."""
    return [
        save(tmp_path, random_rows(rows, number), f"part-{number}.npy")
        for number, rows in ((2, 3), (10, 5), (11, 4))
    ]


def test_each_file_is_rotated_from_position_0(tmp_path: Path, parts: list[Path]) -> None:
    result = encode_files(parts, ROPE, folder=tmp_path / "out")
    assert names(tmp_path / "out") == ["part-10.npy", "part-11.npy", "part-2.npy"]
    for path in parts:
        got = np.load(tmp_path / "out" / path.name)
        assert_same_bits(path.name, got=got, expected=rotate(np.load(path), ROPE))
    assert [each.input for each in result.files] == parts
    assert result.bytes == 12 * 8 * 8
    assert result.failures == ()


def test_each_file_has_the_encoding_of_its_own_last_axis(tmp_path: Path) -> None:
    x = random_rows(6)
    paths = [save(tmp_path, x.reshape(-1, width), f"{width}.npy") for width in (8, 16)]
    result = encode_files(paths, lambda width: Rotary(head_dim=width), folder=tmp_path / "out")
    assert [each.head_dim for each in result.files] == [8, 16]
    got = np.load(tmp_path / "out" / "16.npy")
    assert_same_bits("16", got=got, expected=rotate(np.load(paths[1]), Rotary(head_dim=16)))


def test_positions_go_on_from_file_to_file(tmp_path: Path, parts: list[Path]) -> None:
    result = encode_files(parts, ROPE, folder=tmp_path / "out", positions_continue=True, offset=7)
    whole = np.concatenate([np.load(path) for path in parts])
    got = np.concatenate([np.load(tmp_path / "out" / path.name) for path in parts])
    assert_same_bits("all", got=got, expected=rotate(whole, ROPE, 7 + np.arange(12)))
    assert [each.positions for each in result.files] == [(7, 9), (10, 14), (15, 18)]


def test_a_file_that_fails_keeps_no_other_from_it(tmp_path: Path, parts: list[Path]) -> None:
    parts[1].write_bytes(b"these are words")
    result = encode_files(parts, ROPE, folder=tmp_path / "out")
    assert names(tmp_path / "out") == ["part-11.npy", "part-2.npy"]
    (failure,) = result.failures
    assert failure.input == parts[1]
    assert "part-10.npy starts with" in failure.message


def test_what_stands_behind_a_file_of_unknown_length_has_no_positions(
    tmp_path: Path, parts: list[Path]
) -> None:
    parts[1].write_bytes(b"these are words")
    result = encode_files(parts, ROPE, folder=tmp_path / "out", positions_continue=True)
    assert names(tmp_path / "out") == ["part-2.npy"]
    first, second = (failure.message for failure in result.failures)
    assert "part-10.npy starts with" in first
    assert second.startswith(f"{parts[2]} was not rotated")
    assert second.endswith(f"depends on {parts[1]}")


def test_a_file_that_fails_but_has_a_length_keeps_the_others_in_their_places(
    tmp_path: Path, parts: list[Path]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "part-10.npy").write_bytes(b"old")
    result = encode_files(parts, ROPE, folder=tmp_path / "out", positions_continue=True)
    assert [each.positions for each in result.files] == [(0, 2), (8, 11)]
    assert "exists; pass force" in result.failures[0].message


def test_tensors_of_a_file_stand_at_the_same_positions(tmp_path: Path) -> None:
    for number in (1, 2):
        arrays = {"q": random_rows(3, number), "k": random_rows(3, 9 + number), "v": random_rows(3)}
        save_file(arrays, tmp_path / f"{number}.safetensors")
    paths = expand_inputs([tmp_path / "*.safetensors"])
    encode_files(paths, ROPE, folder=tmp_path / "out", positions_continue=True, tensor="[qk]")
    for number in (1, 2):
        before = load_file(tmp_path / f"{number}.safetensors")
        after = load_file(tmp_path / "out" / f"{number}.safetensors")
        for name, array in before.items():
            places = 3 * (number - 1) + np.arange(3)
            expected = array if name == "v" else rotate(array, ROPE, places)
            assert_same_bits(name, got=after[name], expected=expected)


def test_tensors_of_different_lengths_leave_the_next_positions_unknown(tmp_path: Path) -> None:
    save_file({"q": random_rows(3), "k": random_rows(4)}, tmp_path / "1.safetensors")
    save_file({"q": random_rows(3), "k": random_rows(3)}, tmp_path / "2.safetensors")
    paths = expand_inputs([tmp_path / "*.safetensors"])
    result = encode_files(paths, ROPE, folder=tmp_path / "out", positions_continue=True, tensor="*")
    assert names(tmp_path / "out") == ["1.safetensors"]
    assert len(result.failures) == 1


def test_progress_runs_over_all_files(tmp_path: Path, parts: list[Path]) -> None:
    told: list[tuple[int, int]] = []
    parts[0].write_bytes(b"")
    encode_files(parts, ROPE, folder=tmp_path / "out", progress=lambda *counts: told.append(counts))
    size = {rows: 128 + 64 * rows for rows in (5, 4)}  # of a file
    assert told == [(size[5], size[5] + size[4]), (size[5] + size[4], size[5] + size[4])]


def test_outputs_that_can_not_be_are_refused(tmp_path: Path, parts: list[Path]) -> None:
    (tmp_path / "other").mkdir()
    twin = save(tmp_path / "other", random_rows(2), "part-2.npy")
    twice = refusal_of(encode_files, [parts[0], twin], ROPE, folder=tmp_path / "out")
    assert "would have one output" in twice
    assert not (tmp_path / "out").exists()
    assert "into a folder" in refusal_of(encode_files, parts, ROPE, folder=tmp_path / "out.npy")
    assert "cannot write" in refusal_of(encode_files, parts, ROPE, folder=parts[0] / "out")
    assert "cannot write" in refusal_of(encode_files, parts, ROPE, folder="a\0b")
    result = encode_files(parts, ROPE, folder=tmp_path)
    assert all("same file" in failure.message for failure in result.failures)
    assert len(result.failures) == 3


def test_patterns_and_folders_come_in_the_order_of_their_numbers(
    tmp_path: Path, parts: list[Path]
) -> None:
    (tmp_path / "notes.txt").touch()
    (tmp_path / "folder.zarr").mkdir()
    assert expand_inputs([tmp_path / "part-*.npy"]) == parts
    assert expand_inputs([str(tmp_path)]) == [tmp_path / "folder.zarr", *parts]
    assert expand_inputs([parts[2], parts[0]]) == [parts[2], parts[0]]
    assert expand_inputs(["-", tmp_path / "none.npy"]) == [Path("-"), tmp_path / "none.npy"]


def test_digits_that_are_no_numbers_are_letters(tmp_path: Path) -> None:
    for name in ("1²3.npy", "1²10.npy", "½.npy", "٣.npy"):
        (tmp_path / name).touch()
    found = [path.name for path in expand_inputs([tmp_path / "*.npy"])]
    assert sorted(found) == sorted(names(tmp_path))
    assert found.index("1²3.npy") < found.index("1²10.npy")


def test_hidden_files_are_left_out_of_folders_and_patterns(
    tmp_path: Path, parts: list[Path]
) -> None:
    for name in ("._part-2.npy", ".hidden.npy"):
        (tmp_path / name).touch()
    assert expand_inputs([tmp_path]) == parts
    assert expand_inputs([tmp_path / "*.npy"]) == parts
    assert expand_inputs([tmp_path / ".hidden.npy"]) == [tmp_path / ".hidden.npy"]


def test_a_name_with_brackets_is_a_name_where_such_a_file_is(tmp_path: Path) -> None:
    path = save(tmp_path, random_rows(1), "x[1].npy")
    assert expand_inputs([path]) == [path]


def test_nothing_is_no_input(tmp_path: Path) -> None:
    assert "no file matches" in refusal_of(expand_inputs, [tmp_path / "*.npy"])
    (tmp_path / "empty").mkdir()
    assert "holds no file that ends in .npy" in refusal_of(expand_inputs, [tmp_path / "empty"])


def test_standard_output_is_no_folder(
    tmp_path: Path, parts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "into a folder, got -" in refusal_of(encode_files, parts, ROPE, folder="-")
    assert names(tmp_path) == sorted(path.name for path in parts)


def test_what_is_no_argument_is_refused_before_any_file_is_read(parts: list[Path]) -> None:
    wrong = ArgumentTypeError
    assert refusal_of(encode_files, parts, "x", error=wrong) == "rope must be a Rotary, got str"
    for go_on in (False, True):
        message = refusal_of(
            encode_files, parts, ROPE, offset="3", positions_continue=go_on, error=wrong
        )
        assert message == "offset must be an integer, got '3'"
    assert "cannot name an output next to /" in refusal_of(encode_files, ["/"], ROPE)
    assert "scheduler must be an address" in refusal_of(
        encode_files, parts, ROPE, scheduler=5, error=wrong
    )


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(5, "Input/output error"), "Input/output error"),
        (MemoryError(), "out of memory"),
        (MemoryError("no room\nfor it"), "no room for it"),
    ],
)
def test_what_the_system_says_of_one_file_keeps_no_other_from_being_rotated(
    tmp_path: Path, parts: list[Path], error: Exception, says: str
) -> None:
    def fail(_: OpenInput) -> None:
        raise error

    result = encode_files(parts, ROPE, folder=tmp_path / "out", start=fail)
    assert names(tmp_path / "out") == ["part-10.npy", "part-11.npy"]
    assert [(each.input, each.message) for each in result.failures] == [(parts[0], says)]
    assert result.failures[0].error is error


def test_nobody_who_reads_is_the_end_of_all(tmp_path: Path, parts: list[Path]) -> None:
    def closed_pipe(_: OpenInput) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        encode_files(parts, ROPE, folder=tmp_path / "out", start=closed_pipe)
    assert names(tmp_path / "out") == []


@pytest.mark.slow
def test_many_small_files(tmp_path: Path) -> None:
    row = random_rows(1)
    save(tmp_path, row, "0.npy")
    for number in range(1, 300):
        os.link(tmp_path / "0.npy", tmp_path / f"{number}.npy")
    result = encode_files(
        expand_inputs([tmp_path]), ROPE, folder=tmp_path / "out", positions_continue=True
    )
    assert (len(result.files), result.files[-1].positions) == (300, (299, 299))
    got = np.load(tmp_path / "out" / "299.npy")
    assert_same_bits("the last", got=got, expected=rotate(row, ROPE, [299]))
