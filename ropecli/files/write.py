"""Write what is planned into a part file, as a whole or going on where a run has ended."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from ropecli.errors import FileError
from ropecli.files.early_sync import EarlySync
from ropecli.files.formats.pipe import is_pipe
from ropecli.files.resume import BlockLog
from ropecli.files.rotation import Unfinite

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ropecli.files.formats.protocol import Format
    from ropecli.files.plan import Plan, Runner, Written

    Progress = Callable[[int, int], None]


def check_resumable(target: Format, input: Path, output: Path) -> None:
    """Refuse to go on with a format that is written in one go, or with what is read but once.

    Raises:
        FileError: Such a format, or standard input.
    """
    if is_pipe(input):
        msg = f"cannot resume {output}: what comes through stdin is gone; allowed is a file"
        raise FileError(msg)
    if not target.random:
        msg = f"cannot resume {output}: allowed are .npy, .safetensors, .zarr and files of --shape"
        raise FileError(msg)


def write(
    plan: Plan,
    part: Path,
    *,
    resume: bool,
    progress: Progress | None,
    run: Runner | None = None,
) -> dict[int, Unfinite]:
    """Write all blocks, or all that an earlier run has not; what was seen, by array.

    Args:
        plan: What is to be written.
        part: The part file or folder, empty or left by an earlier run; "-" for standard output.
        resume: Whether to go on, and to keep a log for going on again.
        progress: Called with the bytes that are done and those in all.
        run: What turns the blocks; the plan itself by default.
    """
    seen = {number: Unfinite() for number in range(len(plan.arrays))}
    done = bytearray()  # a byte for each block, up to the last that an earlier run has written
    count = 0

    def tell(written: Written) -> None:
        nonlocal count
        step = written.step
        seen[step.array] += written.unfinite
        count += step.bytes
        if progress is not None:
            progress(count, plan.bytes)

    with ExitStack() as stack:
        log = stack.enter_context(BlockLog(plan, part)) if resume else None
        if log is None or not log.claims_any:
            _empty(part)
        # Also where a run goes on: what is left may have another header, or another length.
        sink = plan.format.create(part, plan.arrays, plan.opened.source)
        stack.callback(sink.close)
        if log is not None:
            for written in log.proven():
                done += bytes(written.step.number - len(done)) + b"\1"
                tell(written)
        sync = stack.enter_context(EarlySync(part))
        left = (step for step in plan.steps() if done[step.number : step.number + 1] != b"\1")
        turned = (plan.run if run is None else run)(sink, left, hashed=resume)
        for written in stack.enter_context(closing(turned)):
            if log is not None:
                log.add(written)
            sync.wrote(written.step.bytes)
            tell(written)
        sink.finish(plan.opened.source, plan.kept)
    return seen


def _empty(part: Path) -> None:
    """Remove what an earlier run has left."""
    if is_pipe(part):
        return
    if not part.is_dir():
        os.truncate(part, 0)
        return
    for path in part.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
