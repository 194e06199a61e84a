"""Adapters that turn every form of implementation into a call with x and positions."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.checks.implementation.interface import ImplementationError, Unsupported
from ropecli.checks.implementation.oracle import by_length, sequence_length
from ropecli.errors import ArgumentError
from ropecli.reference import float64

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from ropecli.checks.implementation.framework import Framework
    from ropecli.rotary.rotary import Rotary

    #: NumPy arrays in, the framework's result out.
    Call = Callable[[NDArray[Any], NDArray[np.int64]], Any]
    #: Makes an instance of the implementation, with further keyword arguments.
    Make = Callable[[Mapping[str, Any]], Call]

#: Names of a parameter that is the base.
BASES = ("base", "theta", "rope_theta", "rope_base", "rotary_base", "freq_base", "rotary_emb_base")
#: Widths of cos and sin tables: each frequency in both halves, twice side by side, or once.
TABLES = ("half", "interleaved", "single")
FURTHEST_STEP = 512  #: Largest first position that a decoder is stepped to.


def apply(target: Any, init: Mapping[str, Any], frame: Framework) -> Make:
    """Adapt function(x, positions); parameters go in by keyword."""

    def make(more: Mapping[str, Any]) -> Call:
        keywords = {**init, **more}
        return lambda x, positions: target(frame.to(x), frame.to(positions), **keywords)

    return make


def module(target: Any, init: Mapping[str, Any], frame: Framework) -> Make:
    """Adapt a class with forward(x, positions) or __call__, or an instance of one."""

    def make(more: Mapping[str, Any]) -> Call:
        instance = target(**{**init, **more}) if inspect.isclass(target) else target
        method = instance if callable(instance) else getattr(instance, "forward", None)
        if method is None:
            msg = "it has neither forward nor __call__"
            raise ImplementationError(msg)
        return lambda x, positions: _first(method(frame.to(x), frame.to(positions)))

    return make


def tables(
    target: Any, init: Mapping[str, Any], frame: Framework, rope: Rotary, width: str
) -> Make:
    """Adapt function(q, k, cos, sin) -> q, k, as in Transformers, with cos and sin of float64."""
    batched = [True]  # whether the function takes (batch, sequence, dim), else (sequence, dim)
    at = by_length(rope)

    def make(more: Mapping[str, Any]) -> Call:
        def call(x: NDArray[Any], positions: NDArray[np.int64]) -> Any:
            cosine, sine = cos_sin(positions, at, width, x.dtype)
            if not batched[0] and len(cosine) == 1:
                cosine, sine = cosine[0], sine[0]
            both = target(
                frame.to(x), frame.to(x), frame.to(cosine), frame.to(sine), **{**init, **more}
            )
            return _check_agreement(both, frame)

        return call

    def try_both(more: Mapping[str, Any]) -> Call:
        call = make(more)
        probe = np.ones((1, 1, 3, rope.head_dim), dtype=np.float32)
        places = np.arange(3) if rope.axes == 1 else np.ones((3, rope.axes), dtype=np.int64)
        for shape in (True, False):
            batched[0] = shape
            try:
                if frame.back(call(probe, places)).shape == probe.shape:
                    return call
            except Exception:  # foreign code raises anything; the other shape is tried
                continue
        batched[0] = True
        return call

    return try_both


def decoder(target: Any, init: Mapping[str, Any], frame: Framework) -> Make:
    """Adapt a class with prefill(x) and step(x_one), which counts positions itself."""

    def make(more: Mapping[str, Any]) -> Call:
        def call(x: NDArray[Any], positions: NDArray[np.int64]) -> Any:
            start = int(positions[0]) if positions.ndim == 1 and len(positions) else -1
            consecutive = start >= 0 and np.array_equal(positions - start, np.arange(x.shape[-2]))
            if not consecutive or start > FURTHEST_STEP:
                msg = "a decoder counts its positions itself"
                raise Unsupported(msg)
            instance: Any = target(**{**init, **more})
            if not start:
                return instance.prefill(frame.to(x))
            instance.prefill(frame.to(np.ones((*x.shape[:-2], start, x.shape[-1]), dtype=x.dtype)))
            return np.concatenate(step_through(instance, x, frame), axis=-2)

        return call

    return make


def step_through(instance: Any, x: NDArray[Any], frame: Framework) -> list[NDArray[Any]]:
    """Return a decoder's result for each token in turn, as NumPy arrays (..., 1, head_dim)."""
    tokens = [x[..., i : i + 1, :] for i in range(x.shape[-2])]
    return [frame.back(instance.step(frame.to(token))).reshape(token.shape) for token in tokens]


