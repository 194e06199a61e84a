"""Check a positional encoding against its laws, and against those that it must violate."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ropecli.analyses.invariance import TOKENS, invariance
from ropecli.checks.encoding_laws import OWN
from ropecli.checks.encoding_laws.subject import LAST, ROUNDING, compare, sample
from ropecli.checks.law import Law, Outcome, outcomes, report
from ropecli.checks.verify import Verification
from ropecli.encodings import encoding as make_encoding
from ropecli.errors import ArgumentError
from ropecli.numbers import at_least, integer
from ropecli.reference import scores as reference
from ropecli.results import Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ropecli.checks.encoding_laws.subject import EncodingSubject
    from ropecli.encodings import Encoding

LARGEST_MODEL_DIM = 1024  #: More takes minutes.
SHIFT = 37  #: Shift by which translation invariance is tried.
#: Properties of `Invariance`: the law's name, and the error that is measured.
PROPERTIES = {
    "translation_invariance": ("translation invariance", "|S(m+s, n+s) - S(m, n)|"),
    "symmetry": ("symmetry", "|S(n, m) - S(m, n)| of the same q and k"),
    "boundedness": ("bounded", "|S| - |q||k| / sqrt(head_dim)"),
    "linear_shift": ("shift is a matrix", "|code(m+s) - M code(m)| of the best matrix M"),
}
LEAST_SQUARES = (
    "least squares are off by some roundings of the norm of all codes, and the codes by the "
    "rounding of their angles"
)


@dataclass(frozen=True, kw_only=True)
class EncodingVerification(Verification, view="verify_encoding"):
    """The verdicts on a positional encoding."""

    encoding: str  #: Its name.
    model_dim: int  #: Coordinates of a token.
    heads: int  #: Number of heads.


@dataclass(frozen=True, kw_only=True)
class EncodingVerifications(Result, view="verify_encoding"):
    """The verdicts on several encodings."""

    parts: tuple[EncodingVerification, ...]

    @property
    def passed(self) -> bool:
        """True if no law of any encoding failed."""
        return all(part.passed for part in self.parts)


def verify_encoding(
    name: str, *, seed: int = 0, model_dim: int = 64, heads: int = 4
) -> EncodingVerification:
    """Check a positional encoding with random weights against the laws of its paper.

    A law that theory says fails passes where it is seen to be violated.

    Args:
        name: One of `ropecli.encodings.ENCODINGS`.
        seed: Seed of weights, tokens and positions.
        model_dim: Coordinates of a token.
        heads: Number of heads.

    Raises:
        ArgumentError: No such encoding, or an unusable value.
        ArgumentTypeError: A value of the wrong type.
    """
    seed = at_least("seed", seed, 0)
    if integer("model_dim", model_dim) > LARGEST_MODEL_DIM:
        msg = f"model_dim must be at most {LARGEST_MODEL_DIM:,} for this, got {model_dim}"
        raise ArgumentError(msg)
    options: dict[str, Any] = {}
    if name in ("learned", "tupe"):
        # A best matrix is looked for over more positions than a token has coordinates.
        options["length"] = max(512, model_dim + TOKENS + SHIFT)
    encoding = make_encoding(name, model_dim=model_dim, heads=heads, seed=seed, **options)
    return verify_instance(encoding, seed=seed)


def verify_instance(encoding: Encoding, *, seed: int = 0) -> EncodingVerification:
    """Check an encoding with the weights that it has, as `verify_encoding` does.

    Args:
        encoding: The encoding; its name says which laws it is checked against.
        seed: Seed of tokens and positions, at least 0.
    """
    begin = time.perf_counter()
    subject = sample(encoding, seed)
    checks = tuple(
        report(law, outcome, dtype="float64", layout="")
        for law in (*_common_laws(encoding, seed), *OWN[encoding.name])
        for outcome in outcomes(law, subject)
    )
    seconds = time.perf_counter() - begin
    return EncodingVerification(
        checks=checks,
        seed=seed,
        max_position=LAST,
        seconds=seconds,
        encoding=encoding.name,
        model_dim=encoding.sizes.model_dim,
        heads=encoding.sizes.heads,
    )


def _common_laws(encoding: Encoding, seed: int) -> Iterator[Law[EncodingSubject]]:
    """Yield the published formula, and each property that theory says anything of."""
    yield Law(
        name="scores = reference",
        equation=encoding.equation,
        because=ROUNDING,
        judge=_scores_match_reference,
    )
    measured = invariance(encoding, shift=SHIFT, seed=seed)
    for field, (name, error) in PROPERTIES.items():
        each = measured.properties[field]
        if each.theory is None or each.max_error is None or each.tolerance is None:
            continue
        outcome = Outcome(
            passed=each.holds,
            max_error=each.max_error,
            tolerance=each.tolerance,
            samples=1,
            counterexample=error,
        )
        why = LEAST_SQUARES if field == "linear_shift" else ROUNDING
        yield Law(
            name=name,
            equation=encoding.equation,
            because=f"{error}: {why}",
            judge=functools.partial(_as_measured, outcome),
            expected="holds" if each.theory else "fails",
        )


def _scores_match_reference(subject: EncodingSubject) -> Outcome:
    """The scores are those of the paper's formula."""
    encoding = subject.encoding
    length = getattr(encoding, "length", None)
    options = {} if length is None else {"length": length}
    formula = getattr(reference, encoding.name)
    expected = formula(subject.x, subject.y, subject.m, subject.n, encoding.weights, **options)
    return compare(subject.scores(), expected, subject.rounding(expected))


def _as_measured(outcome: Outcome, _subject: EncodingSubject) -> Outcome:
    return outcome
