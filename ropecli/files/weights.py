"""Expected lengths of the pairs of queries and keys, from the weights of their projections."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ropecli.analyses.usage import Usage, expected_lengths
from ropecli.arrays import Array, Index
from ropecli.errors import ArgumentError, FileError
from ropecli.files.arrays import read_part, read_whole
from ropecli.files.formats.base import Reader, Source
from ropecli.files.formats.registry import open_source
from ropecli.files.formats.stored import is_readable, short
from ropecli.numbers import at_least, length
from ropecli.rotary import Rotary
from ropecli.rotary.rotary import check_rope

SUFFIX = ".safetensors"
INDEX = "model.safetensors.index.json"
#: Parts of names of projections, and whether they hold queries, keys, or both.
PROJECTIONS = {
    **dict.fromkeys(("q_proj", "wq", "query"), "q"),
    **dict.fromkeys(("k_proj", "wk", "key"), "k"),
    **dict.fromkeys(("query_key_value", "wqkv", "qkv_proj", "Wqkv", "c_attn"), "qk"),
}
#: Those of rows by key head: its queries, its key, its value. Others have all queries first.
BY_KEY_HEAD = ("query_key_value", "wqkv")
ROLES = {"q": "queries", "k": "keys"}
NORMS = {
    "q": ("q_norm", "q_layernorm", "query_layernorm"),
    "k": ("k_norm", "k_layernorm", "key_layernorm"),
}
INPUT_NORMS = (
    *("input_layernorm", "attention_norm", "attn_norm", "ln_1", "ln_attn"),
    *("attention_layernorm", "input_rmsnorm", "norm_1", "operator_norm"),
    *("pre_self_attn_layernorm", "temporal_pre_norm"),
)
#: Parts of a model that are not its text layers.
_OTHER = re.compile(r"(^|[._])(vision|visual|audio|mtp|cross|encoder_attn)")
_INDEX = re.compile(r"[0-9]{1,9}")
_SHARD = re.compile(r".*-[0-9]+(-of-([0-9]{1,9}))")  #: The name of one shard of several.
_LATENT = "kv_a_proj"  #: Of multi-head latent attention.
THREADS = 4  #: Heads at a time: some are read while others are computed.


@dataclass(frozen=True, kw_only=True)
class _Projection:
    """A tensor of queries, keys, or both, and its place in the model."""

    name: str
    part: str  #: "q_proj" of layers.0.self_attn.q_proj.weight,
    group: str  #: "layers.0.self_attn.",
    layer: str  #: "layers.0.",
    index: int  #: and 0.


@dataclass(frozen=True, kw_only=True)
class _Weights:
    """The tensors of all files by name, and what is known of the heads."""

    path: Path
    sources: Mapping[str, Source]  #: The file of each tensor.
    listed: Mapping[str, str]  #: Name of the file of each tensor, by the index.
    width: int  #: Columns of each projection.
    rope: Rotary
    heads: Mapping[str, int]  #: Of "q" and of "k".
    centered_norms: bool

    def reader(self, name: str, shapes: Sequence[tuple[int, ...]], why: str) -> Reader:
        """Return the reader of a tensor of floats that must have one of several shapes."""
        stored = self.sources[name].arrays[name]
        if not is_readable(stored):
            raise FileError(f"{stored.label} holds {stored.described}; expected floats")
        if stored.shape not in shapes:
            expected = " or ".join(map(str, shapes))
            raise FileError(f"{stored.label} has shape {stored.shape}; expected {expected}: {why}")
        return self.sources[name].reader(stored)

    def vector(self, name: str, shapes: Sequence[tuple[int, ...]], why: str) -> Array | None:
        """Read a bias, or the weight or bias of a norm; None without one."""
        if name not in self.sources:
            if name in self.listed:
                raise FileError(f"{short(name)} is in {self.listed[name]}: give the folder of both")
            return None
        return read_whole(self.reader(name, shapes, why)).astype(np.float64)

    def norm(
        self, group: str, names: Sequence[str], shapes: Sequence[tuple[int, ...]], why: str
    ) -> tuple[Array | None, Array | None]:
        """Read the factor and the bias of the first norm that the file has."""
        for name in names:
            weight = self.vector(f"{group}{name}.weight", shapes, why)
            if weight is not None:
                factor = weight + 1 if self.centered_norms else weight
                return factor, self.vector(f"{group}{name}.bias", shapes, why)
        return None, None


def usage_of_weights(
    rope: Rotary,
    weights: str | os.PathLike[str],
    *,
    heads: int,
    kv_heads: int | None = None,
    hidden_size: int | None = None,
    layers: Collection[int] | None = None,
    centered_norms: bool = False,
    context_length: int | None = None,
    name: str | None = None,
) -> Usage:
    """Return the expected length of each pair for white input, from weights only.

    White input is x ~ N(0, I) behind the norm in front of attention, whose weight and bias count.
    With W the two rows of a pair, such a pair is normal with mean Wb + c, c the bias, and
    covariance W W^T, and its mean length is that of `expected_lengths`. A norm of queries or keys
    is approximated: divided by the root of the expected mean square, then weighted. Weights tell
    nothing of massive values: those are of activations, which are not white.

    Args:
        rope: The encoding. Its layout must be that of the weights.
        weights: A .safetensors file, or a folder of them, whose model.safetensors.index.json lists
            what it must hold. It may be larger than memory: a head is read at a time.
        heads: Of the queries.
        kv_heads: Of the keys, a divisor of heads; as many as heads by default.
        hidden_size: Columns of each projection; those of the first layer's queries by default.
        layers: Indices of the layers to read, all of which a folder must have; all by default.
        centered_norms: True where norms multiply by 1 + weight, as Gemma's do.
        context_length: Positions of training, in which turns are counted.
        name: Name in front of the encoding's.

    Raises:
        ArgumentError: Numbers of heads that cannot be used.
        FileError: A file that cannot be read or is missing, has no queries and keys under a known
            name, or tensors that do not fit the heads or the hidden size.
    """
    check_rope(rope)
    count = at_least("heads", heads, 1)
    keys = count if kv_heads is None else at_least("kv_heads", kv_heads, 1)
    if count % keys:
        raise ArgumentError(f"heads must be a multiple of kv heads, got {count} and {keys}")
    width = None if hidden_size is None else at_least("hidden_size", hidden_size, 1)
    context = None if context_length is None else length("context_length", context_length)
    path = Path(weights)
    listed = _files_by_tensor(path if path.is_dir() else path.parent)
    with contextlib.ExitStack() as stack:
        opened = {
            file.name: stack.enter_context(open_source(file)) for file in _files(path, listed)
        }
        for tensor, file in listed.items():
            if file in opened and tensor not in opened[file].arrays:
                raise FileError(f"{INDEX} lists {short(tensor)} in {file}, which does not have it")
        sources = {tensor: source for source in opened.values() for tensor in source.arrays}
        by_layer = _find(path, sources, layers)
        first = next(iter(by_layer.values()))["q"].name
        data = _Weights(
            path=path,
            sources=sources,
            listed=listed,
            width=width or (0, *sources[first].arrays[first].shape)[-1],
            rope=rope,
            heads={"q": count, "k": keys},
            centered_norms=centered_norms,
        )
        norms = {
            role: np.stack([_lengths(data, of_layer[role], role) for of_layer in by_layer.values()])
            for role in "qk"
        }
    return Usage(
        rope=rope,
        q_norms=norms["q"],
        k_norms=norms["k"],
        tokens=None,
        layers=tuple(by_layer),
        context_length=context,
        name=name,
    )


def _files_by_tensor(folder: Path) -> dict[str, str]:
    """Return the name of the file of each tensor, by the index in a folder; none without one."""
    index = folder / INDEX
    try:
        listed = json.loads(index.read_bytes())["weight_map"]
        if any(Path(file).name != file for file in listed.values()):
            raise ValueError
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise FileError(f"cannot read {index}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise FileError(
            f"{index} must have a weight_map, from names of tensors to names of files next to it"
        ) from None
    return dict(listed)


def _files(path: Path, listed: Mapping[str, str]) -> list[Path]:
    """Return a file, or those of a folder: of its index, or of Transformers' names."""
    if not path.is_dir():
        if path.suffix.lower() != SUFFIX:
            raise FileError(f"weights must end in {SUFFIX}, or be a folder, got {path.name!r}")
        return [path]
    files = [path / name for name in sorted(set(listed.values()))]
    for file in files:
        if not file.exists():
            raise FileError(f"{path / INDEX} lists {file.name}, which is missing")
    files = files or sorted(path.glob(f"model*{SUFFIX}")) or sorted(path.glob(f"*{SUFFIX}"))
    if not files:
        raise FileError(f"{path} has no file that ends in {SUFFIX}")
    for file in files:
        shard = _SHARD.fullmatch(file.stem)
        if shard and len([other for other in files if other.stem.endswith(shard[1])]) < int(
            shard[2]
        ):
            raise FileError(f"{path} must have all {int(shard[2]):,} shards of {file.name}")
    return files


