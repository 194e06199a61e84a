"""Models in every command that takes them: their options, and those that are odd or huge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import assert_refused, read_json, read_output, read_stdout, slow_rows, soon
from models.configs import (
    DEEPSEEK_V3,
    DYNAMIC,
    GEMMA_3,
    GPT_OSS,
    LLAMA_31,
    PHI_3,
    QWEN2_VL,
    SMOLLM3,
)

from ropecli import decay, load_model, rope, rotate


@pytest.fixture
def files(here: Path) -> Path:
    """A folder with models and arrays, which is the current one."""
    models = {"llama": LLAMA_31, "gpt-oss": GPT_OSS, "phi": PHI_3, "qwen": QWEN2_VL}
    for name, config in models.items():
        (here / f"{name}.json").write_text(json.dumps(config))
    random = np.random.default_rng(1)
    np.save(here / "x.npy", random.standard_normal((2, 10, 128)).astype(np.float32))
    return here


ENCODE = ("encode", "x.npy")


def test_decay_is_that_of_the_model(files: Path) -> None:
    got = read_json("decay", "--model", "llama.json", "--model", "gpt-oss.json")
    for curve, config in zip(got["result"]["curves"], (LLAMA_31, GPT_OSS), strict=True):
        made = load_model(config).layer().rotary
        assert made is not None
        expected = decay(made, max_distance=512).relative_upper_bound
        assert curve["relative_upper_bound"] == expected.tolist()
        assert curve["label"].startswith(f"{config['model_type']}: dim {made.head_dim}, ")
    assert got["parameters"]["model"] == ["llama.json", "gpt-oss.json"]


def test_decay_has_a_curve_for_each_kind_of_layer(here: Path) -> None:
    (here / "gemma.json").write_text(json.dumps(GEMMA_3))
    command = ["decay", "--model", "gemma.json", "--max-dist", "4"]
    labels = [curve["label"] for curve in read_json(*command)["result"]["curves"]]
    assert [label.partition(":")[0] for label in labels] == [
        "gemma3_text sliding_attention",
        "gemma3_text full_attention",
    ]
    (curve,) = read_json(*command, "--layer", "sliding_attention")["result"]["curves"]
    assert curve["base"] == 10_000.0


def test_encode_rotates_as_the_model_and_says_how_far_float32_is_off(files: Path) -> None:
    got = read_json(*ENCODE, "--model", "llama.json")
    made = load_model(LLAMA_31).layer().rotary
    assert made is not None
    assert np.load("x.rope.npy").tobytes() == rotate(np.load("x.npy"), made).tobytes()
    # Position 9, frequency 0.8: 9 times half an ulp of it, and half an ulp of 7.3.
    error = got["result"]["float32_table_error"]
    assert error == 9 * 2**-25 + 2**-22
    out, err = read_output(*ENCODE, "--model", "llama.json", "--force")
    assert "half, base 500000, llama3 factor 8" in out
    assert "in float32 is off by up to " in err


def test_text_positions_count_on_every_axis(files: Path) -> None:
    read_json(*ENCODE, "--model", "qwen.json", "--layer", "all")
    plain = rope("default", head_dim=128, rope_theta=1e6, layout="half")
    assert np.load("x.rope.npy").tobytes() == rotate(np.load("x.npy"), plain).tobytes()
    np.save("points.npy", np.random.default_rng(2).integers(0, 50, (10, 3)))
    more = ["--positions", "points.npy", "--force"]
    read_json(*ENCODE, "--model", "qwen.json", "--layer", "all", *more)
    made = load_model(QWEN2_VL).layer("all").rotary
    assert made is not None
    expected = rotate(np.load("x.npy"), made, np.load("points.npy"))
    assert np.load("x.rope.npy").tobytes() == expected.tobytes()


def test_a_rope_type_by_its_parameters() -> None:
    options = ["--dim", "64", "--rope-type", "yarn", "--base", "150000", "--set", "factor=32"]
    options += ["--set", "original_max_position_embeddings=4096", "--set", "truncate=false"]
    (curve,) = read_json("decay", *options)["result"]["curves"]
    made = rope(
        "yarn",
        head_dim=64,
        rope_theta=150_000.0,
        factor=32.0,
        original_max_position_embeddings=4096,
        truncate=False,
    )
    assert curve["relative_upper_bound"] == decay(made).relative_upper_bound.tolist()
    assert (curve["rope_type"], curve["base"]) == ("yarn", 150_000.0)


@pytest.mark.parametrize("length", ["4096", "4097"])
def test_the_sequence_length_chooses_a_table(length: str, files: Path) -> None:
    options = ["decay", "--model", "phi.json", "--max-dist", "8", "--sequence-length", length]
    (curve,) = read_json(*options)["result"]["curves"]
    made = load_model(PHI_3, sequence_length=int(length)).layer().rotary
    assert made is not None
    expected = decay(made, max_distance=8).relative_upper_bound
    assert curve["relative_upper_bound"] == expected.tolist()


def test_what_depends_on_a_length_nobody_gave_is_noted(files: Path) -> None:
    words = ["decay", "--model", "phi.json", "--max-dist", "8"]
    _, noted = read_output(*words)
    assert noted.startswith("note: phi3: longrope changes with the length of the sequence")
    assert read_stdout(*words, "-q")


# Values in place of the model's, and the configuration that is written.

OVER = ["--base", "8e6", "--rope-type", "yarn", "--context", "65536"]


def test_options_override_the_model(files: Path) -> None:
    words = ["decay", "--model", "llama.json", *OVER, "--max-dist", "8"]
    got = read_json(*words)
    (curve,) = got["result"]["curves"]
    made = rope(
        "yarn",
        head_dim=128,
        rope_theta=8e6,
        layout="half",
        factor=8.0,
        original_max_position_embeddings=8192,
    )
    assert (
        curve["relative_upper_bound"] == decay(made, max_distance=8).relative_upper_bound.tolist()
    )
    given = {"base": [8e6], "rope_type": "yarn", "context": 65_536, "model": ["llama.json"]}
    assert given.items() <= got["parameters"].items()
    _, err = read_output(*words)
    assert err == "note: llama: factor 8, the context length 65,536 over 8,192\n"


def test_each_model_has_each_base(files: Path) -> None:
    words = ["decay", "--model", "llama.json", "--model", "gpt-oss.json", "--max-dist", "2"]
    got = read_json(*words, "--base", "1e5", "--base", "1e6")
    labels = [curve["label"] for curve in got["result"]["curves"]]
    assert [label.split(":")[0] for label in labels] == ["llama", "llama", "gpt_oss", "gpt_oss"]
    assert [curve["base"] for curve in got["result"]["curves"]] == [1e5, 1e6, 1e5, 1e6]


@pytest.mark.parametrize(
    ("command", "source"),
    [("decay", "gemma.json"), *slow_rows(("linear", "gemma.json"), ("vectors", "-"))],
)
def test_what_is_written_is_what_is_shown(command: str, source: str, here: Path) -> None:
    """inspect reports for the written file the values that the command computed with."""
    (here / "gemma.json").write_text(json.dumps(GEMMA_3))
    own = {"vectors": ["-o", "out", "--length", "1"], "linear": ["--length", "4"]}.get(command, [])
    own += ["--model", source, "--layer", "full_attention", "--write", "new.json"]
    own += ["--base", "2e6", "--set", "factor=4", "--context", "65536"]
    stdin = json.dumps(GEMMA_3) if source == "-" else None
    _, err = read_output(command, *own, stdin=stdin)
    assert "overrides are for full_attention; sliding_attention as in the file\n" in err
    assert "configuration written to new.json\n" in err
    changed: dict[str, Any] = {"rope_theta": 2e6, "max_position_embeddings": 65_536}
    changed["rope_scaling"] = {"factor": 4, "rope_type": "linear"}
    assert json.loads((here / "new.json").read_text()) == GEMMA_3 | changed
    layers = read_json("inspect", "new.json")["result"]["layers"]
    made = {layer["name"]: layer for layer in layers}["full_attention"]
    wanted = rope("linear", head_dim=256, rope_theta=2e6, factor=4.0)
    assert made["inv_freq"] == wanted.inv_freq.tolist()
    assert made["attention_factor"] == 1.0
    assert made["context_length"] == 65_536


def test_a_configuration_without_overrides_is_written_as_it_is(files: Path) -> None:
    read_json("decay", "--model", "phi.json", "--max-dist", "2", "--write", "same.json")
    assert json.loads(Path("same.json").read_text()) == PHI_3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--model llama.json --write qwen.json", "qwen.json exists; --write never replaces a file"),
        (
            "--model llama.json --write llama.json",
            "llama.json exists; --write never replaces a file",
        ),
        ("--model llama.json --write x.yaml", "--write must end in .json, got 'x.yaml'"),
        ("--model llama.json --write -", "--write must end in .json, got '-'"),
        ("--model llama.json --write no/x.json", "cannot write ..."),
        ("--write x.json", "--write requires --model"),
        (
            "--model llama.json --write x.json -o ./x.json",
            "-o and --write are the same file: x.json",
        ),
        (
            "--model llama.json --model phi.json --write x.json",
            "--write takes one --model and one --base, got several",
        ),
        (
            "--model llama.json --base 1e4 --base 1e5 --write x.json",
            "--write takes one --model and one --base, got several",
        ),
        (
            "--model llama.json --rope-type ntk --set factor=2 --write x.json",
            "cannot write x.json: Transformers has no rope type ntk for model_type llama",
        ),
        (
            "--model llama.json --layout interleaved --write x.json",
            "cannot write x.json: no key of the file gives the layout of model_type llama",
        ),
        ("--context 4096", "--context has no effect on rope type default; leave it out"),
    ],
)
def test_configurations_that_are_not_written(words: str, message: str, files: Path) -> None:
    before = {path: path.read_bytes() for path in files.iterdir()}
    line = assert_refused("decay", "--max-dist", "2", *words.split())
    assert line.startswith(message.removesuffix("..."))
    assert {path: path.read_bytes() for path in files.iterdir()} == before


def test_a_context_without_a_model_is_that_of_the_scaling() -> None:
    words = ["--rope-type", "yarn", "--dim", "64", "--context", "16384", "--max-dist", "2"]
    got = read_json("decay", *words, "--set", "original_max_position_embeddings=4096")
    made = rope("yarn", head_dim=64, factor=4.0, original_max_position_embeddings=4096)
    expected = decay(made, max_distance=2).relative_upper_bound.tolist()
    assert got["result"]["curves"][0]["relative_upper_bound"] == expected


# Models that are hostile, odd or huge: one line, and never a bug, a hang or a blown-up page.

PLAIN = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
UNKNOWN = PLAIN | {"model_type": "mystery"}  #: It may have scaling keys for each layer type.


def save(folder: Path, config: dict[str, Any], name: str = "config.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(config))
    return path


def with_scaling(config: dict[str, Any], **more: Any) -> dict[str, Any]:
    return config | {"rope_scaling": config["rope_scaling"] | more}


@pytest.mark.parametrize(
    ("config", "reading", "message"),
    [
        (
            with_scaling(GPT_OSS, llama_4_scaling_beta=10**400),
            "transformers",
            "beta must be finite",
        ),
        (with_scaling(GPT_OSS, llama_4_scaling_beta=1e400), "transformers", "beta must be finite"),
        (
            with_scaling(DEEPSEEK_V3, mscale_all_dim=1e308),
            "transformers",
            "must leave the score finite",
        ),
        (with_scaling(DEEPSEEK_V3, mscale_all_dim=-1e308), "mlx-lm", "must leave the score finite"),
        (with_scaling(DYNAMIC, factor=1e308), "vllm", "alpha must be finite"),
        (with_scaling(GPT_OSS, beta_fast=1e308), "transformers", "no finite value"),
    ],
)
def test_numbers_that_no_formula_takes(
    config: dict[str, Any], reading: str, message: str, here: Path
) -> None:
    path = save(here, config)
    assert message in assert_refused("inspect", path, "--as", reading)


def test_a_temperature_that_is_no_number_is_refused(here: Path) -> None:
    tuned = SMOLLM3 | {"attn_temperature_tuning": True, "attn_scale": 0.1, "floor_scale": -1}
    line = assert_refused("inspect", save(here, tuned))
    assert "floor_scale must be finite and above 0, got -1" in line


@pytest.mark.parametrize(
    "config",
    [
        PLAIN
        | {"model_type": "granite_swa", "layer_rope_theta": [10_000 + i for i in range(65_536)]},
        UNKNOWN | {"rope_parameters": {f"kind {i}": {"rope_theta": 1e4} for i in range(30_000)}},
        PLAIN | {f"k{i}_config": PLAIN | {"rope_theta": 1e4} for i in range(20_000)},
        PLAIN
        | {
            "rope_theta": [10_000 + i for i in range(65_536)],
            "layer_types": [f"kind {i}" for i in range(65_536)],
        },
    ],
    ids=["bases", "nested", "parts", "list"],
)
def test_every_layer_a_kind_of_its_own(config: dict[str, Any], here: Path) -> None:
    path = save(here, config)
    with soon():  # a tenth of a second, mostly JSON; without the limit it would be 20
        assert "at most 64 kinds of layers" in assert_refused("inspect", path)


def test_as_many_kinds_as_a_file_may_have(here: Path) -> None:
    kinds = {f"kind {i}": {"rope_type": "default", "rope_theta": 1e4 + i} for i in range(64)}
    path = save(here, UNKNOWN | {"rope_parameters": kinds})
    assert len(read_json("inspect", path)["result"]["layers"]) == 64
    line = assert_refused("verify", "--model", path)
    assert "(kind 0, kind 1, kind 2, kind 3, kind 4, kind 5, kind 6, kind 7, ...)" in line


@pytest.mark.parametrize(
    "config",
    [
        PLAIN | {"model_type": "m" * 201, "rope_theta": 1e4},
        UNKNOWN | {"rope_parameters": {"m" * 201: {"rope_theta": 1e4}}},
        PLAIN | {"m" * 201 + "_config": PLAIN | {"rope_theta": 1e4}},
    ],
)
def test_names_as_long_as_a_page(config: dict[str, Any], here: Path) -> None:
    line = assert_refused("inspect", save(here, config))
    assert line.endswith("names may have at most 200 letters, got 'mmmmmmmmmmmmmmmmmmmm'... of 201")


def test_a_name_of_200_letters(here: Path) -> None:
    path = save(here, PLAIN | {"model_type": "m" * 200, "rope_theta": 1e4})
    assert "m" * 200 in read_output("decay", "--model", path, "--max-dist", "2", "--json")[0]


def test_positions_with_axes_that_nobody_gave(here: Path) -> None:
    np.save(here / "x.npy", np.ones((6, 128), np.float32))
    path = save(here, QWEN2_VL)
    command: list[str | Path] = ["encode", "x.npy", "--model", path, "--layer", "all"]
    _, err = read_output(*command)
    assert err.startswith("note: positions have 3 axes, alike without --positions, as in text\n")
    np.save(here / "p.npy", np.ones((6, 3)))
    _, err = read_output(*command, "--positions", "p.npy", "--force")
    assert "positions have" not in err


@pytest.mark.parametrize("shape", [(6,), (3, 6), ()])
def test_positions_of_another_shape(shape: tuple[int, ...], here: Path) -> None:
    np.save(here / "x.npy", np.ones((6, 128), np.float32))
    np.save(here / "p.npy", np.ones(shape))
    path, more = save(here, QWEN2_VL), ["--positions", "p.npy"]
    line = assert_refused(*ENCODE, "--model", path, "--layer", "all", *more)
    assert line == f"positions of p.npy must have shape (6, 3), got {shape}"
