"""Encodings that are given to compare with are told apart, and named best first."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import assert_within
from rotated import told

from ropecli import Rotary, rope
from ropecli.checks.identify import Identification, Match

LONGROPE = {
    "short_factor": [1.0] * 32,
    "long_factor": np.linspace(1.0, 48.0, 32).tolist(),
    "original_max_position_embeddings": 4096,
    "factor": 32.0,
}


def match(found: Identification, name: str) -> Match:
    (only,) = [each for each in found.matches if each.name == name]
    return only


def test_longrope_is_found_among_candidates() -> None:
    short, long = (
        rope("longrope", head_dim=64, layout="half", sequence_length=length, **LONGROPE)
        for length in (4096, 4097)
    )
    found = told(long, np.arange(200), short=short, long=long)
    assert found.rope_type == "custom"
    assert found.base is None
    assert found.inv_freq is not None
    assert found.uncertainty is not None
    assert_within(
        "inv_freq", got=found.inv_freq, expected=long.inv_freq, tolerance=6 * found.uncertainty
    )
    assert found.matches[0] == match(found, "long")
    assert found.matches[0].matches
    assert not match(found, "short").matches


CANDIDATES = {
    "same": Rotary(head_dim=64, layout="half"),
    "a larger base": Rotary(head_dim=64, layout="half", base=10_001.0),
    "another layout": Rotary(head_dim=64),
    "turned back": Rotary(head_dim=64, layout="half", direction="reversed"),
    "an attention factor": Rotary(head_dim=64, layout="half", attention_factor=1.1),
    "linear 4": rope("linear", head_dim=64, layout="half", factor=4.0),
    "partial": Rotary(head_dim=64, layout="half", rotary_dim=32),
}


@pytest.mark.parametrize("start", [0, 1000])
def test_candidates_are_told_apart_and_in_order(start: int) -> None:
    where = np.arange(128) + start
    found = told(CANDIDATES["same"], where, **CANDIDATES)
    assert {each.name for each in found.matches if each.matches} >= {"same"}
    for name, candidate in CANDIDATES.items():
        got = match(found, name)
        assert got.matches == (name == "same")
        theta = CANDIDATES["same"].inv_freq
        if len(candidate.frequencies) == len(theta):
            expected = where.max() * np.abs(candidate.inv_freq - theta).max()
            assert got.max_phase_error == pytest.approx(expected, rel=1e-12)
        else:
            assert got.max_phase_error == math.inf


def test_candidates_may_be_off_by_what_the_data_can_tell() -> None:
    near = Rotary(head_dim=32, layout="half", base=10_000.001)
    found = told(Rotary(head_dim=32, layout="half"), near=near)
    assert match(found, "near").matches
    assert 0 < match(found, "near").max_phase_error < 1e-5
