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
from numpy.typing import NDArray

from ropecli import Rotary, permute, rotate
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
#: Of three layers, the first and the last have a window.
WINDOWS = TINY | {
    "model_type": "gemma3_text",
    "hidden_size": 16,
    "num_key_value_heads": 2,
    "rope_theta": 1e6,
    "num_hidden_layers": 3,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}
COHERE = TINY | {"model_type": "cohere"}  #: Interleaved.
#: A model whose context is extended, and other scalings of it.
CODER = TINY | {
    "head_dim": 16,
    "max_position_embeddings": 512,
    "rope_theta": 100.0,
    "rope_scaling": {"type": "linear", "factor": 4.0},
}
LENGTH = {"original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "factor": 4.0, **LENGTH, "beta_fast": 8.0}
ATTENTION = {"rope_scaling": YARN | {"attention_factor": 1.5}, "max_position_embeddings": 256}
MSCALE = {"type": "yarn", "factor": 4, **LENGTH, "mscale": 0.707, "mscale_all_dim": 0.707}
LATENT = {"qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "kv_lora_rank": 8}
DEEPSEEK = LATENT | {"rope_scaling": MSCALE, "max_position_embeddings": 256}
#: A file without findings but for what is changed.
LINTED = config(
    max_position_embeddings=131_072,
    rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768},
)
FALCON = {"model_type": "falcon", "hidden_size": 32, "num_attention_heads": 4}


def scaled(config: dict[str, Any], **scaling: Any) -> dict[str, Any]:
    """Return a configuration with other parameters of its scaling."""
    return config | {"rope_scaling": (config.get("rope_scaling") or {}) | scaling}


#: Models of one type and factor whose frequencies differ.
ALIKE = LLAMA_31 | {"hidden_size": 512, "num_attention_heads": 8}
MODELS: dict[str, dict[str, Any]] = {
    "bloom": BLOOM,
    "dynamic": DYNAMIC,
    "gemma": GEMMA,
    "far": GEMMA | {"sliding_window": 4096},
    "gpt-oss": GPT_OSS,
    "llama": LLAMA_31,
    "bad": LLAMA_31 | {"rope_scaling": {"rope_type": "lama3"}},
    "plain": LLAMA_31 | {"rope_scaling": None},
    "short-llama": scaled(LLAMA_31, original_max_position_embeddings=128)
    | {"max_position_embeddings": 512},
    "one": ALIKE,
    "two": scaled(ALIKE, low_freq_factor=2.0),
    "a/config": scaled(ALIKE, low_freq_factor=3.0),
    "b/config": scaled(ALIKE, low_freq_factor=1.5),
    "other": ALIKE | {"model_type": "qwen2"},
    "large": ALIKE | {"rope_theta": 5e6},
    "phi": PHI_3,
    "short-phi": PHI_3 | {"max_position_embeddings": 512, "original_max_position_embeddings": 128},
    "qwen": QWEN2_VL,
    "smollm": SMOLLM3,
    "nope": SMOLLM3 | {"no_rope_layers": [0] * SMOLLM3["num_hidden_layers"]},
    "tiny": TINY,
    "grouped": TINY | {"num_key_value_heads": 2},
    "split": TINY | {"head_dim": 32, "max_position_embeddings": 2048},
    "split-5e5": TINY | {"head_dim": 32, "max_position_embeddings": 2048, "rope_theta": 5e5},
    "matching": COHERE,
    "another-base": COHERE | {"rope_theta": 500_000.0},
    "another-type": scaled(COHERE, rope_type="linear", factor=2.0),
    "kinds": {"model_type": "mystery", "head_dim": 16, "hidden_size": 64}
    | {"rope_parameters": {f"kind {i}": {"rope_theta": 1e4 + i} for i in range(12)}},
    "lengthless": {"hidden_size": 64, "num_attention_heads": 4, "rope_theta": 100.0},
    "model/config": WINDOWS,
    "model/nope": WINDOWS | {"model_type": "smollm3", "no_rope_layers": [1, 0, 1]},
    "codegen": WINDOWS | {"model_type": "codegen", "rotary_dim": 8},
    "falcon-1/config": FALCON,
    "falcon-2/config": FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2},
    "falcon-4/config": FALCON | {"multi_query": False},
    "coder": CODER,
    "coder-3": scaled(CODER, factor=3.0),  # of 170.67 positions
    "coder-yarn": CODER | ATTENTION,
    "coder-llama-cpp": CODER | ATTENTION | {"rope_scaling": YARN | {"attn_factor": 0.9}},
    "deepseek-v2": CODER | DEEPSEEK | {"model_type": "deepseek_v2"},
    "deepseek-v3": CODER | DEEPSEEK | {"model_type": "deepseek_v3", "head_dim": 8},
    "gptj": CODER | {"model_type": "gptj", "rope_scaling": None},
    "hunyuan": scaled(CODER, type="dynamic", alpha=1000.0, factor=1.0)
    | {"model_type": "hunyuan_v1_dense"},
    "ministral": scaled(CODER | ATTENTION, llama_4_scaling_beta=0.1) | {"model_type": "ministral3"},
    "noted": CASES["R034"].fires,
    "wrong": CASES["R012"].fires,
    "sound": config(max_position_embeddings=16_384),  # which the base holds
    "misspelt": {k: v for k, v in LINTED.items() if k != "rope_theta"} | {"rope_teta": 5e5},
    "integer": scaled(LINTED | {"rope_theta": 1e6}, attention_factor=1),
}
#: Weights for 2 heads of 4.
QUERY = np.random.default_rng(3).standard_normal((2, 8, 4))
FUSED = "transformer.h.0.self_attention.query_key_value.weight"
ROPE = Rotary(8)


