"""Which blocks of an interrupted run are done.

Beside the part file stands a log: a line that says of what job it is, and a line for each block
that was written, with its hash. What a log claims is read again and hashed before it is believed,
so nothing depends on what a dying system wrote first. A line has a checksum, for what it says of
the input can't be seen in the block.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zlib
from dataclasses import fields
from typing import IO, TYPE_CHECKING, Any, Self

from ropecli._version import __version__
from ropecli.errors import FileError
from ropecli.files import rotation
from ropecli.files.arrays import read_part
from ropecli.files.atomic import LONGEST_NAME
from ropecli.files.formats.raw import Raw, RawSource
from ropecli.files.plan import DIGEST_BYTES, Plan, Written, digest
from ropecli.files.rotation import Unfinite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ropecli.files.formats.protocol import Reader, Source
    from ropecli.files.formats.stored import Stored
    from ropecli.files.plan import Step

_SUFFIX = ".blocks"


def log_of(part: Path) -> Path:
    """The log of a part file, or of a part folder."""
    name = part.name + _SUFFIX
    if len(os.fsencode(name)) > LONGEST_NAME:
        name = f".{hashlib.sha256(os.fsencode(part.name)).hexdigest()}{_SUFFIX}"
    return part.with_name(name)


class BlockLog:
    """Takes down the blocks that are written. Only who holds the part file may open it."""

    def __init__(self, plan: Plan, part: Path) -> None:
        """Go on with the log of the same job, or begin one."""
        job = job_of(plan)
        path = log_of(part)
        if path.is_symlink() or (path.exists() and not path.is_file()):
            msg = f"cannot write {path}: it is no regular file"
            raise FileError(msg)
        self._plan, self._part = plan, part
        self._claims = _claims(path, job, plan)
        self.claims_any = self._claims is not None  #: Whether it says of any that it is written.
        self._file: IO[bytes] = path.open("ab" if self.claims_any else "wb")
        try:
            if self.claims_any:
                self._file.write(b"\n")  # the last line may be torn
            else:
                self._line({"job": job})
        except BaseException:
            self.__exit__()
            raise

    def proven(self) -> Iterator[Written]:
        """The blocks that stand in the part file as the log says.

        Asked for once the sink is open: the file then has the header and the length that it ought
        to have, whatever was left.
        """
        claims, self._claims = self._claims, None  # which nobody asks for again
        if claims is None:
            return
        readers: dict[int, Reader] = {}
        with contextlib.suppress(FileError), _left(self._plan, self._part) as source:
            for step in self._plan.steps():
                claimed, unfinite = claims.of(step.number)
                if claimed and _found(source, self._plan, step, readers) == claimed:
                    yield Written(step, unfinite, claimed)

    def add(self, written: Written) -> None:
        """Take down a block."""
        self._line(
            {
                "block": written.step.number,
                "blake2b": written.digest,
                "unfinite": [written.unfinite.nonfinite, written.unfinite.overflowed],
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


def job_of(plan: Plan) -> str:
    """What tells a job from any other: its input, its encoding, its positions, its blocks."""
    rotations = plan.opened.rotations
    rope = rotations[0].rope
    facts = {
        "ropecli": __version__,
        "input": plan.opened.version,
        "read": [_facts(each.axes.stored) for each in rotations],
        "written": [_facts(array) for array in plan.arrays],
        "kept": plan.kept,
        "rope": {each.name: getattr(rope, each.name) for each in fields(rope) if each.compare},
        "positions": [[each.axes.sequence_axis, each.places.identity] for each in rotations],
        "inverse": rotations[0].inverse,
        "blocks": rotation.BLOCK_BYTES,
    }
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _left(plan: Plan, part: Path) -> Source:
    """The part file, opened; one without a header as the plan describes it."""
    if isinstance(plan.format, Raw):
        (array,) = plan.arrays
        return RawSource(part, array.shape, array.dtype)
    return plan.format.open(part)


def _facts(array: Stored) -> list[Any]:
    return [array.name, array.shape, array.dtype.str, array.fortran_order, array.chunks]


def _found(source: Source, plan: Plan, step: Step, readers: dict[int, Reader]) -> str:
    """The hash of a block of the part file; empty where it can't be read."""
    try:
        if step.array not in readers:
            readers[step.array] = source.reader(plan.arrays[step.array])
        return digest(read_part(readers[step.array], step.box))
    except FileError:
        return ""


class _Claims:
    """What a log says of each block, in few bytes: there may be millions."""

    def __init__(self, count: int) -> None:
        """Nothing yet, of so many blocks."""
        self._count = count
        self._digests = bytearray(DIGEST_BYTES * count)  # zeros where nothing is said
        self._unfinite: dict[int, Unfinite] = {}  # of the few that have any

    def take(self, said: Any) -> bool:
        """Believe what a line says of a block; whether it does, and there is such a block."""
        try:
            number, digest = said["block"], bytes.fromhex(said["blake2b"])
            unfinite = Unfinite(*said["unfinite"])
        except (ValueError, KeyError, TypeError):
            return False
        counts = (number, unfinite.nonfinite, unfinite.overflowed)
        if any(type(each) is not int or each < 0 for each in counts) or number >= self._count:
            return False
        if len(digest) != DIGEST_BYTES:
            return False
        self._digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES] = digest
        self._unfinite.pop(number, None)
        if unfinite != Unfinite():
            self._unfinite[number] = unfinite
        return True

    def of(self, number: int) -> tuple[str, Unfinite]:
        """The hash of a block, empty where there is none, and what was seen in it."""
        found = self._digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES]
        return found.hex() if any(found) else "", self._unfinite.get(number, Unfinite())


def _claims(path: Path, job: str, plan: Plan) -> _Claims | None:
    """What a log of this job says; nothing of another's, and of a torn line nothing."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as lines:
        if _said(next(lines, b"")) == {"job": job}:
            found = _Claims(sum(1 for _ in plan.steps()))
            if sum(found.take(_said(line)) for line in lines):
                return found
    return None


def _said(line: bytes) -> Any:
    """What a line says; None of a line that was torn, or is another's."""
    checksum, _, text = line.rstrip(b"\n").partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
