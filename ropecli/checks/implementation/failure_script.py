"""A failing call as files: its arrays in .npz, and a script that shows it without ropecli."""

from __future__ import annotations

import ast
import builtins
import io
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ropecli.checks.implementation.call import Request
from ropecli.checks.implementation.calling import native
from ropecli.checks.implementation.calling.engine import VECTORS
from ropecli.checks.implementation.calling.source import name_of
from ropecli.checks.implementation.calling.values import Values, arrange
from ropecli.checks.implementation.convention import ROLES, called_name, parse_call
from ropecli.checks.implementation.failing_call import FailingCall
from ropecli.errors import ArgumentError
from ropecli.files.atomic import check_target, replacing

#: Of each framework: what is imported, an array made of NumPy's `a`, and the result `y` in NumPy.
FRAMEWORKS = {
    "numpy": ("", "a", "np.asarray(y, np.float64)"),
    "torch": ("import torch", "torch.from_numpy(a)", "y.detach().cpu().double().numpy()"),
    "jax": ("import jax.numpy as jnp", "jnp.asarray(a)", "np.asarray(y, np.float64)"),
    "mlx": ("import mlx.core as mx", "mx.array(a)", "np.array(y.astype(mx.float32))"),
    "tensorflow": ("import tensorflow as tf", "tf.constant(a)", "tf.cast(y, tf.float64).numpy()"),
    "tinygrad": ("from tinygrad import Tensor", "Tensor(a)", "y.float().numpy()"),
}
#: Arrays of bfloat16, whose bits are kept as uint16.
BFLOAT16 = {
    "torch": "torch.from_numpy(a.view(np.int16)).view(torch.bfloat16)",
    "tensorflow": "tf.bitcast(tf.constant(a), tf.bfloat16)",
}
#: Expressions of memory of each kind, of the values `v`.
LAID_OUT = {
    "transposed": "np.ascontiguousarray(v.swapaxes(-2, -3)).swapaxes(-2, -3)",
    "sliced": "np.tile(v, 3)[..., v.shape[-1] : 2 * v.shape[-1]]",
    "strided": "np.repeat(v, 2, axis=-1)[..., ::2]",
    "expanded": "np.broadcast_to(v[:1], v.shape)",
    "offset": "np.append(v.ravel()[:5], v.ravel())[5:].reshape(v.shape)",
}


def check_path(path: str | os.PathLike[str], *, force: bool) -> tuple[Path, Path]:
    """Return the two files, before anything is called."""
    arrays = Path(path)
    if arrays.suffix != ".npz":
        raise ArgumentError(f"failure must be saved as .npz, got {arrays.name!r}")
    script = arrays.with_suffix(".py")
    for each in (arrays, script):
        check_target(each, force=force)
    return arrays, script


