"""Loading a model: where it comes from, what is said of it, what is refused."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from models.configs import ALL, DEEPSEEK_V3, GEMMA_3, LLAMA_31, QWEN2_VL, SMOLLM3

from ropecli import ArgumentError, ArgumentTypeError, FileError, RopecliError, load_model

TEXT = json.dumps(LLAMA_31)


def test_a_file_a_folder_an_object_and_stdin_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.json"
    path.write_text(TEXT)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    models = [load_model(source) for source in (path, str(tmp_path), tmp_path, LLAMA_31, "-")]
    assert len({model.layers[0].rotary for model in models}) == 1
    assert [m.source for m in models] == [*[str(path)] * 3, "config.json", "-"]
    assert {(m.format, m.model_type) for m in models} == {("config.json", "llama")}


def test_a_layer_says_its_lengths() -> None:
    (layer,) = load_model(LLAMA_31).layers
    assert (layer.name, layer.context_length, layer.original_context_length) == (
        "all",
        131_072,
        8192,
    )
    assert layer.rotary is not None
    slow = int((layer.rotary.wavelength > 131_072).sum())
    assert layer.incomplete_pairs == slow == 25


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("llama-3.1", ["all"]),
        ("gpt-oss", ["all"]),
        ("gemma-3", ["full_attention", "sliding_attention"]),
        ("qwen2-vl", ["all", "vision"]),
        ("smollm3", ["rope", "nope"]),
    ],
)
def test_layers_have_the_names_of_their_kinds(name: str, layers: list[str]) -> None:
    assert sorted(layer.name for layer in load_model(ALL[name]).layers) == sorted(layers)


def test_scaling_is_for_the_full_layers_of_gemma_3_alone() -> None:
    model = load_model(GEMMA_3)
    full, sliding = (model.layer(n).rotary for n in ("full_attention", "sliding_attention"))
    assert full is not None
    assert sliding is not None
    assert (full.rope_type, full.base, full.inv_freq[0]) == ("linear", 1e6, 1 / 8)
    assert (sliding.rope_type, sliding.base, sliding.inv_freq[0]) == ("default", 1e4, 1)


def test_a_1_in_no_rope_layers_means_rope() -> None:
    model = load_model(SMOLLM3)
    assert [layer.settings.layers for layer in model.layers] == [(0, 1, 2, 4, 5, 6), (3, 7)]
    assert model.layer("nope").rotary is None
    assert model.layer().name == "rope"  # the only one that has a rotation


def test_text_has_three_axes_and_the_image_two() -> None:
    model = load_model(QWEN2_VL)
    axes = {layer.name: layer.rotary.axes for layer in model.layers if layer.rotary is not None}
    assert axes == {"all": 3, "vision": 2}


def test_deepseek_rotates_the_end_of_a_head_and_reorders_it() -> None:
    rope = load_model(DEEPSEEK_V3).layer().rotary
    assert rope is not None
    assert (rope.head_dim, rope.rotary_dim, rope.rotary_offset) == (192, 64, 128)
    assert rope.pairs_in[1].tolist() == [130, 131]
    assert rope.pairs_out[1].tolist() == [129, 161]


def test_an_unknown_model_type_works_and_says_what_was_assumed() -> None:
    config = LLAMA_31 | {"model_type": "mystery"}
    (layer,) = load_model(config).layers
    assert layer.rotary == load_model(LLAMA_31).layer().rotary
    assert any("'mystery' is unknown" in sentence for sentence in layer.settings.assumed)
    assert any("layout half" in sentence for sentence in layer.settings.assumed)
    (known,) = load_model(LLAMA_31).layers
    assert known.settings.assumed == ()


def test_a_missing_base_is_said() -> None:
    config = {k: v for k, v in LLAMA_31.items() if k not in ("rope_theta", "rope_scaling")}
    (layer,) = load_model(config | {"model_type": "mystery"}).layers
    assert layer.rotary is not None
    assert layer.rotary.base == 10_000
    assert any("base 10000: no rope_theta" in sentence for sentence in layer.settings.assumed)


@pytest.mark.parametrize("key", ["rotary_emb_base", "rope_theta"])
def test_aliases_of_the_base(key: str) -> None:
    config = {"hidden_size": 64, "num_attention_heads": 4, key: 5000}
    rope = load_model(config).layer().rotary
    assert rope is not None
    assert rope.base == 5000


def test_rope_ratio_multiplies_the_base() -> None:
    config = {"hidden_size": 64, "num_attention_heads": 4, "rope_ratio": 50}
    rope = load_model(config).layer().rotary
    assert rope is not None
    assert rope.base == 500_000


@pytest.mark.parametrize("inner", [None, 8192])
@pytest.mark.parametrize("model_type", ["llama", "qwen3", "mystery"])
def test_where_the_original_length_stands(model_type: str, inner: int | None) -> None:
    """Transformers' tables have the top level's first, but not under layer types."""
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": inner}
    config = LLAMA_31 | {"model_type": model_type, "original_max_position_embeddings": 2048}
    flat = load_model(config | {"rope_scaling": yarn}).layer()
    assert flat.original_context_length == 2048
    nested = {"full_attention": yarn | {"rope_theta": 1e4}}
    layer = load_model(config | {"rope_scaling": None, "rope_parameters": nested}).layer()
    assert layer.original_context_length == (inner or 131_072)


def test_a_truncate_of_null_is_as_good_as_false() -> None:
    def table(truncate: bool | None) -> list[float]:
        scaling = ALL["gpt-oss"]["rope_scaling"] | {"truncate": truncate}
        rope = load_model(ALL["gpt-oss"] | {"rope_scaling": scaling}).layer().rotary
        assert rope is not None
        return list(rope.frequencies)

    assert table(None) == table(False) != table(True)


def test_an_absolute_that_nobody_reads() -> None:
    config = {
        "model_type": "modernbert",
        "hidden_size": 768,
        "num_attention_heads": 12,
        "position_embedding_type": "absolute",
        "global_rope_theta": 160_000.0,
        "local_rope_theta": 10_000.0,
    }
    bases = {layer.name: layer.rotary for layer in load_model(config).layers}
    assert {name: rope.base for name, rope in bases.items() if rope is not None} == {
        "full_attention": 160_000.0,
        "sliding_attention": 10_000.0,
    }
    with pytest.raises(FileError, match="no rotary position embedding found"):
        load_model(config | {"model_type": "mystery"})


def test_a_base_for_every_layer() -> None:
    config = {
        "model_type": "step3p5",
        "head_dim": 128,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        "rope_theta": [5e6, 1e4, 1e4],
        "partial_rotary_factors": [0.5, 1.0, 1.0],
        "max_position_embeddings": 262_144,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 2.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 32.0,
            "original_max_position_embeddings": 131_072,
        },
    }
    model = load_model(config)
    full, sliding = (model.layer(n).rotary for n in ("full_attention", "sliding_attention"))
    assert full is not None
    assert sliding is not None
    assert (full.base, full.rotary_dim, full.rope_type) == (5e6, 64, "llama3")
    assert (sliding.base, sliding.rotary_dim, sliding.rope_type) == (1e4, 128, "default")
    with pytest.raises(FileError, match="a list as rope_theta needs layer_types"):
        load_model(config | {"layer_types": None})


def test_two_kinds_need_a_name() -> None:
    model = load_model(GEMMA_3)
    with pytest.raises(ArgumentError, match=r"several kinds .*; choose one with layer"):
        model.layer()
    with pytest.raises(ArgumentError, match=r"layer must be one of .*, got 'global'"):
        model.layer("global")


# Refusals.


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not valid JSON"),
        (b"{", "is not valid JSON"),
        (b"\xff\xfe{}", "is not valid JSON"),
        (b"\x93NUMPY\x01\x00", "is a binary file: neither a config.json nor a GGUF"),
        (b"[1, 2]", "must hold a JSON object, got an array"),
        (b"null", "must hold a JSON object, got null"),
        (b"[" * 100_000, "is nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "a number in it has thousands of digits"),
        (b" " * (5 << 20), "is larger than the 4 MiB"),
        (b"{}", "no rotary position embedding found"),
        (b'{"model_type": "bert"}', "no rotary position embedding found"),
        (b'{"rope_theta": "big", "head_dim": 8}', "rope_theta must be a number, got 'big'"),
        (b'{"rope_theta": -1, "head_dim": 8}', "base must be finite and above 0, got -1"),
        (b'{"rope_theta": 1e4, "head_dim": 7}', "must be an even number of at least 2, got 7"),
        (b'{"rope_theta": 1e4}', "the head dim needs "),
        (b'{"rope_theta": 1e4, "head_dim": 8, "rope_scaling": "yarn"}', "must be an object"),
    ],
)
def test_what_a_file_must_not_hold(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(FileError) as caught:
        load_model(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_key_that_stands_twice_counts_as_its_last(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"head_dim": 8, "rope_theta": 1, "rope_theta": 500}')
    rope = load_model(path).layer().rotary
    assert rope is not None
    assert rope.base == 500


@pytest.mark.parametrize("source", [7, None, b"config.json", ["config.json"]])
def test_a_source_that_is_none(source: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="source must be a path or the object of a config"):
        load_model(source)


def test_folders_that_hold_no_model(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"holds no config\.json, and no \.gguf file"):
        load_model(tmp_path)
    for name in "ab":
        (tmp_path / f"{name}.gguf").touch()
    with pytest.raises(FileError, match=r"and 2 .gguf files: name one"):
        load_model(tmp_path)


@pytest.mark.parametrize("name", ["missing.json", "a\x00b", "x" * 300])
def test_paths_that_lead_nowhere(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"^cannot read "):
        load_model(tmp_path / name)


@pytest.mark.parametrize("length", [0, -1, 2**53 + 1])
def test_sequence_lengths_out_of_range(length: int) -> None:
    with pytest.raises(RopecliError, match="sequence_length must be from 1"):
        load_model(LLAMA_31, sequence_length=length)
