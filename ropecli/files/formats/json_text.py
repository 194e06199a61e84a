"""JSON from untrusted files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_FEW = 100_000  #: Lists and objects that any text may have: 20 MB or so.


def load_json(
    content: bytes,
    *,
    sparsest: int = 10,
    as_object: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """Parse a text whose length the caller has limited.

    Args:
        content: The text.
        sparsest: Bytes per list or object, each of which may take seventy times its text.
        as_object: Makes an object from its names and values.

    Raises:
        ValueError: The text is not JSON, or has too many lists and objects, or too deep ones.
    """
    lists = content.count(b"[") + content.count(b"{")
    most = max(_FEW, len(content) // sparsest)
    if lists > most:
        msg = f"{lists:,} lists and objects, expected at most {most:,}"
        raise ValueError(msg)
    try:
        return json.loads(content.decode(), object_pairs_hook=as_object)
    except RecursionError:
        msg = "lists or objects nested too deep"
        raise ValueError(msg) from None
