"""Models that are hostile, odd or huge: one line, and never a bug, a hang or a blown-up page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import ROOT, assert_refused, soon
from models.configs import DEEPSEEK_V3, DYNAMIC, GPT_OSS, LLAMA_31, QWEN2_VL, SMOLLM3

from ropecli.cli.app import run

PLAIN = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
ODD_NAMES = ("$\\frac{$", "_y", "日本")


def saved(folder: Path, config: dict[str, Any], name: str = "config.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(config))
    return path


def scaled(config: dict[str, Any], **more: Any) -> dict[str, Any]:
    return config | {"rope_scaling": config["rope_scaling"] | more}


@pytest.mark.parametrize(
    ("config", "reading", "message"),
    [
        (scaled(GPT_OSS, llama_4_scaling_beta=10**400), "transformers", "beta must be finite"),
        (scaled(GPT_OSS, llama_4_scaling_beta=1e400), "transformers", "beta must be finite"),
        (scaled(DEEPSEEK_V3, mscale_all_dim=1e308), "transformers", "must leave the score finite"),
        (scaled(DEEPSEEK_V3, mscale_all_dim=-1e308), "mlx-lm", "must leave the score finite"),
        (scaled(DYNAMIC, factor=1e308), "vllm", "alpha must be finite"),
        (scaled(GPT_OSS, beta_fast=1e308), "transformers", "no finite value"),
    ],
)
def test_numbers_that_no_formula_takes(
    config: dict[str, Any],
    reading: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = saved(tmp_path, config)
    assert message in assert_refused(capsys, "inspect", path, "--as", reading)


def test_a_temperature_that_is_no_number_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned = SMOLLM3 | {"attn_temperature_tuning": True, "attn_scale": 0.1, "floor_scale": -1}
    line = assert_refused(capsys, "inspect", saved(tmp_path, tuned))
    assert "floor_scale must be finite and above 0, got -1" in line


@pytest.mark.parametrize(
    "config",
    [
        PLAIN | {"layer_rope_theta": [10_000 + i for i in range(65_536)]},
        PLAIN | {"rope_parameters": {f"kind {i}": {"rope_theta": 1e4} for i in range(30_000)}},
        PLAIN | {f"k{i}_config": PLAIN | {"rope_theta": 1e4} for i in range(20_000)},
        PLAIN
        | {
            "rope_theta": [10_000 + i for i in range(65_536)],
            "layer_types": [f"kind {i}" for i in range(65_536)],
        },
    ],
    ids=["bases", "nested", "parts", "list"],
)
def test_every_layer_a_kind_of_its_own(
    config: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path, config)
    with soon():  # a tenth of a second, mostly JSON; without the limit it would be 20
        assert "at most 64 kinds of layers" in assert_refused(capsys, "inspect", path)


def test_as_many_kinds_as_a_file_may_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = {f"kind {i}": {"rope_type": "default", "rope_theta": 1e4 + i} for i in range(64)}
    path = saved(tmp_path, PLAIN | {"rope_parameters": kinds})
    assert run(["inspect", str(path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["result"]["layers"]) == 64
    line = assert_refused(capsys, "decay", "--model", path)
    assert "(kind 0, kind 1, kind 2, kind 3, kind 4, kind 5, kind 6, kind 7, ...)" in line


@pytest.mark.parametrize(
    "config",
    [
        PLAIN | {"model_type": "m" * 201},
        PLAIN | {"rope_parameters": {"m" * 201: {"rope_theta": 1e4}}},
        PLAIN | {"m" * 201 + "_config": PLAIN | {"rope_theta": 1e4}},
    ],
)
def test_names_as_long_as_a_page(
    config: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = assert_refused(capsys, "inspect", saved(tmp_path, config))
    assert line.endswith("names may have at most 200 letters, got 'mmmmmmmmmmmmmmmmmmmm'... of 201")


def test_a_name_of_200_letters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path, PLAIN | {"model_type": "m" * 200})
    assert run(["decay", "--model", str(path), "--max-dist", "2", "--json"]) == 0
    assert "m" * 200 in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_pictures_of_odd_names(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A letter that is mathematics to Matplotlib, one that hides a label, and no glyph at all."""
    kinds = {name: {"rope_type": "default", "rope_theta": 1e4} for name in ODD_NAMES}
    odd = saved(tmp_path, PLAIN | {"rope_parameters": kinds}, "$\\frac{$.json")
    other = saved(tmp_path, PLAIN | {"rope_theta": 5e5}, "other.json")
    target = tmp_path / f"x{suffix}"
    assert run(["diff", str(odd), str(other), "-o", str(target)]) == 1
    assert run(["inspect", str(odd), "-o", str(target), "--force"]) == 0
    assert capsys.readouterr().err == ""


def test_a_closed_stdin() -> None:
    command = f"{sys.executable} -m ropecli inspect - <&-"
    got = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
    )
    expected = "error: cannot read standard input: it is closed\n"
    assert (got.returncode, got.stdout, got.stderr) == (2, "", expected)


@pytest.mark.parametrize(
    "option", ["rope_type", "head_dim", "rope_theta", "layout", "rotary_dim", "sequence_length"]
)
def test_set_of_what_an_option_sets(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = assert_refused(capsys, "decay", "--set", f"{option}=4")
    assert line.startswith(f"--set {option}: give it with --")


def test_positions_with_axes_that_nobody_gave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.ones((6, 128), np.float32))
    path = saved(tmp_path, QWEN2_VL)
    command = ["encode", str(tmp_path / "x.npy"), "--model", str(path), "--layer", "all"]
    assert run(command) == 0
    note = "note: positions have 3 axes, alike without --positions, as in text\n"
    assert capsys.readouterr().err.startswith(note)
    np.save(tmp_path / "p.npy", np.ones((6, 3)))
    assert run([*command, "--positions", str(tmp_path / "p.npy"), "--force"]) == 0
    assert "positions have" not in capsys.readouterr().err


@pytest.mark.parametrize("shape", [(6,), (6, 2), (3, 6), (2, 6, 3), (6, 3, 1), ()])
def test_positions_of_another_shape(
    shape: tuple[int, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.ones((6, 128), np.float32))
    np.save(tmp_path / "p.npy", np.ones(shape))
    path = saved(tmp_path, QWEN2_VL)
    command: list[str | Path] = ["encode", tmp_path / "x.npy", "--model", path, "--layer", "all"]
    line = assert_refused(capsys, *command, "--positions", tmp_path / "p.npy", "--json")
    assert line == f"positions must have shape (6, 3), got {shape}"


def test_vectors_of_another_length(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, length in (("q", 128), ("k", 64)):
        np.save(tmp_path / f"{name}.npy", np.ones(length))
    vectors: list[str | Path] = ["--q", tmp_path / "q.npy", "--k", tmp_path / "k.npy"]
    path = saved(tmp_path, LLAMA_31)
    line = assert_refused(capsys, "decay", "--model", path, *vectors)
    assert line == "k must have shape (128,), got (64,)"
