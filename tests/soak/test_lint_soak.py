"""Keys that a rule of lint calls removable, in all files: `pytest tests/soak/test_lint_soak.py`."""

from __future__ import annotations

from typing import Any

from helpers import for_each
from models.lint.test_experiment import EVERY_FILE, assert_removable


@for_each("name, keys", EVERY_FILE)
def test_what_is_called_removable_changes_no_layer_of_any_file(
    name: str, keys: dict[str, Any]
) -> None:
    assert_removable(keys)
