"""Page of `info`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ropecli.analyses.info import Info
    from ropecli.render.console import Screen


def page(result: Info, _: Screen) -> list[str]:
    """Return one line a fact."""
    facts = result.versions | {
        "threads": str(result.threads),
        "threading layer": result.threading_layer,
        "cache folder": result.cache_dir or "none: no folder can be written",
        "formats": " ".join(result.formats),
    }
    return [f"{name:<16} {value}" for name, value in facts.items()]
