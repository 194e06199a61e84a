"""Hypothesis strategies for encodings and vectors, over the ranges that models use."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from ropecli import Rotary
from ropecli.arrays import DTYPES

layouts = st.sampled_from(["interleaved", "half"])
dtypes = st.sampled_from(list(DTYPES))
bases = st.one_of(
    st.sampled_from([10_000.0, 500_000.0, 1_000_000.0]),
    st.floats(1.5, 1e9, allow_nan=False),
)
#: Integers first, since Hypothesis shrinks towards the first.
positions = st.one_of(
    st.integers(-131_072, 131_072).map(float),
    st.integers(-(2**40), 2**40).map(float),
    st.integers(-(2**18), 2**18).map(lambda quarters: quarters / 4),
)


@st.composite
def ropes(draw: st.DrawFn, *, largest: int = 32) -> Rotary:
    """Any layout, base, direction, partial rotation and attention factor."""
    pairs = draw(st.integers(1, largest // 2))
    rotary_pairs = draw(st.integers(1, pairs))
    return Rotary(
        head_dim=2 * pairs,
        base=draw(bases),
        layout=draw(layouts),
        rotary_dim=2 * rotary_pairs,
        rotary_offset=draw(st.integers(0, 2 * (pairs - rotary_pairs))),
        direction=draw(st.sampled_from(["forward", "reversed"])),
        attention_factor=draw(st.one_of(st.just(1.0), st.floats(0.5, 2.0))),
    )


@st.composite
def vectors(draw: st.DrawFn, head_dim: int, dtype: str = "float64") -> NDArray[Any]:
    """One vector whose values the dtype holds, each 0 or from 2^-8 to 2^8 in size."""
    size = st.one_of(st.just(0.0), st.floats(2.0**-8, 2.0**8))
    values = draw(hnp.arrays(np.float64, head_dim, elements=size))
    signs = draw(hnp.arrays(np.float64, head_dim, elements=st.sampled_from([1.0, -1.0])))
    vector: NDArray[Any] = (values * signs).astype(DTYPES[dtype])
    return vector
