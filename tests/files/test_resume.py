"""What an interrupted run has written is not written again, and the bytes are the same."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import names, refused, saved
from files.resumed import (
    CASES,
    ROPE,
    Case,
    after,
    assert_resumed,
    contents,
    ends,
    interrupt,
    interrupted,
    turned,
    whole,
)
from helpers import assert_same_bits, random_array, slow

from ropecli import Rotary, encode_file, rotate
from ropecli.files import array_job, plan
from ropecli.files.atomic import part_of
from ropecli.files.formats import flat
from ropecli.files.resume import log_of

__all__ = ["turned"]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_goes_on_after_an_interruption(tmp_path: Path, turned: list[str], case: Case) -> None:
    path, output = case.make(tmp_path), tmp_path / case.output
    before = contents(path)
    expected = whole(path, output, **case.options)
    every = turned.copy()
    assert len(every) == len(set(every)) >= 8
    for blocks in (1, 5, len(every)):
        turned.clear()
        interrupted(path, output, blocks, **case.options)
    # The last of the three had proven 5 blocks and a few that the others wrote but did not log.
    assert len(turned) <= len(every) - 5
    turned.clear()
    assert_resumed(expected, path, output, **case.options)
    assert turned == []
    assert contents(path) == before


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("seed", [0, *slow(1, 2)])
def test_bytes_are_the_same_wherever_it_is_interrupted(
    tmp_path: Path, turned: list[str], case: Case, seed: int
) -> None:
    path, output = case.make(tmp_path), tmp_path / case.output
    expected = whole(path, output, **case.options)
    draw = random.Random(seed)
    logged, most = 0, len(turned)
    for _ in range(3):
        logged = draw.randint(logged + 1, max(logged + 1, most - 3))
        interrupted(path, output, logged, **case.options)
    turned.clear()
    assert_resumed(expected, path, output, **case.options)
    assert len(turned) == most - logged


@pytest.mark.parametrize("step", ["read", "turn", "write", "log"])
def test_any_step_may_fail_at_any_block(
    tmp_path: Path, turned: list[str], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path, output = saved(tmp_path, random_array(100, 8, dtype="f8")), tmp_path / "y.npy"
    expected = whole(path, output)
    real: Any
    holder, name = {
        "read": (flat.FlatReader, "read"),
        "turn": (array_job, "rotate_into"),
        "write": (flat.FlatWriter, "write"),
        "log": (plan, "digest"),
    }[step]
    real = getattr(holder, name)
    for block in (1, 2, 3, 9, 4, 5, 1):
        calls: list[int] = []

        def fails(*words: Any, at: int = block, seen: list[int] = calls, **more: Any) -> Any:
            seen.append(1)
            if len(seen) == at:
                raise KeyboardInterrupt
            return real(*words, **more)

        with monkeypatch.context() as patched:
            patched.setattr(holder, name, fails)
            with contextlib.suppress(KeyboardInterrupt), ends():
                encode_file(path, output, ROPE, resume=True)
                break
    assert output.exists() or log_of(part_of(output)).exists()
    if output.exists():
        assert contents(output) == expected
    else:
        assert_resumed(expected, path, output)


def test_first_run_is_as_any_other(tmp_path: Path, turned: list[str]) -> None:
    path, output = saved(tmp_path, random_array(100, 8, dtype="f8")), tmp_path / "y.npy"
    plain = encode_file(path, tmp_path / "plain.npy", ROPE)
    result = assert_resumed(contents(tmp_path / "plain.npy"), path, output)
    assert (result.bytes, result.arrays) == (plain.bytes, plain.arrays)
    assert_same_bits(
        "y", got=np.load(output), expected=rotate(random_array(100, 8, dtype="f8"), ROPE)
    )


def test_counts_are_those_of_the_whole_job(tmp_path: Path, turned: list[str]) -> None:
    x = random_array(100, 8, dtype="f2")
    x[::9, 3] = np.nan
    x[5::9, 4] = np.inf
    x[::20, :2] = 60_000
    path, output = saved(tmp_path, x), tmp_path / "y.npy"
    plain = encode_file(path, tmp_path / "plain.npy", ROPE)
    assert plain.nonfinite == 23
    assert plain.overflowed > 0
    interrupted(path, output, 6)
    result = assert_resumed(contents(tmp_path / "plain.npy"), path, output)
    assert (result.nonfinite, result.overflowed) == (plain.nonfinite, plain.overflowed)


def test_progress_counts_what_was_done_before(tmp_path: Path, turned: list[str]) -> None:
    path, output = saved(tmp_path, random_array(100, 8, dtype="f8")), tmp_path / "y.npy"
    interrupted(path, output, 6)
    told: list[tuple[int, int]] = []
    encode_file(path, output, ROPE, resume=True, progress=lambda *words: told.append(words))
    assert [total for _, total in told] == 13 * [6_400]
    assert [done for done, _ in told] == [*range(512, 6_400, 512), 6_400]


def test_run_without_resume_begins_anew_and_leaves_nothing(
    tmp_path: Path, turned: list[str]
) -> None:
    path, output = saved(tmp_path, random_array(100, 8, dtype="f8")), tmp_path / "y.npy"
    expected = whole(path, output)
    interrupted(path, output, 6)
    with pytest.raises(KeyboardInterrupt):
        encode_file(path, output, ROPE, progress=after(3, interrupt))
    assert names(tmp_path) == ["x.npy"]
    interrupted(path, output, 6)
    turned.clear()
    encode_file(path, output, ROPE)
    assert len(turned) == 13
    assert names(tmp_path) == ["x.npy", "y.npy"]
    assert contents(output) == expected


def test_finished_output_needs_force(tmp_path: Path, turned: list[str]) -> None:
    path, output = saved(tmp_path, random_array(100, 8, dtype="f8")), tmp_path / "y.npy"
    expected = whole(path, output)
    output.write_bytes(b"old")
    assert "pass force" in refused(encode_file, path, output, ROPE, resume=True)
    with pytest.raises(KeyboardInterrupt):
        encode_file(path, output, ROPE, resume=True, force=True, progress=after(4, interrupt))
    assert output.read_bytes() == b"old"
    turned.clear()
    assert_resumed(expected, path, output, force=True)
    assert len(turned) == 9


def test_log_of_a_finished_run_does_no_harm(tmp_path: Path, turned: list[str]) -> None:
    # A process may be killed between giving the output its name and removing the log.
    path, output = saved(tmp_path, random_array(100, 8, dtype="f8")), tmp_path / "y.npy"
    expected = whole(path, output)
    interrupted(path, output, 6)
    part_of(output).unlink()
    assert_resumed(expected, path, output)


@pytest.mark.parametrize("name", ["y.npz", "y.h5", "y.parquet", "-"])
def test_formats_that_are_written_in_one_go_are_refused(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path, random_array(20, 8, dtype="f4"))
    output = name if name == "-" else str(tmp_path / name)
    wrong = refused(encode_file, path, output, ROPE, resume=True)
    assert f"cannot resume {output}: expected .npy, .safetensors, .zarr" in wrong
    assert names(tmp_path) == ["x.npy"]


@pytest.mark.parametrize("length", [218, 228, 229, 234, 235, 241, 242, 255])
def test_names_as_long_as_they_can_be(tmp_path: Path, turned: list[str], length: int) -> None:
    path = saved(tmp_path, random_array(100, 8, dtype="f8"))
    output = tmp_path / ("y" * (length - 4) + ".npy")
    encode_file(path, output, ROPE)
    expected = contents(output)
    output.unlink()
    interrupted(path, output, 5)
    assert_resumed(expected, path, output)


def test_every_field_of_the_encoding_tells_jobs_apart(tmp_path: Path, turned: list[str]) -> None:
    path, output = saved(tmp_path, random_array(100, 8, dtype="f8")), tmp_path / "y.npy"
    for other in (
        Rotary(head_dim=8, base=500.0),
        Rotary(head_dim=8, layout="half"),
        Rotary(head_dim=8, rotary_dim=4),
        Rotary(head_dim=8, rotary_dim=4, rotary_offset=2),
        Rotary(head_dim=8, direction="reversed"),
        Rotary(head_dim=8, attention_factor=2.0),
        Rotary(head_dim=4),
    ):
        interrupted(path, output, 9, other)
        turned.clear()
        encode_file(path, output, ROPE, resume=True)
        assert len(turned) == 13
        assert_same_bits(
            "y", got=np.load(output), expected=rotate(random_array(100, 8, dtype="f8"), ROPE)
        )
        output.unlink()
