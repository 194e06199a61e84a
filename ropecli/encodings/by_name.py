"""Any positional encoding by name, with given or sampled weights."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import as_array
from ropecli.encodings import types
from ropecli.encodings.encoding import Encoding, Sizes
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.names import one_of
from ropecli.numbers import at_least, even

ENCODINGS = tuple(sorted(module.name for module in pkgutil.iter_modules(types.__path__)))


def encoding(
    name: str,
    *,
    model_dim: int = 64,
    heads: int = 4,
    head_dim: int | None = None,
    seed: int = 0,
    weights: Mapping[str, Any] | None = None,
    **options: Any,
) -> Encoding:
    """Return a positional encoding.

    Args:
        name: One of `ENCODINGS`, such as "rope" or "t5".
        model_dim: Coordinates of a token.
        heads: Number of heads.
        head_dim: Coordinates of a head, even; model_dim / heads by default.
        seed: Seed of the weights that are not given.
        weights: Some or all weights by name, in the shapes of `Encoding.shapes`.
        **options: Options of this encoding.

    Raises:
        ArgumentError: No such encoding, option or weight, or a value out of range.
        ArgumentTypeError: A value of the wrong type.
    """
    kind = class_of(name)
    sizes = _sizes(model_dim, heads, head_dim)
    chosen = {field: value for field, value in options.items() if value is not None}
    allowed = option_names(kind)
    for option in chosen:
        if option not in allowed:
            raise ArgumentError(
                f"encoding {name} has no option {option!r}; it has {', '.join(allowed) or 'none'}"
            )
    seed = at_least("seed", seed, 0)
    shapes = kind.shapes(sizes, **chosen)
    given = {} if weights is None else dict(weights)
    for extra in given.keys() - shapes.keys():
        raise ArgumentError(
            f"encoding {name} has no weight {extra!r}; it has {', '.join(shapes) or 'none'}"
        )
    checked = {k: _check_weight(k, v, shapes[k]) for k, v in given.items()}
    return kind(sizes=sizes, weights=_complete(kind, shapes, checked, seed), **chosen)


def with_options(
    encoding: Encoding, *, sizes: Sizes | None = None, seed: int = 0, **options: Any
) -> Encoding:
    """Return an encoding of the same class with other sizes and options."""
    sizes = encoding.sizes if sizes is None else sizes
    kind = type(encoding)
    chosen = {name: getattr(encoding, name) for name in option_names(kind)} | options
    shapes = kind.shapes(sizes, **chosen)
    fitting = {
        name: weight
        for name, weight in encoding.weights.items()
        if shapes.get(name) == weight.shape
    }
    return kind(sizes=sizes, weights=_complete(kind, shapes, fitting, seed), **chosen)


def option_names(kind: type[Encoding]) -> list[str]:
    """Return the names of the options of a class of encodings."""
    return [f for f in inspect.signature(kind).parameters if f not in ("sizes", "weights")]


def _complete(
    kind: type[Encoding],
    shapes: dict[str, tuple[int, ...]],
    given: dict[str, NDArray[np.float64]],
    seed: int,
) -> dict[str, NDArray[np.float64]]:
    """Return weights of all shapes: those that are given, and random ones."""
    complete = dict(given)
    for missing in shapes.keys() - complete.keys():
        # Seeded with its name too, so that encodings share the weights that both have.
        random = np.random.default_rng([seed, *missing.encode()])
        complete[missing] = kind.sample_weight(missing, shapes[missing], random)
    return complete


def with_table(name: str, length: int, **arguments: Any) -> Encoding:
    """Return an encoding whose table of positions, if any, has at least `length` rows."""
    if "length" in inspect.signature(class_of(name)).parameters:
        arguments["length"] = length
    return encoding(name, **arguments)


def class_of(name: str) -> type[Encoding]:
    """The class of an encoding."""
    module = importlib.import_module(f"{types.__name__}.{one_of('encoding', name, ENCODINGS)}")
    return next(
        thing
        for thing in vars(module).values()
        if inspect.isclass(thing)
        and thing.__module__ == module.__name__
        and issubclass(thing, Encoding)
    )


def _sizes(model_dim: int, heads: int, head_dim: int | None) -> Sizes:
    dim, count = at_least("model_dim", model_dim, 1), at_least("heads", heads, 1)
    if head_dim is None and dim % count:
        raise ArgumentError(f"model_dim must be a multiple of heads, got {dim} and {count}")
    width = even("head dim", dim // count if head_dim is None else head_dim)
    return Sizes(model_dim=dim, heads=count, head_dim=width)


def _check_weight(name: str, value: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    array = as_array(name, value)
    if array.dtype.kind != "f":
        raise ArgumentTypeError(f"weight {name} must be floats, got {array.dtype}")
    if array.shape != shape:
        raise ArgumentError(f"weight {name} must have shape {shape}, got {array.shape}")
    weight: NDArray[np.float64] = np.ascontiguousarray(array, dtype=np.float64)
    if not np.isfinite(weight).all():
        raise ArgumentError(f"weight {name} must be finite")
    return weight
