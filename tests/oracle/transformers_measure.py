"""Measure what an attention module of Transformers does to its queries.

The attention runs on random vectors until it would score them. The derivatives of a query by the
linear layer that it came from, at the origin and one step along each axis, are the rotation: which
coordinates each one is made of, and the cosines and sines. No attribute of the module is read.
"""

from __future__ import annotations

import copy
import inspect
import math
import re
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from oracle.transformers_classes import Case, attention_class, rotary_class

Matrix = NDArray[np.float64]
#: Token 0 is at the origin, token k one step along axis k - 1.
TOKENS = 7
#: Layer types whose attention the model gives no cosines and sines.
WITHOUT_EMBEDDINGS = {"LaraMiniConfig": ("full_attention",)}


@dataclass(frozen=True)
class Pair:
    """Two coordinates that turn together, the one that is read first being named first."""

    written: tuple[int, int]  #: Coordinates that they are written to.
    axis: int  #: Axis of the positions.
    angle: float  #: Radians per step, to a whole turn.
    factor: float  #: Factor of both.


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
    types = {"layer_types": getattr(config, "layer_types", None)}  # attention's, without "mlp"
    found = _kinds(keys | types, given if nested else {})
    for (layer_type, _, base), layers in found.items():
        linear = layer_type == "linear_attention" and len({kind[0] for kind in found}) > 1
        if linear or (nested and layer_type not in given):
            continue  # not attention
        unturned = layer_type in WITHOUT_EMBEDDINGS.get(case.name, ())
        if base == 0 or unturned or (nested and given[layer_type] is None):
            kinds.append(Kind(layers, layer_type, 0, {}, 1, {}, 1.0))
            continue
        own = copy.deepcopy(config)
        if base:
            own.rope_parameters = config.rope_parameters | {"rope_theta": base}
        rotary = build(made_from, own)
        name = layer_type if nested else _special_type(made_from, keys)
        kinds.append(_layer(case, config, rotary, layers, layer_type, name, keys))
    if not any(kind.pairs for kind in kinds):
        raise RuntimeError(f"{case.name}: nothing rotates")
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


def build(module_class: Any, config: Any, layer: int = 0) -> Any:
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
    attention = linearize(build(attention_class(case), config, layers[0]), case.folder)
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
    raise RuntimeError(f"{case.name}: {errors}")


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
    raise RuntimeError("no layer has a head of this size")


def _pairs(turns: list[Matrix]) -> dict[tuple[int, int], Pair]:
    """The pairs that turn, from the matrices at the origin and one step along each axis."""
    origin, *steps = turns
    if not (np.count_nonzero(origin, axis=0) == 1).all():
        raise RuntimeError("at the origin the query is not a reordering of its head")
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
                raise RuntimeError(
                    f"coordinates {a} and {b} do not turn together: {turned.tolist()}"
                )
            angle = math.atan2(turned[1, 0], turned[0, 0])
            pair = Pair((int(put[a]), int(put[b])), axis, angle, factor)
            if found.setdefault((a, b), pair).axis != axis:
                raise RuntimeError(f"coordinates {a} and {b} turn by several axes")
    return found


# Tables of a rotary module for positions that step along one axis at a time.


def forms(case_name: str, rotary: Any, keys: dict[str, Any]) -> list[tuple[str, int]]:
    """The shapes of positions to try, with their number of axes."""
    given = keys.get("rope_parameters") or {}
    source = "" if rotary is None else inspect.getsource(type(rotary))
    own = {
        "EfficientLoFTRConfig": ("grid", 2),
        "EsmFold2AtomEncoderConfig": ("last", 4),
        "MiniMaxM3VLVisionConfig": ("last", 3),
        "NeuCodecConfig": ("heads", 1),  # these two turn each head by its number
        "Xcodec2Config": ("heads", 1),
    }
    if case_name in own:
        return [own[case_name]]
    if given.get("rope_type") == "axial" or "pixel_values" in source or hasattr(rotary, "freqs_ci"):
        return [("last", 2), ("batch, last", 2), ("first", 2)]
    if "mrope_section" in source + str(given) and "HunYuanVL" not in case_name:
        return [("m-rope", 3), ("text", 1)]
    return [("text", 1)]  # HunYuanVL turns a pair by two axes: a rotation where they agree


