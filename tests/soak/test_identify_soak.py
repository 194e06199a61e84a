"""All cases, of which the slow tier tries some: `pytest tests/soak/test_identify_soak.py`."""

from __future__ import annotations

from typing import Any

import pytest
import test_identify_conventions as conventions
import test_identify_family as family
import test_identify_parting as parting
import test_identify_refusals as refusals
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from strategies import dtypes

from ropecli.arrays import DTYPES

LAYOUTS = ("half", "interleaved")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["default", "linear", "llama3", "yarn"])
def test_rope_types_are_found_through_half_precision(name: str, dtype: str) -> None:
    family.test_rope_types_are_found_through_half_precision(name, dtype)


@pytest.mark.parametrize("name", parting.PARTING)
@pytest.mark.parametrize("given", [parting.WHERE, None], ids=["positions", "no positions"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_vectors_that_part(name: str, given: Any, dtype: str) -> None:
    parting.assert_parts(name, given, dtype)


@pytest.mark.parametrize("way", family.WAYS)
@pytest.mark.parametrize("size", family.SIZES, ids=str)
def test_tables_of_any_way_and_precision(size: tuple[Any, ...], way: str) -> None:
    family.test_tables_of_any_way_and_precision(*size, way)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("heads", [1, 3])
def test_tables_of_one_layout_and_pairs_of_the_other(layout: str, dtype: str, heads: int) -> None:
    refusals.test_tables_of_one_layout_and_pairs_of_the_other(layout, dtype, heads)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("adjacent", [True, False])
def test_tables_taken_for_angles(layout: str, dtype: str, adjacent: bool) -> None:
    refusals.test_tables_taken_for_angles(layout, dtype, adjacent)


@seed(7)
@settings(max_examples=1_000, database=None)
@given(data=st.data(), dtype=dtypes, base=conventions.rounded_bases)
def test_every_convention_is_found(data: st.DataObject, dtype: str, base: float) -> None:
    conventions.assert_convention_is_found(data, dtype, base)


@seed(7)
@settings(max_examples=1_000, database=None)
@given(seed=st.integers(0, 1000), dim=st.sampled_from([2, 8, 32]), count=st.integers(4, 64))
def test_random_vectors_are_never_a_rotation(seed: int, dim: int, count: int) -> None:
    refusals.assert_refused(seed, dim, count)
