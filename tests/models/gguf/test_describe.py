"""From a .gguf to what its blocks rotate by."""

from __future__ import annotations

from pathlib import Path

import pytest
from files.folders import refused
from models.gguf.writer import float32, gguf, llama, model, saved

from ropecli.models.gguf import describe_gguf
from ropecli.models.load import load_model


def test_llama(tmp_path: Path) -> None:
    metadata = llama(**{"rope.freq_base": 5e5, "rope.dimension_count": 64})
    path = saved(tmp_path, gguf(metadata, {"rope_freqs.weight": float32([2.0] * 32)}))
    described = describe_gguf(path)
    assert (described.source, described.format) == (str(path), "gguf")
    assert described.model_type == "llama"
    assert described.raw == metadata
    loaded = load_model(path)
    assert (loaded.format, loaded.reading, loaded.model_type) == ("gguf", "llama.cpp", "llama")
    got = loaded.layer().rotary
    assert got is not None
    assert got.layout == "interleaved"
    assert got.inv_freq.tolist() == pytest.approx([5e5 ** (-i / 32) / 2 for i in range(32)])


def test_blocks_by_name(tmp_path: Path) -> None:
    keys = {"attention.key_length": 8, "block_count": 4, "rope.freq_base": 1e6}
    loaded = load_model(saved(tmp_path, gguf(model("cohere2", keys))))
    assert loaded.layer("full_attention").rotary is None
    assert loaded.layer() is loaded.layer("sliding_attention")
    assert loaded.layer().settings.layers == (0, 1, 2)


def test_length_chooses_the_list_of_longrope(tmp_path: Path) -> None:
    keys = {
        "context_length": 131_072,
        "attention.key_length": 4,
        "rope.scaling.original_context_length": 4096,
    }
    lists = {
        "rope_factors_long.weight": float32([2, 4]),
        "rope_factors_short.weight": float32([1, 1]),
    }
    path = saved(tmp_path, gguf(model("phi3", keys), lists))
    for length, expected in ((None, [0.5, 0.0025]), (4097, [0.5, 0.0025]), (4096, [1, 0.01])):
        got = load_model(path, sequence_length=length).layer().rotary
        assert got is not None
        assert got.inv_freq.tolist() == pytest.approx(expected)


def test_file_that_says_something_impossible(tmp_path: Path) -> None:
    path = saved(tmp_path, gguf(llama(**{"rope.freq_base": -1.0})))
    message = refused(load_model, path)
    assert message == f"{path}: llama.rope.freq_base is -1.0; expected a number from 1e-30 to 1e+30"
