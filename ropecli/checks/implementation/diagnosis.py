"""One plain sentence that says what is wrong with an implementation, and its likely cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ropecli.checks.expectation import MUST
from ropecli.checks.identify import Identification
from ropecli.checks.identify.differences import CLOSE, compare_positions, list_differences
from ropecli.checks.identify.family import other_exponents
from ropecli.checks.identify.mistakes import ALIKE
from ropecli.checks.implementation.calling.expressions import PLACES, ROLES_OF_UNKNOWN_NAME
from ropecli.checks.implementation.calling.vocabulary import roles
from ropecli.checks.implementation.convention import CACHES, TABLES
from ropecli.checks.implementation.interface import Implementation
from ropecli.checks.implementation.laws import MOST_SPECIFIC_FIRST
from ropecli.checks.implementation.laws.shapes import AS_ROWS_DO, FEWER_HEADS
from ropecli.checks.implementation.laws.state import COMES_BACK, NO_EFFECT
from ropecli.checks.implementation.oracle import computed_in_half
from ropecli.checks.implementation.probe import describe_non_finite
from ropecli.checks.implementation.rows import CALL_FAILED
from ropecli.checks.implementation.subject import Subject
from ropecli.checks.law import Check, Explains
from ropecli.names import join
from ropecli.rotary.rotary import Rotary

#: Bases of released models, from axial encodings of images to contexts of millions of tokens.
LEAST_BASE, LARGEST_BASE = 10.0, 1e12
#: Coordinates that a partial rotary does not leave alone on purpose: the least share that models
#: do not rotate is a quarter, so that 2 are few in any head dim above 8.
FORGOTTEN, LEAST_DIM = 2, 8
#: Checks that make calls of every kind, those that see more shapes first.
WHOLE_DESIGN = ("every shape", "every position")
#: Checks of what calls leave behind, which may show in any later call.
STATE = {"same twice", "two instances", "long, short, long", "precision", "original length"}
#: Checks whose failure no other one explains.
OF_THEIR_OWN = {
    "independent rows",
    "input untouched",
    "dtype and shape",
    "memory",
    "gradient",
    "keys",
}
#: Checks that compare with the encoding expected, and those whose calls have heads or a batch.
OF_WHAT_IS_EXPECTED = {"axes", "original length"}
OF_LARGE_CALLS = {"batched positions", "left padding", *WHOLE_DESIGN}


def diagnose(
    subject: Subject, checks: Sequence[Check], explains: Mapping[str, Explains]
) -> tuple[str | None, list[Check]]:
    """Return the sentence, None if no check fails, and the checks, with what follows from which."""
    failed: dict[str, Check] = {}
    for check in checks:
        if check.passed is False:
            failed.setdefault(check.name, check)
    if not failed:
        return None, [*checks]
    cause, sentence = _cause(subject, failed, explains)
    name, half = subject.implementation.half_by_default or ("", "")
    if half and any(
        text in sentence for text in (f"cos and sin are rounded to {half}", f"{half} tables")
    ):
        sentence = f"tables are {half} by default: set the parameter {name} to float32 at least"
    rows = subject.evidence.first_rows
    lost = None if rows is None else describe_non_finite(rows)
    dtype = failed[cause].dtype
    if dtype and dtype != subject.dtype and dtype not in sentence:
        sentence = f"{sentence}, in {dtype}"
    if lost is not None and lost not in sentence:
        sentence = f"{lost}; {sentence}"
    followers = _followers(subject, cause, explains)
    if cause != "gradient" and _is_of_wrong_rows(failed.get("gradient")):
        followers.add("gradient")
    return sentence, [
        replace(check, follows=cause)
        if check.passed is False and check.name in followers
        else check
        for check in checks
    ]


def _cause(
    subject: Subject, failed: Mapping[str, Check], explains: Mapping[str, Explains]
) -> tuple[str, str]:
    """Return the check that comes closest to the cause, and the sentence."""
    identified = subject.evidence.identified
    first = {"decoder": "token by token"}.get(subject.implementation.form, "same twice")
    if first in failed:
        return first, _sentence(failed[first])
    # Checks of all shapes say better which rows part from the rotation of the others.
    named_by_shapes = subject.evidence.parting is not None and {*WHOLE_DESIGN} & failed.keys()
    if "rotation" in failed and not named_by_shapes:
        return "rotation", _no_rotation(subject, failed)
    if identified is not None and computed_in_half(identified) and "precision" in failed:
        text = (
            f"{identified.precision} under {subject.dtype} data: compute them in float32 at least"
        )
        return "precision", text
    if "convention" in failed and subject.expect is not None and identified is not None:
        sentences = _differences(identified, subject.expect, subject.offset)
        if explains.get("every shape"):  # of which what was found may be the rotation
            sentences.append(_sentence(failed["every shape"]))
        if sentences:
            return "convention", "; ".join(sentences)
    if "keys" in failed and (failed["keys"].note or "").startswith(FEWER_HEADS):
        return "keys", _sentence(failed["keys"])
    specific = [law.name for law in MOST_SPECIFIC_FIRST if law.name in failed]
    if len(specific) > 1 and _is_of_wrong_rows(failed.get("gradient")):
        specific.remove("gradient")
    # A statement about shapes explains why calls of that shape fail other checks.
    shapes = [axis for axis in WHOLE_DESIGN if axis in failed and explains.get(axis)]
    named = shapes[0] if shapes and not {*specific} & STATE else (specific or [*failed])[0]
    return named, _sentence(failed[named])


def _is_of_wrong_rows(check: Check | None) -> bool:
    """True if a gradient is wrong because the rows are."""
    return check is not None and (check.note or "").endswith(AS_ROWS_DO)


def _followers(subject: Subject, cause: str, explains: Mapping[str, Explains]) -> set[str]:
    """Return the checks whose failures another one's explains."""
    identified = subject.evidence.identified
    laws = {law.name for law in MOST_SPECIFIC_FIRST} - OF_THEIR_OWN - {cause}
    if cause == "convention" and identified is not None and identified.recognised:
        return laws & OF_WHAT_IS_EXPECTED  # the others compare with the rotation found
    if explains.get(cause) == "large calls":
        return laws & OF_LARGE_CALLS
    return laws


