"""Put the man pages into a wheel, if Sphinx has written them to docs/_build/man."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPages(BuildHookInterface[Any]):
    """Adds each page to those that `man` finds beside the command."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        for page in sorted(Path(self.root, "docs/_build/man").glob("*.1")):
            build_data["shared_data"][str(page)] = f"share/man/man1/{page.name}"
