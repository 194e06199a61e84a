"""What a person sees: screens of several widths, in a pipe, and without colours, as golden files.

`python tests/cli/test_screens.py` writes the files again, for a look at the difference.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from cli.samples import write_files
from helpers import ROOT, read_stdout, run_here, run_in_terminal

from ropecli.render.console import UNCUT, Screen

GOLDEN = ROOT / "tests" / "data" / "screens"
COMMANDS = {
    "decay": "decay --dim 64 --base 10000 --base 500000 --max-dist 256",
    "inspect": "inspect example:llama-3.1-8b",
    "table": "table --dim 16",
}
WIDTHS = (40, 80, 120, 200)
#: Command lines of which two pages are looked at: of a terminal of 80 columns, and of a pipe.
PAGES = {
    "base-bound": [
        "--dim 16 --base 100 --context 60 --positions 500",
        "--dim 16 --positions 30",
        "--dim 16 --rope-type p-rope --set p=0.5 --context 20 --positions 30",
        "--dim 16 --base 100 --base 5000 --context 60 --positions 500",
        "--dim 16 --dim 8 --rope-type p-rope --set p=0.5 --positions 30",
        "--dim 16 --base 100 --base 1e6 --positions 100 -q",
        "--scan --dim 16 --context 60 --grid 30",
        "--scan --context 1000 --low 100 --high 200 --grid 3",
    ],
    "check": [
        "rotation.py:rotate --dim 4 --context 16 --select norm --select rotation",
        "rotation.py:rotate --dim 4 --context 16 --base 50",
        "rotation.py:rotate --dim 4 --context 16 --base 50 -q",
    ],
    "construct": [
        "--dim 16 --context 64",
        "--dim 16 --context 200 --base 100 --base 5000 --distance 3",
        "--dim 4 --context 1 --distance 0",
        "--rope-type p-rope --set p=0 --dim 4 --context 4",
        "--dim 16 --context 64 -q",
    ],
    "decay": [
        "--encoding t5 --dim 4 --max-dist 20",
        "--encoding all --dim 4 --max-dist 20",
    ],
    "linear": ["--length 8 --dim 4", "--length 300 --dim 4 --rows 2 --feature-map exp -q"],
    "precision": [
        "--dim 8 --context 70000",
        "--dim 8 --base 10000 --base 500000 --context 500 --policy float32 --policy bf16-inv-freq",
        "--dim 4 --context 2 --policy float16",
        "--dim 4 --context 50 --policy fp8-data -q",
    ],
    "report": ["tiny.json", "model.json tiny.json", "tiny.json -q"],
    "rotate": ["1,0,1,0", "1,2,3,4,5,6,7,8 --position 2", "0,0 -q", "1,2,3,4 --pair 1"],
    "scale": [
        "--dim 16 --base 100 --original 64 --factor 4",
        "--dim 16 --base 100 --base 5000 --original 64 --factor 4 --method yarn -q",
        "--dim 64 --original 32 --factor 2 --pairs",
        "--dim 8 --original 32 --factor 1 --method linear",
    ],
    "scores": [
        "--encodings all --model-dim 8 --heads 2 --length 4 --causal",
        "--encodings nope,rope --model-dim 8 --heads 2 --length 4 -q",
    ],
    "verify": [
        "--encoding rope,t5",
        "--encoding t5 --explain",
        "--encoding rope,t5 -q",
    ],
}


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
    return below_headings(parts)


def pages(command: str) -> str:
    """The pages of a command, in a folder with the files of all examples."""
    parts = []
    for words in PAGES[command]:
        terminal, pipe = (page(command, words, width) for width in (80, UNCUT))
        parts.append((f"{words}: 80 columns{' and piped' * (terminal == pipe)}", terminal))
        parts += [(f"{words}: piped", pipe)] * (terminal != pipe)
    return below_headings(parts)


def page(command: str, words: str, width: int) -> str:
    """A page without what another run or machine may change: seconds, and rounding."""
    screen = Screen(width=width, braille=width == 80, brief=words.endswith(" -q"))
    with patch.object(Screen, "of_stdout", lambda **_: screen):
        done = run_here(command, *words.split(), NO_COLOR="1")
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    text = re.sub(r"\d+\.\d s\b", "# s", text)
    return re.sub(r"\b\d(\.\d)?e(-1\d|-0[6-9]|\+00)\b", "#e-##", text)


def below_headings(parts: list[tuple[str, str]]) -> str:
    bar = "=" * 20
    blocks = (f"{bar} {heading}\n{text.rstrip()}\n" for heading, text in parts)
    return "".join("\n".join(line.rstrip() for line in block.split("\n")) for block in blocks)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_screens_are_as_they_were_looked_at(command: str) -> None:
    assert screens(command) == (GOLDEN / f"{command}.txt").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("command", PAGES)
def test_pages_are_as_they_were_looked_at(command: str, here: Path) -> None:
    write_files(here)
    assert pages(command) == (GOLDEN / "pages" / f"{command}.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    chosen = sys.argv[1:] or [*COMMANDS, *PAGES]
    for each in COMMANDS:
        if each in chosen:
            (GOLDEN / f"{each}.txt").write_text(screens(each), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder))
        os.chdir(folder)
        for each in PAGES:
            if each in chosen:
                (GOLDEN / "pages" / f"{each}.txt").write_text(pages(each), encoding="utf-8")
