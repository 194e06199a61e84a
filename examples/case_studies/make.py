"""Regenerate outputs on docs/case-studies.md and check.md; with --check, name those that are stale.

    pip install '.[oracles,safetensors]'
    pip install --no-deps torchtune litgpt lightning lightning-utilities torchmetrics psutil

The page names the versions of the libraries; the defects are in these versions.

The part between `<!-- output: COMMAND -->` and `<!-- end -->` is the output of the command here, or
in examples/kernels for check.md.
Numbers may differ slightly from one processor to another, so --check ignores numbers.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import io
import os
import re
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent
DOCS = EXAMPLES.parent / "docs"
#: Each page, and the folder that its commands run in.
PAGES = {
    DOCS / "case-studies.md": EXAMPLES / "case_studies",
    DOCS / "commands" / "check.md": EXAMPLES / "kernels",
}
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
    """Write the pages and return 0, or with --check return 1 if any is stale, numbers aside."""
    stale = []
    for page, folder in PAGES.items():
        text = page.read_text()
        fresh = PART.sub(functools.partial(regenerate, folder), text)
        if arguments == ["--check"]:
            pairs = zip(PART.finditer(text), PART.finditer(fresh), strict=True)
            stale += [now[2] for old, now in pairs if words(old[0]) != words(now[0])]
        else:
            page.write_text(fresh)
    sys.stdout.writelines(f"{command}\n" for command in stale)
    return 1 if stale else 0


def regenerate(folder: Path, part: re.Match[str]) -> str:
    """Return a part with fresh output of a command in a folder."""
    begin, command, end = part.groups()
    fresh = versions() if command == "versions" else output(command, folder)
    return f"{begin}\n{fresh}\n\n{end}"


def output(command: str, folder: Path) -> str:
    """Return a block with a command and its output, without the time that it takes."""
    from ropecli.cli.app import run

    here = Path.cwd()
    os.chdir(folder)
    os.environ["NO_COLOR"] = "1"
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()) as stdout,
            contextlib.redirect_stderr(io.StringIO()) as stderr,
        ):
            code = run(command.split())
    finally:
        os.chdir(here)
    if code not in {0, 1} or not stdout.getvalue():
        raise RuntimeError(f"ropecli {command} ended with {code}: {stderr.getvalue()}")
    page = re.sub(r"[\d.]+ s\)", "... s)", stdout.getvalue()).rstrip()
    status = f"\n$ echo $?\n{code}" if code else ""
    return f"```text\n$ ropecli {command}\n{page}{status}\n```"


def versions() -> str:
    """Return a table of the installed versions."""
    rows = [f"| {name} | {importlib.metadata.version(name)} |" for name in PACKAGES]
    return "\n".join(["| package | version |", "| ------- | ------- |", *rows])


def words(part: str) -> list[str]:
    """Split a part at white space, with numbers masked."""
    return NUMBER.sub("#", part).split()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