@dataclass(frozen=True, kw_only=True, eq=False)
class Script:
    """A script that makes a failing call, of an implementation as it was given to `check`."""

    call: FailingCall
    target: Any
    command: str | None
    other: Any
    device: str | None

    def write(self, files: tuple[Path, Path], *, force: bool) -> None:
        """Write the arrays and the script, each whole or not at all."""
        call, convention = self.call, self.call.setup.convention
        held: dict[str, Any] = {
            "expected": arrange(call.expected, convention.axes_of_x),
            "tolerance": arrange(call.tolerance, convention.axes_of_x),
        }
        for prefix, request in _requests(call):
            names = sorted(convention.names & ROLES.keys() - {name_of(self.target), "config"})
            made = Values(request=request, setup=call.setup).of(names)
            held |= {prefix + name: _storable(np.asarray(value)) for name, value in made.items()}
        stream = io.BytesIO()
        np.savez(stream, **held)
        arrays, script = files
        text = "\n".join([*self._lines(arrays.stem, held), ""])
        for path, data in ((arrays, stream.getvalue()), (script, text.encode())):
            with replacing(path, force=force) as file:
                file.write(data)

    def _lines(self, stem: str, held: dict[str, Any]) -> list[str]:
        """Return the lines of the script."""
        call, convention = self.call, self.call.setup.convention
        shown = self.command or (
            self.target if isinstance(self.target, str) else name_of(self.target)
        )
        needed, convert, back = FRAMEWORKS[convention.framework]
        lines = [
            f'"""Shows what {_docstring(shown)} gets wrong: python {_docstring(stem)}.py"""',
            "",
            "import sys",
            "from pathlib import Path",
            "",
            "import numpy as np",
            *([needed] if needed else []),
        ]
        setup, once, run = self._implementation()
        if convention.framework == "jax" and call.request.q.dtype == np.float64:
            setup = ["import jax", 'jax.config.update("jax_enable_x64", True)', *setup]
        lines += [*setup, "", 'case = np.load(Path(__file__).with_suffix(".npz"))']
        bfloat16 = call.request.q.dtype.name == "bfloat16"
        for prefix, request in _requests(call):
            for name in sorted(key.removeprefix(prefix) for key in held if key.startswith(prefix)):
                if name.startswith("before_") or name not in ROLES:
                    continue
                value = held[prefix + name]
                text = f'case["{prefix}{name}"]'
                if not value.ndim and name != "cos":
                    lines.append(f"{name} = {text}.item()")
                    continue
                if name in VECTORS and request.memory in LAID_OUT:
                    kind = LAID_OUT[request.memory]
                    if request.memory == "transposed" and value.ndim < len("hsd"):
                        kind = "np.asfortranarray(v)"
                    text = _substitute(kind, "v", text)
                how = convert
                if bfloat16 and value.dtype == np.uint16:
                    how = BFLOAT16.get(
                        convention.framework,
                        _substitute(convert, "a", "a.view(ml_dtypes.bfloat16)"),
                    )
                moved = (
                    f".to({self.device!r})"
                    if self.device and convention.framework == "torch"
                    else ""
                )
                lines.append(f"{name} = {_substitute(how, 'a', text)}{moved}")
            lines += once + run
            once = []
        vector = "k" if call.of_keys else "q" if "q" in convention.names else "x"
        if "out" in convention.names:
            lines.append("y = out")
        elif call.in_place:
            lines.append(f"y = {vector}  # the result is written over the argument")
        elif self.command is None:
            lines.append(f"y = y[{int(call.of_keys)}] if isinstance(y, (tuple, list)) else y")
        lines += [
            f'error = np.abs({back} - case["expected"])',
            'wrong = ~(error <= case["tolerance"])',
            'print(f"{wrong.sum()} of {wrong.size} numbers are wrong, by up to {error.max():.3g}")',
            "sys.exit(bool(wrong.any()))",
        ]
        if any("ml_dtypes" in line for line in lines):
            lines.insert(lines.index("import numpy as np"), "import ml_dtypes")
        return lines

    def _implementation(self) -> tuple[list[str], list[str], list[str]]:
        """Return the lines that load an implementation, that make it, and that call it."""
        target, convention = self.target, self.call.setup.convention
        if self.command is not None:
            return _program(self.command)
        if isinstance(target, str) and target.rpartition(":")[0].endswith(native.LIBRARIES):
            return _library(target)
        if isinstance(target, str) and target.endswith(native.KERNELS):
            return _kernel(target), [], [f"y = {convention.call}"]
        used = {n.id for n in ast.walk(parse_call(convention.call)) if isinstance(n, ast.Name)}
        further = used - (ROLES.keys() - {"config"}) - {name_of(target)}
        objects = sorted(name for name in further if name == "config" or name.startswith("init_"))
        further -= {*objects}
        setup = [f"{name} = ...  # an object that was given: make it here" for name in objects]
        if self.other is not None:
            setup += _import(self.other, set())
            further -= {name_of(self.other)}
        tree = parse_call(convention.call)
        made = next(
            (node for node in _chain(tree.body) if called_name(node) == name_of(target)), None
        )
        once = []
        if made is not None and made is not tree.body:
            once = [f"instance = {ast.unparse(made)}"]
            made.func, made.args, made.keywords = ast.Name("instance"), [], []
        call = ast.unparse(tree).replace("instance()", "instance", 1) if once else convention.call
        return [*_import(target, further), *setup], once, [f"y = {call}"]


