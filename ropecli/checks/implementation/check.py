"""Check somebody's rotary embedding against the laws."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, cast, overload

import numpy as np

from ropecli.checks.expectation import Expectation
from ropecli.checks.identify import Identification
from ropecli.checks.implementation import arguments, failure_file
from ropecli.checks.implementation.call import Died, ImplementationError, OutOfTime, Unsupported
from ropecli.checks.implementation.calling.defaults import arguments_of_options, own_head_dim
from ropecli.checks.implementation.calling.discover import Arrangements, Search
from ropecli.checks.implementation.calling.find import (
    CallError,
    Verbatim,
    adapter,
    find_convention,
    keyword_texts,
    within_budget,
)
from ropecli.checks.implementation.calling.run import Caller, Clock, calls_of
from ropecli.checks.implementation.calling.source import source_of
from ropecli.checks.implementation.convention import Convention
from ropecli.checks.implementation.diagnosis import diagnose, findings
from ropecli.checks.implementation.failing_call import FailingCall, Recorder, Repeated
from ropecli.checks.implementation.interface import Implementation, Instance
from ropecli.checks.implementation.laws import LAWS
from ropecli.checks.implementation.options import Options, RopeOptions, taking
from ropecli.checks.implementation.probe import probe
from ropecli.checks.implementation.rows import call_failure
from ropecli.checks.implementation.subject import Evidence, Subject
from ropecli.checks.law import Check, Explains, Law, Outcome, no_verdict, outcomes, report
from ropecli.checks.verdict import CodeVerdict
from ropecli.errors import ArgumentError
from ropecli.numbers import at_least, length

if TYPE_CHECKING:
    from ropecli.checks.encoding.check import EncodingVerdict

P = ParamSpec("P")

CONTEXT = 131_072
HEAD_DIM = 64
LEAST_BUDGET = 0.01  #: Seconds of a second try.
NOT_JUDGED = "not judged within the budget"
#: What `fast` leaves out.
FAST = (
    "fewer combinations and positions tested, about a tenth of the calls: sizes, dtypes and memory "
    "orders one at a time"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Verdict(CodeVerdict):
    """The verdict on an implementation of RoPE."""

    expected: Expectation  #: What was expected, property by property, and on which ground.
    identified: Identification | None  #: The RoPE that it is; None if rows do not show it.
    convention: Convention  #: How it was called.
    arrangements: tuple[str, ...]  #: Axes of x in which it was called, those of `convention` first.
    not_judged: tuple[str, ...]  #: Options of axes that run and do not show that they are meant.
    refused_batch: str | None  #: What a batch raises, if an argument is one value a sequence.
    head_dim: int  #: Coordinates of the vectors that it was called with.
    axes: int  #: Coordinates of a position.
    dtypes: tuple[str, ...]  #: Dtypes of the vectors, the first one for all laws.
    context_length: int  #: Positions up to which it was judged.
    original_context_length: int | None  #: Positions of the training; None if unknown.
    longest_sequence: int | None  #: Most tokens that it took, if it refuses longer sequences.


class _Checks(Protocol[P]):
    """The result of `check`: another verdict for an encoding that is not RoPE."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Verdict: ...

    @overload
    def __call__(self, target: Any = None, *, encoding: str, **options: Any) -> EncodingVerdict: ...


def _with_types(
    _like: Callable[P, RopeOptions],
) -> Callable[[Callable[..., CodeVerdict]], _Checks[P]]:
    return lambda function: cast("_Checks[P]", function)


@_with_types(RopeOptions)
@taking(Options)
def check(options: Options) -> CodeVerdict:
    """Check an implementation of RoPE against the laws, on vectors that it rotates itself.

    It is called with vectors and positions of every kind, in every dtype, and each row is
    compared with a float64 rotation: the one expected, or the one that `identify` recognises. How
    it is called is found by its signature and by trial, but for what is given here.

    With `encoding`, code of another positional encoding is checked against the formula of its paper
    and the ways in which that is released: a table, a bias, slopes, buckets or scores.

    Returns:
        The verdict; with `encoding`, an `EncodingVerdict`. `print` shows it; `passed` is the
        answer, `convention` how the implementation was called, `diagnosis` what is wrong, and
        `checks` has the error and the tolerance of each law.

    Raises:
        ArgumentError: An unusable value.
        ArgumentTypeError: An argument of the wrong type.
        FileError: A name that can't be loaded, or a file that can't be read or written.
        CallError: No way to call it was found, or not within the budget.

    Example:
        >>> import numpy as np
        >>> import ropecli
        >>> def rope(x, positions):  # x is (..., sequence, head_dim)
        ...     half = x.shape[-1] // 2
        ...     angle = positions[:, None] * 10_000.0 ** (-np.arange(half) / half)
        ...     a, b, cos, sin = x[..., :half], x[..., half:], np.cos(angle), np.sin(angle)
        ...     turned = [a * cos - b * sin, a * sin + b * cos]
        ...     return np.concatenate(turned, axis=-1).astype(x.dtype)
        >>> verdict = ropecli.check(rope, expect=ropecli.Rotary(64, base=500_000.0, layout="half"))
        >>> verdict.passed
        False
        >>> print(verdict.diagnosis)
        base 10000, expected 500000; ...
    """
    if options.encoding is not None:
        from ropecli.checks.encoding.check import check_encoding

        return check_encoding(options)
    if options.set is not None:
        raise ArgumentError("set requires encoding")
    begin = time.perf_counter()
    try:
        return _check(options)
    except CallError as error:
        device = error.device
        if not device or options.device is not None:
            raise
    # Its error asks for a device, and that is there.
    left = None
    if options.budget is not None:
        left = max(LEAST_BUDGET, options.budget - (time.perf_counter() - begin))
    verdict = _check(replace(options, device=device, budget=left))
    return replace(
        verdict,
        notes=(*verdict.notes, f"ran on {device}: it needs it, and raises on the CPU"),
        seconds=time.perf_counter() - begin,
    )


