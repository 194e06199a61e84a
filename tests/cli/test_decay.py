"""The decay command: what it prints, computes, and calls its curves."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import read_json, read_output, read_stdout

from ropecli import Rotary, decay, similarity
from ropecli.analyses.expected import expected_score
from ropecli.encodings import with_table

ENCODING_OPTIONS = dict.fromkeys(
    ["layout", "rotary_dim", "rope_type", "set", "context", "model", "layer", "sequence_length"]
)


@pytest.fixture
def vectors(here: Path) -> None:
    """q.npy, k.npy and a sequence, rows.npy."""
    rows = np.random.default_rng(5).standard_normal((3, 8))
    np.save(here / "q.npy", rows[0])
    np.save(here / "k.npy", rows[1].astype(np.float32))
    np.save(here / "rows.npy", rows.reshape(1, 3, 8))


def test_document_holds_the_very_values_of_the_library() -> None:
    words = ["--dim", "8", "--base", "500", "--start", "2", "--max-dist", "9", "--step", "0.7"]
    (got,) = read_json("decay", *words, "--reduce", "sum")["result"]["curves"]
    rope = Rotary(head_dim=8, base=500.0)
    wanted = decay(rope, start=2, max_distance=9, step=0.7, reduce="sum")
    assert got["label"] == "dim 8, base 500"
    assert (got["dim"], got["base"], got["rope_type"]) == (8, 500.0, "default")
    assert got["relative_distance"] == wanted.relative_distance.tolist()
    assert got["relative_upper_bound"] == wanted.relative_upper_bound.tolist()


def test_one_curve_for_each_dim_and_base() -> None:
    twice = ["--dim", "4", "--base", "100"]
    got = read_json("decay", *twice, "--dim", "8", "--base", "200", *twice, "--max-dist", "1")
    labels = [curve["label"] for curve in got["result"]["curves"]]
    assert labels == [f"dim {d}, base {b}" for d in (4, 8) for b in (100, 200)]
    assert got["parameters"]["dim"] == [4, 8, 4]  # as it was given
    assert got["parameters"]["base"] == [100.0, 200.0, 100.0]


def test_papers_frame_is_continuous_to_256() -> None:
    same = ["--start", "0", "--max-dist", "256", "--step", "0.02"]
    got = read_json("decay", "--figure2", "--dim", "2")
    assert read_json("decay", "--figure2", "--dim", "2", *same)["result"] == got["result"]
    distance = got["result"]["curves"][0]["relative_distance"]
    assert len(distance) == 12_801
    assert (distance[0], distance[1], distance[-1]) == (0.0, 0.02, 256.0)
    assert got["parameters"]["figure2"] is True
    assert (got["parameters"]["max_dist"], got["parameters"]["step"]) == (256.0, 0.02)


# --q and --k.


@pytest.mark.usefixtures("vectors")
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_vectors_add_score_and_bounds(layout: str) -> None:
    words = ["--q", "q.npy", "--k", "k.npy", "--max-dist", "20", "--layout", layout]
    got = read_json("decay", *words)
    (curve,) = got["result"]["curves"]
    assert list(curve)[6:9] == ["score", "abel_bound", "max_bound"]
    assert got["parameters"]["dim"] == [8]  # as long as the vectors
    assert got["parameters"]["q"] == "q.npy"
    rope = Rotary(head_dim=8, layout=layout)
    wanted: Any = decay(rope, max_distance=20, q=np.load("q.npy"), k=np.load("k.npy"))
    for name in ("score", "abel_bound", "max_bound"):
        assert curve[name] == getattr(wanted, name).tolist()
    assert curve["score"] != curve["abel_bound"]


@pytest.mark.usefixtures("vectors")
@pytest.mark.parametrize(("row", "taken"), [([], 0), (["--q-row", "2"], 2), (["--q-row", "-1"], 2)])
def test_row_of_a_sequence(row: list[str], taken: int) -> None:
    got = read_json("decay", "--q", "rows.npy", "--k", "k.npy", "--max-dist", "5", *row)
    q, k = np.load("rows.npy")[0, taken], np.load("k.npy")
    wanted: Any = decay(Rotary(head_dim=8), max_distance=5, q=q, k=k)
    assert got["result"]["curves"][0]["score"] == wanted.score.tolist()
    assert got["parameters"]["q_row"] == taken


@pytest.mark.usefixtures("vectors")
def test_row_that_was_taken_is_noted_on_stderr() -> None:
    words = ["decay", "--q", "rows.npy", "--k", "rows.npy", "--max-dist", "5"]
    out, err = read_output(*words)
    assert err == "note: --q rows.npy: row 0 of 3 taken\nnote: --k rows.npy: row 0 of 3 taken\n"
    assert "taken" not in out
    assert read_output(*words, "--quiet")[1] == ""
    out, err = read_output(*words, "--json")
    assert json.loads(out)["parameters"]["k_row"] == 0
    assert err.count("note: ") == 2


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("name", "notes"), [("x.csv", 1), ("x.json", 0)])
def test_at_has_no_effect_on_a_table_and_says_so(name: str, notes: int) -> None:
    """The document and the figure have the pairs at that distance, and a table has not."""
    words = ["decay", "--q", "1,0,1,0", "--k", "1,0,0,1", "--at", "3", "-o", name]
    _, err = read_output(*words)
    assert err.count(f"note: --at has no effect on {name}, which has the scores") == notes
    _, err = read_output(*words[:5], "-o", f"other{name}")
    assert err == ""


def test_what_holds_of_the_vectors_is_in_the_document(here: Path) -> None:
    q, k = np.random.default_rng(0).standard_normal((2, 8))
    np.save(here / "q.npy", q)
    np.save(here / "k.npy", np.stack([q, k]))
    vectors = ("--q", "q.npy", "--k", "k.npy", "--k-row", "1")
    got = read_json("decay", *vectors, "--max-dist", "9", "--at", "2.5")
    (curve,) = got["result"]["curves"]
    bound = decay(Rotary(head_dim=8), max_distance=9, q=q, k=k, at=2.5).bound
    assert bound is not None
    assert curve["envelope"] == bound.envelope
    assert curve["pairs"]["product_imaginary"] == bound.products.imag.tolist()
    assert curve["pairs"]["contribution"] == bound.contributions.tolist()
    assert (got["parameters"]["at"], got["parameters"]["k_row"]) == (2.5, 1)


# --encoding.

QUICK = ["--dim", "4", "--max-dist", "20"]


def test_encodings_have_rope_s_bound_and_a_curve_each() -> None:
    got = read_json("decay", "--encoding", "t5", "--encoding", "alibi", *QUICK)
    bound, *others = got["result"]["curves"]
    expected = decay(Rotary(head_dim=4), max_distance=20).relative_upper_bound
    assert bound["relative_upper_bound"] == expected.tolist()
    assert [curve["label"] for curve in others] == ["t5", "alibi"]
    for curve in others:
        made = with_table(curve["label"], 21, model_dim=16, head_dim=4)
        mine = expected_score(made, max_distance=20)
        assert curve["expected_score"] == mine.expected_score.tolist()
        assert curve["relative_distance"] == list(range(21))


def test_sinusoidal_codes_have_their_similarity_and_its_limit() -> None:
    words = ("--encoding", "sinusoidal", "--dim", "16", "--base", "500", "--max-dist", "20")
    got = read_json("decay", *words)
    result = similarity(Rotary(head_dim=16, base=500.0), max_distance=20)
    assert result.limit is not None
    assert got["result"]["similarity"] == {
        "label": "dim 16, base 500",
        "distance": result.distance.tolist(),
        "similarity": result.similarity.tolist(),
        "limit": result.limit.tolist(),
        "first_negative": result.first_negative,
        "lowest": result.lowest[0],
        "lowest_at": result.lowest[1],
    }
    assert got["parameters"]["positions"] == 128
    rows = list(csv.DictReader(read_stdout("decay", *words, "-o", "-", "--format", "csv").split()))
    assert [float(row["limit"]) for row in rows] == result.limit.tolist()
    assert "similarity" not in read_json("decay", "--encoding", "sinusoidal,t5", *QUICK)["result"]


def test_parameters_hold_what_the_curves_were_made_of() -> None:
    got = read_json("decay", "--encoding", "t5", *QUICK, "--base", "500", "--seed", "2")
    assert got["parameters"] == ENCODING_OPTIONS | {
        "encoding": ["t5"],
        "max_dist": 20,
        "dim": 4,
        "base": 500.0,
        "layout": "interleaved",
        "rotary_dim": 4,
        "rope_type": "default",
        "seed": 2,
    }


def test_notes_of_a_model_are_told(here: Path) -> None:
    (here / "config.json").write_text(
        '{"hidden_size": 16, "num_attention_heads": 4, "rope_theta": 10000.0}'
    )
    command = ["decay", "--encoding", "t5", "--max-dist", "4", "--model", "config.json"]
    assert "assumed: an architecture like Llama's" in read_output(*command)[1]
    assert read_output(*command, "-q")[1] == ""


# Models that are called the same: every curve has a name of its own.

CALLED = "dim 64, base 500000, llama3 factor 8"


@pytest.fixture
def models(here: Path) -> None:
    """Models of one type and factor whose frequencies differ."""
    lows = {"one.json": 1.0, "two.json": 2.0, "a/config.json": 3.0, "b/config.json": 1.5}
    lows["other.json"] = 1.0
    for name, low in lows.items():
        Path(name).parent.mkdir(exist_ok=True)
        scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": low}
        scaling |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
        config: dict[str, Any] = {
            "model_type": "qwen2" if name == "other.json" else "llama",
            "hidden_size": 512,
        }
        config |= {"num_attention_heads": 8, "rope_theta": 500000.0, "rope_scaling": scaling}
        Path(name).write_text(json.dumps(config | {"max_position_embeddings": 131072}))


def labels(*models: str) -> list[str]:
    """The names of the curves of models."""
    words = [word for model in models for word in ("--model", model)]
    curves = read_json("decay", *words, "--max-dist", "1")["result"]["curves"]
    return [curve["label"] for curve in curves]


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize(
    ("names", "called"),
    [
        (["one.json", "other.json", "two.json"], ["llama (one.json)", "qwen2", "llama (two.json)"]),
        (["a", "b"], ["llama (a)", "llama (b)"]),
        (
            ["a/config.json", "b/config.json", "one.json"],
            ["llama (a/config.json)", "llama (b/config.json)", "llama (one.json)"],
        ),
        (["a/config.json", "one.json"], ["llama (config.json)", "llama (one.json)"]),
        (["one.json", "other.json"], ["llama", "qwen2"]),
        (["one.json", "one.json"], ["llama"]),  # one file is one curve
    ],
)
def test_curves_that_are_called_the_same_are_told_apart(
    names: list[str], called: list[str]
) -> None:
    assert labels(*names) == [f"{name}: {CALLED}" for name in called]


@pytest.mark.usefixtures("models")
def test_files_of_one_model_type_are_named_whatever_their_encodings() -> None:
    Path("large.json").write_text(
        json.dumps(json.loads(Path("one.json").read_text()) | {"rope_theta": 5e6})
    )
    names = [name.partition(":")[0] for name in labels("one.json", "large.json")]
    assert names == ["llama (one.json)", "llama (large.json)"]
