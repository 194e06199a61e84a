"""What an attention module of Transformers does to its queries, measured.

The attention runs on random vectors until it would score them. The derivatives of a query by the
linear layer that it came from, at the origin and one step along each axis, are the rotation: which
coordinates each one is made of, and the cosines and sines. It takes no word of the module's.
"""

from __future__ import annotations

import copy
import inspect
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from oracle.transformers_classes import Case, attention_class, rotary_class
from oracle.transformers_positions import TOKENS, arguments, embeddings, forms
from oracle.transformers_queries import BEFORE_PROJECTION, prepared, run, width

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """Two coordinates that turn together, the one that is read first being named first."""

    written: tuple[int, int]  #: Where they are put.
    axis: int  #: Of the positions.
    angle: float  #: Radians per step, to a whole turn.
    factor: float  #: What both are multiplied by.


@dataclass(frozen=True)
class Kind:
    """Layers that do the same."""

    layers: tuple[int, ...]
    layer_type: str | None
    head_dim: int
    pairs: dict[tuple[int, int], Pair]  #: By the coordinates that are read; none: no rotation.
    axes: int
    tables: dict[str, list[float]]  #: inv_freq as the library holds it.
    scaling: float  #: attention_scaling as the library holds it.


def measure(case: Case) -> list[Kind]:
    """Every kind of layer of a configuration.

    Raises:
        RuntimeError: A layer that could not be run, or that does not rotate pairs.
    """
    import torch

    torch.manual_seed(0)
    config = case.config()
    keys = config.to_dict()
    made_from = rotary_class(case)
    given = keys.get("rope_parameters") or {}
    nested = any(isinstance(value, dict) for value in given.values())
    kinds = []
    for (layer_type, _, base), layers in _kinds(keys, given if nested else {}).items():
        if nested and layer_type not in given:
            continue  # not attention
        if base == 0 or (nested and given[layer_type] is None):
            kinds.append(Kind(layers, layer_type, 0, {}, 1, {}, 1.0))
            continue
        own = copy.deepcopy(config)
        if base:
            own.rope_parameters = config.rope_parameters | {"rope_theta": base}
        rotary = built(made_from, own)
        name = layer_type if nested else _special_type(made_from, keys)
        kinds.append(_layer(case, config, rotary, layers, layer_type, name, keys))
    if not any(kind.pairs for kind in kinds):
        msg = f"{case.name}: nothing rotates"
        raise RuntimeError(msg)
    return kinds


def _kinds(keys: dict[str, Any], given: dict[str, Any]) -> dict[Any, tuple[int, ...]]:
    """Layers by the keys that can make a difference."""
    types = keys.get("layer_types") or []
    flags, bases = keys.get("no_rope_layers") or [], keys.get("layer_rope_theta") or []
    found: dict[Any, tuple[int, ...]] = {}
    for i in range(max(len(types), len(flags), len(bases), 1)):
        kind = tuple(row[i] if i < len(row) else None for row in (types, flags, bases))
        found[kind] = (*found.get(kind, ()), i)
    if given and not any(kind[0] in given for kind in found):
        return {(name, None, None): (0,) for name in given}  # names of their own (DeepSeek-V4)
    return found


def _special_type(made_from: Any, keys: dict[str, Any]) -> str | None:
    if made_from is not None and made_from.__name__ == "Molmo2RotaryEmbedding":
        return "scaled" if 0 in keys["rope_scaling_layers"] else "unscaled"
    return None


