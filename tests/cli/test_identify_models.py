"""Models that `identify` compares with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli.rotated import FILES, LLAMA, document, save
from helpers import read_stdout
from models.configs import GEMMA_3, GPT_OSS, LLAMA_31, SMOLLM3

from ropecli import Rotary, load_model, rope
from ropecli.cli.app import run


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configurations in the current folder."""
    monkeypatch.chdir(tmp_path)
    configs = {"llama": LLAMA_31, "gemma": GEMMA_3, "gpt-oss": GPT_OSS, "smollm": SMOLLM3}
    for name, config in configs.items():
        Path(f"{name}.json").write_text(json.dumps(config))
    small = LLAMA_31 | {"head_dim": 16}
    Path("small.json").write_text(json.dumps(small))
    plain = {key: value for key, value in small.items() if key != "rope_scaling"}
    Path("plain.json").write_text(json.dumps(plain))
    phi = plain | {
        "rope_scaling": {
            "rope_type": "longrope",
            "short_factor": [1.0, 1.1, 1.3, 1.2, 1.7, 2.0, 2.2, 3.0],
            "long_factor": [1.0, 2.1, 3.3, 9.2, 9.7, 12.0, 22.2, 33.0],
            "original_max_position_embeddings": 4096,
            "attention_factor": 1.0,
        }
    }
    Path("phi.json").write_text(json.dumps(phi))


def compare_with(
    capsys: pytest.CaptureFixture[str], *sources: str, more: tuple[str, ...] = ()
) -> str:
    return read_stdout(
        capsys,
        "identify",
        *FILES,
        "-q",
        *(w for source in sources for w in ("--model", source)),
        *more,
    )


def test_models_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    save(rope("llama3", head_dim=16, rope_theta=5e5, layout="half", **LLAMA))
    text = compare_with(capsys, "small.json", "plain.json", "gemma.json", "gpt-oss.json")
    assert "  small.json matches exactly.\n" in text
    # The two differ most in the slowest pairs but one, by 7/8 of a frequency, at position 511.
    assert "  plain.json differs: wrong by " in text
    assert "rad at position 511.\n" in text
    for layer in ("sliding_attention", "full_attention"):
        assert f"  gemma.json ({layer}) differs: head dim 256, not 16, rotary dim 256" in text
    assert "  gpt-oss.json differs: head dim 64, not 16, " in text
    got = document(capsys, *FILES, "--model", "small.json", "--model", "gemma.json")["result"]
    found = {match["name"]: match for match in got["matches"]}
    assert found["small.json"]["matches"] is True
    assert found["gemma.json (full_attention)"]["max_phase_error"] is None


def test_what_a_model_does_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    save(Rotary(head_dim=16, base=5e5, direction="reversed"))
    text = compare_with(capsys, "plain.json")
    assert (
        "  plain.json differs: layout half, not interleaved, direction forward, not reversed, "
        "wrong by 0 rad at position 511.\n"
    ) in text


def test_a_model_explains_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    encoding = load_model("phi.json", sequence_length=10_000).layer().rotary
    assert encoding is not None
    save(encoding)
    length = ("--sequence-length", "10000")
    text = compare_with(capsys, "phi.json", more=length)
    assert text.startswith("This is RoPE: the frequencies of phi.json, half-split layout")
    result = document(capsys, *FILES, "--model", "phi.json", *length)["result"]
    assert result["flags"] == ["--model", "phi.json", *length]
    assert run(["encode", "before.npy", "-o", "again.npy", *result["flags"], "-q"]) == 0
    capsys.readouterr()
    # The table itself, rotated twice to 7e-16 and 1.2e-16 of an angle below 512.
    after = np.load("after.npy")
    assert np.abs(np.load("again.npy") - after).max() <= 2e-13 * np.abs(after).max()
    short = compare_with(capsys, "phi.json")
    assert "phi.json differs: wrong by" in short


def test_one_kind_of_layer(capsys: pytest.CaptureFixture[str]) -> None:
    save(Rotary(head_dim=256, layout="half"), length=64)
    text = compare_with(capsys, "gemma.json", more=("--layer", "sliding_attention"))
    assert "  gemma.json (sliding_attention) matches exactly.\n" in text
    assert "full_attention" not in text


def test_layers_without_position_are_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    save(Rotary(head_dim=16))
    assert "nope" not in compare_with(capsys, "smollm.json")
