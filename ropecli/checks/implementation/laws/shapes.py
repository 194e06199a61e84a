"""Checks of shapes: all are rotated alike, and so is every position of the context."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ropecli.checks.implementation.call import (
    MEMORY,
    Call,
    Died,
    ImplementationError,
    Unsupported,
    WrongResult,
)
from ropecli.checks.implementation.laws.positions import BATCHED, POSITIONS
from ropecli.checks.implementation.rows import call_failure, oracle_law
from ropecli.checks.implementation.shapes import design
from ropecli.checks.implementation.shapes.design import Case
from ropecli.checks.implementation.shapes.survey import Survey, call_at
from ropecli.checks.implementation.subject import Subject
from ropecli.checks.law import Outcome, law, no_verdict

#: Positions from 0 on, those of a later chunk, and kinds that are checks of their own as well.
MODES = (
    "prefill",
    "chunked prefill",
    "packed sequences",
    "gaps in positions",
    "repeated positions",
    "positions backwards",
    "long positions",
)
THOROUGH = 10  #: Times as many calls.
MOST_HEADS, MOST_SEQUENCES = 129, 65  #: Of two calls of one token: models have 64 and 128 heads.
STEPS, GROWN = 600, 130  #: Steps of decoding, and lengths of a sequence that grows by one.
COSTLY_STEPS = 8  #: The same, where each takes long.
#: Sizes of calls where each new shape is compiled: lengths of other checks, and some beside blocks.
COMPILED = {
    "length": (1, 3, 16, 17, 65, 127, 513, 4096),
    "heads": (1, 3, 8, 33),
    "batch": (1, 2, 5),
}
#: The same in calls of one token, lengths of a sequence that grows, and one of a prefill after it.
COMPILED_STEP = {"heads": (1, 3), "batch": (1, 2)}
COMPILED_GROWTH = (1, 3, 16, 17)
COMPILED_PREFILL = 65
STRIDE = 64  #: One step in this number is another instance's.
WHOLE = 2**23  #: Numbers in the one long call,
FEWER = 32  #: and what it is divided by if that is to be fast.
RUN = 128  #: Positions in each of the short calls.
SECOND = 12  #: Tokens of the second sequence of a decoder.
LOOKED_AT = 4  #: Wrong gradients checked against their rows.
#: Heads of queries and of keys, which some code takes although they do not divide those of queries.
KEY_HEADS = ((4, 2), (4, 1), (6, 2), (1, 1), (4, 4), (5, 2))
FEWER_HEADS = "wrong with grouped-query attention (fewer key heads)"
AS_ROWS_DO = ", as the rows themselves do"
NEIGHBOURS = 5  #: Positions before a wrong one with which it is tried again.
SHARE = 10  #: One position in this number is seen in a short call as well.
#: Sizes of calls that are differentiated, which takes longer.
DIFFERENTIATED = {
    "length": (1, 3, 16, 63, 64, 65, 129, 1025),
    "heads": (1, 2, 3, 9, 17, 33),
    "batch": (1, 2, 4, 5),
}
PLAIN = 16  #: Tokens of a call that has nothing else to show.
#: What values of a factor have in common, where each need not meet each of another factor.
KINDS: design.Kinds = {
    **dict.fromkeys(("length", "position", "heads", "batch"), design.kind_of_size),
    "memory": MEMORY[0].__eq__,
    "mode": MODES[0].__eq__,
}


@oracle_law("every shape")
def every_shape(subject: Subject) -> Outcome:
    """Rows are the same rotation in whatever shape, memory and dtype they come."""
    survey = _survey_shapes(subject)
    if survey.failed and subject.expect is not None and not subject.as_expected:
        # The rotation found may be that of some shapes, and the one expected that of others.
        held = _survey_shapes(replace(subject.held_to_expected, surveyed=[]))
        if held.right_calls:
            return held.outcome()
    outcome = survey.outcome(with_others=True)
    if not outcome.passed:
        return outcome
    return replace(outcome, note="; ".join(filter(None, (survey.reach(), outcome.note))))


def _survey_shapes(subject: Subject) -> Survey:
    survey = Survey(subject)
    for factors in (_factors(subject), _of_one_token(subject)):
        _survey(survey, factors)
    plain = design.one_at_a_time(_of_one_token(subject))[0]
    # Code that counts positions itself rotates no first token.
    rotated: Case = {"length": 2}
    if subject.implementation.is_given_positions:
        rotated = {"position": min(PLAIN, subject.context - 1)}
    heads, batch = {"heads": MOST_HEADS}, {"batch": MOST_SEQUENCES}
    every: list[Case] = [plain | sizes | rotated for sizes in (heads, batch)]
    both = every[0] | batch
    if subject.implementation.compiles and _is_taken(subject, both):
        every = [both]
    for case in every:
        if _is_taken(subject, case):
            survey.make(_call(subject, case))
    return survey


def _is_taken(subject: Subject, case: Case) -> bool:
    """Return False for a call that its arrangement of axes cannot express."""
    axes, per_sequence = case["axes, own"]
    return subject.implementation.takes(
        axes, batch=case["batch"], heads=case["heads"], per_sequence=per_sequence
    )


def _survey(survey: Survey, factors: design.Factors, *, gradient: bool = False) -> None:
    """Make calls with each value alone, and then with each kind of the others, if it is taken."""
    subject = survey.subject

    def by_size(cases: Sequence[Case]) -> list[Case]:  # a budget cuts the longest calls
        return sorted(cases, key=lambda case: design.rows(case).bit_length())

    def within(limit: int) -> Callable[[Case], bool]:
        return lambda case: design.rows(case) <= limit and _is_taken(subject, case)

    singles: list[Case] = []
    met: set[tuple[str, Any]] = set()
    for per_sequence in factors["axes, own"]:  # each tries what those before have no place for
        for case in design.one_at_a_time(
            {**factors, "axes, own": [per_sequence]}, within(design.ROWS[-1])
        ):
            if not met.issuperset(case.items()):
                singles.append(case)
                met.update(case.items())
    singles = by_size(singles)
    accepted = [call for call in singles if survey.make(_call(subject, call, gradient=gradient))]
    if subject.few_calls or not accepted:
        return
    known = {
        name: [value for value in values if any(case[name] == value for case in accepted)]
        for name, values in factors.items()
    }
    random = np.random.default_rng([subject.seed, 41])
    for number in range(THOROUGH if subject.thorough else 1):
        if number:  # other sizes, and other partners for each
            most = min(subject.context, design.ROWS[-1])
            others = random.integers(1, most + 1, size=len(known["length"])).tolist()
            known["length"] = sorted({*others})
        kinds_of_calls = {} if subject.thorough else KINDS
        limits = [within(limit) for limit in design.ROWS]
        pairs = design.cover(known, *limits, first=accepted, kinds=kinds_of_calls)
        for shape in by_size(pairs):
            survey.make(_call(subject, shape, gradient=gradient, salt=number))


def _factors(subject: Subject) -> dict[str, Sequence[Any]]:
    """Return the values of each factor of a call with many tokens, the plain one first."""
    lengths = [n for n in design.LENGTHS if n <= subject.context]
    plain = min(PLAIN, subject.context)
    every = subject.implementation.arrangements
    known = {convention.axes_of_x: convention for convention in reversed(every)}
    factors: dict[str, Sequence[Any]] = {
        # One factor, so that every size meets both kinds of positions in each arrangement. Tables
        # of each sequence are the same in all arrangements of the same vectors.
        "axes, own": [
            (convention, per_sequence)
            for convention, per_sequence in itertools.product(every, (False, True))
            if not per_sequence or known[convention.axes_of_x] == convention
        ],
        "length": [plain, *(n for n in lengths if n != plain)],
        "heads": design.HEADS,
        "batch": design.BATCHES,
        "dtype": subject.dtypes,
        "memory": MEMORY,
        "mode": MODES,
    }
    names = subject.implementation.convention.names
    if names & {"k", "qkv"}:
        factors["key_heads"] = ("all", "one", "some") if "k" in names else ("all",)
    return _keep(factors, COMPILED) if subject.implementation.compiles else factors


def _keep(
    factors: dict[str, Sequence[Any]], sizes: Mapping[str, Sequence[int]]
) -> dict[str, Sequence[Any]]:
    """Return factors of which some have no other sizes than these."""
    kept = {name: [n for n in factors[name] if n in few] for name, few in sizes.items()}
    return factors | kept


def _of_one_token(subject: Subject) -> dict[str, Sequence[Any]]:
    """Return the values of each factor of a decoding step: the position in place of a length."""
    powers = [2**i for i in range(1 + subject.context.bit_length())]
    edges = [p for p in {0, *design.both_sides(*powers)} if p < subject.context]
    factors = _factors(subject)
    if subject.implementation.compiles:
        factors = _keep(factors, COMPILED_STEP)
        factors["axes, own"] = factors["axes, own"][:2]  # of the first arrangement
    return factors | {"position": sorted(edges), "length": [1], "mode": ["decoding"]}


def _call(subject: Subject, case: Case, **more: Any) -> Call:
    """Return the call of a case."""
    length, batch, context = case["length"], case["batch"], subject.context
    axes, per_sequence = case["axes, own"]
    random = np.random.default_rng([subject.seed, length, batch, case["heads"]])
    index = np.arange(length)
    places = []
    for b in range(batch if per_sequence else 1):
        if case["mode"] == "prefill":  # positions of each sequence: padding on the left
            places.append(np.maximum(index - (b % length if per_sequence else 0), 0))
        elif case["mode"] == "decoding":
            places.append(index + max(0, case["position"] - b))
        elif case["mode"] == "chunked prefill":
            most = max(0, min(context - length, 4 * length + 64))
            places.append(index + int(random.integers(min(1, most), most + 1)))
        elif case["mode"] == "packed sequences":
            places.append(index % int(random.integers(length // 3 + 1, length + 1)))
        else:
            places.append(np.roll(POSITIONS[case["mode"]].places(length, context), b))
    keys = case.get("key_heads")
    heads = case["heads"]
    some = next((heads // n for n in (2, 3, 5, 7, 11) if heads % n == 0), 1)
    return call_at(
        subject,
        np.stack(places) if per_sequence else places[0],
        case["dtype"],
        batch=batch,
        heads=heads,
        key_heads=0 if keys is None else {"all": heads, "one": 1, "some": some}[keys],
        per_sequence=per_sequence,
        memory=case["memory"],
        mode=case["mode"],
        arrangement=None if axes == subject.implementation.convention else axes,
        **more,
    )


@oracle_law("every position")
def every_position(subject: Subject) -> Outcome:
    """Each position of the context is right in one long call, and a tenth of them in short ones."""
    survey = Survey(subject)
    longest_whole = WHOLE // FEWER if subject.fast else WHOLE
    length = min(subject.context, max(RUN, longest_whole // subject.dim))
    if subject.implementation.form == "decoder":
        length = min(length, 4096)
    *_, accepted = survey.make_all([*_short_runs(subject), _run(subject, 0, length)])
    while not accepted:
        if length == 1:
            return no_verdict(survey.refusal() or "it cannot be called with consecutive positions")
        length = (length + 1) // 2
        accepted = survey.make(_run(subject, 0, length))
    longest = length
    starts = range(longest, subject.context, longest)  # of a context that is longer
    for first in starts[-1:] if subject.fast else starts:
        if not survey.make(_run(subject, first, min(longest, subject.context - first))):
            break
    for position in survey.wrong_positions():  # in another row: is it the row or the position?
        before = min(NEIGHBOURS, position)
        survey.make(_run(subject, position - before, before + 1))
    limit = survey.limit_of_length()
    while limit is not None and limit[1] - limit[0] > 1:  # which length is the first wrong one?
        if not survey.make(_run(subject, 0, sum(limit) // 2)):
            break
        limit = survey.limit_of_length()
    outcome = survey.outcome(with_others=True)
    return replace(outcome, samples=survey.numbers // subject.dim)


def _short_runs(subject: Subject) -> list[Call]:
    """Return short calls that see some share of the context."""
    random = np.random.default_rng([subject.seed, 42])
    starts = np.arange(0, max(1, subject.context - RUN + 1), RUN)
    share = 1 if subject.thorough else SHARE
    chosen = random.permutation(starts)[: 1 + len(starts) // share]
    if subject.few_calls or subject.implementation.form == "decoder":
        chosen = chosen[:4]
    lengths = np.minimum(RUN, subject.context - chosen)
    chosen = chosen + random.integers(0, 2, size=len(chosen))
    return [
        _run(subject, first, max(1, length - 1))
        for first, length in zip(chosen.tolist(), lengths.tolist(), strict=True)
    ]


def _run(subject: Subject, first: int, length: int, mode: str = "one sequence") -> Call:
    return call_at(subject, range(first, first + length), mode=mode)


@oracle_law(
    "gradient", "the gradient is not the inverse rotation", because="the rounding of one rotation"
)
def gradient(subject: Subject) -> Outcome:
    """The gradient of the input is the one of the result, rotated back and stretched as much."""
    survey = Survey(subject)
    factors = _keep(_factors(subject), DIFFERENTIATED)
    plain = design.one_at_a_time(factors)[0]
    try:
        note = survey.instance.call(_call(subject, plain, gradient=True)).note
    except Unsupported as error:
        return no_verdict(str(error))
    except (WrongResult, Died) as error:
        return call_failure(error)
    except ImplementationError as error:
        return no_verdict(f"refuses to be differentiated: {error}")
    if subject.implementation.costly:
        factors = {name: values[:1] for name, values in factors.items()}
    _survey(survey, factors, gradient=True)
    outcome = survey.outcome()
    if outcome.passed is False and survey.note is None and _inverts_what_is_computed(survey):
        return replace(outcome, note=f"{outcome.note}{AS_ROWS_DO}")
    return replace(outcome, note=note) if outcome.passed and note else outcome


def _inverts_what_is_computed(survey: Survey) -> bool:
    """Return True if wrong gradients belong to rows that are wrong in the same way.

    With y = R x and its gradient R^T g of g, <g, y> = <R^T g, x>, whatever R is.
    """
    for call in survey.wrong_calls(LOOKED_AT):
        # The gradient does not depend on x; with the same vectors, R and its transpose are alike.
        plain = replace(call, gradient=False, vectors=np.roll(call.vectors, 1, axis=-1))
        try:
            made, backs = (
                survey.instance_for(one_call).call(one_call) for one_call in (plain, call)
            )
        except (ImplementationError, Unsupported):
            return False
        results = (made.q, made.k)
        arrays = call.gradients, backs.gradient or (), (plain.q, plain.k), results
        for given in zip(*arrays, strict=False):
            if any(array is None for array in given):
                continue
            g, back, x, y = (np.asarray(array, dtype=np.float64) for array in given)
            y_off, back_off = (
                survey.subject.repeat_tolerance(array, call.dtype) for array in (y, back)
            )
            # Each number of y and of the gradient may be off by so much.
            bound = (np.abs(g) * y_off + np.abs(x) * back_off).sum(axis=-1)
            off = np.abs((g * y).sum(axis=-1) - (back * x).sum(axis=-1))
            if not (off <= bound).all():  # nor if it is NaN
                return False
    return True


@oracle_law("keys", "keys are turned otherwise than queries")
def keys(subject: Subject) -> Outcome:
    """Keys are rotated as queries are, in their own number of heads."""
    names = subject.implementation.convention.names
    if not names & {"k", "qkv"}:
        return no_verdict("it takes no keys")
    places = range(min(32, subject.context))
    survey, refused = Survey(subject), None
    for heads, key_heads in KEY_HEADS if "k" in names else ((4, 4), (1, 1)):
        call = call_at(subject, places, heads=heads, key_heads=key_heads, salt=5)
        accepted = survey.make(call)
        if not accepted and refused is None and heads % key_heads == 0:
            error = survey.refusals[-1] if survey.refusals else survey.unsupported
            refused = f"refuses {key_heads} heads of keys with {heads} of queries: {error}"
    if survey.calls and "k" not in survey.arrays and not survey.failed:
        return no_verdict("it returns no keys")
    # Checks of batches compare queries alone.
    survey.make(call_at(subject, BATCHED, key_heads=1, per_sequence=True, salt=5))
    outcome = survey.outcome_of_one()
    if outcome.passed is not False:
        return replace(outcome, note=refused)
    if accepted and all(
        one_call.key_heads < one_call.heads for one_call in survey.wrong_calls(LOOKED_AT)
    ):
        return replace(outcome, note=": ".join(filter(None, (FEWER_HEADS, outcome.note))))
    return outcome


@oracle_law("many steps", "many calls leave something behind")
def steps(subject: Subject) -> Outcome:
    """Each of many steps is right, after sequences that grow, and so is a prefill after them."""
    many, grown = (COSTLY_STEPS, COSTLY_STEPS) if subject.few_calls else (STEPS, GROWN)
    many, grown = min(many, subject.context), min(grown, subject.context)
    if subject.implementation.form == "decoder":
        return _decode(subject, many)
    subject.implementation.restart()  # what all instances share is small again
    survey = Survey(subject)
    first, second = survey.instance, subject.implementation.fresh()
    survey.instance = second
    compiles = subject.implementation.compiles
    growing: Sequence[int] = range(1, grown + 1)
    if compiles:
        growing = [n for n in COMPILED_GROWTH if n <= subject.context]
    grows = [_run(subject, 0, length, "a sequence that grows") for length in growing]
    refused = [call for call, made in zip(grows, survey.make_all(grows), strict=True) if not made]
    if survey.refusals and not survey.failed and refused:
        error, again = survey.refusals[0], refused[0]
        if survey.make(again) and not survey.failed:
            return Outcome(
                passed=False,
                samples=survey.numbers // subject.dim,
                counterexample=f"{again}: {error}",
                note=f"a call raises before longer ones and not after them: {error}",
            )
    survey.instance = first
    accepted = survey.make(_run(subject, 1, 1, "a step"))
    singles = [_run(subject, position, 1, "a step") for position in range(many if accepted else 0)]
    for start in range(0, len(singles), STRIDE):
        stride = singles[start : start + STRIDE]
        for instance, some in ((first, stride[: STRIDE - 1]), (second, stride[STRIDE - 1 :])):
            survey.instance = instance
            survey.make_all(some)
    survey.instance = first
    most, longer = (subject.context, COMPILED_PREFILL) if compiles else (many, 3 * PLAIN)
    lengths = (min(PLAIN, most), min(longer, most), min(PLAIN, most))
    survey.make_all([_run(subject, 0, length, "a prefill after steps") for length in lengths])
    return survey.outcome()


def _decode(subject: Subject, many: int) -> Outcome:
    """Check a decoder's steps from the beginning, and a second sequence on the same instance."""
    survey = Survey(subject)
    survey.make(replace(_run(subject, 0, many, "a step"), stepwise=True))
    count = min(SECOND, many)
    half = count // 2
    if survey.failed or not half:
        return replace(survey.outcome_of_one(), samples=many)
    second = Survey(subject)
    call = replace(_run(subject, 0, count), stepwise=True, prefilled=half)
    second.instance.call(call)
    second.make(replace(call, continues=True))
    if not second.failed:
        return replace(survey.outcome_of_one(), samples=many + count)
    what = "a prefill" if min(second.wrong_positions(), default=0) < half else "a step"
    words = f"{what} of a second sequence, after decoding, comes out wrong"
    return replace(second.outcome_of_one(), samples=many + count, note=words)


