"""Every encoding's scores against its paper's formula, over shapes, positions and weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_within
from hypothesis import given
from hypothesis import strategies as st

from ropecli.encodings import ENCODINGS, encoding
from ropecli.reference import scores as reference

pytestmark = pytest.mark.slow

#: Options of an encoding that are worth a row of their own.
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("nope", {}),
    ("rope", {}),
    ("sinusoidal", {}),
    ("sinusoidal", {"order": "concatenated"}),
    ("sinusoidal", {"exponent": "2t/(d-2)"}),
    ("learned", {}),
    ("learned", {"length": 200}),
    ("shaw", {}),
    ("shaw", {"clip": 150}),
    ("shaw", {"as_printed": True}),
    ("transformer_xl", {}),
    ("transformer_xl", {"as_printed": True}),
    ("t5", {}),
    ("t5", {"bidirectional": False}),
    ("t5", {"num_buckets": 10, "max_distance": 77}),
    ("tupe", {}),
    ("tupe", {"length": 200, "untie_cls": False}),
    ("deberta", {}),
    ("deberta", {"clip": 150, "shared": True}),
    ("deberta", {"as_printed": True}),
    ("alibi", {}),
    ("alibi", {"absolute": True}),
    ("xpos", {}),
    ("xpos", {"base": 500.0, "scale_base": 100.0, "gamma": 1.0}),
    ("kerple", {}),
    ("kerple", {"kind": "power"}),
    ("fire", {}),
    ("fire", {"c": 2.0, "threshold": 50.0}),
    ("cope", {}),
    ("cope", {"p_max": 2, "as_listed": True}),
]


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
@given(
    queries=st.integers(1, 6),
    keys=st.integers(1, 6),
    heads=st.integers(1, 3),
    half=st.integers(1, 5),
    seed=st.integers(0, 2**32),
)
def test_scores_match_the_reference(
    name: str, options: dict[str, Any], queries: int, keys: int, heads: int, half: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    model_dim = 2 * half * heads
    made = encoding(name, model_dim=model_dim, heads=heads, seed=seed, **options)
    x, y = random.standard_normal((queries, model_dim)), random.standard_normal((keys, model_dim))
    m, n = random.integers(0, 200, queries), random.integers(0, 200, keys)
    expected = getattr(reference, name)(x, y, m, n, made.weights, **options)
    # Each side rounds every product and sum of two projections and a dot product, at most
    # 2 model_dim + head_dim of them with 2^-53 of the terms' sizes, and an angle of at most 200
    # radians with 2^-53 of it; some ten terms like that add up to a score.
    size = max(1.0, float(np.abs(x).sum(1).max() * np.abs(y).sum(1).max()))
    largest = max(float(np.abs(w).max()) for w in made.weights.values()) if made.weights else 1.0
    unit = (2 * model_dim + 2 * half + 400) * 2.0**-53
    allowed = 10 * unit * size * max(1.0, largest) ** 2 * model_dim
    # A power of a distance is larger than all of these, and rounded in its own last place.
    allowed = allowed + 2.0**-51 * np.abs(expected)
    assert_within(name, got=made.scores(x, y, m, n), expected=expected, tolerance=allowed)


def test_every_encoding_has_a_row_and_an_oracle() -> None:
    assert {name for name, _ in OPTIONS} == set(ENCODINGS)
    for name in ENCODINGS:
        assert callable(getattr(reference, name))
