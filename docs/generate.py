"""Write what comes from the code: parts of pages, and pictures; with --check, say which are stale.

A part stands between `<!-- generated: NAME WORD -->` and `<!-- end -->` and is made by the function
of that name in MAKERS, called with the word. It holds names, defaults and help texts, not the
help screen, whose form changes with Typer's version.
"""

from __future__ import annotations

import inspect
import io
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache, partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from ropecli.analyses.invariance import invariance
from ropecli.checks.encoding.asked import ROLES as ENCODING_ROLES
from ropecli.checks.encoding.known import KNOWN
from ropecli.checks.encoding.laws import LAWS as ENCODING_LAWS
from ropecli.checks.implementation.convention import FREQS, ROLES
from ropecli.checks.rotation_laws import LAWS
from ropecli.cli.app import EXIT_BUG, build, run
from ropecli.encodings import ENCODINGS, encoding
from ropecli.errors import RopecliError
from ropecli.models.diff import diff
from ropecli.models.lint.rule import RETIRED, Rule
from ropecli.models.lint.rule import rules as lint_rules
from ropecli.models.load import load_model
from ropecli.models.model import Model
from ropecli.models.report import report
from ropecli.models.stacks import STACKS
from ropecli.rotary import rope
from ropecli.rotary.types import ROPE_TYPES, formula, own_parameters

DOCS = Path(__file__).parent
PART = re.compile(r"^(<!-- generated: (\w+) ?([\w-]*) -->\n).*?(<!-- end -->)", re.M | re.DOTALL)
GROUP = build()
#: Arguments of rope types that config.json has no such key for.
NO_KEYS = ("dim", "base", "axis", "direction", "pairs_in", "pairs_out", "layout", "rotary_offset")


def main(arguments: list[str]) -> int:
    """Write what is stale and return 0, or with --check only name it and return 1."""
    checking = arguments == ["--check"]
    stale: dict[Path, Callable[[], bytes]] = {
        path: partial(bytes, content) for path, content in (*_stale_pages(), *_stale_pictures())
    }
    stale |= dict(_stale_screenshots())
    for path, make in stale.items():
        sys.stdout.write(f"{path.relative_to(DOCS.parent)}\n")
        if not checking:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(make())
    return 1 if stale and checking else 0


def _stale_pages() -> Iterator[tuple[Path, bytes]]:
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text()
        fresh = PART.sub(_made, text)
        if fresh != text:
            yield page, fresh.encode()


def _stale_pictures() -> Iterator[tuple[Path, bytes]]:
    pages = "".join(page.read_text() for page in DOCS.rglob("*.md"))
    names = set(re.findall(r"!\[[^]]*\]\((?:\.\./)?images/(\S+)\.svg\)", pages))
    if not names:
        return
    from figures import looks_like, picture

    for name in sorted(names):
        path, content = DOCS / "images" / f"{name}.svg", picture(name)
        if not path.exists() or not looks_like(path.read_bytes(), content):
            yield path, content


def _stale_screenshots() -> Iterator[tuple[Path, Callable[[], bytes]]]:
    """Yield the picture of the report's page if its words have changed, which it has a hash of."""
    path, readme = DOCS / "images" / "report.png", DOCS.parent / "README.md"
    if not readme.exists() or path.name not in readme.read_text():
        return
    page = report("example:llama-3.1-8b").html()
    words = re.sub(r"<(style|script|svg).*?</\1>|<[^>]*>", "", page, flags=re.DOTALL)
    words_hash = sha256(" ".join(words.split()).encode()).hexdigest()
    if not path.exists() or Image.open(path).info.get("words") != words_hash:
        yield path, partial(_screenshot, page, words_hash)


def _screenshot(page: str, words_hash: str) -> bytes:
    """Return the top of a page as Chromium shows it."""
    with TemporaryDirectory() as folder:
        source, shot = Path(folder, "page.html"), Path(folder, "page.png")
        source.write_text(page)
        options = ["--headless=new", "--no-sandbox", "--hide-scrollbars", "--window-size=1000,1500"]
        subprocess.run(
            ["chromium", *options, f"--screenshot={shot}", source.as_uri()],
            check=True,
            capture_output=True,
        )
        info = PngInfo()
        info.add_text("words", words_hash)
        content = io.BytesIO()
        Image.open(shot).convert("P", palette=Image.Palette.ADAPTIVE, colors=64).save(
            content, "PNG", pnginfo=info, optimize=True
        )
    return content.getvalue()


def _made(match: re.Match[str]) -> str:
    begin, name, word, end = match.groups()
    return f"{begin}\n{MAKERS[name](word)}\n\n{end}"


