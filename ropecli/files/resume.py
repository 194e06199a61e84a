"""The log of the blocks that an interrupted run has written.

It lies next to the part file: a line that identifies the job, and a line for each written block,
with its hash. Resume verifies every logged block: it reads it from the part file and hashes it, so
nothing depends on what a dying system wrote first. Each line has a checksum, because its counts
cannot be verified against the block.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zlib
from dataclasses import fields
from typing import IO, TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from ropecli._version import __version__
from ropecli.errors import FileError
from ropecli.files import array_job
from ropecli.files.array_job import Block, NonFiniteCounts, WrittenBlock
from ropecli.files.arrays import read_part
from ropecli.files.atomic import LONGEST_NAME
from ropecli.files.formats.raw import Raw, RawSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from ropecli.files.formats.protocol import Format, Reader, Source
    from ropecli.files.formats.stored import Stored
    from ropecli.files.session import Session


class Logged(Protocol):
    """A plan whose blocks are logged."""

    session: Session
    format: Format
    arrays: list[Stored]
    kept: tuple[str, ...]

    def blocks(self) -> Iterator[Block]:
        """Return all blocks, in the order of the file."""


_SUFFIX = ".blocks"
_DIGEST_BYTES = 16  #: Of the hash of a block.


def log_of(part: Path) -> Path:
    """Return the path of the log of a part file or folder."""
    name = part.name + _SUFFIX
    if len(os.fsencode(name)) > LONGEST_NAME:
        name = f".{hashlib.sha256(os.fsencode(part.name)).hexdigest()}{_SUFFIX}"
    return part.with_name(name)


def digest(block: NDArray[Any]) -> str:
    """Return the hash of a block's elements: C-contiguous, in native byte order."""
    data = block.reshape(-1).view(np.uint8).data
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


class BlockLog:
    """Log of written blocks. Only who holds the part file may open it."""

    def __init__(self, plan: Logged, part: Path) -> None:
        """Continue the log of the same job, or begin one."""
        job = _identity(plan)
        path = log_of(part)
        if path.is_symlink() or (path.exists() and not path.is_file()):
            msg = f"cannot write {path}: it is not a regular file"
            raise FileError(msg)
        self._plan, self._part = plan, part
        self._claims = _claims(path, job, plan)
        self.claims_any = self._claims is not None  #: Whether it names any written block.
        self._file: IO[bytes] = path.open("ab" if self.claims_any else "wb")
        try:
            if self.claims_any:
                self._file.write(b"\n")  # the last line may be torn
            else:
                self._line({"job": job})
        except BaseException:
            self.__exit__()
            raise

    def verified(self) -> Iterator[WrittenBlock]:
        """Yield the blocks of the part file that have the hash in the log.

        The sink must be open: the file then has the header and the length that it ought to have,
        whatever an earlier run has left.
        """
        claims, self._claims = self._claims, None  # a large table that is not needed again
        if claims is None:
            return
        readers: dict[int, Reader] = {}
        with contextlib.suppress(FileError), _open_part(self._plan, self._part) as source:
            for block in self._plan.blocks():
                claimed, counts = claims.of(block.number)
                if claimed and _hash_in(source, self._plan, block, readers) == claimed:
                    yield WrittenBlock(block, counts, claimed)

    def add(self, written: WrittenBlock) -> None:
        """Log a block."""
        self._line(
            {
                "block": written.block.number,
                "blake2b": written.digest,
                "unfinite": [written.counts.nonfinite, written.counts.overflowed],
            }
        )

    def _line(self, content: dict[str, Any]) -> None:
        text = json.dumps(content).encode()
        self._file.write(b"%08x %b\n" % (zlib.crc32(text), text))
        self._file.flush()

    def __enter__(self) -> Self:
        """Close the log at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the log, which stays."""
        # What a full disk did not take before, it won't take when closing either.
        with contextlib.suppress(OSError):
            self._file.close()


def _identity(plan: Logged) -> str:
    """Return the hash of a job: of its input, encoding, positions and blocks."""
    session = plan.session
    facts = {
        "ropecli": __version__,
        "input": session.version,
        "read": [_facts(each.axes.stored) for each in session.arrays],
        "written": [_facts(array) for array in plan.arrays],
        "kept": plan.kept,
        "rope": {
            each.name: getattr(session.rope, each.name)
            for each in fields(session.rope)
            if each.compare
        },
        "positions": [
            [each.axes.sequence_axis, each.positions.identity] for each in session.arrays
        ],
        "inverse": session.job.inverse,
        "blocks": array_job.BLOCK_BYTES,
    }
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _facts(array: Stored) -> list[Any]:
    return [array.name, array.shape, array.dtype.str, array.fortran_order, array.chunks]


def _open_part(plan: Logged, part: Path) -> Source:
    """Open the part file; one without a header as the plan describes it."""
    if isinstance(plan.format, Raw):
        (array,) = plan.arrays
        return RawSource(part, array.shape, array.dtype)
    return plan.format.open(part)


def _hash_in(source: Source, plan: Logged, block: Block, readers: dict[int, Reader]) -> str:
    """Return the hash of a block of the part file; empty where it cannot be read."""
    try:
        if block.array not in readers:
            readers[block.array] = source.reader(plan.arrays[block.array])
        return digest(read_part(readers[block.array], block.box))
    except FileError:
        return ""


class _Claims:
    """Hash and counts of each logged block, in few bytes: there may be millions."""

    def __init__(self, count: int) -> None:
        """Hold nothing yet, of `count` blocks."""
        self._count = count
        self._digests = bytearray(_DIGEST_BYTES * count)  # zeros where there is none
        self._counts: dict[int, NonFiniteCounts] = {}  # of the few that have any

    def add(self, line: Any) -> bool:
        """Add a line of the log, unless it is malformed; return whether it was added."""
        try:
            number, digest = line["block"], bytes.fromhex(line["blake2b"])
            counts = NonFiniteCounts(*line["unfinite"])
        except (ValueError, KeyError, TypeError):
            return False
        numbers = (number, counts.nonfinite, counts.overflowed)
        if any(type(each) is not int or each < 0 for each in numbers) or number >= self._count:
            return False
        if len(digest) != _DIGEST_BYTES:
            return False
        self._digests[number * _DIGEST_BYTES : (number + 1) * _DIGEST_BYTES] = digest
        self._counts.pop(number, None)
        if counts != NonFiniteCounts():
            self._counts[number] = counts
        return True

    def of(self, number: int) -> tuple[str, NonFiniteCounts]:
        """Return the hash of a block, empty where there is none, and its counts."""
        found = self._digests[number * _DIGEST_BYTES : (number + 1) * _DIGEST_BYTES]
        return found.hex() if any(found) else "", self._counts.get(number, NonFiniteCounts())


def _claims(path: Path, job: str, plan: Logged) -> _Claims | None:
    """Return the claims of a log of this job; None where it has none, or is another job's."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as lines:
        if _parse_line(next(lines, b"")) == {"job": job}:
            found = _Claims(sum(1 for _ in plan.blocks()))
            if sum(found.add(_parse_line(line)) for line in lines):
                return found
    return None


def _parse_line(line: bytes) -> Any:
    """Return the content of a line; None of one that is torn, or another program's."""
    checksum, _, text = line.rstrip(b"\n").partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
