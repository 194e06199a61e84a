"""Page of `check --encoding`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ropecli.render import View, console
from ropecli.render.check import check_lines, count_line, fact_lines
from ropecli.render.console import Screen

if TYPE_CHECKING:
    from ropecli.checks.encoding.check import EncodingVerdict

DOCUMENT = (
    *("passed", "unfinished", "encoding", "form", "reading", "released", "options", "required"),
    *("diagnosis", "checks", "call", "framework", "notes", "findings", "loosened", "seconds"),
)
#: What code returns, in words.
FORMS = {
    "table": "table",
    "grid": "table of a grid",
    "bias": "bias",
    "slopes": "slopes",
    "buckets": "buckets",
    "scores": "scores",
    "shift": "shift of scores by distance",
}


def page(
    result: EncodingVerdict,
    screen: Screen,
    *,
    target: str = "The implementation",
    model: str | None = None,
) -> list[str]:
    """Return the answer first, then the evidence."""
    width = min(screen.width, 80)
    lines = [_answer(result, console.visible(target))]
    if result.diagnosis is not None:
        sentence = result.diagnosis[0].upper() + result.diagnosis[1:]
        gap = [] if screen.brief else [""]
        lines += [*gap, *console.wrap_text(f"  {sentence}.", width, indent=2)]
    if not screen.brief:
        lines += ["", *fact_lines(_facts(result), width)]
    lines += ["", *check_lines(result, width, brief=screen.brief)]
    return lines if screen.brief else [*lines, "", count_line(result)]


def _answer(result: EncodingVerdict, target: str) -> str:
    """Return the verdict, and as which release the code has the encoding."""
    cut = f": {result.unfinished}" if result.unfinished else ""
    title, form = result.title, FORMS[result.form]
    what = f"{title} ({form})"
    if result.passed is None:
        return f"UNKNOWN  {target} is not judged yet{cut}, none fails"
    wrong = [check for check in result.checks if check.passed is False]
    if wrong and wrong[0].name == "formula":
        return f"FAIL  {target} is not {what}{cut}"
    how = f": {result.reading}" if result.reading else ""
    if any(words.startswith(("judged only", "not judged")) for words in result.loosened):
        what = f"{what} by the checks that were made"
    if result.reading and result.released:
        how += f", as in {result.released}"
    if wrong:
        return f"FAIL  {target} is {what}{how}, but not always{cut}"
    return f"PASS  {target} is {what}{how}"


def _facts(result: EncodingVerdict) -> list[tuple[str, str]]:
    """Return what was required, how it was called, and what is to be known of it."""
    given = ", ".join(f"{key} {value}" for key, value in result.required.items())
    rows = [("expected", given)] if given else []
    rows.append(("called", f'--call "{result.call}" --framework {result.framework}'))
    rows += [("note", words) for words in (*result.findings, *result.notes)]
    if result.loosened:
        rows.append(("loosened", "; ".join(result.loosened)))
    return rows


VIEW = View(page=page, document=DOCUMENT)
