"""Check a positional encoding against the formula of its paper, at every option."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ropecli.checks.encoding_laws import furthest, laws_of
from ropecli.checks.encoding_laws.options import check_options
from ropecli.checks.encoding_laws.subject import EncodingSubject
from ropecli.checks.law import judge
from ropecli.checks.verify import Verification
from ropecli.encodings import Encoding
from ropecli.encodings import encoding as make_encoding
from ropecli.errors import ArgumentError
from ropecli.numbers import at_least, integer

LARGEST_MODEL_DIM = 1024  #: More takes minutes.


@dataclass(frozen=True, kw_only=True)
class EncodingVerification(Verification, view="verify_encoding"):
    """The verdicts on a positional encoding."""

    encoding: str  #: Its name.
    model_dim: int  #: Coordinates of a token.
    heads: int  #: Number of heads.


def verify_encoding(
    name: str, *, seed: int = 0, model_dim: int = 64, heads: int = 4, **options: Any
) -> EncodingVerification:
    """Check a positional encoding with random weights against the formula of its paper.

    It is judged at every value of every option. A law that theory says fails passes where it is
    violated as the formula violates it.

    Args:
        name: One of `ropecli.encodings.ENCODINGS`.
        seed: Seed of weights, tokens and positions.
        model_dim: Coordinates of a token.
        heads: Number of heads.
        **options: Options of this encoding, judged only at these values.

    Raises:
        ArgumentError: No such encoding or option, or an unusable value.
        ArgumentTypeError: A value of the wrong type.
    """
    seed = at_least("seed", seed, 0)
    if integer("model_dim", model_dim) > LARGEST_MODEL_DIM:
        raise ArgumentError(
            f"model_dim must be at most {LARGEST_MODEL_DIM:,} for this, got {model_dim}"
        )
    encoding = make_encoding(name, model_dim=model_dim, heads=heads, seed=seed, **options)
    return verify_instance(encoding, seed=seed, given=options)


def verify_instance(
    encoding: Encoding, *, seed: int = 0, given: Mapping[str, Any] | None = None
) -> EncodingVerification:
    """Check an encoding with the weights that it has, as `verify_encoding` does."""
    begin = time.perf_counter()
    check_options(encoding)
    subject = EncodingSubject(encoding=encoding, seed=seed, given=given or {})
    checks = tuple(judge(laws_of(encoding), subject, "float64", ""))
    seconds = time.perf_counter() - begin
    return EncodingVerification(
        checks=checks,
        seed=seed,
        max_position=furthest(encoding, seed),
        seconds=seconds,
        encoding=encoding.name,
        model_dim=encoding.sizes.model_dim,
        heads=encoding.sizes.heads,
    )
