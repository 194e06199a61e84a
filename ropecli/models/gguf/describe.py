"""A GGUF as its header describes it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ropecli.models.description import Description
from ropecli.models.gguf.file import read_gguf
from ropecli.models.gguf.metadata import Metadata
from ropecli.models.gguf.settings import gguf_settings

if TYPE_CHECKING:
    from pathlib import Path


def describe_gguf(path: Path) -> Description:
    """Read a GGUF.

    Raises:
        FileError: A file that can't be read, or says something that is not allowed.
    """
    file = read_gguf(path)
    return Description(
        source=os.fspath(path),
        format="gguf",
        model_type=Metadata(file).architecture,
        raw=file.metadata,
        settings=gguf_settings(file),
    )
