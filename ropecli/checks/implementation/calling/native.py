"""Implementations that are not Python code: a program, a shared library, or a model of ONNX.

A program reads and writes .npy files. A function of a library has one C prototype:

    int rope_f32(const float *x, float *out, const int64_t *positions,
                 int64_t batch, int64_t heads, int64_t length, int64_t head_dim);

x and out are contiguous, (batch, heads, length, head_dim); positions are (batch, length). The end
of the name says the type of the numbers: _f64, _f32, _f16, or _bf16; both halves are given as
uint16_t. It returns 0, or another number to refuse the call.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import shlex
import shutil
import string
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES
from ropecli.checks.implementation.calling.foreign import describe_exception
from ropecli.checks.implementation.calling.isolate import FOLDER, IN_WORKER
from ropecli.checks.implementation.calling.vocabulary import ROLE
from ropecli.checks.implementation.convention import ROLES
from ropecli.errors import ArgumentError, FileError

OUTPUTS = ("out", "out_k")
MOST_WORDS = 300  #: Characters of what a program says when it fails.
LIBRARIES = (".so", ".dylib", ".dll")
#: Types of a library's functions, by the end of their names.
TYPES = {"_f64": "float64", "_f32": "float32", "_f16": "float16", "_bf16": "bfloat16"}
#: Commands that make a library of source, by its suffix, or a program that runs it.
COMPILERS = {
    ".c": "cc -O2 -shared -fPIC -o {stem}.so {file}",
    **dict.fromkeys((".cc", ".cpp", ".cxx"), "c++ -O2 -shared -fPIC -o {stem}.so {file}"),
    ".cu": "nvcc -O2 -shared -Xcompiler -fPIC -o {stem}.so {file}",
    ".rs": "rustc -O --crate-type cdylib -o {stem}.so {file}",
    ".zig": "zig build-lib -dynamic -OReleaseFast -femit-bin={stem}.so {file}",
}
INTERPRETERS = {**dict.fromkeys((".js", ".mjs", ".ts"), "node"), ".jl": "julia", ".lua": "lua"}
ONNX = ".onnx"
#: NumPy's names of the types of ONNX whose names differ.
ONNX_TYPES = {"float": "float32", "double": "float64"}
SILENT = 4  #: Of ONNX Runtime: only fatal errors are logged, and all others are raised anyway.


def _prototype(name: str) -> str:
    """Return the declaration that a function of a library must have."""
    dtype = next((dtype for end, dtype in TYPES.items() if name.endswith(end)), "float32")
    of_c = {"float32": "float", "float64": "double"}.get(dtype, "uint16_t")
    return (
        f"int {name}(const {of_c} *x, {of_c} *out, const int64_t *positions, "
        "int64_t batch, int64_t heads, int64_t length, int64_t head_dim)"
    )


def refuse_source(target: str) -> None:
    """Refuse source in another language than Python, and say how it can be called."""
    path, _, symbol = target.partition(":")
    suffix = Path(path).suffix
    if suffix in (*COMPILERS, *INTERPRETERS) and not Path(path).is_file():
        raise FileError(f"cannot read {path}: no such file")
    if suffix in COMPILERS:
        compile = COMPILERS[suffix].format(stem=Path(path).stem, file=path)
        symbol = symbol or "rope_f32"
        raise ArgumentError(
            f"{path} is source, expected a library: {compile}",
            f"then check ./{Path(path).stem}.so:{symbol}, which must be {_prototype(symbol)}, "
            "and return 0",
        )
    if suffix in INTERPRETERS:
        raise ArgumentError(
            f"{path} is source, expected a program that reads and writes .npy files",
            f"give `command`, such as '{INTERPRETERS[suffix]} {path} {{x}} {{positions}} {{out}}'",
        )


def _signature(names: Iterable[str], **how: Any) -> inspect.Signature:
    """Return the signature of a function of these parameters."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(name, kind, **how) for name in names])


