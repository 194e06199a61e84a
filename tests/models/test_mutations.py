"""Five hundred changed configurations: each is computed or refused in a line, at once."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
from models.mutations import assert_judged_or_refused, mutated, sound


def test_five_hundred_mutations(tmp_path: Path) -> None:
    files = sound()
    assert all(assert_judged_or_refused(_bytes(file), tmp_path) is not None for file in files[:3])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    computed = sum(
        assert_judged_or_refused(mutated(np.random.default_rng(seed), files), tmp_path)
        for seed in range(500)
    )
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10  # from KiB
    assert 50 < computed < 450, "mutations must hit, and must not only hit"
    assert grown < 200


def _bytes(config: dict[str, object]) -> bytes:
    import json

    return json.dumps(config).encode()
