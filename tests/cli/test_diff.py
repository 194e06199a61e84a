"""Pictures of the diff command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import read_stdout
from models.configs import GPT_OSS, LLAMA_31

from ropecli import diff as compare
from ropecli import load_model

pytestmark = pytest.mark.slow


def test_a_picture_says_what_it_compares(here: Path) -> None:
    (here / "gpt-oss.json").write_text(json.dumps(GPT_OSS))
    read_stdout("diff", "gpt-oss.json", "--as", "mlx-lm", "-o", "d.svg", code=1)
    text = (here / "d.svg").read_text()
    assert "ropecli diff gpt-oss.json gpt-oss.json --as transformers --as mlx-lm<" in text
    model = load_model(GPT_OSS)
    other = load_model(GPT_OSS, reading="mlx-lm")
    picture = compare(model, other).figure()
    above, below = picture.axes
    assert " ".join(above.get_ylabel().split()) == "phase difference of the worst pair (radians)"
    assert below.get_xlabel() == "pair"
    title = picture.get_suptitle()
    assert title == (
        "config.json (gpt_oss), as transformers 5.24.0 reads it\n"
        "against config.json (gpt_oss), as mlx-lm 0.32.2 reads it"
    )
    said = " ".join(compare(model, model).figure().get_suptitle().split())
    one = "config.json (gpt_oss), as transformers 5.24.0 reads it"
    assert said == f"No phase differs: {one} and {one} rotate alike"


def test_a_picture_has_a_line_for_each_kind() -> None:
    """Also for one whose name would hide it from the legend."""
    kinds = {name: {"rope_theta": 2e5} for name in ("a", "_b")}
    plain = {key: value for key, value in LLAMA_31.items() if key != "rope_scaling"}
    plain["model_type"] = "my_model"
    two = load_model(plain | {"rope_parameters": kinds})
    (legend,) = compare(two, load_model(plain)).figure().legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", " _b"]
