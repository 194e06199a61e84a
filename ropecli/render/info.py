"""Words for `info`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ropecli.render import console

if TYPE_CHECKING:
    from ropecli.analyses.info import Info


def as_json(result: Info) -> dict[str, Any]:
    """The fields as they are."""
    return dataclasses.asdict(result)


def show(result: Info) -> None:
    """Print one line a fact."""
    rows = list(result.versions.items())
    rows += [
        ("threads", str(result.threads)),
        ("threading layer", result.threading_layer),
        ("cache folder", result.cache_dir or "none: no folder can be written"),
        ("formats", " ".join(result.formats)),
    ]
    out = console.out()
    for name, value in rows:
        out.print(f"{name:<16} {value}", markup=False)
