"""ropecli against other people's rotary embeddings: each rotates the same vectors.

Their angles are float32 products of float32 tables, so that at position m a pair may be off by
the rounding of the table and of the product, 2 * 2^-24 |m theta|, besides float32 arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_within
from numpy.typing import NDArray

from ropecli import Rotary, rotate

pytestmark = pytest.mark.oracle

Array = NDArray[Any]
SEQUENCE, DIM = 512, 64
#: cos, sin, two products and a sum in float32, each rounding by 2^-24, on both sides.
ARITHMETIC = 10 * 2.0**-24


def vectors() -> Array:
    shape = (2, 3, SEQUENCE, DIM)
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def allowed(x: Array, rope: Rotary) -> Array:
    """The bound above for each coordinate of x."""
    first, second = rope.pairs_in.T
    length = np.hypot(x[..., first], x[..., second]).astype(np.float64)
    # A table of 1 / base^(2i/d) in float32: the power's rounding is magnified by ln(base).
    angle = np.arange(SEQUENCE)[:, None] * rope.inv_freq * (2 + np.log(rope.base or 1)) * 2.0**-24
    bound = np.zeros(x.shape)
    bound[..., first] = bound[..., second] = (ARITHMETIC + angle) * length
    return bound


def llama(x: Array) -> Array:
    import torch
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    config = LlamaConfig(hidden_size=DIM, num_attention_heads=1)
    tensor = torch.from_numpy(x)
    positions = torch.arange(SEQUENCE)[None]
    cos, sin = LlamaRotaryEmbedding(config)(tensor, positions)
    turned: Array = apply_rotary_pos_emb(tensor, tensor, cos, sin)[0].numpy()
    return turned


def gptj(x: Array) -> Array:
    import torch
    from transformers.models.gptj.modeling_gptj import (
        apply_rotary_pos_emb,
        create_sinusoidal_positions,
    )

    table = create_sinusoidal_positions(SEQUENCE, DIM)[None]
    sin, cos = torch.split(table, DIM // 2, dim=-1)
    # GPT-J holds (batch, sequence, heads, dim).
    tensor = torch.from_numpy(x).transpose(1, 2)
    turned: Array = apply_rotary_pos_emb(tensor, sin, cos).transpose(1, 2).numpy()
    return turned


def lucidrains(x: Array) -> Array:
    import torch
    from rotary_embedding_torch import RotaryEmbedding

    turned: Array = (
        RotaryEmbedding(DIM).rotate_queries_or_keys(torch.from_numpy(x)).detach().numpy()
    )
    return turned


LIBRARIES = {
    "transformers Llama": (llama, "half"),
    "transformers GPT-J": (gptj, "interleaved"),
    "rotary-embedding-torch": (lucidrains, "interleaved"),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_library_rotates_alike(name: str) -> None:
    library, layout = LIBRARIES[name]
    x, rope = vectors(), Rotary(head_dim=DIM, layout=layout)
    assert_within(name, got=rotate(x, rope), expected=library(x), tolerance=allowed(x, rope))


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_other_layout_is_far_away(name: str) -> None:
    library, layout = LIBRARIES[name]
    other = "half" if layout == "interleaved" else "interleaved"
    x = vectors()
    assert np.abs(rotate(x, Rotary(head_dim=DIM, layout=other)) - library(x)).max() > 1


@pytest.mark.parametrize("interleaved", [0, 1])
def test_onnx_runtime_rotates_alike(interleaved: int) -> None:
    import onnxruntime
    from onnx import TensorProto, helper

    x = vectors()
    rope = Rotary(head_dim=DIM, layout="interleaved" if interleaved else "half")
    angles = np.arange(SEQUENCE)[:, None] * rope.inv_freq
    feeds = {
        "X": x,
        "cos": np.cos(angles).astype(np.float32),
        "sin": np.sin(angles).astype(np.float32),
        "ids": np.tile(np.arange(SEQUENCE), (2, 1)),
    }
    inputs = [
        helper.make_tensor_value_info(
            name, TensorProto.INT64 if name == "ids" else TensorProto.FLOAT, value.shape
        )
        for name, value in feeds.items()
    ]
    output = helper.make_tensor_value_info("Y", TensorProto.FLOAT, x.shape)
    node = helper.make_node("RotaryEmbedding", list(feeds), ["Y"], interleaved=interleaved)
    graph = helper.make_graph([node], "rope", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = session.run(None, feeds)[0]
    # Its tables are ours, so no angle is off.
    bound = ARITHMETIC * np.abs(x).max() * np.sqrt(2)
    assert_within("onnxruntime", got=rotate(x, rope), expected=expected, tolerance=bound)