def positions(form: str, axes: int) -> Any:
    """The positions of the tokens in one of the shapes that modules take."""
    import torch

    steps = torch.zeros(axes, TOKENS)
    for k in range(axes):
        steps[k, k + 1] = 1
    if form == "m-rope":
        return steps[:, None]
    if form == "first":
        return steps
    if form == "batch, last":
        return steps.T.contiguous()[None]
    return steps.T.contiguous() if form == "last" else steps[:1]


def embeddings(rotary: Any, config: Any, layer_type: str | None, form: str, axes: int) -> Any:
    """Return cos and sin, or another result of the module, and the positions for its attention."""
    import torch

    where = positions(form, axes)
    count = torch.arange(TOKENS)[None]
    x = torch.zeros(1, TOKENS, 8)
    taken = [] if rotary is None else list(inspect.signature(rotary.forward).parameters)
    given: dict[str, Any] = {"layer_type": layer_type} if "layer_type" in taken else {}
    made = None
    if hasattr(rotary, "freqs_ci"):
        made = _from_grid(rotary.freqs_ci)
    elif type(rotary).__name__.startswith("RoFormer"):
        rotary.weight.data = rotary.create_weight()
        made, where = rotary((1, TOKENS))[None, None], count
    elif hasattr(rotary, "embed_positions"):  # GPT-J's rows by position
        made = rotary(x, position_ids=where.long())
    elif form == "grid":
        run = _with(rotary, "compute_embeddings", _compute_embeddings)
        made = run(torch.zeros(1, 8, 64, 64))
    elif "pixel_values" in taken:
        run = _with(rotary, "get_patches_center_coordinates", _patch_centers)
        side = config.image_size
        made = run(torch.zeros(1, 3, side, side))
    elif "ref_pos" in taken:
        points = positions("last", 4)[None]
        made = rotary(points[..., :3], points[..., 3], torch.float32)
    elif "position_ids" in taken:
        ids = torch.arange(config.num_attention_heads)[None] if form == "heads" else where
        made = rotary(x, position_ids=ids, **given)
    else:
        made, where = None if rotary is None else rotary(x), count
    return made, where


def _from_grid(table: Any) -> Any:
    """One row down and one column right of Llama 4's table, which begins at (1, 1)."""
    import torch

    side = math.isqrt(table.shape[0])
    steps = torch.ones(TOKENS, *table.shape[1:], dtype=table.dtype)
    steps[1], steps[2] = table[side] / table[0], table[1] / table[0]
    steps[steps.imag.abs() < 1e-6] = 1  # what rounding left; the slowest pair turns by 2e-4
    return steps


def _compute_embeddings(original: Any) -> Any:
    def replacement(inv_freq: Any, _height: int, _width: int, hidden_size: int) -> Any:
        import torch

        grid = original(inv_freq, 2, 2, hidden_size)[0]  # begins at (1, 1)
        angles = torch.zeros(1, TOKENS, hidden_size // 2)
        angles[0, 1], angles[0, 2] = grid[1, 0] - grid[0, 0], grid[0, 1] - grid[0, 0]
        return angles

    return replacement


def _patch_centers(original: Any) -> Any:
    """Return coordinates that begin with 0, one patch down and one patch right."""

    def replacement(rows: int, columns: int, **named: Any) -> Any:
        import torch

        centers = original(rows, columns, **named).reshape(rows, columns, 2)
        steps = torch.zeros(TOKENS, 2)
        steps[1], steps[2] = centers[1, 0] - centers[0, 0], centers[0, 1] - centers[0, 0]
        return steps

    return replacement


def _with(rotary: Any, name: str, replacement: Any) -> Any:
    """Return the module's call with a function of its file replaced."""
    file = sys.modules[type(rotary).__module__]

    def run(*given: Any, **named: Any) -> Any:
        original = getattr(file, name)
        setattr(file, name, replacement(original))
        try:
            return rotary(*given, **named)
        finally:
            setattr(file, name, original)

    return run


def arguments(attention: Any, made: Any, where: Any, width: int) -> dict[str, Any]:
    """Arguments for an attention module's forward, with random vectors."""
    import torch

    source = inspect.getsource(type(attention))
    taken = inspect.signature(attention.forward).parameters
    size: tuple[int, ...] = (TOKENS, width) if "cu_seqlens" in taken else (1, TOKENS, width)
    if "height, width, _ = hidden_states.shape" in source:
        size = (1, 1, TOKENS, width)
    if "position_embeddings[self.rope_layer_type]" in source:
        made = {attention.rope_layer_type: made}
    points = where.ndim == 3 and where.shape[-1] in {2, 3}
    ids = where.long() if points or where.shape[0] == 1 else torch.arange(TOKENS)[None]
    known = {
        "hidden_states": torch.randn(*size, requires_grad=True),
        "query": torch.randn(1, 1, TOKENS, width),
        "position_ids": ids,
        "cu_seqlens": torch.tensor([0, TOKENS], dtype=torch.int32),
        "max_seqlen": TOKENS,
        "context_hidden_states": torch.zeros(1, 0, width),
        "attention_mask": torch.zeros(1, 1, TOKENS, TOKENS) if "indexer" in source else None,
    }
    for name in ("key", "value"):
        known[name] = torch.randn(1, 1, TOKENS, getattr(attention, "kv_in_dim", width))
    for name in taken:
        if re.fullmatch(".*position_embeddings|rotary_pos_emb|freqs_cis?|sinusoidal_pos", name):
            known[name] = made
    required = [n for n, p in taken.items() if p.default is p.empty and p.kind not in {2, 4}]
    return {name: known.get(name) for name in taken if name in known or name in required}


# Running an attention module until it would score its queries.

#: Its rotation comes before the projection, which is made to pass it on.
BEFORE_PROJECTION = ("seamless_m4t", "wav2vec2_bert", "wav2vec2_conformer")


def linearize(attention: Any, folder: str) -> Any:
    """Replace norms by the identity, so that a query is linear in its input."""
    import torch

    for module in attention.modules():
        if "Norm" in type(module).__name__:
            module.forward = lambda x, *more, **_: (
                (x, *more) if more and torch.is_tensor(more[0]) else x
            )
    for parameter in attention.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.05)
        else:
            torch.nn.init.constant_(parameter, 0.05)
    if folder in BEFORE_PROJECTION:
        attention.linear_q.weight.data = torch.eye(*attention.linear_q.weight.shape)
    return attention


