"""Stand-ins for modules that packages import, and do not need for their rotary embedding."""

from __future__ import annotations

import sys
from functools import cache
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: Large, of a GPU, or of a service.
NAMES = (
    "IPython",
    "aiohttp",
    "bettermap",
    "boto3",
    "botocore",
    "colt5_attention",
    "fairscale",
    "fastapi",
    "google.api_core",
    "google.auth",
    "google.cloud",
    "hl_gauss_pytorch",
    "kornia_rs",
    "lark",
    "outlines",
    "pynvml",
    "sgl_kernel",
    "spmd_types",
    "tensorflow",
    "torchdata",
    "torchvision",
    "uvicorn",
    "uvloop",
    "xgrammar",
    "zmq",
)


@cache
def _class_of(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Anything(name, (StandIn,), {})


class _Anything(type):
    """A class whose attributes are classes like it, each another one."""

    def __getattr__(cls, name: str) -> Any:
        return _class_of(name)


class StandIn(metaclass=_Anything):
    """Stands in for any name of a module: a class, a decorator, a base class."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __call__(self, *values: Any, **__: Any) -> Any:
        return values[0] if len(values) == 1 and callable(values[0]) else StandIn()

    def __getattr__(self, name: str) -> Any:
        return _class_of(name)

    def __class_getitem__(cls, _: Any) -> type:
        return cls


class _Module(ModuleType):
    __path__: list[str] = []  # noqa: RUF012, a package
    __version__ = "99"  # newer than any that is required

    def __getattr__(self, name: str) -> Any:
        return _class_of(name)


class _Finder:
    """Finds modules that no other finder finds."""

    def find_spec(self, name: str, _: Any = None, __: Any = None) -> ModuleSpec | None:
        known = any(name == each or name.startswith(each + ".") for each in NAMES)
        return ModuleSpec(name, self, is_package=True) if known else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None: ...


def install() -> None:
    """Let the names be imported where they are not installed."""
    sys.meta_path.append(_Finder())