class Executable:
    """A command whose placeholders are the paths of .npy files, or numbers."""

    def __init__(self, command: str) -> None:
        """Parse the command."""
        try:
            self.words = shlex.split(command)
            parts = [list(string.Formatter().parse(word)) for word in self.words]
        except ValueError as error:
            raise ArgumentError(
                f"command must be words with placeholders in braces, got {command!r}: {error}"
            ) from None
        named = [name for word in parts for _, name, _, _ in word if name is not None]
        unknown = [name for name in named if name not in ROLES and name not in OUTPUTS]
        if unknown or "out" not in named or not set(named) & {"x", "q"}:
            msg = f"command must name {{x}} and {{out}}, and may name {', '.join(ROLES)}"
            msg += f", got {command!r}"
            raise ArgumentError(msg)
        self.inputs = tuple(dict.fromkeys(name for name in named if name not in OUTPUTS))
        self.outputs = tuple(name for name in OUTPUTS if name in named)
        self.__signature__ = _signature(self.inputs, annotation=ROLE)

    def __call__(self, *values: Any) -> Any:
        """Run the command with these inputs, in the order of their first mention."""
        worker = os.environ.get(IN_WORKER)
        prefix = f"{FOLDER}{worker}-" if worker else FOLDER
        with tempfile.TemporaryDirectory(prefix=prefix) as folder:
            said: dict[str, str] = {}
            for name, value in zip(self.inputs, values, strict=True):
                if isinstance(value, np.ndarray):
                    said[name] = str(Path(folder) / f"{name}.npy")
                    np.save(said[name], value, allow_pickle=False)
                else:
                    said[name] = str(value)
            said |= {name: str(Path(folder) / f"{name}.npy") for name in self.outputs}
            words = [word.format(**said) for word in self.words]
            done = subprocess.run(
                words, capture_output=True, text=True, errors="replace", check=False
            )
            if done.returncode:
                text = (done.stderr or done.stdout)[-MOST_WORDS:]
                raise RuntimeError(f"{words[0]} ended with exit code {done.returncode}: {text}")
            results = [np.load(said[name], allow_pickle=False) for name in self.outputs]
        return results[0] if len(results) == 1 else tuple(results)


def check_program(command: str) -> None:
    """Refuse a command whose program is not there, which every trial would find again."""
    program = Executable(command).words[0]
    if shutil.which(program) is None:
        there = Path(program).exists()
        raise FileError(f"{program} is not a program" if there else f"no program {program}")


class SharedFunction:
    """A symbol of a library, called with NumPy arrays."""

    def __init__(self, path: str, symbol: str) -> None:
        """Load it."""
        ending = next((end for end in TYPES if symbol.endswith(end)), None)
        if ending is None:
            raise FileError(
                f"the function must end in {', '.join(TYPES)}, which says its type, got {symbol!r}"
            )
        self.dtype = TYPES[ending]
        try:
            self._function = ctypes.CDLL(str(Path(path).resolve()))[symbol]
        except (OSError, AttributeError) as error:
            msg = f"{path} can't be loaded: {error}"
            raise FileError(" ".join(msg.split())) from None
        self._function.restype = ctypes.c_int
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self._function.argtypes = [pointer, pointer, pointer, number, number, number, number]
        self.__signature__ = _signature(("x", "positions"), annotation=ROLE)

    def __call__(self, x: NDArray[Any], positions: NDArray[Any]) -> NDArray[Any]:
        """Rotate x (batch, heads, length, head_dim) by positions (length,) or (batch, length)."""
        if x.dtype != DTYPES[self.dtype]:
            raise TypeError(f"it takes {self.dtype}, not {x.dtype.name}")
        given = np.ascontiguousarray(x)
        out = np.full_like(given, np.nan)
        row = np.broadcast_to(positions, (x.shape[0], x.shape[-2]))
        places = np.ascontiguousarray(row, dtype=np.int64)
        refused = self._function(
            given.ctypes.data, out.ctypes.data, places.ctypes.data, *given.shape
        )
        if refused:
            name = self._function.__name__
            raise ValueError(f"it returned {refused}, where 0 is success, as of {_prototype(name)}")
        return out


def load_onnx(path: str) -> OnnxFunction:
    """Return what a model of ONNX computes."""
    try:
        return OnnxFunction(path)
    except ImportError as error:
        raise FileError(f"{path} needs {error.name}: pip install {error.name}") from None
    except Exception as error:  # of foreign code
        msg = f"{path} can't be loaded as a model of ONNX: {describe_exception(error)}"
        raise FileError(msg) from None


def onnx_name(path: str) -> str:
    """Return the name by which calls name a model of ONNX."""
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
        self.__signature__ = _signature(_identifier(tensor.name) for tensor in self._inputs)

    def __call__(self, *values: Any, **named: Any) -> Any:
        """Return its result, or a tuple of several."""
        bound = self.__signature__.bind(*values, **named).arguments.values()
        feeds = {
            tensor.name: _held(value, tensor)
            for tensor, value in zip(self._inputs, bound, strict=True)
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
        array = array.astype(ONNX_TYPES.get(name, name))
    missing = len(declared.shape) - array.ndim if not array.ndim else 0
    return array.reshape((1,) * missing + array.shape)
