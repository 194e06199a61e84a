"""Check somebody's code of a positional encoding against the formula of its paper."""

from __future__ import annotations

import difflib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ropecli.checks.encoding.asked import Asked
from ropecli.checks.encoding.calls import roles
from ropecli.checks.encoding.known import KNOWN, Known
from ropecli.checks.encoding.laws import LAWS, EncodingSubject, formula
from ropecli.checks.encoding.reading import Reading
from ropecli.checks.encoding.search import Trial, trials
from ropecli.checks.implementation import arguments, failure_file
from ropecli.checks.implementation.arguments import left_out
from ropecli.checks.implementation.call import ImplementationError, OutOfTime, Unsupported
from ropecli.checks.implementation.calling.describe import Description
from ropecli.checks.implementation.calling.find import CallError, keyword_texts, within_budget
from ropecli.checks.implementation.calling.run import Clock, calls_of
from ropecli.checks.implementation.calling.source import source_of
from ropecli.checks.implementation.convention import Convention
from ropecli.checks.implementation.options import Options
from ropecli.checks.law import Check, Outcome, no_verdict, outcomes, report
from ropecli.checks.verdict import CodeVerdict
from ropecli.errors import ArgumentError
from ropecli.names import one_of, quote
from ropecli.numbers import at_least

#: Options of `check` that mean something for RoPE only.
OF_ROPE = (
    *("expect", "model", "apply_with", "axes_of_x", "axes_of_positions", "positions_dtype"),
    *("axes_of_tables", "freqs", "tables", "tables_dtype", "form", "axes", "offset"),
    *("original_context_length", "result_dtype", "tolerance", "command"),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodingVerdict(CodeVerdict, view="check_encoding"):
    """The verdict on code of a positional encoding."""

    encoding: str  #: Its name, such as "alibi".
    title: str  #: Its name in a sentence.
    form: str  #: What the code returns: "table", "grid", "bias", "slopes", "buckets", ...
    reading: str  #: How it differs from the formula of the paper; empty if it does not.
    released: str | None  #: Where it is released so; None if no release is known.
    options: Mapping[str, Any]  #: The reading, as `set` takes it.
    call: str  #: How it was called.
    framework: str  #: Framework of the arrays.
    required: Mapping[str, Any]  #: What was given of the encoding.


def check_encoding(options: Options) -> EncodingVerdict:
    """Check code of a positional encoding, by options of `check`.

    Raises:
        ArgumentError: An unusable value, or an option that says nothing of this encoding.
        ArgumentTypeError: A value of the wrong type.
        FileError: A name that can't be loaded, or a file that can't be read or written.
        CallError: No way to call it was found, or not within the budget.
    """
    begin = time.perf_counter()
    name = one_of("encoding", str(options.encoding), KNOWN)
    known = KNOWN[name]
    for option in OF_ROPE:
        if getattr(options, option) is not None:
            raise ArgumentError(f"{option} has no effect on encoding {name}")
    required = _required_settings(options.set, known, name)
    seed = at_least("seed", options.seed, 0)
    texts, objects = keyword_texts(arguments.keywords(options.init))
    asked = _sizes(options, name, required)
    laws = arguments.laws(LAWS, options.select, options.ignore)
    file = None
    if options.save_failure is not None:
        file = failure_file.check_path(options.save_failure, force=options.force)
    clock = Clock(options.budget, options.progress)
    clock.begin("searching how to call it")
    source = source_of(options.target, None, None, objects, options.device)
    with within_budget(clock), calls_of(source, options, clock) as caller:
        description = caller.describe()
        trial, errors = trials(
            caller,
            known,
            [*known.forms],
            asked,
            call=options.call,
            init=texts,
            frameworks=[options.framework] if options.framework else description.frameworks,
        )
        if trial is None:
            raise _not_called(description, name, errors)
        caller.end_search()
        framework = trial.evaluator.framework
        subject = EncodingSubject(
            name=name,
            evaluator=replace(trial.evaluator, changed=[]),
            trial=trial,
            reading=trial.reading,
            required=required,
            parameters=_parameters(description, trial),
            fast=options.fast,
            dtypes=tuple(arguments.dtypes(options.dtypes) or caller.dtypes(framework)),
        )
        whole = trial.compared.share_right == 1
        judged = laws if whole else [law for law in laws if law is formula]
        checks: list[Check] = []
        cut = 0
        for number, law in enumerate(judged, 1):
            clock.begin(f"check {number} of {len(laws)}: {law.name}")
            found, ended = _outcomes(law, subject)
            cut += ended
            made = [report(law, one, dtype=trial.asked.dtype, layout="") for one in found]
            checks += [_follow(one, checks) for one in made]
        diagnosis = _diagnosis(checks)
        notes = [*caller.notes]
        if file is not None and any(check.passed is False for check in checks):
            notes.append(_save(subject, file, options))
    reading = trial.reading if whole else Reading(compute=trial.reading.compute)
    return EncodingVerdict(
        encoding=name,
        title=known.title,
        form=trial.asked.form,
        checks=tuple(checks),
        reading=reading.said,
        released=reading.released,
        options=dict(reading.options),
        diagnosis=diagnosis,
        call=trial.evaluator.spelled.text,
        framework=framework,
        required=required,
        notes=tuple(notes),
        findings=tuple(dict.fromkeys(subject.refused)),
        loosened=(*left_out(laws, LAWS), *(["fewer calls"] if options.fast else [])),
        seed=seed,
        seconds=time.perf_counter() - begin,
        unfinished=f"{len(laws) - cut} of {len(laws)} checks in {clock.budget:g} s"
        if cut
        else None,
    )


def _required_settings(given: Mapping[str, Any] | None, known: Known, name: str) -> dict[str, Any]:
    """Return the settings and the parts of a reading that are given."""
    required = dict(given or {})
    readings = {
        key
        for form, of_form in known.forms.items()
        for reading in of_form(np.full((2, 2), np.nan), Asked(form=form))
        for key in reading.options
    }
    allowed = sorted(known.settings.keys() | readings | {"heads", "dim"})
    for key in required:
        if key not in allowed:
            close = difflib.get_close_matches(key, allowed, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            listed = ", ".join(allowed)
            raise ArgumentError(
                f"encoding {name} has no option {quote(key)}; it has {listed}{hint}"
            )
    return required


def _sizes(options: Options, name: str, required: Mapping[str, Any]) -> Asked:
    """Return the sizes of the first calls, with the settings that are required."""
    known = KNOWN[name]
    settings = {key: value for key, value in required.items() if key in known.settings}
    given = [name for name in ("heads", "dim") if name in required]
    sizes: dict[str, Any] = {name: at_least(name, required[name], 1) for name in given}
    if options.head_dim is not None:
        sizes["dim"] = at_least("head_dim", options.head_dim, 1)
    return replace(Asked(form="table", seed=options.seed, settings=settings), **sizes)


def _not_called(description: Description, name: str, errors: Sequence[str]) -> CallError:
    """Return why no call returned anything of the encoding's shape."""
    one = ("bias", "grid", "table")
    forms = " or ".join(f"a {form}" if form in one else form for form in KNOWN[name].forms)
    why = f"; the first call: {errors[0]}" if errors else ": names of its parameters say too little"
    return CallError(
        f"no call of {description.name} returns {forms} of encoding {name}{why}",
        "give the call with `call`, such as 'f(length, dim)'; docs/encodings.md has the names",
        "",
    )


def _parameters(description: Description, trial: Trial) -> dict[str, str]:
    """Return the optional parameters of the code that are settings of the formula."""
    found: dict[str, str] = {}
    known, names = trial.evaluator.known, trial.evaluator.spelled.names
    for parameter in description.parameters or ():
        for role in roles(parameter.name, known, trial.asked.form):
            if role in known.settings and role not in names:
                found.setdefault(role, parameter.name)
    return found


def _outcomes(law: Any, subject: EncodingSubject) -> tuple[list[Outcome], bool]:
    """Return the outcomes of a law, and whether the budget ended it."""
    found: list[Outcome] = []
    try:
        with np.errstate(all="ignore"):
            found.extend(outcomes(law, subject))
    except (ImplementationError, Unsupported) as error:
        found.append(Outcome(passed=False, samples=1, note=str(error)))
    except OutOfTime:
        return [*found, no_verdict("not judged within the budget")], True
    return found, False


def _follow(check: Check, before: Sequence[Check]) -> Check:
    """Return a failure with the check that explains it: of a wrong formula, all others."""
    wrong = any(
        one_check.name == formula.name and one_check.passed is False for one_check in before
    )
    return replace(check, follows=formula.name) if wrong and check.passed is False else check


def _diagnosis(checks: Sequence[Check]) -> str | None:
    """Return what is wrong, from the first check that fails."""
    failed = next((check for check in checks if check.passed is False), None)
    if failed is None:
        return None
    said = [failed.note, failed.counterexample]
    return ": ".join(dict.fromkeys(filter(None, said))) or f"{failed.name} fails"


def _save(subject: EncodingSubject, file: Path, options: Options) -> str:
    """Write the call that was explained, with what it must return, and return a note on it."""
    trial = subject.trial
    # What is wrong in no single call, such as state, is shown by the first one.
    explained = (trial.evaluator.spelled.text, trial.asked, trial.compared)
    text, asked, compared = (*subject.failing, explained)[0]
    values = asked.values([*Convention(call=text).names])
    arrays = {name: np.asarray(value) for name, value in values.items() if name != "dtype"}
    target = options.target
    name = target if isinstance(target, str) else subject.evaluator.caller.describe().name
    words = (
        f"A call that {name} answers wrongly: {text}, with arrays of "
        f"{subject.evaluator.framework}.\nThe result is not `expected` within `tolerance`."
    )
    more = {"expected": compared.expected, "tolerance": compared.allowed}
    failure_file.save(file, {**arrays, **more, "call": np.array(words)}, force=options.force)
    return f"a failing call is in {file}"
