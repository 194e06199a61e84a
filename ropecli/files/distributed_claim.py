"""Which run may write into a part file, as processes on other machines can tell.

A task may outlive the run that it belongs to. Beside the part file stands the mark of the run that
writes it: a task that finds another mark, or none, leaves the part file alone. Inodes would not
tell runs apart, because file systems give the same one again.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from typing import TYPE_CHECKING, Any

from ropecli.errors import FileError
from ropecli.files.resume import log_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from ropecli.files.formats.protocol import Sink, Source, Writer
    from ropecli.files.formats.stored import Box

_SUFFIX = ".run"


def mark_of(part: Path) -> Path:
    """Where the mark of the run stands that writes a part file, or a part folder."""
    return log_of(part).with_suffix(_SUFFIX)


@contextlib.contextmanager
def claimed(part: Path) -> Iterator[Claim]:
    """Let tasks write into a part file. Only who holds its lock may do so.

    Raises:
        OSError: The mark can't be written.
    """
    claim = Claim(part, uuid.uuid4().hex)
    try:
        # Under another name first, so that nobody reads half of it.
        _new_mark_of(part).write_text(claim.mark)
        _new_mark_of(part).replace(mark_of(part))
        yield claim
    finally:
        remove_marks(part)


def remove_marks(part: Path) -> None:
    """Let no task write into a part file any more. Only who holds its lock may do so.

    Raises:
        OSError: The mark can't be removed.
    """
    for mark in (mark_of(part), _new_mark_of(part)):
        mark.unlink(missing_ok=True)


def _new_mark_of(part: Path) -> Path:
    return mark_of(part).with_suffix(".new")


class Claim:
    """What a task of a run knows of the part file that it writes."""

    def __init__(self, part: Path, mark: str) -> None:
        """Belong to the run of a mark."""
        self.part = part
        self.mark = mark

    def check(self) -> None:
        """Refuse to write what is not, or no longer, of this run.

        Raises:
            FileError: The mark is another's, or not there.
        """
        try:
            # Opened, because what is only asked for may come from the cache of a network drive.
            if mark_of(self.part).read_text() == self.mark:
                return
        except OSError:
            pass
        msg = (
            f"{os.uname().nodename} does not find {self.part} of this run; "
            "input and output must be where all workers see them under the same path"
        )
        raise FileError(msg)


class ClaimedSink:
    """A sink whose writers look at the mark before they write."""

    def __init__(self, sink: Sink, claim: Claim) -> None:
        """Write to a sink."""
        self._sink = sink
        self._claim = claim

    def writer(self, name: str) -> ClaimedWriter:
        """As `Sink.writer`."""
        return ClaimedWriter(self._sink.writer(name), self._claim)

    def finish(self, source: Source, rest: Collection[str]) -> None:
        """As `Sink.finish`."""
        self._claim.check()
        self._sink.finish(source, rest)

    def close(self) -> None:
        """As `Sink.close`."""
        self._sink.close()


class ClaimedWriter:
    """As `Writer`."""

    def __init__(self, writer: Writer, claim: Claim) -> None:
        """Write with a writer."""
        self._writer = writer
        self._claim = claim

    def write(self, box: Box, block: NDArray[Any]) -> None:
        """As `Writer.write`.

        Raises:
            FileError: The part file is not, or no longer, of this run.
        """
        self._claim.check()
        self._writer.write(box, block)
