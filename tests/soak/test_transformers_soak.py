"""The classes of Transformers that the oracle tier leaves out, by default keys and by others.

`pytest -m oracle tests/soak/test_transformers_soak.py`, about ten minutes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from oracle import test_transformers_classes as by_default
from oracle import test_transformers_variations as varied

pytestmark = pytest.mark.oracle


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "not oracle" in metafunc.config.getoption("markexpr"):
        names = ["of the library"]
    elif metafunc.function is test_class:
        names = by_default.rotary_classes()[1::2]
    else:
        names = varied.classes()[::2]
    metafunc.parametrize("name", names)


def test_class(name: str, tmp_path: Path) -> None:
    by_default.test_class(name, tmp_path)


def test_variations_and_refusals(name: str) -> None:
    varied.test_class(name)
    varied.test_refusals(name)
