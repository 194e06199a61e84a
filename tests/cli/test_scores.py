"""The exit code of the scores command."""

from __future__ import annotations

import dataclasses

import pytest
from helpers import read_json, read_stdout

from ropecli.encodings.types.rope import Rope

pytestmark = pytest.mark.usefixtures("here")

SMALL = ("--model-dim", "8", "--heads", "2", "--length", "4")


def test_measurement_against_theory_fails_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rope, "theory", dataclasses.replace(Rope.default_theory, symmetric=True))
    text = read_stdout("scores", "--encodings", "nope,rope", *SMALL, code=1)
    assert text.startswith(
        "FAIL: 1 disagreement with theory, seed 0\n\n  rope: symmetric was measured no"
    )
    got = read_json("scores", "--encodings", "rope", *SMALL, code=1)
    assert not got["result"]["agrees"]
    assert got["result"]["encodings"][0]["symmetry"]["agrees"] is False