def by_heads(x: NDArray[Any]) -> NDArray[Any]:
    """Return (batch, heads, tokens, dim) with heads side by side."""
    y = x.swapaxes(1, 2)
    return y.reshape(*y.shape[:2], -1)


def arrays() -> dict[str, Any]:
    """Return the arrays of .npy files by name."""
    q, k, *rows = random_array(5, 8, dtype="f8")
    tokens, one_row = random_array(6, 4, dtype="f8"), random_array(3, 64, dtype="f8")
    before = random_array(2, 512, 8, dtype="f8")
    layers, heads = random_array(11, 2, 5, 8), random_array(2, 3, 32, 8, dtype="f8")
    x = random_array(3, 50, 16)
    half = by_heads(rotate(x.reshape(3, 50, 2, 8).swapaxes(1, 2), Rotary(8, layout="half")))
    broken = random_array(4, 8, dtype=np.float16)
    broken[1, 2], broken[2, 5], broken[3, :2] = np.nan, np.inf, 60_000
    bfloat16 = random_array(32, 8).astype(ml_dtypes.bfloat16)
    return {
        # Vectors, tokens, queries of layers.
        "q": q,
        "k": k.astype(np.float32),
        "rows": rows,
        "norows": np.ones((0, 8)),
        "scalar": 3.0,
        "long": np.ones(128),
        "vector": tokens[0],
        "tokens": tokens,
        "values": tokens[:, :3],
        "fewer": tokens[:5, :3],
        "wide": np.ones((6, 1026)),
        "nan": np.where(np.arange(6) == 2, np.nan, tokens.T).T,
        "keys": random_array(2, 6, 8, dtype="f8"),
        "layers": layers,
        "one-head": layers[:, :1],
        "side-by-side": by_heads(layers),
        "tokens-first": np.moveaxis(layers, 2, 0),
        # What is rotated.
        "x": x,
        "half": half,
        "one-off": np.where(np.arange(2400).reshape(3, 50, 16) == 800 + 320 + 11, half + 1, half),
        "a": random_array(4, 8),
        "b": random_array(5, 8),
        "c": random_array(2, 3, 4, 8),
        "d": random_array(2, 3, 4, 8),
        "my keys": random_array(4, 8),
        "it's": random_array(4, 8, seed=1),
        "x128": random_array(2, 10, 128),
        "four": random_array(2, 2, 2, 8),
        "guess": random_array(2, 3, 4, 1024),
        "odd": x[0, :4, :7],
        "there": x[0, :1, :2],
        "broken": broken,
        "huge": np.full((2, 8), 3e38, "f4"),
        "large": np.full((2, 8), 6e4, "f2"),
        # Positions, and frequencies.
        "three": np.arange(3),
        "five": np.arange(5) * 3,
        "far": np.array([0, 100_000, 7, 0]),
        "points": np.random.default_rng(2).integers(0, 50, (10, 3)),
        "grid": np.stack([np.arange(50) // 10, -(np.arange(50) % 10)], axis=-1),
        "not-finite": np.full(512, np.nan),
        "padded": np.array([[7, 0, 1]]),
        "mask": np.array([[False, True, True]]),
        "table": random_array(2, 8, dtype="f8"),
        # Before and after rotation.
        "before": before,
        "after": rotate(before, ROPE),
        "halves": rotate(before, Rotary(8, pairs_out=Rotary(8, layout="half").pairs_in)),
        "noise": before + np.sin(np.arange(512))[:, None],
        "heads": heads.swapaxes(1, 2),
        "heads-after": rotate(heads, ROPE).swapaxes(1, 2),
        "flat": by_heads(heads),
        "flat-after": by_heads(rotate(heads, ROPE)),
        "one-row": one_row,
        "one-row-after": rotate(one_row, Rotary(64), [0, 1, 3]),
        "bfloat16": bfloat16,
        "bfloat16-after": rotate(bfloat16, ROPE),
        "turned": rotate(random_array(32, 8), ROPE),
    }


def tensors() -> dict[str, dict[str, Any]]:
    """Return the tensors of files of several by their path."""
    narrow = random_array(32, 8).astype(ml_dtypes.bfloat16)
    layer = random_array(11, 2, 5, 8)
    layers = {f"layers.{i}.{name}": layer[i] for i in range(11) for name in "qk"}
    named = {"rope.query": QUERY, "nope.query": 2 * QUERY}
    uneven = {"a": random_array(4, 8), "b": random_array(4, 8), "c": random_array(4, 7)}
    parts = {"self_attn.q_proj": (32, 16), "self_attn.k_proj": (16, 16), "input_layernorm": (16,)}
    model = {
        f"model.layers.{i}.{part}.weight": random_array(*shape)
        for i in range(3)
        for part, shape in parts.items()
    }
    plain = random_array(32, 8)
    return {
        "two.npz": {"a": np.ones((3, 8)), "b": np.ones((3, 8))},
        "query.npz": {"query": QUERY},
        "named.npz": named,
        "named.safetensors": named,
        "dump.npz": {"q": plain, "k": plain, "q_out": rotate(plain, ROPE)},
        "turned.npz": {"q": rotate(plain, ROPE), "k": plain},
        "dump.safetensors": {"q": narrow, "q_out": rotate(narrow, ROPE)},
        "dump/1.safetensors": uneven,
        "dump/2.safetensors": uneven,
        "uneven.safetensors": uneven,
        "later.safetensors": {"k": random_array(4, 8), "q": random_array(2, 3, 4, 8)},
        "layers.safetensors": layers | {"layers.9.z": layer[0, :1]},
        "model/w.safetensors": model,
        "weights.safetensors": {
            "q_proj.weight": random_array(32, 6),
            "k_proj.weight": random_array(16, 6),
        },
        **{
            f"falcon-{keys}/w.safetensors": {FUSED: random_array((4 + 2 * keys) * 8, 32)}
            for keys in (1, 2, 4)
        },
    }


#: Code, and files that are not what their names say.
CONTENTS = {
    "kernel.py": KERNEL,
    "late.py": "def rotate(x, at):\n    import kernel\n    return kernel.split(x, at)\n",
    "import.py": "import no_such_module_anywhere",
    "three.py": "f = 3",
    "raises.py": "def f(x):\n    raise RuntimeError('no\\nmore')\n",
    "nothing.py": "",
    "rope.c": "int f;",
    "rope.cu": "int f;",
    "rope.js": "f",
    "code.npz": "f = 3",
    "words.npy": "these are words",
    "words.safetensors": "these are words",
    "empty.npy": "",
    "before.txt": "",
    "there.csv": "mine",
    "there.png": "mine",
    "integer.fixed.json": "mine",
    # Models under names that outputs may have.
    **{f"m.{suffix}": json.dumps(TINY) for suffix in ("json", "svg", "npy", "csv")},
}


def write_files(folder: Path) -> None:
    """Write all files into a folder."""
    for name in ("folder", "folder.npy", "folder.png", "dump"):
        (folder / name).mkdir()
    for name, model in MODELS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(model))
    for name, array in arrays().items():
        np.save(folder / f"{name}.npy", np.asarray(array))
    np.save(folder / "objects.npy", np.array([1, "a"], dtype=object), allow_pickle=True)
    for name, found in tensors().items():
        if name.endswith(".npz"):
            np.savez(folder / name, **found)
        else:
            (folder / name).write_bytes(serialize(found))
    for name, content in CONTENTS.items():
        (folder / name).write_text(content)
    (folder / "x.gguf").write_bytes(gguf(llama(rope__freq_base=None)))
    (folder / "x.bin").write_bytes(np.load(folder / "x.npy").tobytes())
    (folder / "cut.npy").write_bytes((folder / "x.npy").read_bytes()[:-1])
    weights, permuted = folder / "weights.safetensors", folder / "permuted.safetensors"
    permute(weights, permuted, to="half", heads=4, kv_heads=2)
    copies = {"q.npy": "q.csv", "rows.npy": "x.csv", "query.npz": "w.csv"}
    for name, copy in copies.items():
        (folder / copy).write_bytes((folder / name).read_bytes())
    (folder / "symbolic.svg").symlink_to("m.svg")
    (folder / "hard.svg").hardlink_to(folder / "m.svg")
    (folder / "loop.npy").symlink_to("loop.npy")
    (folder / "link.npy").symlink_to("x.npy")
