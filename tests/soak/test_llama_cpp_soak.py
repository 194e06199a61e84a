"""llama.cpp's own converter, library and kernel on the stored configurations.

`pytest -m oracle tests/soak/test_llama_cpp_soak.py`, where the extra `oracles`, cmake and a C++
compiler are: a quarter of an hour, of which the build is the half. ROPECLI_LLAMA_CPP names a
folder in which the build is kept.

The converter and gguf-py of the source package run as they are, on a config.json without weights
or vocabulary: every key and tensor that it writes is held. Transformers fills in defaults, in the
version that tests/data/stacks/README.md names. The model that libllama then runs has these keys,
but fewer and narrower blocks and experts, random weights, and every tensor that is optional.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import ROOT
from models.stacks.measured import lines

pytestmark = pytest.mark.oracle

RELEASE = "0.3.36"
LINES = {line["name"]: line for line in lines("llama_cpp_config")}
#: The class whose converter runs, where a file does not name it. All 88 lines are measured.
CLASSES = {
    "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "gemma3": "LlamaForCausalLM",  # as it was measured
    "gemma3_text": "Gemma3ForCausalLM",
    "glm4_moe": "Glm4MoeForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "granite": "GraniteForCausalLM",
    "llama": "LlamaForCausalLM",
    "llama4_text": "Llama4ForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "modernbert": "LlamaForCausalLM",  # as it was measured
    "nemotron": "NemotronForCausalLM",
    "olmo3": "Olmo3ForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen2_5_vl": "Qwen2_5_VLForConditionalGeneration",
    "qwen3": "Qwen3ForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
    "stablelm": "StableLmForCausalLM",
    "starcoder2": "Starcoder2ForCausalLM",
}
#: An ulp of float32, which numbers are: configurations are stored with nine digits of each.
NUMBER = 2.0**-23
FACTOR = 2.0**-22  #: Error of a float32 sine and cosine, each within an ulp of 1.


def run(*command: object) -> None:
    done = subprocess.run([str(word) for word in command], check=False)
    assert done.returncode == 0, command


def build(folder: Path) -> tuple[Path, Path]:
    """Return the unpacked source package, and the folder of the libraries built from it."""
    name = f"llama_cpp_python-{RELEASE}"
    source, made = folder / name, folder / "build"
    if not source.exists():
        # The metadata is built as well, which takes a minute.
        package = f"llama-cpp-python=={RELEASE}"
        download = ["-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "-d", folder]
        run(sys.executable, *download, package)
        with tarfile.open(folder / f"{name}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    parts = ("COMMON", "TESTS", "TOOLS", "EXAMPLES", "SERVER")
    options = ["GGML_NATIVE", "GGML_OPENMP", *(f"LLAMA_BUILD_{part}" for part in parts)]
    run(
        *("cmake", "-S", source / "vendor" / "llama.cpp", "-B", made),
        *("-DCMAKE_BUILD_TYPE=Release", *(f"-D{option}=OFF" for option in options)),
    )
    run("cmake", "--build", made, "--target", "llama", "-j", "2")
    return source, made / "bin"


def question(line: dict[str, Any]) -> str:
    config = dict(line["config"])
    config["architectures"] = config.get("architectures") or [CLASSES[config["model_type"]]]
    return json.dumps({"config": config, "sequence_length": line["sequence_length"]})


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return the measurements by the names of the stored ones; `error` where there is none."""
    kept = os.environ.get("ROPECLI_LLAMA_CPP")
    folders = build(Path(kept).resolve() if kept else tmp_path_factory.mktemp("llama_cpp"))
    script = ROOT / "tests" / "soak" / "llama_cpp.py"
    command = [sys.executable, str(script), *map(str, folders)]
    asked = [question(line) for line in LINES.values()]
    found: list[dict[str, Any]] = []
    while len(found) < len(asked):  # ggml ends the process if it suspects a bug
        text = "".join(f"{line}\n" for line in asked[len(found) :])
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        found += [json.loads(line) for line in done.stdout.splitlines()]
        found += [{"error": done.stderr[-2000:]}] if len(found) < len(asked) else []
    return dict(zip(LINES, found, strict=True))


def is_same(got: Any, stored: Any) -> bool:
    """Return whether values of a key or a tensor are equal, numbers within an ulp."""
    if isinstance(stored, list):
        return len(got) == len(stored) and all(map(is_same, got, stored))
    if isinstance(stored, float):
        return bool(got == pytest.approx(stored, rel=NUMBER, abs=0))
    return bool(got == stored)


def differing(got: dict[str, Any], stored: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the values that differ by name, measured and stored."""
    pairs = {name: (got.get(name), stored.get(name)) for name in {*got, *stored}}
    return {name: pair for name, pair in pairs.items() if None in pair or not is_same(*pair)}


def by_nodes(ropes: list[dict[str, Any]]) -> dict[frozenset[str], dict[str, Any]]:
    return {frozenset(each.split("@")[0] for each in rope["names"]): rope for rope in ropes}


@pytest.mark.parametrize("name", LINES)
def test_line(name: str, answers: dict[str, dict[str, Any]]) -> None:
    line, answer = LINES[name], answers[name]
    assert "error" not in answer, answer["error"]
    assert differing(answer["kv"], line["kv"]) == {}
    assert differing(answer["tensors"], line["tensors"]) == {}
    ropes, stored = by_nodes(answer["ropes"]), by_nodes(line["ropes"])
    assert ropes.keys() == stored.keys()
    for nodes, rope in ropes.items():
        unlike = differing(rope, stored[nodes])
        assert unlike.keys() <= {"names", "axes"}
        for axis, expected in zip(rope["axes"], stored[nodes]["axes"], strict=True):
            got, wanted = np.array(axis).reshape(-1, 4), np.array(expected).reshape(-1, 4)
            assert np.array_equal(got[:, :2], wanted[:, :2])
            # ggml multiplies its way from pair to pair, a rounding each; sine and cosine have two.
            bound = (rope["n_dims"] / 2 + 2) * 2.0**-23 * np.abs(wanted[:, 2])
            assert np.all(np.abs(got[:, 2] - wanted[:, 2]) <= bound)
            assert np.all(np.abs(got[:, 3] / wanted[:, 3] - 1) <= FACTOR)
