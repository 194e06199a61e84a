"""Whether a candidate is the rotation that was found: its axes, lengths, head and name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rotated import normals, seen, told

from ropecli import Rotary, rope
from ropecli.checks.identify import Identification

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
    found = seen(PLAIN, np.arange(COUNT), given=where, candidate=candidate).found
    assert is_match(found)


def test_axes_that_differ_are_not() -> None:
    video = np.stack(np.unravel_index(np.arange(COUNT), (4, 4, 4)), axis=-1)
    candidate = rope("default", **SECTIONS)
    assert is_match(told(candidate, video, candidate=candidate))
    other = rope("default", **(SECTIONS | {"mrope_section": [2, 4, 2]}))
    assert not is_match(told(candidate, video, candidate=other))
    assert not is_match(told(candidate, video, candidate=PLAIN))


def test_an_axis_that_positions_do_not_have_is_another() -> None:
    grid = np.stack(np.divmod(np.arange(COUNT), 8), axis=-1)
    expected = rope("axial", head_dim=16, layout="half")
    in_three = Rotary.from_inv_freq(expected.inv_freq, layout="half", axis=[0, 2] * 4)
    assert is_match(told(expected, grid, candidate=expected))
    assert not is_match(told(expected, grid, candidate=in_three))


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
    found = told(PLAIN, before=normals(COUNT, 16, dtype=dtype), candidate=candidate)
    assert is_match(found) is same


def test_a_head_of_another_size_is_another() -> None:
    wide = Rotary(head_dim=32, rotary_dim=16, layout="half")
    assert not is_match(told(PLAIN, candidate=wide))
    assert is_match(told(wide, candidate=wide))


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
    found = told(expected, np.arange(2048), before=before)
    assert found.recognised, found.reason
    assert next(each.name for each in found.matches if each.matches) == name
    names = [each.name for each in found.matches]
    assert len(names) == len(set(names))
