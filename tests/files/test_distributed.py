"""Blocks that the workers of a cluster turn: real processes, which are killed and fail."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.clusters import Cluster
from files.folders import names, refused, saved
from safetensors.numpy import save_file

from ropecli import ArgumentError, Rotary, __version__, encode_file
from ropecli.files import distributed_client, distributed_run, rotation
from ropecli.files.distributed_claim import mark_of
from ropecli.files.formats import zarr
from ropecli.files.many import encode_files

pytestmark = pytest.mark.slow

BLOCK = 1_024
ROPE = Rotary(head_dim=32)
X = np.random.default_rng(0).standard_normal((2, 80, 32)).astype("f4")  # 20 blocks, 10 tasks


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    started = Cluster(tmp_path_factory.mktemp("cluster"), block=BLOCK, pause=0.05)
    yield started
    started.close()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "BLOCK_BYTES", BLOCK)
    monkeypatch.setattr(zarr, "CHUNK_BYTES", BLOCK)
    monkeypatch.setattr(distributed_run, "TASK_BYTES", 2 * BLOCK)


def contents(path: Path) -> dict[str, bytes]:
    """Of a file, or of all files in a folder."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def assert_equals_one_process(
    cluster: Cluster, path: Path, name: str, *, resume: bool = False, **options: Any
) -> None:
    """Assert that a cluster writes what one process writes, and tells the same of it."""
    __tracebackhide__ = True
    one, many = path.with_name(f"one-{name}"), path.with_name(f"many-{name}")
    alone = encode_file(path, one, ROPE, **options)
    done: list[tuple[int, int]] = []
    shared = encode_file(
        path,
        many,
        ROPE,
        **options,
        resume=resume,
        scheduler=cluster.address,
        progress=lambda *counts: done.append(counts),
    )
    assert contents(many) == contents(one)
    assert done == sorted(done)
    assert done[-1] == (alone.bytes, alone.bytes)
    assert (shared.nonfinite, shared.overflowed) == (alone.nonfinite, alone.overflowed)
    assert names(path.parent) == sorted([path.name, one.name, many.name])


@pytest.mark.parametrize("resume", [False, True])
def test_npy(cluster: Cluster, tmp_path: Path, resume: bool) -> None:
    x = X.copy()
    x[1, 70, 3] = np.nan
    path = saved(tmp_path, np.asfortranarray(x.astype(">f4")))
    assert_equals_one_process(cluster, path, "y.npy", resume=resume)


def test_paths_are_those_of_the_client(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(tmp_path, X)
    assert_equals_one_process(cluster, Path("x.npy"), "y.npy")


def test_safetensors(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"a.q": X, "a.k": X[0], "a.v": X + 1, "b.q": X[:, :7]}, path, {"made": "here"})
    assert_equals_one_process(cluster, path, "y.safetensors", tensor="*.[qk]")


def test_zarr_and_raw(cluster: Cluster, tmp_path: Path) -> None:
    path = saved(tmp_path, X)
    encode_file(path, tmp_path / "x.zarr", ROPE)
    path.unlink()
    assert_equals_one_process(cluster, tmp_path / "x.zarr", "y.zarr")
    (tmp_path / "one-y.zarr").rename(tmp_path / "z.zarr")
    for left in ("x.zarr", "many-y.zarr"):
        (tmp_path / left).rename(tmp_path.parent / f"{tmp_path.name}-{left}")
    assert_equals_one_process(cluster, tmp_path / "z.zarr", "y.bin", inverse=True)


def test_half_a_chunk_of_a_dead_worker_is_removed(cluster: Cluster, tmp_path: Path) -> None:
    path, part = saved(tmp_path, X), tmp_path / ".many.zarr.ropecli-part"
    encode_file(path, tmp_path / "one.zarr", ROPE)

    def die(done: int, _: int) -> None:
        (part / "c" / f"0.{done:032x}.partial").write_bytes(b"half")

    encode_file(path, tmp_path / "many.zarr", ROPE, scheduler=cluster.address, progress=die)
    assert contents(tmp_path / "many.zarr") == contents(tmp_path / "one.zarr")