def built(module_class: Any, config: Any, layer: int = 0) -> Any:
    """A module of a configuration."""
    if module_class is None:
        return None
    if module_class.__name__.startswith("RoFormerSinusoidal"):
        return module_class(64, config.hidden_size // config.num_attention_heads)
    known = {"config": config, "atom_config": config, "layer_idx": layer, "is_causal": True}
    taken = inspect.signature(module_class.__init__).parameters
    for name in set(taken) & {"hidden_size", "embed_dim"}:
        known[name] = config.hidden_size
    for name in set(taken) & {"num_heads", "num_attention_heads", "num_key_value_heads"}:
        key = "num_attention_heads" if name == "num_heads" else name
        encoder = getattr(config, f"encoder_{key}", None)
        known[name] = encoder or getattr(config, key, None) or config.num_attention_heads
    return module_class(**{name: value for name, value in known.items() if name in taken}).eval()


def _layer(
    case: Case,
    config: Any,
    rotary: Any,
    layers: tuple[int, ...],
    layer_type: str | None,
    name: str | None,
    keys: dict[str, Any],
) -> Kind:
    attention = prepared(built(attention_class(case), config, layers[0]), case.folder)
    errors = []
    for form, axes in forms(case.name, rotary, keys):
        for size_in in dict.fromkeys((width(attention), getattr(config, "hidden_size", 0))):
            try:
                made, where = embeddings(rotary, config, name, form, axes)
                query, sources = run(attention, arguments(attention, made, where, size_in))
                if case.folder in BEFORE_PROJECTION:
                    sources = sources[:1]
                if form == "grid":  # turned before it is cut into heads
                    query = query.transpose(1, 2).reshape(1, 1, TOKENS, -1)
                steps = range(axes + 1)
                turns = [
                    _matrix(query[:, k, 0] if form == "heads" else query[:, 0, k], sources)
                    for k in steps
                ]
                pairs = _pairs(turns)
            except (RuntimeError, TypeError, ValueError, IndexError) as error:
                errors.append(f"{form}: {error}")
                continue
            tables = {n: b.tolist() for n, b in _buffers(rotary, name)}
            scaling: float = getattr(rotary, "attention_scaling", 1.0)
            scaling = getattr(rotary, f"{name}_attention_scaling", scaling)
            size = turns[0].shape[0]
            return Kind(layers, layer_type, size, pairs, axes, tables, scaling)
    msg = f"{case.name}: {errors}"
    raise RuntimeError(msg)


def _buffers(rotary: Any, name: str | None) -> list[tuple[str, Any]]:
    wanted = {"inv_freq", f"{name}_inv_freq"}
    return [] if rotary is None else [(n, b) for n, b in rotary.named_buffers() if n in wanted]


def _matrix(vector: Any, sources: list[Any]) -> Matrix:
    """Derivatives of a query by the coordinates of its head in the last layer that it came from."""
    import torch

    row = vector.reshape(-1)
    for source in reversed(sources):
        if not source.requires_grad:
            continue
        found = [
            torch.autograd.grad(row[i], source, retain_graph=True, allow_unused=True)[0]
            for i in range(len(row))
        ]
        if any(f is None for f in found):
            continue
        derivatives = torch.stack([f.reshape(-1) for f in found]).double().numpy()
        columns = np.flatnonzero(np.abs(derivatives).sum(axis=0))
        if len(columns) == len(row):
            return np.asarray(derivatives[:, columns])
    msg = "no layer has a head of this size"
    raise RuntimeError(msg)


def _pairs(turns: list[Matrix]) -> dict[tuple[int, int], Pair]:
    """The pairs that turn, from the matrices at the origin and one step along each axis."""
    origin, *steps = turns
    if not (np.count_nonzero(origin, axis=0) == 1).all():
        msg = "at the origin the query is not a reordering of its head"
        raise RuntimeError(msg)
    read = np.argmax(np.abs(origin), axis=1)
    put = np.argsort(read)
    found: dict[tuple[int, int], Pair] = {}
    for axis, step in enumerate(steps):
        for row in range(len(step)):
            columns = np.flatnonzero(step[row]).tolist()
            if len(columns) == 1:
                continue
            a, b = columns
            turned = step[np.ix_([put[a], put[b]], [a, b])]
            factor = math.hypot(turned[0, 0], turned[1, 0])
            if np.abs(turned[0] - [turned[1, 1], -turned[1, 0]]).max() > 1e-6 * factor:
                msg = f"coordinates {a} and {b} do not turn together: {turned.tolist()}"
                raise RuntimeError(msg)
            angle = math.atan2(turned[1, 0], turned[0, 0])
            pair = Pair((int(put[a]), int(put[b])), axis, angle, factor)
            if found.setdefault((a, b), pair).axis != axis:
                msg = f"coordinates {a} and {b} turn by several axes"
                raise RuntimeError(msg)
    return found
