"""Calls of given shapes, each row of their results checked, and a sample of the rows kept."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ropecli.arrays import Array, evenly_spread
from ropecli.checks.implementation.call import (
    Call,
    Died,
    ImplementationError,
    OutOfTime,
    Unsupported,
    WrongResult,
    check_real,
    known_dtype,
    to_float64,
)
from ropecli.checks.implementation.causes import (
    Cause,
    Sample,
    find_position_mistake,
    name_cause,
)
from ropecli.checks.implementation.convention import PACKED, Convention, letters
from ropecli.checks.implementation.interface import Instance
from ropecli.checks.implementation.oracle import sequence_length
from ropecli.checks.implementation.rows import (
    CALL_FAILED,
    Compared,
    compare_first,
    format_position,
)
from ropecli.checks.implementation.shapes.blame import Table, blame
from ropecli.checks.implementation.shapes.design import Case
from ropecli.checks.implementation.subject import Subject
from ropecli.checks.law import Explains, Outcome, distinguishing_digits

#: Heads and sequences of a call have the same vectors times one of these, which no dtype rounds.
SCALES = tuple(sign * 2.0**n for n in range(8) for sign in (1, -1))
SAMPLED = 24  #: Rows that are kept of each call: wrong ones, right ones, and where both meet.
#: Share of the rows that must be wrong for an error of all, and its largest size.
UNIFORM, SMALL = 0.7, 2.0**-6
OFTEN = 1 / 8  #: Share of calls that are wrong for a reason that others share.
NO_PATTERN = "the wrong rows share no simple pattern"
AT_TIMES = "a call that is wrong is right when it is made again: something is kept between calls"
KEPT_FIRST = "the positions of the first call of that shape are kept"
RENEWED = "a fresh instance rotates them correctly: a cache keeps the tables of other positions"
FIRST_SALT = 40  #: Of the vectors of such calls.
UNUSUAL = range(37, 4096, 14)  #: Tokens of calls that nothing else makes.
SOME = 8  #: Positions that must be right before a first wrong one is looked for.
KEPT = 4  #: Wrong rows that are kept of the first ones of a call, and of all of them.
EXPLAINED = 40  #: Calls whose wrong rows one cause must explain.
MOST_LOOKED_AT = 8  #: Wrong lengths for which the table is identified again.
CHANGES = "the frequencies change with the length of the sequence"
ARRAYS = {"q": "", "k": "keys, ", "v": "values, "}  #: As a counterexample names them.
MOST_DEATHS = 2  #: Calls that may end the process of an implementation before no more are made.


def call_at(
    subject: Subject,
    places: ArrayLike,
    dtype: str | None = None,
    *,
    batch: int = 1,
    heads: int = 1,
    key_heads: int = 0,
    salt: int = 0,
    **more: Any,
) -> Call:
    """Return a call with these positions, (length,) or (batch, length), or with axes after."""
    array = np.asarray(places, dtype=np.int64)
    per_sequence = bool(more.get("per_sequence"))
    batch = len(array) if per_sequence else batch
    seeds = subject.seed, batch, heads, array.shape[1 if per_sequence else 0]
    scales = _random_scales(seeds, batch, heads + key_heads)
    call = subject.call(array, FIRST_SALT + salt, dtype, scales=scales, key_heads=key_heads, **more)
    if call.memory != "expanded":
        return call
    axes = (call.arrangement or subject.implementation.convention).axes_of_x
    first = axes.split()[0]  # this axis of x has one value
    if first == PACKED:  # keys are queries
        return replace(call, scales=np.tile(scales[:, :heads], 2))
    scales = scales[: 1 if "b" in first else None, : 1 if "h" in first else None]
    return replace(
        call,
        vectors=call.vectors[: 1 if "s" in first else None],
        scales=np.broadcast_to(scales, call.scales.shape),
    )


@dataclass(eq=False)
class Survey:
    """Results of calls: rows right and wrong, refusals, and calls that gave nothing to check."""

    subject: Subject
    checked: str = "qkv"  #: The arrays of results that are checked.
    instance: Instance = field(init=False)  #: The one called, at first a new one.
    calls: int = 0
    numbers: int = 0
    #: Of a failure: the numbers of its call, and its text.
    smallest: tuple[int, str] | None = None
    note: str | None = None  #: Why a call gave nothing to check at all.
    max_error: float = 0.0
    tolerance: float = 0.0
    errors: list[float] = field(default_factory=list)  #: Of wrong rows, over their largest number.
    refusals: list[str] = field(default_factory=list)
    unsupported: str | None = None  #: Why some call cannot be made this way.
    lost: str | None = None  #: Error of a call without a gradient, where others have one.
    changes: bool = False  #: Rows were right by the table of another length.
    deaths: int = 0
    #: Arrays of the calls that were checked.
    _seen: list[Compared] = field(default_factory=list)
    _tried: list[tuple[Call, bool]] = field(default_factory=list)  #: Calls, and those refused.
    _result_dtypes: dict[str, str] = field(default_factory=dict)  #: By dtype of the data.
    _other_lengths: int = MOST_LOOKED_AT
    #: Instances that are called in further arrangements of axes.
    _arranged: dict[Convention, Instance] = field(default_factory=dict)
    _samples: list[Sample] = field(default_factory=list)  #: Some rows of each wrong call.

    def __post_init__(self) -> None:
        """Make the instance."""
        self.instance = self.subject.implementation.fresh()

    def make_all(self, calls: Iterable[Call]) -> list[bool]:
        """Make calls and check them; return as `make`."""
        return [self.make(call) for call in calls]

    def make(self, call: Call) -> bool:
        """Make a call and check it; return False if it was refused, or is not expressible."""
        try:
            return self.deaths < MOST_DEATHS and self._make(call)
        except OutOfTime as error:
            error.found = self.outcome() if self.failed else None
            raise

    def _make(self, call: Call) -> bool:
        try:
            response = self.instance_for(call).call(call)
        except Unsupported as error:
            self.unsupported = str(error)
            self._look_for_lost_gradient(call, error)
            return False
        except ImplementationError as error:
            return self._is_failure(call, error)
        self._note(call, refused=False)
        self.calls += 1
        results: tuple[NDArray[Any] | None, ...] = (response.q, response.k, response.v)
        if call.gradient:
            results = response.gradient or ()
        for array, result in zip("qkv", results, strict=False):
            if result is not None and array in self.checked:
                self._check(call, array, result)
        return True

    def _is_failure(self, call: Call, error: ImplementationError) -> bool:
        """Return True for an error that fails the call, and False for a refusal."""
        if isinstance(error, WrongResult) and call.arrangement:
            return False  # another shape: this arrangement is taken for some sizes only
        has_ended = isinstance(error, Died | WrongResult)
        self._note(call, refused=not has_ended)
        if has_ended or call.positions.max() < call.promised:
            self.calls += 1
            self.deaths += isinstance(error, Died)
            self.note = self.note or f"{'' if has_ended else f'{CALL_FAILED}: '}{error}"
            self._fail(call, f"{call}: {error}")
            return True
        self.refusals.append(str(error))
        if "read-only" in str(error):
            self.subject.read_only.add(call.dtype)
        self._look_for_lost_gradient(call, error)
        return False

    def _look_for_lost_gradient(self, call: Call, error: Exception) -> None:
        """Fail a call that is answered, and has no gradient, where others have one."""
        if not call.gradient:
            return
        try:
            plain = replace(call, gradient=False)
            self.instance_for(plain).call(plain)
        except (ImplementationError, Unsupported):
            return
        if isinstance(error, Unsupported):
            self._note(call, refused=True)
            self.refusals.append(str(error))
        self.calls += 1
        self.lost = self.lost or str(error)
        self._fail(call, f"{call}: {error}")

    def _note(self, call: Call, *, refused: bool) -> None:
        self._tried.append((call, refused))
        self.subject.tried_lengths[refused].add(call.length)

    def instance_for(self, call: Call) -> Instance:
        """Return the instance that a call is made of."""
        arrangement = call.arrangement
        if arrangement is None:
            return self.instance
        if arrangement not in self._arranged:
            made = self.subject.implementation.fresh(arrangement=arrangement)
            self._arranged[arrangement] = made
        return self._arranged[arrangement]

    def axes_of(self, call: Call) -> str:
        """Return the axes of the vectors of a call."""
        return (call.arrangement or self.subject.implementation.convention).axes_of_x

    @property
    def failed(self) -> bool:
        """True if some call was wrong."""
        return self.smallest is not None

    @property
    def arrays(self) -> set[str]:
        """The arrays of results that were checked: q, k and v."""
        return {compared.array for compared in self._seen}

    @property
    def right_calls(self) -> bool:
        """True if some calls with several tokens were wholly right."""
        return any(compared.call.length > 1 and compared.first is None for compared in self._seen)

    @property
    def _is_often_wrong(self) -> bool:
        """True if so many calls are wrong that others are for the same reason."""
        return sum(compared.first is not None for compared in self._seen) >= OFTEN * len(self._seen)

    def wrong_calls(self, count: int) -> list[Call]:
        """Return some calls with wrong rows, the smallest ones."""
        calls = {
            id(compared.call): compared.call
            for compared in self._seen
            if compared.first is not None
        }
        return nsmallest(count, calls.values(), key=lambda call: call.rows)

    def wrong_positions(self) -> list[int]:
        """Return some positions of wrong rows."""
        seen = [compared for compared in self._seen if compared.first is not None]
        positions = [table["position"][wrong] for table, wrong in map(self._some_rows, seen)]
        return np.unique(np.concatenate(positions))[:SAMPLED].tolist() if positions else []

    def limit_of_position(self) -> tuple[int, int] | None:
        """Return the last right position and the first wrong one; None if they overlap."""
        every: dict[bool, list[NDArray[Any]]] = {True: [], False: []}
        for table, wrong in map(self._some_rows, self._seen):
            for which, those in every.items():
                those.append(table["position"][wrong == which])
        right, wrong = (np.concatenate([[], *every[which]]) for which in (False, True))
        if not len(wrong) or not SOME <= right.max(initial=-1) < wrong.min():
            return None
        return int(right.max()), int(wrong.min())

    def limit_of_length(self) -> tuple[int, int] | None:
        """Return the longest right call and the shortest wrong one; None if lengths overlap."""
        wrong: dict[bool, set[int]] = {True: set(), False: set()}
        for surveyed in [*self.subject.surveyed, *self._seen]:
            wrong[surveyed.first is not None].add(surveyed.call.length)
        right, first = max(wrong[False], default=0), min(wrong[True], default=0)
        return (right, first) if 0 < right < first else None

    def statement(self, seen: Sequence[Compared]) -> tuple[str, Explains] | None:
        """Return the property of all wrong rows and of no right one, and what that explains."""
        if all(compared.first is None for compared in seen):
            return None
        tables, which = zip(*map(self._some_rows, seen), strict=True)
        rows = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
        wrong = np.concatenate(which)
        uniform = self._uniform(rows, wrong)
        if uniform:
            return uniform, "every call"
        blamed = blame(rows, wrong)
        return None if blamed is None else (blamed.sentence, blamed.explains)

    def _uniform(self, rows: Table, wrong: NDArray[np.bool_]) -> str | None:
        """Describe a small error that all rows of a dtype have."""
        dtypes = sorted(set(rows["dtype"][wrong].tolist()))
        same = np.isin(rows["dtype"], dtypes)
        at_zero = same & (rows["position"] == 0)
        shares = [wrong[some].sum() / max(1, some.sum()) for some in (same, at_zero)]
        if not (min(shares) >= UNIFORM and max(self.errors) <= SMALL):
            return None
        typical = float(np.median(self.errors))
        return f"every row of {' and '.join(dtypes)} is off by {typical:.1g}, position 0 too"

    def reach(self) -> str:
        """Return the largest sizes that were taken."""
        accepted = [call for call, refused in self._tried if not refused]
        sizes = {"heads": "head", "batch": "sequence", "length": "token"}
        most = {name: max(getattr(call, name) for call in accepted) for name in sizes}
        named = [f"{most[x]:,} {word}{'s' * (most[x] > 1)}" for x, word in sizes.items()]
        return f"up to {', '.join(named)}"

    def refusal(self) -> str | None:
        """Return which calls are refused, or have no gradient, and the first error."""
        if not self.refusals:
            return None
        table = {
            name: np.array([self._attributes(call)[name] for call, _ in self._tried])
            for name in self._attributes(self._tried[0][0])
        }
        wrong = np.array([refused for _, refused in self._tried])
        blamed = blame(table, wrong)
        said = "calls" if blamed else f"{int(wrong.sum())} of {len(wrong)} calls"
        if blamed is not None and (blamed.of_calls or blamed.calls):
            said = blamed.words
        what = "finds no gradient in" if self.lost else "refuses"
        return f"{what} {said}: {self.lost or self.refusals[0]}"

    def outcome(self, *, with_others: bool = False) -> Outcome:
        """Return the verdict on all calls together."""
        note, seen = None, self._seen
        explains: Explains = ""
        if with_others:
            seen = [*self.subject.surveyed, *self._seen]
            self.subject.surveyed.extend(self._seen)
        if self.failed:
            unnamed = self.note or (self.refusal() if self.lost else None) or NO_PATTERN
            note, explains = self.statement(seen) or (unnamed, "")
            plain = note == NO_PATTERN
            cause = None if self.note else self._cause("the wrong rows" if plain else "they")
            vague = plain or note.startswith("some of")
            if any(map(self._is_right, self.wrong_calls(KEPT))):
                note, cause = AT_TIMES if vague else f"{note}: {AT_TIMES}", None
            if cause is not None:
                note = cause if plain else f"{note}: {cause}"
                explains = "every call" if vague and self._is_often_wrong else explains
        return Outcome(
            passed=None if not self.calls else not self.failed,
            max_error=self.max_error,
            tolerance=self.tolerance,
            samples=self.calls,
            counterexample=None if self.smallest is None else self.smallest[1],
            note=note if self.failed else self.refusal(),
            explains=explains,
        )

    def outcome_of_one(self) -> Outcome:
        """Return the verdict on calls of one kind, which a check is named after.

        The rows of the calls need no description where they are all wrong, or all have one cause.
        """
        outcome = self.outcome()
        if outcome.passed is None:
            return replace(outcome, note=self.unsupported or outcome.note)
        if outcome.passed:
            return replace(outcome, note=outcome.note or (CHANGES if self.changes else None))
        if self.note or str(outcome.note).endswith(AT_TIMES):
            return outcome
        return replace(outcome, note=self._describe_one(), explains="")

    def _describe_one(self) -> str | None:
        """Say why calls of one kind are wrong, or which of their rows."""
        if self._is_right_when_new():
            return RENEWED
        keys = all(compared.array == "k" for compared in self._seen if compared.first is not None)
        rows = "keys" if keys else "rows"
        mistake = self.position_mistake()
        cause = mistake.words.format(rows=rows) if mistake else self._cause(rows)
        # The first call of a shape has positions from 0 on, so that either may be what is kept.
        if cause and "are ignored" in cause and self._keeps_first_positions():
            return KEPT_FIRST
        if cause and "position" in cause:
            return cause
        right, first = self.limit_of_position() or (0, 0)
        named = None if cause else self.statement(self._seen)
        where = named and named[0]
        if first == right + 1:
            where = f"rows are right up to position {right} and wrong from {first} on"
        return "; ".join(text for text in (where, cause) if text) or None

    def _is_right(self, call: Call) -> bool:
        """Return True if a call is right, made again of the same instance."""
        try:
            again = Survey(self.subject, checked=self.checked)
            again.instance = self.instance_for(call)
            made = again.make(replace(call, arrangement=None))
            return made and not again.failed and not again.changes
        except OutOfTime:  # nothing more is found out
            return False

    def _keeps_first_positions(self) -> bool:
        """Return True if a new shape is right the first time, and wrong at other positions."""
        tried = set().union(*self.subject.tried_lengths.values())
        length = next((n for n in UNUSUAL if n not in tried), UNUSUAL.stop)
        for call in self.wrong_calls(1):
            places = np.resize(call.positions, (length, *call.positions.shape[1:]))
            first, other = (replace(call, positions=places + shift) for shift in (0, 1))
            return not call.per_sequence and self._is_right(first) and not self._is_right(other)
        return False

    def _is_right_when_new(self) -> bool:
        """Return True if new instances are right where this one is wrong."""
        if not self.subject.implementation.renewable:
            return False
        again = Survey(self.subject)
        for call in self.wrong_calls(KEPT):
            again.instance = self.subject.implementation.fresh()
            again.make(call)
        return again.calls > 0 and not again.failed

    def _cause(self, rows: str = "they") -> str | None:
        """Return what the wrong rows of these calls are instead, where one cause explains all."""
        some = [self._samples[i] for i in evenly_spread(len(self._samples), EXPLAINED)]
        wrong = [sample for sample in map(Sample.wrong, some) if sample is not None]
        return name_cause(wrong, rows) if wrong else None

    def position_mistake(self) -> Cause | None:
        """Return the mistake in positions that right rows follow as well as wrong ones, or None."""
        return find_position_mistake(self._samples)

    def _check(self, call: Call, array: str, result: NDArray[Any]) -> None:
        """Compare the rows of one array."""
        self.numbers += result.size
        self._check_dtype(call, known_dtype(result))
        check_real(result, call.dtype)
        compared = self._compare(call, array, result)
        if not compared.ratio <= (self.max_error / self.tolerance if self.tolerance else -1.0):
            self.max_error, self.tolerance = compared.error, compared.tolerance
        self._seen.append(compared)
        if compared.first is not None:
            self.errors += compared.relative
            (b, h, row, j), got, expected = compared.first
            one, other = got * compared.scales[b, h], expected * compared.scales[b, h]
            digits = distinguishing_digits(np.array([one]), np.array([other]))
            place = call.by_sequence[b if call.per_sequence else 0, row]
            text = (
                f"{call}: {ARRAYS[array]}sequence {b}, head {h}, row {row} at "
                f"{format_position(place)}, coordinate {j}: "
                f"got {one:.{digits}g}, expected {other:.{digits}g}"
            )
            self._fail(call, text)
            if not call.gradient:
                self._keep(compared, result)

    def _keep(self, found: Compared, result: NDArray[Any]) -> None:
        """Keep some rows of a call, to find out what wrong ones are instead."""
        call, vectors = found.call, found.call.vectors.astype(np.float64)
        places = call.by_sequence.astype(np.float64)
        which, right = np.flatnonzero(found.wrong), np.flatnonzero(~found.wrong)
        first, spread = which[:KEPT], which[evenly_spread(len(which), KEPT)]
        chosen = np.unique([*first, *spread, *right[:KEPT]])
        b, h, s = np.unravel_index(chosen, found.wrong.shape)
        row = s % len(vectors)
        assert self.subject.oracle is not None
        sample = Sample(
            oracle=self.subject.oracle.at_length(max(map(sequence_length, places))),
            dtype=call.dtype,
            x=vectors[row],
            m=places[b % len(places), s],
            got=to_float64(result[b, h, s]) / found.scales[b, h, None],
            sequence=b,
            head=h,
            row=s,
            positions=places,
            vectors=vectors,
            own=row,
            scales=found.scales,
            limits=self.subject.limits,
        )
        self._samples.append(sample)

    def _check_dtype(self, call: Call, dtype: str) -> None:
        """Compare the dtype of a result with that of the first result of such data."""
        usual = self._result_dtypes.setdefault(call.dtype, dtype)
        if dtype != usual:
            self.note = f"{call.dtype} comes back as {usual} in some shapes, as {dtype} in others"
            self._fail(call, f"{call}: the result is {dtype}, in other shapes {usual}")

    def _compare(self, call: Call, array: str, result: NDArray[Any]) -> Compared:
        """Compare rows with those expected, by the convention that they follow if there is one."""
        every = self.subject.oracles_of(call.by_sequence, identify=self._other_lengths > 0)
        compared, _, changed = compare_first(every, call, result, array)
        self.changes |= changed
        self._other_lengths = max(0, self._other_lengths - (compared.first is not None))
        return compared

    def _fail(self, call: Call, text: str) -> None:
        if self.smallest is None or call.rows < self.smallest[0]:
            self.smallest = call.rows, text

    def _some_rows(self, found: Compared) -> tuple[Table, NDArray[np.bool_]]:
        """Return the attributes of some rows of a call, and which of them are wrong."""
        call, shape = found.call, found.wrong.shape
        chosen, wrong = _choose_some(found.wrong, right=found.first is None)
        index = np.unravel_index(chosen, shape)
        axes = letters("axes", self.axes_of(call))
        flat = np.zeros_like(chosen)
        for letter in [letter for axis in axes for letter in axis if letter in "bhs"]:
            axis = "bhs".index(letter)
            flat = flat * shape[axis] + index[axis]
        b, h, s = index
        places = call.by_sequence
        if places.ndim > 2:
            places = places.max(axis=-1)
        segments, into = _pack(places)
        columns = {
            "segment": segments[b % len(places), s],
            "into": into[b % len(places), s],
            "sequence": b,
            "head": h,
            "row": s,
            "position": places[b % len(places), s],
            "flat": flat,
            "array": np.full(len(chosen), found.array),
        }
        of_call = self._attributes(call).items()
        return columns | {name: np.full(len(b), value) for name, value in of_call}, wrong

    def _attributes(self, call: Call) -> Case:
        """Return what a call is, by the names that `blame` knows."""
        axes = len(self.axes_of(call).split())
        transposed = call.memory == "transposed" and axes == 2
        return {
            "batch": call.batch,
            "heads": call.heads,
            "key_heads": call.key_heads or call.heads,
            "length": call.length,
            "rows": call.rows,
            "axes": axes,
            "dtype": call.dtype,
            "memory": "strided" if transposed else call.memory,  # so are the numbers of a row
            "mode": call.mode,
            "positions": "own" if call.per_sequence else "shared",
            "tables": (call.arrangement or self.subject.implementation.convention).axes_of_tables,
        }


def _pack(places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return which of the sequences packed into one each row is in, and its index in that."""
    begins = np.diff(places, axis=1, prepend=places[:, :1]) < 0
    index = np.arange(places.shape[1])
    first = np.maximum.accumulate(np.where(begins, index, 0), axis=1)
    return np.cumsum(begins, axis=1), index - first


@functools.lru_cache(maxsize=1024)
def _random_scales(seeds: tuple[int, ...], batch: int, heads: int) -> Array:
    """Return a factor for each head of each sequence."""
    return np.random.default_rng(seeds).choice(SCALES, size=(batch, heads))


_evenly = functools.lru_cache(maxsize=1024)(evenly_spread)


def _choose_some(
    wrong: NDArray[np.bool_], *, right: bool
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return indices of rows, where wrong ones begin and end among them, and which are wrong."""
    flat = wrong.ravel()
    if right:
        chosen = _evenly(flat.size, SAMPLED // 2)
        return chosen, flat[chosen]
    changes = np.flatnonzero(flat[1:] != flat[:-1])
    lists = [
        which[evenly_spread(len(which), SAMPLED // 3)]
        for which in (changes, changes + 1, np.flatnonzero(flat), np.flatnonzero(~flat))
        if len(which)
    ]
    chosen = np.unique(np.concatenate([[0, flat.size - 1], *lists]).astype(np.int64))
    return chosen, flat[chosen]
