"""Every rule fires on a defect, and stays silent on nearly the same file without it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from models.gguf.writer import Tensor, gguf, saved
from models.lint.cases import CASES, GGUF_CASES, TEXT_CASES

from ropecli.models.lint.rule import Finding, Hit, rule, rules
from ropecli.models.lint.run import lint
from ropecli.models.lint.subjects import File

FEWEST = 25


def assert_fires(rule_id: str, key: str, found: tuple[Finding, ...]) -> None:
    """Assert that exactly one finding is of this rule, and names that key."""
    __tracebackhide__ = True
    mine = [finding for finding in found if finding.rule == rule_id]
    assert [finding.key for finding in mine] == [key], f"{rule_id}: {found}"
    assert mine[0].level == rules()[rule_id].level
    for sentence in (mine[0].message, mine[0].hint):
        assert re.fullmatch(r"[^\n]+\.", sentence), sentence


def assert_silent(rule_id: str, found: tuple[Finding, ...]) -> None:
    """Assert that no finding is of this rule."""
    __tracebackhide__ = True
    assert rule_id not in {finding.rule for finding in found}, found


@pytest.mark.parametrize("rule_id", CASES)
def test_rule_of_config_json(rule_id: str) -> None:
    case = CASES[rule_id]
    assert_fires(rule_id, case.key, lint(case.fires))
    assert_silent(rule_id, lint(case.quiet))


def of_gguf(folder: Path, metadata: object, tensors: dict[str, Tensor]) -> tuple[Finding, ...]:
    assert isinstance(metadata, dict)
    return lint(saved(folder, gguf(metadata, tensors)))


@pytest.mark.parametrize("rule_id", GGUF_CASES)
def test_rule_of_gguf(rule_id: str, tmp_path: Path) -> None:
    case = GGUF_CASES[rule_id]
    assert_fires(rule_id, case.key, of_gguf(tmp_path, case.fires, case.tensors[0]))
    assert_silent(rule_id, of_gguf(tmp_path, case.quiet, case.tensors[1]))


@pytest.mark.parametrize("rule_id", TEXT_CASES)
def test_rule_of_text(rule_id: str, tmp_path: Path) -> None:
    key, fires, quiet = TEXT_CASES[rule_id]
    path = tmp_path / "config.json"
    path.write_text(fires)
    assert_fires(rule_id, key, lint(path))
    path.write_text(quiet)
    assert_silent(rule_id, lint(path))


def test_every_rule_is_tried() -> None:
    assert {*CASES, *GGUF_CASES, *TEXT_CASES} == set(rules())
    assert len(rules()) >= FEWEST


def test_ids_are_in_order_and_what_is_said_of_them_is_whole() -> None:
    assert list(rules()) == sorted(rules())
    titles = [each.title for each in rules().values()]
    assert len(set(titles)) == len(titles)
    for each in rules().values():
        assert re.fullmatch(r"R\d{3}", each.id)
        for text in (each.why, each.cure, each.fires):
            assert text.endswith("."), f"{each.id}: {text}"
        for thread in each.threads:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", thread), f"{each.id}: {thread}"


@pytest.mark.parametrize(("id", "level"), [("R001", "note"), ("R999", "fatal")])
def test_an_id_is_given_once_and_a_level_is_one_of_three(id: str, level: str) -> None:
    with pytest.raises(ValueError, match=f"rule {id} must have an id of its own"):
        rule(id, level, "", of=File, why="", cure="")
    assert Hit("key", "message").hint == ""
