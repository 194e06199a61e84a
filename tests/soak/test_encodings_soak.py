"""All encodings, sizes and faults, of which the slow tier tries some."""

from __future__ import annotations

import pytest
import test_encoding_laws as laws
from analyses import test_linear as linear
from encodings_faults import planted
from test_encodings_faults import not_failed

from ropecli.encodings import ENCODINGS
from ropecli.kernels.linear import BLOCK


@pytest.mark.parametrize("sizes", laws.SIZES, ids=str)
@pytest.mark.parametrize("name", ENCODINGS)
def test_every_encoding_is_as_theory_says(name: str, sizes: tuple[int, int]) -> None:
    laws.test_every_encoding_is_as_theory_says(name, sizes)


@pytest.mark.parametrize("feature_map", ["elu", "exp", "softmax", "relu"])
@pytest.mark.parametrize("more", [-1, 0, 1, BLOCK + 1])
def test_the_forms_agree_across_blocks(feature_map: str, more: int) -> None:
    linear.test_the_forms_agree_across_blocks(feature_map, BLOCK + more)


def test_no_fault_in_any_right_code_passes() -> None:
    assert not_failed(planted()) == []
