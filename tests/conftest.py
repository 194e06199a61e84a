"""Hypothesis profiles: dev (fast), ci (derandomised), few, soak (many examples, by hand)."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# As the command line does: threads that spin while they wait starve the other test processes.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# In a job of GitHub Actions, check would annotate code that is wrong on purpose.
os.environ.pop("GITHUB_ACTIONS", None)
# Commands buffer output, as they do for a user: errors of writing come at the end.
os.environ.pop("PYTHONUNBUFFERED", None)
# Pages in a pipe are as wide as they say, and workers of pytest-xdist inherit a terminal's width.
os.environ.pop("COLUMNS", None)

# No deadline: the first call of a kernel compiles it.
settings.register_profile("dev", max_examples=25, deadline=None)
settings.register_profile("ci", max_examples=30, deadline=None, derandomize=True)
settings.register_profile("few", max_examples=4, deadline=None, derandomize=True, database=None)
settings.register_profile(
    "soak", max_examples=5_000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
)


@pytest.fixture(scope="session", autouse=True)
def without_waiting_for_the_disk() -> Iterator[None]:
    """Replace fsync, which is slow for many small files, and which no test can see."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # which also refuses closed files
        yield
