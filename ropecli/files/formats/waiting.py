"""Arrays that wait in a file without a name, for a format that is written in one go."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from ropecli.files.formats.flat import FlatWriter
from ropecli.files.formats.output import OutputFile

if TYPE_CHECKING:
    from pathlib import Path

    from ropecli.files.formats.stored import Stored


class Waiting:
    """An array whose blocks come in any order."""

    def __init__(self, folder: Path, array: Stored) -> None:
        """Begin a file of the array's size in a folder, on the disk of the output."""
        self.array = array
        self.file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - until `close`
        output = OutputFile(self.file.fileno())
        output.set_length(array.nbytes)
        self.writer = FlatWriter(output, array, 0)

    def close(self) -> None:
        """Close the file, which is gone then."""
        self.file.close()
