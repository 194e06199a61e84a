"""ONNX Runtime's RotaryEmbedding (opset 23), as function(x, positions).

The tables are float64's, rounded once to the dtype of the data: what is judged is the operator.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

CONTEXT, DIM, BASE = 16_384, 64, 10_000.0


def half(x: Any, positions: Any) -> Any:
    """interleaved=0: pairs (i, i + 32)."""
    return rotate(x, positions, interleaved=0)


def interleaved(x: Any, positions: Any) -> Any:
    """interleaved=1: pairs (2i, 2i + 1)."""
    return rotate(x, positions, interleaved=1)


def rotate(x: Any, positions: Any, interleaved: int) -> Any:
    """Rotate x by the operator."""
    places = np.atleast_2d(positions).astype(np.int64)
    heads = x.reshape(len(places), -1, *x.shape[-2:])
    cos, sin = tables(x.dtype)
    feeds = {"X": heads, "cos": cos, "sin": sin, "ids": places}
    return session(x.dtype, interleaved).run(None, feeds)[0].reshape(x.shape)


@cache
def tables(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """cos and sin, (positions, pairs)."""
    angles = np.arange(CONTEXT)[:, None] * BASE ** (-np.arange(0, DIM, 2) / DIM)
    return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)


@cache
def session(dtype: np.dtype[Any], interleaved: int) -> Any:
    """A model of that one operator."""
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    shapes: dict[str, list[str | int]] = {
        "X": ["batch", "heads", "sequence", DIM],
        "cos": [CONTEXT, DIM // 2],
        "sin": [CONTEXT, DIM // 2],
        "ids": ["batch", "sequence"],
    }
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64 if name == "ids" else kind, shape)
        for name, shape in shapes.items()
    ]
    output = helper.make_tensor_value_info("Y", kind, shapes["X"])
    node = helper.make_node("RotaryEmbedding", list(shapes), ["Y"], interleaved=interleaved)
    graph = helper.make_graph([node], "rope", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what it refuses, it raises
    return onnxruntime.InferenceSession(model.SerializeToString(), options)