def _find(
    path: Path, sources: Mapping[str, Source], layers: Collection[int] | None
) -> dict[int, dict[str, _Projection]]:
    """Return the projections of each layer, by role, in the order of the layers."""
    by_layer: dict[int, dict[str, _Projection]] = {}
    for name in sources:
        if _LATENT in name:
            raise FileError(
                f"{short(name)} is of multi-head latent attention; expected one projection of "
                "queries and one of keys"
            )
        projection = _projection(name)
        if projection is None or (layers is not None and projection.index not in layers):
            continue
        of_layer = by_layer.setdefault(projection.index, {})
        for role in PROJECTIONS[projection.part]:
            if role in of_layer:
                raise FileError(
                    f"{path} has {ROLES[role]} of layer {projection.index} twice, in "
                    f"{short(of_layer[role].name)} and in {short(name)}"
                )
            of_layer[role] = projection
    if not by_layer:
        which = "" if layers is None else " in the layers that rotate"
        raise FileError(
            f"{path} has no weights of queries and keys{which}; expected names that end in "
            f"{', '.join(PROJECTIONS)}, and .weight"
        )
    missing = set(layers or ()) - by_layer.keys() if path.is_dir() else ()
    if missing:
        raise FileError(f"{path} has no queries and keys of layer {min(missing)}")
    for index, of_layer in by_layer.items():
        for role in ROLES.keys() - of_layer.keys():
            name = short(next(iter(of_layer.values())).name)
            raise FileError(f"{path} has {name}, but no {ROLES[role]} of layer {index}")
    return dict(sorted(by_layer.items()))


