"""The keys of a GGUF's metadata, with the types that llama.cpp expects."""

from __future__ import annotations

from typing import NoReturn

from ropecli.errors import FileError
from ropecli.models.gguf.architectures import facts_of, goes_by_sections, mode_of
from ropecli.models.gguf.reader import GgufFile, Value
from ropecli.models.keys import LARGEST_HEAD

SECTIONS = "rope.dimension_sections"
LARGEST = 1 << 31  #: Far above any length or count of a model.
LARGEST_REAL = 1e30  #: Far above any other number; the formulas would overflow with larger ones.


class Metadata:
    """The keys of one file, those of its architecture without the architecture's name."""

    def __init__(self, file: GgufFile) -> None:
        """Read the architecture."""
        self.file = file
        name = file.metadata.get("general.architecture")
        if not isinstance(name, str) or not name:
            self._refuse("general.architecture", name, "a name such as 'llama'")
        self.name = name  #: That of the architecture.
        sections = self.sections() if goes_by_sections(name) else ()
        self.mode, self.facts = mode_of(name, sections), facts_of(name)

    def key(self, name: str) -> str:
        """Return a key with the architecture's name."""
        return f"{self.name}.{name}"

    def get(self, name: str) -> Value | None:
        """Return a value; None without such a key."""
        return self.file.metadata.get(self.key(name))

    def integer(self, name: str, *, least: int = 1) -> int | None:
        """Return an integer; None without such a key."""
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
            self.refuse(name, value, f"an integer from {least} to {LARGEST:,}")
        return value

    def real(self, name: str, *, least: float = -LARGEST_REAL) -> float | None:
        """Return a number; None without such a key."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, float):
            self.refuse(name, value, "a floating-point number")
        if not least <= value <= LARGEST_REAL:  # and so a NaN
            self.refuse(name, value, f"a number from {least:g} to {LARGEST_REAL:g}")
        return float(value)

    def positive(self, name: str, default: float) -> float:
        """Return a number above 0, or the default without such a key."""
        value = self.real(name, least=1 / LARGEST_REAL)
        return default if value is None else value

    def text(self, name: str) -> str | None:
        """Return a string; None without such a key."""
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            self.refuse(name, value, "a string")
        return value

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return an array of integers or booleans; a single number is an array of one."""
        value = self.get(name)
        if value is None:
            return None
        parts = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(part, int) for part in parts):
            self.refuse(name, value, "integers")
        return tuple(int(part) for part in parts)  # type: ignore[arg-type]

    def sections(self) -> tuple[int, ...]:
        """Return rope.dimension_sections as four numbers; nothing without that key."""
        sections = self.integers(SECTIONS)
        if sections is None:
            return ()
        if (
            not 2 <= len(sections) <= 4
            or min(sections) < 0
            or not 0 < sum(sections) <= LARGEST_HEAD
        ):
            self.refuse(SECTIONS, sections, "two to four numbers of 0 or more")
        return sections + (0,) * (4 - len(sections))

    def refuse(self, name: str, what: object, wanted: str) -> NoReturn:
        """Raise a FileError that names the key, its value and what is expected."""
        self._refuse(self.key(name), what, wanted)

    def _refuse(self, key: str, value: object, wanted: str) -> NoReturn:
        shown = "missing" if value is None else repr(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        raise FileError(f"{self.file.path}: {key} is {shown}; expected {wanted}")
