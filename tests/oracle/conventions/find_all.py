"""Print the findings for the implementations of one package, as JSON.

    find_all.py PACKAGE [--all-laws]

It runs in a process of its own: packages set up frameworks in ways that do not agree.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from oracle.conventions import arithmetic, stand_ins
from oracle.conventions.released import HEAD_DIM, RELEASED, Released

import ropecli
from ropecli.arrays import DTYPES
from ropecli.checks.implementation.call import Call, ImplementationError, Setup, Unsupported
from ropecli.checks.implementation.calling.discover import NotCallable, Search
from ropecli.checks.implementation.calling.run import Caller
from ropecli.checks.implementation.calling.source import Named
from ropecli.checks.implementation.convention import Convention

#: Laws of thousands of calls, which take most of the time.
MANY_CALLS = ("every shape", "every position", "many steps")
#: First positions of sequences of LENGTH tokens, all even: xPos has a middle.
FIRST, LENGTH = (0, 6, 1900), 40
CONTEXT = 4096


def findings(each: Released, *, ignore: tuple[str, ...]) -> dict[str, Any]:
    """Return the convention of an implementation, its rotation by arithmetic, and its verdict."""
    try:
        caller = Caller(Named(target=each.target, other=each.other), isolated=False)
    except ropecli.RopecliError as error:
        return {"options": f"not loaded: {error}"}
    rope = ropecli.Rotary(head_dim=HEAD_DIM, layout="half")
    given = {"call": each.call} if each.call else {}
    try:
        search = Search(caller=caller, rope=rope, context=CONTEXT, given=given)
        convention, _ = search.discover()
    except NotCallable as error:
        nearest = error.tried[0].error if error.tried else ""
        return {"options": f"not called: {error.missing or nearest}"}
    rotation = matching_rotations(caller, convention, rope)
    verdict = ropecli.check(
        each.target,
        apply_with=each.other or None,
        call=each.call or None,
        isolated=False,
        ignore=ignore,
    )
    return {"options": convention.options(), "rotation": rotation, **summary(verdict)}


def matching_rotations(caller: Caller, convention: Convention, rope: ropecli.Rotary) -> list[str]:
    """Return the rotations of `arithmetic` with the same results, in each dtype and position.

    A mistake in float32 need not show in half precision.
    """
    every: list[list[str]] = []
    full: list[list[str]] = []
    for dtype in caller.dtypes(convention.framework):
        for first in FIRST:
            shape = (
                2 if "b" in convention.axes_of_x else 1,
                3 if "h" in convention.axes_of_x else 1,
                LENGTH,
                HEAD_DIM,
            )
            x = np.random.default_rng(0).standard_normal(shape).astype(DTYPES[dtype])
            positions = first + np.arange(LENGTH)
            number = caller.make(Setup(convention=convention, rope=rope, context=CONTEXT))
            try:
                got = caller.call(number, Call.of(x, positions)).q
            except (ImplementationError, Unsupported):
                continue  # it takes no such dtype, or counts from 0
            every.append(arithmetic.names(x, positions, got))
            full += [] if "16" in dtype else every[-1:]
    for calls in (every, full):
        if alike := [name for name in calls[0] if all(name in names for names in calls)]:
            return alike
    return [f"in turn: {every}"]


def summary(verdict: Any) -> dict[str, Any]:
    """Return a verdict as plain values."""
    known = verdict.identified is not None and verdict.identified.recognised
    rotary = verdict.identified.rotary if known else None
    return {
        "passed": verdict.passed,
        "diagnosis": verdict.diagnosis,
        "seconds": verdict.seconds,
        "read": None if rotary is None else rotary.input_pairs,
        "written": None if rotary is None else rotary.output_pairs,
        "frequencies": None if rotary is None else rotary.inv_freq.tolist(),
        "direction": None if rotary is None else rotary.direction,
        "factor": None if rotary is None else rotary.attention_factor,
    }


def main(package: str, *options: str) -> None:
    """Print the findings by the keys of implementations."""
    warnings.simplefilter("ignore")
    # Transformers checks versions of the packages that it finds, and needs no stand-ins.
    if package != "transformers":
        stand_ins.install()
    ignore = () if "--all-laws" in options else MANY_CALLS
    mine = [each for each in RELEASED if each.package == package]
    print(json.dumps({each.key: findings(each, ignore=ignore) for each in mine}))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
