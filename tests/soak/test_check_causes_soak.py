"""Every fault of rows is named by its cause."""

from __future__ import annotations

import pytest
from named_causes import NAMED, Named, assert_cause_named


@pytest.mark.parametrize("case", NAMED, ids=lambda case: case.name)
def test_the_cause_is_named(case: Named) -> None:
    assert_cause_named(case)
