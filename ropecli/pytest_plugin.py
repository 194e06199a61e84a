"""The pytest plugin: the fixture `rope_check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ropecli.testing import assert_rope

if TYPE_CHECKING:
    from collections.abc import Callable

    from ropecli.checks.implementation import Verdict


@pytest.fixture
def rope_check() -> Callable[..., Verdict]:
    """Give a test `ropecli.testing.assert_rope` without an import."""
    return assert_rope
