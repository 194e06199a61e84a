"""Page of `info`."""

from __future__ import annotations

from ropecli.analyses.info import Info
from ropecli.render import Table, View
from ropecli.render.console import Screen
from ropecli.render.labels import quantity


def page(result: Info, _: Screen) -> list[str]:
    """Return what people ask for, then one line a fact."""
    facts = _facts(result)
    threads = quantity(result.threads, "thread")
    kept = f"kernels kept in {result.cache_dir}" if result.cache_dir else "kernels are not kept"
    answer = f"ropecli {facts['ropecli']}, Python {facts['python']}, {threads}, {kept}"
    return [answer, "", *(f"{name:<16} {value}" for name, value in facts.items())]


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