def test_many_files_share_a_connection(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [saved(tmp_path, X[:, : 8 * number], f"{number}.npy") for number in (3, 5, 7)]
    connected, real = [], distributed_client._connected

    def count(*words: Any) -> Any:
        connected.append(words)
        return real(*words)

    monkeypatch.setattr(distributed_client, "_connected", count)
    one = encode_files(paths, ROPE, folder=tmp_path / "one", positions_continue=True)
    many = encode_files(
        paths,
        ROPE,
        folder=tmp_path / "many",
        positions_continue=True,
        scheduler=cluster.address,
    )
    assert (len(connected), one.failures, many.failures) == (1, (), ())
    assert contents(tmp_path / "many") == contents(tmp_path / "one")


@pytest.mark.parametrize("as_path", [False, True])
def test_positions(cluster: Cluster, tmp_path: Path, as_path: bool) -> None:
    positions = np.random.default_rng(1).integers(0, 4_096, X.shape[:2])
    (tmp_path / "data").mkdir()
    given = saved(tmp_path, positions, "p.npy") if as_path else positions
    path = saved(tmp_path / "data", X)
    assert_equals_one_process(cluster, path, "y.npy", positions=given, offset=3, sequence_axis=1)


def test_a_worker_that_is_killed_half_way_is_replaced(cluster: Cluster, tmp_path: Path) -> None:
    path = saved(tmp_path, X)
    before = cluster.pids()
    killed: list[int] = []

    def kill(done: int, _: int) -> None:
        if done >= X.nbytes // 3 and not killed:
            killed.append(before[0])
            os.kill(before[0], signal.SIGKILL)

    encode_file(path, tmp_path / "one.npy", ROPE)
    encode_file(path, tmp_path / "many.npy", ROPE, scheduler=cluster.address, progress=kill)
    assert contents(tmp_path / "many.npy") == contents(tmp_path / "one.npy")
    assert names(tmp_path) == ["many.npy", "one.npy", "x.npy"]
    cluster.wait_for_workers()
    assert killed[0] not in cluster.pids()


def test_a_task_that_fails_once_is_tried_again(cluster: Cluster, tmp_path: Path) -> None:
    path, trouble = saved(tmp_path, X), cluster.trouble()
    encode_file(path, tmp_path / "one.npy", ROPE)
    encode_file(path, tmp_path / "many.npy", ROPE, scheduler=cluster.address)
    assert contents(tmp_path / "many.npy") == contents(tmp_path / "one.npy")
    assert not trouble.exists()


def test_a_block_that_kills_every_worker(cluster: Cluster, tmp_path: Path) -> None:
    path = saved(tmp_path, X)
    poison = cluster.poison(block=11)
    message = refused(encode_file, path, tmp_path / "y.npy", ROPE, scheduler=cluster.address)
    # Dask suspects all that a worker had before it, so the blocks may be those beside it.
    assert re.fullmatch(
        rf"2 workers died one after another, each of which had blocks \d+ to \d+ of {path} to turn",
        message,
    )
    assert names(tmp_path) == ["x.npy"]
    poison.unlink()
    cluster.wait_for_workers()


def test_a_block_that_cannot_be_written(cluster: Cluster, tmp_path: Path) -> None:
    # As on a machine that sees another folder under this path.
    path, output = saved(tmp_path, X), tmp_path / "y.npy"
    mark = mark_of(tmp_path / ".y.npy.ropecli-part")
    message = refused(
        encode_file,
        path,
        output,
        ROPE,
        scheduler=cluster.address,
        progress=lambda done, _: mark.unlink(missing_ok=True),
    )
    assert message.endswith("must be where all workers see them under the same path")
    assert names(tmp_path) == ["x.npy"]


def test_an_input_that_shrinks(cluster: Cluster, tmp_path: Path) -> None:
    path = saved(tmp_path, X)

    def shrink(done: int, _: int) -> None:
        os.truncate(path, 9_000)

    message = refused(
        encode_file, path, tmp_path / "y.npy", ROPE, scheduler=cluster.address, progress=shrink
    )
    assert str(path) in message
    assert names(tmp_path) == ["x.npy"]


def test_another_version_is_refused(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed_client, "__version__", "9.9.9")
    path = saved(tmp_path, X)
    assert refused(encode_file, path, tmp_path / "y.npy", ROPE, scheduler=cluster.address) == (
        f"the scheduler at {cluster.address} has ropecli {__version__}; needed is 9.9.9, as here"
    )
    assert names(tmp_path) == ["x.npy"]


def test_what_cannot_be_shared_out(cluster: Cluster, tmp_path: Path) -> None:
    path, at = saved(tmp_path, X), cluster.address
    np.savez_compressed(tmp_path / "x.npz", x=X)
    for source, target, message in [
        ("-", "y.npy", "cannot read stdin with several processes"),
        (path, "-", "cannot write - with several processes"),
        (path, "y.npz", "y.npz with several processes"),
        (tmp_path / "x.npz", "y.npy", "x.npz with several processes"),
    ]:
        output = target if target == "-" else tmp_path / target
        assert message in refused(encode_file, source, output, ROPE, scheduler=at)
    large = np.zeros(1_048_577)
    call = (encode_file, path, tmp_path / "y.npy", ROPE)
    assert "at most 8,388,608 bytes" in refused(
        *call, positions=large, scheduler=at, error=ArgumentError
    )
    assert names(tmp_path) == ["x.npy", "x.npz"]


def test_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed_client, "CONNECT_SECONDS", 0.5)
    call = (encode_file, saved(tmp_path, X), tmp_path / "y.npy", ROPE)
    for address in ("", "127.0.0.1", "inproc://a/b", "tcp://:8786", "tcp://a b:1"):
        message = refused(*call, scheduler=address, error=ArgumentError)
        assert message.startswith("scheduler must be such as tcp://127.0.0.1:8786")
    assert refused(*call, scheduler="tcp://127.0.0.1:1").startswith(
        "cannot reach a scheduler at tcp://127.0.0.1:1: Timed out"
    )
    assert "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in refused(*call, scheduler="tls://127.0.0.1:1")
    assert names(tmp_path) == ["x.npy"]
