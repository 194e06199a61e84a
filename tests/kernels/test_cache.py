"""The cache of compiled kernels."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ropecli.kernels import cache


def test_kernel_is_compiled_once_its_code_lies_in_the_folder_of_this_edition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert not cache.is_compiled("rotation")
    edition = cache.edition_folder()
    assert edition is not None
    assert edition.parent == tmp_path
    folder = edition / "kernels_0"
    folder.mkdir(parents=True)
    (folder / "abel.scores-1.py311.1.nbc").touch()
    assert not cache.is_compiled("rotation")
    (folder / "rotation._rotate_shared_half-1.py311.1.nbc").touch()
    assert cache.is_compiled("rotation")
    assert cache.is_compiled("rotation._rotate_shared_half")
    assert not cache.is_compiled("rotation._rotate_shared_half", dtypes=2)
    assert not cache.is_compiled("rotation._rotate_shared_interleaved")


def test_nothing_is_compiled_where_nothing_can_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cache, "cache_folder", lambda: None)
    assert not cache.is_compiled("rotation")


def test_a_folder_that_others_own_or_may_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    edition = cache.edition_folder()
    assert edition is not None
    for folder, mode, reason in (
        (tmp_path, 0o777, "every user may write it"),
        (tmp_path, 0o1777, "every user may write it"),
        (edition, 0o702, "every user may write it"),
        (edition, 0o755, "other users may open it"),
    ):
        folder.chmod(mode)
        assert cache.refusal() == f"{folder}: {reason}"
        assert (cache.cache_folder(), cache.edition_folder()) == (None, None)
        assert not cache.is_compiled("rotation")
        folder.chmod(0o700)
    assert cache.refusal() == ""
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert cache.refusal() == f"{tmp_path}: it belongs to user {user}, not to user {user + 1}"
