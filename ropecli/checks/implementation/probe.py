"""The first calls of an implementation, which show which rotation it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES, Array
from ropecli.checks.identify import Identification, identify_rows
from ropecli.checks.identify.observe import Inputs, validate_inputs
from ropecli.checks.identify.recover import explain_refusal, recover
from ropecli.checks.implementation.call import Call, ImplementationError, OutOfTime, Unsupported
from ropecli.checks.implementation.laws import recognition, state
from ropecli.checks.implementation.oracle import computed_in_half, oracle_of, refine_frequencies
from ropecli.checks.implementation.rows import compare_first, is_right
from ropecli.checks.implementation.subject import Evidence, Subject
from ropecli.errors import RopecliError

#: Positions from 0 that a rotation is identified by; fewer if they are refused. The first
#: goes past 2^11, the second past 2^8, beyond which float16 and bfloat16 round positions.
ROWS = (2304, 512, 64, 16)
FEW = 64  #: Rows with which the search ends.


def probe(subject: Subject) -> Subject:
    """Make the first calls, before any long one, and return the subject with its rotation."""
    evidence = subject.evidence
    try:
        first, again = (subject.rows(state.short(subject)) for _ in range(2))
    except (ImplementationError, Unsupported) as error:
        return replace(subject, evidence=replace(evidence, why_unidentified=str(error)))
    why = describe_non_finite(first)
    evidence = replace(evidence, first_rows=first, again=again, why_unidentified=why)
    # Rows that are not finite here may be the rest of a tile: other lengths are tried as well.
    for dtype in _dtypes_to_probe(subject):
        evidence, identified = _identify(subject, evidence, dtype)
        recognised = identified is not None and identified.recognised
        if evidence.identified is None or recognised:
            evidence = replace(evidence, identified=identified)
        if not recognised and why is not None:
            evidence = replace(evidence, identified=None, why_unidentified=why)
        if recognised:
            evidence = replace(evidence, dtype=dtype)
            break
    subject = replace(subject, evidence=evidence)
    identified = evidence.identified
    known = identified.rotary if identified is not None and identified.recognised else None
    fits = False
    for rope in subject.expectation.candidates(known):
        subject = replace(subject, expect=rope)
        try:
            fits = is_right(subject.held_to_expected, recognition.first_call(subject))
        except (ImplementationError, Unsupported) as error:
            return replace(subject, evidence=replace(evidence, why_unidentified=str(error)))
        except OutOfTime:
            if known is not None or not _first_rows_are_wrong(subject):
                raise
        if fits:
            break
    if not fits and known is None and not subject.expectation.is_whole:
        subject = replace(subject, expect=None)  # a layout that nobody gave is none to fail by
    return _hold_to(subject, as_expected=fits)


def _first_rows_are_wrong(subject: Subject) -> bool:
    """Return True if rows that are there already are not those of the encoding expected."""
    if subject.evidence.rows is None:
        return False
    x, y, m = subject.evidence.rows
    held = DTYPES[subject.evidence.dtype]
    call = Call(vectors=x.astype(held), positions=m.astype(np.int64))
    every = subject.held_to_expected.oracles_of(call.by_sequence)
    compared, *_ = compare_first(every, call, y[None, None])
    return compared.first is not None


def _hold_to(subject: Subject, *, as_expected: bool) -> Subject:
    """Choose the rotation that rows are compared with: the one expected, or the one found."""
    evidence, oracle = subject.evidence, None
    identified = evidence.identified
    if (
        not as_expected
        and identified is not None
        and identified.recognised
        and identified.rotary is not None
    ):
        oracle = oracle_of(identified, subject.tolerances)
        if evidence.rows is not None and not computed_in_half(identified):
            oracle = refine_frequencies(oracle, *evidence.rows, evidence.dtype)
    elif subject.expect is not None:
        oracle = subject.expected
    return replace(subject, oracle=oracle, as_expected=as_expected)


def _dtypes_to_probe(subject: Subject) -> list[str]:
    """Return the dtypes to probe with, float32 or float64 first where there is one."""
    first = subject.dtype
    if "16" not in first:
        return [first]
    return [*(name for name in ("float32", "float64") if name in subject.dtypes), first]


def _identify(
    subject: Subject, evidence: Evidence, dtype: str
) -> tuple[Evidence, Identification | None]:
    """Identify the rotation that vectors of a dtype show."""
    refused: list[tuple[Identification, Inputs]] = []
    most = min(subject.context, max(subject.original or subject.context, ROWS[-1]))
    for rows in sorted({min(count, most) for count in ROWS}, reverse=True):
        where = _spread(subject, rows)
        call = subject.call(where, 22, dtype)
        try:
            y = subject.rows(call)
        except (ImplementationError, Unsupported) as error:
            evidence = replace(evidence, why_unidentified=str(error))
            continue
        except OutOfTime:
            if not refused:
                raise
            break
        why = describe_non_finite(y)
        evidence = replace(evidence, why_unidentified=why)
        if why is not None:
            continue
        try:
            identified, inputs = _recover(subject, call, y)
        except RopecliError as error:
            evidence = replace(evidence, why_unidentified=str(error))
            break
        evidence = replace(evidence, rows=(call.x, y, call.m))
        if identified.recognised:
            return evidence, identified
        refused.append((identified, inputs))
        if subject.implementation.caller.is_out_of_time:
            break
        if rows <= FEW:
            majority = _identify_most(evidence, dtype, explain_refusal(identified, inputs))
            if majority is not None:
                return majority
            break
    # The most rows say best why: a cache that ends early may hide a rotation.
    return evidence, explain_refusal(*refused[0], parts=0) if refused else None


def _recover(subject: Subject, call: Call, y: Array) -> tuple[Identification, Inputs]:
    """Recover the rotation of rows in a dtype, or in one that is as coarse as the tolerance."""
    named = {} if subject.expect is None else {"expected": subject.expect}
    for after in subject.tolerances.dtypes_as_coarse(call.dtype):
        inputs = validate_inputs(call.vectors, y.astype(DTYPES[after]), call.positions)
        identified = recover(inputs, named)
        if identified.recognised:
            break
    return identified, inputs


def _identify_most(
    evidence: Evidence, dtype: str, found: Identification
) -> tuple[Evidence, Identification] | None:
    """Identify the rotation of most rows, if some deviate; checks then say which ones do."""
    if evidence.rows is None:
        return None
    held, count = DTYPES[dtype], len(evidence.rows[0])
    even = np.arange(count) % 2 == 0
    parts = [(even, "every second row"), (~even, "every second row")] if count > 1 else []
    if found.parting is not None:
        parts[:0] = [(~found.parting.which, f"{found.parting.where} of {count}")]
    for alike, where in parts:
        x, y, m = (rows[alike] for rows in evidence.rows)
        most = identify_rows(x.astype(held), y.astype(held), m, explained=False)
        if most.recognised:
            parting = f"{found.reason} ({where})"
            return replace(evidence, rows=(x, y, m), parting=parting), most
    return None


def _spread(subject: Subject, rows: int) -> NDArray[np.int64]:
    """Return positions 0 to rows - 1, at random on any further axes."""
    count = np.arange(rows)
    if subject.axes == 1:
        return count
    random = np.random.default_rng([subject.seed, rows])
    return np.stack([count, *(random.permutation(rows) for _ in range(subject.axes - 1))], axis=1)


def describe_non_finite(y: Array) -> str | None:
    """Say why rows cannot be identified at all; None if they can."""
    bad = ~np.isfinite(y)
    if not bad.any():
        return None
    what = "NaN" if np.isnan(y).any() else "infinite values"
    row = int(bad.any(axis=1).argmax())
    return f"it gives {what} in {int(bad.any(axis=1).sum())} of {len(y)} rows, first in row {row}"
