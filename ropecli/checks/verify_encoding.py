"""Put a positional encoding to its laws, and to those that it must not satisfy."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from ropecli.analyses.invariance import TOKENS, invariance
from ropecli.checks.encoding_laws import OWN, common
from ropecli.checks.encoding_laws.law import LAST, drawn
from ropecli.checks.law import Check
from ropecli.checks.verify import Verification
from ropecli.encodings import encoding
from ropecli.errors import ArgumentError
from ropecli.numbers import at_least, integer

if TYPE_CHECKING:
    from ropecli.checks.encoding_laws.law import EncodingLaw, Found

LARGEST_MODEL_DIM = 1024  #: More takes minutes.
SHIFT = 37  #: By which translation invariance is tried.


def verify_encoding(
    name: str, *, seed: int = 0, model_dim: int = 64, heads: int = 4
) -> Verification:
    """Judge a positional encoding with drawn weights by the laws of its paper.

    A law that theory says fails passes where it is seen to be violated.

    Args:
        name: One of `ropecli.encodings.ENCODINGS`.
        seed: What weights, tokens and positions are drawn with.
        model_dim: Coordinates of a token.
        heads: Heads side by side.

    Raises:
        ArgumentError: No such encoding, or a value that is not allowed.
        ArgumentTypeError: A value of the wrong type.
    """
    begin = time.perf_counter()
    seed = at_least("seed", seed, 0)
    if integer("model_dim", model_dim) > LARGEST_MODEL_DIM:
        msg = f"model_dim must be at most {LARGEST_MODEL_DIM:,} for this, got {model_dim}"
        raise ArgumentError(msg)
    options: dict[str, Any] = {}
    if name in ("learned", "tupe"):
        # A best matrix is looked for over more positions than a token has coordinates.
        options["length"] = max(512, model_dim + TOKENS + SHIFT)
    made = encoding(name, model_dim=model_dim, heads=heads, seed=seed, **options)
    measured = invariance(made, shift=SHIFT, seed=seed)
    tokens = drawn(made.sizes.model_dim, seed)
    checks = tuple(
        _check(law, law.measure(made, tokens)) for law in (*common.laws(made, measured), *OWN[name])
    )
    seconds = time.perf_counter() - begin
    return Verification(checks=checks, seed=seed, max_position=LAST, seconds=seconds)


def _check(law: EncodingLaw, found: Found) -> Check:
    holds = found.error <= found.tolerance
    # Something that is not a number violates nothing: it is a failure, whatever is expected.
    passed = holds if law.expected == "holds" else not holds and math.isfinite(found.error)
    held = "theory says that this law fails, and it held"
    return Check(
        name=law.name,
        equation=law.equation,
        dtype="float64",
        layout="",
        expected=law.expected,
        passed=passed,
        max_error=found.error,
        tolerance=found.tolerance,
        samples=found.samples,
        because=law.because,
        counterexample=None if passed else found.case,
        note=held if law.expected == "fails" and not passed else None,
    )
