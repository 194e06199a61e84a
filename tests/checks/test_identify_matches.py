"""Candidates and formulas are compared with the rotation that was found, and named best first."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers import assert_within
from rotated import experiment, normals, recover

from ropecli import Identification, Match, Rotary, rope

PLAIN = Rotary(head_dim=16, layout="half")
SECTIONS: dict[str, Any] = {"head_dim": 16, "layout": "half", "mrope_section": [4, 2, 2]}
COUNT = 64
TEXT = np.repeat(np.arange(COUNT)[:, None], 3, axis=1)  #: Time, height and width alike.


def is_match(found: Identification, name: str = "candidate") -> bool:
    assert found.recognised, found.reason
    (only,) = [each for each in found.matches if each.name == name]
    return only.matches


@pytest.mark.parametrize("where", [np.arange(COUNT), TEXT], ids=["plain", "alike"])
def test_axes_that_do_not_differ_are_the_same(where: Any) -> None:
    """Text is turned by sections of a video's positions as it is without them."""
    candidate = rope("default", **SECTIONS)
    found = experiment(PLAIN, np.arange(COUNT), given=where, candidate=candidate).found
    assert is_match(found)


def test_axes_that_differ_are_not() -> None:
    video = np.stack(np.unravel_index(np.arange(COUNT), (4, 4, 4)), axis=-1)
    candidate = rope("default", **SECTIONS)
    assert is_match(recover(candidate, video, candidate=candidate))
    other = rope("default", **(SECTIONS | {"mrope_section": [2, 4, 2]}))
    assert not is_match(recover(candidate, video, candidate=other))
    assert not is_match(recover(candidate, video, candidate=PLAIN))


def test_an_axis_that_positions_do_not_have_is_another() -> None:
    grid = np.stack(np.divmod(np.arange(COUNT), 8), axis=-1)
    expected = rope("axial", head_dim=16, layout="half")
    in_three = Rotary.from_inv_freq(expected.inv_freq, layout="half", axis=[0, 2] * 4)
    assert is_match(recover(expected, grid, candidate=expected))
    assert not is_match(recover(expected, grid, candidate=in_three))


@pytest.mark.parametrize(
    ("dtype", "factor", "same"),
    [
        ("float64", 1.0, True),
        ("float64", 1 + 3e-7, True),  # four times the 1e-7 to which lengths are known
        ("float64", 1 + 1e-6, False),
        ("float32", 1 + 1e-6, False),
        ("float64", 1.0015, False),
        ("bfloat16", 1.0015, True),  # tables in bfloat16 are off by 2^-9
        ("bfloat16", 1.004, False),
    ],
)
def test_the_attention_factor_is_compared_as_well_as_it_is_known(
    dtype: str, factor: float, same: bool
) -> None:
    candidate = Rotary(head_dim=16, layout="half", attention_factor=factor)
    found = recover(PLAIN, before=normals(COUNT, 16, dtype=dtype), candidate=candidate)
    assert is_match(found) is same


def test_a_head_of_another_size_is_another() -> None:
    wide = Rotary(head_dim=32, rotary_dim=16, layout="half")
    assert not is_match(recover(PLAIN, candidate=wide))
    assert is_match(recover(wide, candidate=wide))


@pytest.mark.parametrize(
    ("expected", "name"),
    [
        (Rotary(head_dim=32, layout="half", base=1_234_567.0), "default, base 1234567"),
        (
            rope("yarn", head_dim=64, factor=16.0, original_max_position_embeddings=4096),
            "yarn, base 10000, factor 16, original_max_position_embeddings 4096, truncate yes",
        ),
        (
            rope(
                "yarn", head_dim=64, factor=16.0, original_max_position_embeddings=4096,
                truncate=False,
            ),
            "yarn, base 10000, factor 16, original_max_position_embeddings 4096, truncate no",
        ),
    ],
    ids=["base", "truncated", "not truncated"],
)  # fmt: skip
def test_names_tell_formulas_apart(expected: Rotary, name: str) -> None:
    before = normals(2048, expected.head_dim, dtype="float64")
    found = recover(expected, np.arange(2048), before=before)
    assert found.recognised, found.reason
    assert next(each.name for each in found.matches if each.matches) == name
    names = [each.name for each in found.matches]
    assert len(names) == len(set(names))


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
    found = recover(long, np.arange(200), short=short, long=long)
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
    found = recover(CANDIDATES["same"], where, **CANDIDATES)
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
    found = recover(Rotary(head_dim=32, layout="half"), near=near)
    assert match(found, "near").matches
    assert 0 < match(found, "near").max_phase_error < 1e-5
