"""Where an implementation is, so that any process can load it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ropecli.checks.implementation.calling.engine import Engine
from ropecli.checks.implementation.calling.executable import Executable
from ropecli.checks.implementation.calling.process import IsolatedEngine
from ropecli.checks.implementation.calling.shared_library import SUFFIXES, SharedFunction
from ropecli.checks.implementation.calling.worker import IN_WORKER
from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class Source(Protocol):
    """Something that makes an engine, in this process or in one that unpickled it."""

    def engine(self) -> Engine:
        """Return the engine.

        Raises:
            FileError: It can't be loaded.
        """


@dataclass(frozen=True, kw_only=True)
class Named:
    """A function or class by name: "module:function", "file.py:function", "library.so:symbol"."""

    target: str
    other: str = ""  #: Name of the second function, if there is one.
    device: str | None = None

    def engine(self) -> Engine:
        """Load both, with their folder in reach of imports that wait until the first call."""
        from ropecli.files.function import folder_of, load_function

        library, _, symbol = self.target.rpartition(":")
        if library.endswith(SUFFIXES):
            return Engine(SharedFunction(library, symbol), name=symbol)
        sys.path.append(folder_of(self.target))
        return Engine(
            load_function(self.target),
            name=_last_name(self.target),
            other=load_function(self.other) if self.other else None,
            other_name=_last_name(self.other),
            device=self.device,
        )


@dataclass(frozen=True, kw_only=True)
class Command:
    """A program, by its command with placeholders."""

    command: str

    def engine(self) -> Engine:
        """Parse the command."""
        return Engine(Executable(self.command), name="program")


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
            name=_name_of(self.target),
            other=self.other,
            other_name="" if self.other is None else _name_of(self.other),
            device=self.device,
            values=self.values,
        )

    def pickled(self) -> Pickled:
        """Return it for another process.

        Raises:
            Exception: Whatever its parts raise when they are pickled.
        """
        import cloudpickle

        by_value = [
            module
            for module in map(_module_of, (self.target, self.other))
            if module is not None and _is_out_of_reach(module.__name__)
        ]
        for module in by_value:
            cloudpickle.register_pickle_by_value(module)
        try:
            return Pickled(data=cloudpickle.dumps(self), path=tuple(sys.path))
        finally:
            for module in by_value:
                cloudpickle.unregister_pickle_by_value(module)


@dataclass(frozen=True, kw_only=True)
class Pickled:
    """A function, class or object of another process."""

    data: bytes
    path: tuple[str, ...]  #: Where that process looks for modules.

    def engine(self) -> Engine:
        """Unpickle it."""
        sys.path[:] = self.path
        here: Here = pickle.loads(self.data)
        return here.engine()


def source_of(
    target: Any,
    command: str | None,
    other: Any,
    values: Mapping[str, Any],
    device: str | None,
    *,
    isolated: bool,
) -> tuple[Source, tuple[str, ...]]:
    """Return where an implementation is, and what a reader should know of it.

    Raises:
        ArgumentError: Neither a target nor a command, or both.
    """
    if (target is None) == (command is None):
        msg = (
            "either a target or a command must be given, got " + ("both", "neither")[target is None]
        )
        raise ArgumentError(msg)
    if command is not None:
        return Command(command=command), ()
    if isinstance(target, str):
        return Named(target=target, other=other or "", device=device), ()
    here = Here(target=target, other=other, device=device, values=values)
    if not isolated or IN_WORKER in os.environ:
        return here, ()
    try:
        return here.pickled(), ()
    except Exception as error:  # foreign objects raise anything when they are pickled
        return here, (f"it ran in this process, since it can't be pickled: {error}",)


@contextlib.contextmanager
def engine_of(
    source: Source, *, isolated: bool, timeout: float, echo: Callable[[str], None] | None
) -> Iterator[Engine | IsolatedEngine]:
    """Run an engine: here if the source is or if it must be, else in a process of its own."""
    if isinstance(source, Here) or not isolated:
        yield source.engine()
        return
    engine = IsolatedEngine(source, timeout=timeout, echo=echo)
    try:
        yield engine
    finally:
        engine.close()


def _last_name(target: str) -> str:
    return target.rpartition(":")[2].rpartition(".")[2]


def _name_of(target: Any) -> str:
    """Return the name by which a call names an object."""
    name = str(getattr(target, "__name__", ""))
    return name if name.isidentifier() else "target"


def _module_of(target: Any) -> Any:
    kind = target if hasattr(target, "__name__") else type(target)
    return sys.modules.get(getattr(kind, "__module__", None) or "")


def _is_out_of_reach(name: str) -> bool:
    """Whether another process cannot import a module by its name."""
    if name == "__main__":
        return False  # pickled by value anyway
    try:
        return importlib.util.find_spec(name) is None
    except (ImportError, ValueError, AttributeError):
        return True
