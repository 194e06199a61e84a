"""Page of `check`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ropecli.checks.implementation.calling.meant import in_other_order
from ropecli.checks.implementation.check import Verdict
from ropecli.checks.law import Check
from ropecli.checks.verdict import CodeVerdict
from ropecli.render import View, console, identify
from ropecli.render.console import Screen
from ropecli.render.labels import expected_as_json, expected_words, label, quantity

#: Fields of a verdict in its document.
DOCUMENT = (
    *("passed", "unfinished", "diagnosis", "checks"),
    ("identified", lambda result: result.identified and identify.as_json(result.identified)),
    ("convention", lambda result: result.convention.options()),
    *("arrangements", "not_judged", "refused_batch", "longest_sequence", "notes", "findings"),
    *("loosened", "seconds"),
    ("expected", lambda result: expected_as_json(result.expected)),
)
NOTHING_EXPECTED = " (nothing expected: --model or --base compares it)"


def page(
    result: Verdict, screen: Screen, *, target: str = "The implementation", model: str | None = None
) -> list[str]:
    """Return the answer first, then the evidence."""
    width = min(screen.width, 80)
    lines = [_answer(result, console.visible(target), model, brief=screen.brief)]
    if result.diagnosis is not None:
        sentence = result.diagnosis[0].upper() + result.diagnosis[1:]
        gap = [] if screen.brief else [""]  # in short form, the answer is one paragraph
        lines += [*gap, *console.wrap_text(f"  {sentence}.", width, indent=2)]
    if not screen.brief:
        lines += ["", *fact_lines(_facts(result), width)]
    elif result.loosened:
        lines += ["", *_fact("  loosened  ", "; ".join(result.loosened), width)]
    unjudged = [
        f"{options}: such calls run, and do not show that they are meant"
        for options in result.not_judged
    ]
    lines += ["", *check_lines(result, width, _what_follows(result), unjudged, brief=screen.brief)]
    return lines if screen.brief else [*lines, "", count_line(result)]


def _answer(result: Verdict, target: str, model: str | None, *, brief: bool) -> str:
    cut = f": {result.unfinished}" if result.unfinished else ""
    if result.passed is None:
        return f"UNKNOWN  {target} is not judged yet{cut}, none fails"
    verdict = "PASS" if result.passed else "FAIL"
    if not result.expected.grounds:
        said = f"is a RoPE: {_found(result)}" if result.passed else "is not a correct RoPE"
        if result.passed and _checks_left_out(result):
            said = f"passes the checks that were made: {_found(result)}"
        if result.passed and _found(result):
            said += " (nothing expected)" if brief else NOTHING_EXPECTED
    else:
        which = "that is expected" if model is None else f"of {console.visible(model)}"
        said = f"is {'' if result.passed else 'not '}the RoPE {which}"
        if result.passed and _checks_left_out(result):
            said += " by the checks that were made"
        if result.passed is False and not _of_convention(result):
            said = f"is the RoPE {which}, but not always"
    if {check.name for check in result.checks if check.passed is False} == {"dtype and shape"}:
        rope = f"the RoPE {which}" if result.expected.grounds else "a RoPE"
        said = f"is {rope}, but changes the dtype or the shape"
    if result.longest_sequence is not None:
        said += f" for sequences of up to {result.longest_sequence:,} tokens"
    if result.refused_batch is not None and result.passed:
        said += ", of one sequence only: batches raise"
    return f"{verdict}  {target} {said.removesuffix(': ')}{_name_other_orders(result)}{cut}"


def _name_other_orders(result: Verdict) -> str:
    """Name arrangements that take the axes in different order."""
    first, *others = result.arrangements
    named = [order for order in others if in_other_order(first, order)]
    every = " and ".join(repr(axes) for axes in (first, *named))
    return f"; it takes axes in different order: {every}" if named else ""


def _found(result: Verdict) -> str:
    """Return which RoPE it is; nothing where that is not known."""
    identified = result.identified
    if identified is None or identified.rotary is None:
        return ""
    more = "" if identified.direction == "forward" else f", {identified.direction}"
    if identified.attention_factor is not None and identified.attention_factor != 1:
        more += f", attention factor {identified.attention_factor:.6g}"
    return f"{label(identified.rotary)}, {identified.layout}{more}"


def _of_convention(result: Verdict) -> bool:
    """Return whether it is another rotation, and not one with occasional errors."""
    named = {"rotation", "convention", "axes"}
    return any(check.passed is False and check.name in named for check in result.checks)


def _checks_left_out(result: Verdict) -> bool:
    return any("judged " in words for words in result.loosened)


def _facts(result: Verdict) -> list[tuple[str, str]]:
    """Return what was expected and found, how it was called, and what is to be known of it."""
    rows = []
    if words := expected_words(result.expected):
        rows.append(("expected", words))
    if _found(result) and not (result.passed and not result.expected.grounds):
        rows.append(("found", _found(result)))
    rows.append(("called", result.convention.options()))
    if others := result.arrangements[1:]:
        rows.append(("also", f"with axes {' and '.join(repr(axes) for axes in others)}"))
    rows += [("note", words) for words in (*result.findings, *result.notes)]
    if result.loosened:
        rows.append(("loosened", "; ".join(result.loosened)))
    return rows


def fact_lines(rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Return names and words, the words of a call in lines that a shell reads as one."""
    column = 4 + max(len(name) for name, _ in rows)
    page = []
    for name, words in rows:
        start = f"  {name}".ljust(column)
        page += _call_lines(start, words, width) if name == "called" else _fact(start, words, width)
    return page


def _fact(start: str, words: str, width: int) -> list[str]:
    return console.wrap_text(f"{start}{console.visible(words)}", width, indent=len(start))