def findings(subject: Subject, checks: Sequence[Check]) -> tuple[str, ...]:
    """Return what is unusual about an implementation and yet no failure, a sentence each."""
    every = [c.note for c in checks if c.passed is None and c.note and COMES_BACK in c.note]
    sentences = list(dict.fromkeys(every))
    if more := subject.implementation.ignored:
        arrays = "another array" if more == 1 else f"{more} further arrays"
        sentences.append(f"it returns {arrays}, which nobody gave and nothing is compared with")
    if subject.read_only and subject.read_only != {*subject.dtypes}:
        some = " and ".join(sorted(subject.read_only))
        sentences.append(f"it writes into its input in {some}: input that is read-only is refused")
    sentences += filter(None, [_positions_left_out(subject.implementation)])
    identified, expect = subject.evidence.identified, subject.expect
    if expect is not None and expect.softmax_factor != 1:
        sentences.append(
            f"the score needs a factor {expect.softmax_factor:.6g} besides the rotation, which a "
            "rotation does not show"
        )
    if identified is None or not identified.recognised:
        return tuple(sentences)
    if (offset := subject.offset) and subject.expectation.offset_ground == MUST:
        sentences.append(
            f"positions start at {offset:g}: the first token is rotated as position {offset:g}"
        )
    if expect is not None:
        return tuple(sentences)
    if identified.base is not None and not LEAST_BASE <= identified.base <= LARGEST_BASE:
        sentences.append(
            f"the base is {identified.base:.4g}, "
            f"where models have {LEAST_BASE:g} to {LARGEST_BASE:g}"
        )
    if identified.rotary is not None:
        sentences += other_exponents(identified.rotary.formula)
    if subject.axes > 1 and identified.rotary is not None:
        sentences += _describe_still_axes(identified.rotary, subject.axes)
    if subject.axes > 1 and identified.rotary is not None and identified.base is None:
        sentences += _describe_axes(identified.rotary)
    width = identified.rotary_dim
    if width is not None and 0 < subject.dim - width <= FORGOTTEN and subject.dim > LEAST_DIM:
        pairs = (subject.dim - width) // 2
        sentences.append(
            f"{width} of {subject.dim} coordinates are rotated: "
            f"{'a pair was' if pairs == 1 else f'{pairs} pairs were'} probably forgotten"
        )
    return tuple(sentences)


