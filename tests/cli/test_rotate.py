"""The rotate command, as a user meets it."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_within, read_json, read_stdout, run_in_terminal
from models.configs import LLAMA_31

pytestmark = pytest.mark.usefixtures("here")

PAGE = """\
R_m x at position m = 1, dim 4, base 10000

Eq. 34: x * cos(m theta) + swap(x) * sin(m theta) = sum
coordinate  pair  x     cos  swap(x)     sin     sum
         0     0  1  0.5403        0  0.8415  0.5403
         1     0  0  0.5403        1  0.8415  0.8415
         2     1  1       1        0    0.01       1
         3     1  0       1        1    0.01    0.01

Eq. 12: each pair as a complex number z, theta in radians
pair  theta  m theta       z   z e^(i m theta)
   0      1        1  1 + 0i  0.5403 + 0.8415i
   1   0.01     0.01  1 + 0i         1 + 0.01i

Eq. 15: the matrix R; R x = sum
0.5403  -0.8415     0      0
0.8415   0.5403     0      0
     0        0     1  -0.01
     0        0  0.01      1

Figure 1, lower half: the vector at each position
position            pair 0     pair 1
       0            (1, 0)     (1, 0)
       1  (0.5403, 0.8415)  (1, 0.01)

Save Figure 1: -o figure1.png    the numbers: -o rotation.csv, or --json
"""


def test_page() -> None:
    assert read_stdout("rotate", "1,0,1,0") == PAGE


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


@pytest.mark.slow
def test_planes_in_a_terminal() -> None:
    for columns, across in ((80, 4), (40, 2)):
        screen = run_in_terminal("rotate", "1,2,3,4,5,6,7,8", "--position", "2", columns=columns)
        upper = re.split(r"Figure 1, upper half: position 0 dotted,\s2 solid\n", screen.text)[1]
        line = upper.splitlines()[0]
        assert line.startswith("pair 0 ")
        assert line.count("pair") == across


def test_the_circle_of_a_pair_is_closed_and_empty_around_a_zero() -> None:
    text = run_in_terminal("rotate", "0,0", NO_COLOR="1").text
    disc = text.partition("1 rad\n")[2].splitlines()[:8]
    ends = [len(line.rstrip()) for line in disc]
    assert all(abs(above - below) <= 1 for above, below in zip(ends, ends[::-1], strict=True)), text
    assert {line[4:13] for line in disc[1:3]} == {" " * 9}
