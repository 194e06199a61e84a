"""The decay command: what it prints, writes, and leaves alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import assert_refused, read_output, run_here

import ropecli


def document(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Any:
    out, err = read_output(capsys, "decay", *arguments, "--json")
    assert err == ""
    assert out.count("\n") == 1
    return json.loads(out)


@pytest.fixture
def vectors(here: Path) -> Path:
    """q.npy, k.npy and a sequence, rows.npy."""
    rows = np.random.default_rng(5).standard_normal((3, 8))
    np.save(here / "q.npy", rows[0])
    np.save(here / "k.npy", rows[1].astype(np.float32))
    np.save(here / "rows.npy", rows.reshape(1, 3, 8))
    return here


def test_command_of_the_readme() -> None:
    done = run_here("decay", "--dim", "128", "--max-dist", "512")
    assert (done.returncode, done.stderr) == (0, "")
    assert "dim 128, base 10000, 64 pairs\n" in done.stdout
    assert "32.5        = (pairs + 1) / 2, exactly\n" in done.stdout
    assert "\x1b" not in done.stdout


# --json.


def test_document_has_the_keys_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    got = document(capsys, "--dim", "8", "--max-dist", "3")
    assert list(got) == ["schema", "version", "parameters", "result"]
    assert got["schema"] == "ropecli.decay/1"
    assert got["version"] == ropecli.__version__
    assert list(got["result"]) == ["curves"]
    (curve,) = got["result"]["curves"]
    assert list(curve) == [
        "label",
        "dim",
        "base",
        "rope_type",
        "relative_distance",
        "relative_upper_bound",
    ]
    assert got["parameters"] == {
        "dim": [8],
        "base": [10000.0],
        "start": 0.0,
        "max_dist": 3.0,
        "step": 1.0,
        "reduce": "mean",
        "figure2": False,
        "q": None,
        "k": None,
        "q_row": None,
        "k_row": None,
        "layout": "interleaved",
        "rotary_dim": None,
        "rope_type": None,
        "set": None,
        "model": None,
        "layer": None,
        "sequence_length": None,
    }


def test_document_holds_the_very_values_of_the_library(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--dim", "8", "--base", "500", "--start", "2", "--max-dist", "9", "--step", "0.7"]
    (got,) = document(capsys, *arguments, "--reduce", "sum")["result"]["curves"]
    rope = ropecli.Rotary(head_dim=8, base=500.0)
    wanted = ropecli.decay(rope, start=2, max_distance=9, step=0.7, reduce="sum")
    assert got["label"] == "dim 8, base 500"
    assert (got["dim"], got["base"], got["rope_type"]) == (8, 500.0, "default")
    assert got["relative_distance"] == wanted.relative_distance.tolist()
    assert got["relative_upper_bound"] == wanted.relative_upper_bound.tolist()


def test_one_curve_for_each_dim_and_base(capsys: pytest.CaptureFixture[str]) -> None:
    twice = ["--dim", "4", "--base", "100"]
    got = document(capsys, *twice, "--dim", "8", "--base", "200", *twice, "--max-dist", "1")
    labels = [curve["label"] for curve in got["result"]["curves"]]
    assert labels == [f"dim {d}, base {b}" for d in (4, 8) for b in (100, 200)]
    assert got["parameters"]["dim"] == [4, 8]  # each once
    assert got["parameters"]["base"] == [100.0, 200.0]


def test_papers_frame_is_continuous_to_256(capsys: pytest.CaptureFixture[str]) -> None:
    got = document(capsys, "--figure2", "--dim", "2")
    distance = got["result"]["curves"][0]["relative_distance"]
    assert len(distance) == 12_801
    assert (distance[0], distance[1], distance[-1]) == (0.0, 0.02, 256.0)
    assert got["parameters"]["figure2"] is True
    assert (got["parameters"]["max_dist"], got["parameters"]["step"]) == (256.0, 0.02)


def test_papers_frame_may_be_spelt_out(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--figure2", "--start", "0", "--max-dist", "256", "--step", "0.02", "--dim", "2"]
    assert len(document(capsys, *words)["result"]["curves"][0]["relative_distance"]) == 12_801


def test_partial_rotation_has_fewer_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = read_output(capsys, "decay", "--dim", "8", "--rotary-dim", "4", "--max-dist", "2")
    assert "dim 8, rotary dim 4, base 10000, 2 pairs\n" in out


# --q and --k.


@pytest.mark.usefixtures("vectors")
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_vectors_add_score_and_bounds(layout: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--q", "q.npy", "--k", "k.npy", "--max-dist", "20", "--layout", layout]
    got = document(capsys, *words)
    (curve,) = got["result"]["curves"]
    assert list(curve)[-3:] == ["score", "abel_bound", "max_bound"]
    assert got["parameters"]["dim"] == [8]  # as long as the vectors
    assert got["parameters"]["q"] == "q.npy"
    q, k = np.load("q.npy"), np.load("k.npy")
    rope = ropecli.Rotary(head_dim=8, layout=layout)
    wanted: Any = ropecli.decay(rope, max_distance=20, q=q, k=k)
    for name in ("score", "abel_bound", "max_bound"):
        assert curve[name] == getattr(wanted, name).tolist()
    assert curve["score"] != curve["abel_bound"]


@pytest.mark.usefixtures("vectors")
@pytest.mark.parametrize(("row", "taken"), [([], 0), (["--q-row", "2"], 2), (["--q-row", "-1"], 2)])
def test_row_of_a_sequence(row: list[str], taken: int, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--q", "rows.npy", "--k", "k.npy", "--max-dist", "5", *row]
    got = document(capsys, *words, "-q")
    rows = np.load("rows.npy")[0]
    rope = ropecli.Rotary(head_dim=8)
    wanted = ropecli.decay(rope, max_distance=5, q=rows[taken], k=np.load("k.npy"))
    assert wanted.score is not None
    assert got["result"]["curves"][0]["score"] == wanted.score.tolist()
    assert got["parameters"]["q_row"] == taken


@pytest.mark.usefixtures("vectors")
def test_row_that_was_taken_is_noted_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--q", "rows.npy", "--k", "rows.npy", "--max-dist", "5"]
    out, err = read_output(capsys, "decay", *words)
    assert err == "note: rows.npy: row 0 of 3 taken\n" * 2
    assert "taken" not in out
    assert read_output(capsys, "decay", *words, "--quiet")[1] == ""
    out, err = read_output(capsys, "decay", *words, "--json")
    assert json.loads(out)["parameters"]["k_row"] == 0
    assert err.count("note: ") == 2


def test_quiet_leaves_the_hints_out(capsys: pytest.CaptureFixture[str]) -> None:
    loud, quiet = (read_output(capsys, "decay", "--dim", "4", *extra)[0] for extra in ([], ["-q"]))
    assert "Save the figure" in loud
    assert "Save the figure" not in quiet
    assert "halved by" in quiet


# -o.


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("x.png", b"\x89PNG"),
        ("x.svg", b"<?xml"),
        pytest.param("x.pdf", b"%PDF", marks=pytest.mark.slow),
        ("x.csv", b"relative_distance,relative_upper_bound\n0.0,2.5\n"),
        ("x.json", b'{"schema": "ropecli.decay/1"'),
    ],
)
def test_output_by_suffix(name: str, begin: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = read_output(capsys, "decay", "--dim", "8", "--max-dist", "9", "-o", name)
    assert err == ""
    assert out.endswith(f"\nWritten: {name}\n")
    assert Path(name).read_bytes().startswith(begin)
    assert [path.name for path in Path().iterdir()] == [name]


@pytest.mark.usefixtures("here")
def test_figure_carries_the_command_that_draws_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--dim", "8", "--base", "300", "--max-dist", "9.5", "--step", "0.5"]
    read_output(capsys, "decay", *words, "--reduce", "sum", "-o", "first.svg")
    text = Path("first.svg").read_text()
    assert f"ropecli {ropecli.__version__}" in text
    command = text.partition(">ropecli decay ")[2].partition("<")[0]
    read_output(capsys, "decay", *command.split(), "-o", "second.svg")
    assert Path("second.svg").read_text() == text


@pytest.mark.usefixtures("here")
def test_json_with_an_output_prints_the_document_alone(capsys: pytest.CaptureFixture[str]) -> None:
    got = document(capsys, "--dim", "8", "--max-dist", "9", "-o", "x.json")
    assert json.loads(Path("x.json").read_text()) == got


@pytest.mark.usefixtures("here")
def test_existing_output_is_kept_without_force(capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.csv").write_text("mine")
    line = assert_refused(capsys, "decay", "--dim", "4", "-o", "x.csv")
    assert "x.csv exists; pass --force to replace it" in line
    assert Path("x.csv").read_text() == "mine"
    read_output(capsys, "decay", "--dim", "4", "-o", "x.csv", "--force")
    assert Path("x.csv").read_text().startswith("relative_distance")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_output_that_is_a_folder(force: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.png").mkdir()
    line = assert_refused(capsys, "decay", "--dim", "4", "-o", "x.png", *force)
    assert line.startswith("cannot write ")
    assert line.endswith("x.png: it is a folder")
    assert [path.name for path in Path().iterdir()] == ["x.png"]


@pytest.mark.usefixtures("here")
def test_output_in_a_folder_that_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    line = assert_refused(capsys, "decay", "--dim", "4", "-o", "missing/x.png")
    assert "there is no folder" in line
    assert list(Path().iterdir()) == []


@pytest.mark.usefixtures("here")
def test_wrong_suffix_is_refused_before_anything_is_computed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ropecli.analyses.decay.decay", None)
    assert assert_refused(capsys, "decay", "-o", "x.npy").startswith("output must end in .png")


@pytest.mark.usefixtures("here")
def test_failed_drawing_leaves_no_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr("ropecli.render.decay.figure", fail)
    assert assert_refused(capsys, "decay", "--dim", "4", "-o", "x.png") == "out of memory"
    assert list(Path().iterdir()) == []