def score(target: Any, init: Mapping[str, Any], frame: Framework) -> Make:
    """Adapt function(q, k, positions) -> scores; x holds q and k, one after the other."""

    def make(more: Mapping[str, Any]) -> Call:
        def call(x: NDArray[Any], positions: NDArray[np.int64]) -> Any:
            both = frame.to(x[0]), frame.to(x[1])
            return target(*both, frame.to(positions), **{**init, **more})

        return call

    return make


FORMS = ("apply", "tables", "module", "decoder", "score")


def adapt(
    name: str,
    target: Any,
    init: Mapping[str, Any],
    frame: Framework,
    *,
    rope: Rotary,
    width: str,
) -> Make:
    """Return a function that makes instances of an implementation of that form.

    Args:
        name: "apply", "tables", "module", "decoder" or "score".
        target: The function or class.
        init: Its keyword arguments.
        frame: Framework of the arrays that it takes.
        rope: Encoding of the tables that it is given.
        width: "half", "interleaved" or "single".

    Raises:
        ArgumentError: No such form or width, or a target or arguments that do not fit the form.
    """
    if width not in TABLES:
        msg = f"tables must be one of {', '.join(TABLES)}, got {width!r}"
        raise ArgumentError(msg)
    if name == "tables":
        return tables(target, init, frame, rope, width)
    plain = {"apply": apply, "module": module, "decoder": decoder, "score": score}
    if name not in plain:
        msg = f"form must be one of {', '.join(FORMS)}, got {name!r}"
        raise ArgumentError(msg)
    kind = type(target).__name__
    if inspect.isclass(target):
        name = "module" if name == "apply" else name
    elif name == "decoder":
        msg = f"form decoder takes a class, got a {kind}"
        raise ArgumentError(msg)
    elif name == "module" and init:
        msg = f"init needs a class with form module, got a {kind}"
        raise ArgumentError(msg)
    return plain[name](target, init, frame)


def base_parameter(target: Any, form: str) -> tuple[str, Any] | None:
    """Return the name and default of its parameter that is the base; None if it has none.

    An instance that exists already has its own.
    """
    if form in {"module", "decoder"} and not inspect.isclass(target):
        return None
    try:
        known = inspect.signature(target).parameters
    except Exception:  # a signature may run foreign code
        return None
    name = next((name for name in BASES if name in known), None)
    return None if name is None else (name, known[name].default)


def cos_sin(
    positions: NDArray[np.int64], at: Callable[[int], Rotary], width: str, dtype: np.dtype[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return tables (batch, sequence, dim) times the attention factor, rounded to the dtype."""
    places = positions.astype(np.float64)
    rope = at(sequence_length(places))
    axis = rope.axis if rope.axes > 1 else None
    angles = float64.angles(places, rope.inv_freq, axis=axis, direction=rope.direction)
    angles = angles if angles.ndim == 3 else angles[None]
    if width == "half":
        angles = np.concatenate([angles, angles], axis=-1)
    elif width == "interleaved":
        angles = np.repeat(angles, 2, axis=-1)
    factor = rope.attention_factor
    return (factor * np.cos(angles)).astype(dtype), (factor * np.sin(angles)).astype(dtype)


def _first(value: Any) -> Any:
    """Return the rotated queries of a result that also has keys."""
    return value[0] if isinstance(value, tuple) and value else value


def _check_agreement(both: Any, frame: Framework) -> Any:
    """Return the queries, which must equal keys made of the same vectors."""
    if not isinstance(both, tuple) or len(both) != 2:
        return both
    q, k = frame.back(both[0]), frame.back(both[1])
    if q.shape == k.shape and not np.array_equal(q, k):
        msg = "q and k, given the same vectors, came out different"
        raise ImplementationError(msg)
    return both[0]
