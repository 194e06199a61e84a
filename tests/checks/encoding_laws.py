"""Laws of ropecli's own positional encodings: scores, codes and outputs against the formulas.

Formulas imply most of what papers say of them: symmetry, bounds, what a shift does to a code, how
many distances have a bucket. So what is judged is the formula, at every option, and what samples of
it can't reach: positions far away, and those that a table does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from law_options import reference_options, turns_of, variants
from law_subjects import (
    LAST,
    EncodingSubject,
    Tokens,
    compare,
    rounding,
    samples,
    saturation,
    size,
    worst_of,
)

from ropecli.arrays import Array
from ropecli.checks.law import Check, Law, Outcome, judge, law, no_verdict
from ropecli.encodings import Encoding
from ropecli.errors import ArgumentError
from ropecli.reference import scores as reference
from ropecli.units import DOUBLE

ROUNDING = (
    "each term of a score passes 2 model_dim + head_dim sums and products and an angle or bias of "
    "at most the position, with 2^-53 each, on both sides"
)
SUMS = "each term of an output passes model_dim products and a sum over keys, 2^-53 each"
ANGLES = "an angle has a rounding of its frequency, its product and its sine: 4 x 2^-53 of it"
EXACT = "refused or not: nothing is rounded"
SHIFTED = 6  #: Tokens that are moved.
NEAR, FAR = 37, 1009  #: Positions that they are moved by; the second one past saturation.


def _reference(encoding: Encoding, tokens: Tokens) -> Array:
    """Return the scores of the paper's formula."""
    formula = getattr(reference, encoding.name)
    options = reference_options(encoding)
    where = (tokens.x, tokens.y, tokens.m, tokens.n)
    scores: Array = formula(*where, encoding.weights, **options)
    return scores


@law("scores = reference", because=ROUNDING)
def scores_match_reference(subject: EncodingSubject) -> Outcome:
    """Scores are those of the paper's formula, at every option."""
    return worst_of(
        compare(_scores(each, tokens), expected, rounding(each, tokens, expected), words)
        for words, each in variants(subject.encoding, subject.given)
        for tokens in samples(each, subject.seed)
        for expected in [_reference(each, tokens)]
    )


def _scores(encoding: Encoding, tokens: Tokens) -> Array:
    return encoding.scores(tokens.x, tokens.y, tokens.m, tokens.n)


@law("outputs = reference", because=SUMS)
def outputs_match_reference(subject: EncodingSubject) -> Outcome:
    """Outputs of given attention are those of the paper's formula, at every option."""
    found = []
    for words, each in variants(subject.encoding, subject.given):
        tokens, _ = samples(each, subject.seed)
        random = np.random.default_rng(subject.seed)
        shape = (each.sizes.heads, len(tokens.m), len(tokens.n))
        attention = random.uniform(0, 1, shape) / shape[2]
        expected = _reference_output(each, attention, tokens)
        got = each.output(attention, tokens.y, tokens.m, tokens.n)
        roundings = each.sizes.model_dim + shape[2] + 4 * LAST
        largest = size(tokens.y, each.weights["value"]) + np.abs(expected).max()
        found.append(compare(got, expected, 2 * DOUBLE * roundings * largest, words))
    return worst_of(found)


def _reference_output(encoding: Encoding, attention: Array, tokens: Tokens) -> Array:
    weights, y = encoding.weights, tokens.y
    if encoding.name == "shaw":
        options = reference_options(encoding)
        return reference.shaw_output(attention, y, tokens.m, tokens.n, weights, **options)
    if encoding.name in ("learned", "sinusoidal"):
        y = y + _reference_codes(encoding, tokens.n)
    return reference.output(attention, y, weights)


@law("translation invariance", because=ROUNDING)
def translation_is_as_theory_says(subject: EncodingSubject) -> Outcome:
    """S(m+s, n+s) - S(m, n) is 0, or what the formula has; near and far away."""
    encoding = subject.encoding
    random = np.random.default_rng(subject.seed)
    count, shifts = _shifts(encoding)
    if count == 0:
        return no_verdict("the table has one position")
    m = np.arange(float(count))
    x, y = random.standard_normal((2, count, encoding.sizes.model_dim))
    tokens = [Tokens(x=x, y=y, m=m + s, n=m + s) for s in (0.0, *shifts)]
    here, *there = (_scores(encoding, each) for each in tokens)
    moved = np.stack(there) - here
    largest = max(np.abs(each).max() for each in (here, *there))
    tolerance = 2 * rounding(encoding, tokens[-1], np.array([largest]), last=shifts[-1] + count)
    words = "S(m+s, n+s) - S(m, n)"
    outcome = compare(moved, np.zeros_like(moved), tolerance, words)
    if encoding.theory.translation_invariant:
        return outcome
    first, *rest = (_reference(encoding, each) for each in tokens)
    formula = compare(moved, np.stack(rest) - first, tolerance, words)
    if outcome.passed:
        return replace(outcome, passed=False, note="theory says that this law fails, and it held")
    if not formula.passed:
        return replace(formula, note="it fails, but not by what the formula has")
    return formula


