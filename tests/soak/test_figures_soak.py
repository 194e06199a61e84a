"""Every figure as a file of every kind: `pytest tests/soak/test_figures_soak.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli import test_output as output
from render import test_figure as figure


@pytest.mark.parametrize("suffix", figure.BEGIN)
@pytest.mark.parametrize("name", figure.FIGURES)
def test_same_bytes_twice_and_what_made_them(name: str, suffix: str) -> None:
    figure.test_same_bytes_twice_and_what_made_them(name, suffix)


@pytest.mark.parametrize("suffix", output.BEGIN)
@pytest.mark.parametrize("line", output.DRAWN)
def test_a_figure_is_written_beside_the_words_and_repeats(
    line: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    output.write_models()
    output.test_a_figure_is_written_beside_the_words_and_repeats(line, suffix)
