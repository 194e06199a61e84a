"""Views: fields of documents as data, and the view that a class of results names."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ropecli import Rotary, frequency_table
from ropecli.models.lint.rule import rules
from ropecli.render import Field, View, columns, fields, view_of
from ropecli.render.console import Screen
from ropecli.results import Result, ResultGroup


@dataclass(frozen=True, kw_only=True)
class Part:
    size: int
    inner: Part | None = None
    parts: tuple[Part, ...] = ()


WHOLE = Part(size=1, inner=Part(size=2), parts=(Part(size=3), Part(size=4)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("size", {"size": 1}),
        ("size as length", {"length": 1}),
        ("inner.size", {"size": 2}),
        ("inner.size as inner_size", {"inner_size": 2}),
        ("inner.inner.size", {"size": None}),
        (("double", lambda part: 2 * part.size), {"double": 2}),
        (("inner", ("size", "parts")), {"inner": {"size": 2, "parts": ()}}),
        (("inner.inner as none", ("size",)), {"none": None}),
        (("parts as list", ("size as n",)), {"list": [{"n": 3}, {"n": 4}]}),
        (("inner.parts", ("size",)), {"parts": []}),
    ],
)
def test_a_field_is_an_attribute_a_function_or_the_fields_of_parts(
    name: Field, expected: dict[str, object]
) -> None:
    assert fields(WHOLE, name) == expected


def test_fields_keep_their_order() -> None:
    assert [*fields(WHOLE, "parts", "inner.size as a", "size")] == ["parts", "a", "size"]


def test_a_field_that_is_missing_is_an_error() -> None:
    with pytest.raises(AttributeError, match="length"):
        fields(WHOLE, "inner.length")


def test_a_class_names_one_of_several_views() -> None:
    rule = next(iter(rules().values()))
    assert view_of(rule).page(rule, Screen())[0].startswith(rule.id)
    group = ResultGroup(results=(rule, rule))
    assert len(view_of(group).page(group, Screen())) == 2


def test_a_group_of_one_is_shown_like_its_result() -> None:
    table = frequency_table(Rotary(head_dim=8), context_length=100)
    assert str(ResultGroup(results=(table,))) == str(table)
    assert [*columns(ResultGroup(results=(table,)))] == [*columns(table)]


def test_without_a_document_the_result_is_its_own() -> None:
    result = Result()
    assert View(page=lambda *_: []).as_json(result) is result
