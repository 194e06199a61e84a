"""Numbers of the pages that take minutes: `pytest tests/soak/test_numbers_soak.py`."""

from __future__ import annotations

import pytest
from docs.test_numbers import assert_largest_base_that_fails


@pytest.mark.parametrize(("name", "context"), [("4k", 4096), ("8k", 8192)])
def test_the_largest_base_that_fails(name: str, context: int) -> None:
    assert_largest_base_that_fails(name, context)
