"""Questions of a newcomer: which command for ...? The help and the README answer them alone."""

from __future__ import annotations

import re

import pytest
from helpers import ROOT, read_stdout

README = (ROOT / "README.md").read_text()
#: Question, command, and keywords that find it in the help and in the README's table.
QUESTIONS = [
    ("Is my implementation right?", "check", ["implementation", "right"]),
    ("Which RoPE do the layers of a running model apply?", "trace", ["layers", "apply"]),
    ("Which RoPE made one tensor from another?", "identify", ["recover", "before and after"]),
    ("What should my kernel's tests compare with?", "vectors", ["golden", "test vectors"]),
    ("Which RoPE does this model use?", "inspect", ["which rope", "model use"]),
    ("Is something wrong in my config.json?", "lint", ["mistakes", "configuration"]),
    ("Do two stacks read a model alike?", "diff", ["two", "stacks"]),
    ("How do I rotate the embeddings in a file?", "encode", ["rotate", "embeddings"]),
    ("How do Meta's weights fit Hugging Face's layout?", "permute", ["weights", "layouts"]),
    ("How do I extend the context?", "scale", ["methods", "extend"]),
    ("What does bfloat16 do to positions?", "precision", ["dtype", "angles"]),
    ("Where does Figure 2 come from?", "decay", ["bound", "distance"]),
]


def answers(lines: list[str], words: list[str]) -> set[str]:
    """Return the commands whose lines have all of the words."""
    by_command: dict[str, str] = {}
    for line in lines:
        command, _, text = line.partition(":")
        by_command[command] = by_command.get(command, "") + text.lower()
    return {each for each, text in by_command.items() if all(word in text for word in words)}


def help_lines() -> list[str]:
    """Each command's line and example in the help, as `command: line`."""
    text = read_stdout("--help", COLUMNS="100")
    own = re.findall(r"^  ([a-z-]+)  +(\S.*)$", text, re.MULTILINE)
    examples = re.findall(r"^ +ropecli ([a-z-]+) .*?  +(\S.*)$", text, re.MULTILINE)
    return [f"{command}: {line}" for command, line in [*own, *examples]]


def readme_lines() -> list[str]:
    """Each row of the README's table, as `command: row`."""
    table = README.partition("## Which command\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*?)\| (.*?) \| `ropecli ([a-z-]+)\b", table, re.MULTILINE)
    return [f"{command}: {have} {want}" for have, want, command in rows]


@pytest.mark.parametrize(("question", "command", "words"), QUESTIONS)
def test_help_answers(question: str, command: str, words: list[str]) -> None:
    assert answers(help_lines(), words) == {command}, question


@pytest.mark.parametrize(("question", "command", "words"), QUESTIONS)
def test_readme_answers(question: str, command: str, words: list[str]) -> None:
    assert answers(readme_lines(), words) == {command}, question


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) < 122


def test_the_front_page_begins_as_the_readme() -> None:
    promise = README.partition("\n## ")[0].replace("](docs/", "](")
    assert (ROOT / "docs" / "index.md").read_text().startswith(promise)
