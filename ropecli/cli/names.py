"""Names of encodings that stand side by side."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ropecli.cli.encoding import Encoding


def told_apart(encodings: list[Encoding], sources: list[str]) -> list[Encoding]:
    """The encodings, those that would be called the same named with their files as well.

    Args:
        encodings: Of models.
        sources: Where each came from, all of them different.
    """
    from ropecli.render.labels import label

    called = [(each.name, label(each.rope)) for each in encodings]
    files = [(*same, Path(source).name) for same, source in zip(called, sources, strict=True)]
    alike, alike_in_file = Counter(called), Counter(files)
    return [
        replace(each, name=f"{each.name} ({source if alike_in_file[file] > 1 else file[-1]})")
        if alike[same] > 1
        else each
        for each, same, file, source in zip(encodings, called, files, sources, strict=True)
    ]
