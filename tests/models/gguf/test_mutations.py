"""Valid files with random changes: each is read, or refused in a line, at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import slow
from models.gguf.mutations import assert_refused_or_read, mutate, sound_files
from models.gguf.writer import save


def test_sound_files_are_read(tmp_path: Path) -> None:
    assert all(assert_refused_or_read(save(tmp_path, data)) for data in sound_files())


@pytest.mark.parametrize("seeds", [range(80), *slow(range(80, 400))])
def test_mutations(seeds: range, tmp_path: Path) -> None:
    files = sound_files()
    read = 0
    for seed in seeds:
        data = mutate(np.random.default_rng(seed), files)
        read += assert_refused_or_read(save(tmp_path, data))
    assert 0.05 < read / len(seeds) < 0.5
