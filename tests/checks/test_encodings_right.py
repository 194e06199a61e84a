"""Right code of positional encodings passes, and line 1 says which release has it so."""

from __future__ import annotations

import pytest
from encodings_right import RIGHT

import ropecli

pytestmark = pytest.mark.slow


def test_there_are_enough() -> None:
    assert len(RIGHT) >= 24
    assert len({each.encoding for each in RIGHT.values()}) == 13


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_passes_and_is_read_as_it_is_written(name: str) -> None:
    right = RIGHT[name]
    verdict = ropecli.check(right.code, encoding=right.encoding, isolated=False)
    assert verdict.passed, verdict.diagnosis
    assert (verdict.form, verdict.reading) == (right.form, right.reading)
    assert right.released in (verdict.released or "")
    assert verdict.diagnosis is None
