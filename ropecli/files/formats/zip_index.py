"""The index of a zip archive, which the library reads whole: a file may say that it is endless."""

from __future__ import annotations

import io

LONGEST = 1 << 22  #: Bytes of an index: 50,000 members or so.


class BoundedFile(io.FileIO):
    """A file that refuses to read so much in one piece as only a long index is."""

    def read(self, size: int | None = -1, /) -> bytes:
        """As `io.FileIO.read`.

        Raises:
            ValueError: It is too much.
        """
        if size is not None and size > LONGEST:
            msg = f"{size:,} bytes in one piece; allowed are {LONGEST:,}"
            raise ValueError(msg)
        return super().read(-1 if size is None else size)
