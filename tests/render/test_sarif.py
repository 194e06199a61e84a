"""SARIF: files valid under the schema, and where findings are placed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from helpers import ROOT

from ropecli import Finding, __version__
from ropecli.models.lint.report import LintedFile, LintReport
from ropecli.models.lint.rule import LEVELS, rules
from ropecli.render.lint import report as report_of

SCHEMA = jsonschema.Draft4Validator(
    json.loads((ROOT / "tests" / "data" / "sarif-schema-2.1.0.json").read_text())
)


def finding(rule: str, key: str = "rope_scaling.factor") -> Finding:
    level = rules()[rule].level
    return Finding(rule=rule, level=level, key=key, message="It is 4.", hint="Write 8.")


def report(source: str, findings: list[Finding], line: int | None = None) -> LintReport:
    """A report on one file, with rope_scaling in a line of it."""
    places = {} if line is None else {"rope_scaling": (line, 3)}
    path = None if source == "-" else Path(source)
    file = LintedFile(source=source, path=path, findings=tuple(findings), places=places)
    return LintReport(files=(file,))


def run_of(found: LintReport) -> dict[str, Any]:
    """The one run of a document that the schema allows."""
    text = report_of(found, "error").sarif()
    assert text.endswith(b"}\n")
    document = json.loads(text)
    SCHEMA.validate(document)
    (run,) = document["runs"]
    assert isinstance(run, dict)
    return run


def test_every_rule_has_its_entry_and_anchor() -> None:
    driver = run_of(LintReport(files=()))["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("ropecli", __version__)
    page = (ROOT / "docs" / "lint.md").read_text()
    assert [each["id"] for each in driver["rules"]] == list(rules())
    for entry in driver["rules"]:
        level = entry["defaultConfiguration"]["level"]
        assert level in LEVELS
        assert entry["shortDescription"]["text"] == rules()[entry["id"]].title
        anchor = entry["help"]["text"].rpartition("#")[2].rstrip(".")
        assert f"({anchor})=\n\n### {entry['id']}: " in page


def test_a_result_of_every_rule() -> None:
    found = [finding(rule) for rule in rules()]
    run = run_of(report("config.json", found, 7))
    for rule, result in zip(rules(), run["results"], strict=True):
        assert result["ruleId"] == rule
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == rule
        assert result["level"] == rules()[rule].level
        assert result["message"] == {"text": "It is 4. Write 8."}
        (location,) = result["locations"]
        assert location["physicalLocation"] == {
            "artifactLocation": {"uri": "config.json"},
            "region": {"startLine": 7, "startColumn": 3},
        }
        assert location["logicalLocations"] == [{"fullyQualifiedName": "rope_scaling.factor"}]


@pytest.mark.parametrize(
    ("key", "line"),
    [("rope_scaling.beta_fast", 3), ("rope_scaling", 3), ("rope_theta", None), ("", None)],
)
def test_a_missing_key_is_placed_at_what_lacks_it(key: str, line: int | None) -> None:
    run = run_of(report("config.json", [finding("R018", key)], 3))
    physical = run["results"][0]["locations"][0]["physicalLocation"]
    assert physical.get("region", {}).get("startLine") == line


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("a b/config.json", "a%20b/config.json"),
        ("/models/config.json", "file:///models/config.json"),
        ("a:b#c.json", "a%3Ab%23c.json"),
        ("../\udcff.json", "../%FF.json"),
    ],
)
def test_a_file_is_named_by_a_uri(file: str, uri: str) -> None:
    run = run_of(report(file, [finding("R012")]))
    location = run["results"][0]["locations"][0]["physicalLocation"]
    assert location == {"artifactLocation": {"uri": uri}}


def test_standard_input_has_no_file() -> None:
    run = run_of(report("-", [finding("R012"), finding("R001", "")]))
    with_key, without = run["results"]
    assert set(with_key["locations"][0]) == {"logicalLocations"}
    assert "locations" not in without
