"""Write what the commands of docs/case-studies.md print; with --check, say whether it is stale.

    pip install 'ropecli[oracles,safetensors]'
    pip install --no-deps torchtune litgpt lightning lightning-utilities torchmetrics psutil

The page names the versions that it was made with; in these the defects are.

What stands between `<!-- output: COMMAND -->` and `<!-- end -->` is what the command prints here.
Numbers may differ a little from one processor to another, so that --check compares words alone.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from pathlib import Path

from typer.testing import CliRunner

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent.parent / "docs" / "case-studies.md"
PART = re.compile(r"(<!-- output: (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)
NUMBER = re.compile(r"[-+]?\d[\d.,]*(e[-+]?\d+)?")
PACKAGES = (
    "torch",
    "transformers",
    "onnxruntime",
    "litgpt",
    "torchtune",
    "equinox",
    "jax",
    "rotary-embedding-torch",
    "x-transformers",
)


def main(arguments: list[str]) -> int:
    """Write the page and return 0, or with --check return 1 if its words are not these."""
    text = PAGE.read_text()
    fresh = PART.sub(made, text)
    if arguments != ["--check"]:
        PAGE.write_text(fresh)
        return 0
    pairs = zip(PART.finditer(text), PART.finditer(fresh), strict=True)
    stale = [now[2] for old, now in pairs if words(old[0]) != words(now[0])]
    sys.stdout.writelines(f"{command}\n" for command in stale)
    return 1 if stale else 0


def made(part: re.Match[str]) -> str:
    """A part, made anew."""
    begin, command, end = part.groups()
    return f"{begin}\n{versions() if command == 'versions' else printed(command)}\n\n{end}"


def printed(command: str) -> str:
    """A command and what it prints, in a block; the time that it takes is nobody's business."""
    from ropecli.cli.app import build

    here = Path.cwd()
    os.chdir(FOLDER)
    try:
        result = CliRunner().invoke(build(), command.split(), env={"NO_COLOR": "1"})
    finally:
        os.chdir(here)
    if result.exit_code not in {0, 1} or not result.stdout:
        msg = f"ropecli {command} ended with {result.exit_code}: {result.exception}"
        raise RuntimeError(msg)
    page = re.sub(r"[\d.]+ s\)", "... s)", result.stdout).rstrip()
    code = f"\n$ echo $?\n{result.exit_code}" if result.exit_code else ""
    return f"```text\n$ ropecli {command}\n{page}{code}\n```"


def versions() -> str:
    """What is installed, as a table."""
    rows = [f"| {name} | {importlib.metadata.version(name)} |" for name in PACKAGES]
    return "\n".join(["| package | version |", "| ------- | ------- |", *rows])


def words(part: str) -> list[str]:
    """Without numbers, and however the lines are broken."""
    return NUMBER.sub("#", part).split()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
