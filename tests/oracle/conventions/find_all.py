"""Print the conventions that are found for the implementations of one package, as JSON.

It runs in a process of its own: packages set up frameworks in ways that do not agree.
"""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import astuple
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from oracle.conventions import stand_ins
from oracle.conventions.released import HEAD_DIM, RELEASED, Released

import ropecli
from ropecli.checks.implementation.calling.discover import NotCallable, discover
from ropecli.checks.implementation.calling.source import Named


def found(each: Released) -> str:
    """Return the options found, or why there are none."""
    try:
        engine = Named(target=each.target, other=each.other).engine()
    except ropecli.RopecliError as error:
        return f"not loaded: {error}"
    rope = ropecli.Rotary(head_dim=HEAD_DIM, layout="half")
    given = {"call": each.call} if each.call else {}
    try:
        convention, _ = discover(engine, rope, 4096, given, {})
    except NotCallable as error:
        nearest = error.tried[0].error if error.tried else ""
        return f"not called: {error.missing or nearest}"
    return convention.options()


def main(package: str) -> None:
    """Print a list of (fields of the implementation, options)."""
    warnings.simplefilter("ignore")
    # Transformers asks for the versions of what it finds, and goes without what it does not.
    if package != "transformers":
        stand_ins.install()
    mine = [each for each in RELEASED if each.package == package]
    print(json.dumps([(astuple(each), found(each)) for each in mine]))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
