"""Read an untrusted file within limits on time and memory.

The size of a file does not bound the work, since a sparse file of a terabyte costs nothing to
make. Three budgets do: bytes read, steps taken and memory kept. The largest vocabularies of today,
262,144 tokens and 514,906 merges, take 15 MB and 780,000 steps.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, NoReturn

from ropecli.errors import FileError
from ropecli.regular import read_bytes

CHUNK = 1 << 18  #: Bytes that one read asks for.
MOST_BYTES = 1 << 26  #: Read from one file: 64 MiB.
MOST_STEPS = 2_000_000  #: A skipped string is one; half a second of them.
MOST_MEMORY = 1 << 25  #: Bytes of the values kept, estimated: 32 MiB.


class BoundedReader:
    """An open file, read from front to back."""

    path: Path
    size: int  #: Bytes in the file.
    at: int  #: The next byte.
    order: str  #: "<" or ">", of every number.

    def __init__(self, path: Path, fd: int) -> None:
        """Start at the file's first byte."""
        self.path, self._fd = path, fd
        self.size = os.fstat(fd).st_size
        self.at = 0
        self.order = "<"
        self._chunk, self._start = b"", 0
        self._bytes, self._steps, self._memory = 0, 0, 0

    @property
    def left(self) -> int:
        """Bytes up to the end of the file."""
        return self.size - self.at

    def refuse(self, what: str) -> NoReturn:
        """Raise a FileError that names the file."""
        raise FileError(f"{self.path}: {what}")

    def step(self, count: int) -> None:
        """Count steps before they are taken."""
        self._steps += count
        if self._steps > MOST_STEPS:
            self.refuse(
                f"the header has too many parts by byte {self.at:,}; "
                f"expected at most {MOST_STEPS:,} strings"
            )

    def keep(self, memory: int) -> None:
        """Count memory before it is taken."""
        self._memory += memory
        if self._memory > MOST_MEMORY:
            self.refuse(
                f"the header's values need too much memory by byte {self.at:,}; "
                f"expected at most {MOST_MEMORY >> 20} MiB"
            )

    def need(self, count: int, what: str) -> None:
        """Refuse the file if fewer than `count` bytes are left."""
        if count > self.left:
            self.refuse(f"{what} at byte {self.at:,} needs {count:,} bytes, {self.left:,} are left")

    def take(self, count: int, what: str) -> bytes:
        """Read the next bytes; the caller limits their number."""
        self.need(count, what)
        place = self.at - self._start
        if not 0 <= place <= len(self._chunk) - count:
            self._fill(max(count, CHUNK))
            place = 0
        self.at += count
        return self._chunk[place : place + count]

    def number(self, code: str, what: str) -> Any:
        """Read the next number, by its `struct` code."""
        form = self.order + code
        return struct.unpack(form, self.take(struct.calcsize(form), what))[0]

    def skip(self, count: int, what: str) -> None:
        """Skip bytes without reading them."""
        self.need(count, what)
        self.at += count

    def skip_strings(self, count: int, what: str) -> None:
        """Skip strings, each of them a length and that many bytes."""
        self.step(count)
        length = struct.Struct(self.order + "Q").unpack_from
        while count:
            self.need(8 * count, what)
            if not 0 <= self.at - self._start <= len(self._chunk) - 8:
                self._fill(CHUNK)
            chunk, place = self._chunk, self.at - self._start
            last = len(chunk) - 8
            while count and place <= last:
                place += 8 + length(chunk, place)[0]
                count -= 1
            self.at = self._start + place
            if self.left < 0:
                self.refuse(f"a string of {what} ends {-self.left:,} bytes beyond the file")

    def _fill(self, count: int) -> None:
        """Read at most `count` bytes into the buffer, fewer at the end of the file."""
        count = min(count, self.left)
        self._bytes += count
        if self._bytes > MOST_BYTES:
            self.refuse(
                f"the header is too long: it continues at byte {self.at:,}; "
                f"expected at most {MOST_BYTES >> 20} MiB"
            )
        self._start, self._chunk = self.at, read_bytes(self.path, self._fd, self.at, count)
