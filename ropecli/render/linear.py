"""Words for `linear`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ropecli.render import console
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from pathlib import Path

    from ropecli.analyses.linear import Attention, Linear
    from ropecli.analyses.linear_cost import Cost

HEADINGS = {
    "linear": "sums",
    "linear_causal": "prefix sums",
    "linear_quadratic": "weights",
    "softmax": "softmax",
}


def as_json(result: Linear, cost: tuple[Cost, ...] = ()) -> dict[str, Any]:
    """The result of `--json`; what says nothing of causality is of the form that sees all keys."""
    measured = [dataclasses.asdict(each) | {"reckoned": each.reckoned} for each in cost]
    return {
        "feature_map": result.feature_map,
        "sequence_length": result.sequence_length,
        "sampled_rows": len(result.sampled_rows),
        **_facts(result.whole),
        "quadratic_vs_linear_error": result.whole.error,
        "causal": _facts(result.causal),
        "causal_error": result.causal.error,
        **({"cost": measured} if cost else {}),
    }


def _facts(form: Attention) -> dict[str, Any]:
    return {
        "negative_fraction": form.negative_fraction,
        "row_sum": dataclasses.asdict(form.row_sum),
        "denominator_min": form.denominator_min,
        "rotated_denominator_min": form.rotated_denominator_min,
        "undefined_rows": form.undefined_rows,
    }


def show(
    result: Linear,
    cost: tuple[Cost, ...] = (),
    *,
    saved: Path | None = None,
    brief: bool = False,
) -> None:
    """Print a table, a column for each form; then what each cost, if that was measured.

    Args:
        result: What was computed.
        cost: What was measured.
        saved: Where the figure or the numbers went.
        brief: Leave the note out.
    """
    forms = (result.whole, result.causal)
    rows = [
        ["", "all keys", "causal"],
        ["negative terms", *(f"{100 * form.negative_fraction:.2f} %" for form in forms)],
        ["row sum, smallest", *(f"{form.row_sum.min:.4f}" for form in forms)],
        ["row sum, mean", *(f"{form.row_sum.mean:.4f}" for form in forms)],
        ["row sum, largest", *(f"{form.row_sum.max:.4f}" for form in forms)],
        ["denominator, smallest", *(f"{form.denominator_min:.4g}" for form in forms)],
        ["  if it were rotated", *(f"{form.rotated_denominator_min:.4g}" for form in forms)],
        ["rows without output", *(str(form.undefined_rows) for form in forms)],
        ["O(N) against O(N^2)", *(f"{form.error:.1e}" for form in forms)],
    ]
    out = console.out()
    out.print(f"{result.feature_map}, {result.sequence_length:,} tokens\n", markup=False)
    for line in aligned(rows, left=1):
        out.print(line, markup=False)
    if cost:
        for line in ["", *cost_table(cost)]:
            out.print(line, markup=False)
    if saved is not None:
        out.print(f"\nWritten: {console.visible(str(saved))}", markup=False)
    if not brief and len(result.sampled_rows) < result.sequence_length:
        console.note(
            f"negative terms and O(N^2) are of {len(result.sampled_rows)} sampled rows; "
            "--rows N takes more"
        )


def cost_table(cost: tuple[Cost, ...]) -> list[str]:
    """Seconds, then memory: a line for each number of tokens, a column for each form."""
    named = [HEADINGS[each.form] for each in cost]
    lines = []
    for what, field, spoken in (
        ("time", "seconds", seconds),
        ("memory", "peak_bytes", size),
    ):
        rows = [[f"{what}, N", *named]]
        for i, tokens in enumerate(cost[0].sequence_length):
            marks = ["~" if each.reckoned[i] else "" for each in cost]
            values = [spoken(getattr(each, field)[i]) for each in cost]
            rows.append([f"{tokens:,}", *map("".join, zip(marks, values, strict=True))])
        lines += [*aligned(rows), ""]
    dashes = reckoned_from(cost)
    return lines[:-1] if dashes is None else [*lines, f"~ reckoned {dashes}, not computed in full"]


def reckoned_from(cost: tuple[Cost, ...]) -> str | None:
    """From how many rows what was not computed in full was reckoned; None if all was."""
    counts = sorted(
        {rows for each in cost for rows, some in zip(each.rows, each.reckoned, strict=True) if some}
    )
    if not counts:
        return None
    if len(counts) > 1:
        return f"from {counts[0]:,} to {counts[-1]:,} rows"
    return f"from {counts[0]:,} row{'s' * (counts[0] != 1)}"


def seconds(number: float) -> str:
    """With three digits, in the unit that fits."""
    return _scaled(number * 1e6, ("us", "ms", "s"))


def size(count: float) -> str:
    """With three digits, in the unit that fits."""
    return _scaled(count, ("B", "kB", "MB", "GB", "TB"))


def _scaled(number: float, units: tuple[str, ...]) -> str:
    for unit in units[:-1]:
        if number < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} {units[-1]}" if number < 999.5 else f"{number:,.0f} {units[-1]}"
