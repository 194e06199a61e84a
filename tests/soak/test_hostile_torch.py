"""Hostile .pt files by the thousand: `pytest -s tests/soak/test_hostile_torch.py`.

They are made, and read for comparison, by PyTorch: the extra `oracles`.
"""

from __future__ import annotations

from pathlib import Path

from files.hostile_torch import assert_hostile_files_do_nothing


def test_two_thousand_files(tmp_path: Path) -> None:
    print(assert_hostile_files_do_nothing(tmp_path, first=1_000, count=2_000))  # noqa: T201
