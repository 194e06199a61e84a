"""A failing call as a file: its arrays, the result expected, and the call in words, in one .npz."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ropecli._version import __version__
from ropecli.checks.implementation.calling.engine import VECTORS
from ropecli.checks.implementation.calling.values import Values, arrange
from ropecli.checks.implementation.convention import ROLES
from ropecli.checks.implementation.failing_call import FailingCall
from ropecli.errors import ArgumentError
from ropecli.files.atomic import check_target, replacing


def check_path(path: str | os.PathLike[str], *, force: bool) -> Path:
    """Return the file, before anything is called."""
    file = Path(path)
    if file.suffix != ".npz":
        raise ArgumentError(f"failure must be saved as .npz, got {file.name!r}")
    check_target(file, force=force)
    return file


def write(
    path: Path, call: FailingCall, target: str, name: str, device: str | None, *, force: bool
) -> None:
    """Write a failing call of a target, which calls name so, whole or not at all."""
    convention = call.setup.convention
    calls = {"": call.call} | ({} if call.before is None else {"before_": call.before})
    names = convention.names & (ROLES.keys() - {name, "config"})
    given: dict[str, Any] = {}
    for prefix, one_call in calls.items():
        made = Values(call=one_call.whole(), setup=call.setup).of(sorted(names))
        given |= {prefix + role: np.asarray(value) for role, value in made.items()}
    held = {key: _storable(value) for key, value in given.items()} | {
        "expected": arrange(call.expected, convention.axes_of_x),
        "tolerance": arrange(call.tolerance, convention.axes_of_x),
        "call": np.array(_describe(call, target, device, given)),
    }
    save(path, held, force=force)


def save(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]], *, force: bool) -> None:
    """Write arrays, whole or not at all."""
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    with replacing(path, force=force) as file:
        file.write(stream.getvalue())


def _describe(
    call: FailingCall, target: str, device: str | None, given: Mapping[str, np.ndarray[Any, Any]]
) -> str:
    """Return the call in words: what to call, with what, and what must come out."""
    convention, memory = call.setup.convention, call.call.memory
    lines = [
        f"The smallest call that {target} answers wrongly, saved by ropecli {__version__}:",
        "",
        f"    {convention.call}",
        "",
        f"Arrays of {convention.framework}{f' on {device}' if device else ''}:",
    ]
    for key, value in given.items():
        kind = f"{value.dtype.name} {value.shape}"
        if not value.ndim:
            kind = f"{value}"
        elif value.dtype.name == "bfloat16":
            kind += ", its bits kept as uint16"
        if key in VECTORS and memory != "contiguous":
            kind += f", {memory} in memory"
        lines.append(f"    {key}: {kind}")
    if call.before is not None:
        lines.append("A call with the values of before_... goes first, on the same instance.")
    if call.error is not None:
        return "\n".join([*lines, f"It raised {call.error}."])
    result = "k" if call.array == "k" else "q" if "q" in convention.names else "x"
    where = ", in out," if "out" in convention.names else ", in place," if call.in_place else ""
    lines.append(f"The result for {result}{where} is not `expected` within `tolerance`.")
    return "\n".join(lines)


def _storable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array
