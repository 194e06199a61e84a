"""The text of a file: places of its keys, and changes that leave the rest as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from ropecli.models.lint.text import edit, key_places

LINED = """{
  "model_type": "llama", "note": "{ \\"rope_theta\\": 1,\\n }",
  "rope_scaling": {
    "type":
      "yarn",
    "rope_theta": 1e4
  },
  "layers": [{"rope_theta": 2}, {"a": [1, 2]}],
  "text_config": {"rope_parameters": {"full_attention": {
    "truncate": false}}},
  "rope_theta": 1e4,
  "rope_theta": 5e5
}
"""
PLACE_OF = {
    "model_type": (2, 3),
    "note": (2, 26),
    "rope_scaling": (3, 3),
    "rope_scaling.type": (4, 5),
    "rope_scaling.rope_theta": (6, 5),
    "layers": (8, 3),
    "text_config": (9, 3),
    "text_config.rope_parameters": (9, 19),
    "text_config.rope_parameters.full_attention": (9, 39),
    "text_config.rope_parameters.full_attention.truncate": (10, 5),
    "rope_theta": (12, 3),
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_every_key_has_its_line_and_column(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(LINED, encoding=encoding)
    assert key_places(path) == PLACE_OF


@pytest.mark.parametrize(
    "text", ["", "{", "}]", '{"a', '{"a": {"b": 1', "[1, 2]", '{"\\ud800": 1}']
)
def test_text_that_is_no_object_has_few(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    assert {line for line, _ in key_places(path).values()} <= {1}


@pytest.mark.parametrize(
    ("text", "changes", "expected"),
    [
        ('{"a": 1, "b": 2}', {"a": ..., "b": ..., "c": 2}, '{"c": 2}'),
        ('{ "a" : 1 ,\n "b": [{"a": 2}] }', {"b": ...}, '{ "a" : 1 }'),
        ('{"a": {"b": "}"}, "c": 1}', {"a.b": ...}, '{"a": {}, "c": 1}'),
        ('{"a": 1, "a": 2, "b": 3}', {"b": 4.5, "a": ...}, '{"a": 1, "b": 4.5}'),
    ],
)
def test_a_change_leaves_the_rest(text: str, changes: dict[str, object], expected: str) -> None:
    assert edit(text, changes) == expected
