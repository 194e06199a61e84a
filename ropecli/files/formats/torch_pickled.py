"""Writing a pickle that PyTorch reads, from the record of another."""

from __future__ import annotations

import struct
from typing import Any

from ropecli.files.formats.torch_pickle import Dictionary, Made, Name, Storage

_BEGUN = -1  #: In place of where something is remembered, while it is not finished.


class _Remember:
    """To be done once something is written: so that it is there to be referred to."""

    def __init__(self, value: Any) -> None:
        self.value = value


def pickled(root: Any) -> tuple[bytes, list[str]]:
    """The pickle, in protocol 2, and the keys of the storages that it refers to.

    What stands in several places is written once.

    Raises:
        ValueError: Something holds itself where no pickle can.
    """
    writer = _Writer()
    writer.write(root)
    return bytes(writer.out), list(writer.keys)


class _Writer:
    def __init__(self) -> None:
        self.out = bytearray(b"\x80\x02")
        self.keys: dict[str, None] = {}  # in their order
        self._known: dict[int, int] = {}  # by id
        self._alive: list[Any] = []  # so that no id is given again
        self._count = 0

    def write(self, root: Any) -> None:
        # What is still to be written, last first: values, and operations as bytes. No recursion:
        # lists may lie in each other as deep as a file likes.
        todo = [b".", root]
        while todo:
            value = todo.pop()
            if isinstance(value, bytes):
                self.out += value
            elif isinstance(value, _Remember):
                self._remember(value.value)
            elif value is None or isinstance(value, bool | int | float):
                self.out += _number(value)
            elif (place := self._known.get(id(value))) is None:
                todo.extend(reversed(self._parts(value)))
            elif place == _BEGUN:
                msg = "its pickle has something within itself"
                raise ValueError(msg)
            else:
                self.out += b"j" + struct.pack("<I", place)

    def _remember(self, value: Any) -> None:
        self._known[id(value)] = self._count
        self.out += b"r" + struct.pack("<I", self._count)
        self._count += 1

    def _parts(self, value: Any) -> list[Any]:
        """What writes a value: operations and other values."""
        done = _Remember(value)
        self._known[id(value)] = _BEGUN
        self._alive.append(value)
        match value:
            case str():
                data = value.encode("utf-8", "surrogatepass")
                parts = [b"X" + struct.pack("<I", len(data)) + data, done]
            case Name():
                module, _, name = value.full.rpartition(".")
                parts = [f"c{module}\n{name}\n".encode(), done]
            case tuple():
                parts = [b"(", *value, b"t", done]
            case list():
                parts = [b"]", done, b"(", *value, b"e"]
            case Storage(kind, key, location, length):
                self.keys.setdefault(key)
                parts = [("storage", kind, key, location, length), b"Q", done]
            case Made():
                call = b"\x81" if value.is_new else b"R"
                states = [part for state in value.states for part in (state, b"b")]
                parts = [value.name, value.arguments, call, done, *_items(value), *states]
            case Dictionary():
                parts = [b"}", done, *_items(value)]
            case _:
                msg = "its pickle is damaged"
                raise ValueError(msg)
        return parts


def _items(value: Dictionary) -> list[Any]:
    return [b"(", *(part for item in value.items for part in item), b"u"] if value.items else []


def _number(value: bool | int | float | None) -> bytes:
    if value is None:
        return b"N"
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data
