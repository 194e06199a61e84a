"""Models of ONNX as `check` loads and calls them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ropecli
from ropecli.checks.implementation.calling.native import load_onnx
from ropecli.errors import FileError

pytest.importorskip("onnxruntime")
DIM = 16
SMALL: dict[str, Any] = {
    "head_dim": DIM,
    "dtypes": "float32",
    "context_length": 512,
    "select": ["rotation", "convention", "offset positions", "packed sequences", "same twice"],
}


def write_onnx(path: Path, *, late: bool = False, positions: str = "INT64") -> None:
    """Write a model of ONNX; a late one rotates by the next position."""
    import onnx
    from onnx import TensorProto, helper

    theta = (1e4 ** (-np.arange(0, DIM, 2) / DIM)).astype(np.float32)
    steps = [
        ("Cast", "position_ids", "places", {"to": TensorProto.FLOAT}),
        ("Add", "places first", "counted", {}),
        ("Unsqueeze", "counted last", "columns", {}),
        ("Mul", "columns theta", "angles", {}),
        ("Cos", "angles", "cosine", {}),
        ("Sin", "angles", "sine", {}),
        ("Split", "x", "a b", {"axis": -1, "num_outputs": 2}),
        ("Mul", "a cosine", "ac", {}),
        ("Mul", "b sine", "bs", {}),
        ("Mul", "a sine", "as", {}),
        ("Mul", "b cosine", "bc", {}),
        ("Sub", "ac bs", "first_half", {}),
        ("Add", "bc as", "second_half", {}),
        ("Concat", "first_half second_half", "y", {"axis": -1}),
    ]
    nodes = [helper.make_node(op, a.split(), b.split(), **more) for op, a, b, more in steps]
    constants = [
        helper.make_tensor("theta", TensorProto.FLOAT, theta.shape, theta),
        helper.make_tensor("first", TensorProto.FLOAT, [], [float(late)]),
        helper.make_tensor("last", TensorProto.INT64, [1], [-1]),
    ]
    vectors = ["batch", "heads", "sequence", DIM]
    kind = getattr(TensorProto, positions)
    graph = helper.make_graph(
        nodes,
        "rope",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, vectors),
            helper.make_tensor_value_info("position_ids", kind, ["sequence"]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, vectors)],
        initializer=constants,
    )
    opset = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), str(path))


def test_a_file_is_called_by_the_names_of_its_inputs(tmp_path: Path) -> None:
    path = tmp_path / "rope.onnx"
    write_onnx(path)
    verdict = ropecli.check(str(path), **SMALL)
    assert verdict.passed
    assert verdict.convention.call == "rope(x, positions)"
    assert verdict.identified is not None
    assert verdict.identified.layout == "half"


def test_a_wrong_file_fails_and_its_call_is_saved(tmp_path: Path) -> None:
    path, case = tmp_path / "late-rope.onnx", tmp_path / "case.npz"
    write_onnx(path, late=True)
    rope = ropecli.Rotary(DIM, layout="half")
    assert not ropecli.check(str(path), expect=rope, save_failure=case, **SMALL).passed
    with np.load(case) as held:
        assert "    kernel(x, positions)" in str(held["call"])
        y = load_onnx(str(path))(held["x"], held["positions"])
        assert (np.abs(y - held["expected"]) > held["tolerance"]).any()


def test_positions_are_given_in_the_type_of_the_input(tmp_path: Path) -> None:
    write_onnx(tmp_path / "rope.onnx", positions="INT32")
    assert ropecli.check(str(tmp_path / "rope.onnx"), **SMALL).passed


def test_a_number_has_the_axes_of_its_input(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    def declare(name: str, kind: int, axes: list[Any]) -> Any:
        return helper.make_tensor_value_info(name, kind, axes)

    graph = helper.make_graph(
        [helper.make_node("Add", ["places", "offset"], ["y"])],
        "moved",
        [
            declare("places", TensorProto.INT64, ["sequence"]),
            declare("offset", TensorProto.INT64, [1]),
        ],
        [declare("y", TensorProto.INT64, ["sequence"])],
    )
    opset = [helper.make_opsetid("", 21)]
    path = str(tmp_path / "moved.onnx")
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)
    assert load_onnx(path)(np.arange(3), 7).tolist() == [7, 8, 9]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot read .*rope\.onnx"):
        ropecli.check(str(tmp_path / "rope.onnx"))
