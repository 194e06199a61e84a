"""Encoding on a cluster: real processes, which are killed and fail."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dask
import ml_dtypes
import numpy as np
import pytest
import zarr
from files.clusters import Cluster
from files.folders import contents, names, refusal_of, save
from helpers import ROOT
from safetensors.numpy import save_file

from ropecli import Rotary, __version__, encode_file, encode_files
from ropecli.files import cluster as module
from ropecli.files.formats import zarr as zarr_format

pytestmark = pytest.mark.slow

BLOCK = 1_024
ROPE = Rotary(head_dim=32)
X = np.random.default_rng(0).standard_normal((2, 80, 32)).astype("f4")  # 20 blocks


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    started = Cluster(tmp_path_factory.mktemp("cluster"), block=BLOCK, pause=0.05)
    yield started
    started.close()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TASK_BYTES", BLOCK)
    monkeypatch.setattr(zarr_format, "CHUNK_BYTES", BLOCK)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of two arrays, sharded and not, with attributes; NaN in one of them."""
    group = zarr.create_group(tmp_path / "x.zarr", attributes={"made": "here"})
    x = X.copy()
    x[1, 70, 3] = np.nan
    x[0, :8] = 0  # a chunk that has no file
    group.create_array("q", data=x, chunks=(1, 8, 32), attributes={"layer": 1})
    group.create_array("k", data=x[0], chunks=(4, 32), shards=(8, 32), compressors=None)
    group.create_array("v", data=np.arange(5))
    return tmp_path / "x.zarr"


def assert_equals_one_process(cluster: Cluster, path: Path, name: str, **options: Any) -> None:
    """Assert that a cluster writes what one process writes, and returns the same."""
    __tracebackhide__ = True
    one, many = path.with_name(f"one-{name}"), path.with_name(f"many-{name}")
    alone = encode_file(path, one, ROPE, **options)
    done: list[tuple[int, int]] = []
    shared = encode_file(
        path,
        many,
        ROPE,
        **options,
        scheduler=cluster.address,
        progress=lambda *counts: done.append(counts),
    )
    assert contents(many) == contents(one)
    assert done == sorted(done)
    assert done[-1] == (alone.bytes, alone.bytes)
    assert (shared.input, shared.output) == (path, many)
    assert shared.arrays == alone.arrays
    assert (shared.kept, shared.nonfinite) == (alone.kept, alone.nonfinite)
    assert names(path.parent) == sorted([path.name, one.name, many.name])


@pytest.mark.parametrize("tensor", ["q", "k", "[qk]"])
def test_stores(cluster: Cluster, store: Path, tensor: str) -> None:
    assert_equals_one_process(cluster, store, "y.zarr", tensor=tensor)


def test_blocks_that_take_longer_than_it_waits(
    cluster: Cluster, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.02)
    assert_equals_one_process(cluster, store, "y.zarr", tensor="q")


def test_a_store_of_one_array(cluster: Cluster, tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=X.astype(">f8"), chunks=(2, 8, 16))
    assert_equals_one_process(cluster, tmp_path / "x.zarr", "y.zarr", inverse=True)


def test_a_store_of_bfloat16(cluster: Cluster, tmp_path: Path) -> None:
    bits = X.astype(ml_dtypes.bfloat16).view(np.uint16)
    zarr.create_array(tmp_path / "x.zarr", data=bits, chunks=(1, 16, 32))
    assert_equals_one_process(cluster, tmp_path / "x.zarr", "y.zarr", dtype="bfloat16")


