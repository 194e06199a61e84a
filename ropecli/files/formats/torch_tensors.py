"""Tensors in the record of a pickle: where they lie, and putting others in their place."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import BFLOAT16
from ropecli.files.formats.torch_pickle import Dictionary, Made, Name, Storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_REBUILD = "torch._utils._rebuild_"
#: By what legacy storages are called, and what dtypes are called in a pickle.
_DTYPES = {
    "DoubleStorage": np.dtype(np.float64),
    "FloatStorage": np.dtype(np.float32),
    "HalfStorage": np.dtype(np.float16),
    "BFloat16Storage": BFLOAT16,
    "LongStorage": np.dtype(np.int64),
    "IntStorage": np.dtype(np.int32),
    "ShortStorage": np.dtype(np.int16),
    "CharStorage": np.dtype(np.int8),
    "ByteStorage": np.dtype(np.uint8),
    "BoolStorage": np.dtype(np.bool_),
    "ComplexFloatStorage": np.dtype(np.complex64),
    "ComplexDoubleStorage": np.dtype(np.complex128),
    **{f"uint{bits}": np.dtype(f"u{bits // 8}") for bits in (16, 32, 64)},
}
_NONE = np.dtype(np.uint8)  #: Of what can't be read.
_STORAGES = {dtype: name for name, dtype in _DTYPES.items() if name.endswith("Storage")}
_OTHER = {
    "qtensor": "a quantized tensor",
    "sparse_tensor": "a sparse tensor, which is not dense",
    "nested_tensor": "a nested tensor, which is not dense",
    "meta_tensor_no_storage": "a tensor without elements, on the device meta",
    "wrapper_subclass": "a tensor of a class of its own",
    "device_tensor_from_numpy": "a tensor of another device",
    "device_tensor_from_cpu_tensor": "a tensor of another device",
}
_AXES = 64  #: That NumPy has.
_LARGEST = 1 << 58  #: Elements, of which none has more than 16 bytes.
_MOST = 1 << 16  #: Tensors and dictionaries, counted where they stand.
_LETTERS = 1 << 24  #: Of all their names.
_ENTRIES = 1 << 20  #: Of all dictionaries.
_DEEPEST = 100  #: Dictionaries within each other.


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A tensor as a pickle describes it; lengths count elements."""

    storage: Storage | None = None
    begin: int = 0
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dtype: np.dtype[Any] = _NONE
    unreadable: str = ""  #: What it is, where it can't be read.

    @property
    def end(self) -> int:
        """Behind its last element in the storage."""
        if 0 in self.shape:
            return self.begin
        steps = ((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True))
        return self.begin + sum(steps) + 1

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie one after another, in C order."""
        expected = _contiguous(self.shape)
        found = zip(self.shape, self.strides, expected, strict=True)
        return all(n == 1 or stride == e for n, stride, e in found)


def tensors_in(root: Any) -> Iterator[tuple[str, Tensor]]:
    """All tensors that stand in dictionaries, by their names.

    Raises:
        ValueError: There are too many, too deep, or damaged ones.
    """
    letters = entries = 0
    for count, (name, node, depth) in enumerate(_found(root, "", 0)):
        letters += len(name)
        entries += 1 if _function(node) else len(node.items)
        if count > _MOST or letters > _LETTERS or entries > _ENTRIES or depth > _DEEPEST:
            msg = f"tensors and dictionaries, counted where they stand, are more than {_MOST:,}, "
            msg += f"or more than {_DEEPEST} deep"
            raise ValueError(msg)
        if _function(node):
            yield name, _described(node)


def with_others(root: Any, others: Mapping[str, Storage]) -> Any:
    """The same, but with other elements in tensors of some names.

    Args:
        root: The record of a pickle.
        others: Contiguous elements, by the names of the tensors.
    """
    return _replaced(root, "", others)


def tensor_of(storage: Storage, shape: tuple[int, ...]) -> Made:
    """A tensor of contiguous elements."""
    hooks = Made(name=Name("collections.OrderedDict"))
    arguments = (storage, 0, shape, _contiguous(shape), False, hooks)
    return Made(name=Name(f"{_REBUILD}tensor_v2"), arguments=arguments)


def storage_of(dtype: np.dtype[Any], key: str, length: int) -> Storage:
    """A storage of so many elements."""
    return Storage(Name(f"torch.{_STORAGES[dtype.newbyteorder('=')]}"), key, "cpu", length)


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _function(node: Any) -> str:
    """What a tensor is rebuilt by; nothing of all else."""
    if not isinstance(node, Made):
        return ""
    if node.name.full == "torch._tensor._rebuild_from_type_v2":
        return "from_type"
    return node.name.full.removeprefix(_REBUILD) if node.name.full.startswith(_REBUILD) else ""


def _found(node: Any, name: str, depth: int) -> Iterator[tuple[str, Any, int]]:
    """Tensors and dictionaries, and where they stand."""
    if _function(node):
        yield name, node, depth
    elif isinstance(node, Dictionary):
        yield name, node, depth
        for key, value in node.items:
            if _has_name(key) and isinstance(value, Dictionary):
                yield from _found(value, _below(name, key), depth + 1)


def _replaced(node: Any, name: str, others: Mapping[str, Storage]) -> Any:
    if _function(node):
        return _with_storage(node, others[name]) if name in others else node
    if not isinstance(node, Dictionary):
        return node
    items = [
        (key, _replaced(value, _below(name, key), others) if _has_name(key) else value)
        for key, value in node.items
    ]
    same = all(new is old for (_, new), (_, old) in zip(items, node.items, strict=True))
    return node if same else replace(node, items=items)


def _has_name(key: Any) -> bool:
    return key is None or isinstance(key, str | int | float)


def _below(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def _with_storage(node: Made, storage: Storage) -> Made:
    """A tensor of the same kind, of other elements."""
    function = _function(node)
    if function.startswith("parameter"):
        data, *rest = node.arguments
        return replace(node, arguments=(_with_storage(data, storage), *rest))
    if function == "from_type":
        rebuild, _, arguments, *_ = node.arguments
        return _with_storage(Made(name=rebuild, arguments=arguments), storage)
    found = tensor_of(storage, tuple(node.arguments[2]))
    gradient, hooks = (*node.arguments[4:6], False, found.arguments[5])[:2]
    if not isinstance(hooks, Dictionary):
        hooks = found.arguments[5]
    return replace(found, arguments=(*found.arguments[:4], gradient, hooks))


def _described(node: Made) -> Tensor:
    function, arguments = _function(node), node.arguments
    try:
        if function.startswith("parameter"):
            return _described(arguments[0])
        if function == "from_type":
            return _described(Made(name=arguments[0], arguments=arguments[2]))
        if function in _OTHER:
            return Tensor(unreadable=_OTHER[function])
        storage, begin, shape, strides, *rest = arguments
        has_dtype = function == "tensor_v3"
        kind = rest[2] if has_dtype else storage.kind
        metadata = rest[3:] if has_dtype else rest[2:]
        called = kind.full.rpartition(".")[2]
        tensor = Tensor(
            storage=storage,
            begin=begin,
            shape=shape,
            strides=strides,
            dtype=_DTYPES.get(called, _NONE),
            unreadable="" if called in _DTYPES else called,
        )
        if any(isinstance(found, Dictionary) and found.items for found in metadata):
            return replace(tensor, unreadable="a conjugated or negated view")
        if _is_sound(tensor, storage.length, in_bytes=has_dtype):
            return tensor
    except (AttributeError, IndexError, TypeError, ValueError):
        pass
    msg = f"a tensor lies where it can't ({node.name.full})"
    raise ValueError(msg)


def _is_sound(tensor: Tensor, length: Any, *, in_bytes: bool) -> bool:
    """Whether a tensor lies in its storage."""
    numbers = (tensor.begin, length, *tensor.shape, *tensor.strides)
    if any(type(number) is not int or number < 0 for number in numbers):
        return False
    size = math.prod(n for n in tensor.shape if n)
    end = tensor.end * (tensor.dtype.itemsize if in_bytes else 1)
    return len(tensor.shape) <= _AXES and size < _LARGEST and end <= length
