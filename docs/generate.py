"""Write the parts of these pages that come from the code; with --check, say which are stale.

A part stands between `<!-- generated: NAME WORD -->` and `<!-- end -->` and is made by the function
of that name in MAKERS, called with the word. It holds names, defaults and help texts, not the
help screen, whose form changes with Typer's version.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from typer.main import get_command

from ropecli.checks.verify import LAWS
from ropecli.cli.app import EXIT_BUG, EXIT_INTERRUPTED, app
from ropecli.errors import RopecliError
from ropecli.reference.rotation import DIGITS

DOCS = Path(__file__).parent
PART = re.compile(r"(<!-- generated: (\w+) ?(\w*) -->\n).*?(<!-- end -->)", re.DOTALL)
GROUP: Any = get_command(app)
CHECKS = {"verify": "a law failed"}  #: Commands that give a verdict, and what 1 means there.


def main(arguments: list[str]) -> int:
    """Write what is stale and return 0, or with --check only name it and return 1."""
    stale = []
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text()
        fresh = PART.sub(_made, text)
        if fresh != text:
            stale.append(page)
            if arguments != ["--check"]:
                page.write_text(fresh)
    for page in stale:
        sys.stdout.write(f"{page.relative_to(DOCS.parent)}\n")
    return 1 if stale and arguments == ["--check"] else 0


def _made(match: re.Match[str]) -> str:
    begin, name, word, end = match.groups()
    return f"{begin}\n{MAKERS[name](word)}\n\n{end}"


def usage(command: str) -> str:
    """What a command does and its examples, from its docstring."""
    examples, text = GROUP.commands[command].help.removeprefix("\b\n").split("\n\n", 1)
    lines = [line.strip() for line in examples.splitlines()[1:]]
    return "\n".join([*_wrapped(text), "", "```text", *lines, "```"])


def options(command: str) -> str:
    """A table of a command's arguments and options."""
    rows = [_row(parameter) for parameter in GROUP.commands[command].params]
    return _table(("option", "meaning", "default"), rows)


def commands(_word: str) -> str:
    """A table of the commands, with links to their pages."""
    rows = [
        (f"[`{name}`]({name}.md)", command.short_help.strip().rstrip("."))
        for name, command in GROUP.commands.items()
    ]
    return _table(("command", "what it does"), rows)


def exits(command: str) -> str:
    """A table of a command's exit codes."""
    rows = [("0", "fine")]
    if command in CHECKS:
        rows.append(("1", CHECKS[command]))
    rows += [
        (
            str(RopecliError.exit_code),
            "wrong usage, or a file that can't be read or written",
        ),
        (str(EXIT_BUG), "a bug in ropecli; `ROPECLI_DEBUG=1` shows the traceback"),
        (str(EXIT_INTERRUPTED), "interrupted"),
    ]
    return _table(("exit code", "meaning"), rows)


def laws(_word: str) -> str:
    """A table of the laws that `verify` judges by."""
    rows = []
    for law in LAWS:
        says = (law.judge.__doc__ or "").strip().split("\n")[0].replace("DIGITS", str(DIGITS))
        where = "" if law.dtypes is None else f" ({', '.join(law.dtypes)} only)"
        rows.append((law.name, law.equation, says + where, law.because))
    return _table(("law", "Eq.", "what must hold", "where the tolerance comes from"), rows)


MAKERS: dict[str, Callable[[str], str]] = {
    "usage": usage,
    "options": options,
    "commands": commands,
    "exits": exits,
    "laws": laws,
}


def _row(parameter: Any) -> tuple[str, str, str]:
    flag = getattr(parameter, "is_flag", False)
    names = ", ".join(parameter.opts) if parameter.opts[0].startswith("-") else ""
    value = "" if flag else parameter.metavar or ""
    default = "" if flag or parameter.default is None else f"`{parameter.default}`"
    return f"`{f'{names} {value}'.strip()}`", parameter.help or "", default


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    cells = [headings, tuple("-" * len(heading) for heading in headings), *rows]
    return "\n".join(f"| {' | '.join(map(_escaped, row))} |" for row in cells)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _wrapped(text: str) -> list[str]:
    """Lines as they stand in the docstring, without its indentation."""
    return [line.strip() for line in text.strip().splitlines()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