@law("memory", because="none", meaning="memory of other arrays is written into")
def memory(subject: Subject) -> Outcome:
    """A result still holds after the next calls, and input in storage of its own is not changed."""
    count = min(16, subject.context)
    one, other = (subject.call(range(count), salt) for salt in (43, 44))
    instance, half = subject.implementation.fresh(), -(-count // 2)
    if subject.implementation.compiles:
        half = min(COMPILED["length"][1], half)
    fewer = replace(other, positions=other.positions[:half])
    response = instance.call(replace(one, followed_by=(other, other, fewer)))
    reread = response.reread
    same = reread is None or np.array_equal(reread, response.q, equal_nan=True)
    if not same and not response.in_place:
        return Outcome(
            passed=False,
            samples=count,
            counterexample="the result of a call, read again after later ones, is another",
            note="results are written into a buffer that later calls overwrite",
        )
    tried = 0
    for kind in MEMORY[1:]:
        if kind == "expanded":
            continue
        try:
            response = instance.call(replace(one, memory=kind, watch=True))
        except (ImplementationError, Unsupported):
            continue
        tried += 1
        for name, text in () if response.in_place else response.changed:
            return Outcome(
                passed=False,
                samples=tried,
                counterexample=text,
                note=f"{name} is written into where it is {kind}",
            )
    return Outcome(passed=True, samples=1 + tried)
