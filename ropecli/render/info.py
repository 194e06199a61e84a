"""Page of `info`."""

from __future__ import annotations

from ropecli.analyses.info import Info
from ropecli.render import Table, View
from ropecli.render.console import Screen


def page(result: Info, _: Screen) -> list[str]:
    """Return one line a fact."""
    return [f"{name:<16} {value}" for name, value in _facts(result).items()]


def table(result: Info) -> Table:
    """Return a row for each fact."""
    facts = _facts(result)
    return {"name": [*facts], "value": [*facts.values()]}


def _facts(result: Info) -> dict[str, str]:
    return result.versions | {
        "threads": str(result.threads),
        "threading layer": result.threading_layer,
        "cache folder": result.cache_dir or f"none: {result.cache_refusal}",
        "formats": " ".join(result.formats),
        **({"plugins": ", ".join(result.plugins)} if result.plugins else {}),
    }


VIEW = View(page=page, table=table)
