"""Words of `info`."""

from __future__ import annotations

import dataclasses

import pytest

from ropecli import Info
from ropecli.render import info as pages

FOUND = Info(
    versions={"ropecli": "1.2.3", "python": "3.99"},
    threads=2,
    threading_layer="omp",
    cache_dir="/home/[me]/cache",
    formats=(".npy", ".csv"),
)


def test_one_line_a_fact(capsys: pytest.CaptureFixture[str]) -> None:
    pages.show(FOUND)
    assert capsys.readouterr() == (
        "ropecli          1.2.3\n"
        "python           3.99\n"
        "threads          2\n"
        "threading layer  omp\n"
        "cache folder     /home/[me]/cache\n"
        "formats          .npy .csv\n",
        "",
    )


def test_no_cache_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    pages.show(dataclasses.replace(FOUND, cache_dir=None))
    assert "cache folder     none: no folder can be written\n" in capsys.readouterr().out


def test_document() -> None:
    assert pages.as_json(FOUND) == {
        "versions": {"ropecli": "1.2.3", "python": "3.99"},
        "threads": 2,
        "threading_layer": "omp",
        "cache_dir": "/home/[me]/cache",
        "formats": (".npy", ".csv"),
    }
