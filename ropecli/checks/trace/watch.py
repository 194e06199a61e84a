"""Vectors of a running PyTorch model before and after its rotation, and how they are scored.

Functions of a model that are named after RoPE are wrapped while it is watched: the outermost one
that returns tensors of the shape of its arguments rotates them. The products of matrices that
become scores show where these vectors are in a query or a key, and what multiplies the score.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import as_array
from ropecli.checks.trace.tensors import CALLS, ModelCall, Vectors
from ropecli.checks.trace.verdict import Recording
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.units import TINY

#: Names of functions and classes that may rotate; not "prototype", and not "SolarOpen".
_NAMED = re.compile("(?<![A-Za-z])rot|Rot|ROT|rope|Rope|RoPE|ROPE")
_LARGER = re.compile("Attention|Layer|Block|Model|Transformer")  #: Modules that do more.
#: Arguments of a model: its tokens, and their positions.
_TOKENS = ("input_ids", "inputs_embeds", "hidden_states", "tokens", "x")
CACHES = ("cache", "past_key_values")  #: Its cache: Transformers has the first name from 5.24 on.
_POSITIONS = ("position_ids", "positions", "input_pos", "start_pos")
_ROWS = 512  #: Positions of one call that are kept, at most, of all sequences together,
_FEWEST = 32  #: but no fewer than this of each.
_HEADS = 4  #: Heads of scores in which rotated vectors are looked for.
_OUTPUTS = 16  #: Outputs of layers among which vectors that are not rotated are looked for.
_CACHED = 8192  #: Last rows of keys among which the new ones are looked for.
#: Products that may become scores, with the place of their first factor among the arguments.
_PRODUCTS = {"matmul": 0, "__matmul__": 0, "bmm": 0, "baddbmm": 1, "einsum": 1}
_FACTORS = ("mul", "mul_", "__mul__", "__rmul__", "div", "div_", "__truediv__", "true_divide")
#: 1 - cosine of two vectors that are one, up to rounding of a few coordinates in bfloat16.
_SAME = 1e-4


@contextmanager
def watch(model: Any, *, wrap: str | Sequence[str] = ()) -> Iterator[Recording]:
    """Watch the rotations of a PyTorch model while it runs.

    Functions, methods and modules whose names contain "rot" or "rope" are wrapped until the end of
    the block. Positions are those that the model is called with (`position_ids`), or else follow
    those in its cache (`cache` or `past_key_values`).

    Args:
        model: A `torch.nn.Module`, such as a model of Transformers.
        wrap: Further functions that rotate, by the names that the model's code has for them.

    Raises:
        ArgumentError: A name that the model's code does not have.
        ArgumentTypeError: Not a `torch.nn.Module`.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        raise ArgumentTypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    names = [wrap] if isinstance(wrap, str) else list(wrap)
    seen = Recording()
    config: Any = getattr(model, "config", None)
    seen.config = config.get_text_config() if hasattr(config, "get_text_config") else config
    watcher = _Watcher(seen, model, torch)
    with ExitStack() as stack:
        functions = list(_functions(model, names))
        for owner, name, function in functions:
            stack.callback(_put, owner, name, function)
            _put(owner, name, watcher.wrap(function, chosen=name in names))
        seen.functions = tuple(sorted({name for _, name, _ in functions}))
        for handle in watcher.hooks():
            stack.callback(handle.remove)
        stack.enter_context(_operations(torch, watcher))
        stack.callback(watcher.flush)
        yield seen


def _put(owner: Any, name: str, value: Any) -> None:
    """Set a name of a class, or of the globals that a function reads."""
    if isinstance(owner, dict):
        owner[name] = value
    else:
        setattr(owner, name, value)


