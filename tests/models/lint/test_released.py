"""Sound configurations of released models: no error, no warning that is not deserved, few notes."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import ROOT
from models.configs import published
from models.lint.released import RELEASED

from ropecli.models.lint.run import lint

PUBLISHED = list(published().values())
#: What the data file's entries may fire beside notes, and why it is right.
WARNED = {
    "llama-yarn-lone-mscale": {"R030"},  # what it is there for
    "glm4v_moe_text.Glm4vMoeTextRotaryEmbedding": {"R083", "R092"},  # class defaults: 4096 / 96
    "molmo2_text.Molmo2RotaryEmbedding": {"R092"},  # class default of the base; the model has 1e6
    "phi4_multimodal.Phi4MultimodalRotaryEmbedding": {"R092"},  # class default without LongRoPE
}


@pytest.mark.parametrize("entry", PUBLISHED, ids=lambda entry: entry["name"])
def test_no_error_on_a_published_configuration(entry: dict[str, Any]) -> None:
    found = lint(entry["config"])
    assert [finding for finding in found if finding.level == "error"] == []
    warned = {finding.rule for finding in found if finding.level == "warning"}
    assert warned == WARNED.get(entry["name"], set())


def test_notes_are_as_few_as_the_page_says() -> None:
    found = [finding for entry in PUBLISHED for finding in lint(entry["config"])]
    notes = sum(finding.level == "note" for finding in found)
    said = f"the {len(PUBLISHED)} published configurations\nthat ropecli is tested with, and among "
    assert said + f"them there are {notes} notes." in (ROOT / "docs" / "lint.md").read_text()


@pytest.mark.parametrize("name", RELEASED)
def test_released_model(name: str) -> None:
    config, noted = RELEASED[name]
    found = lint(config)
    assert {finding.rule for finding in found} == noted
    assert {finding.level for finding in found} <= {"note"}