def _check(options: Options) -> Verdict:
    """Check an implementation on one device."""
    begin = time.perf_counter()
    given = arguments.convention(options)
    form = options.form
    laws = arguments.laws(LAWS, options.select, options.ignore)
    expected = arguments.expectation(options)
    context = length(
        "context length", CONTEXT if options.context_length is None else options.context_length
    )
    original = arguments.original_length(options.original_context_length, expected)
    seed = at_least("seed", options.seed, 0)
    count = arguments.axes(options.axes, expected, form)
    keywords = arguments.keywords(options.init)
    dtypes = arguments.dtypes(options.dtypes)
    file = None
    if options.save_failure is not None:
        file = failure_file.check_path(options.save_failure, force=options.force)
    texts, objects = keyword_texts(keywords)
    source = source_of(options.target, options.command, options.apply_with, objects, options.device)
    clock = Clock(options.budget, options.progress)
    clock.begin("searching how to call it")
    with within_budget(clock), calls_of(source, options, clock) as caller:
        dim = arguments.head_dim(options.head_dim, expected) or _own_head_dim(caller)
        expected = expected.of_head_dim(dim)
        texts = _arguments_of_options(caller, options, expected) | texts
        search = Search(
            caller=caller,
            rope=arguments.example(expected, dim, options.tables),
            context=context,
            given=given,
            init=texts,
            axes=count,
            dtypes=dtypes,
        )
        arrangements, chosen = find_convention(search, form)
        convention = arrangements.judged[0]
        results = (f"results are {options.result_dtype}",) if options.result_dtype else ()
        tolerances, loosened = arguments.tolerances(
            options.tolerance, chosen, options.result_dtype, convention.tables_dtype or None
        )
        recorder = Recorder()
        implementation = Implementation(search, arrangements.judged, keywords)
        caller.end_search()  # a wrong convention may crash a kernel
        caller.listener = None if file is None else recorder.hear
        clock.begin("finding which RoPE it is")
        subject = Subject(
            implementation=implementation,
            instance=_first_instance(implementation),
            dim=dim,
            dtypes=chosen,
            expectation=expected,
            expect=expected.rope if expected.is_whole else None,
            context=context,
            context_given=options.context_length is not None,
            original=original,
            seed=seed,
            axes=count,
            thorough=options.thorough,
            fast=options.fast,
            tolerances=tolerances,
            named_dtypes=dtypes or (),
            evidence=Evidence(dtype=chosen[0]),
        )
        with np.errstate(all="ignore"):  # an implementation may return what is not finite
            subject = probe(subject)
        checks, explains, cut = _judge(laws, subject, caller.deaths, recorder, clock)
        clock.stop()
        notes = list(caller.notes)
        if file is not None and any(check.passed is False for check in checks):
            caller.restart()  # two processes may not fit into memory
            with calls_of(source, options) as again:
                case = Repeated(subject=subject, caller=again).smallest(recorder.kept)
            notes.append(_save(case, file, implementation.description.name, options))
        checks = _fail_refused_batch(checks, arrangements)
        diagnosis, checks = diagnose(subject, checks, explains)
    return Verdict(
        checks=tuple(checks),
        expected=expected,
        identified=subject.evidence.identified,
        diagnosis=diagnosis,
        convention=convention,
        arrangements=tuple(
            dict.fromkeys(arrangement.axes_of_x for arrangement in implementation.arrangements)
        ),
        refused_batch=arrangements.refused_batch,
        not_judged=tuple(
            dict.fromkeys(
                f'--axes-of-x "{candidate.axes_of_x}"' for candidate in arrangements.not_judged
            )
        ),
        notes=tuple(notes),
        findings=findings(subject, checks),
        loosened=(
            *loosened,
            *results,
            *arguments.left_out(laws, LAWS),
            *([FAST] if options.fast else []),
        ),
        head_dim=dim,
        axes=count,
        dtypes=chosen,
        context_length=context,
        original_context_length=original,
        longest_sequence=subject.longest_sequence,
        seed=seed,
        seconds=time.perf_counter() - begin,
        unfinished=f"{len(laws) - cut} of {len(laws)} checks in {clock.budget:g} s"
        if cut
        else None,
    )


