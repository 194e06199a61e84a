"""Words and tables for `verify`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ropecli.render import console
from ropecli.render.labels import label
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ropecli.checks.law import Check
    from ropecli.checks.verify import Verification
    from ropecli.rotary import Rotary

STYLES = {"PASS": "green", "FAIL": "bold red"}
LEFT = 3  #: Columns of words: verdict, law, equation.


def as_json(result: Verification) -> dict[str, Any]:
    """The result of `--json`."""
    return {
        "passed": result.passed,
        "checks": [dataclasses.asdict(check) for check in result.checks],
        "seconds": result.seconds,
    }


def show(
    result: Verification,
    ropes: list[Rotary],
    name: str | None = None,
    *,
    errors: bool,
    explain: bool,
    brief: bool,
) -> None:
    """Print one row a law, what failed, and the count."""
    out = console.out()
    blocks: list[list[str]] = []
    if not brief:
        blocks.append(_heading(result, ropes, name, out.width))
    blocks += _errors(result) if errors else [_shares(result)]
    failed = [check for check in result.checks if check.passed is False]
    blocks += [_failure(check, out.width) for check in failed]
    if explain:
        blocks.append(_explanations(result, out.width))
    if not brief:
        blocks.append([_count(result)])
        if not (errors or explain):
            blocks[-1].append(
                "The errors and tolerances: --errors    where they come from: --explain"
            )
    for line in "\n\n".join("\n".join(block) for block in blocks).splitlines():
        out.print(_coloured(line))


def _heading(result: Verification, ropes: list[Rotary], name: str | None, width: int) -> list[str]:
    layouts = "both layouts" if len(ropes) > 1 else f"layout {ropes[0].layout}"
    reach = f"positions up to {result.max_position:,}, seed {result.seed}"
    named = "" if name is None else f"{console.visible(name)}: "
    what = console.wrapped(f"{named}{label(ropes[0])}, {layouts}, {reach}", width, indent=0)
    return ["Checking RoPE against an independent reference", *what]


def _shares(result: Verification) -> list[str]:
    """One row a law, one column a dtype."""
    dtypes = list(dict.fromkeys(check.dtype for check in result.checks))
    rows = [["", "law", "Eq.", *dtypes]]
    for law, checks in _by_law(result.checks).items():
        cells = [_share(_worst([c for c in checks if c.dtype == dtype])) for dtype in dtypes]
        rows.append([_verdict(checks), law, checks[0].equation, *cells])
    lines = aligned(rows, left=LEFT)
    return [f"{'worst error as a share of its tolerance':>{max(map(len, lines))}}", *lines]


def _errors(result: Verification) -> list[list[str]]:
    """A table for each dtype, one row a law."""
    tables = []
    for dtype in dict.fromkeys(check.dtype for check in result.checks):
        rows = [["", f"law in {dtype}", "Eq.", "worst error", "tolerance", "share", "samples"]]
        for law, checks in _by_law([c for c in result.checks if c.dtype == dtype]).items():
            worst = _worst(checks)
            if worst is not None:
                numbers = [f"{worst.max_error:.3g}", f"{worst.tolerance:.3g}", _share(worst)]
                samples = f"{sum(check.samples for check in checks):,}"
                rows.append([_verdict(checks), law, worst.equation, *numbers, samples])
        tables.append(aligned(rows, left=LEFT))
    return tables


def _by_law(checks: Sequence[Check]) -> dict[str, list[Check]]:
    """The checks that gave a verdict, by law."""
    laws: dict[str, list[Check]] = {}
    for check in checks:
        if check.passed is not None:
            laws.setdefault(check.name, []).append(check)
    return laws


def _worst(checks: Sequence[Check]) -> Check | None:
    """The check that came closest to its tolerance, or passed it by most."""
    # A share may be not a number, which compares as nothing: failures come first.
    return max(checks, key=lambda check: (not check.passed, check.share), default=None)


def _verdict(checks: Sequence[Check]) -> str:
    return "FAIL" if any(check.passed is False for check in checks) else "PASS"


def _share(check: Check | None) -> str:
    """Two decimals, rounded up past 1 so that a failure never reads 1.00."""
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
    return [part for line in lines for part in console.wrapped(line, width, indent=6)]


def _explanations(result: Verification, width: int) -> list[str]:
    lines = ["Where each tolerance comes from"]
    for law, checks in _by_law(result.checks).items():
        lines += console.wrapped(f"  {law}: {checks[0].because}", width, indent=4)
    return lines


def _count(result: Verification) -> str:
    judged = [check for check in result.checks if check.passed is not None]
    laws = _by_law(judged)
    failed = [law for law, checks in laws.items() if _verdict(checks) == "FAIL"]
    dtypes = len({check.dtype for check in judged})
    layouts = len({check.layout for check in judged})
    samples = sum(check.samples for check in judged)
    where = (
        f"in {dtypes} dtype{'s' * (dtypes > 1)} and {layouts} layout{'s' * (layouts > 1)} "
        f"({samples:,} samples, {result.seconds:.1f} s)"
    )
    if failed:
        return f"{len(failed)} of {len(laws)} laws fail{'s' * (len(failed) == 1)} {where}."
    return f"{len(laws)} law{' holds' if len(laws) == 1 else 's hold'} {where}."


def _coloured(line: str) -> Text:
    """The line with its verdict, if it begins with one, in colour."""
    text = Text(line)
    text.stylize(STYLES.get(line[:4], ""), 0, 4)
    return text
