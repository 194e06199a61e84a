"""Ten thousand GGUF headers changed at random: `pytest -s tests/soak/test_gguf_mutations.py`."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
from models.gguf.mutations import assert_refused_or_read, mutate, sound_files
from models.gguf.writer import save


def test_ten_thousand_mutations(tmp_path: Path) -> None:
    files = sound_files()
    read = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in range(1_000, 11_000):
        data = mutate(np.random.default_rng(seed), files)
        read += assert_refused_or_read(save(tmp_path, data))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10  # from KiB
    print(f"{read:,} of 10,000 were still readable; memory grew by {grown} MiB")  # noqa: T201
    assert 500 < read < 5_000
    assert grown < 100
