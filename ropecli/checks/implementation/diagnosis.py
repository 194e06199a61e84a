"""One plain sentence that says what is wrong with an implementation, and its likely cause."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ropecli.arrays import Array
from ropecli.checks.accuracy import table_roundings
from ropecli.checks.expectation import MUST
from ropecli.checks.identify import Identification
from ropecli.checks.implementation.causes import find_mistake
from ropecli.checks.implementation.laws import MOST_SPECIFIC_FIRST
from ropecli.checks.implementation.laws.recognition import describe_scale
from ropecli.checks.implementation.laws.shapes import AS_ROWS_DO, FEWER_HEADS
from ropecli.checks.implementation.laws.state import COMES_BACK, NO_EFFECT, short
from ropecli.checks.implementation.oracle import computed_in_half
from ropecli.checks.implementation.probe import describe_non_finite
from ropecli.checks.implementation.rows import CALL_FAILED
from ropecli.checks.implementation.subject import Subject
from ropecli.checks.law import Check, Explains
from ropecli.rotary.rotary import Rotary
from ropecli.units import SINGLE

#: Relative difference of factors, and of a step, that is worth a sentence. bfloat16, whose unit is
#: 2^-8, shows them to 1e-4 over the 2,304 rows that are looked at; factors of real types are
#: further apart, the least of them 0.07 ln 1.1, 7e-3.
CLOSE = 1e-3
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
SURE = 1e-4  #: Relative difference of frequencies that are said to be the same.


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
    found = subject.evidence.identified
    first = {"decoder": "token by token"}.get(subject.implementation.form, "same twice")
    if first in failed:
        return first, _sentence(failed[first])
    # Checks of all shapes say better which rows part from the rotation of the others.
    named_by_shapes = subject.evidence.parting is not None and {*WHOLE_DESIGN} & failed.keys()
    if "rotation" in failed and not named_by_shapes:
        return "rotation", _no_rotation(subject, failed)
    if found is not None and computed_in_half(found) and "precision" in failed:
        text = f"{found.precision} under {subject.dtype} data: compute them in float32 at least"
        return "precision", text
    if "convention" in failed and subject.expect is not None and found is not None:
        stretched = _changed_pass_through(subject)
        more = [] if stretched is None else [stretched]
        if explains.get("every shape"):  # of which what was found may be the rotation
            more.append(_sentence(failed["every shape"]))
        sentences = _differences(subject.expect, found, subject.offset) + more
        if sentences:
            return "convention", "; ".join(sentences)
    if "keys" in failed and (failed["keys"].note or "").startswith(FEWER_HEADS):
        return "keys", _sentence(failed["keys"])
    specific = [law.name for law in MOST_SPECIFIC_FIRST if law.name in failed]
    if len(specific) > 1 and _is_of_wrong_rows(failed.get("gradient")):
        specific.remove("gradient")
    # A statement about shapes explains why calls of that shape fail other checks.
    shapes = [each for each in WHOLE_DESIGN if each in failed and explains.get(each)]
    named = shapes[0] if shapes and not {*specific} & STATE else (specific or [*failed])[0]
    return named, _sentence(failed[named])


def _is_of_wrong_rows(check: Check | None) -> bool:
    """True if a gradient is wrong because the rows are."""
    return check is not None and (check.note or "").endswith(AS_ROWS_DO)


def _followers(subject: Subject, cause: str, explains: Mapping[str, Explains]) -> set[str]:
    """Return the checks whose failures another one's explains."""
    found = subject.evidence.identified
    laws = {law.name for law in MOST_SPECIFIC_FIRST} - OF_THEIR_OWN - {cause}
    if cause == "convention" and found is not None and found.recognised:
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
    found, expect = subject.evidence.identified, subject.expect
    if expect is not None and expect.softmax_factor != 1:
        sentences.append(
            f"the score needs a factor {expect.softmax_factor:.6g} besides the rotation, which a "
            "rotation does not show"
        )
    if found is None or not found.recognised:
        return tuple(sentences)
    if (offset := subject.offset) and subject.expectation.offset_ground == MUST:
        sentences.append(
            f"positions start at {offset:g}: the first token is rotated as position {offset:g}"
        )
    if expect is not None:
        return tuple(sentences)
    if found.base is not None and not LEAST_BASE <= found.base <= LARGEST_BASE:
        sentences.append(
            f"the base is {found.base:.4g}, where models have {LEAST_BASE:g} to {LARGEST_BASE:g}"
        )
    if subject.axes > 1 and found.rotary is not None and found.base is None:
        sentences += _describe_axes(found.rotary)
    width = found.rotary_dim
    if width is not None and 0 < subject.dim - width <= FORGOTTEN and subject.dim > LEAST_DIM:
        pairs = (subject.dim - width) // 2
        sentences.append(
            f"{width} of {subject.dim} coordinates are rotated: "
            f"{'a pair was' if pairs == 1 else f'{pairs} pairs were'} probably forgotten"
        )
    return tuple(sentences)


