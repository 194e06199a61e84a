"""Golden vectors in the form of ONNX, read from their files, against ONNX Runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import assert_within, run_cli
from numpy.typing import NDArray

pytestmark = pytest.mark.oracle

Array = NDArray[Any]


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors") / "golden"
    done = run_cli("vectors", "-o", folder)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def onnx_cases(golden: Path) -> list[dict[str, Any]]:
    manifest = json.loads((golden / "manifest.json").read_text())
    found = [case for case in manifest["cases"] if case["kind"] == "onnx"]
    assert len(found) == 6
    return found


def read(golden: Path, case: dict[str, Any], name: str) -> Array:
    array: Array = np.load(golden / case["arrays"][name]["file"])
    return array


def runtime(case: dict[str, Any], x: Array, cosine: Array, sine: Array, ids: Array) -> Array:
    """The operator of opset 23, in the dtype of x."""
    import onnxruntime
    from onnx import helper

    feeds = {"X": x, "cos": cosine, "sin": sine, "ids": ids}
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in feeds.items()
    ]
    output = helper.make_tensor_value_info("Y", inputs[0].type.tensor_type.elem_type, x.shape)
    node = helper.make_node("RotaryEmbedding", list(feeds), ["Y"], **case["attributes"])
    graph = helper.make_graph([node], "rope", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    result: Array = session.run(None, feeds)[0]
    return result


def tolerance(case: dict[str, Any], dtype: dict[str, float], x: Array, table: Array) -> float:
    """The README's tolerance for the longest pair.

    Two products and a sum in the dtype, each rounding by u of the pair's length, the stored
    output and one more for their products: `roundings` u |pair| hypot(cos, sin). A coordinate
    and the whole of a pair: |pair| is at most sqrt 2 times the largest coordinate.
    """
    length = np.sqrt(2) * np.abs(x.astype(np.float64)).max()
    return float(case["roundings"] * dtype["unit"] * length * table.max() + dtype["floor"])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_onnx_runtime_gives_the_golden_output(golden: Path, dtype: str) -> None:
    units = json.loads((golden / "manifest.json").read_text())["dtypes"][dtype]
    for case in onnx_cases(golden):
        x = read(golden, case, "x").astype(dtype)
        cosine, sine = (read(golden, case, f"{name}_cache.{dtype}") for name in ("cos", "sin"))
        ids = read(golden, case, "position_ids")
        got = runtime(case, x, cosine, sine, ids)
        table = np.hypot(cosine.astype(np.float64), sine.astype(np.float64))
        expected = read(golden, case, f"y.{dtype}")
        assert got.dtype == expected.dtype
        bound = tolerance(case, units, x, table)
        assert_within(f"{case['name']} {dtype}", got=got, expected=expected, tolerance=bound)
