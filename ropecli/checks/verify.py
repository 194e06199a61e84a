"""Check a rotary embedding against its laws."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.decay import decay as built_in_decay
from ropecli.arrays import DTYPES
from ropecli.checks.law import Check, judge, refuse_growth
from ropecli.checks.rotation_laws import LAWS
from ropecli.checks.rotation_laws.subject import (
    Decays,
    ExactTables,
    Rotate,
    RotationSubject,
    sample,
)
from ropecli.names import one_of
from ropecli.numbers import at_least, between
from ropecli.results import Result
from ropecli.rotary.apply import SMALL
from ropecli.rotary.apply import rotate as built_in_rotate
from ropecli.rotary.rotary import Rotary, check_rope

MAX_POSITION = 131_072
#: Sums of three positions must stay exact to a quarter.
LARGEST_POSITION = 2**49


@dataclass(frozen=True, kw_only=True)
class Verification(Result):
    """The verdicts on one encoding, or on several."""

    checks: tuple[Check, ...]  #: One for each law, dtype and layout.
    seed: int  #: Seed of the samples.
    max_position: int  #: Largest position sampled.
    seconds: float  #: Time it took.

    @property
    def passed(self) -> bool:
        """True if no law that applies failed."""
        return all(check.passed is not False for check in self.checks)


def verify(
    rope: Rotary,
    *,
    dtype: str | None = None,
    seed: int = 0,
    max_position: int = MAX_POSITION,
    rotate: Rotate | None = None,
    decay: Decays = built_in_decay,
) -> Verification:
    """Check the rotation and the bounds of an encoding against RoFormer Eq. 11-16 and 34-37.

    Args:
        rope: The encoding that the rotation should be.
        dtype: "float64", "float32", "float16" or "bfloat16"; all four by default.
        seed: Seed of vectors and positions.
        max_position: Largest position sampled, 1 to 2^49.
        rotate: The function under test, called with x (count, head_dim) and positions (count,), or
            (count, axes) where there are several; `ropecli.rotate` by default.
        decay: The function under test by Eq. 35-37, called as `ropecli.decay`.

    Raises:
        ArgumentError: An unusable value.
        ArgumentTypeError: An argument, or what `rotate` returns, of the wrong type.
    """
    check_rope(rope)
    begin = time.perf_counter()
    if dtype is not None:
        one_of("dtype", dtype, DTYPES)
    seed = at_least("seed", seed, 0)
    max_position = between("max position", max_position, 1, LARGEST_POSITION)
    refuse_growth(rope)
    function = rotate or partial(_rotate_here, rope)
    exact = ExactTables(rope)
    checks: list[Check] = []
    for dtype_name in DTYPES if dtype is None else (dtype,):
        vectors = sample(rope.head_dim, dtype_name, max_position=max_position, seed=seed)
        subject = RotationSubject(
            rope, dtype_name, vectors, rotate=function, decay=decay, exact=exact
        )
        with np.errstate(over="ignore", invalid="ignore"):
            checks += judge(LAWS, subject, dtype_name, rope.layout)
    seconds = time.perf_counter() - begin
    return Verification(checks=tuple(checks), seed=seed, max_position=max_position, seconds=seconds)


def _rotate_here(rope: Rotary, x: NDArray[Any], positions: NDArray[Any]) -> NDArray[Any]:
    """Rotate by the kernels for several threads, in half precision by those for one.

    Compiling both for each dtype would make a first run two thirds longer.
    """
    rows = max(1, SMALL // rope.head_dim)  # what one thread rotates
    if x.dtype.itemsize > 2:
        index = np.arange(max(len(x), rows + 1)) % len(x)
        return built_in_rotate(x[index], rope, positions[index])[: len(x)]
    starts = range(0, len(x), rows)
    parts = [built_in_rotate(x[i : i + rows], rope, positions[i : i + rows]) for i in starts]
    return np.concatenate(parts)


def join(parts: Iterable[Verification]) -> Verification:
    """Return the verdicts on several encodings, made with one seed, as one."""
    all_parts = tuple(parts)
    return Verification(
        checks=tuple(check for part in all_parts for check in part.checks),
        seed=all_parts[0].seed,
        max_position=all_parts[0].max_position,
        seconds=sum(part.seconds for part in all_parts),
    )