def _save(case: FailingCall | None, file: Path, name: str, options: Options) -> str:
    """Write a failing call of what calls name so, and return a note on it."""
    if case is None:
        return "no failure is saved: no call by itself shows one"
    target = options.target if isinstance(options.target, str) else name
    shown = options.command or target
    failure_file.write(file, case, shown, name, options.device, force=options.force)
    return f"the smallest failing call is in {file}"


def _own_head_dim(caller: Caller) -> int:
    """Return the head dim that an author wrote as a default, or ours."""
    with contextlib.suppress(ImplementationError):  # which the search for a call reports
        return own_head_dim(caller.describe()) or HEAD_DIM
    return HEAD_DIM


def _arguments_of_options(
    caller: Caller, options: Options, expected: Expectation
) -> dict[str, Any]:
    """Return the arguments of the code that options give, in place of its defaults."""
    given = {*expected.options, *([] if options.head_dim is None else ["head_dim"])}
    with contextlib.suppress(ImplementationError):
        found = arguments_of_options(caller.describe(), given)
        return {name: Verbatim(words) for name, words in found.items()}
    return {}


def _fail_refused_batch(checks: list[Check], found: Arrangements) -> list[Check]:
    """Fail a batch that was refused, if an argument that has something of each promises one."""
    if not found.promised:
        return checks
    note = f"an argument has a value for each sequence, and batches raise: {found.refused_batch}"
    return [
        replace(one_check, passed=False, note=note)
        if one_check.name == "batched positions"
        else one_check
        for one_check in checks
    ]


def _require_rows(subject: Subject, checks: Sequence[Check]) -> None:
    """Refuse a verdict that rests on no row; a failure may rest on those that show the rotation."""
    evidence = subject.evidence
    fails = any(check.passed is False for check in checks)
    if any(check.samples for check in checks) or (fails and evidence.first_rows is not None):
        return
    refused = [check.note or check.counterexample for check in checks if check.passed is False]
    words = [*refused, evidence.why_unidentified, *(check.note for check in checks)]
    implementation = subject.implementation
    why = next(filter(None, words), "no call returned rows")
    several = subject.axes == 1 and "positions" in implementation.convention.names
    of_axes = "the number of coordinates of a position with `axes`, " if several else ""
    raise CallError(
        f"{implementation.description.name} is not judged, since no row was: "
        f"{implementation.convention.options()}: {why}",
        f"give {of_axes}the call with `call`, or an adapter",
        adapter(implementation.description, subject.axes),
    )


def _judge(
    laws: Sequence[Law[Subject]],
    subject: Subject,
    deaths: list[Died],
    recorder: Recorder,
    clock: Clock,
) -> tuple[list[Check], dict[str, Explains], int]:
    """Judge by each law, and keep its smallest failing call."""
    checks: list[Check] = []
    explains: dict[str, Explains] = {}
    cut = 0
    for number, law in enumerate(laws, 1):
        clock.begin(f"check {number} of {len(laws)}: {law.name}")
        recorder.begin(subject)
        every, complete = _outcomes(law, subject, deaths)
        cut += not complete
        judged = [
            report(law, outcome, dtype=subject.dtype, layout=subject.layout) for outcome in every
        ]
        recorder.end(failed=any(check.passed is False for check in judged))
        checks += judged
        explains[law.name] = next((outcome.explains for outcome in every if outcome.explains), "")
    if not cut:
        _require_rows(subject, checks)
    return checks, explains, cut


def _first_instance(implementation: Implementation) -> Instance:
    try:
        return implementation.fresh()
    except (ImplementationError, Unsupported) as error:
        raise CallError(
            f"{implementation.description.name} can't be made: {error}", "", ""
        ) from None


def _outcomes(
    law: Law[Subject], subject: Subject, deaths: list[Died]
) -> tuple[list[Outcome], bool]:
    """Judge by a law; an exception does not undo what was found before it."""
    found: list[Outcome] = []
    complete = True
    try:
        with np.errstate(all="ignore"):  # an implementation may return what is not finite
            found.extend(outcomes(law, subject))
    except ImplementationError as error:
        found.append(call_failure(error))
    except Unsupported as error:
        found.append(no_verdict(str(error)))
    except OutOfTime as error:
        complete = error.found is not None
        found.append(error.found or no_verdict(NOT_JUDGED))
    fatal = [death for death in deaths if death.furthest < subject.context]
    deaths.clear()
    if fatal and all(outcome.passed is not False for outcome in found):
        found.append(call_failure(fatal[0]))
    return found, complete or any(outcome.passed is False for outcome in found)
