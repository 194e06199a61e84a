"""Files that nobody should trust."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np

from ropecli.errors import FileError
from ropecli.files.npy import open_npy


def npy(header: str, data: bytes = b"", *, version: tuple[int, int] = (1, 0)) -> bytes:
    """A .npy file with any header."""
    width = 2 if version == (1, 0) else 4
    text = header.encode("latin1")
    return b"\x93NUMPY" + bytes(version) + len(text).to_bytes(width, "little") + text + data


def mutated(rng: np.random.Generator) -> bytes:
    """A file whose header, or what stands around it, was changed in one to four places."""
    stream = io.BytesIO()
    np.save(stream, np.ones((3, 8), "<f4"))
    data = bytearray(stream.getvalue())
    for _ in range(rng.integers(1, 5)):
        place = int(rng.integers(6, 128))
        kind = rng.integers(3)
        if kind == 0:
            data[place] = int(rng.integers(256))
        elif kind == 1:
            data[place] = int(rng.choice(list(b"()[]{}'\",:-0123456789LTFVOfi<>|#")))
        else:
            other = int(rng.integers(6, 128))
            data[place : place + 4], data[other : other + 4] = (
                data[other : other + 4],
                data[place : place + 4],
            )
    return bytes(data)


def assert_refused_or_read_as_numpy_does(path: Path) -> bool:
    """Assert that a file is refused in one line, or understood as NumPy does; say which."""
    __tracebackhide__ = True
    try:
        with open_npy(path) as reader:
            file = reader.file
    except FileError as error:
        message = str(error)
        assert "\n" not in message, f"refused in several lines: {message}"
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = np.load(path, mmap_mode="r", allow_pickle=False)
    got = (file.shape, file.dtype)
    assert got == (expected.shape, expected.dtype), f"{path}: got {got}, NumPy reads {expected!r}"
    return True
