"""Page of `verify`."""

from __future__ import annotations

from collections.abc import Sequence

from ropecli.checks.law import Check
from ropecli.checks.verify import Verification
from ropecli.render import View, console
from ropecli.render.console import Screen, paragraphs
from ropecli.render.labels import label, quantity
from ropecli.render.table import align
from ropecli.rotary import Rotary

DOCUMENT = ("passed", "checks", "seconds")
RELATIVE = "relative position"  #: The law that people ask about.


def page(
    result: Verification,
    screen: Screen,
    *,
    ropes: Sequence[Rotary] = (),
    name: str | None = None,
    errors: bool = False,
    explain: bool = False,
) -> list[str]:
    """Return a row for each law, what failed, and the count."""
    heading = _heading(result, ropes, name, screen.width) if ropes else None
    tables = _errors(result) if errors else [_ratios(result)]
    lines = parts(result, screen, heading, tables, errors=errors, explain=explain)
    return paragraphs([_count(result)], *lines)


def parts(
    result: Verification,
    screen: Screen,
    heading: list[str] | None,
    tables: list[list[str]],
    *,
    errors: bool,
    explain: bool,
) -> list[list[str]]:
    """Return the rest of a page: heading unless it is brief, tables, failures, derivations."""
    blocks = [*([heading] if heading and not screen.brief else []), *tables]
    blocks += [_failure(check, screen.width) for check in result.checks if check.passed is False]
    if explain:
        blocks.append(_explanations(result, screen.width))
    if not (screen.brief or errors or explain):
        blocks.append(["The errors and tolerances: --errors    where they come from: --explain"])
    return blocks


def _heading(
    result: Verification, ropes: Sequence[Rotary], name: str | None, width: int
) -> list[str]:
    layouts = "both layouts" if len(ropes) > 1 else f"layout {ropes[0].layout}"
    reach = f"positions up to {result.max_position:,}, seed {result.seed}"
    named = "" if name is None else f"{console.visible(name)}: "
    facts = console.wrap_text(f"{named}{label(ropes[0])}, {layouts}, {reach}", width, indent=0)
    return ["Checking ropecli's own rotation against an independent reference", *facts]


def _ratios(result: Verification) -> list[str]:
    """Return a row for each law, a column for each dtype."""
    dtypes = list(dict.fromkeys(check.dtype for check in result.checks))
    rows = [["", "law", "Eq.", *dtypes]]
    for law, checks in _by_law(result.checks).items():
        cells = [_ratio(_worst([c for c in checks if c.dtype == dtype])) for dtype in dtypes]
        rows.append([verdict(checks), law, checks[0].equation, *cells])
    lines = align(rows, left=3)
    return [f"{'worst ratio of error to tolerance':>{max(map(len, lines))}}", *lines]


def _errors(result: Verification) -> list[list[str]]:
    """Return a table for each dtype, a row for each law."""
    tables = []
    for dtype in dict.fromkeys(check.dtype for check in result.checks):
        rows = [["", f"law in {dtype}", "Eq.", "worst error", "tolerance", "ratio", "samples"]]
        for law, checks in _by_law([c for c in result.checks if c.dtype == dtype]).items():
            worst = _worst(checks)
            if worst is not None:
                numbers = [f"{worst.max_error:.3g}", f"{worst.tolerance:.3g}", _ratio(worst)]
                samples = f"{sum(check.samples for check in checks):,}"
                rows.append([verdict(checks), law, worst.equation, *numbers, samples])
        tables.append(align(rows, left=3))
    return tables


def _by_law(checks: Sequence[Check]) -> dict[str, list[Check]]:
    """Return the checks that gave a verdict, by law."""
    laws: dict[str, list[Check]] = {}
    for check in checks:
        if check.passed is not None:
            laws.setdefault(check.name, []).append(check)
    return laws


def _worst(checks: Sequence[Check]) -> Check | None:
    """Return the check that came closest to its tolerance, or passed it by most."""
    # A ratio may be NaN, which compares with nothing: failures come first.
    return max(checks, key=lambda check: (not check.passed, check.share), default=None)


def verdict(checks: Sequence[Check]) -> str:
    """Return FAIL if one of them failed, or else PASS."""
    return "FAIL" if any(check.passed is False for check in checks) else "PASS"


def _ratio(check: Check | None) -> str:
    """Return two decimals, above 1 for a failure even if it is close."""
    if check is None:
        return "-"
    if check.tolerance == 0 and check.max_error == 0:
        return "exact"
    return f"{check.share:.2f}" if check.passed else f"{max(check.share, 1.01):.3g}"


def _failure(check: Check, width: int) -> list[str]:
    lines = [
        f"FAIL  {check.name} (Eq. {check.equation}), {check.dtype}, {check.layout}: "
        f"error {check.max_error:.3g}, tolerance {check.tolerance:.3g}"
    ]
    lines += [f"      {text}" for text in (check.note, check.counterexample) if text]
    return [part for line in lines for part in console.wrap_text(line, width, indent=6)]


def _explanations(result: Verification, width: int) -> list[str]:
    lines = ["Where each tolerance comes from"]
    for law, checks in _by_law(result.checks).items():
        lines += console.wrap_text(f"  {law}: {checks[0].because}", width, indent=4)
    return lines


def _count(result: Verification) -> str:
    judged = [check for check in result.checks if check.passed is not None]
    laws = _by_law(judged)
    failed = [law for law, checks in laws.items() if verdict(checks) == "FAIL"]
    dtypes = quantity(len({check.dtype for check in judged}), "dtype")
    layouts = quantity(len({check.layout for check in judged}), "layout")
    samples = sum(check.samples for check in judged)
    where = f"in {dtypes} and {layouts} ({samples:,} samples, {result.seconds:.1f} s)"
    if failed:
        fail = "law fails" if len(failed) == 1 else "laws fail"
        return f"FAIL  {len(failed)} {fail} of {len(laws)} {where}"
    answer = "scores depend on the distance only; " if RELATIVE in laws else ""
    return f"PASS  {answer}{len(laws)} law{' holds' if len(laws) == 1 else 's hold'} {where}"


VIEW = View(page=page, document=DOCUMENT)
