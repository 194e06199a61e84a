"""Valid files with random changes: each is read, or refused in a line, at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import slow
from models.gguf.mutations import assert_refused_or_read, mutated, sound
from models.gguf.writer import saved


def test_sound_files_are_read(tmp_path: Path) -> None:
    assert all(assert_refused_or_read(saved(tmp_path, data)) for data in sound())


@pytest.mark.parametrize("seeds", [range(80), *slow(range(500))])
def test_mutations(seeds: range, tmp_path: Path) -> None:
    files = sound()
    read = 0
    for seed in seeds:
        data = mutated(np.random.default_rng(seed), files)
        read += assert_refused_or_read(saved(tmp_path, data))
    assert 0.05 < read / len(seeds) < 0.5
