"""Fixtures of tests of files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """Provide a folder that everybody can enter; pytest's own are only its user's."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)
