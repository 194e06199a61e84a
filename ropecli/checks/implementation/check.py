"""Check somebody's rotary embedding against the laws."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.checks.implementation import arguments
from ropecli.checks.implementation.call_adapters import adapt
from ropecli.checks.implementation.calls import LocalImplementation
from ropecli.checks.implementation.diagnosis import diagnose
from ropecli.checks.implementation.framework import framework as framework_by_name
from ropecli.checks.implementation.interface import ImplementationError, Unsupported
from ropecli.checks.implementation.judge import call_failure
from ropecli.checks.implementation.laws import LAWS, SCORE_LAWS
from ropecli.checks.implementation.probe import probe
from ropecli.checks.implementation.subject import Evidence, Subject
from ropecli.checks.law import Outcome, no_verdict, outcomes, report
from ropecli.numbers import at_least, length
from ropecli.results import Result
from ropecli.rotary.rotary import Rotary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ropecli.checks.identify import Identification
    from ropecli.checks.implementation.call_adapters import Make
    from ropecli.checks.law import Check, Law

CONTEXT = 131_072
SHAPE_ROWS = 3  #: Rows of the calls that find the shape an implementation takes.


@dataclass(frozen=True, kw_only=True, eq=False)
class Verdict(Result):
    """The verdict on an implementation, law by law."""

    checks: tuple[Check, ...]  #: One for each law, and for each dtype where that matters.
    expect: Rotary | None  #: The encoding expected; None if any RoPE is correct.
    identified: Identification | None  #: The RoPE that it is; None if rows do not show it.
    diagnosis: str | None  #: What is wrong, in a sentence; None if nothing is.
    head_dim: int  #: Coordinates of the vectors that it was called with.
    axes: int  #: Coordinates of a position.
    dtypes: tuple[str, ...]  #: Dtypes of the vectors, the first one for all laws.
    context_length: int  #: Positions up to which it was judged.
    original_context_length: int | None  #: Positions of the training; None if unknown.
    seed: int  #: Seed of the vectors.
    seconds: float  #: Time it took.

    @property
    def passed(self) -> bool:
        """True if no law that applies failed."""
        return all(check.passed is not False for check in self.checks)


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
    """Check an implementation of RoPE against the laws, on vectors that it rotates itself.

    It is called with vectors and positions of every kind, in every dtype, and each row is
    compared with a float64 rotation: the one expected, or the one that `identify` recognises.

    Args:
        target: The function or class.
        expect: The encoding expected; without it, any RoPE in any convention is correct.
        framework: Framework of the arrays that it takes: "numpy", "torch" or "jax".
        form: Form of the call. "apply": function(x, positions), x (..., sequence, head_dim).
            "module": a class whose instances are called so, or one of them. "tables":
            function(q, k, cos, sin). "decoder": a class with prefill(x) and step(x_one). "score":
            function(q, k, positions) with the scores before softmax; `expect` must be given.
        head_dim: Coordinates of a vector; those of `expect`, or 64, by default.
        context_length: Positions that it must take; 131,072 are tried by default.
        original_context_length: Positions of the training, at which some types change their
            frequencies; that of `expect` by default.
        dtypes: Dtypes of the data, the first one for all laws; those of the framework by default.
        device: Device, as the framework names it.
        init: Keyword arguments for the class, or for the function after x and positions.
        tables: With form "tables": each frequency in both "half"s, side by side
            ("interleaved"), or once ("single").
        axes: Coordinates of a position; those of `expect`, or 1, by default.
        seed: Seed of the vectors.

    Raises:
        ArgumentError: An unusable value.
        ArgumentTypeError: An argument of the wrong type.
    """
    begin = time.perf_counter()
    arguments.check_strings(form=form, framework=framework, tables=tables)
    if device is not None:
        arguments.check_strings(device=device)
    expect = arguments.expectation(expect, form)
    dim = arguments.head_dim(head_dim, expect)
    context = CONTEXT if context_length is None else length("context length", context_length)
    original = arguments.original_length(original_context_length, expect)
    seed = at_least("seed", seed, 0)
    count = arguments.axes(axes, expect, form)
    keywords = arguments.keywords(init)
    frame = framework_by_name(framework, device)
    rope = expect or Rotary(head_dim=dim, layout="half" if tables == "half" else "interleaved")

    def make_adapter(other: Any) -> Make:
        return adapt(form, target, keywords, other, rope=rope, width=tables)

    implementation = LocalImplementation(make_adapter, frame, target, form, keywords)
    chosen = arguments.dtypes(dtypes, frame.dtypes)

    def verdict(subject: Subject | None, checks: list[Check], diagnosis: str | None) -> Verdict:
        return Verdict(
            checks=tuple(checks),
            expect=expect,
            identified=None if subject is None else subject.evidence.identified,
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
            implementation.find_leading_axes(dim, chosen[0], count, rows=min(SHAPE_ROWS, context))
        subject = Subject(
            implementation=implementation,
            instance=implementation.fresh(),
            dim=dim,
            dtypes=chosen,
            expect=expect,
            context=context,
            context_given=context_length is not None,
            original=original,
            seed=seed,
            axes=count,
            evidence=Evidence(dtype=chosen[0]),
        )
    except (ImplementationError, Unsupported) as error:
        failure = Outcome(passed=False, note=str(error))
        layout = "" if expect is None else expect.layout
        one = report(LAWS[0], failure, dtype=chosen[0], layout=layout)
        return verdict(None, [one], f"it can't be called: {error}")
    if form != "score":
        with np.errstate(all="ignore"):  # an implementation may return what is not finite
            subject = probe(subject)
    checks = [
        report(law, outcome, dtype=subject.dtype, layout=subject.layout)
        for law in (SCORE_LAWS if form == "score" else LAWS)
        for outcome in _outcomes(law, subject)
    ]
    return verdict(subject, checks, diagnose(subject, checks))


def _outcomes(law: Law[Subject], subject: Subject) -> list[Outcome]:
    """Judge by a law; an exception does not undo what was found before it."""
    found: list[Outcome] = []
    try:
        with np.errstate(all="ignore"):  # an implementation may return what is not finite
            found.extend(outcomes(law, subject))
    except ImplementationError as error:
        found.append(call_failure(error))
    except Unsupported as error:
        found.append(no_verdict(str(error)))
    return found
