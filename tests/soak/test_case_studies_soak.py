"""Pages about released libraries show the output of their commands: ten minutes of checks.

`pytest tests/soak/test_case_studies_soak.py`, where the extra `oracles` is installed.
"""

from __future__ import annotations

import subprocess
import sys

from helpers import ROOT


def test_the_pages_are_fresh() -> None:
    script = ROOT / "examples" / "case_studies" / "make.py"
    command = [sys.executable, str(script), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