def _describe_axes(rotary: Rotary) -> list[str]:
    """Say that each axis has the frequencies of a head of its own, if all have one base."""
    sizes, bases = [], []
    if rotary.axis is None:
        return []
    for row in rotary.frequencies:
        logs = -np.log([theta for theta in row if theta])
        index = np.arange(len(logs))
        if len(logs) < 2:
            return []
        step = float((index * logs).sum() / (index**2).sum())
        if np.abs(logs - step * index).max() > SURE:
            return []
        sizes.append(2 * len(logs))
        bases.append(float(np.exp(step * len(logs))))
    if np.ptp(bases) > CLOSE * min(bases):
        return []
    base, listed = float(f"{np.mean(bases):.4g}"), "/".join(map(str, sizes))
    return [f"axes of {listed} coordinates, each with the frequencies of base {base:g}"]


def _no_rotation(subject: Subject, failed: Mapping[str, Check]) -> str:
    """Say why it is not a rotation, or not by the positions given, and where that shows first."""
    text = failed["rotation"].note or "it is not a RoPE in any convention"
    if subject.evidence.identified is not None and subject.evidence.identified.recognised:
        return text
    if subject.evidence.identified is not None:
        text = f"it is not a rotation by position: {text}"
    more = _changed_pass_through(subject) or _zeros(subject)
    if more is None and subject.axes > 1:
        more = "the angles of its pairs are not proportional to the axes of the position"
    return text if more is None else f"{text}; {more}"


def _zeros(subject: Subject) -> str | None:
    """Describe coordinates that come back as 0."""
    rows = subject.evidence.first_rows
    if rows is None or rows.any(axis=0).all():
        return None
    lost = np.flatnonzero(~rows.any(axis=0))
    return f"coordinates {lost[0]} to {lost[-1]} come back as 0"


def _changed_pass_through(subject: Subject) -> str | None:
    """Describe a change of coordinates that should pass through."""
    rows = subject.evidence.first_rows
    if subject.expect is None or rows is None:
        return None
    still = np.setdiff1d(np.arange(subject.dim), subject.expect.pairs_in)
    x, y = short(subject).x[:, still], rows[:, still]
    if not len(still) or (np.abs(y - x) <= 2 * subject.repeat_tolerance(x)).all():
        return None
    factor = float((x * y).sum() / (x * x).sum())
    if (np.abs(y - factor * x) <= 2 * subject.repeat_tolerance(x)).all():
        return f"coordinates that are not rotated are multiplied by {factor:.6g}"
    first, last = int(still[0]), int(still[-1])
    return f"coordinates expected to pass through, {first} to {last}, do not"


def _sentence(check: Check) -> str:
    meaning = next((law.meaning for law in MOST_SPECIFIC_FIRST if law.name == check.name), "")
    detail = check.note or check.counterexample
    note = check.note or ""
    if note.startswith(CALL_FAILED) or note.endswith(NO_EFFECT):
        return note
    if not meaning:
        return detail or f"{check.name} fails"
    return f"{meaning}: {detail}" if detail else meaning


