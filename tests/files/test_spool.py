"""Arrays kept in an unnamed file until a format writes them in one pass."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from files.folders import descriptors, names
from helpers import assert_same_bits, random_array

from ropecli.files.formats.base import Source
from ropecli.files.formats.spool import Spool
from ropecli.files.formats.stored import Stored, whole

NO_SOURCE = cast("Source", None)  #: A spool only hands it on.


def stored_array(name: str, *shape: int) -> Stored:
    return Stored(path=Path("x"), name=name, shape=shape, dtype=np.dtype("<f4"))


def test_arrays_come_out_as_they_went_in(tmp_path: Path) -> None:
    arrays = {"a": random_array(3, 8), "b": random_array(0, 8), "c": random_array(70_000, 8)}
    kept = Spool(
        tmp_path / "part", [stored_array(name, *x.shape) for name, x in arrays.items()], NO_SOURCE
    )
    for name in "cab":
        kept.write(name, whole(stored_array(name, *arrays[name].shape)), arrays[name].copy())
    for name, x in arrays.items():
        assert b"".join(kept.blocks(name)) == x.tobytes()
        assert_same_bits(name, got=kept.map_elements(name), expected=x)
        assert kept.elements(name, 8, 16) == x.tobytes()[8:24] if x.size else True
    assert names(tmp_path) == [], "the file has no name"
    kept.close()


def test_what_can_not_be_begun_is_closed(tmp_path: Path) -> None:
    before, (soft, hard) = descriptors(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))  # tmpfs holds sparse files of any size
    try:
        with pytest.raises(OSError, match="File too large"):
            Spool(tmp_path / "part", [stored_array("a", 26)], NO_SOURCE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert descriptors() == before