def _call_lines(start: str, options: str, width: int) -> list[str]:
    """Return the options that say the call, in lines that a shell reads as one."""
    lines = [""]
    for option in re.split(r" (?=--[a-z])", options):
        longer = f"{lines[-1]} {option}".lstrip()
        if lines[-1] and len(longer) > width - len(f"{start} \\"):
            lines.append(option)
        else:
            lines[-1] = longer
    text = [f"{line} \\" for line in lines[:-1]] + lines[-1:]
    return [start + text[0], *(" " * len(start) + line for line in text[1:])]


def check_lines(
    result: CodeVerdict,
    width: int,
    follows: str = "",
    more_unjudged: Sequence[str] = (),
    *,
    brief: bool,
) -> list[str]:
    """Return the checks that fail, then the names of those that pass, then notes."""
    by_name: dict[str, list[Check]] = {}
    for check in result.checks:
        by_name.setdefault(check.name, []).append(check)
    held = [
        name
        for name, checks in by_name.items()
        if any(c.passed for c in checks) and all(c.passed is not False for c in checks)
    ]
    page: list[str] = []
    following: dict[str, list[str]] = {}
    for name, checks in by_name.items():
        failed = [check for check in checks if check.passed is False]
        causes = [check for check in failed if check.follows is None]
        if causes:
            page += _failure(causes, width)
        elif failed:
            following.setdefault(str(failed[0].follows), []).append(name)
    for cause, names in following.items():
        line = f"  FAIL  because of {cause}: {', '.join(names)}"
        page += console.wrap_text(line, width, indent=8)
    if brief:
        return page
    for start, text in (("  PASS  ", _list_names(held)), ("  so    ", follows)):
        page += console.wrap_text(start + text, width, indent=8) if text else []
    notes = _notes([check for check in result.checks if check.passed])
    unjudged = _notes(
        [check for check in result.checks if check.passed is None and check.name not in held]
    )
    unjudged += more_unjudged
    for heading, lines in (([], notes), (["  Not judged:"], unjudged)):
        start = "    " if heading else "  "
        page += ["", *heading] if lines else []
        for line in lines:
            page += console.wrap_text(start + line, width, indent=len(start) + 2)
    return page


def _notes(checks: Sequence[Check]) -> list[str]:
    """Return what checks say, each once, after the names of all that say it."""
    said: dict[str, list[str]] = {}
    for check in checks:
        if check.note and _is_telling(check.note):
            said.setdefault(check.note, []).append(check.name)
    return [f"{', '.join(dict.fromkeys(names))}: {note}" for note, names in said.items()]


def _list_names(names: list[str]) -> str:
    """Return names in a list, those that end or begin alike together."""
    listed = [f"'{name}'" if "," in name else name for name in names]
    positions_names = [name for name in names if re.fullmatch(r"\w+ positions", name)]
    every = [name for name in names if name.startswith("every ")]
    for alike, text in (
        (
            positions_names,
            ", ".join(positions_names[:-1]).replace(" positions", "")
            + " and "
            + "".join(positions_names[-1:]),
        ),
        (every, " and ".join(every).replace("and every", "and")),
    ):
        if len(alike) > 1:
            place = listed.index(alike[0])
            listed = [name for name in listed if name not in alike]
            listed.insert(place, text)
    return ", ".join(listed)


def _what_follows(result: Verdict) -> str:
    """Return what right rows in all calls imply, which the paper states of them."""
    rope = (result.identified and result.identified.rotary) or result.expected.rope
    if not result.passed or rope is None or _checks_left_out(result):
        return ""
    moved = result.identified and result.identified.position_offset
    if moved:
        return "scores depend on the distance only"
    if rope.attention_factor != 1:
        factor = f"{rope.attention_factor:.6g}"
        return f"scores depend on the distance only, norms are multiplied by {factor}"
    return "scores depend on the distance only, norms are kept, R_m R_n = R_(m+n)"


def _is_telling(note: str) -> bool:
    """Return whether a note says more than what holds for most implementations."""
    return not note.startswith(
        ("positions have one", "nothing ", "it takes no base", "no original")
    )


def _failure(checks: list[Check], width: int) -> list[str]:
    check = checks[0]
    dtypes = ", ".join(dict.fromkeys(one_check.dtype for one_check in checks))
    said = f": {check.note}" if check.note else ""
    if not said and check.tolerance:
        said = f": error {check.max_error:.3g}, tolerance {check.tolerance:.3g}"
    page = console.wrap_text(f"  FAIL  {check.name} ({dtypes}){said}", width, indent=8)
    if check.counterexample:
        page += console.wrap_text(f"        smallest case: {check.counterexample}", width, indent=8)
    return page


def count_line(result: CodeVerdict) -> str:
    """Return how many checks pass or fail, of how many rows, and how long it took."""
    judged = {check.name for check in result.checks if check.passed is not None}
    wrong = {check.name for check in result.checks if check.passed is False}
    failed = {c.name for c in result.checks if c.passed is False and c.follows is None}
    samples = sum(check.samples for check in result.checks)
    how = f"({quantity(samples, 'row')}, seed {result.seed}, {result.seconds:.1f} s)"
    if wrong:
        more = f", {len(wrong - failed)} because of {'it' if len(failed) == 1 else 'them'}"
        more = more if wrong - failed else ""
        fail = " fails" if len(failed) == 1 else "s fail"
        return f"{len(failed)} check{fail} of {len(judged)}{more} {how}."
    return f"{len(judged)} check{' passes' if len(judged) == 1 else 's pass'} {how}."


VIEW = View(page=page, document=DOCUMENT)
