"""Put somebody else's rotary embedding to its laws."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.checks.implementation import arguments, forms
from ropecli.checks.implementation.diagnosis import diagnosed
from ropecli.checks.implementation.failure import TargetError, Unsuited
from ropecli.checks.implementation.framework import framework as framework_of
from ropecli.checks.implementation.law import Law, Outcome, raised, silent
from ropecli.checks.implementation.laws import (
    algebra,
    batches,
    convention,
    positions,
    precision,
    score,
    shape,
    state,
)
from ropecli.checks.implementation.meeting import meet
from ropecli.checks.implementation.subject import Subject
from ropecli.checks.implementation.target import Target
from ropecli.checks.implementation.verdict import Verdict
from ropecli.checks.law import Check
from ropecli.numbers import at_least, length
from ropecli.rotary.rotary import Rotary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


CONTEXT = 131_072
SHAPED = 3  #: Rows by which it is found out which shape a target takes.

#: In the order in which they are judged: what may leave something behind comes last.
LAWS: tuple[Law, ...] = (
    *convention.LAWS,
    *algebra.LAWS,
    *score.LAWS,
    *positions.LAWS,
    *batches.LAWS,
    *shape.LAWS,
    *state.LAWS,
    *positions.LONG,
    *precision.LAWS,
    *state.LAST,
    *batches.LAST,
)


def check(
    target: Any,
    *,
    expect: Rotary | None = None,
    framework: str = "numpy",
    form: str = "apply",
    head_dim: int | None = None,
    context_length: int | None = None,
    original_context_length: int | None = None,
    dtypes: str | Sequence[str] | None = None,
    device: str | None = None,
    init: Mapping[str, Any] | None = None,
    tables: str = "half",
    axes: int | None = None,
    seed: int = 0,
) -> Verdict:
    """Judge an implementation of RoPE by the laws, on vectors that it rotates itself.

    It is called with vectors and positions of every kind, in every dtype, and each row is
    compared with a float64 rotation: the one expected, or the one that it is found to be.

    Args:
        target: The function or class.
        expect: What it should be; without it, any RoPE in whatever convention is right.
        framework: Whose arrays it takes: "numpy", "torch" or "jax".
        form: How it is called. "apply": function(x, positions), x (..., sequence, head_dim).
            "module": a class whose instances are called so, or one of them. "tables":
            function(q, k, cos, sin). "decoder": a class with prefill(x) and step(x_one). "score":
            function(q, k, positions) with the scores before softmax; `expect` must be given.
        head_dim: That of `expect`, or 64, by default.
        context_length: Positions that it must take; 131,072 are tried by default.
        original_context_length: Positions that the model was trained with, where types change
            their frequencies; that of `expect` by default.
        dtypes: Of the data, the first one for all laws; what the framework has by default.
        device: As the framework calls it.
        init: Keyword arguments for the class, or beside x and positions.
        tables: With form "tables": each frequency in both "half"s, side by side
            ("interleaved"), or once ("single").
        axes: Coordinates of a position; those of `expect`, or 1, by default.
        seed: What vectors are drawn with.

    Raises:
        ArgumentError: A value that is not allowed.
        ArgumentTypeError: An argument of the wrong type.
    """
    begin = time.perf_counter()
    arguments.words(form=form, framework=framework, tables=tables)
    if device is not None:
        arguments.words(device=device)
    expect = arguments.expectation(expect, form)
    dim = arguments.head_dim(head_dim, expect)
    given = context_length is not None
    context = CONTEXT if context_length is None else length("context length", context_length)
    original = arguments.original_length(original_context_length, expect)
    seed = at_least("seed", seed, 0)
    count = arguments.axes(axes, expect, form)
    known = arguments.keywords(init)
    frame = framework_of(framework, device)
    rope = expect or Rotary(head_dim=dim, layout="half" if tables == "half" else "interleaved")

    def remake(other: Any) -> forms.Make:
        return forms.form(form, target, known, other, rope=rope, width=tables)

    judged = Target(remake, frame, target, form, known)
    chosen = arguments.dtypes(dtypes, frame.dtypes)

    def verdict(subject: Subject | None, checks: list[Check], diagnosis: str | None) -> Verdict:
        return Verdict(
            checks=tuple(checks),
            expect=expect,
            identified=None if subject is None else subject.found,
            diagnosis=diagnosis,
            head_dim=dim,
            axes=count,
            dtypes=chosen,
            context_length=context,
            original_context_length=original,
            seed=seed,
            seconds=time.perf_counter() - begin,
        )

    try:
        if form != "score":
            judged.settle_shape(dim, chosen[0], count, rows=min(SHAPED, context))
        subject = Subject(
            judged,
            dim=dim,
            dtypes=chosen,
            expect=expect,
            context=context,
            context_given=given,
            original=original,
            seed=seed,
            axes=count,
        )
    except (TargetError, Unsuited) as error:
        failed = Outcome(passed=False, note=str(error))
        one = _check(LAWS[0], failed, chosen[0], "" if expect is None else expect.layout)
        return verdict(None, [one], f"it can't be called: {error}")
    if form != "score":
        with np.errstate(all="ignore"):  # a target may give what is not finite
            meet(subject)
    laws = score.LAWS if form == "score" else LAWS
    checks = [each for law in laws for each in _judge(law, subject)]
    return verdict(subject, checks, diagnosed(subject, checks))


def _judge(law: Law, subject: Subject) -> Iterator[Check]:
    layout = ""
    if subject.found is not None and subject.found.layout is not None:
        layout = subject.found.layout
    elif subject.expect is not None:
        layout = subject.expect.layout
    for outcome in _outcomes(law, subject):
        yield _check(law, outcome, outcome.dtype or subject.dtype, layout)


def _outcomes(law: Law, subject: Subject) -> list[Outcome]:
    """What comes of a law; an exception does not undo what was found before it."""
    if law.by_oracle and subject.oracle is None:
        return [silent("no rotation was recognised")]
    outcomes: list[Outcome] = []
    try:
        with np.errstate(all="ignore"):  # a target may give what is not finite
            result = law.judge(subject)
            outcomes.extend([result] if isinstance(result, Outcome) else result)
    except TargetError as error:
        outcomes.append(raised(error))
    except Unsuited as error:
        outcomes.append(silent(str(error)))
    return outcomes


def _check(law: Law, outcome: Outcome, dtype: str, layout: str) -> Check:
    return Check(
        name=law.name,
        equation=law.equation,
        dtype=dtype,
        layout=layout,
        expected="holds",
        passed=outcome.passed,
        max_error=outcome.max_error,
        tolerance=outcome.tolerance,
        samples=outcome.samples,
        because=law.because,
        counterexample=outcome.counterexample,
        note=outcome.note,
    )
