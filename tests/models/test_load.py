"""Loading a model: sources, lines of keys, and files that are refused."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from models.configs import LLAMA_31

import ropecli
from ropecli import ArgumentTypeError, FileError, RopecliError, load_model

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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (ropecli.decay, "rope must be a Rotary, got Model; give model.layer().rotary"),
        (ropecli.frequency_table, "rope must be a Rotary, got Model; give model.layer().rotary"),
        (
            ropecli.check,
            "target must be code that rotates, got a Model; give the code, and the Rotary, such "
            "as model.layer().rotary, as expect",
        ),
    ],
)
def test_a_model_in_place_of_its_rotary_is_refused_with_what_to_write(
    call: Callable[[Any], Any], message: str
) -> None:
    model = load_model(LLAMA_31)
    with pytest.raises(ArgumentTypeError) as caught:
        call(model)
    assert str(caught.value) == message
    advised = model.layer().rotary
    assert advised is not None
    assert ropecli.decay(advised, max_distance=2).rope == advised


def test_a_source_in_place_of_a_rotary_is_refused_with_what_to_write() -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        ropecli.decay("example:llama-3-8b")  # type: ignore[arg-type]
    advice = "give ropecli.load_model('example:llama-3-8b').layer().rotary"
    assert str(caught.value) == f"rope must be a Rotary, got str; {advice}"
    with pytest.raises(ArgumentTypeError, match=r"expect must be .*; give model.layer\(\).rotary$"):
        ropecli.check("math:sqrt", expect=load_model(LLAMA_31))  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("model_type", "said"),
    [("llama", "llama, as transformers 5"), ("of_mine", "of_mine, assumed to be like Llama")],
)
def test_a_page_says_who_reads_the_file_or_that_it_is_assumed(model_type: str, said: str) -> None:
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "rope_theta": 5e5}
    assert said in str(load_model({"model_type": model_type, **sizes})).partition("\n")[0]


SIZES = {"dim": 4096, "n_layers": 32, "n_heads": 32, "rope_theta": 5e5}


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("params.json", SIZES, "a params.json in the format of Meta or Mistral"),
        ("params.json", SIZES | {"yarn": {"factor": 16}}, "a params.json in the format of Meta or"),
        ("shown.json", {"model_info": {}, "details": {}}, "the output of ollama show"),
        ("model.yaml", "rotary_base: 500000", "YAML, as of NeMo"),
        ("model.yml", "- 1", "YAML, as of NeMo"),
    ],
)
def test_another_format_is_refused_by_name(
    tmp_path: Path, name: str, content: Any, what: str
) -> None:
    (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    for read in (load_model, ropecli.lint):
        with pytest.raises(FileError, match=f"{name} is {what}.*, not a config.json; give the"):
            read(tmp_path / name)
    if isinstance(content, dict):
        with pytest.raises(FileError, match=what):
            load_model(content)


def test_keys_of_another_format_beside_a_model_type_are_a_config() -> None:
    rotary = load_model(SIZES | {"model_type": "of_mine"}).layer().rotary
    assert rotary is not None
    assert rotary.head_dim == 128


def test_dinov3_has_the_frequencies_of_its_image_from_patch_to_patch() -> None:
    """Transformers' module gives these for an image of 224 in patches of 16."""
    keys = {"model_type": "dinov3_vit", "image_size": 224, "patch_size": 16}
    model = load_model(keys)
    layer = model.layer()
    assert layer.rotary is not None
    first = [0.8976, 0.6731, 0.5048, 0.3785]
    assert layer.rotary.inv_freq[0, :4].tolist() == pytest.approx(first, abs=5e-5)
    assert layer.incomplete_pairs == 2 * (16 - 3)
    assert "26 of 32 never complete a turn within the image" in str(model)
    assert "the table is for 14 x 14 patches" in str(model)


def test_the_sides_of_an_image_have_frequencies_of_their_own() -> None:
    keys = {"model_type": "dinov3_vit", "image_size": [224, 112], "patch_size": [16, 8]}
    narrow = {"model_type": "dinov3_vit", "image_size": [224, 112], "patch_size": 16}
    for given, ratio in ((keys, 1), (narrow, 2)):
        layer = load_model(given).layer()
        assert layer.rotary is not None
        rows, columns = layer.rotary.inv_freq
        assert columns[16:] == pytest.approx(ratio * rows[:16])
        assert layer.incomplete_pairs == 26


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ({"image_size": 0}, "image_size must be an integer above 0, or two of them, got 0"),
        ({"patch_size": [16]}, r"patch_size must be an integer above 0, or two of them, got \[16"),
        ({"image_size": 224.5}, "image_size must be an integer above 0, or two of them, got 224.5"),
        ({"image_size": [224, 8]}, r"image_size must be at least patch_size, got \[\[224, 8\], "),
    ],
)
def test_an_image_without_a_patch_is_refused(keys: dict[str, Any], error: str) -> None:
    with pytest.raises(FileError, match=error):
        load_model({"model_type": "dinov3_vit", **keys})


QWEN = {
    "model_type": "qwen",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "seq_length": 8192,
    "use_logn_attn": True,
    "rotary_emb_base": 10_000,
}


def test_a_factor_on_queries_that_the_code_of_a_model_has_is_named() -> None:
    """Qwen's own code: log(i, seq_length) for token i, counted from 1, beyond seq_length."""
    page = " ".join(str(load_model(QWEN)).split())
    assert "log n query m times ln(m + 1) / ln(8,192) from m = 8,192 on (use_logn_attn)" in page
    assert "vllm, llama.cpp and mlx-lm have no such factor" in page
    assert "log n" not in str(load_model(QWEN | {"use_logn_attn": False}))
    assert "log n" not in str(load_model(QWEN | {"model_type": "qwen2"}))
    found = [each for each in ropecli.lint(QWEN) if each.key == "use_logn_attn"]
    assert [each.rule for each in found] == ["R096"]
    assert found[0].message == "It has no effect in Transformers, vllm, llama.cpp and mlx-lm."
