"""The checks of code of a positional encoding in calls of all kinds, by the formula found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ropecli.checks.encoding.asked import Asked, Shorter
from ropecli.checks.encoding.reading import Compared, Reading, compare
from ropecli.checks.encoding.search import FEW_RIGHT, Evaluator, Trial
from ropecli.checks.implementation.call import Died, ImplementationError, Unsupported, WrongResult
from ropecli.checks.law import Outcome, judge_errors, law, no_verdict

BECAUSE = (
    "each value has the roundings of its formula, 2^-24 each in float32: 24 of an angle, 8 of a "
    "bias, none of a bucket"
)
SAME = "the same call gives the same bits"
#: Lengths of tables, sides of grids and lengths of square biases, beyond 256 and 1,000.
LENGTHS = (1, 2, 37, 300, 1100, 4096)
SIDES = (2, 3, 9, 16)
SQUARES = (1, 2, 300, 1100)
IRREGULAR = (3, 0, 257, 258, 900, 1001, 7, 7, 2049, 4095, 5)
#: Queries and keys of a bias whose lengths are apart. Where queries count from 0, far keys are
#: later ones, which may be masked: only many queries show the past.
PAIRS = (
    *((1, 1), (1, 9), (9, 9), (3, 300), (1, 4096)),
    *((1100, 1100), (2, 1100), (1100, 3), (300, 300)),
)
DIMS = (2, 4, 10, 64)
HEADS = (1, 2, 3, 8, 12, 16, 20, 25)
#: Other settings to judge: in float16 a logarithm shows at 320 buckets over 800 only.
SETTINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "t5": (
        {"num_buckets": 320, "max_distance": 800},
        {"num_buckets": 12, "max_distance": 20},
        {"bidirectional": False},
        {"bidirectional": True},
    ),
    "deberta": ({"num_buckets": 64, "max_distance": 512},),
    "sinusoidal": ({"base": 500.0},),
    "alibi": ({"bias_max": 16.0},),
}
#: What says how long a table is.
LONG = {"length", "positions", "x", "ids", "out", "grid", "height", "shape"}
CLEARLY = 0.1  #: Share of values by which another release must fit better than the definition.
FURTHEST = 5000  #: Distance that buckets are judged to.


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodingSubject:
    """Code of an encoding, and the reading that it is held to."""

    name: str
    evaluator: Evaluator
    trial: Trial
    reading: Reading
    required: Mapping[str, Any]  #: Settings that were given.
    parameters: Mapping[str, str]  #: Optional parameters of the code by the settings that they are.
    fast: bool
    dtypes: tuple[str, ...]
    refused: list[str] = field(default_factory=list)  #: What it raises for, and with which words.
    #: Calls with a wrong result: how they are written, and their sizes.
    failing: list[tuple[str, Asked, Compared]] = field(default_factory=list)

    @property
    def asked(self) -> Asked:
        """The call that was explained."""
        return self.trial.asked

    @property
    def names(self) -> set[str]:
        """The names that it mentions."""
        return {*self.trial.evaluator.spelled.names}

    def judge(self, asked: Asked, words: str = "") -> Outcome:
        """Return the outcome of a call."""
        got, asked = self.evaluator.call(asked, instance=_instance(asked))
        compared = compare(got, self.reading, asked)
        if compared.wrong.any():
            self.failing.append((self.evaluator.spelled.text, asked, compared))
        return outcome(compared, asked, words)


def _instance(asked: Asked) -> int:
    """Return a number for the sizes that an instance is made for."""
    sizes = (asked.dim, asked.heads, asked.length, asked.queries, asked.keys, asked.height)
    return hash((sizes, tuple(sorted(map(str, asked.settings.items()))))) % 2**31


def outcome(compared: Compared, asked: Asked, words: str = "") -> Outcome:
    """Return the outcome of compared values, with the first wrong one in words."""
    found = judge_errors(compared.error.ravel(), compared.allowed.ravel())
    example = None
    if not found.passed:
        example = first_wrong(compared, asked)
        example = f"{words}: {example}" if words else example
    rows = compared.error.size // max(1, compared.error.shape[-1])
    return replace(found, counterexample=example, samples=rows)


def first_wrong(compared: Compared, asked: Asked) -> str:
    """Return the first wrong value, and what it must be."""
    index = tuple(int(i) for i in np.argwhere(compared.wrong)[0])
    got, expected = (float(values[index]) for values in (compared.got, compared.expected))
    numbers = f"is {got:.7g}, expected {expected:.7g}"
    if asked.form == "table":
        return f"position {int(asked.positions[index[0]]):,}, column {index[1]} {numbers}"
    if asked.form == "grid":
        row, column = divmod(index[0], asked.width)
        return f"row {row}, column {column} of the grid, coordinate {index[1]} {numbers}"
    if asked.form == "slopes":
        return f"the slope of head {index[0]} of {asked.heads} {numbers}"
    *lead, query, key = index
    distance = int(asked.relative[query, key])
    if asked.form == "buckets":
        return f"the bucket of distance {distance} {numbers}"
    head = f"head {lead[-1]}, " if lead else ""
    return f"{head}query {int(asked.m[query, 0])}, key {key} {numbers}"


def _each(subject: EncodingSubject, calls: Iterable[tuple[Asked, str]]) -> Iterator[Outcome]:
    """Yield the outcome of each call; one that is refused is noted."""
    for asked, words in calls:
        try:
            yield subject.judge(asked, words)
        except Shorter as error:
            subject.refused.append(f"{words}: {error}")
        except (Died, WrongResult) as error:
            yield Outcome(passed=False, samples=1, note=f"{words}: {error}")
        except (ImplementationError, Unsupported) as error:
            subject.refused.append(f"refuses {words}: {error}")


def _worst(found: Iterable[Outcome], none: str) -> Outcome:
    """Return the first failure, or else the outcome closest to its tolerance."""
    every = list(found)
    if not every:
        return no_verdict(none)
    failed = [result for result in every if not result.passed]
    worst = failed[0] if failed else max(every, key=lambda each: each.max_error)
    return replace(worst, samples=sum(result.samples for result in every))


def _lengths(subject: EncodingSubject) -> Iterator[tuple[Asked, str]]:
    """Yield calls of all lengths; the last ones with `fast`."""
    form = subject.asked.form
    of_form = {"table": _of_tables, "grid": _of_grids}.get(form, _of_maps)
    every = [] if form == "slopes" else [*of_form(subject)]
    yield from every[-3:] if subject.fast else every


def _of_tables(subject: EncodingSubject) -> Iterator[tuple[Asked, str]]:
    asked, names = subject.asked, subject.names
    for length in LENGTHS if names & LONG else ():
        yield replace(asked, length=length, at=None), f"{length:,} positions"
    if "positions" in names:
        yield replace(asked, length=len(IRREGULAR), at=IRREGULAR), "positions in no order"


def _of_grids(subject: EncodingSubject) -> Iterator[tuple[Asked, str]]:
    asked, names = subject.asked, subject.names
    for side in SIDES if names & LONG else ():
        one = replace(asked, height=side, width=side if "grid" in names else side + 1)
        yield one, f"a grid of {one.height} x {one.width}"


def _of_maps(subject: EncodingSubject) -> Iterator[tuple[Asked, str]]:
    asked, names = subject.asked, subject.names
    square = asked.queries == asked.keys and not {"queries", "keys", "relative"} & names
    heads = 2 if _takes(subject, "heads") else asked.heads
    if asked.form in {"scores", "shift"}:
        sizes = [(n, n) for n in (1, 2, 37)]
    else:
        sizes = [(n, n) for n in SQUARES] if square else [*PAIRS]
    if asked.last is not None:
        sizes = [(queries, keys) for queries, keys in sizes if queries <= keys]
    for queries, keys in sizes:
        last = None if asked.last is None else keys - 1
        one = replace(asked, queries=queries, keys=keys, length=keys, last=last, heads=heads)
        yield one, f"{queries:,} queries and {keys:,} keys"


@law("formula", because=BECAUSE)
def formula(subject: EncodingSubject) -> Outcome:
    """Values are those of the paper's formula, or of a way in which it is released."""
    trial, reading = subject.trial, subject.reading
    unlike = [
        f"{key} {reading.options[key]}, expected {value}"
        for key, value in subject.required.items()
        if key in reading.options and reading.options[key] != value
    ]
    right = _nearest_right(subject)
    if right.wrong.any() and (unlike or not reading.is_right or trial.compared.wrong.any()):
        subject.failing.append((trial.evaluator.spelled.text, trial.asked, right))
    found = outcome(trial.compared, trial.asked)
    if trial.compared.share_right < 1:
        near = outcome(right, trial.asked) if right.wrong.any() else found
        if trial.compared.share_right > max(FEW_RIGHT, right.share_right):
            return replace(found, note=f"{reading.said}, and not always" if reading.said else None)
        return near
    if unlike:
        return replace(found, passed=False, note=", ".join(unlike))
    if reading.is_right:
        return found
    case = first_wrong(right, trial.asked) if right.wrong.any() else None
    return replace(found, passed=False, note=reading.said, counterexample=case)