def _functions(model: Any, names: list[str]) -> Iterator[tuple[Any, str, Any]]:
    """Yield the owner, name and value of each function of a model's code that may rotate."""
    classes = {base for module in model.modules() for base in type(module).__mro__}
    own_classes = [cls for cls in classes if not cls.__module__.startswith(("torch.", "builtins"))]
    methods = [
        item for kind in own_classes for item in vars(kind).values() if inspect.isfunction(item)
    ]
    spaces = {id(space): space for space in (inspect.unwrap(m).__globals__ for m in methods)}
    wanted, torch_module = set(names), sys.modules["torch"].nn.Module
    for owner in [*own_classes, *spaces.values()]:
        called = getattr(owner, "__name__", "")
        module = _NAMED.search(called) and not _LARGER.search(called)
        for name, value in list((owner if isinstance(owner, dict) else vars(owner)).items()):
            function = isinstance(value, types.FunctionType | staticmethod)
            # The package `kernels` makes a module of a function that a kernel may replace.
            function |= isinstance(value, torch_module) and isinstance(owner, dict)
            if name in names or (function and _NAMED.search(name)):
                wanted.discard(name)
                yield owner, name, value
            elif module and name == "forward":
                yield owner, name, value
    if wanted:
        raise ArgumentError(
            f"wrap must name functions of the model's code, got {', '.join(sorted(wanted))}"
        )


@dataclass(kw_only=True, eq=False)
class _Rotated:
    """A tensor that a function rotated, and that was not scored yet."""

    module: str
    before: Any  #: (sequences, heads, positions, width), what is kept of it.
    after: Any  #: The same shape.

    def arrays(self) -> dict[str, Any]:
        """Return the fields that it has in `Vectors`."""
        return {
            name: _array(value.transpose(0, 1).flatten(1, 2))
            for name, value in (("before", self.before), ("after", self.after))
        }


@dataclass(kw_only=True, eq=False)
class _Product:
    """A product of queries and keys that may become a score."""

    module: str
    query: Any
    key: Any
    result: Any
    scale: float


