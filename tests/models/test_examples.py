"""Bundled configurations: sound, known to the list, and read as the stacks compute them."""

from __future__ import annotations

import pytest
from helpers import read_json, read_stdout
from models.configs import RELEASED, published_configs
from models.stacks.measured import apart, lines

import ropecli
from ropecli import Layer, load_model
from ropecli.models.source import EXAMPLES

LIST = ropecli.examples().examples
#: float32 tables, as in tests/models/test_published_configs.py.
FREQUENCIES, FACTORS = 3e-6, 1e-6
MISTAKES = {"mistake-yarn": "R012"}
#: Where a table of the same rotation was stored.
PUBLISHED = {
    "llama-2-7b": "llama2-plain",
    "llama-3.1-8b": "llama31-legacy",
    "gemma-3-4b": "gemma3-legacy",
    "gpt-oss-20b": "gptoss",
}
#: Where the tests of lint hold its file.
RELEASED_AS = {
    "llama-3.2-1b": "Llama 3.2 1B",
    "llama-4-scout": "Llama 4 Scout",
    "qwen2.5-7b": "Qwen2.5 7B",
    "qwen2-vl-7b": "Qwen2-VL 7B",
    "qwen3-vl-8b": "Qwen3-VL 8B",
    "kimi-k2": "Kimi K2",
    "mistral-7b": "Mistral 7B v0.1",
    "pythia-1.4b": "Pythia 1.4B",
}
MEASURED = {
    "deepseek-v3": "base:DSV3",
    "smollm3-3b": "base:SMOL",
    "olmo-3-7b": "base:OLMO3",
    "glm-4-9b": "base:GLM4",
    "qwen2.5-7b-yarn": "base:QWEN25Y",
    "qwen3.5-27b": "Qwen3.5-27B/config.json",
}


def layers(name: str) -> list[Layer]:
    """The layers that rotate."""
    return [each for each in load_model(f"example:{name}").layers if each.rotary is not None]


def is_in(table: list[float], factor: float, found: list[Layer]) -> bool:
    return any(
        apart(each.rotary.diagonal_inv_freq, table) < FREQUENCIES
        and abs(each.rotary.attention_factor - factor) < FACTORS
        for each in found
        if each.rotary is not None
    )


def test_list_has_every_file() -> None:
    assert sorted(each.name for each in LIST) == sorted(file.stem for file in EXAMPLES.iterdir())
    assert len(LIST) > 20


@pytest.mark.parametrize("name", [each.name for each in LIST])
def test_lint_finds_nothing_but_the_mistakes(name: str) -> None:
    found = {each.rule for each in ropecli.lint(f"example:{name}") if each.level != "note"}
    assert found == ({MISTAKES[name]} if name in MISTAKES else set())


@pytest.mark.parametrize(("name", "stored"), PUBLISHED.items())
def test_table_is_that_of_transformers(name: str, stored: str) -> None:
    entry = published_configs()[stored]
    for key, table in entry["inv_freq"].items():
        factor = entry["attention_factor"].get(key.replace("inv_freq", "attention_scaling"), 1.0)
        assert is_in(table, factor, layers(name)), key


@pytest.mark.parametrize(("name", "source"), MEASURED.items())
def test_table_is_the_one_that_was_measured(name: str, source: str) -> None:
    (line,) = (each for each in lines("transformers") if each["source"].endswith(source))
    modules = [each for each in line["expected"] if "vis" not in each["module"]]
    assert modules
    for each in modules:
        assert is_in(each["inv_freq"], each["attention_factor"], layers(name)), each["module"]


def test_model_outside_transformers_is_the_one_that_was_looked_up() -> None:
    (line,) = (each for each in lines("remote_code") if each["name"].startswith("InternLM2"))
    assert is_in(line["inv_freq"], line["attention_factor"], layers("internlm2-20b"))


@pytest.mark.parametrize(("name", "title"), RELEASED_AS.items())
def test_rotations_are_those_of_the_released_file(name: str, title: str) -> None:
    stored = [each.rotary for each in load_model(RELEASED[title][0]).layers if each.rotary]
    assert stored
    assert all(each in [layer.rotary for layer in layers(name)] for each in stored)


def test_list_is_a_table_on_the_command_line() -> None:
    text = read_stdout("inspect", "--examples")
    assert all(len(line) <= 80 for line in text.splitlines()[:-1])
    assert str(EXAMPLES) in text
    document = read_json("inspect", "--examples")
    assert [*document["result"]] == ["examples", "folder"]
    assert [each["name"] for each in document["result"]["examples"]] == [x.name for x in LIST]
