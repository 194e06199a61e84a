"""Five hundred files that were sound, and were changed at random."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from models.gguf.mutations import assert_refused_or_read, mutated, sound
from models.gguf.writer import saved


def test_sound_files_are_read(tmp_path: Path) -> None:
    assert all(assert_refused_or_read(saved(tmp_path, data)) for data in sound())


def test_five_hundred_mutations(tmp_path: Path) -> None:
    files = sound()
    read = 0
    for seed in range(500):
        data = mutated(np.random.default_rng(seed), files)
        read += assert_refused_or_read(saved(tmp_path, data))
    assert 25 < read < 250