def _shifts(encoding: Encoding) -> tuple[int, list[float]]:
    """Return how many tokens are moved, and by how many positions: as far as a table goes."""
    length = getattr(encoding, "length", None)
    if length is None:
        return SHIFTED, [float(NEAR), FAR + saturation(encoding)]
    count = min(SHIFTED, length // 2)
    return count, [float(length - count)]


@law("codes = reference", because=ANGLES)
def codes_match_reference(subject: EncodingSubject) -> Outcome:
    """Codes of positions are the formula's: of fractions too, where it has them."""
    found = []
    for words, each in variants(subject.encoding, subject.given):
        length = getattr(each, "length", None)
        if length is None:
            positions = np.array([0.0, 1, 2, 3, 0.5, 17.25, -2, 64, LAST, FAR])
        else:
            positions = np.arange(float(length))[:: max(1, length // 64)]
        code: Any = each
        got = np.asarray(code.code(positions)).reshape(len(positions), -1)
        expected = _reference_codes(each, positions)
        largest = np.abs(expected).max()
        angle = 0.0 if length is not None else float(np.abs(positions).max())
        # Of xPos the growth rounds as well, by a few of its exponent.
        found.append(compare(got, expected, DOUBLE * (4 * angle + 16) * largest, words))
    return worst_of(found)


def _reference_codes(encoding: Encoding, positions: Array) -> Array:
    """Return the code of each position by its formula, (positions, width)."""
    sizes, options = encoding.sizes, reference_options(encoding)
    match encoding.name:
        case "sinusoidal":
            rows = [reference.sinusoid(m, sizes.model_dim, **options) for m in positions]
        case "transformer_xl":
            rows = [reference.sinusoid(m, sizes.model_dim, "concatenated") for m in positions]
        case "rope":
            rotary = getattr(encoding, "rotary", None)
            turns = () if rotary is None else turns_of(rotary, rotary.pairs_out)
            rows = [reference.rope_code(m, sizes.head_dim, turns) for m in positions]
        case "xpos":
            rows = [reference.xpos_code(m, sizes.head_dim, **options) for m in positions]
        case _:
            return np.asarray(encoding.weights["positions"][positions.astype(int)])
    return np.array(rows)


@law("refuses positions that its table lacks", because=EXACT)
def refuses_beyond_table(subject: EncodingSubject) -> Outcome:
    """A position before, between or after the table's is refused, of a query and of a key."""
    encoding = subject.encoding
    length = float(getattr(encoding, "length"))  # noqa: B009
    token, inside = np.zeros((1, encoding.sizes.model_dim)), np.zeros(1)
    refused = []
    for position in (-1.0, 0.5, length, length + 1, 2 * length + 1):
        beyond = np.array([position])
        for m, n in ((beyond, inside), (inside, beyond)):
            try:
                encoding.scores(token, token, m, n)
                refused.append(0.0)
            except ArgumentError:
                refused.append(1.0)
    return compare(np.array(refused), np.ones(len(refused)), 0.0)


def laws_of(encoding: Encoding) -> Iterator[Law[EncodingSubject]]:
    """Yield the laws that say anything of an encoding, with the equation of its paper."""
    equation = encoding.equation
    yield replace(scores_match_reference, equation=equation)
    of_output = equation if encoding.name == "shaw" else "2, 3"
    yield replace(outputs_match_reference, equation=of_output)
    yield replace(translation_is_as_theory_says, equation=equation)
    if hasattr(encoding, "code"):
        yield replace(codes_match_reference, equation=equation)
    if hasattr(encoding, "length"):
        yield replace(refuses_beyond_table, equation=equation)


def judge_encoding(encoding: Encoding, *, seed: int = 0, **given: Any) -> list[Check]:
    """Judge an encoding with the weights that it has, at every option that is not given."""
    subject = EncodingSubject(encoding=encoding, seed=seed, given=given)
    return judge(laws_of(encoding), subject, "float64", "")
