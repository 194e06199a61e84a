"""Files with the weights of an attention, and their conversion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers import random_array
from numpy.typing import NDArray
from safetensors.numpy import load_file

from ropecli import Permuted, permute
from ropecli.files.formats.safetensors import serialize

Array = NDArray[Any]
HEADS, KV_HEADS, HEAD_DIM, WIDTH = 4, 2, 8, 6
ATTENTION = "model.layers.0.self_attn."


def layer(dtype: str = "float32", prefix: str = ATTENTION) -> dict[str, Array]:
    """One layer with every kind of tensor that moves, and one that does not."""
    shapes = {
        "q_proj.weight": (HEADS * HEAD_DIM, WIDTH),
        "k_proj.weight": (KV_HEADS * HEAD_DIM, WIDTH),
        "v_proj.weight": (KV_HEADS * HEAD_DIM, WIDTH),
        "q_proj.bias": (HEADS * HEAD_DIM,),
        "k_proj.bias": (KV_HEADS * HEAD_DIM,),
        "q_norm.weight": (HEAD_DIM,),
        "k_norm.weight": (HEAD_DIM,),
    }
    return {
        prefix + name: random_array(*shape, dtype=dtype, seed=seed)
        for seed, (name, shape) in enumerate(shapes.items())
    }


def converted(
    folder: Path, arrays: dict[str, Array], **options: Any
) -> tuple[dict[str, Array], Permuted]:
    given: dict[str, Any] = {"to": "half", "heads": HEADS, "kv_heads": KV_HEADS} | options
    (folder / "in.safetensors").write_bytes(serialize(arrays))
    result = permute(folder / "in.safetensors", folder / "out.safetensors", force=True, **given)
    return load_file(folder / "out.safetensors"), result
