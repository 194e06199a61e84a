"""The output and the cost of a rotation of files, of which nothing is written."""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ropecli.files.atomic import check_target
from ropecli.files.encode import is_copy, output_arrays, plan_output
from ropecli.files.formats.packed import PackedSource
from ropecli.files.formats.stored import box_shape
from ropecli.files.opened import OpenInput, open_rotation
from ropecli.results import Result
from ropecli.rotary import Rotary

#: Bytes of memory in a unit of `ru_maxrss`.
RSS_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True, kw_only=True)
class PlannedFile:
    """A file that would be written."""

    input: Path  #: The file that was read.
    output: Path  #: The file that would be written.
    arrays: tuple[str, ...]  #: Names of the arrays that would be rotated.
    kept: tuple[str, ...]  #: Names of those that would be copied as they are.
    left_out: tuple[str, ...]  #: Names of those that the output's format has no place for.
    bytes: int  #: Size of the elements that would be rotated.
    seconds: float  #: Time of their rotation, estimated from a block.
    memory: int  #: Bytes of memory that it takes in all.


@dataclass(frozen=True, kw_only=True)
class DryRun(Result, view="encode.DRY_RUN"):
    """The files that `encode_files` would write."""

    files: tuple[PlannedFile, ...]  #: In the order of the inputs.

    @property
    def bytes(self) -> int:
        """Size of the elements that would be rotated."""
        return sum(file.bytes for file in self.files)

    @property
    def seconds(self) -> float:
        """Time of the rotations; reading and writing takes that of a copy in addition."""
        return sum(file.seconds for file in self.files)

    @property
    def memory(self) -> int:
        """Bytes of memory that the largest file takes."""
        return max(file.memory for file in self.files)


def dry_run(
    files: Sequence[tuple[Path, Path]],
    rope: Rotary | Callable[[int], Rotary],
    *,
    makes_folder: bool = False,
    force: bool = False,
    scheduler: str | None = None,
    sources: Sequence[Path] = (),
    start: Callable[[OpenInput], None],
    **options: Any,
) -> DryRun:
    """Return what rotating files would write and cost, or refuse what would be refused.

    Args:
        files: Each input with its output.
        rope: As in `encode_files`.
        makes_folder: The folder of the outputs would be made.
        force: As in `encode_file`.
        scheduler: As in `encode_file`.
        sources: As in `write_rotated`.
        start: Called with the first input, open.
        **options: As in `encode_file`.
    """
    planned: list[PlannedFile] = []
    for input, output in files:
        with open_rotation(input, rope, **options) as opened:
            if not makes_folder or output.parent.is_dir():
                format, stored = plan_output(
                    opened, output, force=force, scheduler=scheduler, sources=sources
                )
            else:
                check_target(output.parent, force=force)
                format, stored = output_arrays(opened, output)
            if not planned:
                start(opened)
            copied = is_copy(opened, format)
            size = sum(array.nbytes for array in stored)
            seconds = _seconds(opened)  # before memory is read, which a block takes
            packed_size = size * (isinstance(opened.source, PackedSource) + format.packed)
            used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT
            planned.append(
                PlannedFile(
                    input=opened.source.path,
                    output=output,
                    arrays=tuple(array.stored.name for array in opened.arrays),
                    kept=opened.others if copied else (),
                    left_out=() if copied else opened.others,
                    bytes=size,
                    seconds=seconds,
                    memory=used + packed_size,
                )
            )
    return DryRun(files=tuple(planned))


def _seconds(opened: OpenInput) -> float:
    """Return the time of all rotations, from that of a block of zeros of each array."""
    total = 0.0
    for array in opened.arrays:
        box = next(iter(array.blocks(None)), None)
        if box is None:
            continue
        before = np.zeros(box_shape(box), array.stored.dtype.newbyteorder("="))
        after = np.empty_like(before)
        times = []
        for _ in range(3):  # the first one compiles
            begin = time.perf_counter()
            array.rotate(box, before, after)
            times.append(time.perf_counter() - begin)
        total += min(times) * math.prod(array.stored.shape) / max(1, before.size)
    return total
