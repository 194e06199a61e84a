"""Fifty kills, small disks, and 2 GiB: `pytest -s tests/soak/test_encode_kills.py`.

The full disk is a small tmpfs in a user namespace of its own, which needs `unshare`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import zarr
from files.folders import contents, names
from helpers import ROOT

from ropecli import Rotary, encode_file

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
ROPE = Rotary(head_dim=64)
PART = ".{}.ropecli-part"
MEASURED = """
import sys
from ropecli.cli.app import run
assert run(sys.argv[1:]) == 0
print(*[line for line in open("/proc/self/status") if "VmHWM" in line], file=sys.stderr)
"""
UNSHARE = ["unshare", "--user", "--map-root-user", "--mount"]
COMMAND = [sys.executable, "-m", "ropecli", "encode"]


def made(folder: Path, name: str) -> Path:
    """An input of 205 MB, which is 13 blocks."""
    x = np.random.default_rng(0).standard_normal((800_000, 64)).astype("f4")
    path = folder / name
    if path.suffix == ".npy":
        np.save(path, x)
    else:
        zarr.create_array(path, data=x, chunks=(20_000, 64))
    return path


def digest(path: Path) -> str:
    found = hashlib.sha256()
    for name, content in sorted(contents(path).items()):
        found.update(name.encode() + content)
    return found.hexdigest()


def wait_for(part: str, folder: Path, process: subprocess.Popen[bytes]) -> float:
    """When a process began to write."""
    while process.poll() is None and part not in names(folder):
        time.sleep(0.001)
    return time.monotonic()


@pytest.mark.parametrize("name", ["x.npy", "x.zarr"])
def test_fifty_kills(tmp_path: Path, name: str) -> None:
    path = made(tmp_path, name)
    output = path.with_stem("y")
    encode_file(path, path.with_stem("expected"), ROPE)
    expected, before = digest(path.with_stem("expected")), digest(path)
    arguments = [*COMMAND, str(path), "-o", str(output), "-q"]
    part = PART.format(output.name)
    begin = time.monotonic()
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, env=ENVIRONMENT) as process:
        starting = wait_for(part, tmp_path, process) - begin
    writing = time.monotonic() - begin - starting
    assert digest(output) == expected
    random = np.random.default_rng(1)
    allowed = {path.name, f"expected{path.suffix}", part}
    killed = whole = parts = 0
    for _ in range(50):
        if output.is_dir():
            shutil.rmtree(output)
        output.unlink(missing_ok=True)
        with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, env=ENVIRONMENT) as process:
            if random.random() < 0.8:  # most while it writes, however long it takes to start
                wait_for(part, tmp_path, process)
                time.sleep(random.uniform(0, 1.1 * writing))
            else:
                time.sleep(random.uniform(0, starting + writing))
            process.kill()
        killed += process.returncode != 0
        left = set(names(tmp_path))
        parts += part in left
        if output.name in left:
            whole += 1
            assert digest(output) == expected
            assert left <= allowed | {output.name}
        else:
            assert left <= allowed
    if output.is_dir():
        shutil.rmtree(output)
    output.unlink(missing_ok=True)
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    assert set(names(tmp_path)) == {path.name, f"expected{path.suffix}", output.name}
    assert digest(output) == expected
    assert digest(path) == before
    print(f"{name}: {killed} of 50 killed, {parts} with a part left, {whole} whole")  # noqa: T201
    assert killed > 25
    assert parts > 5


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors", ".zarr", ".h5", ".parquet"])
def test_small_disk_that_grows(tmp_path: Path, suffix: str) -> None:
    path, name = tmp_path / "x.npy", f"y{suffix}"
    np.save(path, np.random.default_rng(0).standard_normal((31_250, 64)).astype("f4"))  # 8 MB
    encode_file(path, tmp_path / name, ROPE)
    (tmp_path / "disk").mkdir()
    script = """
        mount -t tmpfs -o size=3m tmpfs disk || exit 9
        for size in 3 3 6; do
            mount -o remount,size=${size}m disk
            "$@" 2>> errors; echo $? >> codes
            ls -A disk >> left
        done
        mount -o remount,size=20m disk
        "$@" 2>> errors; echo $? >> codes
        cp -r disk/. grown
        mount -o remount,size=12m disk
        "$@" --force 2>> errors; echo $? >> codes
        ls -A disk >> left
        diff -r disk grown; echo $? >> codes
    """
    arguments = [*COMMAND, "x.npy", "-o", f"disk/{name}", "-q"]
    subprocess.run(
        [*UNSHARE, "sh", "-c", script, "sh", *arguments], check=True, cwd=tmp_path, env=ENVIRONMENT
    )
    assert (tmp_path / "codes").read_text().split() == ["2", "2", "2", "0", "2", "0"]
    errors = (tmp_path / "errors").read_text().splitlines()
    assert errors == [f"error: cannot write disk/{name}: No space left on device"] * 4
    assert (tmp_path / "left").read_text().split() == [name]
    assert digest(tmp_path / "grown" / name) == digest(tmp_path / name)


def test_memory_and_speed_of_two_gibibytes(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    block = np.random.default_rng(0).standard_normal((1 << 16, 128)).astype("f4")
    with path.open("wb") as stream:
        header = {"descr": "<f4", "fortran_order": False, "shape": (1 << 22, 128)}
        np.lib.format.write_array_header_1_0(stream, header)
        for _ in range(64):
            block.tofile(stream)
    begin = time.monotonic()
    arguments = [sys.executable, "-c", MEASURED, "encode", str(path), "-o", str(tmp_path / "y.npy")]
    done = subprocess.run(
        [*arguments, "-q"], check=True, capture_output=True, text=True, env=ENVIRONMENT
    )
    took = time.monotonic() - begin
    peak = int(done.stderr.split()[-2])
    print(f"{peak / 1_000:.0f} MB, {2**31 / took / 1e9:.2f} GB/s")  # noqa: T201
    assert 1_000 < peak < 400_000  # kB
