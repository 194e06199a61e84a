"""The pytest plugin: the fixture `rope_check`, and annotations in jobs of GitHub Actions."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from ropecli.testing import NotThisRope, assert_rope

if TYPE_CHECKING:
    from ropecli.checks.implementation.check import Verdict

ANNOTATION = "ropecli annotation"


@pytest.fixture
def rope_check() -> Callable[..., Verdict]:
    """Give a test `ropecli.testing.assert_rope` without an import."""
    return assert_rope


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Keep the annotations of a failure in the test's report, which other processes send on."""
    error = None if call.excinfo is None else call.excinfo.value
    if isinstance(error, NotThisRope) and os.environ.get("GITHUB_ACTIONS") == "true":
        item.user_properties += [(ANNOTATION, line) for line in error.annotations]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the annotations, one per line."""
    for report in terminalreporter.getreports("failed"):
        for name, line in report.user_properties:
            if name == ANNOTATION:
                terminalreporter.ensure_newline()
                terminalreporter.write_line(str(line))
