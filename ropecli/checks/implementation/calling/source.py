"""The place of an implementation, from which any process can load it."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ropecli.checks.implementation.calling import native
from ropecli.checks.implementation.calling.engine import Engine
from ropecli.checks.implementation.calling.foreign import translate_errors
from ropecli.checks.implementation.calling.isolate import IN_WORKER
from ropecli.errors import ArgumentError, ArgumentTypeError, FileError
from ropecli.rotary.rotary import Rotary


class Source(Protocol):
    """Something that makes an engine, in this process or in one that unpickled it."""

    def engine(self) -> Engine:
        """Return the engine."""


@dataclass(frozen=True, kw_only=True)
class Named:
    """A function or class by name, such as "file.py:function", or a model of ONNX."""

    target: str
    other: str = ""  #: Name of the second function, if there is one.
    device: str | None = None

    def engine(self) -> Engine:
        """Load both, with their folder in reach of imports that wait until the first call."""
        from ropecli.files.function import folder_of, load_function

        name = name_of(self.target)
        if self.target.endswith(native.ONNX):
            return Engine(native.load_onnx(self.target), name=name, device=self.device)
        library, _, symbol = self.target.rpartition(":")
        if library.endswith(native.LIBRARIES):
            return Engine(native.SharedFunction(library, symbol), name=symbol)
        sys.path.append(folder_of(self.target))
        return Engine(
            load_function(self.target),
            name=name,
            other=load_function(self.other) if self.other else None,
            other_name=name_of(self.other),
            device=self.device,
            origin=self.target,
        )


@dataclass(frozen=True, kw_only=True)
class Command:
    """A program, by its command with placeholders."""

    command: str

    def engine(self) -> Engine:
        """Parse the command."""
        return Engine(native.Executable(self.command), name="program")


@dataclass(frozen=True, kw_only=True)
class Here:
    """A function, class or object of this process."""

    target: Any
    other: Any = None
    device: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)  #: Further names for calls.

    def engine(self) -> Engine:
        """Take it as it is."""
        return Engine(
            self.target,
            name=name_of(self.target),
            other=self.other,
            other_name="" if self.other is None else name_of(self.other),
            device=self.device,
            values=self.values,
        )

    def pickle(self) -> Pickled:
        """Return it for another process."""
        import cloudpickle

        by_value = []
        try:
            for module in {id(m): m for m in map(_module_of, (self.target, self.other))}.values():
                if module is not None and _is_out_of_reach(module):
                    cloudpickle.register_pickle_by_value(module)
                    by_value.append(module)
            return Pickled(data=cloudpickle.dumps(self))
        finally:
            for module in by_value:
                cloudpickle.unregister_pickle_by_value(module)


@dataclass(frozen=True, kw_only=True)
class Pickled:
    """A function, class or object of another process, where modules are found as in this one."""

    data: bytes

    def engine(self) -> Engine:
        """Unpickle it."""
        with translate_errors():
            here: Here = pickle.loads(self.data)
        return here.engine()


def source_of(
    target: Any,
    command: str | None,
    other: Any,
    values: Mapping[str, Any],
    device: str | None,
) -> Source:
    """Return where an implementation is."""
    if (target is None) == (command is None):
        raise ArgumentError(
            "either a target or a command must be given, got " + ("both", "neither")[target is None]
        )
    if command is not None:
        if other is not None:
            raise ArgumentError(
                "a command rotates by itself, got a second function to apply its tables",
                "leave `apply_with` out",
            )
        native.check_program(command)
        return Command(command=command)
    if other is not None and isinstance(target, str) != isinstance(other, str):
        msg = "target and apply_with must both be names, or neither, got "
        msg += f"{type(target).__name__} and {type(other).__name__}"
        raise ArgumentError(msg)
    from ropecli.models.model import Model  # no worker needs it

    if isinstance(target, Model | Rotary):
        raise ArgumentTypeError(
            f"target must be code that rotates, got a {type(target).__name__}",
            "give the code, and the Rotary, such as model.layer().rotary, as `expect`",
        )
    if not isinstance(target, str):
        return Here(target=target, other=other, device=device, values=values)
    if values:
        key = next(iter(values)).removeprefix("init_")
        raise ArgumentError(
            f"init of a target by name must be numbers, strings and lists of them, got {key}",
            "pass the class itself as target",
        )
    if IN_WORKER in os.environ:
        raise ArgumentError(
            "check was called by the code that is being checked",
            "put that call under `if __name__ == '__main__':`",
        )
    for candidate in filter(None, (target, other)):
        _check_present(candidate)
    return Named(target=target, other=other or "", device=device)


def _check_present(target: str) -> None:
    """Refuse a target that is not there or not to be called, before a process is started."""
    from ropecli.files.function import module_and_name

    native.refuse_source(target)
    path = target if target.endswith(native.ONNX) else target.rpartition(":")[0]
    if not path.endswith((native.ONNX, *native.LIBRARIES)):
        module_and_name(target)
    elif not Path(path).is_file():
        raise FileError(f"cannot read {path}: no such file")


def name_of(target: Any) -> str:
    """Return the name by which a call names an implementation."""
    if not isinstance(target, str):
        name = str(getattr(target, "__name__", ""))
        return name if name.isidentifier() else "target"
    if target.endswith(native.ONNX):
        return native.onnx_name(target)
    return target.rpartition(":")[2].rpartition(".")[2]


def _module_of(target: Any) -> Any:
    kind = target if hasattr(target, "__name__") else type(target)
    return sys.modules.get(getattr(kind, "__module__", None) or "")


def _is_out_of_reach(module: Any) -> bool:
    """Return True if another process does not find a module, or another one, by its name."""
    if module.__name__ == "__main__":
        return False  # pickled by value anyway
    path: Any = None
    try:
        parts = module.__name__.split(".")
        for count in range(1, len(parts) + 1):
            name = ".".join(parts[:count])
            specs = (finder.find_spec(name, path) for finder in sys.meta_path)
            spec = next(axis_spec for axis_spec in specs if axis_spec is not None)
            path = spec.submodule_search_locations
        origin = getattr(module, "__file__", None)
        return origin is not None and spec.origin is not None and spec.origin != origin
    except Exception:  # finders are foreign code, too
        return True
