"""q8_0 and q4_0 against the gguf package, whose bits are those of ggml's reference code."""

from __future__ import annotations

import numpy as np
import pytest

from ropecli.analyses.quantization import Quantization

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("format", ["q8_0", "q4_0"])
def test_numbers_are_stored_as_ggml_stores_them(format: str) -> None:
    from gguf import GGMLQuantizationType, quants

    random = np.random.default_rng(0)
    keys = random.standard_normal((4000, 128)).astype(np.float32)
    keys *= np.exp(random.uniform(-9, 9, (4000, 1))).astype(np.float32)
    keys[0] = 0
    keys[1] = np.tile([127, -0.5, 0.5, 1.5, 2.5, -8, 8, 3], 16)  # halves and equals
    keys[2] = np.tile([8, -8, 0.5, 1.5, 2.5, -1.5, 7.5, 3], 16)
    kind = getattr(GGMLQuantizationType, format.upper())
    expected = quants.dequantize(quants.quantize(keys, kind), kind)
    got = Quantization.of(128, format, hadamard=False).round_trip(keys)
    assert np.array_equal(got, expected)
    assert got.dtype == np.float32