def _nearest_right(subject: EncodingSubject) -> Compared:
    """Return the result next to the definition, or a right reading that clearly fits better."""
    trial = subject.trial
    every = subject.evaluator.known.forms[trial.asked.form](trial.compared.got, trial.asked)
    compared = [
        compare(trial.compared.got, reading, trial.asked) for reading in every if reading.is_right
    ]
    nearest = max(compared, key=lambda each: each.share_right)
    clearly = nearest.share_right > compared[0].share_right + CLEARLY
    return nearest if clearly else compared[0]


@law("lengths", because=BECAUSE)
def lengths(subject: EncodingSubject) -> Outcome:
    """Values are right for all lengths and positions, beyond 256 and 1,000 too."""
    if subject.asked.form == "slopes":
        return no_verdict("slopes have no length")
    return _worst(_each(subject, _lengths(subject)), "it takes no other length")


@law("distances", because=BECAUSE)
def distances(subject: EncodingSubject) -> Outcome:
    """Buckets of all distances are right, in both directions."""
    if subject.asked.form != "buckets" or "relative" not in subject.names:
        return no_verdict("nothing is a bucket of a distance that is given")
    one = replace(subject.asked, queries=1, keys=FURTHEST, last=FURTHEST // 2)
    return _worst(_each(subject, [(one, f"distances to {FURTHEST // 2:,}")]), "")


@law("sizes", because=BECAUSE)
def sizes(subject: EncodingSubject) -> Outcome:
    """Values are right for other dims and numbers of heads."""
    asked = subject.asked
    calls = []
    if _takes(subject, "dim") or subject.evaluator.added:
        least = 4 if asked.form == "grid" else 2
        dims = [d for d in DIMS if d >= least and (asked.form != "grid" or d % 4 == 0)]
        dims = dims if _takes_dim(subject, dims[0]) else []
        calls += [(replace(asked, dim=dim), f"dim {dim}") for dim in dims]
    if _takes(subject, "heads"):
        every = HEADS[3:6] if subject.fast else HEADS
        calls += [(replace(asked, heads=heads), f"{heads} heads") for heads in every]
    return _worst(_each(subject, calls), "it takes no other size")


def _takes(subject: EncodingSubject, size: str) -> bool:
    """Return True if a call says a size: by name, or by an array that it hands over."""
    asked, names = subject.asked, subject.names
    more = replace(asked, **{size: getattr(asked, size) + 1})
    shapes, others = subject.evaluator.known.shapes(asked), subject.evaluator.known.shapes(more)
    handed = any(shapes[name] != others[name] for name in names & shapes.keys())
    return handed or bool(names & {size, "q"})


def _takes_dim(subject: EncodingSubject, dim: int) -> bool:
    """Return False if the code goes on with its own dim where it is given another one."""
    asked = subject.asked
    try:
        changed, *_ = subject.evaluator.result(replace(asked, dim=dim))
        same, *_ = subject.evaluator.result(asked)
    except (ImplementationError, Unsupported):
        return True
    return changed.shape != same.shape or asked.form == "scores"


@law("settings", because=BECAUSE)
def settings(subject: EncodingSubject) -> Outcome:
    """Values are right for other settings, where the code takes them."""
    names = subject.names
    found: list[Outcome] = []
    for more in SETTINGS.get(subject.name, ()):
        if not more.keys() <= names | subject.parameters.keys() or more.keys() & subject.required:
            continue
        words = ", ".join(f"{key} {value}" for key, value in more.items())
        evaluator = subject.evaluator.with_settings(
            {subject.parameters[key]: value for key, value in more.items() if key not in names}
        )
        asked = replace(subject.asked, settings={**subject.asked.settings, **more})
        chosen = _reading_for(subject, asked, more)
        wide = replace(asked, queries=2, keys=1100, length=1100, last=None)
        wide = wide if asked.form in {"bias", "buckets"} else asked
        one = replace(subject, evaluator=evaluator, reading=chosen)
        found += _each(one, [(wide, words)])
    return _worst(found, "it takes no other settings")


def _reading_for(subject: EncodingSubject, asked: Asked, more: Mapping[str, Any]) -> Reading:
    """Return the reading of the same kind under other settings."""
    wanted = {**subject.reading.options, **more}
    none = np.full((1, asked.dim), np.nan)
    every = subject.evaluator.known.forms[asked.form](none, asked)
    return next(
        (candidate for candidate in every if candidate.options.items() <= wanted.items()),
        subject.reading,
    )


@law("dtypes", because=BECAUSE)
def dtypes(subject: EncodingSubject) -> Iterator[Outcome]:
    """Values are right in every dtype that it takes, to the roundings of that dtype."""
    names = subject.names
    if not names & {"dtype", "x", "q"}:
        yield no_verdict("it takes no dtype")
        return
    for dtype in subject.dtypes:
        asked = replace(subject.asked, dtype=dtype)
        if not subject.fast:
            asked = replace(asked, length=300) if asked.form == "table" else asked
            asked = replace(asked, height=16, width=17) if asked.form == "grid" else asked
        yield replace(_worst(_each(subject, [(asked, dtype)]), "refused"), dtype=dtype)


@law("repeated calls", because=SAME)
def repeated(subject: EncodingSubject) -> Outcome:
    """A call gives the same after calls of other lengths and dtypes, and leaves its arguments."""
    asked, evaluator = subject.asked, subject.evaluator
    evaluator.call(asked)  # The laws before this one end with calls of other dtypes.
    first, _ = evaluator.call(asked)
    for other in _others(subject):
        try:
            evaluator.call(other)
        except (ImplementationError, Unsupported):
            continue
    again, _ = evaluator.call(asked)
    changed = evaluator.changed
    if changed:
        return Outcome(passed=False, samples=1, note=f"it writes into {'; '.join(changed)}")
    note = None
    if first.dtype != again.dtype:
        note = f"it returns {again.dtype} after other calls, {first.dtype} before"
    elif not np.array_equal(first, again, equal_nan=True):
        note = "the same call gives another result after other calls"
    return Outcome(passed=note is None, samples=first.size, note=note)


def _others(subject: EncodingSubject) -> Iterator[Asked]:
    """Yield calls of other lengths and dtypes, of the same instance."""
    asked, names = subject.asked, subject.names
    if asked.form == "table":
        yield replace(asked, length=2 * asked.length)
        yield replace(asked, length=max(1, asked.length // 2))
    elif asked.form in {"bias", "buckets", "scores"}:
        queries, keys, last = asked.queries + 4, asked.keys + 4, asked.last
        last = None if last is None else last + 4
        yield replace(asked, queries=queries, keys=keys, length=asked.length + 4, last=last)
    if names & {"dtype", "x", "q"}:
        yield from (replace(asked, dtype=dtype) for dtype in subject.dtypes)


LAWS = (formula, lengths, distances, sizes, settings, dtypes, repeated)
