"""The kernels of examples/kernels are right, and `check` sees when they are not."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import ROOT, run_cli, run_process
from judging import MANY_CALLS
from numpy.typing import NDArray

pytestmark = pytest.mark.slow

KERNELS = ROOT / "examples" / "kernels"
#: Without the laws that start a program a thousand times.
QUICKLY = [word for law in MANY_CALLS for word in ("--ignore", law)]
#: Kernels of languages that a machine may lack, and what builds or runs them. C must be there.
OTHERS = {"kernel.cpp": "g++", "kernel.rs": "rustc", "kernel.js": "node"}


def command(name: str, verb: str) -> list[str]:
    """Split a command from a kernel's first comment; empty if it has none."""
    found = re.search(rf"^// {verb}: (.*)$", (KERNELS / name).read_text(), re.MULTILINE)
    return [] if found is None else shlex.split(found[1])


def build(name: str, folder: Path, *, instead: tuple[str, str] = ("", "")) -> None:
    """Build a kernel in a folder, with one text replaced."""
    text = (KERNELS / name).read_text()
    assert instead[0] in text
    (folder / name).write_text(text.replace(*instead))
    if words := command(name, "build"):
        done = run_process(*words, cwd=folder)
        assert done.returncode == 0, done.stderr


def check(name: str, folder: Path, *more: str) -> tuple[int, str]:
    """Check a built kernel by its own command; return the exit code and the page."""
    program, *words = command(name, "check")
    assert program == "ropecli"
    done = run_cli(*words, "--context", "1024", *more, cwd=folder)  # fewer positions
    return done.returncode, done.stdout + done.stderr


def assert_right(name: str, folder: Path, *more: str) -> None:
    """Build a kernel and assert that no law fails."""
    build(name, folder)
    code, page = check(name, folder, *more)
    assert code == 0, f"{name}: {page}"


@pytest.mark.parametrize(("name", "more"), [("kernel.c", QUICKLY), ("rope.c", [])])
def test_a_kernel_in_c_is_right(name: str, more: list[str], tmp_path: Path) -> None:
    assert_right(name, tmp_path, *more)


def test_source_is_refused_with_the_command_that_builds_it(tmp_path: Path) -> None:
    shutil.copy(KERNELS / "rope.c", tmp_path)
    done = run_cli("check", "rope.c", cwd=tmp_path)
    assert done.returncode == 2
    wanted = r"expected a library: (.*); then check (\S+), which must be int rope_f32\(const float"
    said = re.search(wanted, done.stderr)
    assert said is not None
    assert run_process(*shlex.split(said[1]), cwd=tmp_path).returncode == 0
    assert run_cli("check", said[2], *QUICKLY, cwd=tmp_path).returncode == 0


def test_another_declaration_is_refused_with_the_right_one(tmp_path: Path) -> None:
    (tmp_path / "rope.c").write_text("int rope_f32(const float *x, long count) { return 12; }")
    build = ("cc", "-shared", "-fPIC", "-o", "rope.so", "rope.c")
    assert run_process(*build, cwd=tmp_path).returncode == 0
    done = run_cli("check", "./rope.so:rope_f32", *QUICKLY, cwd=tmp_path)
    assert done.returncode == 2
    wanted = "it returned 12, where 0 is success, as of int rope_f32(const float *x, float *out"
    assert wanted in done.stderr


def test_other_kernels_are_right_where_their_compilers_are_found(tmp_path: Path) -> None:
    """By all laws in the soak tier."""
    for name in [name for name, tool in OTHERS.items() if shutil.which(tool)]:
        assert_right(name, tmp_path, *QUICKLY)


@pytest.mark.parametrize(
    ("name", "instead", "said"),
    [
        ("kernel.c", ("pow(10000,", "pow(10007,"), "convention"),
        ("rope.c", ("row / (heads * length) * length", "0"), "batched positions"),
        ("rope.c", ("const double angle", "const _Float16 angle"), "precision"),
    ],
    ids=["base", "positions of the first sequence", "half precision"],
)
def test_a_wrong_kernel_is_found(
    name: str, instead: tuple[str, str], said: str, tmp_path: Path
) -> None:
    build(name, tmp_path, instead=instead)
    code, page = check(name, tmp_path, *QUICKLY)
    assert code == 1, page
    assert re.search(rf"FAIL  {said}", page), page


def test_a_program_takes_the_sizes_that_its_command_names(tmp_path: Path) -> None:
    build("kernel.c", tmp_path)
    script = '#!/bin/sh\necho "$4 $5" >>sizes\nexec ./kernel "$1" "$2" "$3"\n'
    (tmp_path / "sized").write_text(script)
    (tmp_path / "sized").chmod(0o755)
    words = "./sized {x} {positions} {out} {heads} {head_dim}"
    done = run_cli(
        "check", "--command", words, "--dim", "32", "--select", "rotation", "-q", cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sizes = {line.split()[1] for line in (tmp_path / "sizes").read_text().splitlines()}
    assert sizes == {"32"}


def rotate_exactly(x: NDArray[np.float32], positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Rotate x (batch, heads, sequence, dim) in float64."""
    half = x.shape[-1] // 2
    angles = positions[..., None] * 10000.0 ** (-np.arange(half) / half)
    z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
    return np.concatenate([z.real, z.imag], axis=-1)


def run_kernel(folder: Path, x: NDArray[Any], positions: NDArray[np.int64]) -> str:
    """Run ./kernel on arrays, and return its stderr."""
    np.save(folder / "x.npy", x)
    np.save(folder / "positions.npy", positions)
    done = run_process("./kernel", "x.npy", "positions.npy", "out.npy", cwd=folder)
    assert bool(done.returncode) == bool(done.stderr)
    return done.stderr


def test_a_kernel_takes_positions_of_all_sequences_and_of_each(tmp_path: Path) -> None:
    build("kernel.c", tmp_path)
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 8)).astype(np.float32)
    shared, own = np.arange(3, 8), np.array([[0, 1, 2, 3, 4], [9, 900, 9, 7, 0]])
    for positions, rows in [(shared, shared), (own, own[:, None])]:
        assert run_kernel(tmp_path, x, positions) == ""
        got = np.load(tmp_path / "out.npy")
        assert (got.shape, got.dtype) == (x.shape, x.dtype)
        # Computed in float64 and rounded once, to half an ulp of a pair's length at most.
        assert np.abs(got - rotate_exactly(x, rows)).max() <= 2.0**-24 * 2 * np.abs(x).max()


def test_a_kernel_refuses_another_dtype_in_one_line(tmp_path: Path) -> None:
    build("kernel.c", tmp_path)
    x = np.zeros((1, 1, 5, 8))
    assert run_kernel(tmp_path, x, np.arange(5)) == "expected '<f4' in x.npy\n"


@pytest.mark.parametrize("name", sorted(path.name for path in KERNELS.glob("*.*")))
def test_a_kernel_is_short(name: str) -> None:
    assert len((KERNELS / name).read_text().splitlines()) < 40
