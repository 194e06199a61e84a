"""The changelog is that of this version, and its new names exist."""

from __future__ import annotations

import re
import tomllib

import yaml
from helpers import ROOT

import ropecli
from ropecli.cli.app import COMMANDS, RENAMED

PAGE = (ROOT / "docs" / "changelog.md").read_text()
ROWS = re.compile(r"^\| (.*?) \| (.*?) \|$", re.MULTILINE)
HEADINGS = ["Added", "Changed", "Removed", "Fixed", "Numerics"]


def test_the_newest_section_is_this_version() -> None:
    version, date = re.findall(r"^## (\S+) - (\d{4}-\d\d-\d\d)$", PAGE, re.MULTILINE)[0]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (version, date) == (ropecli.__version__, str(cited["date-released"]))
    assert cited["version"] == version
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]  # which _version.py gives


def test_every_section_has_the_same_parts() -> None:
    for section in re.split(r"^## .*$", PAGE, flags=re.MULTILINE)[1:]:
        assert re.findall(r"^### (.*)$", section, re.MULTILINE) == HEADINGS


def test_every_renamed_command_is_in_the_table() -> None:
    removed = PAGE.partition("### Removed")[2].partition("### Fixed")[0]
    old, new = (" ".join(cells) for cells in zip(*ROWS.findall(removed), strict=True))
    for name, now in RENAMED.items():
        assert re.search(rf"\b{name}`", old), name
        assert f"`{now}`" in new


def test_every_command_is_named() -> None:
    assert set(COMMANDS) <= set(re.findall(r"`([a-z-]+)`", PAGE))
