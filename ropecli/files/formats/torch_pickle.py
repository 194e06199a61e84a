"""The pickle of a .pt file as a plain record of what it says: nothing of it is ever run.

What would be imported is a name, what would be called is a call. Read and written is what
`torch.load` takes with `weights_only=True`: the same operations, the same names. Tensors are found
in it, and others put in their place, without their elements and without PyTorch.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST = 3 << 18  #: Operations: those of 24,000 tensors or so.
_ALLOWED = re.compile(
    r"""
    collections\.(OrderedDict|Counter)
    | _codecs\.encode
    | (builtins|__builtin__)\.(bytearray|complex|set)
    | torch\.(Size|Tensor|device|bool|per_(tensor|channel)_\w+)
    | torch\.(bfloat|bits|complex|float|q?u?int)\d\w*
    | torch\.(cuda\.)?(sparse\.)?[A-Z]\w*(Storage|Tensor)
    | torch\.storage\.(Typed|Untyped)Storage
    | torch\.nn\.parameter\.Parameter
    | torch\.serialization\._get_layout
    | torch\._tensor\._rebuild_from_type_v2
    | torch\._utils\._rebuild_(
        tensor(_v2|_v3)? | parameter(_with_state)? | qtensor | sparse_tensor | nested_tensor
        | meta_tensor_no_storage | wrapper_subclass | device_tensor_from_(numpy|cpu_tensor)
      )
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Name:
    """What would be imported."""

    full: str  #: Module and name, with a dot between them.


@dataclass(eq=False, slots=True)
class Storage:
    """Elements that lie in the archive."""

    kind: Any
    key: str
    location: Any
    length: Any  #: In elements.


@dataclass(eq=False, slots=True)
class Dictionary:
    """A dictionary."""

    items: list[tuple[Any, Any]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Made(Dictionary):
    """What a call would return, and what is put into it then."""

    name: Name = Name("")
    arguments: Any = ()
    is_new: bool = False  #: Whether it is a class whose `__new__` is called.
    states: list[Any] = field(default_factory=list)


_MARK = object()
_PLAIN: dict[int, Any] = {ord("N"): None, 0x88: True, 0x89: False, ord(")"): ()}
_BYTE, _WORD = struct.Struct("<B"), struct.Struct("<I")
_NUMBERS = {
    ord("J"): struct.Struct("<i"),
    ord("K"): _BYTE,
    ord("M"): struct.Struct("<H"),
    ord("G"): struct.Struct(">d"),
}
_PUT = {ord("q"): _BYTE, ord("r"): _WORD}
_GET = {ord("h"): _BYTE, ord("j"): _WORD}
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}


def unpickled(data: bytes) -> Any:
    """What a pickle says: records of above, lists, tuples, strings and numbers.

    Raises:
        ValueError: It is damaged, or needs more than tensors, dictionaries and plain values.
    """
    try:
        return _Machine(data).run()
    except (IndexError, KeyError, TypeError, struct.error):
        _refuse("is damaged")


class _Machine:
    """A stack, as pickles need it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._names: dict[str, Name] = {}
        self._operations: dict[int, Callable[[], object]] = {
            0x80: lambda: self._skip(1),  # the protocol
            ord("("): lambda: self._stack.append(_MARK),
            ord("]"): lambda: self._stack.append([]),
            ord("}"): lambda: self._stack.append(Dictionary()),
            0x8F: lambda: self._stack.append(Made(name=Name("builtins.set"), arguments=([],))),
            ord("t"): lambda: self._stack.append(tuple(self._marked())),
            ord("X"): lambda: self._stack.append(self._text(_WORD)),
            ord("U"): lambda: self._stack.append(self._text(_BYTE)),
            0x8A: lambda: self._stack.append(self._long()),
            ord("a"): lambda: self._extend([self._stack.pop()]),
            ord("e"): lambda: self._extend(self._marked()),
            ord("s"): lambda: self._set([self._stack.pop(-2), self._stack.pop()]),
            ord("u"): lambda: self._set(self._marked()),
            ord("c"): self._name,
            ord("R"): self._call,
            0x81: lambda: self._call(is_new=True),
            ord("b"): self._build,
            ord("Q"): self._storage,
        }

    def run(self) -> Any:
        stack, memo = self._stack, self._memo
        for _ in range(_MOST):
            code = self._data[self._place]
            self._place += 1
            if code in _PUT:
                memo[self._number(_PUT[code])] = stack[-1]
            elif code in _GET:
                stack.append(memo[self._number(_GET[code])])
            elif code in _NUMBERS:
                stack.append(self._number(_NUMBERS[code]))
            elif code in _PLAIN:
                stack.append(_PLAIN[code])
            elif code in _TUPLES:
                items = [stack.pop() for _ in range(_TUPLES[code])]
                stack.append(tuple(reversed(items)))
            elif code in self._operations:
                self._operations[code]()
            elif code == ord("."):
                break
            else:
                _refuse(f"has operation {bytes([code])!r}")
        else:
            _refuse(f"has more than {_MOST:,} operations")
        return stack.pop()

    def _skip(self, length: int) -> bytes:
        found = self._data[self._place : self._place + length]
        self._place += length
        return found  # which is too short only where nothing more can be read

    def _number(self, layout: struct.Struct) -> Any:
        found = layout.unpack_from(self._data, self._place)[0]
        self._place += layout.size
        return found

    def _long(self) -> int:
        return int.from_bytes(self._skip(self._number(_BYTE)), "little", signed=True)

    def _text(self, layout: struct.Struct) -> str:
        return self._skip(self._number(layout)).decode("utf-8", "surrogatepass")

    def _line(self) -> str:
        end = self._data.index(b"\n", self._place)
        line = self._skip(end - self._place).decode()
        self._place += 1
        return line

    def _marked(self) -> list[Any]:
        place = len(self._stack) - 1
        while self._stack[place] is not _MARK:
            place -= 1
        found = self._stack[place + 1 :]
        del self._stack[place:]
        return found

    def _extend(self, items: list[Any]) -> None:
        holder = self._stack[-1]
        if type(holder) is not list:
            _refuse("appends to what is no list")
        holder.extend(items)

    def _set(self, items: list[Any]) -> None:
        holder = self._stack[-1]
        if not isinstance(holder, Dictionary):
            _refuse("sets items of what is no dictionary")
        holder.items.extend(zip(items[::2], items[1::2], strict=True))

    def _name(self) -> None:
        full = f"{self._line()}.{self._line()}"
        if full not in self._names:
            if not _ALLOWED.fullmatch(full):
                _refuse(f"needs {full}")
            self._names[full] = Name(full)
        self._stack.append(self._names[full])

    def _call(self, *, is_new: bool = False) -> None:
        arguments, name = self._stack.pop(), self._stack.pop()
        if not isinstance(name, Name) or type(arguments) is not tuple:
            _refuse("calls what is no function")
        self._stack.append(Made(name=name, arguments=arguments, is_new=is_new))

    def _build(self) -> None:
        state, made = self._stack.pop(), self._stack[-1]
        if not isinstance(made, Made):
            _refuse("gives a state to what has none")
        made.states.append(state)

    def _storage(self) -> None:
        found = self._stack.pop()
        if type(found) is not tuple or len(found) != 5 or found[0] != "storage":
            _refuse("refers to what is no storage")
        if not isinstance(found[2], str):
            _refuse("has a storage without a name")
        self._stack.append(Storage(*found[1:]))


def _refuse(what: str) -> NoReturn:
    msg = f"its pickle {what}; allowed are tensors, dictionaries and plain values"
    raise ValueError(msg)
