"""Measure every target of docs/performance.md in one run: `python tests/benchmarks/report.py`.

Names of sections, such as of_threads, measure those alone.
Needs the extra `bench` for the peers. Ratios are taken round by round; quote those, not times.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from peers import onnx_runtime, parallel_copy, streaming_copy, torch_compiled, torch_eager
from race import Row, duration, processor, share, speed

from ropecli import Rotary, check, decay, rotate
from ropecli.arrays import DTYPES
from ropecli.rotary.apply import rotate_into

ROOT = Path(__file__).parents[2]
PAIRS, DIM = 64, 128
ONE_HEAD = (1, 1, 262_144, 1, DIM)
HEADS = (1, 32, 8_192, 1, DIM)  # head after head
TOKENS = (1, 1, 8_192, 32, DIM)  # token after token
NAMES = {ONE_HEAD: "1 head", HEADS: "32 heads", TOKENS: "32 heads a token"}
LAYOUTS = ("interleaved", "half")


def random_input(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    values = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    return values.astype(DTYPES[dtype])


def rotation(shape: tuple[int, ...], dtype: str, layout: str) -> Callable[[], object]:
    x, rope = random_input(shape, dtype), Rotary(head_dim=DIM, layout=layout)
    out, positions = np.zeros_like(x), np.arange(shape[2], dtype=np.float64)[None]
    return lambda: rotate_into(x, out, rope, positions)


def copy(
    shape: tuple[int, ...], dtype: str, by: Callable[..., object] = parallel_copy
) -> Callable[[], object]:
    x = random_input(shape, dtype).reshape(-1, DIM)
    out = np.zeros_like(x)
    return lambda: by(x, out)


def against_copy() -> Iterator[Row]:
    cases = [("float64", ONE_HEAD, 0.85), ("float64", HEADS, 0.9)]
    cases += [("float64", TOKENS, 0.9), ("float32", TOKENS, 0.9)]
    cases += [("float32", HEADS, 1.1), ("float32", ONE_HEAD, 0.8)]
    cases += [("float16", HEADS, 0.5), ("bfloat16", HEADS, 0.5)]
    for dtype, shape, least in cases:
        other = dtype if dtype.startswith("float") and dtype != "float16" else "float32"
        for layout in LAYOUTS:
            yield speed(
                f"rotation, {dtype}, {NAMES[shape]}, {layout} / parallel copy of {other}",
                rotation(shape, dtype, layout),
                copy(shape, other),
                least=least,
            )


def against_limit() -> Iterator[Row]:
    for dtype in ("float64", "float32"):
        for shape in (ONE_HEAD, HEADS):
            yield speed(
                f"rotation, {dtype}, {NAMES[shape]}, half / streaming copy of {dtype}",
                rotation(shape, dtype, "half"),
                copy(shape, dtype, streaming_copy),
                least=0.7,
            )


def against_peers() -> Iterator[Row]:
    x = random_input(HEADS, "float32")[0].transpose(2, 0, 1, 3)  # (1, heads, sequence, dim)
    for layout in LAYOUTS:
        ours = rotation(HEADS, "float32", layout)
        what = f"rotation, float32, 32 heads, {layout} / "
        peer = onnx_runtime(x, Rotary(head_dim=DIM, layout=layout))
        yield speed(what + "ONNX Runtime", ours, peer, least=1.5)
    ours = rotation(HEADS, "float32", "half")
    what = "rotation, float32, 32 heads, half / "
    yield speed(what + "PyTorch eager", ours, torch_eager(x), least=25)
    yield speed(what + "PyTorch compiled", ours, torch_compiled(x), least=12)


def of_decay() -> Iterator[Row]:
    rope = Rotary(head_dim=2 * PAIRS)
    run = lambda: decay(rope, max_distance=1_000_000)  # noqa: E731
    yield duration("decay, 10^6 distances, 64 pairs", run, most=80)
    if numba.config.NUMBA_NUM_THREADS > 1:
        yield speed("decay, 2 threads / 1 thread", threads(2, run), threads(1, run), least=1.8)
        x = random_input((1, 1, 512, 1, DIM), "float64")
        wide = np.zeros_like(x)
        away = np.random.default_rng(0).permutation(512).astype(float)[None] * 1000.5
        small = lambda: rotate_into(x, wide, rope, away)  # noqa: E731
        yield speed(
            "rotation at 512 scattered positions, 2 threads / 1 thread",
            threads(2, small),
            threads(1, small),
            least=1.8,
        )


def threads(count: int, run: Callable[[], object]) -> Callable[[], object]:
    def run_limited() -> None:
        numba.set_num_threads(count)
        run()

    return run_limited


def of_commands() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        warm = {"NUMBA_CACHE_DIR": f"{folder}/warm"}
        bare = python("import typer, rich", **warm)
        for option in ("--help", "--version"):
            yield share(
                f"`ropecli {option}` / `import typer, rich`", ropecli(option), bare, most=1.2
            )
        words = ("decay", "--dim", "128", "--max-dist", "512")
        kernel = python(
            "import typer, rich, numpy, numba\n"
            "from ropecli.kernels import abel\n"
            "abel.fill_steps(numpy.ones(1), 1.0, *numpy.empty((2, 1, 1)))",
            **warm,
        )
        yield share(
            "`ropecli decay --dim 128 --max-dist 512`, warm / imports and one cached kernel",
            ropecli(*words, **warm),
            kernel,
            most=1.15,
        )
        fresh = iter(range(100))

        def run_cold() -> None:
            ropecli(*words, NUMBA_CACHE_DIR=f"{folder}/{next(fresh)}")()

        yield duration("the same on an empty cache", run_cold, most=4000, rounds=5)


def of_processors() -> Iterator[Row]:
    """Processor time, which other programs on the machine hardly affect, and memory."""
    with tempfile.TemporaryDirectory() as folder:
        warm = {"NUMBA_CACHE_DIR": f"{folder}/warm", "PYTHONPATH": str(ROOT)}
        start = [sys.executable, "-m", "ropecli"]
        fresh = {**warm, "NUMBA_CACHE_DIR": f"{folder}/fresh"}
        verify = [*start, "verify", "--dim"]
        yield processor(
            "`verify --dim 64`, the first ever", [*verify, "64"], fresh, most=4000, rounds=1
        )
        for dim, most in (("64", 1000), ("128", 1500), ("256", 3000)):
            ropecli("verify", "--dim", dim, **warm)()
            yield processor(f"`verify --dim {dim}`", [*verify, dim], warm, most=most)
        config, rope = Path(folder, "config.json"), Path(folder, "kernel.py")
        config.write_text(CONFIG)
        rope.write_text(KERNEL)
        yield processor("`lint` of one model", [*start, "lint", str(config)], warm, most=250)
        words = [*start, "check", f"{rope}:rope", "--model", str(config)]
        yield processor("`check` of a NumPy function", words, warm, most=2000)
        yield processor("`check --fast` of it", [*words, "--fast"], warm, most=700)


def of_checks() -> Iterator[Row]:
    """The processor time of `check`, and that of the function itself in its calls."""
    alone = 0.0

    def timed(x: Any, positions: Any) -> Any:
        nonlocal alone
        begin = time.process_time()
        result = scope["rope"](x, positions)
        alone += time.process_time() - begin
        return result

    scope: dict[str, Any] = {}
    exec(KERNEL, scope)
    check(timed, isolated=False, fast=True)  # imports, and compiles
    for fast in (False, True):
        alone, begin = 0.0, time.process_time()
        check(timed, isolated=False, fast=fast)
        whole = time.process_time() - begin
        yield Row(
            what=f"`check{' --fast' * fast}` of a function / the function alone",
            target="<= 4x", ratio=whole / alone, ours=whole * 1e3, other=alone * 1e3,
            met=whole <= 4 * alone,
        )  # fmt: skip


def of_growth() -> Iterator[Row]:
    """Ten times the work, ten times the time: each at one size and at ten times that."""
    with tempfile.TemporaryDirectory() as folder:
        warm = {"NUMBA_CACHE_DIR": f"{folder}/warm", "PYTHONPATH": str(ROOT)}
        start = [sys.executable, "-m", "ropecli"]
        np.save(Path(folder, "one.npy"), np.ones((8, 64), np.float32))
        for words in (["decay", "--max-dist", "5000"], ["encode", "one.npy"]):
            process([*start, *words], warm, folder)()  # compiles
        for size, most in ((10**7, 3_000), (10**8, 30_000)):
            words = [*start, "decay", "--max-dist", f"{size}"]
            yield processor(f"`decay`, {size:,} distances", words, warm, most=most, rounds=2)
        for size, most in ((10**6, 2_000), (10**7, 20_000)):
            words = [*start, "base-bound", "--base", "1e11", "--context", f"{size}"]
            yield processor(f"`base-bound`, {size:,} positions", words, warm, most=most, rounds=2)
        for size, most in ((10**5, 2_000), (10**6, 20_000)):
            x = np.random.default_rng(0).standard_normal((size, DIM), dtype=np.float32)
            before, after = Path(folder, "x.npy"), Path(folder, "y.npy")
            np.save(before, x)
            np.save(after, rotate(x, Rotary(head_dim=DIM)))
            words = [*start, "identify", str(before), str(after)]
            yield processor(f"`identify`, {size:,} rows", words, warm, most=most, rounds=2)
        for size, most in ((10**4, 20_000), (10**5, 200_000)):
            files = Path(folder, f"{size}")
            files.mkdir()
            for number in range(size):
                np.save(files / f"{number}.npy", np.ones((8, 64), np.float32))
            words = [*start, "encode", str(files), "-o", f"{folder}/out{size}/"]
            yield processor(f"`encode`, {size:,} files", words, warm, most=most, rounds=1)


def of_threads() -> Iterator[Row]:
    """One head and 32 on 2, 4, 8 ... threads, up to all of the machine, against one."""
    for shape in (ONE_HEAD, HEADS):
        run = rotation(shape, "float32", "half")
        count = 2
        while count <= numba.config.NUMBA_NUM_THREADS:
            what = f"rotation, float32, {NAMES[shape]}, half, {count} threads / 1"
            yield speed(what, threads(count, run), threads(1, run), least=0.8 * min(count, 8))
            numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
            count *= 2


CONFIG = """{"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
"max_position_embeddings": 8192, "rope_theta": 500000.0}"""
KERNEL = """
import numpy as np

