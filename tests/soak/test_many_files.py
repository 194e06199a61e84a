"""Ten thousand small files in one run: `pytest -s tests/soak/test_many_files.py`."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from helpers import assert_same_bits, run_cli

from ropecli import Rotary, rotate

COUNT, ROWS = 10_000, 4


def test_ten_thousand_files(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((COUNT, ROWS, 64)).astype("f4")
    (tmp_path / "in").mkdir()
    for number, rows in enumerate(x):
        np.save(tmp_path / "in" / f"{number}.npy", rows)
    begin = time.monotonic()
    words = ["encode", "in", "-o", "out", "--positions-continue", "-q"]
    done = run_cli(*words, cwd=tmp_path, timeout=3_600)
    print(f"{COUNT:,} files in {time.monotonic() - begin:.0f} s")  # noqa: T201
    assert (done.returncode, done.stderr) == (0, "")
    expected = rotate(x.reshape(-1, 64), Rotary(head_dim=64)).reshape(x.shape)
    got = np.stack([np.load(tmp_path / "out" / f"{number}.npy") for number in range(COUNT)])
    assert_same_bits("all files", got=got, expected=expected)