def usage(command: str) -> str:
    """A command's description and examples, from its docstring."""
    examples, text = GROUP.commands[command].help.removeprefix("\b\n").split("\n\n", 1)
    lines = textwrap.dedent("\n".join(examples.splitlines()[1:])).splitlines()
    return "\n".join([*_wrap(text), "", "```text", *lines, "```"])


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
    verdict = re.search(r"Exit code 1,? (.*?)\.", " ".join(GROUP.commands[command].help.split()))
    if verdict is not None:
        rows.append(("1", verdict[1]))
    rows += [
        (
            str(RopecliError.exit_code),
            "wrong usage, or a file that can't be read or written",
        ),
        (str(EXIT_BUG), "a bug in ropecli; `ROPECLI_DEBUG=1` shows the traceback"),
        ("129, 130, 143", "ended by SIGHUP, Ctrl-C or SIGTERM"),
    ]
    return _table(("exit code", "meaning"), rows)


def roles(_word: str) -> str:
    """A table of what a call may name, for `check`."""
    return _table(("name", "what it is"), [(f"`{name}`", text) for name, text in ROLES.items()])


def freqs(_word: str) -> str:
    """A table of the forms of frequencies, for `check`."""
    return _table(("`--freqs`", "shape"), [(f"`{name}`", text) for name, text in FREQS.items()])


def laws(_word: str) -> str:
    """A table of the laws that `verify` judges by."""
    rows = []
    for law in LAWS:
        says = law.statement.split("\n")[0]
        where = "" if law.dtypes is None else f" ({', '.join(law.dtypes)} only)"
        rows.append((law.name, law.equation, says + where, law.because))
    return _table(("law", "Eq.", "what must hold", "where the tolerance comes from"), rows)


def encoding_checks(_word: str) -> str:
    """A table of the checks of `check --encoding`."""
    return _table(("check", "what must hold"), [(law.name, law.statement) for law in ENCODING_LAWS])


def encoding_roles(_word: str) -> str:
    """A table of the names in calls of `check --encoding`."""
    return _table(
        ("name", "value"), [(f"`{name}`", words) for name, words in ENCODING_ROLES.items()]
    )


def known_encodings(_word: str) -> str:
    """A table of the encodings that code is checked for."""
    rows = [
        (
            f"`{name}`",
            known.equation if not known.equation[0].isdigit() else f"Eq. {known.equation}",
            ", ".join(known.forms),
            ", ".join(f"`{key}` {value}" for key, value in known.settings.items()),
            ", ".join(f"`{weight}`" for weight in known.weights),
        )
        for name, known in KNOWN.items()
    ]
    return _table(("encoding", "published", "code returns", "settings", "parameters"), rows)


def types(_word: str) -> str:
    """A table of the rope types, with links to their pages."""
    rows = []
    for name in ROPE_TYPES:
        says = inspect.getdoc(inspect.getmodule(formula(name))) or ""
        keys = ", ".join(f"`{key}`" for key in own_parameters(name))
        rows.append((f"[`{name}`]({name}.md)", says.partition(": ")[2].rstrip("."), keys))
    return _table(("rope type", "what it does", "keys of its own"), rows)


def keys(rope_type: str) -> str:
    """A table of a rope type's own keys, or of those common to all types."""
    if rope_type:
        rows = _keys(formula(rope_type))
        return _table(("key", "default", "meaning"), rows) if rows else "None of its own."
    return _table(("key", "default", "meaning"), _keys(rope))


def rules(_word: str) -> str:
    """A table of contents of the rules of `lint`, by subject."""
    rows = [
        (f"[{subject}](#{_anchor(subject)})", " ".join(f"[{r.id}](#{r.anchor})" for r in group))
        for subject, group in _subjects().items()
    ]
    return _table(("subject", "rules"), rows)


def retired(_word: str) -> str:
    """A table of the ids of rules that are gone, with what finds their cases."""
    found: dict[str, list[str]] = {}
    for old, new in sorted(RETIRED.items()):
        found.setdefault(new, []).append(old)
    rows = [(", ".join(old), f"[{new}](#{new.lower()})") for new, old in sorted(found.items())]
    return _table(("retired", "found by"), rows)


def about_rules(_word: str) -> str:
    """The explanation of each rule of `lint`, by subject."""
    return "\n\n".join(
        f"## {name}\n\n" + "\n\n".join(map(_about, group)) for name, group in _subjects().items()
    )


