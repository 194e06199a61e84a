"""Kills, damaged files and full disks by the dozen: `pytest -s tests/soak/test_encode_soak.py`.

The full disk is a small tmpfs in a user namespace of its own, which needs `unshare`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from files.hostile import assert_refused_or_read_as_numpy_does, mutated
from helpers import ROOT, assert_same_bits, soon

from ropecli import Rotary, encode_file, rotate

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
ROPE = Rotary(head_dim=64)
ENCODE = """
import sys, ropecli
try:
    ropecli.encode_file(sys.argv[1], sys.argv[2], ropecli.Rotary(head_dim=64), force=True)
except ropecli.FileError as error:
    sys.exit(str(error))
"""
UNSHARE = ["unshare", "--user", "--map-root-user", "--mount"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_fifty_random_kills(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((400_000, 64)).astype("f4")
    np.save(tmp_path / "x.npy", x)
    expected = rotate(x, ROPE)
    random = np.random.default_rng(1)
    arguments = [sys.executable, "-c", ENCODE, str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    begin = time.monotonic()
    subprocess.run(arguments, check=True, env=ENVIRONMENT)
    whole = time.monotonic() - begin
    (tmp_path / "y.npy").unlink()
    killed, parts = 0, 0
    for _ in range(50):
        with subprocess.Popen(arguments, env=ENVIRONMENT) as process:
            time.sleep(random.uniform(0, 1.1 * whole))
            process.kill()
        killed += process.returncode != 0
        left = names(tmp_path)
        parts += ".y.npy.ropecli-part" in left
        assert set(left) <= {"x.npy", "y.npy", ".y.npy.ropecli-part"}
        if "y.npy" in left:
            assert_same_bits("y.npy", got=np.load(tmp_path / "y.npy"), expected=expected)
            (tmp_path / "y.npy").unlink()
    encode_file(tmp_path / "x.npy", tmp_path / "y.npy", ROPE)
    assert names(tmp_path) == ["x.npy", "y.npy"]
    assert_same_bits("y.npy", got=np.load(tmp_path / "y.npy"), expected=expected)
    print(f"{killed} of 50 killed before the end, {parts} part files left and removed")  # noqa: T201
    assert parts > 5


def test_two_thousand_mutated_headers(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    read = 0
    for seed in range(1_000, 3_000):
        path.write_bytes(mutated(np.random.default_rng(seed)))
        with soon(seed):
            read += assert_refused_or_read_as_numpy_does(path)
    print(f"{read} of 2,000 were still readable")  # noqa: T201
    assert 0 < read < 500


def test_full_tmpfs(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((100_000, 64), "f4"))  # 26 MB
    (tmp_path / "disk").mkdir()
    script = """
        mount -t tmpfs -o size=10m tmpfs disk || exit 9
        "$1" -c "$2" x.npy disk/y.npy 2> error; echo $? > code; ls -A disk > left
    """
    subprocess.run(
        [*UNSHARE, "sh", "-c", script, "sh", sys.executable, ENCODE],
        check=True,
        cwd=tmp_path,
        env=ENVIRONMENT,
    )
    assert (tmp_path / "code").read_text() == "1\n"
    assert (tmp_path / "error").read_text() == "cannot write disk/y.npy: No space left on device\n"
    assert (tmp_path / "left").read_text() == ""
