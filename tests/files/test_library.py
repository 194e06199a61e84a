"""Libraries that are missing or too old, and exceptions of libraries as one line."""

from __future__ import annotations

import errno
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from files.folders import names, refusal_of, save, to_be_rotated, written

from ropecli import FileError, Rotary, encode_file
from ropecli.files.formats.library import translate_read_errors, translate_write_errors


@pytest.mark.parametrize("version", ["", "1.13.1", "2.5.1+cpu"])
def test_without_pytorch_or_with_an_old_one_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    def version_of(name: str) -> str:
        if not version:
            raise metadata.PackageNotFoundError
        return version

    monkeypatch.setattr(metadata, "version", version_of)
    path, target = save(tmp_path, np.ones((3, 8))), tmp_path / "y.pt"
    needs = f"needs torch 2.6 or later{version and f', got {version}'}"
    install = "pip install 'torch>=2.6'"
    said = refusal_of(encode_file, path, target, Rotary(head_dim=8))
    assert said == f"writing {target} {needs}: {install}"
    assert names(tmp_path) == ["x.npy"]
    assert refusal_of(to_be_rotated, written(tmp_path, b"", "y.pt")) == (
        f"reading {target} {needs}: {install}"
    )


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("two\nlines\t and \x1b[31m color"), "two lines and ?[31m color"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
        (KeyError(), "KeyError"),
        (RuntimeError("x" * 9_999), "x" * 300 + "..."),
    ],
)
def test_exceptions_of_parsers_are_one_line(error: Exception, reason: str) -> None:
    with pytest.raises(FileError) as caught, translate_read_errors("x.h5: q"):
        raise error
    assert str(caught.value) == f"cannot read x.h5: q: {reason}"


def test_exceptions_of_writers_are_one_line(tmp_path: Path) -> None:
    with (
        pytest.raises(FileError, match=r"^cannot write .*x\.h5: no such type$"),
        translate_write_errors(tmp_path / "x.h5"),
    ):
        raise TypeError("no such\n type")
    with pytest.raises(OSError, match="No space left"), translate_write_errors(tmp_path):
        raise RuntimeError("Can't write data (errno = 28, error message = '...')")
    own = FileError("ours")
    with pytest.raises(FileError) as caught, translate_write_errors(tmp_path):
        raise own
    assert caught.value is own


def test_a_full_disk_is_named_and_not_what_closing_the_file_leads_to(tmp_path: Path) -> None:
    """PyTorch finds its file at another position than it wrote."""

    @translate_write_errors(tmp_path)
    def save() -> None:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        finally:
            raise RuntimeError("unexpected pos 704 vs 598")

    with pytest.raises(OSError, match="No space left"):
        save()
