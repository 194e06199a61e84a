"""The rotate command, as a user meets it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_within, read_json, read_stdout
from models.configs import LLAMA_31

pytestmark = pytest.mark.usefixtures("here")


def test_document_has_the_keys_of_the_contract() -> None:
    got = read_json("rotate", "-1, 2, 3, 4", "--position", "5")
    assert got["parameters"]["vector"] == "-1, 2, 3, 4"
    result = got["result"]
    assert result["vector"] == [-1, 2, 3, 4]
    assert result["position"] == 5
    assert result["angles"] == [5, 0.05]
    assert_within("cos", got=result["cos"], expected=np.cos([5, 0.05]), tolerance=1e-16)
    assert_within("sin", got=result["sin"], expected=np.sin([5, 0.05]), tolerance=1e-16)
    x = np.array(result["matrix"]) @ result["vector"]
    assert_within("R x", got=result["rotated"], expected=x, tolerance=4e-15)
    assert result["positions"] == [0, 1, 2, 3, 4, 5]


def test_a_file_a_model_and_its_numbers() -> None:
    np.save("q.npy", np.random.default_rng(0).standard_normal((3, 128)))
    Path("config.json").write_text(json.dumps(LLAMA_31))
    words = ("rotate", "q.npy", "--row", "2", "--model", "config.json", "--position", "4096")
    result = read_json(*words, "-o", "x.csv")["result"]
    assert result["vector"] == np.load("q.npy")[2].tolist()
    assert result["positions"] == [0, 4096]
    with Path("x.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["coordinate", "pair", "x", "cos", "swapped", "sin", "rotated"]
    assert [float(row["rotated"]) for row in rows] == result["rotated"]
    assert [int(row["pair"]) for row in rows] == [*range(64), *range(64)]  # Llama's halves
    page = read_stdout(*words, "--pair", "63")
    assert "1 of 64 pairs" in page