def test_positions_of_a_store(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    zarr.create_array(tmp_path / "data" / "x.zarr", data=X, chunks=(1, 7, 32))
    positions = np.random.default_rng(1).integers(0, 4_096, X.shape[:2])
    path = save(tmp_path, positions, "p.npy")
    for number, given in enumerate((path, positions)):
        assert_equals_one_process(
            cluster, tmp_path / "data" / "x.zarr", "y.zarr", positions=given, offset=number
        )
        for name in ("one-y.zarr", "many-y.zarr"):
            (tmp_path / "data" / name).rename(tmp_path / f"{number}-{name}")


def test_an_empty_store(cluster: Cluster, tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "x.zarr", shape=(2, 0, 32), dtype="f4", chunks=(1, 1, 32))
    empty = encode_file(tmp_path / "x.zarr", tmp_path / "y.zarr", ROPE, scheduler=cluster.address)
    assert (empty.shape, empty.bytes) == ((2, 0, 32), 0)


@pytest.mark.parametrize("name", ["y.npy", "y.zarr", "y.npz"])
def test_other_files_are_encoded_whole(cluster: Cluster, tmp_path: Path, name: str) -> None:
    path = save(tmp_path, np.asfortranarray(X.astype(">f4")))
    assert_equals_one_process(cluster, path, name)


def test_paths_are_those_of_the_client(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("x.safetensors")
    save_file({"a.q": X, "a.k": X[0], "a.v": X + 1, "b.q": X[:, :7]}, path, {"made": "here"})
    assert_equals_one_process(cluster, path, "y.safetensors", tensor="*.[qk]")


@pytest.mark.parametrize("go_on", [False, True])
def test_several_files(cluster: Cluster, tmp_path: Path, go_on: bool) -> None:
    paths = [save(tmp_path, X[:, : 8 * number], f"{number}.npy") for number in (3, 5, 7)]
    paths.insert(1, save(tmp_path, X[:, :, :31], "odd.npy"))
    done: list[tuple[int, int]] = []
    one = encode_files(paths, ROPE, folder=tmp_path / "one", positions_continue=go_on)
    many = encode_files(
        paths,
        ROPE,
        folder=tmp_path / "many",
        positions_continue=go_on,
        scheduler=cluster.address,
        progress=lambda *counts: done.append(counts),
    )
    assert contents(tmp_path / "many") == contents(tmp_path / "one")
    assert [each.arrays for each in many.files] == [each.arrays for each in one.files]
    assert [each.input for each in many.files] == [each.input for each in one.files]
    assert many.failures == one.failures
    assert len(many.failures) == (3 if go_on else 1)
    assert done == sorted(done)


def test_a_worker_that_is_killed_half_way_is_replaced(cluster: Cluster, store: Path) -> None:
    one, many = store.with_name("one.zarr"), store.with_name("many.zarr")
    before = cluster.pids()
    killed: list[int] = []

    def kill(done: int, total: int) -> None:
        if done >= total // 3 and not killed:
            assert done < total
            killed.append(before[0])
            os.kill(before[0], signal.SIGKILL)

    encode_file(store, one, ROPE, tensor="q")
    encode_file(store, many, ROPE, tensor="q", scheduler=cluster.address, progress=kill)
    assert killed
    assert contents(many) == contents(one)
    assert names(store.parent) == ["many.zarr", "one.zarr", "x.zarr"]
    cluster.wait_for_workers()
    assert killed[0] not in cluster.pids()


def test_workers_that_are_killed_between_files_are_replaced(
    cluster: Cluster, tmp_path: Path
) -> None:
    paths = [save(tmp_path, X[:, : 8 + number], f"{number}.npy") for number in range(20)]
    killed: list[int] = []

    def kill(*_: int) -> None:
        if len(killed) < 3:
            killed.append(cluster.pids()[0])
            with contextlib.suppress(ProcessLookupError):
                os.kill(killed[-1], signal.SIGKILL)

    encode_files(paths, ROPE, folder=tmp_path / "one")
    result = encode_files(
        paths, ROPE, folder=tmp_path / "many", scheduler=cluster.address, progress=kill
    )
    assert result.failures == ()
    assert contents(tmp_path / "one").items() <= contents(tmp_path / "many").items()
    # A result may die with its worker after it was told, and be computed once more: what a worker
    # was writing when it was killed stays next to the whole output, and the next run removes it.
    whole = [name for name in names(tmp_path / "many") if not name.endswith(".ropecli-part")]
    assert whole == names(tmp_path / "one")
    cluster.wait_for_workers()


def test_a_block_that_kills_every_worker(cluster: Cluster, store: Path) -> None:
    poison = cluster.folder / "poison"
    poison.touch()
    message = refusal_of(
        encode_file, store, store.with_name("y.zarr"), ROPE, tensor="q",
        scheduler=cluster.address,
    )  # fmt: skip
    poison.unlink()
    assert message.startswith(f"a worker could not rotate {store}: q: ")
    assert "4 different workers" in message
    assert names(store.parent) == ["x.zarr"]
    cluster.wait_for_workers()


def test_an_input_that_shrinks(cluster: Cluster, tmp_path: Path) -> None:
    path = save(tmp_path, X)
    os.truncate(path, 9_000)
    for name in ("y.npy", "y.zarr"):
        message = refusal_of(encode_file, path, tmp_path / name, ROPE, scheduler=cluster.address)
        assert str(path) in message
    assert names(tmp_path) == ["x.npy"]


def test_a_chunk_that_cannot_be_read(cluster: Cluster, store: Path) -> None:
    (store / "q" / "c" / "1" / "9" / "0").write_bytes(b"not a chunk")
    message = refusal_of(
        encode_file, store, store.with_name("y.zarr"), ROPE, tensor="q", scheduler=cluster.address
    )
    assert message.startswith(f"cannot read {store}: q: ")
    assert names(store.parent) == ["x.zarr"]


def test_an_output_that_exists_is_refused(cluster: Cluster, store: Path) -> None:
    (store.parent / "y.zarr").mkdir()
    path = save(store.parent, X)
    (store.parent / "y.npy").write_bytes(b"precious")
    for source, name in ((store, "y.zarr"), (path, "y.npy")):
        message = refusal_of(
            encode_file, source, store.with_name(name), ROPE, scheduler=cluster.address,
            tensor="q" if source == store else None,
        )  # fmt: skip
        assert message.endswith("exists; pass force to replace it")
    assert (store.parent / "y.npy").read_bytes() == b"precious"
    encode_file(path, store.with_name("y.npy"), ROPE, scheduler=cluster.address, force=True)
    encode_file(path, store.with_name("z.npy"), ROPE)
    assert contents(store.with_name("y.npy")) == contents(store.with_name("z.npy"))


def test_another_version_is_refused(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "__version__", "9.9.9")
    path = save(tmp_path, X)
    assert refusal_of(encode_file, path, tmp_path / "y.npy", ROPE, scheduler=cluster.address) == (
        f"a worker on {os.uname().nodename} has ropecli {__version__}; expected 9.9.9"
    )
    assert names(tmp_path) == ["x.npy"]


def test_a_scheduler_that_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.5)
    call = (encode_file, save(tmp_path, X), tmp_path / "y.npy", ROPE)
    assert refusal_of(*call, scheduler="tcp://127.0.0.1:1").startswith(
        "cannot reach a scheduler at tcp://127.0.0.1:1: Timed out"
    )
    assert "TLS configuration" in refusal_of(*call, scheduler="tls://127.0.0.1:1")
    assert names(tmp_path) == ["x.npy"]


def command(*words: object, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """A run of the command line."""
    return subprocess.Popen(
        [sys.executable, "-m", "ropecli", "encode", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
    )  # fmt: skip


@pytest.mark.parametrize(("name", "part"), [("y.zarr", ".y.zarr*/*/q/c/*"), ("y.npy", ".y.npy*")])
def test_the_scheduler_dies(
    store: Path, tmp_path_factory: pytest.TempPathFactory, name: str, part: str
) -> None:
    own = Cluster(tmp_path_factory.mktemp("own"), block=BLOCK, pause=1)
    try:
        words = [store, "-o", store.with_name(name), "--tensor", "q", "--scheduler", own.address]
        with command(*words) as process:
            while not list(store.parent.glob(part)):
                assert process.poll() is None
                time.sleep(0.01)
            own.scheduler.kill()
            out, err = process.communicate(timeout=60)
    finally:
        own.close()
    assert (process.returncode, err) == (2, f"error: the scheduler at {own.address} is gone\n")
    assert "x.zarr: q into " in out
    assert ": (2, 80, 32) float32, 20.5 kB" in out
    # Unless a worker, which is alive, goes on with a file of its own to the end.
    assert name not in names(store.parent)


def test_a_scheduler_without_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORKER_SECONDS", 0.5)
    path = save(tmp_path, X)
    alone = Cluster(tmp_path / "own", block=BLOCK, workers=0)
    try:
        message = refusal_of(encode_file, path, tmp_path / "y.npy", ROPE, scheduler=alone.address)
    finally:
        alone.close()
    assert message == (
        f"the scheduler at {alone.address} has no worker; "
        f"start some with: dask worker {alone.address}"
    )


def test_all_workers_are_lost(
    store: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WORKER_SECONDS", 0.5)
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.5)
    own = Cluster(tmp_path_factory.mktemp("own"), block=BLOCK, pause=0.2)
    try:
        message = refusal_of(
            encode_file, store, store.with_name("y.zarr"), ROPE, tensor="q",
            scheduler=own.address, progress=lambda *_: own.kill_workers(),
        )  # fmt: skip
    finally:
        own.close()
    assert message.startswith(f"the scheduler at {own.address} has no worker; ")
    assert names(store.parent) == ["x.zarr"]


def test_an_error_of_another_library_is_one_line(cluster: Cluster, store: Path) -> None:
    (cluster.folder / "wrong").touch()
    message = refusal_of(
        encode_file, store, store.with_name("y.zarr"), ROPE, tensor="q", scheduler=cluster.address
    )
    (cluster.folder / "wrong").unlink()
    assert message == f"a worker could not rotate {store}: q: two lines"
    assert names(store.parent) == ["x.zarr"]


def certificates(folder: Path) -> dict[str, str]:
    """Write a certificate and its authority; return them as Dask's environment variables."""
    folder.mkdir()

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ("-newkey", "rsa:2048", "-nodes", "-subj")
    openssl("req", "-x509", *new, "/CN=us", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2")
    openssl("req", *new, "/CN=cluster", "-keyout", "key.pem", "-out", "request.pem")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
    openssl("x509", "-req", "-in", "request.pem", *signed, "-out", "certificate.pem")
    prefix = "DASK_DISTRIBUTED__COMM__TLS__"
    variables = {f"{prefix}CA_FILE": str(folder / "ca.pem")}
    for who in ("SCHEDULER", "WORKER", "CLIENT"):
        variables[f"{prefix}{who}__CERT"] = str(folder / "certificate.pem")
        variables[f"{prefix}{who}__KEY"] = str(folder / "key.pem")
    return variables


def test_tls(tmp_path: Path) -> None:
    path = save(tmp_path, X)
    encode_file(path, tmp_path / "one.npy", ROPE)
    ours, others = certificates(tmp_path / "ours"), certificates(tmp_path / "others")
    keys = {
        name.removeprefix("DASK_").lower().replace("__", ".").replace("_", "-"): value
        for name, value in ours.items()
    }
    # Defaults that its first import adds within the context would go with the keys.
    importlib.import_module("distributed")
    with dask.config.set(keys):
        cluster = Cluster(
            tmp_path / "cluster",
            block=BLOCK,
            protocol="tls",
            environment={"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True", **ours},
        )
    try:
        for variables, address, code in (
            (ours, cluster.address, 0),
            (others, cluster.address, 2),
            ({}, cluster.address.replace("tls", "tcp"), 2),
        ):
            words = (path, "-o", tmp_path / f"{code}.npy", "--scheduler", address)
            with command(*words, environment=variables) as process:
                _, errors = process.communicate(timeout=60)
            assert process.returncode == code
            start = f"error: cannot reach a scheduler at {address}: " if code else ""
            assert errors.startswith(start)
            assert errors.count("\n") == bool(code)
    finally:
        cluster.close()
    assert (tmp_path / "0.npy").read_bytes() == (tmp_path / "one.npy").read_bytes()
    assert not (tmp_path / "2.npy").exists()


def test_a_run_that_is_interrupted_leaves_nothing(cluster: Cluster, store: Path) -> None:
    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode_file(
            store, store.with_name("y.zarr"), ROPE, tensor="q",
            scheduler=cluster.address, progress=interrupt,
        )  # fmt: skip
    assert "y.zarr" not in names(store.parent)


def test_another_run_takes_over_from_a_dead_client(cluster: Cluster, store: Path) -> None:
    # While tasks of the first still run, which write other bytes.
    one, output = store.with_name("one.zarr"), store.with_name("y.zarr")
    encode_file(store, one, ROPE, tensor="q", inverse=True)
    for scheduler in (None, cluster.address):
        while names(store.parent)[0] != ".y.zarr.ropecli-part":
            subprocess.run(["rm", "-rf", output], check=True)  # done before it was killed
            with command(
                store, "-o", output, "--tensor", "q", "--scheduler", cluster.address
            ) as process:
                assert process.stdout is not None
                process.stdout.readline()
                while process.poll() is None and not list(store.parent.glob(".y.zarr*/*/q/c/*")):
                    time.sleep(0.01)
                process.kill()
        encode_file(store, output, ROPE, tensor="q", inverse=True, scheduler=scheduler)
        time.sleep(0.5)
        assert contents(output) == contents(one)
        subprocess.run(["rm", "-r", output], check=True)
