"""Workflow commands by which GitHub Actions marks lines of code."""

from __future__ import annotations

from ropecli.render.console import visible


def annotation(
    kind: str, text: str, *, title: str, file: str | None = None, place: tuple[int, int] | None
) -> str:
    """Return the line that marks a place."""
    where = "" if file is None else f"file={_property(file)},"
    if place is not None:
        where += f"line={place[0]}," + (f"col={place[1]}," if place[1] else "")
    return f"::{kind} {where}title={_property(title)}::{_data(text)}"


def _data(text: str) -> str:
    """Return text as a command holds it, with escapes for control characters of a file's name."""
    text = "".join(c if c in "\r\n" else visible(c) for c in text)
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
