"""Facts about architectures in llama.cpp that no key of a GGUF gives, from architectures.toml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ropecli.models.tables import read_table

table = partial(read_table, __file__)  #: As it is written.

#: Layout by the mode of ggml's rotation.
LAYOUTS = {"norm": "interleaved", "neox": "half", "mrope": "half", "imrope": "half"}
_MODES = ("none", *LAYOUTS)  #: Lists of names in the table.


def goes_by_sections(name: str) -> bool:
    """True if the mode of an architecture depends on rope.dimension_sections."""
    return name in table()["without_sections"]


def mode_of(name: str, sections: Sequence[int] = ()) -> str | None:
    """Return "none", "norm", "neox", "mrope" or "imrope"; None of an unknown architecture."""
    usual: str | None = table()["without_sections"].get(name)
    if usual is not None and len(sections) > 1 and min(sections[:2]) > 0:
        usual = "mrope"
    return next((mode for mode in _MODES if name in table()[mode]), usual)


def facts_of(name: str) -> Mapping[str, Any]:
    """Return the facts of an architecture, which the head of the table explains."""
    return {} if name in (*_MODES, "without_sections") else table().get(name, {})
