"""Deaths of scheduler and client, and TLS: `pytest tests/soak/test_distributed_faults.py`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import dask.config
import numpy as np
import pytest
from files.clusters import Cluster
from files.folders import names, saved
from helpers import ROOT

from ropecli import Rotary, encode_file
from ropecli.files.formats import zarr

BLOCK = 1_024
ROPE = Rotary(head_dim=32)
X = np.random.default_rng(0).standard_normal((1_600, 32)).astype("f4")  # 200 blocks, 100 tasks

ENCODE = f"""
import sys, ropecli
from ropecli.files import distributed_run, rotation
from ropecli.files.formats import zarr
rotation.BLOCK_BYTES = zarr.CHUNK_BYTES = {BLOCK}
distributed_run.TASK_BYTES = {2 * BLOCK}
try:
    ropecli.encode_file(
        *sys.argv[1:3],
        ropecli.Rotary(head_dim=32),
        scheduler=sys.argv[3],
        resume=sys.argv[4] == "resume",
        progress=lambda done, total: print(done // {BLOCK}, flush=True),
    )
except ropecli.FileError as error:
    sys.exit(str(error))
"""


def encoding(
    path: Path,
    output: Path,
    address: str,
    *,
    resume: bool = True,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """A process that prints a line after every block."""
    return subprocess.Popen(
        [sys.executable, "-c", ENCODE, path, output, address, "resume" if resume else "anew"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
    )


def wait_for(blocks: int, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for _ in range(blocks):
        assert process.stdout.readline(), process.communicate()[1]


def finish(process: subprocess.Popen[str]) -> tuple[int, list[str], str]:
    """The exit code, what was printed, and the errors."""
    printed, errors = process.communicate(timeout=120)
    return process.returncode, printed.split(), errors


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    started = Cluster(tmp_path_factory.mktemp("cluster"), block=BLOCK, pause=0.1)
    yield started
    started.close()


@pytest.mark.parametrize("name", ["y.npy", "y.zarr"])
def test_the_scheduler_dies(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(zarr, "CHUNK_BYTES", BLOCK)
    path, one = saved(tmp_path, X), tmp_path / f"one-{name}"
    encode_file(path, one, ROPE)
    with encoding(path, tmp_path / name, cluster.address) as process:
        wait_for(40, process)
        begin = time.monotonic()
        cluster.scheduler.kill()
        code, _, errors = finish(process)
    assert time.monotonic() - begin < 15
    assert errors == (
        f"the scheduler at {cluster.address} is gone; run again with --resume to go on\n"
    )
    assert code == 1
    assert name not in names(tmp_path)
    cluster.start_scheduler()
    cluster.start_workers()
    with encoding(path, tmp_path / name, cluster.address) as process:
        code, printed, errors = finish(process)
    assert (code, errors) == (0, "")
    assert len(printed) == 200
    assert contents(tmp_path / name) == contents(one)
    assert names(tmp_path) == [one.name, "x.npy", name]


def contents(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def test_the_scheduler_stops_answering(cluster: Cluster, tmp_path: Path) -> None:
    path = saved(tmp_path, X)
    with encoding(path, tmp_path / "y.npy", cluster.address) as process:
        wait_for(20, process)
        begin = time.monotonic()
        os.kill(cluster.scheduler.pid, 19)
        code, _, errors = finish(process)
    assert (code, errors) == (
        1,
        f"the scheduler at {cluster.address} is gone; run again with --resume to go on\n",
    )
    assert time.monotonic() - begin < 25


def test_the_client_dies(cluster: Cluster, tmp_path: Path) -> None:
    path = saved(tmp_path, X)
    encode_file(path, tmp_path / "one.npy", ROPE)
    done = 0
    for blocks in (20, 60, 100):
        with encoding(path, tmp_path / "y.npy", cluster.address) as process:
            wait_for(blocks, process)
            process.kill()
        assert "y.npy" not in names(tmp_path)
        log = (tmp_path / ".y.npy.ropecli-part.blocks").read_bytes().splitlines()
        assert len(log) - 1 >= max(done, blocks)
        done = len(log) - 1
    with encoding(path, tmp_path / "y.npy", cluster.address) as process:
        assert finish(process)[::2] == (0, "")
    assert (tmp_path / "y.npy").read_bytes() == (tmp_path / "one.npy").read_bytes()
    assert names(tmp_path) == ["one.npy", "x.npy", "y.npy"]


def test_another_job_takes_over_from_a_dead_client(cluster: Cluster, tmp_path: Path) -> None:
    # While tasks of the first still run, which write other bytes.
    path = saved(tmp_path, X)
    encode_file(path, tmp_path / "one.npy", ROPE, inverse=True)
    for resume in (False, True):
        with encoding(path, tmp_path / "y.npy", cluster.address, resume=resume) as process:
            wait_for(20, process)
            process.kill()
        encode_file(path, tmp_path / "y.npy", ROPE, inverse=True, resume=resume)
        time.sleep(0.5)
        assert (tmp_path / "y.npy").read_bytes() == (tmp_path / "one.npy").read_bytes()
        (tmp_path / "y.npy").unlink()


def test_workers_with_several_threads(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = saved(tmp_path, X)
    encode_file(path, tmp_path / "one.npy", ROPE)
    cluster = Cluster(tmp_path_factory.mktemp("threads"), block=BLOCK, workers=1, threads=8)
    try:
        for name in ("y.npy", "z.npy", "y.zarr"):
            with encoding(path, tmp_path / name, cluster.address) as process:
                assert finish(process)[::2] == (0, "")
    finally:
        cluster.close()
    for name in ("y.npy", "z.npy"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "one.npy").read_bytes()


def certificates(folder: Path) -> dict[str, str]:
    """An authority's and a certificate's files, as Dask takes them from the environment."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ("-newkey", "rsa:2048", "-nodes", "-subj")
    openssl("req", "-x509", *new, "/CN=us", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2")
    openssl("req", *new, "/CN=cluster", "-keyout", "key.pem", "-out", "request.pem")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
    openssl("x509", "-req", "-in", "request.pem", *signed, "-out", "certificate.pem")
    prefix = "DASK_DISTRIBUTED__COMM__TLS__"
    found = {f"{prefix}CA_FILE": str(folder / "ca.pem")}
    for who in ("SCHEDULER", "WORKER", "CLIENT"):
        found[f"{prefix}{who}__CERT"] = str(folder / "certificate.pem")
        found[f"{prefix}{who}__KEY"] = str(folder / "key.pem")
    return found


def as_key(variable: str) -> str:
    """The key of Dask's configuration that an environment variable sets."""
    return variable.removeprefix("DASK_").lower().replace("__", ".").replace("_", "-")


def test_tls(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = saved(tmp_path, X)
    encode_file(path, tmp_path / "one.npy", ROPE)
    ours = certificates(tmp_path_factory.mktemp("ours"))
    strangers = certificates(tmp_path_factory.mktemp("strangers"))
    with dask.config.set({as_key(name): value for name, value in ours.items()}):
        cluster = Cluster(
            tmp_path_factory.mktemp("cluster"),
            block=BLOCK,
            protocol="tls",
            environment={"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True", **ours},
        )
    try:
        with encoding(path, tmp_path / "y.npy", cluster.address, environment=ours) as process:
            assert finish(process)[::2] == (0, "")
        with encoding(path, tmp_path / "z.npy", cluster.address, environment=strangers) as process:
            code, _, errors = finish(process)
        assert code == 1
        assert errors.startswith(f"cannot reach a scheduler at {cluster.address}: ")
        assert errors.count("\n") == 1
        plain = cluster.address.replace("tls", "tcp")
        with encoding(path, tmp_path / "z.npy", plain) as process:
            code, _, errors = finish(process)
        assert (code, errors.count("\n")) == (1, 1)
    finally:
        cluster.close()
    assert (tmp_path / "y.npy").read_bytes() == (tmp_path / "one.npy").read_bytes()
