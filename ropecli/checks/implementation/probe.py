"""The first calls of an implementation, which show which rotation it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.arrays import DTYPES
from ropecli.checks.implementation.calls import ImplementationError, Unsupported
from ropecli.checks.implementation.diagnosis import describe_non_finite
from ropecli.checks.implementation.laws import convention, state
from ropecli.errors import RopecliError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.identify import Identification
    from ropecli.checks.implementation.subject import Subject

#: Positions from 0 that a rotation is identified by; fewer if they are refused. The first
#: goes past 2^11, the second past 2^8, beyond which float16 and bfloat16 round positions.
ROWS = (2304, 512, 64, 16)
FEW = 64  #: Rows with which the search ends.


def probe(subject: Subject) -> None:
    """Make the first calls, before any long one, and identify the RoPE."""
    try:
        subject.first_rows = subject.rotate(*state.short(subject))
    except (ImplementationError, Unsupported) as error:
        subject.why_unidentified = str(error)
        return
    subject.why_unidentified = describe_non_finite(subject.first_rows)
    if subject.why_unidentified is not None:
        return
    for dtype in _dtypes_to_probe(subject):
        found = _found(subject, dtype)
        if subject.identified is None or (found is not None and found.recognised):
            subject.identified = found
        if found is not None and found.recognised:
            subject.probe_dtype = dtype
            break
    if subject.identified is not None or subject.expect is not None:
        try:
            fits = subject.expect is not None and bool(convention.as_expected(subject).passed)
        except (ImplementationError, Unsupported) as error:
            subject.why_unidentified = str(error)
            return
        subject.choose_oracle(as_expected=fits)


def _dtypes_to_probe(subject: Subject) -> list[str]:
    """Return the dtypes to probe with, float32 or float64 first where there is one."""
    first = subject.dtype
    if "16" not in first:
        return [first]
    return [*(name for name in ("float32", "float64") if name in subject.dtypes), first]


def _found(subject: Subject, dtype: str) -> Identification | None:
    """Identify the rotation that vectors of a dtype show."""
    from ropecli.checks.identify import identify

    best: Identification | None = None
    most = min(subject.context, max(subject.original or subject.context, ROWS[-1]))
    for rows in sorted({min(count, most) for count in ROWS}, reverse=True):
        where = _spread(subject, rows)
        x = subject.vectors(len(where), dtype, salt=22)
        try:
            y = subject.rotate(x, where, dtype)
        except (ImplementationError, Unsupported) as error:
            subject.why_unidentified = str(error)
            continue
        subject.why_unidentified = describe_non_finite(y)
        if subject.why_unidentified is not None:
            return None
        held = DTYPES[dtype]
        named = {} if subject.expect is None else {"expected": subject.expect}
        try:
            found = identify(x.astype(held), y.astype(held), where, candidates=named)
        except RopecliError as error:
            subject.why_unidentified = str(error)
            return best
        subject.probe_rows = x, y, where.astype(np.float64)
        if found.recognised or rows <= FEW:
            return found if found.recognised else best or found
        best = best or found  # a cache that ends early may hide a rotation
    return best


def _spread(subject: Subject, rows: int) -> NDArray[np.int64]:
    """Return positions 0 to rows - 1, at random on any further axes."""
    count = np.arange(rows)
    if subject.axes == 1:
        return count
    random = np.random.default_rng([subject.seed, rows])
    return np.stack([count, *(random.permutation(rows) for _ in range(subject.axes - 1))], axis=1)
