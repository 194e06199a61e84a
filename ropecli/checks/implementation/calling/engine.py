"""The engine makes instances of an implementation and calls them. It runs next to foreign code.

It knows nothing of laws: calls come in as plain arrays, and responses go out as such, so that it
may run in a process of its own (`worker.py`).
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.checks.implementation.call import (
    NOTHING_WRITTEN,
    Call,
    Evaluated,
    Evaluation,
    Response,
    Setup,
    Unsupported,
    WrongResult,
)
from ropecli.checks.implementation.calling.describe import Description, describe
from ropecli.checks.implementation.calling.foreign import translate_errors
from ropecli.checks.implementation.calling.frameworks import Numpy, bound, framework
from ropecli.checks.implementation.calling.values import (
    Values,
    arrange,
    consecutive,
    pack,
    restore,
    unpack,
)
from ropecli.checks.implementation.calling.vocabulary import Configuration, roles
from ropecli.checks.implementation.convention import ROLES, called_name, parse_call

VECTORS = ("x", "q", "k", "qkv")
ALIAS = "target"  #: Another name of the implementation in calls, for one that is named like a role.
COUNTS = ("heads", "key_heads")
#: What a class is told that belongs to a call: each gets an instance of its own.
TOLD = (*COUNTS, "axes_dims", "grid")
FURTHEST_STEP = 512  #: Largest first position that a decoder is stepped to.


class Engine:
    """An implementation that is here in this process, and its instances."""

    def __init__(
        self,
        target: Any,
        *,
        name: str,
        other: Any = None,
        other_name: str = "",
        device: str | None = None,
        values: Mapping[str, Any] | None = None,
        origin: str = "",
    ) -> None:
        """Take an implementation."""
        self._origin = origin
        self.target = target
        self.name = name
        self.other = other
        self.other_name = "apply_with" if other_name == name else other_name
        self._device = device
        self._values = dict(values or {})
        self._frames: dict[str, Numpy] = {}
        self._instances: dict[int, _Instance] = {}
        self._objects: dict[tuple[str, int], Any] = {}  # of expressions

    def frame(self, name: str) -> Numpy:
        """Return the framework of that name."""
        if name not in self._frames:
            self._frames[name] = framework(name, self._device)
        return self._frames[name]

    def describe(self) -> Description:
        """Describe the implementation."""
        with translate_errors():
            return describe(self.target, self.name, self.other, self.other_name, self._origin)

    def dtypes(self, name: str) -> tuple[str, ...]:
        """Return the dtypes that a framework holds."""
        return self.frame(name).dtypes

    def has_device(self, name: str, device: str) -> bool:
        """Return True if a framework has a device other than the CPU on this machine."""
        return self.frame(name).has_device(device)

    def make(self, setup: Setup) -> int:
        """Make an instance, and return the number by which calls name it."""
        frame = self.frame(setup.convention.framework)
        number = 1 + max(self._instances, default=0)
        with translate_errors():
            self._instances[number] = _Instance(self, frame, setup)
        return number

    def call(self, number: int, call: Call) -> Response:
        """Call an instance."""
        instance, call = self._instances[number], call.whole()
        with translate_errors():
            return instance.respond(call)

    def evaluate(self, asked: Evaluation) -> Evaluated:
        """Evaluate an expression over the implementation."""
        frame = self.frame(asked.framework)
        made = self.name if inspect.isclass(self.target) else ""
        call, _, construction = _codes(asked.text, "", made)
        handed = {
            name: frame.dtype(value.name)
            if isinstance(value, np.dtype)
            else frame.to(np.array(value, order="C"))
            if isinstance(value, np.ndarray)
            else value
            for name, value in asked.values.items()
        }
        scope = {**self.names(), **handed}
        with translate_errors():
            owner, key = self.target, (asked.text, asked.instance)
            if construction is not None:
                if key not in self._objects:
                    self._objects[key] = bound(eval(construction, scope))
                owner = self._objects[key]
            weights = {} if asked.weights is None else frame.set_weights(owner, asked.weights)
            value = _close(eval(call, {**scope, _OBJECT: owner}))
            numbers = isinstance(value, list) and all(isinstance(n, int | float) for n in value)
            results = [np.array(value)] if numbers else _results(value)
            back = tuple(frame.back(result) for result in results if result is not None)
            changed = [
                (name, change)
                for name, value in asked.values.items()
                if isinstance(value, np.ndarray)
                and name != "out"
                and (change := _first_change(name, value, frame.back(handed[name])))
            ]
        return Evaluated(results=back, weights=weights, changed=tuple(changed))

    def drop(self, number: int) -> None:
        """Forget an instance."""
        self._instances.pop(number, None)

    def names(self) -> dict[str, Any]:
        """Return what an expression may name: the target's own module, the target, the other."""
        module = sys.modules.get(getattr(self.target, "__module__", None) or "")
        function = self.target.__init__ if inspect.isclass(self.target) else self.target
        around = getattr(inspect.unwrap(function), "__globals__", None) or vars(module or object)
        both = {ALIAS: bound(self.target), self.name: bound(self.target)}
        if self.other_name:
            both[self.other_name] = self.other
        return {**around, **self._values, **both}


