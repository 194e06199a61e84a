"""The table of frequencies: published wavelengths, and the reference in 40 digits."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_within, read_json

from ropecli import Rotary, frequency_table, rope
from ropecli.reference import frequencies as reference


@pytest.mark.parametrize(
    ("dim", "base", "slowest"),
    [
        (128, 1e4, 54_410.1),  # Llama 2, published as 54,410
        (96, 1e4, 51_861.7),  # Phi-3-mini: "period 51,861 tokens" in LongRoPE2
        (128, 5e5, 2_559_195.5),  # Llama 3, recomputed
        (512, 1e4, 60_611.5),  # Vaswani et al. 2017, whose text says 10000 * 2 pi
    ],
)
def test_published_wavelengths(dim: int, base: float, slowest: float) -> None:
    found = frequency_table(Rotary(head_dim=dim, base=base))
    assert round(float(found.wavelength[-1]), 1) == slowest


def test_columns_are_those_of_the_reference() -> None:
    exact = np.array([float(f) for f in reference.default(base=10_000, dim=128)])
    found = frequency_table(Rotary(head_dim=128))
    # ln(base) half ulps for the exponent's rounding, 2 for the power; 2 more for each product.
    tolerance = (np.log(1e4) + 4) * 2.0**-53
    assert_within("inv_freq", got=found.inv_freq, expected=exact, tolerance=tolerance * exact)
    degrees = exact * 180 / np.pi
    assert_within(
        "degrees", got=found.degrees_per_token, expected=degrees, tolerance=tolerance * degrees
    )
    turns = found.degrees_per_token / 360
    assert turns[-1] == pytest.approx(1.84e-5, rel=2e-3)  # and not 1e-4, as radians would be


def test_pairs_that_never_turn_and_axes() -> None:
    assert "never turns" in str(frequency_table(Rotary.from_inv_freq([1.0, 0.0])))
    axes = frequency_table(rope("default", head_dim=4, mrope_section=[1, 1]))
    assert str(axes).splitlines()[3].split()[-1] == "axis"


def test_figure_is_of_wavelengths() -> None:
    result = frequency_table(Rotary(head_dim=8))
    (axes,) = result.figure().axes
    assert np.asarray(axes.get_lines()[0].get_ydata()).tolist() == result.wavelength.tolist()


def test_document() -> None:
    result = read_json("table", "--dim", "4")["result"]
    assert result["label"] == "dim 4, base 10000"
    assert result["pairs"][0] == {
        "index": 0,
        "inv_freq": 1.0,
        "wavelength": 2 * np.pi,
        "degrees_per_token": np.degrees(1.0),
    }
