"""The classes of Transformers whose variations the oracle tier leaves out.

`pytest -m oracle tests/soak/test_transformers_soak.py`, about five minutes.
"""

from __future__ import annotations

import pytest
from oracle.test_transformers_variations import classes, test_class, test_refusals

__all__ = ["test_class", "test_refusals"]

pytestmark = pytest.mark.oracle


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("name", classes()[1::2])
