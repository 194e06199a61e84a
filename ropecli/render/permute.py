"""Page of `permute`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ropecli.render import View
from ropecli.render.console import Screen, visible
from ropecli.render.table import align

if TYPE_CHECKING:
    from ropecli.files.permute.permute import Permuted

#: Tensors of a failed check.
_FOUND = {
    "unmoved": "rows as before the conversion",
    "other": "rows of other values, or in another order",
}
LISTED = 12  #: Tensors on the page; large models have hundreds, all in --json.


DOCUMENT = (
    *("input", "output", "to", "tensors", "proof.scores", "proof.max_score_error"),
    *("proof.max_share as max_tolerance_share", "proof.largest_score", "proof.holds as passed"),
    *("written", "checked", "bytes", "seconds"),
)


def page(result: Permuted, screen: Screen) -> list[str]:
    """Return the verdict, the proof behind it, and the tensors that moved."""
    proof = result.proof
    moved = [tensor for tensor in result.tensors if tensor.permuted]
    name = visible(str(result.output))
    gap = [] if screen.brief else [""]  # in short form, the answer is one paragraph
    if result.checked:
        verdict = "PASS" if proof.holds else "FAIL"
        equal = "the scores are equal" if proof.holds else "the scores differ"
        old = visible(str(result.input))
        lines = [f"{verdict}  {name} against {old} in layout {result.to}: {equal}"]
        for outcome, sentence in _FOUND.items():
            wrong = [tensor.name for tensor in moved if tensor.found == outcome]
            if wrong and not proof.holds:
                more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
                lines += [*gap, f"  {sentence}: {visible(wrong[0])}{more}"]
    elif proof.holds:
        lines = [f"PASS  {name}: {len(moved)} tensors in layout {result.to}, scores are equal"]
    else:
        lines = [f"FAIL  {name} was not written: the scores differ"]
        if math.isnan(proof.max_share):
            lines += [*gap, "  The weights hold NaN, infinities, or numbers whose scores overflow."]
    if not screen.brief:
        part = ""
        if result.rotary_dim != result.head_dim:
            part = f", {result.rotary_dim} rows rotated from {result.rotary_offset}"
        lines += [
            "",
            f"  {result.heads} query and {result.kv_heads} key heads of {result.head_dim}{part}",
            f"  largest score error    {proof.max_score_error:.2g}",
            f"  of its tolerance       {proof.max_share:.2g}",
            f"  largest score          {proof.largest_score:.3g}",
            f"  scores compared        {proof.scores:,}, seed {result.seed}",
            "",
            *_tensors(result),
        ]
        others = len(result.tensors) - len(moved)
        if not result.checked:
            lines += [f"  {others} other tensors, and the metadata, unchanged"]
    return lines


def _tensors(result: Permuted) -> list[str]:
    moved = [tensor for tensor in result.tensors if tensor.permuted]
    rows = [["  permuted", "shape", "dtype", "heads"]]
    rows += [[f"  {visible(t.name)}", f"{t.shape}", t.dtype, f"{t.heads}"] for t in moved[:LISTED]]
    more = [f"  ... and {len(moved) - LISTED} more: --json"] if len(moved) > LISTED else []
    return [*align(rows, left=3), *more]


VIEW = View(page=page, document=DOCUMENT)
