"""Policies on the page and in the help of the precision command."""

from __future__ import annotations

from helpers import ROOT

from ropecli.analyses.policy import PRESETS, STAGE_DTYPES, STAGES
from ropecli.cli.app import build


def test_presets_stages_and_dtypes_are_on_the_page_and_presets_in_the_help() -> None:
    page = (ROOT / "docs" / "commands" / "precision.md").read_text()
    help_text = build().commands["precision"].help or ""
    for name in (*PRESETS, *STAGES, *STAGE_DTYPES):
        assert f"`{name}`" in page, name
    for name in PRESETS:
        assert name in help_text, name
