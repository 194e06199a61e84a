"""Formats that a library packs: arrays are read whole and written whole, only by the library.

What would take more than half of the memory is refused; files of the other formats are read and
written in blocks.
"""

from __future__ import annotations

import contextlib
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import BFLOAT16
from ropecli.errors import FileError
from ropecli.files.formats.base import MemoryReader, Sink, Source
from ropecli.files.formats.library import translate_read_errors, translate_write_errors
from ropecli.files.formats.stored import Stored

Arrays = Mapping[str, NDArray[Any]]

#: Files with the memory that a container may have, of Linux's control groups 2 and 1.
_CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class PackedSource(Source):
    """An open file of arrays, each of which is loaded whole."""

    @abstractmethod
    def load(self, name: str) -> NDArray[Any]:
        """Return an array, bfloat16 as such or as void elements of two bytes."""

    def check(self, stored: Stored) -> None:
        """Refuse an array that would take more than half of the memory."""
        check_memory(stored.label, stored.nbytes)

    def reader(self, stored: Stored) -> MemoryReader:
        """Load an array, and return its reader."""
        self.check(stored)
        with translate_read_errors(stored.label):
            array = self.load(stored.name)
            if array.shape != stored.shape:
                raise ValueError(f"an array of shape {array.shape}, expected {stored.shape}")
        is_bfloat16 = stored.dtype == BFLOAT16
        return MemoryReader(stored, array.view(BFLOAT16) if is_bfloat16 else array)


class PackedSink(Sink):
    """Arrays in memory, until a library writes all of them.

    Args:
        part: The file to be written.
        arrays: As they are to be stored.
        source: The file that they come from.
        write: Writes arrays by name into a file, and what else the source holds if it is of
            this format.
        more: Bytes of memory that writing needs besides the arrays.
    """

    def __init__(
        self,
        part: Path,
        arrays: Sequence[Stored],
        source: Source,
        *,
        write: Callable[[Path, Arrays, Source], None],
        more: int = 0,
    ) -> None:
        self._part, self._source, self._write = part, source, write
        self._output = arrays[0].path  # whose name messages show
        check_memory(str(self._output), sum(array.nbytes for array in arrays) + more)
        self._arrays = {
            array.name: np.empty(array.shape, array.dtype, "F" if array.fortran_order else "C")
            for array in arrays
        }

    def write(self, name: str, box: tuple[slice, ...], block: NDArray[Any]) -> None:
        """Keep a part of an array."""
        self._arrays[name][box] = block

    def finish(self) -> None:
        """Write the file."""
        with translate_write_errors(self._output):
            self._write(self._part, self._arrays, self._source)


def check_memory(label: str, size: int) -> None:
    """Refuse what takes more than half of the memory."""
    most = memory() // 2
    if size > most:
        raise FileError(
            f"{label} needs {size:,} bytes of memory, expected at most {most:,}, half of it; "
            "files in .npy, .safetensors and .zarr may be larger"
        )


def memory() -> int:
    """Return the bytes of memory that the machine has, or the container."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in _CONTAINER:
        with contextlib.suppress(OSError, ValueError):  # ValueError: "max", which is no limit
            limits.append(int(Path(path).read_text()))
    return min(limits)
