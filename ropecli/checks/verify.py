"""Put a rotary embedding to its laws."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.analyses.decay import decay as built_in_decay
from ropecli.arrays import DTYPES
from ropecli.checks import bound_laws, convention_laws, counterexample, diagnosis, rotation_laws
from ropecli.checks.law import Check, Law
from ropecli.checks.sampling import drawn
from ropecli.checks.subject import Oracle, Subject
from ropecli.errors import ArgumentError
from ropecli.numbers import at_least, between
from ropecli.rotary.apply import rotate as built_in_rotate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from ropecli.checks.law import Sample
    from ropecli.checks.subject import Decays, Rotate
    from ropecli.rotary.rotary import Rotary

LAWS: tuple[Law, ...] = (*rotation_laws.LAWS, *convention_laws.LAWS, *bound_laws.LAWS)
MAX_POSITION = 131_072
#: Sums of three positions must stay exact to a quarter.
LARGEST_POSITION = 2**49


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The verdicts on one encoding, or on several."""

    checks: tuple[Check, ...]  #: One for each law, dtype and layout.
    seed: int  #: What the samples were drawn with.
    max_position: int  #: Largest position drawn.
    seconds: float  #: Time it took.

    @property
    def passed(self) -> bool:
        """Whether no law that applies failed."""
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
    """Judge the rotation and the bounds of an encoding by the laws of RoFormer Eq. 11-16, 34-37.

    Args:
        rope: The encoding, and what the reference takes it to be.
        dtype: "float64", "float32", "float16" or "bfloat16"; all four by default.
        seed: What vectors and positions are drawn with.
        max_position: Largest position drawn, 1 to 2^49.
        rotate: What is judged, called with x (count, head_dim) and positions (count,), or
            (count, axes) where there are several; `ropecli.rotate` by default.
        decay: What is judged by Eq. 35-37, called as `ropecli.decay`.

    Raises:
        ArgumentError: A value that is not allowed.
        ArgumentTypeError: An argument, or what `rotate` returns, of the wrong type.
    """
    begin = time.perf_counter()
    if dtype is not None and dtype not in DTYPES:
        msg = f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}"
        raise ArgumentError(msg)
    seed = at_least("seed", seed, 0)
    max_position = between("max position", max_position, 1, LARGEST_POSITION)
    if rope.grows:
        msg = "xPos is no rotation, since lengths change with position: these laws are not its own"
        raise ArgumentError(msg)
    turn = functools.partial(_built_in, rope) if rotate is None else rotate
    oracle = Oracle(rope)
    checks: list[Check] = []
    for each in DTYPES if dtype is None else (dtype,):
        subject = Subject(rope, each, turn, decay, oracle)
        sample = drawn(rope.head_dim, each, max_position=max_position, seed=seed)
        checks += _judge_all(subject, sample)
    seconds = time.perf_counter() - begin
    return Verification(checks=tuple(checks), seed=seed, max_position=max_position, seconds=seconds)


def joined(parts: Iterable[Verification]) -> Verification:
    """Several verdicts with one seed as one."""
    all_parts = tuple(parts)
    return Verification(
        checks=tuple(check for part in all_parts for check in part.checks),
        seed=all_parts[0].seed,
        max_position=all_parts[0].max_position,
        seconds=sum(part.seconds for part in all_parts),
    )


def _built_in(rope: Rotary, x: NDArray[Any], positions: NDArray[np.float64]) -> NDArray[Any]:
    return built_in_rotate(x, rope, positions)


def _judge_all(subject: Subject, sample: Sample) -> list[Check]:
    with np.errstate(over="ignore", invalid="ignore"):
        return [_judge(law, subject, sample) for law in LAWS]


def _judge(law: Law, subject: Subject, sample: Sample) -> Check:
    reason = _does_not_apply(law, subject)
    if reason is not None:
        return _check(law, subject, None, samples=0, note=reason)
    sample = law.prepare(subject, sample)
    judgement = law.judge(subject, sample)
    share = judgement.share
    worst = int(share.argmax())
    passed = bool(share[worst] <= 1)
    return _check(
        law,
        subject,
        passed,
        error=float(judgement.error[worst]),
        tolerance=float(judgement.tolerance[worst]),
        samples=len(share),
        counterexample=None if passed else counterexample.find(law, subject, sample, worst),
        note=diagnosis.convention(subject) if law.name == "convention" and not passed else None,
    )


def _does_not_apply(law: Law, subject: Subject) -> str | None:
    if law.dtypes is not None and subject.dtype not in law.dtypes:
        return f"computed in {law.dtypes[0]} whatever the data"
    if law.name == "pass-through" and not len(subject.passed_through):
        return "every coordinate is rotated"
    if law.name == "axes" and subject.rope.axes == 1:
        return "positions have one axis"
    if law.name == "frequencies" and not subject.rope.parameters:
        return "the table was given, not made from a formula"
    return None


def _check(
    law: Law,
    subject: Subject,
    passed: bool | None,
    *,
    error: float = 0.0,
    tolerance: float = 0.0,
    samples: int,
    counterexample: str | None = None,
    note: str | None = None,
) -> Check:
    return Check(
        name=law.name,
        equation=law.equation,
        dtype=subject.dtype,
        layout=subject.rope.layout,
        expected="holds",
        passed=passed,
        max_error=error,
        tolerance=tolerance,
        samples=samples,
        because=law.because,
        counterexample=counterexample,
        note=note,
    )
