"""JSON that nobody should trust."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_FEW = 100_000  #: Lists and objects that any text may have: 20 MB or so.


def loaded(
    content: bytes,
    *,
    sparsest: int = 10,
    as_object: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """What a text says; the caller limits its length.

    Args:
        content: The text.
        sparsest: Bytes per list or object, of which each may take seventy times its text.
        as_object: Makes an object of its names and values.

    Raises:
        ValueError: No JSON, or one of too many lists and objects, or of too many in one another.
    """
    lists = content.count(b"[") + content.count(b"{")
    most = max(_FEW, len(content) // sparsest)
    if lists > most:
        msg = f"{lists:,} lists and objects; allowed are {most:,}"
        raise ValueError(msg)
    try:
        return json.loads(content.decode(), object_pairs_hook=as_object)
    except RecursionError:
        msg = "too many lists or objects in one another"
        raise ValueError(msg) from None
