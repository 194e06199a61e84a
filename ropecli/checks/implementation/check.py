"""Check somebody's rotary embedding against the laws."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ropecli.checks.identify import Identification
from ropecli.checks.implementation import arguments, failure_script
from ropecli.checks.implementation.call import Died, ImplementationError, OutOfTime, Unsupported
from ropecli.checks.implementation.calling.discover import Arrangements, Search
from ropecli.checks.implementation.calling.find import (
    CallError,
    adapter,
    find_convention,
    keyword_texts,
)
from ropecli.checks.implementation.calling.run import TIMEOUT, Clock, calls_of
from ropecli.checks.implementation.calling.source import source_of
from ropecli.checks.implementation.convention import Convention
from ropecli.checks.implementation.diagnosis import diagnose, findings
from ropecli.checks.implementation.failing_call import Recorder, Repeated
from ropecli.checks.implementation.interface import Implementation, Instance
from ropecli.checks.implementation.laws import LAWS, SCORE_LAWS
from ropecli.checks.implementation.probe import probe
from ropecli.checks.implementation.rows import call_failure
from ropecli.checks.implementation.subject import Evidence, Subject
from ropecli.checks.law import Check, Explains, Law, Outcome, no_verdict, outcomes, report
from ropecli.numbers import at_least, length
from ropecli.results import Result
from ropecli.rotary.rotary import Rotary

CONTEXT = 131_072
NOT_JUDGED = "not judged within the budget"
#: What `fast` leaves out.
FAST = (
    "a tenth of the calls: sizes, dtypes and memory orders alone and not in pairs, the first "
    "positions, the last, and some between"
)
FIELDS = {"tables": "columns"}  #: Fields of a convention that have another name here.


@dataclass(frozen=True, kw_only=True, eq=False)
class Verdict(Result):
    """The verdict on an implementation, law by law."""

    checks: tuple[Check, ...]  #: One for each law, and for each dtype where that matters.
    expect: Rotary | None  #: The encoding expected; None if any RoPE is correct.
    identified: Identification | None  #: The RoPE that it is; None if rows do not show it.
    diagnosis: str | None  #: What is wrong, in a sentence; None if nothing is.
    convention: Convention  #: How it was called.
    arrangements: tuple[str, ...]  #: Axes of x in which it was called, those of `convention` first.
    not_judged: tuple[str, ...]  #: Options of axes that run and do not show that they are meant.
    refused_batch: str | None  #: What a batch raises, if an argument is one value a sequence.
    notes: tuple[str, ...]  #: What a reader should know of how it was run.
    findings: tuple[str, ...]  #: What is unusual about it, and yet no failure.
    loosened: tuple[str, ...]  #: Tolerances that were set, and laws that were left out.
    head_dim: int  #: Coordinates of the vectors that it was called with.
    axes: int  #: Coordinates of a position.
    dtypes: tuple[str, ...]  #: Dtypes of the vectors, the first one for all laws.
    context_length: int  #: Positions up to which it was judged.
    original_context_length: int | None  #: Positions of the training; None if unknown.
    longest_sequence: int | None  #: Most tokens that it took, if it refuses longer sequences.
    seed: int  #: Seed of the vectors.
    seconds: float  #: Time it took.

    unfinished: str | None = None  #: "12 of 30 checks in 120 s" if a budget ended it before.

    @property
    def passed(self) -> bool | None:
        """True if no law that applies failed; None if none did, and a budget left some out."""
        failed = any(check.passed is False for check in self.checks)
        return False if failed else None if self.unfinished else True


def check(
    target: Any = None,
    *,
    expect: Rotary | None = None,
    command: str | None = None,
    apply_with: Any = None,
    framework: str | None = None,
    form: str | None = None,
    call: str | None = None,
    axes_of_x: str | None = None,
    axes_of_positions: str | None = None,
    positions_dtype: str | None = None,
    axes_of_tables: str | None = None,
    freqs: str | None = None,
    tables: str | None = None,
    tables_dtype: str | None = None,
    head_dim: int | None = None,
    context_length: int | None = None,
    original_context_length: int | None = None,
    dtypes: str | Sequence[str] | None = None,
    device: str | None = None,
    init: Mapping[str, Any] | None = None,
    axes: int | None = None,
    seed: int = 0,
    result_dtype: str | None = None,
    tolerance: float | str | Sequence[str] | Mapping[str, float | str] | None = None,
    select: str | Sequence[str] | None = None,
    ignore: str | Sequence[str] = (),
    thorough: bool = False,
    fast: bool = False,
    isolated: bool = True,
    timeout: float = TIMEOUT,
    budget: float | None = None,
    memory: float | None = None,
    echo: Callable[[str], None] | None = None,
    save_failure: str | os.PathLike[str] | None = None,
    force: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Verdict:
    """Check an implementation of RoPE against the laws, on vectors that it rotates itself.

    It is called with vectors and positions of every kind, in every dtype, and each row is
    compared with a float64 rotation: the one expected, or the one that `identify` recognises. How
    it is called is found by its signature and by trial, but for what is given here.

    Args:
        target: The function, class or object; or "module:function", "file.py:function" or
            "library.so:symbol".
        expect: The encoding expected; without it, any RoPE in any convention is correct.
        command: A program in place of a target, such as "./kernel {x} {positions} {out}".
        apply_with: Second function, which rotates vectors by the tables that the target returns.
        framework: Framework of the arrays that it takes: "numpy", "torch", "jax", ...
        form: "apply": function(x, positions). "module": a class or object that is called so.
            "tables": function(q, k, cos, sin). "decoder": a class with prefill(x) and step(x_one).
            "score": function(q, k, positions) with the scores before softmax; `expect` must be
            given.
        call: The call as a Python expression, such as "apply(q, k, cos, sin)" or
            "Rotary(dim=head_dim)(x, offset)".
        axes_of_x: Axes of the vectors, such as "b s h d" or "b*s h*d".
        axes_of_positions: "s", "b s" or "b*s"; of several coordinates, "c b s" has them first.
        positions_dtype: Dtype of positions, such as "int32".
        axes_of_tables: Axes of cos, sin and freqs, such as "s 1 d".
        freqs: What freqs are: "angles", "complex", "cos sin" (..., 2) or "matrix" (..., 2, 2).
        tables: Columns of tables: each frequency in both "half"s, side by side ("interleaved"), or
            once ("single").
        tables_dtype: Dtype of tables and of inv_freq, such as "float32".
        head_dim: Coordinates of a vector; those of `expect`, or 64, by default.
        context_length: Positions that it must take; 131,072 are tried by default.
        original_context_length: Positions of the training, at which some types change their
            frequencies; that of `expect` by default.
        dtypes: Dtypes of the data, the first one for all laws; those of the framework by default.
        device: Device, as the framework names it.
        init: Keyword arguments for the class, or for the function.
        axes: Coordinates of a position; those of `expect`, or 1, by default.
        seed: Seed of the vectors.
        result_dtype: Dtype of results, where it is not that of the data.
        tolerance: Least error that is allowed of each coordinate: 1e-3, or "2ulp" of a pair's
            length; for one dtype "float16=1e-3"; several of these, or a mapping from dtypes.
        select: Names of the laws to judge by; all by default.
        ignore: Names of laws to leave out.
        thorough: Make about ten times as many calls.
        fast: Make about a tenth of the calls: each size, dtype and memory order alone, and not
            in pairs; few steps, and few short calls. The verdict lists it.
        isolated: Run it in a process of its own, which may crash or hang. What cannot be pickled
            runs in this one.
        timeout: Seconds for one call in a process of its own.
        budget: Seconds for all calls, those that find how it is called included; no limit by
            default. A verdict that it cuts short passes nothing.
        memory: GB of memory that its process may use; half of the machine's by default.
        echo: Takes each line that such a process prints, with control characters escaped.
        save_failure: A .npz file for the smallest call that fails, with the result expected, and
            next to it a script that shows it without ropecli. Without a failure nothing is written.
        force: Replace files that exist.
        progress: Takes a line that says what is being done, several times a second.

    Returns:
        The verdict. `print` shows it; `passed` is the answer, `convention` how the implementation
        was called, `diagnosis` what is wrong, and `checks` has the error and the tolerance of
        each law.

    Raises:
        ArgumentError: An unusable value.
        ArgumentTypeError: An argument of the wrong type.
        FileError: A name that can't be loaded, or a file that can't be written.
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
        other frequencies: base 10000, expected 500000; ...
    """
    begin = time.perf_counter()
    given = {
        "framework": framework,
        "form": form,
        "call": call,
        "axes_of_x": axes_of_x,
        "axes_of_positions": axes_of_positions,
        "positions_dtype": positions_dtype,
        "axes_of_tables": axes_of_tables,
        "freqs": freqs,
        "tables": tables,
        "tables_dtype": tables_dtype,
    }
    arguments.check_strings(**given, device=device, result_dtype=result_dtype)
    arguments.check_names(framework, form, result_dtype)
    known_laws = SCORE_LAWS if form == "score" else LAWS
    laws = arguments.laws(known_laws, select, ignore)
    expect = arguments.expectation(expect, form)
    dim = arguments.head_dim(head_dim, expect)
    context = CONTEXT if context_length is None else length("context length", context_length)
    original = arguments.original_length(original_context_length, expect)
    seed = at_least("seed", seed, 0)
    count = arguments.axes(axes, expect, form)
    keywords = arguments.keywords(init)
    files = None if save_failure is None else failure_script.check_path(save_failure, force=force)
    rope = expect or Rotary(
        head_dim=dim, layout="interleaved" if tables == "interleaved" else "half"
    )
    texts, objects = keyword_texts(keywords)
    run = functools.partial(
        calls_of,
        source_of(target, command, apply_with, objects, device),
        isolated=isolated,
        timeout=timeout,
        memory=memory,
        echo=echo,
    )
    clock = Clock(budget, progress)
    clock.begin("searching how to call it")
    with _within_budget(clock), run(clock=clock) as caller:
        known = {FIELDS.get(k, k): v for k, v in given.items() if v is not None and k != "form"}
        search = Search(
            caller=caller,
            rope=rope,
            context=context,
            given=known,
            init=texts,
            axes=count,
            dtypes=arguments.dtypes(dtypes),
        )
        found, chosen = find_convention(search, form)
        convention = found.judged[0]
        results = () if result_dtype is None else (f"results are {result_dtype}",)
        tolerances, loosened = arguments.tolerances(
            tolerance, chosen, result_dtype, convention.tables_dtype or None
        )
        recorder = Recorder()
        implementation = Implementation(search, found.judged, keywords)
        caller.end_search()  # a wrong convention may crash a kernel
        caller.listener = None if files is None else recorder.hear
        clock.begin("finding which RoPE it is")
        subject = Subject(
            implementation=implementation,
            instance=_first_instance(implementation),
            dim=dim,
            dtypes=chosen,
            expect=expect,
            context=context,
            context_given=context_length is not None,
            original=original,
            seed=seed,
            axes=count,
            thorough=thorough,
            fast=fast,
            tolerances=tolerances,
            named_dtypes=arguments.dtypes(dtypes) or (),
            evidence=Evidence(dtype=chosen[0]),
        )
        if form != "score":
            with np.errstate(all="ignore"):  # an implementation may return what is not finite
                subject = probe(subject)
        checks, explains, cut = _judge(laws, subject, caller.deaths, recorder, clock)
        clock.stop()
        told = list(caller.notes)
        if files is not None and any(check.passed is False for check in checks):
            caller.restart()  # two processes may not fit into memory
            with run() as again:
                case = Repeated(subject=subject, caller=again).smallest(recorder.kept)
            told.append("no failure is saved: no call by itself shows one")
            if case is not None:
                script = failure_script.Script(
                    call=case,
                    target=target,
                    command=command,
                    other=apply_with,
                    device=device,
                )
                script.write(files, force=force)
                told[-1] = f"the smallest failing call is in {files[0]}; {files[1]} shows it"
        checks = _fail_refused_batch(checks, found)
        diagnosis, checks = diagnose(subject, checks, explains)
    return Verdict(
        checks=tuple(checks),
        expect=expect,
        identified=subject.evidence.identified,
        diagnosis=diagnosis,
        convention=convention,
        arrangements=tuple(dict.fromkeys(each.axes_of_x for each in implementation.arrangements)),
        refused_batch=found.refused_batch,
        not_judged=tuple(
            dict.fromkeys(f'--axes-of-x "{each.axes_of_x}"' for each in found.not_judged)
        ),
        notes=tuple(told),
        findings=findings(subject, checks),
        loosened=(*loosened, *results, *_left_out(laws, known_laws), *([FAST] if fast else [])),
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


def _fail_refused_batch(checks: list[Check], found: Arrangements) -> list[Check]:
    """Fail a batch that was refused, if an argument that has something of each promises one."""
    if not found.promised:
        return checks
    note = f"an argument has a value for each sequence, and batches raise: {found.refused_batch}"
    return [
        replace(each, passed=False, note=note) if each.name == "batched positions" else each
        for each in checks
    ]


def _require_rows(subject: Subject, checks: Sequence[Check]) -> None:
    """Refuse a verdict that rests on no row; a failure may rest on those that show the rotation."""
    scores, evidence = subject.implementation.form == "score", subject.evidence
    fails = any(check.passed is False for check in checks)
    if any(check.samples for check in checks) or (
        fails and (scores or evidence.first_rows is not None)
    ):
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


@contextlib.contextmanager
def _within_budget(clock: Clock) -> Iterator[None]:
    """Refuse an implementation that is not called and recognised within the budget."""
    try:
        yield
    except OutOfTime:
        raise CallError(
            f"no verdict within the budget of {clock.budget:g} s, still {clock.doing}",
            "raise `budget`, or give the call with `call`",
            "",
        ) from None


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
        every, whole = _outcomes(law, subject, deaths)
        cut += not whole
        judged = [report(law, each, dtype=subject.dtype, layout=subject.layout) for each in every]
        recorder.end(failed=any(check.passed is False for check in judged))
        checks += judged
        explains[law.name] = next((each.explains for each in every if each.explains), "")
    if not cut:
        _require_rows(subject, checks)
    return checks, explains, cut


def _left_out(kept: Sequence[Law[Subject]], known: Sequence[Law[Subject]]) -> list[str]:
    """Describe which laws were not judged by, in the shorter way."""
    names = list(dict.fromkeys(law.name for law in kept))
    absent = list(dict.fromkeys(law.name for law in known if law.name not in names))
    if not absent:
        return []
    if len(names) < len(absent):
        return [f"judged by {_list_names(names)} alone"]
    return [f"not judged by {_list_names(absent)}"]


def _list_names(names: Sequence[str]) -> str:
    """Return names with commas between them, in quotes where one holds a comma itself."""
    return ", ".join(repr(name) if "," in name else name for name in names)


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
    whole = True
    try:
        with np.errstate(all="ignore"):  # an implementation may return what is not finite
            found.extend(outcomes(law, subject))
    except ImplementationError as error:
        found.append(call_failure(error))
    except Unsupported as error:
        found.append(no_verdict(str(error)))
    except OutOfTime as error:
        whole = error.found is not None
        found.append(error.found or no_verdict(NOT_JUDGED))
    fatal = [death for death in deaths if death.furthest < subject.context]
    deaths.clear()
    if fatal and all(outcome.passed is not False for outcome in found):
        found.append(call_failure(fatal[0]))
    return found, whole or any(outcome.passed is False for outcome in found)
