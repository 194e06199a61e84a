"""Changed configurations: each is computed, or refused in a line, at once and in little memory."""

from __future__ import annotations

import copy
import json
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models.configs import GPT_OSS, QWEN2_VL
from models.mutations import WRONG, assert_judged_or_refused, mutate, sound_files

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seeds", [range(400)])
def test_mutations(seeds: range, tmp_path: Path) -> None:
    files, fired = sound_files(), set[str]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    computed = sum(
        assert_judged_or_refused(mutate(np.random.default_rng(seed), files), tmp_path, fired)
        for seed in seeds
    )
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10  # from KiB
    assert 0.1 < computed / len(seeds) < 0.9, "mutations must hit, and must not only hit"
    assert len(fired) > 30, "most rules of lint must be reached"
    assert grown < 200


#: Keys whose values have given trouble.
TROUBLE = {
    "": ["architectures", "model_type", "mrope_section"],
    "rope_scaling": ["mrope_section", "xdrope_section", "beta_fast"],
}


@pytest.mark.parametrize("place", TROUBLE)
@pytest.mark.parametrize("file", [QWEN2_VL, GPT_OSS])
def test_each_key_of_every_wrong_type(file: dict[str, Any], place: str, tmp_path: Path) -> None:
    every = [*TROUBLE[place], *(file[place] if place else file)]
    for begin, key in enumerate(dict.fromkeys(every)):
        for value in WRONG[begin % 2 :: 2]:
            config = copy.deepcopy(file)
            (config[place] if place else config)[key] = value
            assert_judged_or_refused(json.dumps(config).encode(), tmp_path)
