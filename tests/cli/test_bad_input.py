"""A user's mistakes: one line, exit code 2, nothing on stdout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused

EVEN = "head dim must be an even number of at least 2, got"
BASE = "base must be finite and above 0, got"
FINITE = "must be finite and at least 0, got"
WITHIN = "the rotated coordinates must lie within the head dim"

VALUES = [
    ("decay --dim 7", f"{EVEN} 7"),
    ("decay --dim 0", f"{EVEN} 0"),
    ("decay --dim -2", f"{EVEN} -2"),
    ("decay --dim 64 --dim 9", f"{EVEN} 9"),
    ("decay --dim 99999999999999999999999999999", f"{EVEN} 99999999999999999999999999999"),
    ("decay --base 0", f"{BASE} 0"),
    ("decay --base -1", f"{BASE} -1"),
    ("decay --base nan", f"{BASE} nan"),
    ("decay --base inf", f"{BASE} inf"),
    ("decay --base 1e400", f"{BASE} inf"),
    ("decay --base 10000 --base 0", f"{BASE} 0"),
    ("decay --max-dist -1", f"max distance {FINITE} -1"),
    ("decay --max-dist nan", f"max distance {FINITE} nan"),
    ("decay --max-dist inf", f"max distance {FINITE} inf"),
    ("decay --max-dist 1e18", "max distance must be from start, 0, to 2^53, got 1e+18"),
    ("decay --max-dist 1e9", "at most 100,000,000 distances, got 1000000001; take a larger step"),
    ("decay --start 513", "max distance must be from start, 513, to 2^53, got 512"),
    ("decay --start -1", f"start {FINITE} -1"),
    ("decay --step 0", "step must be finite and above 0, got 0"),
    ("decay --step -1", "step must be finite and above 0, got -1"),
    ("decay --step nan", "step must be finite and above 0, got nan"),
    ("decay --step 1e-320", "at most 100,000,000 distances, got inf; take a larger step"),
    ("decay --reduce median", "reduce must be mean or sum, got 'median'"),
    ("decay --layout sideways", "layout must be interleaved or half, got 'sideways'"),
    ("decay --rotary-dim 3", "rotary dim must be an even number of at least 2, got 3"),
    ("decay --rotary-dim 256", f"{WITHIN} 128, got rotary dim 256 from coordinate 0"),
    ("decay --figure2 --max-dist 9", "--figure2 sets --start, --max-dist and --step itself"),
    ("decay --figure2 --step 1", "--figure2 sets --start, --max-dist and --step itself"),
    ("decay --figure2 --start 1", "--figure2 sets --start, --max-dist and --step itself"),
    ("decay --figure2 --reduce sum", "--figure2 is a frame for the mean bound alone"),
    ("decay --figure2 --q q.npy --k k.npy", "--figure2 is a frame for the mean bound alone"),
    ("decay -o figure.bmp", "output must end in .png, .svg, .pdf, .csv, .json, got 'figure.bmp'"),
    ("decay -o figure", "output must end in .png, .svg, .pdf, .csv, .json, got 'figure'"),
    ("verify --dim 7", f"{EVEN} 7"),
    ("verify --dim 0", f"{EVEN} 0"),
    ("verify --base 0", f"{BASE} 0"),
    ("verify --base nan", f"{BASE} nan"),
    ("verify --layout sideways", "layout must be interleaved or half, got 'sideways'"),
    ("verify --dtype int8", "dtype must be one of float64, float32, float16, bfloat16, got 'int8'"),
    ("verify --seed -1", "seed must be at least 0, got -1"),
    ("verify --max-position 0", "max position must be from 1 to 2^49, got 0"),
    ("verify --max-position 99999999999999999999", "max position must be from 1 to 2^49, got 9999"),
    ("verify --rotary-dim 5", "rotary dim must be an even number of at least 2, got 5"),
    ("verify --rotary-offset -1", f"{WITHIN} 64, got rotary dim 64 from coordinate -1"),
    ("verify --rotary-dim 2 --rotary-offset 63", f"{WITHIN} 64, got rotary dim 2 from"),
]

#: Typer words what is wrong here; what was given and where must be said.
UNREADABLE = [
    ("decay --dim abc", "--dim", "abc"),
    ("decay --dim 64 --dim 1e3", "--dim", "1e3"),
    ("decay --dim 6.5", "--dim", "6.5"),
    ("decay --base x", "--base", "x"),
    ("decay --max-dist far", "--max-dist", "far"),
    ("decay --q-row first", "--q-row", "first"),
    ("verify --dim abc", "--dim", "abc"),
    ("verify --seed abc", "--seed", "abc"),
    ("verify --max-position 1e5", "--max-position", "1e5"),
]


@pytest.mark.parametrize(("line", "message"), VALUES)
@pytest.mark.parametrize("json", [False, True])
def test_value_is_refused(
    line: str, message: str, json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert assert_refused(capsys, *line.split(), *["--json"] * json).startswith(message)


@pytest.mark.parametrize(("line", "option", "given"), UNREADABLE)
def test_what_is_no_number_is_named(
    line: str, option: str, given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    got = assert_refused(capsys, *line.split())
    assert option in got
    assert f"'{given}'" in got


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors, and files that are none."""
    folder = tmp_path_factory.mktemp("vectors")
    draw = np.random.default_rng(0)
    arrays = {
        "q": draw.standard_normal(8),
        "k": draw.standard_normal(8),
        "short": np.ones(6),
        "odd": np.ones(7),
        "rows": draw.standard_normal((3, 8)),
        "none": np.ones((0, 8)),
        "scalar": np.array(3.0),
        "nan": np.array([1, np.nan] * 4),
        "huge": np.full(8, 1e200),
        "text": np.array(["a"] * 8),
        "complex": np.ones(8, dtype=complex),
        "void": np.ones(8, dtype="V2"),
        "bool": np.ones(8, dtype=bool),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    np.save(folder / "objects.npy", np.array([1, "a"], dtype=object), allow_pickle=True)
    whole = (folder / "q.npy").read_bytes()
    (folder / "empty.npy").write_bytes(b"")
    (folder / "words.npy").write_text("these are words")
    (folder / "truncated.npy").write_bytes(whole[:-1])
    (folder / "longer.npy").write_bytes(whole + b"\0")
    (folder / "header.npy").write_bytes(whole[:40])
    (folder / "folder").mkdir()
    return folder


VECTORS = [
    ("--q q.npy", "q and k belong together, got only q"),
    ("--k k.npy", "q and k belong together, got only k"),
    ("--q-row 0", "--q-row needs --q, got row 0 of no file"),
    ("--k-row 2", "--k-row needs --k, got row 2 of no file"),
    ("--q missing.npy --k k.npy", "cannot read missing.npy: No such file or directory"),
    ("--q q.npy --k missing.npy", "cannot read missing.npy: No such file or directory"),
    ("--q folder --k k.npy", "folder is a folder"),
    ("--q empty.npy --k k.npy", "empty.npy is empty"),
    ("--q words.npy --k k.npy", "words.npy starts with b'these '"),
    ("--q truncated.npy --k k.npy", "truncated.npy holds 63 bytes after its header"),
    ("--q longer.npy --k k.npy", "longer.npy holds 65 bytes after its header"),
    ("--q header.npy --k k.npy", "header.npy is cut short within its .npy header"),
    ("--q objects.npy --k k.npy", "objects.npy holds Python objects, which are never loaded"),
    ("--q text.npy --k k.npy", "text.npy holds strings"),
    ("--q complex.npy --k k.npy", "complex.npy holds complex128"),
    ("--q void.npy --k k.npy", "void.npy holds 2-byte void elements"),
    ("--q bool.npy --k k.npy", "bool.npy holds booleans"),
    ("--q none.npy --k k.npy", "none.npy has shape (0, 8)"),
    ("--q scalar.npy --k k.npy", "scalar.npy has shape ()"),
    ("--q nan.npy --k k.npy", "q must be finite, got nan"),
    ("--q huge.npy --k huge.npy", "q and k are too large"),
    ("--q odd.npy --k odd.npy", f"{EVEN} 7"),
    ("--q q.npy --k short.npy", "k must have shape (8,), got (6,)"),
    ("--q q.npy --k k.npy --dim 6", "q must have shape (6,), got (8,)"),
    ("--q q.npy --k k.npy --q-row 0", "q.npy holds one vector and no rows, got row 0"),
    ("--q rows.npy --k k.npy --q-row 3", "rows.npy has rows 0 to 2, or -3 to -1, got row 3"),
    ("--q rows.npy --k k.npy --q-row -4", "rows.npy has rows 0 to 2, or -3 to -1, got row -4"),
    ("--q /dev/zero --k k.npy", "/dev/zero is not a regular file"),
]


@pytest.mark.parametrize(("line", "message"), VECTORS)
def test_file_of_a_vector_is_refused(
    line: str,
    message: str,
    files: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(files)
    assert assert_refused(capsys, "decay", *line.split()).startswith(message)


def test_out_of_memory_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("ropecli.analyses.decay.decay", full)
    assert assert_refused(capsys, "decay") == "out of memory"
