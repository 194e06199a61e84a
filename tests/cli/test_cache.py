"""The cache command: what it asks the library for, what it prints, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from helpers import assert_refused, for_each, read_json, read_stdout

from ropecli import Rotary, cache_mix, cache_quantize, cache_shift, load_model, rope

DYNAMIC = "--dim 8 --rope-type dynamic --set factor=2 --context 64"


def test_the_options_are_those_of_the_calls(here: Path) -> None:
    k = np.random.default_rng(0).standard_normal((2, 6, 8))
    np.save(here / "k.npy", k)
    small = Rotary(8)
    dynamic = rope("dynamic", head_dim=8, factor=2.0, max_position_embeddings=64)
    for words, result in [
        ("--dim 8 --shift 3 --times 5", cache_shift(small, shift=3, times=5)),
        (
            "--dim 8 --shift -1 --dtype float16 --seed 4",
            cache_shift(small, dtype="float16", seed=4),
        ),
        (f"{DYNAMIC} --prefill 64 --decode 128", cache_mix(dynamic, prefill=64, decode=128)),
        ("--dim 8 --quantize int8 --seed 1", cache_quantize(small, seed=1)),
        (
            "--k k.npy --quantize int4 --per group --group 4 --when before",
            cache_quantize(small, k, format="int4", per="group", group=4, when="before"),
        ),
    ]:
        got = read_json("cache", *words.split())["result"]
        assert got["mode"] == result.mode
        assert got["allowed"] == result.valid
        for name in ("reason", "key_error", "score_error_rms"):
            assert got[name] == getattr(result, name), (words, name)
        for name in ("by_pair", "distance", "by_distance"):
            assert got[name] == getattr(result, name).tolist(), (words, name)
        shifts = getattr(result, "by_shifts", np.empty(0))
        assert got["by_shifts"] == shifts.tolist()


def test_defaults_are_in_the_document() -> None:
    given = read_json("cache", "--dim", "4", "--shift", "-1")["parameters"]
    assert (given["times"], given["dtype"]) == (1000, "bfloat16")
    given = read_json("cache", "--dim", "8", "--quantize", "fp8")["parameters"]
    assert (given["per"], given["group"], given["when"]) == ("channel", None, "after")
    given = read_json("cache", "--quantize", "fp8", "--per", "group")["parameters"]
    assert (given["dim"], given["group"]) == (128, 32)


def test_a_model_and_its_layers(here: Path) -> None:
    words = ("--shift", "-1", "--times", "3")
    got = read_json("cache", "--model", "example:phi-4-mini", *words)["result"]
    layer = load_model("example:phi-4-mini").layer().rotary
    assert layer is not None
    assert got["reason"] == cache_shift(layer, times=3).reason
    assert got["label"].startswith("phi3: ")
    message = assert_refused("cache", "--model", "example:gemma-3-4b", *words)
    assert "several kinds of layers (sliding_attention, full_attention)" in message
    chosen = ("--layer", "full_attention")
    assert read_json("cache", "--model", "example:gemma-3-4b", *chosen, *words)["result"]["allowed"]
    none = read_json("cache", "--model", "example:smollm3-3b", *words)["result"]  # NoPE layers
    assert none["allowed"]
    (here / "config.json").write_text('{"model_type": "bloom", "hidden_size": 64, "n_head": 4}')
    refused = assert_refused("cache", "--model", "config.json", *words)
    assert "no rotary position embedding found" in refused


def test_the_table_is_tidy(here: Path) -> None:
    read_stdout("cache", "--dim", "4", "--shift", "-1", "--times", "2", "-o", "x.csv")
    head, *rows = (here / "x.csv").read_text().splitlines()
    assert head == "against,value,error"
    places = [row.rpartition(",")[0] for row in rows]
    assert places == ["pair,0.0", "pair,1.0", "shifts,1.0", "shifts,2.0"]
    read_stdout("cache", "--dim", "4", "--quantize", "fp8", "-o", "y.csv")
    last = (here / "y.csv").read_text().splitlines()[-1]
    assert last.startswith("distance,1015.5,")


@for_each(
    "words, message",
    [
        ("", "give --shift N, --prefill N with --decode N, or --quantize FORM"),
        ("--prefill 5", "--prefill requires --decode"),
        ("--decode 5", "--decode requires --prefill"),
        ("--times 5 --quantize int8", "--times requires --shift"),
        ("--dtype float16", "--dtype requires --shift"),
        ("--per token --shift -1", "--per requires --quantize"),
        ("--k k.npy --shift -1", "--k requires --quantize"),
        ("--shift -1 --quantize int8", "--quantize cannot be combined with --shift"),
        ("--shift -1 --prefill 1 --decode 2", "--prefill, --decode cannot be combined with"),
        ("--prefill 1 --decode 2 --quantize int8", "--quantize cannot be combined with --prefill"),
        ("--prefill 1 --decode 2 --seed 1", "--seed cannot be combined with --prefill"),
        ("--prefill 1 --decode 2 --sequence-length 3", "--sequence-length cannot be combined with"),
        ("--quantize int8 --k k.npy --seed 1", "--seed cannot be combined with --k"),
        ("--quantize int8 --group 4", "group has no effect on scales per channel"),
        ("--quantize int7", "quantization format must be one of int8, int4, fp8, got 'int7'"),
        ("--shift 0", "shift must be from 1 to 2^30 in either direction, got 0"),
        ("--prefill 5 --decode 4", "decode must be at least prefill, 5, got 4"),
        ("--context 5 --shift -1", "--context has no effect on rope type default"),
        ("--quantize int8 --k k.npy --dim 6", "k.npy"),
    ],
)
def test_what_is_refused(words: str, message: str, here: Path) -> None:
    np.save(here / "k.npy", np.ones((3, 8)))
    assert message in assert_refused("cache", *words.split())
