"""Golden files: pages as they were looked at. With WRITE_GOLDEN=1, tests write them again."""

from __future__ import annotations

import os
from collections.abc import Iterable

from helpers import ROOT

GOLDEN = ROOT / "tests" / "data" / "screens"


def assert_golden(name: str, pages: Iterable[tuple[str, str]]) -> None:
    """Assert that pages, each below its heading, are those of a file."""
    __tracebackhide__ = True
    blocks = (f"{'=' * 20} {heading}\n{page.rstrip()}\n" for heading, page in pages)
    lines = (line.rstrip() for block in blocks for line in block.splitlines())
    text = "".join(f"{line}\n" for line in lines)
    path = GOLDEN / f"{name}.txt"
    if "WRITE_GOLDEN" in os.environ:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
