"""Files that are no GGUF, the damaged and the hostile among them."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from files.folders import drop_privileges, refusal_of
from models.gguf.writer import (
    ARRAY,
    BOOL,
    F32,
    INT32,
    STRING,
    UINT8,
    UINT32,
    Tensor,
    Typed,
    array,
    float32,
    gguf,
    llama,
    save,
    text,
    with_type,
)

from ropecli.models.gguf import read_gguf

HUGE = 2**64 - 1


def refusal(folder: Path, data: bytes) -> str:
    """Why a file is refused, in one line that begins with its name."""
    path = save(folder, data)
    message = refusal_of(read_gguf, path)
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_file_cut_anywhere_is_refused(step: int, tmp_path: Path) -> None:
    nested = array(ARRAY, 1, array(STRING, 1, text("x")).data)
    metadata = llama(flag=True, numbers=[1, 2], strings=["a", "b"], nested=nested)
    whole = gguf(metadata, {"a": float32([1.0, 2.0]), "b": float32([1.0])})
    read_gguf(save(tmp_path, whole))
    header = len(whole) - 64
    for length in range(0, header - 31, step):  # at most 31 bytes fill the header up
        assert refusal(tmp_path, whole[:length])


def start(version: int, tensors: int = 0, keys: int = 0, order: str = "<") -> bytes:
    return b"GGUF" + struct.pack(order + "IQQ", version, tensors, keys)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "is empty; expected a GGUF file"),
        (b"{}", "starts with b'{}'; expected a GGUF file"),
        (b"GGML" + bytes(99), "starts with b'GGML'"),
        (b"GGUF", "the version at byte 4 needs 4 bytes, 0 are left"),
        (start(0), "has GGUF version 0 at byte 4; expected 2 or 3"),
        *(
            (
                start(version, order=order),
                f"has GGUF version {version:,} at byte 4; expected 2 or 3",
            )
            for version in (1, 4, 65_535)
            for order in "<>"
        ),
        (gguf({}, counts=(0, HUGE)), f"the header counts {HUGE:,} keys; expected at most 16,384"),
        (
            gguf({}, counts=(HUGE, 0)),
            f"the header counts {HUGE:,} tensors; expected at most 32,768",
        ),
        (gguf({}, counts=(0, 16_384)), "the list of 16,384 keys at byte 24 needs 229,376 bytes"),
        (gguf({}, counts=(32_768, 0)), "the list of 32,768 tensors at byte 24 needs 786,432 bytes"),
        (gguf({}, counts=(0, 1)), "the list of 1 keys at byte 24 needs 14 bytes, 8 are left"),
        (
            start(3, tensors=2) + 2 * (text("t") + struct.pack("<IIQ", 0, F32, 0)),
            "duplicate tensor name 't'",
        ),
    ],
)
def test_what_is_no_gguf(tmp_path: Path, data: bytes, what: str) -> None:
    assert refusal(tmp_path, data).startswith(what)


def test_folder_pipe_and_no_file_at_all(tmp_path: Path) -> None:
    assert "is a folder" in refusal_of(read_gguf, tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "is not a regular file" in refusal_of(read_gguf, tmp_path / "pipe")
    assert f"cannot read {tmp_path}/none: No such file" in refusal_of(read_gguf, tmp_path / "none")
    assert "NUL" in refusal_of(read_gguf, Path("a\0b"))


def test_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = save(tmp_path, gguf(llama()))
    path.chmod(0)
    with drop_privileges():
        assert "Permission denied" in refusal_of(read_gguf, path)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (Typed(STRING, struct.pack("<Q", HUGE)), "the value of 'k' at byte 45 needs 18,446"),
        (Typed(STRING, struct.pack("<Q", 30)), "the value of 'k' at byte 45 needs 30 bytes"),
        (array(UINT8, HUGE, b""), "the value of 'k' at byte 49 needs 18,446"),
        (array(UINT32, 2**62, b""), "the value of 'k' at byte 49 needs 18,446,744,073,709,551,616"),
        (array(STRING, HUGE, b""), "the value of 'k' at byte 49 needs 147,573"),
        (array(ARRAY, HUGE, b""), "the value of 'k' at byte 49 needs 221,360"),
        (array(STRING, 2, text("a") + struct.pack("<Q", HUGE)), "the value of 'k' at byte 66"),
        (array(99, 1, b""), "the value of 'k' is of type 99 at byte 37; expected 0 to 12"),
        (Typed(13, b""), "the value of 'k' is of type 13 at byte 33; expected 0 to 12"),
        (Typed(2**32 - 1, b""), "the value of 'k' is of type 4,294,967,295"),
        (Typed(BOOL, b"\2"), "the value of 'k' at byte 37 has a bool of 2; expected 0 or 1"),
        (array(BOOL, 2, b"\0\xff"), "the value of 'k' at byte 49 has a bool of 255"),
    ],
)
def test_values_that_are_none(tmp_path: Path, value: Typed, what: str) -> None:
    assert refusal(tmp_path, gguf({"k": value})).startswith(what)


def test_string_passed_over_that_leaves_the_file(tmp_path: Path) -> None:
    strings = text("") * 1_024 + struct.pack("<Q", 2**63) + text("")
    message = refusal(tmp_path, gguf({"k": array(STRING, 1_026, strings)}))
    assert message.startswith("a string of the value of 'k' ends 9,223,372,036,854,775,")


@pytest.mark.parametrize("depth", [5, 5_000])
def test_arrays_too_deep(tmp_path: Path, depth: int) -> None:
    data = struct.pack("<IQ", ARRAY, 1) * depth + struct.pack("<IQB", UINT8, 1, 7)
    message = refusal(tmp_path, gguf({"k": Typed(ARRAY, data)}))
    assert message.startswith("the value of 'k' has arrays 5 deep at byte ")


def test_arrays_four_deep_are_read(tmp_path: Path) -> None:
    data = struct.pack("<IQ", ARRAY, 1) * 3 + struct.pack("<IQB", UINT8, 1, 7)
    path = save(tmp_path, gguf({"k": Typed(ARRAY, data)}))
    assert read_gguf(path).metadata["k"] == ((((7,),),),)


def with_keys(*keys: bytes) -> bytes:
    value = struct.pack("<II", UINT32, 7)
    return start(3, keys=len(keys)) + b"".join(text(k) + value for k in keys)


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ([b"a", b"a"], "the key 'a' at byte 41 is a duplicate"),
        ([b"a\0"], "the key 'a\\x00' at byte 24 is empty or holds a NUL"),
        ([b""], "the key '' at byte 24 is empty or holds a NUL"),
        ([b"\xff\n"], "the key b'\\xff\\n' at byte 24 is not UTF-8"),
        ([b"k" * 65_536], "a key at byte 24 is 65,536 bytes long; expected at most 65,535"),
    ],
)
def test_keys_that_are_none(tmp_path: Path, keys: list[bytes], what: str) -> None:
    assert refusal(tmp_path, with_keys(*keys)) == what


def test_long_key_is_shown_short(tmp_path: Path) -> None:
    assert len(refusal(tmp_path, with_keys(b"k\n" * 9_000, b"k\n" * 9_000))) < 200


@pytest.mark.parametrize(
    "alignment", [0, 3, 48, Typed(INT32, struct.pack("<i", -8)), 32.0, True, "32", [32]]
)
def test_alignment_that_is_none(tmp_path: Path, alignment: object) -> None:
    whole = with_keys(b"general.alignment")[:-8]
    kind, data = with_type(alignment)
    message = refusal(tmp_path, whole + struct.pack("<I", kind) + data)
    assert message.endswith("expected a power of two")


@pytest.mark.parametrize(
    ("tensors", "what"),
    [
        ({"n" * 65: Tensor((1,), F32, b"")}, "the name of a tensor at byte 24 is 65 bytes long"),
        ({"t": Tensor((1,) * 5, F32, b"")}, "'t' has 5 axes at byte 33; expected at most 4"),
        ({"t": Tensor((2**32, 2**31), F32, b"")}, "'t' has shape (4294967296, 2147483648)"),
        ({"t": Tensor((0, 2**61), F32, b"")}, "'t' has shape (0, 2305843009213693952) before"),
        ({"t": Tensor((HUGE, 0), F32, b"")}, "'t' has shape (18446744073709551615, 0)"),
    ],
)
def test_tensors_that_are_none(tmp_path: Path, tensors: dict[str, Tensor], what: str) -> None:
    assert refusal(tmp_path, gguf({}, tensors)).startswith(what)
