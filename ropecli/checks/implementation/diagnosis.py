"""One plain sentence that says what is wrong with an implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.implementation import differences
from ropecli.checks.implementation.calls import CALL_FAILED
from ropecli.checks.implementation.measured_oracle import computed_in_half

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ropecli.checks.identify import Identification
    from ropecli.checks.implementation.subject import Subject
    from ropecli.checks.law import Check

#: Meaning of a failure of each law, the most specific law first.
MEANINGS = {
    "same twice": "the same call gives another result the second time: it keeps something",
    "two instances": "two instances of the same size share what should be their own",
    "long, short, long": "a long call changes the short ones after it: the table of the longer "
    "sequence is kept",
    "precision": "less than float32 keeps",
    "original length": "sequences around the original length are turned by the wrong table",
    "offset positions": "positions that do not start at 0 are not followed",
    "gaps in positions": "positions with gaps are not followed",
    "repeated positions": "positions that repeat are not followed",
    "positions backwards": "positions that run backwards are not followed",
    "packed sequences": "positions of packed sequences are not followed",
    "batched positions": "the positions of each sequence of a batch are not followed",
    "left padding": "positions after padding on the left of a batch are not followed",
    "token by token": "a token alone is turned otherwise than in its sequence",
    "axes": "pairs follow the wrong axis of the position",
    "attention factor": "the attention factor is not the same everywhere",
    "norm": "lengths change with the position, as no rotation does",
    "relative position": "scores do not depend on the distance alone",
    "composition": "turning twice is not turning by the sum of the positions",
    "long positions": "rows far from position 0 are wrong",
    "beyond the cache": "rows beyond the context are wrong",
    "negative positions": "negative positions give wrong rows",
    "softmax factor": "the softmax factor is wrong",
    "score": "scores are wrong",
    "input untouched": "the input is written into",
    "dtype and shape": "the dtype or the shape of the input is not kept",
}


def diagnose(subject: Subject, checks: Sequence[Check]) -> str | None:
    """Return the sentence; None if no law fails."""
    failed: dict[str, Check] = {}
    for check in checks:
        if check.passed is False:
            failed.setdefault(check.name, check)
    if not failed:
        return None
    found = subject.identified
    first = {"decoder": "token by token"}.get(subject.implementation.form, "same twice")
    if first in failed or "rotation" in failed:
        return _sentence(failed[first]) if first in failed else _no_rotation(subject, failed)
    if found is not None and computed_in_half(found) and "precision" in failed:
        return f"{found.precision} under {subject.dtype} data: compute them in float32 at least"
    if "convention" in failed and subject.expect is not None and found is not None:
        stretched = _changed_pass_through(subject)
        more = [] if stretched is None else [stretched]
        sentences = differences.sentences(subject.expect, found) + more
        if sentences:
            return "; ".join(sentences)
    if found is not None and (begun := _wrong_offset(found)):
        return begun
    named = next((name for name in MEANINGS if name in failed), next(iter(failed)))
    return _sentence(failed[named])


def _wrong_offset(found: Identification) -> str | None:
    """Describe an offset that all positions have."""
    offset = found.position_offset
    if not offset:
        return None
    return f"positions are offset by {offset:g}: a row at position 0 is turned as at {offset:g}"


def _no_rotation(subject: Subject, failed: Mapping[str, Check]) -> str:
    """Say why it is not a rotation, or not by the positions given, and where that shows first."""
    text = failed["rotation"].note or "it is not a RoPE in any convention"
    if subject.identified is not None and subject.identified.recognised:
        return text
    if subject.identified is not None:
        text = f"it is not a rotation by position: {text}"
    more = _changed_pass_through(subject) or _zeros(subject)
    if more is None and subject.axes > 1:
        more = "pairs do not each follow one axis of the position"
    if more is None and "norm" in failed and subject.why_unidentified is None:
        more = failed["norm"].counterexample
    return text if more is None else f"{text}; {more}"


def _zeros(subject: Subject) -> str | None:
    """Describe coordinates that come back as 0."""
    if subject.first_rows is None or subject.first_rows.any(axis=0).all():
        return None
    lost = np.flatnonzero(~subject.first_rows.any(axis=0))
    return f"coordinates {lost[0]} to {lost[-1]} come back as 0"


def _changed_pass_through(subject: Subject) -> str | None:
    """Describe a change of coordinates that should pass through."""
    if subject.expect is None or subject.first_rows is None:
        return None
    still = np.setdiff1d(np.arange(subject.dim), subject.expect.pairs_in)
    x, y = subject.vectors(len(subject.first_rows), salt=0)[:, still], subject.first_rows[:, still]
    if not len(still) or (np.abs(y - x) <= 2 * subject.repeat_tolerance(x)).all():
        return None
    factor = float((x * y).sum() / (x * x).sum())
    if (np.abs(y - factor * x) <= 2 * subject.repeat_tolerance(x)).all():
        return f"coordinates that are not rotated are multiplied by {factor:.6g}"
    first, last = int(still[0]), int(still[-1])
    return f"coordinates expected to pass through, {first} to {last}, do not"


def _sentence(check: Check) -> str:
    meaning = MEANINGS.get(check.name)
    detail = check.note or check.counterexample
    if check.note is not None and check.note.startswith(CALL_FAILED):
        return check.note
    if meaning is None:
        return detail or f"{check.name} fails"
    return f"{meaning}: {detail}" if detail else meaning


def describe_non_finite(y: NDArray[np.float64]) -> str | None:
    """Say why rows cannot be identified at all; None if they can."""
    bad = ~np.isfinite(y)
    if not bad.any():
        return None
    what = "NaN" if np.isnan(y).any() else "infinite values"
    row = int(bad.any(axis=1).argmax())
    return f"it gives {what} in {int(bad.any(axis=1).sum())} of {len(y)} rows, first in row {row}"