def _positions_left_out(implementation: Implementation) -> str | None:
    """Name the parameters for positions that keep their defaults: a call without them is right."""
    if implementation.convention.names & {*PLACES, *TABLES, *CACHES}:
        return None
    every = implementation.description.all_parameters
    named = {p.name: roles(p.name, 1, p.annotation) for p in every if not p.required}
    places = [
        f"`{name}`"
        for name, may_be in named.items()
        if may_be != ROLES_OF_UNKNOWN_NAME and may_be[:1] and may_be[0] in PLACES
    ]
    if not places:
        return None
    return f"no call gives {join(places)}, a position by its name: --call judges calls with it"


def _describe_still_axes(rotary: Rotary, axes: int) -> list[str]:
    """Name the axes of the position that rotate no pair."""
    table = np.atleast_2d(rotary.frequencies)
    moving = [axis < len(table) and bool(np.any(table[axis])) for axis in range(axes)]
    still = [axis for axis, moves in enumerate(moving) if not moves]
    return [f"axis {axis} of the position rotates nothing" for axis in still]


def _describe_axes(rotary: Rotary) -> list[str]:
    """Say that each axis has the frequencies of a head of its own, if all have one base."""
    axes = [np.array([theta for theta in row if theta]) for row in rotary.frequencies]
    if rotary.axis is None or min(map(len, axes)) < 2:
        return []
    index = [np.arange(len(table)) / len(table) for table in axes]
    bases = [float(table[-1] ** (-1 / at[-1])) for table, at in zip(axes, index, strict=True)]
    for table, at, base in zip(axes, index, bases, strict=True):
        if not np.allclose(table, base**-at, rtol=ALIKE, atol=0):
            return []
    if np.ptp(bases) > CLOSE * min(bases):
        return []
    base, listed = float(f"{np.mean(bases):.4g}"), "/".join(str(2 * len(table)) for table in axes)
    return [f"axes of {listed} coordinates, each with the frequencies of base {base:g}"]


def _no_rotation(subject: Subject, failed: Mapping[str, Check]) -> str:
    """Say why it is not a rotation, or not by the positions given, and where that shows first."""
    text = failed["rotation"].note or "it is not a RoPE in any convention"
    if subject.evidence.identified is not None and subject.evidence.identified.recognised:
        return text
    if subject.evidence.identified is None:
        return text
    text = f"it is not a rotation by position: {text}"
    if subject.axes > 1 and "not copied" not in text:
        text += "; the angles of its pairs are not proportional to the axes of the position"
    return text


def _sentence(check: Check) -> str:
    meaning = next((law.meaning for law in MOST_SPECIFIC_FIRST if law.name == check.name), "")
    detail = check.note or check.counterexample
    note = check.note or ""
    if note.startswith(CALL_FAILED) or note.endswith(NO_EFFECT):
        return note
    if not meaning:
        return detail or f"{check.name} fails"
    return f"{meaning}: {detail}" if detail else meaning


def _differences(found: Identification, expect: Rotary, offset: float) -> list[str]:
    if found.rotary is None:
        return []
    step, shift = found.position_step or 1.0, found.position_offset
    moved = compare_positions(step, offset if shift is None else shift, offset, CLOSE)
    differ = list_differences(found.rotary, expect, found.uncertainty, details=True)
    return differ if moved is None else [*differ, moved]
