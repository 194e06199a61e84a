"""Mutants of the kernels' own source, each of which `verify` catches.

The source is run as plain Python, so that a mutant costs no compilation.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers import mark_slow, slow

from ropecli import Rotary, verify
from ropecli.kernels import rotation
from ropecli.rotary import apply

SOURCE = Path(str(rotation.__file__)).read_text()

#: Mutants (before, after, law that must fail) of the source that both layouts share.
MUTANTS = {
    "sign of sin": ("u * c[i] - v * s[i]", "u * c[i] + v * s[i]", "orthogonality"),
    "cos and sin swapped": ("u * s[i] + v * c[i]", "u * c[i] + v * s[i]", "orthogonality"),
    "turned the other way": (", turn if", ", -turn if", "kernel = reference"),
    "negative positions not turned back": ("else -turn", "else turn", "relative position"),
    "last pair left out": (
        "range(pairs):\n                        j",
        "range(pairs - 1):\n                        j",
        "kernel = reference",
    ),
    "start of a block forgotten": (
        "if start != kept_start:",
        "if kept_start < 0:",
        "relative position",
    ),
    "every other offset": (
        "table_cos[offset, i], table_sin[offset, i]",
        "table_cos[offset - offset % 2, i], table_sin[offset - offset % 2, i]",
        "relative position",
    ),
    "start one too far": (
        "math.cos(start * inv_freq[i]), math.sin(start * inv_freq[i])",
        "math.cos((start + 1) * inv_freq[i]), math.sin((start + 1) * inv_freq[i])",
        "identity at 0",
    ),
    "start rounded to float32": (
        "math.cos(start * inv_freq[i])",
        "math.cos(np.float32(start * inv_freq[i]))",
        "kernel = reference",
    ),
    "offsets turned back": ("= math.sin(offset", "= -math.sin(offset", "kernel = reference"),
    "fraction of a position dropped": (
        "else distance\n",
        "else math.floor(distance)\n",
        "kernel = reference",
    ),
    "first coordinate off by one": ("Index(first)", "Index(first + 1)", "kernel = reference"),
    "scale not applied to sin": ("s / scale if divide else s * scale", "s", "orthogonality"),
    "rows of the wrong position": (
        "cos[n - low], sin[n - low]",
        "cos[0], sin[0]",
        "kernel = reference",
    ),
}
#: The same for the kernels of one vector at each position.
MUTANTS_ONCE = {
    "sign of sin": ("u * c - v * s", "u * c + v * s", "orthogonality"),
    "cos and sin swapped": ("u * s + v * c", "u * c + v * s", "orthogonality"),
    "start of a block forgotten": (
        "if start != kept_start:",
        "if kept_start < 0:",
        "relative position",
    ),
    "sin of the offset alone": ("sign * (start_cos[i] * o", "sign * (o", "kernel = reference"),
    "offset of the block's first": ("table_cos[offset],", "table_cos[0],", "kernel = reference"),
    "turned one way only": ("s = sign * (", "s = (", "relative position"),
    "row before": ("x[b, 0, n, 0]", "x[b, 0, max(n, 1) - 1, 0]", "kernel = reference"),
}


def interpret(source: str) -> Any:
    """Return the kernels of a source as a module of plain functions."""
    source = source.replace("from ropecli.kernels.jit import parallel, prange, serial", PLAIN)
    module = ModuleType("mutant")
    exec(compile(source, "mutant", "exec"), module.__dict__)
    return module


PLAIN = """
import types
def serial(function): return function
def parallel(function, kind="", streaming=None, **names):
    plain = types.FunctionType(function.__code__, {**globals(), **names})
    return lambda *arguments, small=False, stream=False: plain(*arguments)
prange = range
"""
ROPES = [
    Rotary(head_dim=10, rotary_dim=8, rotary_offset=1, attention_factor=1.25, layout=layout)
    for layout in ("interleaved", "half")
]


def failures(source: str, monkeypatch: pytest.MonkeyPatch, rope: Rotary) -> set[str]:
    monkeypatch.setattr(apply, "rotation", interpret(source))
    monkeypatch.setattr(apply, "KEPT", 0)  # no table that other source has made

    def rotate(x: Any, positions: Any) -> Any:
        out = x.copy()
        # A row at a time would hide what rows of one block do to each other.
        return apply.rotate(x, rope, positions=positions, out=out)

    with np.errstate(all="ignore"):
        result = verify(rope, dtype="float64", rotate=rotate)
    return {check.name for check in result.checks if check.passed is False}


@pytest.mark.slow
@pytest.mark.parametrize("small", [apply.SMALL, 0])  # below it, no kernel of one vector is used
@pytest.mark.parametrize("rope", ROPES, ids=lambda rope: rope.layout)
def test_the_source_as_it_is_passes(
    rope: Rotary, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "SMALL", small)
    assert failures(SOURCE, monkeypatch, rope) == set()


@pytest.mark.slow
@pytest.mark.parametrize("rope", [ROPES[0], *slow(ROPES[1])], ids=lambda rope: rope.layout)
@pytest.mark.parametrize("name", mark_slow(MUTANTS, quick=[*MUTANTS][::5]))
def test_broken_source_is_caught(name: str, rope: Rotary, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_caught(*MUTANTS[name], rope, monkeypatch)


@pytest.mark.parametrize("rope", [ROPES[0], *slow(ROPES[1])], ids=lambda rope: rope.layout)
@pytest.mark.parametrize("name", mark_slow(MUTANTS_ONCE, quick=[*MUTANTS_ONCE][:1]))
def test_broken_source_for_one_vector_at_a_position_is_caught(
    name: str, rope: Rotary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "SMALL", 0)
    assert_caught(*MUTANTS_ONCE[name], rope, monkeypatch)


def assert_caught(
    before: str, after: str, law: str, rope: Rotary, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert re.search(re.escape(before), SOURCE), f"the kernels no longer hold {before!r}"
    assert law in failures(SOURCE.replace(before, after), monkeypatch, rope)
