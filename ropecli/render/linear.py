"""Words for `linear`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ropecli.render import console
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from ropecli.analyses.linear import Attention, Linear


def as_json(result: Linear) -> dict[str, Any]:
    """The result of `--json`; what says nothing of causality is of the form that sees all keys."""
    return {
        "feature_map": result.feature_map,
        "sequence_length": result.sequence_length,
        "sampled_rows": len(result.sampled_rows),
        **_facts(result.whole),
        "quadratic_vs_linear_error": result.whole.error,
        "causal": _facts(result.causal),
        "causal_error": result.causal.error,
    }


def _facts(form: Attention) -> dict[str, Any]:
    return {
        "negative_fraction": form.negative_fraction,
        "row_sum": dataclasses.asdict(form.row_sum),
        "denominator_min": form.denominator_min,
        "rotated_denominator_min": form.rotated_denominator_min,
        "undefined_rows": form.undefined_rows,
    }


def show(result: Linear, *, brief: bool = False) -> None:
    """Print a table, a column for each form.

    Args:
        result: What was computed.
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
    if not brief and len(result.sampled_rows) < result.sequence_length:
        console.note(
            f"negative terms and O(N^2) are of {len(result.sampled_rows)} sampled rows; "
            "--rows N takes more"
        )
