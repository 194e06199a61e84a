"""Progress of long work, where nobody watches a terminal: a line in the log."""

from __future__ import annotations

import time

import pytest

from ropecli.cli import progress


@pytest.mark.slow
def test_a_log_gets_one_line_after_a_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "LONG", 0.1)
    with progress.progress_line("mine.py:rope", wanted=True) as report:
        assert report is not None
        report("searching how to call it, 3 calls")
        said, end = "", time.monotonic() + 60
        while not said and time.monotonic() < end:
            time.sleep(0.05)
            said = capsys.readouterr().err
        time.sleep(0.3)  # a second line would be printed by now
    said += capsys.readouterr().err
    assert said == "note: mine.py:rope: searching how to call it, 3 calls, for 0.1 s so far\n"


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [True, False])
def test_a_log_gets_no_line_of_short_or_quiet_work(
    wanted: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "LONG", 0.2)
    with progress.progress_line("mine.py:rope", wanted=wanted) as report:
        assert (report is not None) == wanted
    time.sleep(0.4)  # a timer that is not cancelled would print by now
    assert capsys.readouterr().err == ""
