"""Lines of keys in the text of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ropecli.models.source import key_lines

TEXT = """{
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
LINES = {
    "model_type": 2,
    "note": 2,
    "rope_scaling": 3,
    "rope_scaling.type": 4,
    "rope_scaling.rope_theta": 6,
    "layers": 8,
    "text_config": 9,
    "text_config.rope_parameters": 9,
    "text_config.rope_parameters.full_attention": 9,
    "text_config.rope_parameters.full_attention.truncate": 10,
    "rope_theta": 12,
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_every_key_has_its_line(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(TEXT, encoding=encoding)
    assert key_lines(path) == LINES


@pytest.mark.parametrize(
    "text", ["", "{", "}]", '{"a', '{"a": {"b": 1', "[1, 2]", '{"\\ud800": 1}']
)
def test_text_that_is_no_object_has_few(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    assert set(key_lines(path).values()) <= {1}
