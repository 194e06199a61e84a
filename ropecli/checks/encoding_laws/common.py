"""Laws that every encoding is put to: its published formula, and what theory says of it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ropecli.checks.encoding_laws.law import ROUNDING, EncodingLaw, Found, compared, rounding
from ropecli.reference import scores as reference

if TYPE_CHECKING:
    from ropecli.analyses.invariance import Invariance
    from ropecli.checks.encoding_laws.law import Tokens
    from ropecli.encodings import Encoding

#: Properties of `Invariance`, the law's name, and what it says.
PROPERTIES = {
    "translation_invariance": "translation invariance",
    "symmetry": "symmetry",
    "boundedness": "bounded",
    "linear_shift": "shift is a matrix",
}
SAID = {
    "translation_invariance": "|S(m+s, n+s) - S(m, n)|",
    "symmetry": "|S(n, m) - S(m, n)| of the same q and k",
    "boundedness": "|S| - |q||k| / sqrt(head_dim)",
    "linear_shift": "|code(m+s) - M code(m)| of the best matrix M",
}
WHY = {
    "linear_shift": "least squares are off by some roundings of the norm of all codes, and the "
    "codes by the rounding of their angles"
}


def laws(encoding: Encoding, measured: Invariance) -> tuple[EncodingLaw, ...]:
    """The reference, and each property that theory says anything of.

    Args:
        encoding: With its weights.
        measured: Its invariances.
    """
    found = [
        EncodingLaw(
            name="scores = reference",
            equation=encoding.equation,
            measure=_reference,
        )
    ]
    for field, name in PROPERTIES.items():
        each = measured.properties[field]
        if each.theory is None or each.max_error is None or each.tolerance is None:
            continue
        worst = Found(error=each.max_error, tolerance=each.tolerance, samples=1, case=SAID[field])
        found.append(
            EncodingLaw(
                name=name,
                equation=encoding.equation,
                because=f"{SAID[field]}: {WHY.get(field, ROUNDING)}",
                measure=functools.partial(_as_measured, worst),
                expected="holds" if each.theory else "fails",
            )
        )
    return tuple(found)


def _reference(encoding: Encoding, tokens: Tokens) -> Found:
    length = getattr(encoding, "length", None)
    own = {} if length is None else {"length": length}
    x, y, m, n = tokens.x, tokens.y, tokens.m, tokens.n
    expected = getattr(reference, encoding.name)(x, y, m, n, encoding.weights, **own)
    got = encoding.scores(x, y, m, n)
    return compared(got, expected, rounding(encoding, tokens, expected))


def _as_measured(worst: Found, _encoding: Encoding, _tokens: Tokens) -> Found:
    return worst
