"""Ten thousand configurations changed at random: `pytest -s` shows how many are still read."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
from models.mutations import assert_judged_or_refused, mutate, sound_files


def test_ten_thousand_mutations(tmp_path: Path) -> None:
    files = sound_files()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    computed = sum(
        assert_judged_or_refused(mutate(np.random.default_rng(seed), files), tmp_path)
        for seed in range(1_000, 11_000)
    )
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10  # from KiB
    print(f"{computed:,} of 10,000 could be computed; memory grew by {grown} MiB")  # noqa: T201
    assert 1_000 < computed < 9_000
    assert grown < 200