def _requests(call: FailingCall) -> list[tuple[str, Request]]:
    before = [] if call.before is None else [("before_", call.before)]
    return [*before, ("", call.request)]


def _storable(array: Any) -> Any:
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def _chain(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that an expression begins with: f(a).g(b) begins with f(a)."""
    while isinstance(node, ast.Call | ast.Attribute):
        if isinstance(node, ast.Call):
            yield node
            node = node.func
        else:
            node = node.value


def _import(target: Any, further: set[str]) -> list[str]:
    """Return the lines that import an object, and further names of its module."""
    if isinstance(target, str):
        module, _, path = target.rpartition(":")
        folder = Path.cwd()
        if module.endswith(".py"):
            folder, module = Path(module).absolute().parent, Path(module).stem
    else:
        module, path = str(getattr(target, "__module__", "")), _qualify(target)
        file = getattr(sys.modules.get(module), "__file__", None)
        folder = Path.cwd() if file is None else Path(file).absolute().parents[module.count(".")]
        module = Path(file).stem if module == "__main__" and file else module
    if not path or "<" in path or not all(word.isidentifier() for word in module.split(".")):
        return [f"# from ... import {name_of(target)}  # it was given as an object: name it here"]
    first, *rest = path.split(".")
    names = ", ".join(sorted({first, *(name for name in further if not hasattr(builtins, name))}))
    lines = ["", f"sys.path.insert(0, {str(folder)!r})", f"from {module} import {names}"]
    return [*lines, f"{rest[-1]} = {path}"] if rest else lines


def _qualify(target: Any) -> str:
    return str(getattr(target, "__qualname__", "")) if hasattr(target, "__name__") else ""


def _program(command: str) -> tuple[list[str], list[str], list[str]]:
    parsed = native.Executable(command)
    places = ", ".join(f"{name}='{name}.npy'" for name in (*parsed.inputs, *parsed.outputs))
    run = [f"np.save('{name}.npy', {name})" for name in parsed.inputs]
    run += [
        f"subprocess.run([word.format({places}) for word in {parsed.words!r}], check=True)",
        "y = np.load('out.npy')",
    ]
    return ["import subprocess"], [], run


def _library(target: str) -> tuple[list[str], list[str], list[str]]:
    path, _, symbol = target.rpartition(":")
    setup = ["import ctypes", "", f"kernel = ctypes.CDLL({str(Path(path).absolute())!r}).{symbol}"]
    run = [
        "y = np.full_like(x, 0)",
        "pointers = [ctypes.c_void_p(each.ctypes.data) for each in (x, y, positions)]",
        "kernel(*pointers, *map(ctypes.c_int64, x.shape))",
    ]
    return setup, [], run


def _kernel(target: str) -> list[str]:
    """Return the lines that load the kernel of a file by its name in calls."""
    name, path = native.kernel_name(target), str(Path(target).absolute())
    if target.endswith(native.SCRIPTED):
        return [f"{name} = torch.jit.load({path!r})"]
    if target.endswith(native.EXPORTED):
        return [f"{name} = torch.export.load({path!r}).module()"]
    return [
        "import onnxruntime",
        "",
        f"session = onnxruntime.InferenceSession({path!r})",
        f"def {name}(*values):",
        "    given = zip(session.get_inputs(), values)",
        '    types = {"tensor(int32)": np.int32}',
        "    given = {i.name: np.asarray(v, types.get(i.type)) for i, v in given}",
        "    return session.run(None, given)",
    ]


def _substitute(text: str, name: str, value: str) -> str:
    """Replace a name where it is a word of its own."""
    return re.sub(rf"(?<![\w.]){name}(?!\w)", lambda _: value, text)


def _docstring(text: str) -> str:
    return text.replace("\\", "/").replace('"', "'").replace("\n", " ")