@dataclass(eq=False)
class _Watcher:
    """The hooks and wrappers of a watched model."""

    seen: Recording
    model: Any
    torch: Any
    running: list[Any] = field(default_factory=list)  #: Modules, outermost first.
    rotating: bool = False  #: True within a function that rotates.
    rotated: list[_Rotated] = field(default_factory=list)  #: Not scored yet in this call.
    scored: list[_Rotated] = field(default_factory=list)  #: Scored in this call.
    outputs: list[Any] = field(default_factory=list)  #: Of the layers that ran last.
    product: _Product | None = None  #: The last one.
    #: Positions that a cache holds after the last call, and those that follow its last ones.
    end: tuple[int, NDArray[np.float64]] = (0, np.zeros(0))

    def __post_init__(self) -> None:
        self.paths = {module: name for name, module in self.model.named_modules()}

    # What runs.

    def hooks(self) -> Iterator[Any]:
        """Yield the handle of each hook."""
        for module in self.model.modules():
            yield module.register_forward_pre_hook(self._enter, with_kwargs=True)
            yield module.register_forward_hook(self._leave, always_call=True)

    def _enter(self, module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        if module is self.model:
            self.flush()
            self.running = []
            self.seen.calls.append(self._after_a_crop(_call(given, named), _count_cached(named)))
        self.running.append(module)

    def _after_a_crop(self, call: ModelCall, cached: int | None) -> ModelCall:
        """Mark a call whose positions go on after the last call's, as its cache does not."""
        held, following = self.end
        first, last = call.positions[:, 0], call.positions[:, -1]
        self.end = (cached or 0) + call.count, last + 1
        if cached is not None and cached < held and np.array_equal(first, following):
            return replace(call, cropped_to=cached)
        return call

    def _leave(self, module: Any, _: Any, result: Any) -> None:
        while self.running and self.running.pop() is not module:
            pass  # modules that an exception left
        if isinstance(result, self.torch.Tensor) and not any(True for _ in module.children()):
            self.outputs = [*self.outputs, result][-_OUTPUTS:]

    @property
    def _active(self) -> bool:
        return bool(self.running) and len(self.seen.calls) <= CALLS

    def _path(self, rotary: object = None) -> str:
        """Return the path of the module that runs, other than one that only rotates."""
        running = [frame for frame in self.running if frame is not rotary]
        return self.paths[running[-1]] if running else ""

    # What rotates.

    def wrap(self, function: Any, *, chosen: bool = False) -> Any:
        """Return a function that is looked at when it is called."""
        if isinstance(function, staticmethod):
            return staticmethod(self.wrap(function.__func__, chosen=chosen))

        @functools.wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            # rotate_half(x) has no positions; a function that was chosen may know them by itself.
            helper = not given or len(given) + len(named) < 2
            if (helper and not chosen) or self.rotating or not self._active:
                return function(*given, **named)
            inputs = [
                (tensor, self._keep_vectors(tensor))
                for tensor in self._tensors(given, named.values())
            ]
            self.rotating = True
            try:
                result = function(*given, **named)
            finally:
                self.rotating = False
            self.rotated += self._match(self._path(next(iter(given), None)), inputs, result)
            return result

        return call

    def _tensors(self, *values: Any) -> list[Any]:
        kind = self.torch.Tensor
        return [
            value
            for group in values
            for value in group
            if isinstance(value, kind) and value.is_floating_point() and value.ndim >= 3
        ]

    def _match(self, path: str, inputs: list[tuple[Any, Any]], result: Any) -> list[_Rotated]:
        """Return the arguments that came back in their shape, or were changed in place."""
        results = self._tensors(result if isinstance(result, list | tuple) else [result])
        left = [(tensor, kept) for tensor, kept in inputs if kept is not None]
        pairs = []
        for array in results if result is not None else [tensor for tensor, _ in inputs]:
            place = next((i for i, (x, _) in enumerate(left) if x.shape == array.shape), None)
            if place is None:
                return []  # tables of cos and sin
            before, after = left.pop(place)[1], self._keep_vectors(array)
            pairs.append(_Rotated(module=path, before=before, after=after))
        return pairs

    def _keep_vectors(self, tensor: Any) -> Any:
        """Return what is kept of vectors, (sequences, heads, positions, width); None of others."""
        call = self.seen.calls[-1]
        vectors = _by_head(tensor.detach(), call)
        if vectors is None:
            return None
        if vectors.shape[1] == call.count == len(call.kept):
            return vectors.clone()  # either axis may be that of the heads
        return vectors[:, :, call.kept.tolist()].clone()

    # What is scored.

    def operation(self, name: str, given: tuple[Any, ...], named: dict[str, Any], out: Any) -> None:
        """Look at a function of PyTorch that was called."""
        if not self._active or self.rotating:
            return
        if name == "scaled_dot_product_attention":
            query, key = (named.get(role) for role in ("query", "key"))
            query, key = (*given, query, key)[:2] if given else (query, key)
            scale = named.get("scale")
            self._attend(query, key, query.shape[-1] ** -0.5 if scale is None else float(scale))
            return
        if name in _PRODUCTS:
            factors = self._tensors(given[_PRODUCTS[name] :])[:2]
            stored = any(
                isinstance(_base(multiplier), self.torch.nn.Parameter) for multiplier in factors
            )
            if len(factors) == 2 and not stored:
                turned = name != "einsum" or factors[0].shape[-1] != factors[1].shape[-1]
                key = factors[1].transpose(-1, -2) if turned else factors[1]
                self.product = _Product(
                    module=self._path(),
                    query=factors[0],
                    key=key,
                    result=out,
                    scale=float(named.get("alpha", 1.0)),
                )
            return
        if self.product is None or self.product.module != self._path() or not given:
            return
        if name in _FACTORS and given[0] is self.product.result and _is_number(given[1]):
            factor = float(given[1])
            self.product.scale *= 1 / factor if "div" in name else factor
            self.product.result = out
        elif given[0] is self.product.result and getattr(out, "shape", 0) == given[0].shape:
            self.product.result = out  # with a mask, or in another dtype
        if name == "softmax":
            self._attend(self.product.query, self.product.key, self.product.scale)
            self.product = None

    def _attend(self, query: Any, key: Any, scale: float) -> None:
        """Record the queries and keys of scores."""
        path = self._path()
        for role, vectors in (("query", query), ("key", key)):
            facts = self._find_rotated(vectors)
            if facts is None and not self._is_output(vectors):
                self.seen.unseen.add(path)
                continue
            self._record(path, role, head_dim=vectors.shape[-1], scale=scale, **(facts or {}))

    def _record(self, module: str, role: str, **known: Any) -> None:
        """Record the queries or the keys of this call."""
        call = len(self.seen.calls) - 1
        self.seen.vectors.append(Vectors(module=module, call=call, role=role, **known))

    def _find_rotated(self, vectors: Any) -> dict[str, Any] | None:
        """Return what is known of vectors that were rotated."""
        scores = vectors.detach().reshape(-1, *vectors.shape[-2:])
        rows = scores[:_HEADS, -_CACHED:]
        for rotated in [*self.rotated, *reversed(self.scored)]:  # layers may share their keys
            match = self._find(rotated, rows)
            if match is None:
                continue
            row, offset, factor = match
            if rotated in self.rotated:
                self.rotated.remove(rotated)
                self.scored.append(rotated)
            one, width = rotated.after.flatten(0, 1).double(), rotated.after.shape[-1]
            factors = np.full((1, one.shape[1]), factor)
            call = self.seen.calls[-1]
            kept = call.kept - call.count
            if row == rows.shape[1] - 1 and -kept[0] <= scores.shape[1]:
                scored = scores[:, kept.tolist(), offset : offset + width].double()
                if not (same := len(scored) == len(one)):  # heads share their keys
                    scored, one = scored[:1], one[:1]
                factors = _array((scored * one).sum(-1) / one.square().sum(-1))
                if same:
                    factors = factors.reshape(*rotated.after.shape[:3]).swapaxes(0, 1)
                    factors = factors.reshape(len(factors), -1)
            return rotated.arrays() | {"factor": factors, "offset": offset}
        return None

    def _find(self, each: _Rotated, rows: Any) -> tuple[int, int, float] | None:
        """Return where a rotated tensor is in rows of some heads, as `_locate` does."""
        flat = rows.reshape(-1, rows.shape[-1])
        if each.after.shape[1] != each.after.shape[2] or each.after.shape[1] == 1:
            return _locate(flat, each.after[0, 0, -1])
        for _ in range(2):  # as many heads as positions: those of scores show which are which
            match = _locate(flat, each.after[0, 0, -1])
            if match is not None and match[0] == rows.shape[1] - 1:
                return match
            each.before, each.after = each.before.transpose(1, 2), each.after.transpose(1, 2)
        return None

    def _is_output(self, vectors: Any) -> bool:
        """Return whether a layer put out vectors as they are."""
        target = vectors.detach().reshape(-1, *vectors.shape[-2:])[0, -1]
        for output in reversed(self.outputs):
            last = (
                [output[0, -1]] + [output[0, 0, -1]] * (output.ndim > 3) if output.ndim > 2 else []
            )
            if any(_locate(row.detach().reshape(1, -1), target) is not None for row in last):
                return True
        return False

    def flush(self) -> None:
        """Record what was rotated where no scores were seen: queries first, as is usual."""
        call = len(self.seen.calls) - 1
        scored = {vectors.module for vectors in self.seen.vectors if vectors.call == call}
        counts: dict[str, int] = {}
        for rotated in self.rotated:
            if rotated.module in scored:
                continue  # such as values, or the output of attention
            count = counts[rotated.module] = counts.get(rotated.module, -1) + 1
            self._record(rotated.module, ("query", "key")[count % 2], **rotated.arrays())
        self.rotated, self.scored, self.outputs, self.product = [], [], [], None


def _base(tensor: Any) -> Any:
    """Return the tensor that another one is a view of, or itself."""
    base = getattr(tensor, "_base", None)
    return tensor if base is None else base


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or getattr(value, "ndim", 1) == 0


def _array(tensor: Any) -> NDArray[Any]:
    return as_array("vectors", tensor.cpu())


def _by_head(tensor: Any, call: ModelCall) -> Any:
    """Return vectors as (sequences, heads, positions, width); None for another tensor."""
    sequences, count, shape = call.sequences, call.count, tuple(tensor.shape)
    if tensor.ndim == 3:  # sequences and heads, or sequences and positions, on one axis
        if shape[1] == count and shape[0] % sequences == 0:
            tensor = tensor.unflatten(0, (sequences, -1))
        elif shape[0] == sequences * count:
            tensor = tensor.unflatten(0, (sequences, count))
        else:
            return None
    elif tensor.ndim == 4 and shape[:2] == (count, sequences) and shape[0] != sequences:
        tensor = tensor.transpose(0, 1)
    if tensor.ndim != 4 or count not in tensor.shape[1:3]:
        return None
    if len(tensor) != sequences and np.ptp(call.positions, axis=0).any():
        return None  # which sequence is which is not known
    return tensor if tensor.shape[2] == count else tensor.transpose(1, 2)


def _locate(rows: Any, target: Any) -> tuple[int, int, float] | None:
    """Return the row that holds a vector, where in it, and what it is multiplied by."""
    width = target.shape[-1]
    if rows.shape[-1] < width:
        return None
    windows, target = rows.double().unfold(1, width, 1), target.double()
    sizes = windows.square().sum(-1).sqrt() * target.square().sum().sqrt()
    products = windows @ target
    cosines = products / sizes.clamp_min(TINY)
    best = int(cosines.argmax())
    row, offset = divmod(best, cosines.shape[1])
    if not float(cosines[row, offset]) >= 1 - _SAME:
        return None
    return row, offset, float(products[row, offset] / target.square().sum())


def _call(given: tuple[Any, ...], named: Mapping[str, Any]) -> ModelCall:
    """Return the positions of a call of the model, as it is told or as its cache says."""
    tensors: list[Any] = [named.get(name) for name in _TOKENS] + list(given)
    tokens = next((tensor for tensor in tensors if getattr(tensor, "ndim", 0)), None)
    if tokens is None:
        raise ArgumentError(
            f"the model must be called with a tensor of tokens, got {', '.join(named) or 'none'}"
        )
    sequences, count = (1, len(tokens)) if tokens.ndim == 1 else tokens.shape[:2]
    where = next((named[name] for name in _POSITIONS if named.get(name) is not None), None)
    if getattr(where, "ndim", 0):
        rows = _array(where).astype(np.float64)
        rows = np.moveaxis(rows[-3:], 0, -1) if rows.ndim == 3 else rows[..., None]
        if rows.ndim == 2:  # one position for each token, or the first one of each sequence
            rows = rows[None] if len(rows) == count else rows[:, None]
        if rows.shape[1] == 1:
            rows = rows + np.arange(count, dtype=np.float64)[:, None]
    else:
        rows = np.arange(count, dtype=np.float64)[None, :, None] + float(
            (where if (cached := _count_cached(named)) is None else cached) or 0
        )
    if len(rows) == 1:
        rows = np.broadcast_to(rows, (sequences, *rows.shape[1:]))
    sequences, count = rows.shape[:2]
    most, kept = max(_ROWS // sequences, _FEWEST), np.arange(count)
    if count > most:
        spread = np.linspace(most // 2, count - 1, most // 2).astype(np.int64)
        kept = np.unique(np.concatenate([kept[: most // 2], spread]))
    return ModelCall(positions=rows, kept=kept)


def _count_cached(named: Mapping[str, Any]) -> int | None:
    """Return the number of positions in the cache that a model is called with, if it says it."""
    caches = (named.get(name) for name in CACHES)
    count = next(filter(None, (getattr(cache, "get_seq_length", None) for cache in caches)), None)
    with contextlib.suppress(ValueError):  # a cache without attention layers
        return None if count is None else int(count())
    return None


def _operations(torch: Any, watcher: _Watcher) -> Any:
    """Return a context in which every function of PyTorch is looked at."""

    class Mode(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Any, _: Any, given: Any = (), named: Any = None
        ) -> Any:
            out = function(*given, **(named or {}))
            watcher.operation(getattr(function, "__name__", ""), given, named or {}, out)
            return out

    return Mode()
