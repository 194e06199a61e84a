"""What a person sees: screens of several widths, in a pipe, and without colours, as golden files.

`python tests/cli/test_screens.py` writes the files again, for a look at the difference.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers import ROOT, read_stdout, run_in_terminal

GOLDEN = ROOT / "tests" / "data" / "screens"
COMMANDS = {
    "decay": "decay --dim 64 --base 10000 --base 500000 --max-dist 256",
    "inspect": "inspect example:llama-3.1-8b",
    "frequencies": "frequencies --dim 16",
}
WIDTHS = (40, 80, 120, 200)


def screens(command: str) -> str:
    """The screens of a command, each below its heading."""
    words = COMMANDS[command].split()
    parts = []
    for width in WIDTHS:
        shown = run_in_terminal(*words, columns=width)
        parts.append((f"{width} columns, {'colours' if shown.colours else 'plain'}", shown.text))
    plain = {
        "NO_COLOR=1": run_in_terminal(*words, NO_COLOR="1"),
        "TERM=dumb": run_in_terminal(*words, TERM="dumb"),
    }
    for name, shown in plain.items():
        colours = "colours" if shown.colours else "plain"
        parts.append((f"80 columns, {name}, {colours}", shown.text))
    parts.append(("piped", read_stdout(*words)))
    bar = "=" * 20
    blocks = (f"{bar} {heading}\n{text.rstrip()}\n" for heading, text in parts)
    return "".join("\n".join(line.rstrip() for line in block.split("\n")) for block in blocks)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_screens_are_as_they_were_looked_at(command: str) -> None:
    assert screens(command) == (GOLDEN / f"{command}.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    for each in COMMANDS:
        (GOLDEN / f"{each}.txt").write_text(screens(each), encoding="utf-8")