def _projection(name: str) -> _Projection | None:
    """Return the projection that a tensor is by its name; None of any other tensor."""
    *parts, part, kind = ("", *name.split("."))
    if kind != "weight" or part not in PROJECTIONS or _OTHER.search(name):
        return None
    places = [place for place, piece in enumerate(parts) if _INDEX.fullmatch(piece)]
    place = places[0] if places else 0
    return _Projection(
        name=name,
        part=part,
        group="".join(f"{piece}." for piece in parts[1:]),
        layer="".join(f"{piece}." for piece in parts[1 : place + 1]),
        index=int(parts[place] or 0),
    )


def _lengths(data: _Weights, projection: _Projection, role: str) -> Array:
    """Return the expected lengths of the pairs of queries or keys of a layer, (heads, pairs)."""
    with np.errstate(all="ignore"):
        variance, covariance, mean = _moments_after_norm(data, projection, role)
    if not all(np.isfinite(statistic).all() for statistic in (variance, covariance, mean)):
        name = short(projection.name)
        raise FileError(f"{name} of {data.path}, its bias and its norms must be finite")
    first, second = data.rope.pairs_in.T
    return expected_lengths(
        (variance[:, first], variance[:, second]),
        covariance,
        (mean[:, first], mean[:, second]),
    )