def width(attention: Any) -> int:
    """Width of the vectors that the first layer takes, the query's where it is known by name."""
    names = (
        "q_proj",
        "qkv",
        "query_key_value",
        "Wqkv",
        "qkv_proj",
        "q_a_proj",
        "query",
        "linear_q",
    )
    layers = [getattr(attention, name, None) for name in names] + list(attention.modules())
    sizes = [getattr(m, "in_features", None) or getattr(m, "nx", None) for m in layers]
    return next(int(size) for size in sizes if size)


class Scored(Exception):
    """Raised in place of the attention's scores, with the queries."""


def run(attention: Any, given: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Queries as they are scored, and the outputs of the linear layers before them, in order."""
    from transformers import AttentionInterface

    sources = [given["hidden_states"]] if "hidden_states" in given else []

    def record(_module: Any, _inputs: Any, output: Any) -> Any:
        sources.append(output)
        return output.clone()  # what follows may write in place

    hooks = [
        module.register_forward_hook(record)
        for module in attention.modules()
        if not list(module.children())
        and hasattr(module, "weight")
        and "Norm" not in type(module).__name__
    ]

    def raise_scored(_module: Any, query: Any, *_: Any, **__: Any) -> Any:
        raise Scored(query)

    file = sys.modules[type(attention).__module__]
    names = [n for n in vars(file) if n.endswith("eager_attention_forward")]
    originals = {name: getattr(file, name) for name in names}
    for name in names:
        setattr(file, name, raise_scored)
    AttentionInterface.register("eager", raise_scored)
    try:
        with first_product():
            attention(**given)
    except Scored as stop:
        query = stop.args[0]
        if query.ndim == 3:
            query = query[None]
        return (query if query.shape[2] == TOKENS else query.transpose(1, 2)), sources
    finally:
        AttentionInterface._global_mapping.pop("eager", None)
        for name, original in originals.items():
            setattr(file, name, original)
        for hook in hooks:
            hook.remove()
    raise RuntimeError("the attention scored nothing")


def first_product() -> Any:
    """Return a mode that stops at the first product of queries, for attention with its own code."""
    import torch
    from torch.overrides import TorchFunctionMode

    products = {torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.bmm}
    sums = {torch.baddbmm, torch.Tensor.baddbmm}  # their first argument is what is added

    class Mode(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Any, _types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if function in products | sums:
                query, key = args[1:3] if function in sums else args[:2]
                if query.requires_grad and key.requires_grad and key.ndim > 2:
                    raise Scored(query)
            return function(*args, **(kwargs or {}))

    return Mode()
