"""The first calls of a target: which rotation is it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.arrays import DTYPES
from ropecli.checks.implementation.diagnosis import unseen
from ropecli.checks.implementation.failure import TargetError, Unsuited
from ropecli.checks.implementation.laws import convention, state
from ropecli.errors import RopecliError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.identify import Identification
    from ropecli.checks.implementation.subject import Subject

#: Positions from 0 that a rotation is identified by; fewer where the target refuses. The first
#: goes past 2^11, the second past 2^8, beyond which float16 and bfloat16 round positions.
ROWS = (2304, 512, 64, 16)
FEW = 64  #: Of them, with which it is given up.


def meet(subject: Subject) -> None:
    """The first calls, before any long one: keep what they gave, and find out which RoPE it is."""
    try:
        subject.beginning = subject.turn(*state.short(subject))
    except (TargetError, Unsuited) as error:
        subject.unseen = str(error)
        return
    subject.unseen = unseen(subject.beginning)
    if subject.unseen is not None:
        return
    for dtype in _by_sight(subject):
        found = _found(subject, dtype)
        if subject.found is None or (found is not None and found.recognised):
            subject.found = found
        if found is not None and found.recognised:
            subject.sharp = dtype
            break
    if subject.found is not None or subject.expect is not None:
        try:
            fits = subject.expect is not None and bool(convention.expected(subject).passed)
        except (TargetError, Unsuited) as error:
            subject.unseen = str(error)
            return
        subject.adopt(as_expected=fits)


def _by_sight(subject: Subject) -> list[str]:
    """The dtypes that show which rotation it is: float32 or more first, where there is one."""
    first = subject.dtype
    if "16" not in first:
        return [first]
    return [*(name for name in ("float32", "float64") if name in subject.dtypes), first]


def _found(subject: Subject, dtype: str) -> Identification | None:
    """Which rotation the vectors of a dtype show."""
    from ropecli.checks.identify import identify

    best: Identification | None = None
    most = min(subject.context, max(subject.original or subject.context, ROWS[-1]))
    for rows in sorted({min(count, most) for count in ROWS}, reverse=True):
        where = _spread(subject, rows)
        x = subject.vectors(len(where), dtype, salt=22)
        try:
            y = subject.turn(x, where, dtype)
        except (TargetError, Unsuited) as error:
            subject.unseen = str(error)
            continue
        subject.unseen = unseen(y)
        if subject.unseen is not None:
            return None
        held = DTYPES[dtype]
        named = {} if subject.expect is None else {"expected": subject.expect}
        try:
            found = identify(x.astype(held), y.astype(held), where, candidates=named)
        except RopecliError as error:
            subject.unseen = str(error)
            return best
        subject.shown = x, y, where.astype(np.float64)
        if found.recognised or rows <= FEW:
            return found if found.recognised else best or found
        best = best or found  # a cache that ends early may hide a rotation
    return best


def _spread(subject: Subject, rows: int) -> NDArray[np.int64]:
    """Positions 0 to rows - 1; several axes go at paces of their own."""
    count = np.arange(rows)
    if subject.axes == 1:
        return count
    random = np.random.default_rng([subject.seed, rows])
    return np.stack([count, *(random.permutation(rows) for _ in range(subject.axes - 1))], axis=1)
