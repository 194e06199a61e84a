"""Changed configurations: each is computed, or refused in a line, at once and in little memory."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest
from helpers import slow
from models.mutations import assert_judged_or_refused, mutated, sound


@pytest.mark.parametrize("seeds", [range(100), *slow(range(500))])
def test_mutations(seeds: range, tmp_path: Path) -> None:
    files, fired = sound(), set[str]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    computed = sum(
        assert_judged_or_refused(mutated(np.random.default_rng(seed), files), tmp_path, fired)
        for seed in seeds
    )
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10  # from KiB
    assert 0.1 < computed / len(seeds) < 0.9, "mutations must hit, and must not only hit"
    assert len(fired) > 40, "most rules of lint must be reached"
    assert grown < 200