class _Instance:
    """One instance: its class is called once, or once for each value of what is in `TOLD`."""

    def __init__(self, engine: Engine, frame: Numpy, setup: Setup) -> None:
        self._frame = frame
        self._setup = setup
        self._convention = convention = setup.convention
        self._target = engine.name
        self._names = engine.names()
        made = engine.name if inspect.isclass(engine.target) else ""
        self._call, self._step, self._construction = _codes(convention.call, convention.step, made)
        self._objects: dict[tuple[Any, ...], Any] = {}  # by what their class is told
        named = () if self._construction is None else self._construction.co_names
        self._told = tuple(name for name in TOLD if name in named)
        if not self._told:
            self._object({})

    def _object(self, counts: Mapping[str, Any]) -> Any:
        """Return the instance for these arguments of a call."""
        key = tuple(counts[name] for name in self._told)
        if key not in self._objects:
            self._objects[key] = self._construct(counts)
        return self._objects[key]

    def _construct(self, counts: Mapping[str, Any]) -> Any:
        if self._construction is None:
            return None
        rope = self._setup.rope
        sizes = {
            **{name: counts[name] for name in self._told},
            "head_dim": rope.head_dim,
            "rotary_dim": rope.rotary_dim,
            "base": rope.base,
            "context": self._setup.context,
            "dtype": self._frame.dtype("float32"),
        }
        sizes["config"] = Configuration(sizes)
        return bound(eval(self._construction, {**self._names, **sizes}))

    def respond(self, call: Call) -> Response:
        """Make one call, and read its result."""
        if self._step is not None:
            return self._decode(call)
        if call.gradient:
            return self._pull_back(call)
        handed = self._arguments(call)
        value = _close(eval(self._call, self._scope(handed)))
        return self._response(call, handed, value)

    def _arguments(self, call: Call) -> dict[str, Any]:
        """Return the framework's arguments of a call."""
        names = self._convention.names & ROLES.keys() - {self._target}
        made = Values(call=call, setup=self._setup).of(names)
        return {
            name: self._hand(value, call.memory if name in VECTORS else "contiguous")
            for name, value in made.items()
        }

    def _hand(self, value: Any, memory: str) -> Any:
        if memory != "contiguous" and not self._frame.has_strides:
            raise Unsupported("its framework has no arrays with strides")
        if isinstance(value, np.dtype):
            return self._frame.dtype(value.name)
        if not isinstance(value, np.ndarray):
            return value
        array = value
        if memory == "expanded":
            return self._frame.expand(array[:1].copy(), array.shape)
        return self._frame.to(lay_out(array, memory))

    def _scope(self, handed: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the names in a call stand for."""
        return {**self._names, **handed, _OBJECT: self._object(handed)}

    def _response(self, call: Call, handed: Mapping[str, Any], value: Any) -> Response:
        """Read what a call returned, and what it did to its arguments."""
        back, frame = self._read(call, handed, value), self._frame
        reread = None
        if call.followed_by:
            for later in call.followed_by:
                _close(eval(self._call, self._scope(self._arguments(later))))
            reread = self._read(call, handed, value)[0]
        changed = []
        if call.watch:
            before = self._arguments(call)
            for name, given in handed.items():
                if hasattr(given, "shape") and name != "out":
                    change = _first_change(name, frame.back(before[name]), frame.back(given))
                    changed += [] if change is None else [(name, change)]
        q, k, v = back
        ignored = len(_results(value)) - sum(gradient is not None for gradient in back)
        in_place = value is None and "out" not in handed
        return Response(
            q=q, k=k, v=v, in_place=in_place, changed=tuple(changed), reread=reread, ignored=ignored
        )

    def _read(
        self, call: Call, handed: Mapping[str, Any], value: Any
    ) -> tuple[NDArray[Any], NDArray[Any] | None, NDArray[Any] | None]:
        """Return q, k and v of a result in canonical axes, as far as it has them."""
        names = [name for name in ("x", "q", "qkv") if name in handed]
        if value is None and "out" in handed:
            value = handed["out"]
        if value is None:  # written over the arguments
            value = tuple(handed[name] for name in [*names, "k"] if name in handed)
            self._refuse_unchanged(names[0], value[0], call)
        both = _results(value)
        if not both:
            raise WrongResult("it returned nothing")
        text = self._convention.axes_of_x
        packed = "qkv" in handed and len(both) == 1
        results = [self._frame.back(result) for result in both[: 3 if "qkv" in handed else 2]]
        results = unpack(results[0], text) if packed else results
        q = restore(names[0] if names else "x", results[0], text, call.q)
        if not {"k", "qkv"} & handed.keys() or len(results) < 2:
            return q, None, None
        k, *keys = (restore("k", result, text, call.k) for result in results[1:])
        return q, k, keys[0] if keys else None

    def _refuse_unchanged(self, name: str, written: Any, call: Call) -> None:
        """Refuse a call that returned nothing and wrote nothing."""
        text = self._convention.axes_of_x
        given = pack(call.q, call.k, text) if name == "qkv" else arrange(call.q, text)
        if call.positions.any() and np.array_equal(self._frame.back(written), given):
            raise WrongResult(NOTHING_WRITTEN)

    def _pull_back(self, call: Call) -> Response:
        """Return the gradients of the queries, and of the keys if one of their result is given."""
        handed, given_back = self._arguments(call), call.gradients
        if "qkv" in handed:
            return self._pull_back_packed(call, handed)
        # With queries, x only says for which dtype tables are made.
        known = [name for name in VECTORS if name in handed and not (name == "x" and "q" in handed)]
        names = known[: len(given_back)]
        text = self._convention.axes_of_x

        def rotate(*vectors: Any) -> list[Any]:
            differentiated = dict(zip(names, vectors, strict=True))
            value = _close(eval(self._call, self._scope(handed | differentiated)))
            if value is None or "out" in handed:
                raise Unsupported("it writes its result into an argument")
            return _results(value)[: len(names)]

        most = len(names)
        vectors = [call.q, call.k][:most]
        given = [self._hand(arrange(x, text), "contiguous") for x in vectors]
        ups = [self._hand(arrange(grad, text), call.memory) for grad in given_back]
        backs, note = self._frame.pull_back(rotate, given, ups[:most])
        self._refuse_changed(ups, [arrange(grad, text) for grad in given_back])
        gradient = tuple(
            restore("the gradient", self._frame.back(back), text, like)
            for back, like in zip(backs, given_back, strict=False)
        )
        return Response(q=call.q, gradient=gradient, note=note)

    def _refuse_changed(self, ups: Sequence[Any], before: Sequence[NDArray[Any]]) -> None:
        """Refuse a call that writes into the gradients of its result."""
        for up, gradient in zip(ups, before, strict=True):
            if not np.array_equal(self._frame.back(up), gradient, equal_nan=True):
                raise WrongResult("the gradient that it is given is written into")

    def _pull_back_packed(self, call: Call, handed: Mapping[str, Any]) -> Response:
        """Return the gradients of queries, keys and values that are one array."""
        text = self._convention.axes_of_x

        def rotate(packed: Any) -> list[Any]:
            value = _close(eval(self._call, self._scope({**handed, "qkv": packed})))
            if value is None or "out" in handed:
                raise Unsupported("it writes its result into an argument")
            return _results(value)[:3]

        q, k = call.gradients[0], call.gradients[-1]
        ups = [pack(q, k, text)]
        if (count := len(rotate(handed["qkv"]))) > 1:
            ups = [arrange(array, text) for array in (q, k, k)[:count]]
        given = [self._hand(pack(call.q, call.k, text), "contiguous")]
        handed_ups = [self._hand(up, call.memory) for up in ups]
        (back,), note = self._frame.pull_back(rotate, given, handed_ups)
        self._refuse_changed(handed_ups, ups)
        parts = unpack(self._frame.back(back), text)[: count if count > 1 else 3]
        gradient = tuple(restore("the gradient", part, text, q) for part in parts)
        return Response(q=call.q, gradient=gradient, note=note)

    def _decode(self, call: Call) -> Response:
        """Prefill a new decoder, or the one of before, and step through the other tokens."""
        if call.gradient:
            raise Unsupported("gradients of a decoder are not asked for")
        if not call.continues:
            self._objects.clear()
        memory = call.memory
        if call.stepwise:
            first, tail = np.split(call.q, [call.prefilled], axis=2)
            parts = [self._take(self._call, first, memory)] if call.prefilled else []
            return Response(q=np.concatenate([*parts, *self._steps(tail, memory)], axis=2))
        try:
            start = consecutive(call)
        except Unsupported:
            start = FURTHEST_STEP + 1
        if call.per_sequence or start > FURTHEST_STEP:
            raise Unsupported("a decoder counts its positions itself")
        if not start:
            return Response(q=self._take(self._call, call.q, memory))
        earlier = np.ones_like(call.q[:, :, :1]).repeat(start, axis=2)
        self._take(self._call, earlier, memory)
        return Response(q=np.concatenate(self._steps(call.q, memory), axis=2))

    def _steps(self, tokens: NDArray[Any], memory: str) -> list[NDArray[Any]]:
        steps = (tokens[:, :, i : i + 1] for i in range(tokens.shape[2]))
        return [self._take(self._step, token, memory) for token in steps]

    def _take(self, code: Any, x: NDArray[Any], memory: str) -> NDArray[Any]:
        """Return a decoder's rows for x, a token's without its axis too."""
        arranged = arrange(x, self._convention.axes_of_x)
        handed = dict.fromkeys(COUNTS, x.shape[1]) | {"x": self._hand(arranged, memory)}
        result = self._frame.back(_close(eval(code, self._scope(handed))))
        if x.shape[2] == 1 and result.size == arranged.size:
            result = result.reshape(arranged.shape)
        return restore("x", result, self._convention.axes_of_x, x)


def _close(value: Any) -> Any:
    """Return a result; of a coroutine, Python warns otherwise that it was never awaited."""
    if inspect.iscoroutine(value):
        value.close()
    return value


def _results(value: Any) -> list[Any]:
    """Return the arrays of a result, the queries first where it names them."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    elif dataclasses.is_dataclass(value) and not hasattr(value, "shape"):
        value = vars(value)
    if isinstance(value, Mapping):
        named = {role: value[key] for key in value for role in roles(str(key), 1)[:1]}
        value = [named["q"], named["k"]] if {"q", "k"} <= named.keys() else value.values()
        return [*value]
    return [*value] if isinstance(value, tuple | list) else [value]


_OBJECT = "_instance"


class _Hoist(ast.NodeTransformer):
    """Replaces calls of a class by the name of its instance, and keeps the call."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.construction: ast.Call | None = None

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if self.name and called_name(node) == self.name:
            self.construction = node
            return ast.copy_location(ast.Name(id=_OBJECT, ctx=ast.Load()), node)
        return self.generic_visit(node)


@functools.lru_cache(maxsize=1024)
def _codes(call: str, step: str, made: str) -> tuple[Any, Any, Any]:
    """Return the code of a call, of a step, and of the class that is called, compiled once."""
    hoist = _Hoist(made)
    code = _compile(hoist.visit(parse_call(call)))
    code_of_step = _compile(hoist.visit(parse_call(step))) if step else None
    construction = hoist.construction
    return code, code_of_step, construction and _compile(ast.Expression(construction))


def _compile(tree: ast.Expression) -> Any:
    return compile(ast.fix_missing_locations(tree), "<call>", "eval")


def lay_out(array: NDArray[Any], memory: str) -> NDArray[Any]:
    """Return a copy of an array, in memory of another kind."""
    if memory == "transposed":
        if array.ndim < 3:
            return array.copy(order="F")
        return array.swapaxes(-2, -3).copy(order="C").swapaxes(-2, -3)
    *lead, dim = array.shape
    if memory == "sliced":
        view = np.full((*lead, 3 * dim), 7.0).astype(array.dtype)[..., dim : 2 * dim]
    elif memory == "strided":
        view = np.full((*lead, 2 * dim), 7.0).astype(array.dtype)[..., ::2]
    elif memory == "offset":
        view = np.full(array.size + 12, 7.0).astype(array.dtype)[5 : 5 + array.size]
        view = view.reshape(array.shape)
    else:
        return np.array(array, order="C")
    view[...] = array
    return view


def _first_change(name: str, before: NDArray[Any], after: NDArray[Any]) -> str | None:
    wrong = np.argwhere(before.astype(np.complex128) != after.astype(np.complex128))
    if not len(wrong):
        return None
    index = tuple(int(i) for i in wrong[0])
    return f"{name}{list(index)} was {before[index]:.6g}, is {after[index]:.6g}"
