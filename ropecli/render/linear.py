"""Page and table of `linear`."""

from __future__ import annotations

import numpy as np

from ropecli.analyses.linear import Linear
from ropecli.render import Fields, Table, View
from ropecli.render.console import Screen, paragraphs
from ropecli.render.table import align

#: Formats of the fields of `Attention`, by the heading of their row.
ROWS = {
    "negative terms": "{0.negative_fraction:.2%}",
    "row sum, smallest": "{0.row_sum.min:.4f}",
    "row sum, mean": "{0.row_sum.mean:.4f}",
    "row sum, largest": "{0.row_sum.max:.4f}",
    "denominator, smallest": "{0.denominator_min:.4g}",
    "  if it were rotated": "{0.rotated_denominator_min:.4g}",
    "rows without output": "{0.undefined_rows}",
    "O(N) against O(N^2)": "{0.error:.1e}",
    "": "",
    "next to softmax (Eq. 2)": "",
    "  total variation": "{0.importance.total_variation:.4g}",
    "  rank correlation": "{0.importance.rank_correlation:.4g}",
    "  entropy, linear": "{0.importance.entropy:.4g}",
    "  entropy, softmax": "{0.importance.softmax_entropy:.4g}",
}

#: Fields of a form, and of the document: facts without a name of causality are bidirectional.
FACTS = (
    *("negative_fraction", "row_sum", "denominator_min", "rotated_denominator_min"),
    *("undefined_rows", "importance"),
)
DOCUMENT: Fields = (
    *("feature_map", "sequence_length", ("sampled_rows", lambda result: len(result.sampled_rows))),
    *(f"bidirectional.{name}" for name in FACTS),
    *("bidirectional.error as quadratic_vs_linear_error", ("causal", FACTS)),
    "causal.error as causal_error",
)


def table(result: Linear) -> Table:
    """Return a row for each output."""
    attended = {"all keys": result.bidirectional, "causal": result.causal}
    outputs = np.concatenate([attention.output for attention in attended.values()])
    count = len(result.causal.output)
    return {
        "attention": [name for name in attended for _ in range(count)],
        "token": np.tile(np.arange(count), 2),
        **{f"output_{i}": column for i, column in enumerate(outputs.T)},
    }


def page(result: Linear, _: Screen) -> list[str]:
    """Return a table with a column for each form."""
    forms = (result.bidirectional, result.causal)
    rows = [["", "all keys", "causal"]]
    for heading, form in ROWS.items():
        rows.append([heading, *(form.format(variant).replace("%", " %") for variant in forms)])
    title = f"{result.feature_map}, {result.sequence_length:,} tokens"
    return paragraphs([f"{_answer(result)}."], [title], align(rows, left=1))


def _answer(result: Linear) -> str:
    """Return whether the weights are a distribution, as those of softmax are."""
    both, causal = result.bidirectional, result.causal
    negative = f"{both.negative_fraction:.2%}".replace("%", " %")
    said = f"{negative} of the weights are negative; a row sums to {both.row_sum.mean:.3g}"
    lost = max(both.undefined_rows, causal.undefined_rows)
    rows = f"; {lost:,} of {result.sequence_length:,} rows have no output" if lost else ""
    return f"{said} on average, not 1{rows}"


VIEW = View(page=page, document=DOCUMENT, table=table)
