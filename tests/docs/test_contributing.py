"""The rope type of the contributing page works as soon as its file is there, and no sooner."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from helpers import ROOT, run_python

PAGE = (ROOT / "docs" / "contributing.md").read_text()
USE = """
import ropecli
rope = ropecli.rope("whole_turns", head_dim=8, max_position_embeddings=700)
assert ropecli.__file__.startswith({folder!r})
print(rope)
"""


@pytest.mark.parametrize("dropped_in", [True, False])
def test_one_file_adds_a_rope_type(dropped_in: bool, tmp_path: Path) -> None:
    found = re.search(
        r"```python\n# ropecli/(rotary/types/whole_turns\.py)\n(.*?)```", PAGE, re.DOTALL
    )
    assert found is not None
    shutil.copytree(
        ROOT / "ropecli", tmp_path / "ropecli", ignore=shutil.ignore_patterns("__pycache__")
    )
    if dropped_in:
        (tmp_path / "ropecli" / found[1]).write_text(found[2])
    done = run_python(USE.format(folder=str(tmp_path)), cwd=tmp_path, PYTHONPATH=str(tmp_path))
    if dropped_in:
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("Rotary(head_dim=8, base=10000.0")
        assert "rope_type='whole_turns'" in done.stdout
    else:
        assert "rope type must be one of axial, " in done.stderr
        assert "got 'whole_turns'" in done.stderr
