"""--model, --layer, --sequence-length, --rope-type and --set, in every command that takes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import run_cli
from models.configs import GEMMA_3, GPT_OSS, LLAMA_31, PHI_3, QWEN2_VL, SMOLLM3

from ropecli import decay, load_model, rope, rotate
from ropecli.cli.app import run

pytestmark = pytest.mark.slow

COMMANDS = ["decay", "verify", "encode"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with models and arrays, which is the current one."""
    models = {"llama": LLAMA_31, "gemma": GEMMA_3, "gpt-oss": GPT_OSS, "phi": PHI_3}
    models |= {"smollm": SMOLLM3, "qwen": QWEN2_VL}
    for name, config in models.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(config))
    random = np.random.default_rng(1)
    np.save(tmp_path / "x.npy", random.standard_normal((2, 10, 128)).astype(np.float32))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words(command: str) -> list[str]:
    """A command with what it cannot do without."""
    return [command, *{"encode": ["x.npy"], "verify": ["--dtype", "float64"]}.get(command, [])]


def result(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run([*arguments, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(list(arguments)) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    return shown.err


def test_decay_is_that_of_the_model(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = result(capsys, "decay", "--model", "llama.json", "--model", "gpt-oss.json")
    for curve, config in zip(got["result"]["curves"], (LLAMA_31, GPT_OSS), strict=True):
        made = load_model(config).layer().rotary
        assert made is not None
        expected = decay(made, max_distance=512).relative_upper_bound
        assert curve["relative_upper_bound"] == expected.tolist()
        assert curve["label"].startswith(f"{config['model_type']}: dim {made.head_dim}, ")
    assert got["parameters"]["model"] == ["llama.json", "gpt-oss.json"]


def test_verify_judges_the_model(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = result(capsys, *words("verify"), "--model", "gpt-oss.json")
    assert got["result"]["passed"]
    judged = {check["name"]: check for check in got["result"]["checks"]}
    assert judged["frequencies"]["passed"] is True
    assert {check["layout"] for check in got["result"]["checks"]} == {"half"}
    assert run([*words("verify"), "--model", "gpt-oss.json"]) == 0
    assert "gpt_oss: dim 64, base 150000, yarn factor 32, layout half" in capsys.readouterr().out


def test_encode_rotates_as_the_model_and_says_how_far_float32_is_off(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    got = result(capsys, *words("encode"), "--model", "llama.json")
    made = load_model(LLAMA_31).layer().rotary
    assert made is not None
    assert np.load("x.rope.npy").tobytes() == rotate(np.load("x.npy"), made).tobytes()
    # Position 9, frequency 0.8: 9 times half an ulp of it, and half an ulp of 7.3.
    error = got["result"]["float32_table_error"]
    assert error == 9 * 2**-25 + 2**-22
    assert run([*words("encode"), "--model", "llama.json", "--force"]) == 0
    shown = capsys.readouterr()
    assert "half, base 500000, llama3 factor 8" in shown.out
    assert "in float32 is off by up to " in shown.err


def test_text_positions_count_on_every_axis(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result(capsys, *words("encode"), "--model", "qwen.json", "--layer", "all")
    plain = rope("default", head_dim=128, rope_theta=1e6, layout="half")
    assert np.load("x.rope.npy").tobytes() == rotate(np.load("x.npy"), plain).tobytes()
    np.save("points.npy", np.random.default_rng(2).integers(0, 50, (10, 3)))
    more = ["--positions", "points.npy", "--force"]
    result(capsys, *words("encode"), "--model", "qwen.json", "--layer", "all", *more)
    made = load_model(QWEN2_VL).layer("all").rotary
    assert made is not None
    expected = rotate(np.load("x.npy"), made, np.load("points.npy"))
    assert np.load("x.rope.npy").tobytes() == expected.tobytes()


def test_a_model_from_stdin() -> None:
    done = run_cli("decay", "--model", "-", "--max-dist", "8", stdin=json.dumps(LLAMA_31))
    assert (done.returncode, done.stderr) == (0, "")
    assert "llama: dim 128, base 500000, llama3 factor 8, 64 pairs" in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_a_layer_must_be_chosen_among_several(
    command: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refusal(capsys, *words(command), "--model", "gemma.json")
    assert "gemma.json has several kinds of layers (" in message
    assert "choose one with --layer" in message
    message = refusal(capsys, *words(command), "--model", "gemma.json", "--layer", "global")
    assert "got 'global'" in message
    message = refusal(capsys, *words(command), "--model", "smollm.json", "--layer", "nope")
    assert "layer nope of smollm.json has no rotary position embedding" in message


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "option",
    [
        ["--dim", "0"],
        ["--base", "500"],
        ["--layout", "half"],
        ["--rope-type", "yarn"],
        ["--rotary-dim", "8"],
        ["--set", "factor=2"],
    ],
)
def test_what_the_model_sets_is_refused_beside_it(
    command: str, option: list[str], files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refusal(capsys, *words(command), "--model", "llama.json", *option)
    assert message == f"error: --model sets {option[0]} itself; leave it out\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_rope_type_by_its_parameters(
    command: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--dim", "64", "--rope-type", "yarn", "--base", "150000", "--set", "factor=32"]
    options += ["--set", "original_max_position_embeddings=4096", "--set", "truncate=false"]
    got = result(capsys, *words(command), *options)
    made = rope(
        "yarn",
        head_dim=64,
        rope_theta=150_000.0,
        factor=32.0,
        original_max_position_embeddings=4096,
        truncate=False,
    )
    if command == "decay":
        (curve,) = got["result"]["curves"]
        assert curve["relative_upper_bound"] == decay(made).relative_upper_bound.tolist()
        assert (curve["rope_type"], curve["base"]) == ("yarn", 150_000.0)
    elif command == "encode":
        x = np.load("x.npy").reshape(2, 10, 2, 64).swapaxes(1, 2)
        expected = rotate(x, made).swapaxes(1, 2).reshape(2, 10, 128)
        assert np.load("x.rope.npy").tobytes() == expected.tobytes()
    else:
        assert got["result"]["passed"]
        assert got["parameters"]["rope_type"] == "yarn"


def test_lists_and_words_as_values(capsys: pytest.CaptureFixture[str]) -> None:
    got = result(
        capsys,
        *(
            "decay",
            "--dim",
            "8",
            "--rope-type",
            "su",
            "--sequence-length",
            "200",
            "--max-dist",
            "2",
        ),
        *("--set", "short_factor=[1,1,1,1]", "--set", "long_factor=[2,2,2,2]"),
        *("--set", "original_max_position_embeddings=100", "--set", "factor=4"),
    )
    (curve,) = got["result"]["curves"]
    made = rope("linear", head_dim=8, factor=2.0)
    expected = decay(made, max_distance=2).relative_upper_bound
    assert curve["relative_upper_bound"] == expected.tolist()
    message = refusal(
        capsys,
        *("decay", "--rope-type", "yarn", "--set", "ramp=hf", "--set", "factor=2"),
        *("--set", "original_max_position_embeddings=100"),
    )
    assert "ramp must be code or paper, got 'hf'" in message


@pytest.mark.parametrize("length", ["4096", "4097"])
def test_the_sequence_length_chooses_a_table(
    length: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["decay", "--model", "phi.json", "--max-dist", "8", "--sequence-length", length]
    (curve,) = result(capsys, *options)["result"]["curves"]
    made = load_model(PHI_3, sequence_length=int(length)).layer().rotary
    assert made is not None
    expected = decay(made, max_distance=8).relative_upper_bound
    assert curve["relative_upper_bound"] == expected.tolist()


def test_what_depends_on_a_length_nobody_gave_is_noted(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["decay", "--model", "phi.json", "--max-dist", "8"]) == 0
    noted = capsys.readouterr().err
    assert noted.startswith("note: phi3: longrope changes with the length of the sequence")
    assert run(["decay", "--model", "phi.json", "--max-dist", "8", "-q"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--layer", "all"], "--layer needs --model, got 'all' of no model"),
        (["--set", "factor"], "--set must be KEY=VALUE, got 'factor'"),
        (["--set", "=4"], "--set must be KEY=VALUE, got '=4'"),
        (["--set", "factor=4", "--set", "factor=8"], "--set factor was given twice"),
        (["--set", "rope_theta=5"], "--set rope_theta: give it with --base"),
        (["--set", "factor=4"], "rope type default has no parameter factor"),
        (["--rope-type", "yern"], "rope type must be one of axial, "),
        (["--rope-type", "linear"], "rope type linear needs factor; its parameters are factor"),
        (["--rope-type", "linear", "--set", "factr=2"], "has no parameter factr"),
        (["--sequence-length", "9"], "has no parameter sequence_length"),
        (["--model", "missing.json"], "cannot read missing.json: No such file or directory"),
    ],
)
def test_what_is_refused(
    options: list[str], message: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refusal(capsys, "decay", *options)
