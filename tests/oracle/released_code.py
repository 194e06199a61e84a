"""One function of a released library, and what its file and its calls are made of.

`source` is a user's file as it would be written, and `function` the name in it that is checked. The
numbers of `convention` are parameters of a formula in test_released_encodings.py, which knows
neither the library nor this package.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

Shape = Literal["table", "bias", "buckets", "slopes", "scores"]
Verdict = Literal["paper", "variant", "wrong"]

LENGTH, DIM = 2000, 64  #: Size of most tables.
HF = "transformers.models"


@dataclass(frozen=True)
class Released:
    """One function, method or module as it is released."""

    library: str  #: Name and version of the distribution.
    source: str
    function: str
    shape: Shape
    encoding: str
    verdict: Verdict
    formula: str  #: Name of a function of the test module.
    convention: Mapping[str, Any]
    call: Callable[[Any], Any]  #: Calls the function with the sizes of `sizes`.
    sizes: Mapping[str, Any] = field(default_factory=dict)
    within: float = 0.0  #: Largest error of a right one, in units of the largest value.
    right: Mapping[str, Any] = field(default_factory=dict)  #: What a wrong one should have been.
    error: float = 0.0  #: Largest difference of a wrong one from that, to within 1 %.
    note: str = ""  #: What is odd in its signature, or wrong.
    adapter: bool = False  #: `source` has code that no user of the library would need.

    @property
    def signature(self) -> str:
        """The signature, of `forward` where a module of torch is called."""
        function = load(self.source, self.function)
        return str(inspect.signature(getattr(function, "forward", function)))

    @property
    def origin(self) -> str:
        """The module and qualified name of the released code, or the import of an adapter."""
        function = load(self.source, self.function)
        function = inspect.unwrap(getattr(function, "func", function))
        if not inspect.isroutine(function):
            function = type(function)
        if function.__module__ is None:  # of the user's file
            return next(line for line in self.source.splitlines() if line.startswith("from "))
        return f"{function.__module__}:{function.__qualname__}"

    @property
    def angles(self) -> str:
        """The dtype in which a table has computed its angles, as its error shows."""
        return "float64" if self.within <= DOUBLE else "float32"

    @property
    def line(self) -> str:
        """The convention in one line."""
        words = [f"{name} {value}" for name, value in self.convention.items()]
        return ", ".join([*words, self.note] if self.note else words)


#: What a library can't be imported without, though it may be installed so.
NEEDS = {"torchtune": ("torchao",)}


def is_installed(entry: Released) -> bool:
    """Whether a library is there; it is not imported, since its file may have to ask for more."""
    name = entry.library.rpartition(" ")[0].replace("-", "_")
    return all(find_spec(each) is not None for each in (name, *NEEDS.get(name, ())))


@cache
def load(source: str, function: str) -> Any:
    """Return what a user's file calls `function`, ignoring warnings of the libraries."""
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(source, f"<{function}>", "exec"), names)
    return names[function]


def fresh(source: str, function: str) -> Any:
    """Return the same of a new run of the file, so that no earlier call has left a trace in it."""
    return load.__wrapped__(source, function)


def model(name: str, *lines: str, what: str) -> str:
    """Return a file that imports names of a model of Transformers, and goes on with `lines`."""
    start = f"from {HF}.{name}.modeling_{name} import {what}"
    return "\n".join([start, *lines])


def tensor(array: Any, dtype: str = "int64") -> Any:
    """Return a tensor of torch, whose dtype NumPy need not know."""
    import torch

    return torch.as_tensor(np.asarray(array)).to(getattr(torch, dtype))


def dtype(name: str) -> Any:
    """Return a dtype of torch."""
    import torch

    return getattr(torch, name)


def zeros(*shape: int, dtype: str = "float32") -> Any:
    """Return zeros, whose shape alone counts."""
    return tensor(np.zeros(shape), dtype)


def ones(*shape: int) -> Any:
    """Return a mask that leaves nothing out."""
    return tensor(np.ones(shape))


TRANSFORMERS = "transformers 5.24.0"
X_TRANSFORMERS = "x-transformers 2.31.10"
DIFFUSERS = "diffusers 0.42.1"
MLX = "mlx 0.32.4"
TORCHTUNE = "torchtune 0.6.1"
TIMM = "timm 1.0.31"
KERAS = "keras-hub 0.32.0"
#: The first line of a file for Keras, which asks for its framework before its import.
JAX = "import os\nos.environ.setdefault('KERAS_BACKEND', 'jax')\n"
POSITIONAL = "positional-encodings 6.0.3"

#: What a table in float32 may be off by: its angles are right to one unit or two.
SINGLE = LENGTH * 2.0**-22
#: The same of angles in float64, rounded to float32 at the end.
DOUBLE = 2.0**-23


def entry(
    shape: Shape,
    encoding: str,
    formula: str,
    source: str,
    function: str,
    call: Callable[[Any], Any],
    sizes: Mapping[str, Any],
    within: float = 0.0,
    library: str = TRANSFORMERS,
    verdict: Verdict = "paper",
    **more: Any,
) -> Released:
    """Return an entry with the arguments in another order."""
    convention = more.pop("convention", {})
    return Released(
        library, source, function, shape, encoding, verdict, formula,
        convention, call, sizes, within, **more,
    )  # fmt: skip


def mlx(array: Any) -> Any:
    """Return an array of MLX."""
    import mlx.core as mx

    return mx.array(np.asarray(array))


def jax(array: Any) -> Any:
    """Return an array of JAX."""
    import jax.numpy as jnp

    return jnp.asarray(array)


def normal(seed: int, *shape: int) -> Any:
    """Return random numbers in float32, those that the formula draws too."""
    return tensor(np.random.default_rng(seed).standard_normal(shape), "float32")


def causal_scores(seed: int, *shape: int) -> Any:
    """Return the same with keys ahead of the query left out."""
    import torch

    ahead = torch.ones(shape[-2:], dtype=torch.bool).triu(1)
    return normal(seed, *shape).masked_fill(ahead, -torch.finfo(torch.float32).max)
