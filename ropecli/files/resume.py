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
from ropecli.files.formats.source import FileSource
from ropecli.files.plan import Plan, Written, digest
from ropecli.files.rotation import Unfinite
from ropecli.files.version import version_of

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
        self._claims = _claims(path, job)
        self._file: IO[bytes] = path.open("ab" if self._claims else "wb")
        if self._claims:
            self._file.write(b"\n")  # the last line may be torn
        else:
            self._line({"job": job})

    @property
    def claims_any(self) -> bool:
        """Whether it says of any block that it is written."""
        return bool(self._claims)

    def proven(self) -> Iterator[Written]:
        """The blocks that stand in the part file as the log says.

        Asked for once the sink is open: the file then has the header and the length that it ought
        to have, whatever was left.
        """
        if not self._claims:
            return
        readers: dict[int, Reader] = {}
        with contextlib.suppress(FileError), _left(self._plan, self._part) as source:
            for step in self._plan.steps():
                claimed, unfinite = self._claims.pop(step.number, ("", Unfinite()))
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
    rope, source = rotations[0].rope, plan.opened.source
    facts = {
        "ropecli": __version__,
        "input": version_of(source.path, source.fd if isinstance(source, FileSource) else None),
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


def _claims(path: Path, job: str) -> dict[int, tuple[str, Unfinite]]:
    """What a log of this job says, by block; nothing of another's, and of a torn line nothing."""
    found: dict[int, tuple[str, Unfinite]] = {}
    with contextlib.suppress(FileNotFoundError), path.open("rb") as lines:
        if _said(next(lines, b"")) != {"job": job}:
            return {}
        for line in lines:
            said = _said(line)
            if said is not None and "block" in said:
                found[said["block"]] = said["blake2b"], Unfinite(*said["unfinite"])
    return found


def _said(line: bytes) -> Any:
    """What a line says; None of a line that was torn."""
    checksum, _, text = line.rstrip(b"\n").partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        return None
    return json.loads(text)
