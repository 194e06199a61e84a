"""Files of ONNX, TorchScript and torch.export as `check` loads and calls them."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ropecli
from ropecli.checks.implementation.calling.native import load_kernel
from ropecli.errors import FileError

torch: Any = pytest.importorskip("torch")
DIM = 16
SMALL: dict[str, Any] = {
    "head_dim": DIM,
    "dtypes": "float32",
    "context_length": 512,
    "select": ["rotation", "convention", "offset positions", "packed sequences", "same twice"],
}
#: TorchScript is deprecated, and its files are still there.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


class Rope(torch.nn.Module):  # type: ignore[misc]
    """Right, but for rows from `late` on."""

    def __init__(self, late: int = 1_000_000) -> None:
        super().__init__()
        self.late = late
        self.register_buffer("theta", 1e4 ** (-torch.arange(0, DIM, 2).double() / DIM))

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        places = torch.where(positions < self.late, positions, positions + 1)
        angles = places.double()[..., None] * self.theta
        cosine, sine = angles.cos(), angles.sin()
        a, b = x.double().chunk(2, dim=-1)
        turned = torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1)
        return turned.to(x.dtype)


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


def export(module: Any, path: Path) -> None:
    of = torch.export.Dim
    given = torch.zeros(2, 3, 5, DIM), torch.arange(5)
    sequence = of("sequence", min=1)
    shapes = ({0: of("batch", min=1), 1: of("heads", min=1), 2: sequence}, {0: sequence})
    torch.export.save(torch.export.export(module, given, dynamic_shapes=shapes), path)


def write(path: Path, late: bool) -> None:
    module = Rope(2) if late else Rope()
    if path.suffix == ".onnx":
        write_onnx(path, late=late)
    elif path.suffix == ".pt2":
        export(module, path)
    else:
        torch.jit.script(module).save(str(path))


@pytest.mark.parametrize("suffix", [".onnx", ".pt", ".pt2"])
def test_a_file_is_called_by_the_names_of_its_inputs(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"rope{suffix}"
    write(path, late=False)
    verdict = ropecli.check(str(path), **SMALL)
    assert verdict.passed
    assert verdict.convention.call == "rope(x, positions)"
    assert verdict.identified is not None
    assert verdict.identified.layout == "half"


@pytest.mark.parametrize("suffix", [".onnx", ".pt", ".pt2"])
def test_a_wrong_file_fails_and_its_script_shows_it(suffix: str, tmp_path: Path) -> None:
    path, case = tmp_path / f"late-rope{suffix}", tmp_path / "case.npz"
    write(path, late=True)
    rope = ropecli.Rotary(DIM, layout="half")
    verdict = ropecli.check(str(path), expect=rope, save_failure=case, **SMALL)
    assert not verdict.passed
    done = subprocess.run(
        [sys.executable, case.with_suffix(".py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "numbers are wrong" in done.stdout


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
    assert load_kernel(path)(np.arange(3), 7).tolist() == [7, 8, 9]


@pytest.mark.parametrize("how", ["script", "trace"])
def test_a_scripted_module_is_called_by_what_it_computes(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its class has `save` and other methods, which must not be called."""
    monkeypatch.chdir(tmp_path)
    given = torch.zeros(2, 3, 5, DIM), torch.arange(5)
    module = torch.jit.script(Rope()) if how == "script" else torch.jit.trace(Rope(), given)
    assert ropecli.check(module, isolated=False, **SMALL).passed
    assert [*tmp_path.iterdir()] == []


class Opened:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(self.path), "w"))


def test_no_pickle_of_a_file_is_run(tmp_path: Path) -> None:
    """Neither of a .pt nor among the example inputs of a .pt2."""
    opened = tmp_path / "opened"
    torch.save({"theta": Opened(opened)}, tmp_path / "weights.pt")
    with pytest.raises(FileError, match="no other pickle is run"):
        ropecli.check(str(tmp_path / "weights.pt"), isolated=False)
    export(Rope(), tmp_path / "rope.pt2")
    with (
        zipfile.ZipFile(tmp_path / "rope.pt2") as whole,
        zipfile.ZipFile(tmp_path / "changed.pt2", "w") as changed,
    ):
        inputs = [name for name in whole.namelist() if "sample_inputs" in name]
        assert inputs
        for name in whole.namelist():
            with changed.open(name, "w") as file:
                if name in inputs:
                    torch.save(((Opened(opened), torch.arange(5)), {}), file)
                else:
                    file.write(whole.read(name))
    with pytest.raises(FileError, match="no other pickle is run"):
        ropecli.check(str(tmp_path / "changed.pt2"), isolated=False)
    assert not opened.exists()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot read .*rope\.onnx"):
        ropecli.check(str(tmp_path / "rope.onnx"))
