"""Rope types, file formats and lint rules of other packages: entry points of one group.

An entry point is named after its kind and its own name, such as `rope_type.whole_turns`, so that
only what a command needs is imported. What is built in is found first: none can be replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ropecli.errors import RopecliError

GROUP = "ropecli.plugins"
KINDS = ("rope_type", "format", "lint_rule")


@dataclass(frozen=True)
class Plugin:
    """An entry point, which is not imported before `load`."""

    kind: str  #: One of `KINDS`.
    name: str  #: Of the rope type, the suffix of the format without its point, or of the rules.
    package: str  #: Name and version of the distribution.
    entry: Any  #: `importlib.metadata.EntryPoint`.

    def __str__(self) -> str:
        return f"{self.kind}.{self.name} ({self.package})"

    def load(self) -> Any:
        """Import it, and return its object.

        Raises:
            RopecliError: It cannot be imported.
        """
        try:
            return self.entry.load()
        except Exception as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise RopecliError(
                f"plugin {self} can't be loaded: {said}", "upgrade or uninstall its package"
            ) from None


@cache
def plugins(kind: str) -> Mapping[str, Plugin]:
    """Return the plugins of a kind by name; nothing of them is imported."""
    from importlib.metadata import entry_points

    by_name: dict[str, Plugin] = {}
    for entry in entry_points(group=GROUP):
        of, _, name = entry.name.partition(".")
        if of == kind and name:
            dist = entry.dist
            package = "unknown package" if dist is None else f"{dist.name} {dist.version}"
            by_name.setdefault(name, Plugin(of, name, package, entry))
    return by_name