def _subjects() -> dict[str, list[Rule]]:
    """Return the rules of `lint` by the subject of their module."""
    found: dict[str, list[Rule]] = {}
    for each in lint_rules().values():
        subject = inspect.getdoc(inspect.getmodule(each.judge)) or ""
        found.setdefault(subject.rstrip("."), []).append(each)
    return found


def invariances(_word: str) -> str:
    """A table of who has which invariance, as measured."""
    words = {True: "yes", False: "no", None: "-"}
    rows = []
    for name in ENCODINGS:
        found = invariance(encoding(name))
        if not found.agrees:
            msg = f"measurement and theory disagree on {name}"
            raise ValueError(msg)
        rows.append((f"`{name}`", *(words[each.holds] for each in found.properties.values())))
    headings = ("translation invariant", "symmetric", "bounded", "decaying", "linear under shift")
    return _table(("encoding", *headings), rows)


def stacks(_word: str) -> str:
    """A table of files, and how each stack rotates otherwise than Transformers."""
    others = [each for each in STACKS.values() if each.name not in ("transformers", "paper")]
    rows = []
    for file in tomllib.loads((DOCS / "stacks.toml").read_text())["file"]:
        config, length = file["config"], file.get("sequence_length")
        ours = load_model(config, sequence_length=length)
        last = (length or config["max_position_embeddings"]) - 1
        cells = [_difference(ours, config, length, last, each.name) for each in others]
        rows.append((file["is"], *cells))
    return _table(("file", *(f"{each.name} {each.version}" for each in others)), rows)


def _difference(ours: Model, config: Any, length: int | None, last: int, stack: str) -> str:
    """Differences of a stack's reading of a file; phases are those of its last position."""
    try:
        theirs = load_model(config, sequence_length=length, reading=stack)
    except RopecliError as error:
        return f"refused: {str(error).partition('this file: ')[2]}"
    layers = [each for each in diff(ours, theirs, positions=[last]).layers if not each.same]
    if not layers:
        return "equal"
    off = max(each.phase[0].max_radians for each in layers if each.phase)
    fields = [field for each in layers for field in each.fields if field.matters]
    names = sorted({field.name.partition("[")[0] for field in fields})
    what = ", ".join(f"`{name}`" for name in names)
    return f"{what}: {off:,.{0 if off > 100 else 1}f} rad at {last:,}" if off else what


VERDICTS = {
    "true": "True",
    "condition": "True with a condition",
    "false": "False",
    "training": "Training claim",
    "record": "Matter of record",
}


def statements(_word: str) -> str:
    """The statements of each document, counted by verdict, and then each with what shows it.

    The first statement that a command shows has its lines for all statements of the document, so
    that the output is read as a whole; the others have a link to it.
    """
    documents = tomllib.loads((DOCS / "statements.toml").read_text())["document"]
    every = [each for document in documents for each in document["statement"]]
    first = {each["id"]: each for each in every if "id" in each}
    for number, each in enumerate(every, 1):
        each["number"] = number
        if "as" in each:
            each["as"] = first[each["as"]]
            each["verdict"] = each["as"]["verdict"]
    rows = []
    sections = []
    false = []
    shown: dict[tuple[str, str], int] = {}
    for document in documents:
        given = [each["verdict"] for each in document["statement"]]
        counts = [str(given.count(name)) for name in VERDICTS]
        link = f"[{document['title']}](#{_anchor(document['title'])})"
        rows.append((link, str(len(given)), *counts))
        sections += [f"## {document['title']}", document["about"]]
        wanted: dict[str, list[str]] = {}
        for command, *patterns in chain.from_iterable(
            each.get("run", []) for each in document["statement"]
        ):
            wanted.setdefault(command, []).extend(patterns)
        for each in document["statement"]:
            sections.append(_statement(each, wanted, shown))
            if each["verdict"] == "false" and "as" not in each:
                false.append(_link(each["number"]))
    table = _table(("document", "statements", *(v.lower() for v in VERDICTS.values())), rows)
    return "\n\n".join(
        [table, f"False, each where it is first said: {', '.join(false)}.", *sections]
    )


