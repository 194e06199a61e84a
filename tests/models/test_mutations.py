"""Changed configurations: each is computed, or refused in a line, at once and in little memory."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import numpy as np
import pytest
from models.mutations import assert_judged_or_refused, mutated, sound


def test_sound_configurations_are_read(tmp_path: Path) -> None:
    assert all(
        assert_judged_or_refused(json.dumps(file).encode(), tmp_path) is not None
        for file in sound()[:3]
    )


@pytest.mark.parametrize("seeds", [range(80), pytest.param(range(500), marks=pytest.mark.slow)])
def test_mutations(seeds: range, tmp_path: Path) -> None:
    files = sound()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    computed = sum(
        assert_judged_or_refused(mutated(np.random.default_rng(seed), files), tmp_path)
        for seed in seeds
    )
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10  # from KiB
    assert 0.1 < computed / len(seeds) < 0.9, "mutations must hit, and must not only hit"
    assert grown < 200