def rope(x, positions):
    angles = positions[:, None] * 500_000.0 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    first, second = np.split(x, 2, axis=-1)
    c, s = np.cos(angles), np.sin(angles)
    turned = [first * c - second * s, first * s + second * c]
    return np.concatenate(turned, axis=-1).astype(x.dtype)
"""


def python(code: str, **environment: str) -> Callable[[], object]:
    return process([sys.executable, "-c", code], environment)


def ropecli(*words: str, **environment: str) -> Callable[[], object]:
    return process([sys.executable, "-m", "ropecli", *words], environment)


def process(
    words: list[str], environment: dict[str, str], folder: str | None = None
) -> Callable[[], object]:
    whole = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return lambda: subprocess.run(
        words, env=whole, check=True, stdout=subprocess.DEVNULL, cwd=folder
    )


def main() -> None:
    """Print the table."""
    print("| what | ours, ms | other, ms | ratio | target | met |")
    print("|---|---|---|---|---|---|")
    everything: list[Callable[[], Iterator[Row]]] = [
        *(against_copy, against_limit, against_peers, of_decay, of_commands, of_processors),
        *(of_checks, of_growth, of_threads),
    ]
    wanted = {section.__name__: section for section in everything}
    for section in [wanted[name] for name in sys.argv[1:]] or everything:
        for row in section():
            print(row.markdown(), flush=True)


if __name__ == "__main__":
    main()