def _differences(expect: Rotary, found: Identification, offset: float) -> list[str]:
    """Describe each difference in a sentence, the most important one first."""
    rope = found.rotary
    if rope is None:
        return []
    texts = [_compare_coordinates(expect, rope) or _compare_pairs(expect, rope)]
    if expect.axis is None:
        texts += [_compare_tables_of_axes(expect, rope), _compare_attention_factors(expect, rope)]
        return [text for text in texts if text]
    if rope.direction != expect.direction:
        texts.append(
            f"it turns {_direction_name(rope)}, expected {_direction_name(expect)}: negate the "
            "sines, or swap the pairs"
        )
    texts += [
        _compare_axes(expect, rope),
        _compare_positions(found, offset),
        _compare_frequencies(expect, rope, found),
    ]
    texts.append(_compare_attention_factors(expect, rope))
    return [text for text in texts if text]


def _compare_attention_factors(expect: Rotary, rope: Rotary) -> str | None:
    factor, wanted = rope.attention_factor, expect.attention_factor
    if math.isclose(factor, wanted, rel_tol=CLOSE):
        return None
    fix = f"multiply cos and sin by {wanted / factor:.6g}"
    if math.isclose(factor, 1.0, rel_tol=CLOSE):
        fix = "multiply cos and sin by it"
    elif math.isclose(factor, wanted**2, rel_tol=CLOSE):
        fix = "it is applied twice"
    return f"attention factor {factor:.6g}, expected {wanted:.6g}: {fix}"


def _compare_coordinates(expect: Rotary, rope: Rotary) -> str | None:
    same_dim = rope.rotary_dim == expect.rotary_dim
    if same_dim and rope.rotary_offset == expect.rotary_offset:
        return None
    where = f"{_layout_name(rope)}, " if rope.layout != expect.layout else ""
    return (
        f"it rotates {where}{rope.rotary_dim} coordinates from {rope.rotary_offset} on, expected a "
        f"rotary dim of {expect.rotary_dim} from {expect.rotary_offset} on"
        + (f", {_layout_name(expect)}" if where else "")
        + f" (pairs {rope.input_pairs[0]}, ..., expected {expect.input_pairs[0]}, ...)"
    )


def _compare_pairs(expect: Rotary, rope: Rotary) -> str | None:
    # The two coordinates of a pair may come in either order: that is a direction.
    if {frozenset(pair) for pair in rope.input_pairs} != {
        frozenset(pair) for pair in expect.input_pairs
    }:
        first, wanted = rope.input_pairs[0], expect.input_pairs[0]
        fix = (
            "(2i, 2i+1)" if expect.layout == "interleaved" else f"(i, i + {wanted[1] - wanted[0]})"
        )
        if expect.layout == "custom" or rope.layout == "custom":
            return (
                f"it pairs coordinates {first}, ..., expected pairs {wanted}, ... "
                f"({_layout_name(expect)})"
            )
        return (
            f"it rotates {_layout_name(rope)}, expected {_layout_name(expect)}: permute the q/k "
            f"weights or pair {fix}"
        )
    if rope.reorders != expect.reorders or rope.output_pairs != expect.output_pairs:
        if rope.reorders and not expect.reorders:
            return (
                f"it reads pairs {_layout_name(rope)} and writes them elsewhere "
                f"({_written_order(rope)}), expected where they were read"
            )
        return f"it writes pairs {_written_order(rope)}, expected {_written_order(expect)}"
    return None


def _written_order(rope: Rotary) -> str:
    first, second = rope.output_pairs[0]
    if second - first == rope.rotary_dim // 2:
        return "half-split"
    return "interleaved" if second - first == 1 else f"at ({first}, {second}), ..."


def _compare_axes(expect: Rotary, rope: Rotary) -> str | None:
    if rope.axis is None or expect.axis is None:
        return _more_axes(expect, rope)
    if len(rope.axis) != len(expect.axis) or rope.axis == expect.axis:
        return None
    pair = next(i for i, (a, b) in enumerate(zip(rope.axis, expect.axis, strict=True)) if a != b)
    return (
        f"pair {pair} follows axis {rope.axis[pair]} of the position, expected {expect.axis[pair]}"
    )


def _more_axes(expect: Rotary, rope: Rotary) -> str | None:
    pair = int(np.count_nonzero(rope.frequencies, axis=0).argmax())
    if rope.axis is not None or expect.axis is None or pair >= len(expect.axis):
        return None
    return f"pair {pair} follows several axes of the position, expected axis {expect.axis[pair]}"


