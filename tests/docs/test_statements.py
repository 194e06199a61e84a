"""Statements of papers and articles: each has a verdict, and something that shows it."""

from __future__ import annotations

import tomllib

from helpers import ROOT

TABLE = tomllib.loads((ROOT / "docs" / "statements.toml").read_text())
STATEMENTS = [each for document in TABLE["document"] for each in document["statement"]]
VERDICTS = {"true", "condition", "false", "training", "record"}
KEYS = {"id", "where", "says", "verdict", "as", "run", "python", "console", "remark"}


def test_all_but_claims_about_training_are_shown() -> None:
    for each in STATEMENTS:
        assert set(each) <= KEYS, each["says"]
        assert ("as" in each) != ("verdict" in each), each["says"]
        verdict = each.get("verdict")
        if verdict in {"true", "condition", "false"}:
            assert {"run", "python", "console"} & set(each), each["says"]
        if verdict in {"condition", "false"}:
            assert each["remark"], each["says"]  # where it holds, or what is true instead


def test_a_name_is_of_one_statement_and_of_use() -> None:
    names = [each["id"] for each in STATEMENTS if "id" in each]
    assert len(names) == len(set(names))
    assert set(names) == {each["as"] for each in STATEMENTS if "as" in each}


def test_what_encodings_cannot_show_is_not_called_true_or_false() -> None:
    found = {
        each["says"].partition(":")[0]: each["verdict"] for each in STATEMENTS if "as" not in each
    }
    assert found["Rotation invariance"] == "training"  # what models do at other lengths
    assert found["The versions of the paper differ in their evaluation"] == "record"
    assert {each.get("verdict", "true") for each in STATEMENTS} == VERDICTS
