"""What stacks computed, from tests/data/stacks; its README says how it was measured."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
from helpers import ROOT

from ropecli.rotary import Rotary

FOLDER = ROOT / "tests" / "data" / "stacks"


@cache
def lines(stack: str) -> list[dict[str, Any]]:
    """Return the measurements of a stack."""
    text = (FOLDER / f"{stack}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def apart(got: Any, expected: Any) -> float:
    """Return the largest relative difference of two tables; infinity if their lengths differ."""
    a, b = np.asarray(got, dtype=float), np.asarray(expected, dtype=float)
    if a.shape != b.shape:
        return float("inf")
    scale = np.where(b == 0, 1.0, np.abs(b))
    return float(np.max(np.abs(a - b) / scale, initial=0.0))


def one_axis(rotary: Rotary) -> Any:
    """Return the inverse frequencies of an axial rotation's first axis."""
    return rotary.inv_freq[np.array(rotary.axis) == 0]
