"""Keys of a GGUF's metadata, by the types that llama.cpp expects of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from ropecli.errors import FileError

if TYPE_CHECKING:
    from ropecli.models.gguf.file import GgufFile
    from ropecli.models.gguf.values import Value

LARGEST = 1 << 31  #: No length or count of any model comes near it.
LARGEST_REAL = 1e30  #: Nor any other number; with larger ones the formulas would overflow.


class Metadata:
    """The keys of one file, those of its architecture without the architecture's name."""

    def __init__(self, file: GgufFile) -> None:
        """Find out which architecture it is.

        Raises:
            FileError: No general.architecture, or one that is no text.
        """
        self._file = file
        name = file.metadata.get("general.architecture")
        if not isinstance(name, str) or not name:
            self._refuse("general.architecture", name, "a name such as 'llama'")
        self.architecture = name

    def key(self, name: str) -> str:
        """A key in full."""
        return f"{self.architecture}.{name}"

    def get(self, name: str) -> Value | None:
        """A value, or None where there is no such key."""
        return self._file.metadata.get(self.key(name))

    def integer(self, name: str, *, least: int = 1) -> int | None:
        """A whole number.

        Raises:
            FileError: Something else, or out of range.
        """
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
            self._refuse(self.key(name), value, f"an integer from {least} to {LARGEST:,}")
        return value

    def real(self, name: str, *, least: float = -LARGEST_REAL) -> float | None:
        """A number.

        Raises:
            FileError: Something else, or out of range.
        """
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._refuse(self.key(name), value, "a number")
        if not least <= value <= LARGEST_REAL:  # and so a NaN
            self._refuse(self.key(name), value, f"a number from {least:g} to {LARGEST_REAL:g}")
        return float(value)

    def positive(self, name: str, default: float) -> float:
        """A number above 0.

        Raises:
            FileError: Something else, or out of range.
        """
        value = self.real(name, least=1 / LARGEST_REAL)
        return default if value is None else value

    def flag(self, name: str) -> bool | None:
        """A truth value.

        Raises:
            FileError: Something else.
        """
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            self._refuse(self.key(name), value, "a truth value")
        return value

    def text(self, name: str) -> str | None:
        """A string.

        Raises:
            FileError: Something else.
        """
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            self._refuse(self.key(name), value, "text")
        return value

    def integers(self, name: str) -> tuple[int, ...] | None:
        """An array of whole numbers or truth values; a single number is an array of one.

        Raises:
            FileError: Something else.
        """
        value = self.get(name)
        if value is None:
            return None
        parts = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(part, int) for part in parts):
            self._refuse(self.key(name), value, "integers")
        return tuple(int(part) for part in parts)  # type: ignore[arg-type]

    def is_array(self, name: str) -> bool:
        """Whether a key has an array."""
        value = self.get(name)
        return isinstance(value, tuple)

    def refuse(self, name: str, what: object, wanted: str) -> NoReturn:
        """Say what is wrong with a key of the architecture's.

        Raises:
            FileError: Always.
        """
        self._refuse(self.key(name), what, wanted)

    def _refuse(self, key: str, value: object, wanted: str) -> NoReturn:
        shown = "missing" if value is None else repr(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        msg = f"{self._file.path}: {key} is {shown}; allowed is {wanted}"
        raise FileError(msg)
