"""Words and a table for `verify --encoding`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from ropecli.render import console
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ropecli.checks.law import Check
    from ropecli.checks.verify import Verification

STYLES = {"PASS": "green", "FAIL": "bold red"}
THEORY = {"holds": "holds", "fails": "fails, as it must"}
LEFT = 4  #: Columns of words: verdict, law, source, theory.


def show(
    result: Verification,
    name: str,
    sizes: Mapping[str, int],
    *,
    errors: bool,
    explain: bool,
    brief: bool,
) -> None:
    """Print one row a law, what is not as theory says, and the count."""
    out = console.out()
    blocks = []
    if not brief:
        what = f"model dim {sizes['model_dim']}, heads {sizes['heads']}, float64"
        blocks.append(
            [
                f"Checking {name} against its published formula",
                f"{what}, positions up to {result.max_position}, seed {result.seed}",
            ]
        )
    blocks.append(_table(result, errors=errors))
    blocks += [_failure(check, out.width) for check in result.checks if not check.passed]
    if explain:
        blocks.append(_explanations(result, out.width))
    if not brief:
        blocks.append([_count(result)])
        if not (errors or explain):
            blocks[-1].append(
                "The errors and tolerances: --errors    where they come from: --explain"
            )
    for line in "\n\n".join("\n".join(block) for block in blocks).splitlines():
        text = Text(line)
        text.stylize(STYLES.get(line[:4], ""), 0, 4)
        out.print(text)


def _table(result: Verification, *, errors: bool) -> list[str]:
    numbers = ["worst error", "tolerance", "samples"] if errors else []
    rows = [["", "law", "from", "theory says", *numbers]]
    for check in result.checks:
        cells = [f"{check.max_error:.3g}", f"{check.tolerance:.3g}", f"{check.samples:,}"]
        words = [_verdict(check), check.name, _source(check), THEORY[check.expected]]
        rows.append([*words, *(cells if errors else [])])
    return aligned(rows, left=LEFT)


def _verdict(check: Check) -> str:
    return "PASS" if check.passed else "FAIL"


def _source(check: Check) -> str:
    """An equation of RoFormer has its number alone; another paper is named."""
    return f"Eq. {check.equation}" if check.equation.isdigit() else check.equation


def _failure(check: Check, width: int) -> list[str]:
    lines = [
        f"FAIL  {check.name} ({_source(check)}), expected: {check.expected}: "
        f"error {check.max_error:.3g}, tolerance {check.tolerance:.3g}"
    ]
    lines += [f"      {text}" for text in (check.note, check.counterexample) if text]
    return [part for line in lines for part in console.wrapped(line, width, indent=6)]


def _explanations(result: Verification, width: int) -> list[str]:
    lines = ["Where each tolerance comes from"]
    for check in result.checks:
        lines += console.wrapped(f"  {check.name}: {check.because}", width, indent=4)
    return lines


def _count(result: Verification) -> str:
    wrong = sum(not check.passed for check in result.checks)
    samples = sum(check.samples for check in result.checks)
    took = f"({samples:,} samples, {result.seconds:.1f} s)"
    if wrong:
        are = "is" if wrong == 1 else "are"
        return f"{wrong} of {len(result.checks)} laws {are} not as theory says {took}."
    holding = sum(check.expected == "holds" for check in result.checks)
    failing = len(result.checks) - holding
    fail = (
        ("", " and 1 fails as it must")[failing]
        if failing < 2
        else (f" and {failing} fail as they must")
    )
    return f"{holding} law{'s hold' if holding > 1 else ' holds'}{fail} {took}."