def _link(number: int) -> str:
    return f"[{number}](#s{number})"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _statement(
    each: dict[str, Any], wanted: dict[str, list[str]], shown: dict[tuple[str, str], int]
) -> str:
    """One statement, what shows it, and what there is to know about it."""
    where = f"{each['where']}: " if "where" in each else ""
    said = f"**{each['number']}.** {where}{each['says']} **{VERDICTS[each['verdict']]}.**"
    above = {each["as"]["number"]} if "as" in each else set()
    blocks = []
    for command, *patterns in each.get("run", []):
        above |= {shown[command, one] for one in patterns if (command, one) in shown}
        if all((command, one) in shown for one in patterns):
            continue
        fresh = [one for one in wanted[command] if (command, one) not in shown]
        shown |= {(command, one): each["number"] for one in fresh}
        blocks.append(f"```text\n$ {command}\n{_excerpts(command, fresh)}\n```")
    see = f" See {', '.join(map(_link, sorted(above)))}." if above else ""
    parts = [f"(s{each['number']})=", f"{said}{see}", *blocks]
    languages = [language for language in ("python", "console") if language in each]
    parts += [f"```{language}\n{each[language].strip()}\n```" for language in languages]
    return "\n\n".join([*parts, each["remark"].strip()] if "remark" in each else parts)


def _excerpts(command: str, patterns: Sequence[str]) -> str:
    """Return what patterns find in a command's output, in order; dots are the rest of a line."""
    printed = _output(command)
    parts: list[str] = []
    reached = 0
    for start, end in sorted(_span(command, one) for one in patterns):
        if end <= reached:
            continue
        rest = printed[end : end + 1]
        lines = printed[max(start, reached) : end].lstrip("\n")
        parts.append(lines + (" ..." if rest.strip() else ""))
        reached = end
    return "\n".join(parts)


def _span(command: str, pattern: str) -> tuple[int, int]:
    printed = _output(command)
    found = re.search(pattern, printed, re.MULTILINE)
    if found is None:
        msg = f"{command} prints nothing like {pattern!r}:\n{printed}"
        raise ValueError(msg)
    return found.span()


@cache
def _output(command: str) -> str:
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2)]
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        code = run(shlex.split(command)[1:])
    if code == EXIT_BUG:
        raise ValueError(command)
    for stream in streams:
        stream.flush()
    return "".join(stream.buffer.getvalue().decode() for stream in streams)


MAKERS: dict[str, Callable[[str], str]] = {
    "usage": usage,
    "options": options,
    "commands": commands,
    "exits": exits,
    "roles": roles,
    "freqs": freqs,
    "laws": laws,
    "types": types,
    "encoding_checks": encoding_checks,
    "encoding_roles": encoding_roles,
    "known_encodings": known_encodings,
    "keys": keys,
    "rules": rules,
    "retired": retired,
    "about_rules": about_rules,
    "invariances": invariances,
    "stacks": stacks,
    "statements": statements,
}


def _about(rule: Rule) -> str:
    """One rule: what it fires on, what happens, the fix, and where it was met."""
    threads = " ".join(f"<gh:{thread}>" for thread in rule.threads)
    said = [
        f"**{rule.level.capitalize()}.**",
        rule.fires,
        rule.why,
        f"**Fix:** {rule.hint}",
        threads,
    ]
    title = f"### {rule.id}: {rule.title}"
    return "\n\n".join([f"({rule.anchor})=", title, " ".join(filter(None, said))])


def _keys(function: Callable[..., Any]) -> list[tuple[str, str, str]]:
    rows = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in NO_KEYS or parameter.kind is not parameter.KEYWORD_ONLY:
            continue
        default = "required" if parameter.default is parameter.empty else f"`{parameter.default}`"
        meaning = _meaning(function, name)
        if same := re.fullmatch(r"As in `(\w+)`\.", meaning):
            meaning = _meaning(formula(same[1]), name)
        rows.append((f"`{name}`", "" if parameter.default is None else default, meaning))
    return rows


def _meaning(function: Callable[..., Any], name: str) -> str:
    """A docstring's description of an argument, in one line."""
    doc = inspect.getdoc(function) or ""
    found = re.search(rf"^    {name}: (.*?)(?=^    \w+: |^\s*$|\Z)", doc, re.MULTILINE | re.DOTALL)
    if found is None:
        msg = f"{function.__name__} does not say what {name} is"
        raise ValueError(msg)
    return " ".join(found[1].split())


def _row(parameter: Any) -> tuple[str, str, str]:
    flag = getattr(parameter, "is_flag", False)
    names = ", ".join(parameter.opts) if parameter.opts[0].startswith("-") else ""
    value = "" if flag else parameter.metavar or ""
    default = "" if flag or parameter.default is None else f"`{parameter.default}`"
    return f"`{f'{names} {value}'.strip()}`", parameter.help or "", default


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    cells = [headings, tuple("-" * len(heading) for heading in headings), *rows]
    return "\n".join(f"| {' | '.join(map(_escape, row))} |" for row in cells)


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


def _wrap(text: str) -> list[str]:
    """Lines of the docstring, without its indentation."""
    return [line.strip() for line in text.strip().splitlines()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