def _moments_after_norm(
    data: _Weights, projection: _Projection, role: str
) -> tuple[Array, Array, Array]:
    """Return what `_moments` does, after the norm of queries or keys."""
    heads, dim = data.heads[role], data.rope.head_dim
    variance, covariance, mean = _moments(data, projection, role)
    shapes = [(dim,), (heads, dim), (heads * dim,)]
    weight, bias = data.norm(projection.group, NORMS[role], shapes, f"heads of {dim}")
    first, second = data.rope.pairs_in.T
    if weight is not None:
        power = variance + mean**2
        across = weight.ndim == 1 and len(weight) > dim
        power = power.mean(axis=None if across else 1, keepdims=True)
        root = np.sqrt(power, out=np.ones_like(power), where=power > 0)
        scale = np.broadcast_to(weight.reshape(-1, dim) / root, mean.shape)
        variance, mean = variance * scale**2, mean * scale
        covariance = covariance * scale[:, first] * scale[:, second]
        mean += 0 if bias is None else bias.reshape(-1, dim)
    return variance, covariance, mean


def _moments(data: _Weights, projection: _Projection, role: str) -> tuple[Array, Array, Array]:
    """Return the variances and means (heads, head_dim) of heads, and covariances of their pairs."""
    name, dim = projection.name, data.rope.head_dim
    rows, inputs = (*data.sources[name].arrays[name].shape, 0)[0], data.width
    slots, total = _slots(projection.part, role, data.heads, rows // dim)
    heads = f"{data.heads['q']} heads of q and {data.heads['k']} of k, of {dim}; width {inputs}"
    reader = data.reader(name, [(total * dim, inputs)], heads)
    factor, shift = data.norm(
        projection.layer, INPUT_NORMS, [(inputs,)], f"inputs of {short(name)}"
    )
    bias = data.vector(f"{projection.group}{projection.part}.bias", [(total * dim,)], heads)
    first, second = (_as_slice(rows) for rows in data.rope.pairs_in.T)
    variance, mean = np.zeros((2, len(slots), dim))
    if bias is not None:
        mean += bias.reshape(total, dim)[slots]
    covariance = np.zeros((len(slots), len(data.rope.pairs_in)))
    # Sums of products in float32 are right to 1e-6; those in float64 take twice as long.
    dtype = np.dtype(np.float64 if reader.stored.dtype.itemsize == 8 else np.float32)
    factor = None if factor is None else factor.astype(dtype)

    def add(head: int) -> None:
        begin = int(slots[head]) * dim
        stored: Any = read_part(reader, (slice(begin, begin + dim), slice(0, inputs)))
        with np.errstate(all="ignore"):  # what is not finite is refused in the end
            rows = stored.astype(dtype)
            if shift is not None:
                mean[head] += rows @ shift
            if factor is not None:
                rows *= factor
            variance[head] = np.vecdot(rows, rows)
            covariance[head] = np.vecdot(rows[first], rows[second])

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(add, range(len(slots))))
    return variance, covariance, mean


def _slots(part: str, role: str, heads: Mapping[str, int], found: int) -> tuple[Index, int]:
    """Return the place of each head among those of a projection, and their number.

    Of as many again as there are query heads, every second one is a gate, as in Qwen3-Next.
    """
    queries, keys = heads["q"], heads["k"]
    if PROJECTIONS[part] == role:
        step = 2 if role == "q" and found == 2 * queries else 1
        return np.arange(heads[role]) * step, heads[role] * step
    order = np.arange(queries + 2 * keys)
    if part in BY_KEY_HEAD:
        by_key = order.reshape(keys, -1)
        order = np.concatenate([by_key[:, :-2].ravel(), by_key[:, -2]])
    chosen = order[:queries] if role == "q" else order[queries : queries + keys]
    return chosen, queries + 2 * keys


def _as_slice(rows: Index) -> slice | Index:
    """Return evenly spaced indices as a slice, which copies nothing."""
    step = int(rows[1] - rows[0]) if len(rows) > 1 else 1
    even = slice(int(rows[0]), int(rows[-1]) + 1, step)
    regular = step > 0 and np.array_equal(rows, np.arange(even.start, even.stop, step))
    return even if regular else rows
