"""A file that is a kernel: a model of ONNX, a module of TorchScript, or a program of torch.export.

Nothing in them is code of Python, and no pickle of a file is run.
"""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ropecli.checks.implementation.call import ROLES
from ropecli.checks.implementation.calling.foreign import describe_exception
from ropecli.errors import FileError

ONNX, EXPORTED, SCRIPTED = ".onnx", ".pt2", (".pt", ".pth", ".ts")
SUFFIXES = (ONNX, EXPORTED, *SCRIPTED)
#: NumPy's names of the types of ONNX whose names differ.
TYPES = {"float": "float32", "double": "float64"}
SILENT = 4  #: Of ONNX Runtime: only fatal errors are logged, and all others are raised anyway.


def load_kernel(path: str) -> Any:
    """Return what a file computes, as a function or module."""
    if not Path(path).is_file():
        raise FileError(f"cannot read {path}: no such file")
    try:
        if path.endswith(ONNX):
            return OnnxFunction(path)
        import torch

        if path.endswith(SCRIPTED):
            return torch.jit.load(path, map_location="cpu")
        with _no_pickles():
            return torch.export.load(path).module()
    except ImportError as error:
        raise FileError(f"{path} needs {error.name}: pip install {error.name}") from None
    except Exception as error:  # of foreign code
        kind = "a module of TorchScript" if path.endswith(SCRIPTED) else "a program of torch.export"
        kind = "a model of ONNX" if path.endswith(ONNX) else f"{kind}, and no other pickle is run"
        raise FileError(f"{path} can't be loaded as {kind}: {describe_exception(error)}") from None


@contextlib.contextmanager
def _no_pickles() -> Iterator[None]:
    """Have PyTorch refuse what is not tensors, such as inputs of other classes, in a file."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def kernel_name(path: str) -> str:
    """Return the name by which calls name the kernel of a file."""
    stem = Path(path).stem
    return stem if stem.isidentifier() and stem not in ROLES else "kernel"


class OnnxFunction:
    """A model of ONNX, called by the names of its inputs in their order."""

    def __init__(self, path: str) -> None:
        """Load it."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = SILENT
        self._session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
        self._inputs = self._session.get_inputs()
        names = [_identifier(each.name) for each in self._inputs]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])

    def __call__(self, *values: Any, **named: Any) -> Any:
        """Return its result, or a tuple of several."""
        bound = self.__signature__.bind(*values, **named).arguments.values()
        feeds = {
            each.name: _held(value, each) for each, value in zip(self._inputs, bound, strict=True)
        }
        results = self._session.run(None, feeds)
        return results[0] if len(results) == 1 else tuple(results)


def _identifier(name: str) -> str:
    """Return the name of an input as a parameter has it."""
    text = "".join(c if c.isalnum() else "_" for c in name)
    return text if text.isidentifier() else f"_{text}"


def _held(value: Any, declared: Any) -> Any:
    """Return an input in the model's type, if it is of integers, and with its axes."""
    array = np.asarray(value)
    name = str(declared.type).removeprefix("tensor(").removesuffix(")")
    if array.dtype.kind in "iu":
        array = array.astype(TYPES.get(name, name))
    missing = len(declared.shape) - array.ndim if not array.ndim else 0
    return array.reshape((1,) * missing + array.shape)
