"""Competitors of ropecli: a copy, and other libraries' rotary embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from ropecli import Rotary
from ropecli.kernels.streaming import fetch_ahead, finish, store_past_caches

Array = NDArray[Any]
TASKS = 1024  #: Parts of a copy.


@numba.njit(parallel=True)
def parallel_copy(x, out):  # type: ignore[no-untyped-def]
    """Copy rows on all threads: no rotation can move its data faster."""
    for row in numba.prange(x.shape[0]):
        out[row] = x[row]


@numba.njit(parallel=True)
def streaming_copy(x, out):  # type: ignore[no-untyped-def]
    """Copy rows past the caches, as our kernels store large results: the machine's limit."""
    for task in numba.prange(TASKS):
        for row in range(task * len(x) // TASKS, (task + 1) * len(x) // TASKS):
            fetch_ahead(x[row])  # type: ignore[no-untyped-call]
            for c in range(x.shape[1]):
                store_past_caches(out[row], c, x[row, c])  # type: ignore[no-untyped-call]
        finish()  # type: ignore[no-untyped-call]


def tables(sequence: int, rope: Rotary) -> tuple[Array, Array]:
    """cos and sin, float32, (sequence, pairs): given to peers, while we make our own."""
    angles = np.arange(sequence)[:, None] * rope.inv_freq
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def onnx_runtime(x: Array, rope: Rotary) -> Callable[[], object]:
    """RotaryEmbedding (opset 23) on (batch, heads, sequence, dim)."""
    import onnxruntime
    from onnx import TensorProto, helper

    cos, sin = tables(x.shape[2], rope)
    ids = np.tile(np.arange(x.shape[2]), (x.shape[0], 1))
    feeds = {"X": np.ascontiguousarray(x), "cos": cos, "sin": sin, "ids": ids}
    kinds = {"ids": TensorProto.INT64}
    inputs = [
        helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), value.shape)
        for name, value in feeds.items()
    ]
    output = helper.make_tensor_value_info("Y", TensorProto.FLOAT, x.shape)
    interleaved = int(rope.layout == "interleaved")
    node = helper.make_node("RotaryEmbedding", list(feeds), ["Y"], interleaved=interleaved)
    graph = helper.make_graph([node], "rope", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    options = onnxruntime.SessionOptions()
    # Its threads would spin on after its turn, and slow down whoever comes next.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_cpu_input(name, value)
    target = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros_like(feeds["X"]))
    binding.bind_ortvalue_output("Y", target)
    return lambda: session.run_with_iobinding(binding)


def torch_eager(x: Array) -> Callable[[], object]:
    """The half layout as Transformers writes it: x cos + rotate_half(x) sin."""
    import torch

    rotate, tensor, cos, sin = _torch(x)

    def run() -> object:
        with torch.no_grad():
            return rotate(tensor, cos, sin)

    return run


def torch_compiled(x: Array) -> Callable[[], object]:
    """The same, through torch.compile."""
    import torch

    rotate, tensor, cos, sin = _torch(x)
    compiled = torch.compile(rotate)

    def run() -> object:
        with torch.no_grad():
            return compiled(tensor, cos, sin)

    run()
    return run


def _torch(x: Array) -> tuple[Any, Any, Any, Any]:
    import torch

    def rotate(tensor: Any, cos: Any, sin: Any) -> Any:
        first, second = tensor.chunk(2, dim=-1)
        return tensor * cos + torch.cat((-second, first), dim=-1) * sin

    cos, sin = tables(x.shape[2], Rotary(head_dim=x.shape[-1], layout="half"))
    wide = (torch.from_numpy(np.concatenate([t, t], axis=-1)) for t in (cos, sin))
    return rotate, torch.from_numpy(np.ascontiguousarray(x)), *wide