def _compare_tables_of_axes(expect: Rotary, rope: Rotary) -> str | None:
    """Describe the difference where several axes rotate a pair."""
    wanted, got = _signed_table(expect), np.zeros_like(_signed_table(expect))
    where = {pair: i for i, pair in enumerate(expect.input_pairs)}
    for pair, column in zip(rope.input_pairs, _signed_table(rope).T, strict=True):
        sign = 1 if pair in where else -1  # either coordinate may be the first one
        place = where.get(pair if sign == 1 else (pair[1], pair[0]))
        if place is not None:
            got[: len(column), place] = sign * column
    for words, table in _mistaken_tables(wanted):
        if (np.abs(got - table) <= SURE * np.abs(wanted).max(axis=0)).all():
            return words
    axis, column = divmod(int(np.abs(got - wanted).argmax()), wanted.shape[1])
    return (
        f"pair {column} rotates by {got[axis, column]:.6g} per position along axis {axis}, "
        f"expected {wanted[axis, column]:.6g}"
    )


def _signed_table(rope: Rotary) -> Array:
    return np.array(rope.frequencies) * (1 if rope.direction == "forward" else -1)


def _mistaken_tables(table: Array) -> Iterator[tuple[str | None, Array]]:
    """Yield the table of several axes as it should be, and as common mistakes make it."""
    yield None, table
    yield "it turns the other way: negate the sines, or swap the pairs", -table
    yield "the axes of the position are exchanged", table[::-1]
    for axis in range(len(table)):
        own = np.arange(len(table))[:, None] == axis
        yield f"axis {axis} of the position is left out", np.where(own, 0.0, table)
        yield f"axis {axis} of the position rotates the other way", np.where(own, -table, table)


def _compare_positions(found: Identification, offset: float) -> str | None:
    if found.position_step is not None and abs(found.position_step - 1) > CLOSE:
        return describe_scale(found.position_step)
    if found.position_offset is not None and abs(found.position_offset - offset) > CLOSE:
        return f"positions have an offset of {found.position_offset:g}, expected {offset:g}"
    return None


def _compare_frequencies(expect: Rotary, rope: Rotary, found: Identification) -> str | None:
    here, there = rope.diagonal_inv_freq, expect.diagonal_inv_freq
    if len(here) != len(there):
        text = _compare_formulas(expect, rope)
        return None if rope.formula is None else text
    allowed = (table_roundings(expect) * SINGLE + 1e-5) * np.abs(there)
    if (np.abs(here - there) <= allowed).all():
        return None
    pair = int((np.abs(here - there) / np.maximum(np.abs(there), 1e-300)).argmax())
    unsure = np.zeros(len(here)) if found.uncertainty is None else found.uncertainty
    text = find_mistake(expect, here, unsure) or _compare_formulas(expect, rope)
    return (
        f"other frequencies: {text or 'as measured'}; pair {pair} turns by {here[pair]:.6g} "
        f"per position, expected {there[pair]:.6g}"
    )


def _compare_formulas(expect: Rotary, rope: Rotary) -> str | None:
    """Describe base and rope type, or the parameters of the same type that differ."""
    if rope.formula is not None and rope.rope_type == expect.rope_type:
        ours, theirs = dict(rope.parameters), dict(expect.parameters)
        differ = [
            f"{key} {_short_repr(ours.get(key))}, expected {_short_repr(theirs.get(key))}"
            for key in sorted({*ours, *theirs} - {"dim"})
            if _short_repr(ours.get(key)) != _short_repr(theirs.get(key))
        ]
        return "; ".join(differ) or None
    return f"the frequencies are those of {_formula_name(rope)}, expected {_formula_name(expect)}"


def _formula_name(rope: Rotary) -> str:
    if rope.formula is None:
        return "no known type"
    given = dict(rope.parameters)
    names = ("factor", "original_max_position_embeddings", "truncate")
    own = "".join(
        f", {key} {_short_repr(given[key])}" for key in names if given.get(key) is not None
    )
    base = "" if rope.base is None else f", base {rope.base:.10g}"
    return f"{rope.rope_type}{base}{own}"


def _short_repr(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _direction_name(rope: Rotary) -> str:
    return "forward" if rope.direction == "forward" else "in reverse"


def _layout_name(rope: Rotary) -> str:
    return {"half": "half-split", "custom": "pairs of its own"}.get(rope.layout, rope.layout)
