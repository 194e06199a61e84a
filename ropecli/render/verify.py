"""Words and tables for `verify`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from ropecli.render import console

if TYPE_CHECKING:
    from ropecli.checks.law import Check
    from ropecli.checks.verify import Verification
    from ropecli.rotary import Rotary

STYLES = {"PASS": "green", "FAIL": "bold red"}


def as_json(result: Verification) -> dict[str, Any]:
    """The result of `--json`."""
    return {
        "passed": result.passed,
        "checks": [dataclasses.asdict(check) for check in result.checks],
        "seconds": result.seconds,
    }


def show(
    result: Verification, ropes: list[Rotary], *, errors: bool, explain: bool, brief: bool
) -> None:
    """Print one row a law, what failed, and the count."""
    out = console.out()
    rope = ropes[0]
    if not brief:
        layouts = "both layouts" if len(ropes) > 1 else f"layout {rope.layout}"
        partial = "" if rope.rotary_dim == rope.head_dim else f", rotary dim {rope.rotary_dim}"
        out.print("Checking RoPE against an independent reference")
        out.print(
            f"dim {rope.head_dim}{partial}, base {rope.base:g}, {layouts}, "
            f"positions up to {result.max_position}, seed {result.seed}\n"
        )
        what = (
            "worst error / its tolerance" if errors else "worst error as a share of its tolerance"
        )
        out.print(f"{what:>72}")
    laws = dict.fromkeys(check.name for check in result.checks)
    dtypes = list(dict.fromkeys(check.dtype for check in result.checks))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for heading in ("", "law", "Eq."):
        table.add_column(heading, no_wrap=True)
    for dtype in dtypes:
        table.add_column(dtype, justify="right", no_wrap=True)
    for law in laws:
        checks = [check for check in result.checks if check.name == law]
        if any(check.passed is not None for check in checks):
            cells = [_cell([c for c in checks if c.dtype == dtype], errors) for dtype in dtypes]
            table.add_row(_verdict(checks), law, checks[0].equation, *cells)
    out.print(table)
    for check in result.checks:
        if check.passed is False:
            out.print("\n" + "\n".join(_failure(check)), markup=False)
    if explain:
        out.print("\nWhere each tolerance comes from")
        for law in laws:
            because = next(check.because for check in result.checks if check.name == law)
            out.print(f"  {law}: {because}", markup=False)
    if not brief:
        out.print("\n" + _count(result), markup=False)
        if not (errors or explain):
            out.print(
                "The errors and tolerances themselves: --errors    where they come from: --explain"
            )


def _verdict(checks: list[Check]) -> Text:
    word = "FAIL" if any(check.passed is False for check in checks) else "PASS"
    return Text(word, style=STYLES[word])


def _cell(checks: list[Check], errors: bool) -> str:
    judged = [check for check in checks if check.passed is not None]
    if not judged:
        return "-"
    worst = max(judged, key=lambda check: check.share)
    if errors:
        return f"{worst.max_error:.2g}/{worst.tolerance:.2g}"
    return "exact" if worst.tolerance == 0 and worst.max_error == 0 else _share(worst.share)


def _share(share: float) -> str:
    """Two decimals, rounded up past 1 so that a failure never reads 1.00."""
    return f"{share:.2f}" if share <= 1 else f"{max(share, 1.01):.3g}"


def _failure(check: Check) -> list[str]:
    lines = [
        f"FAIL  {check.name} (Eq. {check.equation}), {check.dtype}, {check.layout}: "
        f"error {check.max_error:.3g}, tolerance {check.tolerance:.3g}"
    ]
    if check.note:
        lines.append(f"      {check.note}")
    if check.counterexample:
        lines.append(f"      {check.counterexample}")
    return lines


def _count(result: Verification) -> str:
    judged = [check for check in result.checks if check.passed is not None]
    laws = {check.name for check in judged}
    failed = {check.name for check in judged if not check.passed}
    dtypes = len({check.dtype for check in judged})
    layouts = len({check.layout for check in judged})
    samples = sum(check.samples for check in judged)
    where = (
        f"in {dtypes} dtype{'s' * (dtypes > 1)} and {layouts} layout{'s' * (layouts > 1)} "
        f"({samples:,} samples, {result.seconds:.1f} s)"
    )
    if failed:
        return f"{len(failed)} of {len(laws)} laws fail {where}."
    return f"{len(laws)} laws hold {where}."
