"""Files that the rows of `calls/*.txt` name: models, arrays, code, and names that lead nowhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from cli.kernel import KERNEL
from helpers import random_array
from models.configs import (
    BLOOM,
    DYNAMIC,
    GPT_OSS,
    LLAMA_31,
    PHI_3,
    QWEN2_VL,
    SMOLLM3,
    TINY,
)
from models.gguf.writer import gguf
from models.lint.cases import CASES, config, llama
from safetensors.numpy import save_file

from ropecli import Rotary, rotate
from ropecli.files.formats.safetensors import serialize

#: Layers with a window and without, each with its base.
GEMMA: dict[str, Any] = {
    "model_type": "gemma3_text",
    "head_dim": 32,
    "hidden_size": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 6,
    "max_position_embeddings": 2000,
    "sliding_window": 100,
    "rope_theta": 1e6,
    "rope_local_base_freq": 10_000.0,
}
MODELS: dict[str, dict[str, Any]] = {
    "bad": LLAMA_31 | {"rope_scaling": {"rope_type": "lama3"}},
    "bloom": BLOOM,
    "dynamic": DYNAMIC,
    "gemma": GEMMA,
    "gpt-oss": GPT_OSS,
    "llama": LLAMA_31,
    "nope": SMOLLM3 | {"no_rope_layers": [0] * SMOLLM3["num_hidden_layers"]},
    "phi": PHI_3,
    "plain": LLAMA_31 | {"rope_scaling": None},
    "qwen": QWEN2_VL,
    "smollm": SMOLLM3,
    "tiny": TINY,
    "matching": TINY | {"model_type": "cohere"},
    "noted": CASES["R034"].fires,
    "wrong": CASES["R012"].fires,
    "lengthless": {"hidden_size": 64, "num_attention_heads": 4, "rope_theta": 100.0},
}
#: Three layers of which the first and the last have a window, and a base of their own.
WINDOWS: dict[str, Any] = {
    "model_type": "gemma3_text",
    "hidden_size": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_hidden_layers": 3,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}
#: Models whose context length is extended.
CODER: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "rope_theta": 100.0,
    "rope_scaling": {"type": "linear", "factor": 4.0},
}
YARN: dict[str, Any] = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 64,
    "beta_fast": 8.0,
}
ATTENTION = {"rope_scaling": YARN | {"attention_factor": 1.5}, "max_position_embeddings": 256}
DEEPSEEK = {
    "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 64}
    | {"mscale": 0.707, "mscale_all_dim": 0.707},
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "kv_lora_rank": 8,
    "max_position_embeddings": 256,
}
#: A file without findings, and files with a mistake that can be fixed.
SOUND: dict[str, Any] = config(max_position_embeddings=16_384)  # which the base holds
LONGER = config(
    max_position_embeddings=131_072,
    rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768},
)
FALCON = {"model_type": "falcon", "hidden_size": 32, "num_attention_heads": 4}
MODELS |= {
    "sound": SOUND,
    "misspelt": {k: v for k, v in LONGER.items() if k != "rope_theta"} | {"rope_teta": 5e5},
    "integer": LONGER
    | {"rope_theta": 1e6}
    | {"rope_scaling": LONGER["rope_scaling"] | {"attention_factor": 1}},
    "falcon-1/config": FALCON,
    "falcon-2/config": FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2},
    "falcon-4/config": FALCON | {"multi_query": False},
    "coder": CODER,
    "coder-3": CODER | {"rope_scaling": {"type": "linear", "factor": 3.0}},  # of 170.67 positions
    "coder-yarn": CODER | ATTENTION,
    "coder-llama-cpp": CODER | ATTENTION | {"rope_scaling": YARN | {"attn_factor": 0.9}},
    "deepseek-v2": CODER | DEEPSEEK | {"model_type": "deepseek_v2"},
    "deepseek-v3": CODER | DEEPSEEK | {"model_type": "deepseek_v3"},
    "gptj": CODER | {"model_type": "gptj", "rope_scaling": None},
    "hunyuan": CODER
    | {"model_type": "hunyuan_v1_dense", "head_dim": 16}
    | {"rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}},
    "ministral": CODER
    | {"model_type": "ministral3"}
    | {"rope_scaling": YARN | {"attention_factor": 1.5, "llama_4_scaling_beta": 0.1}},
    "split": TINY | {"head_dim": 32, "max_position_embeddings": 2048},
    "split-5e5": TINY | {"head_dim": 32, "max_position_embeddings": 2048, "rope_theta": 5e5},
    "another-base": TINY | {"model_type": "cohere", "rope_theta": 500_000.0},
    "another-type": TINY
    | {"model_type": "cohere", "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    "codegen": WINDOWS | {"model_type": "codegen", "rotary_dim": 8},
    "grouped": TINY | {"num_key_value_heads": 2},
    "far": GEMMA | {"sliding_window": 4096},
    "model/config": WINDOWS,
    "model/nope": WINDOWS | {"model_type": "smollm3", "no_rope_layers": [1, 0, 1]},
    "short-llama": LLAMA_31
    | {"max_position_embeddings": 512}
    | {"rope_scaling": LLAMA_31["rope_scaling"] | {"original_max_position_embeddings": 128}},
    "short-phi": PHI_3 | {"max_position_embeddings": 512, "original_max_position_embeddings": 128},
}
#: Models of one type and factor whose frequencies differ, by the low frequency factor.
SCALED = {"one": 1.0, "two": 2.0, "a/config": 3.0, "b/config": 1.5, "other": 1.0, "large": 1.0}
#: Weights for 2 heads of 4.
QUERY = np.random.default_rng(3).standard_normal((2, 8, 4))


def arrays() -> dict[str, Any]:
    """Return the arrays of .npy files by name."""
    q, k, *rows = random_array(5, 8, dtype="f8")
    x, tokens = random_array(3, 50, 16), random_array(6, 4, dtype="f8")
    before = random_array(2, 512, 8, dtype="f8")
    layers, heads = random_array(11, 2, 5, 8), random_array(2, 3, 32, 8, dtype="f8")
    half = rotate(x.reshape(3, 50, 2, 8).swapaxes(1, 2), Rotary(8, layout="half"))
    half = half.swapaxes(1, 2).reshape(3, 50, 16)
    one_row = random_array(3, 64, dtype="f8")
    broken = random_array(4, 8, dtype=np.float16)
    broken[1, 2], broken[2, 5], broken[3, :2] = np.nan, np.inf, 60_000
    turned = rotate(heads, Rotary(8))
    return {
        "q": q,
        "k": k.astype(np.float32),
        "rows": rows,
        "norows": np.ones((0, 8)),
        "scalar": 3.0,
        "bool": q > 0,
        "void": np.ones(8, "V2"),
        "long": np.ones(128),
        "tokens": tokens,
        "values": tokens[:, :3],
        "vector": tokens[0],
        "fewer": tokens[:5, :3],
        "wide": np.ones((6, 1026)),
        "one": np.ones((1, 8)),
        "nan": np.where(np.arange(6) == 2, np.nan, tokens.T).T,
        "keys": np.random.default_rng(0).standard_normal((2, 6, 8)),
        "layers": layers,
        "one-head": layers[:, :1],
        "side-by-side": layers.swapaxes(1, 2).reshape(11, 5, 16),
        "tokens-first": np.moveaxis(layers, 2, 0),
        "guess": random_array(2, 3, 4, 1024),
        "broken": broken,
        "x128": random_array(2, 10, 128),
        "points": np.random.default_rng(2).integers(0, 50, (10, 3)),
        "table": random_array(2, 8, dtype="f8"),
        "grid": np.stack([np.arange(50) // 10, -(np.arange(50) % 10)], axis=-1),
        "heads": heads.swapaxes(1, 2),
        "heads-after": turned.swapaxes(1, 2),
        "flat": heads.swapaxes(1, 2).reshape(2, 32, 24),
        "flat-after": turned.swapaxes(1, 2).reshape(2, 32, 24),
        "noise": before + np.sin(np.arange(512))[:, None],
        "x": x,
        "odd": x[0, :4, :7],
        "odd2": x[1, :4, :7],
        "whole": np.ones((4, 8), int),
        "three": np.arange(3),
        "not-finite": np.full(512, np.nan),
        "there": x[0, :1, :2],
        "four": random_array(2, 2, 2, 8),
        "a": random_array(4, 8),
        "b": random_array(5, 8),
        "c": random_array(2, 3, 4, 8),
        "d": random_array(2, 3, 4, 8),
        "my keys": random_array(4, 8),
        "it's": random_array(4, 8, seed=1),
        "five": np.arange(5) * 3,
        "far": np.array([0, 100_000, 7, 0]),
        "half": half,
        "one-off": np.where(np.arange(2400).reshape(3, 50, 16) == 800 + 320 + 11, half + 1, half),
        "huge": np.full((2, 8), 3e38, "f4"),
        "large": np.full((2, 8), 6e4, "f2"),
        "one-row": one_row,
        "one-row-after": rotate(one_row, Rotary(64), [0, 1, 3]),
        "padded": np.array([[7, 0, 1]]),
        "mask": np.array([[False, True, True]]),
        "before": before,
        "after": rotate(before, Rotary(8)),
        "not-finite-before": np.where(before == before[0, 1, 2], np.nan, before),
        "integers": before.astype(int),
        "column": np.arange(512)[:, None],
    }


def write_files(folder: Path) -> None:
    """Write all files into a folder."""
    for name, content in (MODELS | {name: _scaled(name) for name in SCALED}).items():
        path = folder / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
    for name, array in arrays().items():
        np.save(folder / f"{name}.npy", np.asarray(array))
    np.save(folder / "objects.npy", np.array([1, "a"], dtype=object), allow_pickle=True)
    np.savez(folder / "two.npz", a=np.ones((3, 8)), b=np.ones((3, 8)))
    np.savez(folder / "query.npz", query=QUERY)
    named: dict[str, Any] = {"rope.query": QUERY, "nope.query": 2 * QUERY}
    np.savez(folder / "named.npz", **named)
    save_file(named, folder / "named.safetensors")
    _write_what_is_not_read(folder)
    _write_tensors(folder)
    (folder / "kernel.py").write_text(KERNEL)
    late = "def rotate(x, positions):\n    import kernel\n    return kernel.split(x, positions)\n"
    (folder / "late.py").write_text(late)
    sources = {"import": "import no_such_module_anywhere", "three": "f = 3"}
    sources["raises"] = "def f(x):\n    raise RuntimeError('no\\nmore')\n"
    for name, source in (sources | {"exit": "raise SystemExit(0)", "nothing": ""}).items():
        (folder / f"{name}.py").write_text(source)


def _scaled(name: str) -> dict[str, Any]:
    scaling = LLAMA_31["rope_scaling"] | {"low_freq_factor": SCALED[name]}
    own: dict[str, Any] = {"hidden_size": 512, "num_attention_heads": 8, "rope_scaling": scaling}
    own |= {"model_type": "qwen2"} if name == "other" else {}
    return LLAMA_31 | own | ({"rope_theta": 5e6} if name == "large" else {})


def _write_what_is_not_read(folder: Path) -> None:
    contents = {"words.npy": b"these are words", "words.safetensors": b"these are words"}
    contents |= {"empty.npz": b"", "empty.npy": b"", "before.txt": b""}
    contents |= {"there.csv": b"mine", "there.png": b"mine", "code.npz": b"f = 3"}
    contents |= {"integer.fixed.json": b"mine", "x.gguf": gguf(llama(rope__freq_base=None))}
    contents["cut.npy"] = (folder / "x.npy").read_bytes()[:-1]
    contents["x.bin"] = np.load(folder / "x.npy").tobytes()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    for name in ("folder", "folder.npy", "folder.png"):
        (folder / name).mkdir()
    for suffix in ("json", "svg", "npy", "csv"):  # models, under names that outputs may have
        (folder / f"m.{suffix}").write_text(json.dumps(TINY))
    for name, array in (("q.csv", np.ones(8)), ("x.csv", np.ones((3, 8)))):
        with (folder / name).open("wb") as stream:
            np.save(stream, array)
    (folder / "w.csv").write_bytes((folder / "query.npz").read_bytes())
    (folder / "symbolic.svg").symlink_to("m.svg")
    (folder / "hard.svg").hardlink_to(folder / "m.svg")
    (folder / "loop.npy").symlink_to("loop.npy")
    (folder / "link.npy").symlink_to("x.npy")


def _write_tensors(folder: Path) -> None:
    (folder / "dump").mkdir()
    later = {"k": random_array(4, 8), "q": random_array(2, 3, 4, 8)}
    save_file(later, folder / "later.safetensors")
    model: dict[str, Any] = {}
    shapes = {"a": (4, 8), "b": (4, 8), "c": (4, 7)}
    for name in ("dump/1", "dump/2", "uneven"):
        tensors = {key: random_array(*shape) for key, shape in shapes.items()}
        save_file(tensors, folder / f"{name}.safetensors")
    layers = {
        f"layers.{i}.{name}": layer
        for i, layer in enumerate(np.load(folder / "layers.npy"))
        for name in ("q", "k")
    }
    x = random_array(32, 8).astype(ml_dtypes.bfloat16)
    y = rotate(x, Rotary(8))
    single: dict[str, Any] = {"q": x.astype(np.float32), "k": x.astype(np.float32)}
    np.savez(folder / "dump.npz", **single, q_out=rotate(single["q"], Rotary(8)))
    np.savez(folder / "turned.npz", q=rotate(single["q"], Rotary(8)), k=single["k"])
    np.save(folder / "turned.npy", rotate(single["q"], Rotary(8)))
    (folder / "dump.safetensors").write_bytes(serialize({"q": x, "q_out": y}))
    np.save(folder / "bfloat16.npy", x)
    np.save(folder / "bfloat16-after.npy", y)
    save_file(layers | {"layers.9.z": layers["layers.0.q"][:1]}, folder / "layers.safetensors")
    for layer in range(3):
        start, rows = f"model.layers.{layer}.", {"q": 32, "k": 16}
        model |= {f"{start}self_attn.{k}_proj.weight": random_array(n, 16) for k, n in rows.items()}
        model[f"{start}input_layernorm.weight"] = random_array(16)
    save_file(model, folder / "model" / "w.safetensors")
    for keys in (1, 2, 4):
        name = "transformer.h.0.self_attention.query_key_value.weight"
        weights = {name: random_array((4 + 2 * keys) * 8, 32)}
        save_file(weights, folder / f"falcon-{keys}" / "w.safetensors")
    weights = {
        f"{name}_proj.weight": random_array(rows, 6) for name, rows in (("q", 32), ("k", 16))
    }
    save_file(weights, folder / "weights.safetensors")
