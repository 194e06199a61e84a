"""`identify` and `rotate` on released code; `check` on it is in `docs/case-studies.md`."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_within
from oracle.released import RIGHT, rotate, vectors

import ropecli

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_identified(name: str) -> None:
    case, rotary = RIGHT[name], RIGHT[name].expect()
    positions = np.arange(2048)
    x = vectors(rotary, len(positions))
    found = ropecli.identify(x, rotate(case, x, positions), positions)
    assert found.recognised, found.reason
    assert found.rotary is not None
    # Written as it is read, or, as in DeepSeek-V3, into halves.
    assert found.rotary.pairs_in.tolist() == rotary.pairs_in.tolist()
    assert found.rotary.pairs_out.tolist() == rotary.pairs_out.tolist()
    assert found.direction == "forward"
    assert found.precision == case.precision
    # float32 keeps 2^-24 of it; what rounding hides in one row, 2,048 rows show.
    assert found.attention_factor == pytest.approx(rotary.attention_factor, rel=2.0**-22)
    assert found.rope_type == rotary.rope_type
    assert found.base == rotary.base
    assert found.inv_freq is not None
    # A table of float32, and one rounding of each of its steps more.
    np.testing.assert_allclose(found.inv_freq, rotary.inv_freq, rtol=2.0**-20)


@pytest.mark.parametrize(
    "name", [name for name, case in RIGHT.items() if case.expect().rope_type == "default"]
)
def test_rotate_does_what_right_code_does(name: str) -> None:
    case, rotary, positions = RIGHT[name], RIGHT[name].expect(), np.arange(512)
    x = vectors(rotary, len(positions))
    first, second = rotary.pairs_in.T
    length = np.hypot(x[..., first], x[..., second]).astype(np.float64)
    # Ten roundings by 2^-24: cos, sin, two products and a sum in float32, on both sides. Angles are
    # float32 products of a float32 table, whose power's rounding ln(base) magnifies.
    assert rotary.base is not None
    roundings = 0.0 if case.precision == "exact" else 2 + np.log(rotary.base)
    bound = np.zeros(x.shape)
    bound[..., first] = bound[..., second] = length * (
        (10 + roundings * positions[:, None] * rotary.inv_freq) * 2.0**-24
    )
    got, expected = ropecli.rotate(x, rotary), rotate(case, x, positions)
    assert_within(name, got=got, expected=expected, tolerance=bound)
