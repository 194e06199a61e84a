"""What rows that come out wrong are instead: the sentence names it, not only the place."""

from __future__ import annotations

import pytest
from named_causes import NAMED, Named, assert_cause_named

#: The slow tier tries these; `tests/soak/test_check_causes_soak.py` all.
SAMPLED = {
    "copied, later heads",
    "backwards, keys",
    "float16 vectors, odd rows",
    "by index, an offset",
    "base 500000, later heads",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [case for case in NAMED if case.name in SAMPLED], ids=lambda case: case.name
)
def test_the_cause_is_named(case: Named) -> None:
    assert_cause_named(case)
