"""The calling convention of an implementation, found by its signature and by trial."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES, Array, on_all_axes
from ropecli.checks.implementation.call import (
    Call,
    ImplementationError,
    Setup,
    Unsupported,
    known_dtype,
    real_numbers,
)
from ropecli.checks.implementation.calling import meant
from ropecli.checks.implementation.calling.defaults import with_own_defaults
from ropecli.checks.implementation.calling.expressions import PLACES, calls, explain_lack, of_sum
from ropecli.checks.implementation.calling.meant import MEANT, RAISES, RUNS, in_other_order
from ropecli.checks.implementation.calling.run import Caller
from ropecli.checks.implementation.calling.vocabulary import freqs_kinds, roles
from ropecli.checks.implementation.convention import (
    CACHES,
    COLUMNS,
    FREQS,
    TABLES,
    Convention,
    letters,
)
from ropecli.errors import ArgumentError
from ropecli.reference import float64
from ropecli.rotary.rotary import Rotary

#: Axes of x, most wanted first: those that say most of what a kernel may get wrong.
AXES_OF_X = (
    "b h s d",
    "b s h d",
    "s b h d",
    "b*s h d",
    "b*s h*d",
    "b s h*d",
    "b s d",
    "h s d",
    "s h d",
    "s h*d",
    "s d",
    "b h d s",
)
#: Those with several heads in the last axis. With one head, they say nothing.
FOLDED = tuple(text for text in AXES_OF_X if "h*d" in text)
#: The same where q, k and v are stacked.
AXES_OF_QKV = ("b s 3 h d", "3 b h s d", "b*s 3 h d", "b s h 3 d", "s b 3 h d", "b h 3 s d")
AXES_OF_POSITIONS = ("s", "b s", "b*s", "s b")
#: The same of positions with several coordinates, c, which come last or first.
AXES_OF_COORDINATES = ("s", "c b s", "b s", "c s", "c b*s", "b*s", "s b")
AXES_OF_TABLES = ("b s d", "b 1 s d", "b s 1 d", "s d", "s 1 1 d", "s 1 d", "b*s d", "s b d")
POSITIONS_DTYPES = ("int64", "float32")
#: Sequences and heads of trials; the later ones where all with more fail, as some functions take no
#: more. In the first, no two lengths are alike: an axis taken for another one does not fit, and
#: tables of sequences do not pass where rows are cut to the heads, of which there are fewer.
SIZES = ((4, 3), (2, 3), (1, 3), (1, 1))
LENGTH = 5  #: Tokens of trials.
FEWER_TRIALS = 500  #: In each of the later sizes.
FIRST = 3  #: First position of the trials.
CONTEXT = 64  #: Rows of caches in trials.
PATIENCE = 500  #: Trials after one that was called, of a wrong implementation.
MOST_TRIALS = 2000  #: In the likeliest framework.
MOST_ALIKE = 25  #: Trials of a call in axes that fail with the same words before it is left.

RAISED, SHAPED, ALONG, EXACT = range(4)
PARTLY = 0.9  #: Level above `SHAPED` if nearly all vectors come out right.
MOVING = 0.1  #: Share of the largest number by which those of a coordinate must differ.
MARGIN = 0.3  #: An unlikelier convention must come further by so much.
#: Of the vectors, those that must be right where heads are folded into the last axis, if no head
#: is told from the others: of one head that is wider, the first coordinates may be rotated alone.
MOST = 0.5


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A convention that was tried."""

    convention: Convention
    level: float  #: How far it came, from `RAISED` to `EXACT`.
    right: float = 0.0  #: Share of the vectors that came out right.
    error: str = ""
    place: str = ""  #: Where the error was raised.
    dtype: str = ""  #: Dtype of its results.


class NotCallable(Exception):
    """No convention fits; the text says which were tried and how the nearest one failed."""

    def __init__(self, tried: Sequence[Trial], missing: str, advice: str = "") -> None:
        super().__init__(missing)
        self.tried = tuple(tried)
        self.missing = missing
        self.advice = advice


@dataclass(frozen=True, kw_only=True)
class Arrangements:
    """The arrangements of axes in which an implementation is called."""

    judged: tuple[Convention, ...]  #: The likeliest one first.
    shown: bool = True  #: Whether they show that they are meant, where axes were not given.
    #: Those that run, and do not show that they are meant.
    not_judged: tuple[Convention, ...] = ()
    #: What it raises for a batch, where an argument is one of sequences.
    refused_batch: str | None = None
    promised: bool = False  #: Whether that was said, and not guessed from a name.


#: Returns the outcome of a convention, by sequences and heads: `RAISES`, ..., `MEANT`.
Meaning = Callable[[Convention, tuple[int, int]], int]


@dataclass(frozen=True, kw_only=True)
class Search:
    """The search for the convention by which an implementation takes vectors and rotates them."""

    caller: Caller
    rope: Rotary
    context: int
    given: Mapping[str, Any]  #: Fields of the convention that are known.
    init: Mapping[str, Any] = field(default_factory=dict)  #: Keyword arguments, as a call has them.
    axes: int = 1  #: Coordinates of a position.
    dtypes: tuple[str, ...] | None = None  #: Of the data; None: those of the framework.
    dtype_index: int = 0  #: Which of them the trials are made in.
    most: int = MOST_TRIALS  #: Trials in the likeliest framework.
    size: tuple[int, int] = SIZES[0]  #: Sequences and heads of a trial.
    failed: dict[_Way, _Failure] = field(default_factory=dict)  #: In earlier sizes and dtypes.

    def discover(self) -> tuple[Convention, str]:
        """Return the convention, and the dtype of the trials."""
        twice = bool(self.caller.describe().other)
        failure: NotCallable | None = None
        for size in SIZES:
            most = self.most if failure is None else min(self.most, FEWER_TRIALS)
            search, tried = replace(self, size=size, most=most), _Tried(self.failed, size)
            try:
                for convention, dtype, candidates in search._candidates(tried):
                    trial = search.attempt(convention, dtype, twice=twice)
                    tried.add(trial, dtype)
                    # Boundaries promise rows of all sequences: no other call needs to do better.
                    if (trial.level == EXACT and search._is_meant(convention, dtype)) or (
                        trial.right and "cu_seqlens" in convention.names
                    ):
                        found = search._with_positions(convention, tried.trials, candidates, dtype)
                        found = search._with_own_defaults(found, dtype)
                        return search._with_tables_dtype(found, dtype), dtype
            except NotCallable as error:
                failure = failure or error
                self.failed.update(tried.failed)
            else:
                assert tried.best is not None  # or there was an error
                best = search._with_own_defaults(tried.best.convention, tried.dtype)
                return search._with_tables_dtype(best, tried.dtype), tried.dtype
        assert failure is not None
        raise failure

    def _candidates(self, tried: _Tried) -> Iterator[tuple[Convention, str, Iterator[Convention]]]:
        """Yield conventions to try, likely ones first, until one tried so far is near enough.

        With each go the dtype of its trial and those less likely; NotCallable if all have failed.
        """
        description, given, most = self.caller.describe(), self.given, self.most
        known = _Calls([given["call"]] if "call" in given else self._calls())
        frameworks = [given["framework"]] if "framework" in given else [*description.frameworks]
        for framework in frameworks:
            try:
                of_framework = self._dtypes_of(framework, alone=len(frameworks) == 1)
            except ImplementationError as error:
                raise NotCallable(tried.trials, str(error)) from None
            dtypes = self.dtypes or of_framework
            if not of_framework or self.dtype_index >= len(dtypes):
                continue
            if {"float64"} & {*dtypes} - {*of_framework}:
                raise ArgumentError("float64 needs JAX's x64 mode: set JAX_ENABLE_X64=1")
            every = self._likely_first(known, framework)
            for convention in itertools.islice(every, most):
                if tried.failures[_way(convention)] >= MOST_ALIKE or tried.has_failed(convention):
                    continue
                if tried.is_near_enough():
                    return
                yield convention, dtypes[self.dtype_index], every
            most = -(-most // 10)
        if tried.best is None or tried.best.level == RAISED:
            lack = ("", "") if known.at(0) else explain_lack(description, self.init)
            raise NotCallable(tried.trials, *lack)

    def _calls(self) -> Iterable[str]:
        """Return the calls that the signature allows, likely ones first."""
        return calls(self.caller.describe(), self.init, half=self.rope.layout == "half")

    def _likely_first(self, known: _Calls, framework: str) -> Iterator[Convention]:
        """Yield conventions by how unlikely their call, axes and tables are together."""
        every: list[tuple[str, dict[str, Sequence[str]]]] = []
        furthest = -1
        for unlikely in itertools.count():
            call = known.at(unlikely)
            if call is not None:
                every.append((call, self._fields(call, framework)))
                choices = every[-1][1].values()
                furthest = max(furthest, unlikely + sum(len(values) - 1 for values in choices))
            elif unlikely > furthest:
                return
            for rank, (text, fields) in enumerate(every):
                for chosen in of_sum([*fields.values()], unlikely - rank):
                    named = dict(zip(fields, chosen, strict=True))
                    if not self._has_position_each(named):
                        continue
                    with_axes = _with_axes(text, letters("axes", named["axes_of_x"]))
                    yield Convention(**{**self.given, **named, "call": with_axes})

    def _has_position_each(self, named: Mapping[str, str]) -> bool:
        """Return False for flat tokens with positions of something else."""
        of_positions = named.get("axes_of_positions", "")
        if "b*s" not in named["axes_of_x"] or "axes_of_positions" in self.given:
            return True
        return not of_positions or "b*s" in of_positions

    def _fields(self, call: str, framework: str) -> dict[str, Sequence[str]]:
        """Return what each field of the convention of a call may be, most likely first."""
        names = Convention(call=_with_axes(call, [])).names
        fields: dict[str, Sequence[str]] = {
            "framework": (framework,),
            "axes_of_x": _axes_of_x(names),
        }
        if "positions" in names:
            axes = AXES_OF_POSITIONS if self.axes == 1 else AXES_OF_COORDINATES
            fields |= {"axes_of_positions": axes, "positions_dtype": POSITIONS_DTYPES}
        if names & {"freqs", "freqs_cache"}:
            every = self.caller.describe().all_parameters
            named = [p for p in every if "freqs" in roles(p.name, 1, p.annotation)]
            fields["freqs"] = freqs_kinds(named[0].name, named[0].annotation) if named else [*FREQS]
        if names & {*TABLES}:
            fields["axes_of_tables"] = AXES_OF_TABLES
        elif names & {*CACHES}:
            fields["axes_of_tables"] = ("s d", "1 1 s d", "1 s d")
        if names & {*TABLES, *CACHES} - {"cos_sin_cache"}:
            fields["columns"] = [*COLUMNS]
        given = self.given
        return {name: (given[name],) if name in given else fields[name] for name in fields}

    def _with_own_defaults(self, found: Convention, dtype: str) -> Convention:
        """Return a call with the defaults that its author wrote, if that is meant."""
        call = with_own_defaults(found.call, self.caller.describe(), self.init)
        with_defaults = replace(found, call=call)
        return (
            with_defaults if call != found.call and self._is_meant(with_defaults, dtype) else found
        )

    def _with_tables_dtype(self, found: Convention, dtype: str) -> Convention:
        """Return a call with the dtype of its tables, where that of x does not fit."""
        if "tables_dtype" in self.given:
            return found
        of_framework = self.caller.dtypes(found.framework)

        def attempt(tables: str, dtype: str) -> Trial:
            return self.attempt(replace(found, tables_dtype=tables), dtype)

        if "inv_freq" in found.names:
            first = attempt("", dtype)
            for tables in ("float64", "float32"):
                trial = attempt(tables, dtype) if tables in of_framework else first
                as_good = trial.level >= first.level and trial.dtype == first.dtype
                if trial.convention.tables_dtype and as_good:
                    return trial.convention
        half = next(
            (dtype_name for dtype_name in self.dtypes or of_framework if "16" in dtype_name), None
        )
        if half and half != dtype and found.names & {*TABLES, *CACHES} and attempt("", half).error:
            trial = attempt("float32", half)
            return found if trial.error else trial.convention
        return found

    def _dtypes_of(self, framework: str, *, alone: bool) -> tuple[str, ...]:
        """Return the dtypes of a framework; none if it is not installed, and one of several."""
        try:
            return self.caller.dtypes(framework)
        except ArgumentError:
            if alone:
                raise
            return ()

    def _with_positions(
        self, alone: Convention, tried: Sequence[Trial], rest: Iterator[Convention], dtype: str
    ) -> Convention:
        """Return a right call with the positions that it lacks, if they choose most rows."""
        if alone.names & {*PLACES, *TABLES, *CACHES}:
            return alone
        moved = next(
            (
                trial.convention
                for trial in tried
                if not trial.error
                and trial.convention.names & PLACES
                and trial.convention.axes_of_x == alone.axes_of_x
                and self._is_made_of(trial.convention, alone, dtype)
            ),
            None,
        )
        if moved is None:
            return alone
        twice = bool(self.caller.describe().other)
        for convention in itertools.islice(rest, PATIENCE):
            if (
                convention.names & PLACES
                and self.attempt(convention, dtype, twice=twice).level == EXACT
            ):
                return convention
        return moved

    def _is_made_of(self, convention: Convention, alone: Convention, dtype: str) -> bool:
        """Return True if one call gives mostly numbers that another one gives without positions.

        Those of the same coordinate are compared, as some pairs alone may follow the positions. So
        are only coordinates that change from row to row, as the others show no position.
        """
        dim, length = self.rope.head_dim, min(LENGTH, self.context)
        batch = self.size[0] if "b" in convention.axes_of_x else 1
        most = min(2 * (FIRST + length) + batch, self.context)

        def rows(convention: Convention, call: Call) -> Any:
            with self._instance(convention) as number:
                answer = self.caller.call(number, call)
                return real_numbers(answer.q, dtype).reshape(-1, dim)

        x = _vectors(dim, dtype)
        try:
            got = rows(convention, _calls(convention, x, (batch, 1, length), self.axes)[0])
            every = rows(alone, Call(vectors=x, positions=np.arange(most)))
        except (ImplementationError, Unsupported):
            return False
        size = np.abs(every).max()
        moving = np.ptp(every, axis=0) > MOVING * size
        off = np.abs(got[:, None, moving] - every[:, moving]).min(axis=1)
        return bool(moving.any() and (off <= 1e-3 * size).mean() > 0.5)

    @contextlib.contextmanager
    def _instance(self, convention: Convention) -> Iterator[int]:
        """Make an instance for the time of a trial."""
        context = min(self.context, CONTEXT)
        setup = Setup(convention=convention, rope=self.rope, context=context)
        number = self.caller.make(setup)
        try:
            yield number
        finally:
            self.caller.drop(number)

    def find_arrangements(self, found: Convention, dtype: str) -> Arrangements:
        """Return the arrangements of axes that show that they are meant, and those that only run.

        There is one for each number of axes, and for each order of as many axes as the call found
        has. If none shows it, the call found is judged. Positions are one list for all sequences
        where that is meant: those of each sequence are tried as well. Tables come in both kinds of
        axes, those of a batch and without, if each is meant.
        """
        meaning = functools.cache(functools.partial(self._meaning, dtype))
        arrangements, others, shown = [found], list[Convention](), True
        if "axes_of_x" not in self.given:
            arrangements, others = self._find_axes_of_x(found, meaning)
            shown = _first_meant(arrangements[:1], meaning)[0] is not None
            if "axes_of_positions" not in self.given:
                arrangements = [_with_one_list(convention, meaning) for convention in arrangements]
        if "axes_of_tables" not in self.given:
            tables = [_with_other_tables(convention, meaning) for convention in arrangements]
            arrangements += [table for table in tables if table is not None]
        without = "axes_of_x" in self.given and "b" not in arrangements[0].axes_of_x
        role = None if without else _role_of_sequences(arrangements[0])
        refused = None if role is None else self._refuse_batch(arrangements, dtype)
        said = "call" in self.given or self.caller.describe().promises_batch(str(role))
        return Arrangements(
            judged=tuple(arrangements),
            shown=shown,
            not_judged=tuple(others),
            refused_batch=refused,
            promised=refused is not None and said,
        )

    def _refuse_batch(self, every: Sequence[Convention], dtype: str) -> str | None:
        """Return what is raised for more than one sequence; None if some are taken."""
        errors = [
            self.attempt(convention, dtype, size).error
            for convention in every
            for size in meant.SIZES[:2]
            if "b" in convention.axes_of_x
        ]
        return next(reversed(errors), "no call takes an axis of them") if all(errors) else None

    def _find_axes_of_x(
        self, found: Convention, meaning: Meaning
    ) -> tuple[list[Convention], list[Convention]]:
        """Return the arrangements that are meant; of other numbers of axes, one that runs."""
        of_x = letters("axes", found.axes_of_x)
        same = (one_call for one_call in self._calls() if _with_axes(one_call, of_x) == found.call)
        call = next(same, found.call)
        fields = self._fields(call, found.framework)
        by_count: dict[int, list[Convention]] = {}
        for text, of_positions, of_tables in itertools.product(
            fields["axes_of_x"],
            fields.get("axes_of_positions", (found.axes_of_positions,)),
            fields.get("axes_of_tables", (found.axes_of_tables,)),
        ):
            named: dict[str, Any] = {
                "call": _with_axes(call, letters("axes", text)),
                "axes_of_x": text,
                "axes_of_positions": of_positions,
                "axes_of_tables": of_tables,
            }
            if "positions" not in found.names or self._has_position_each(named):
                by_count.setdefault(len(text.split()), []).append(replace(found, **named))
        alike = by_count.pop(len(found.axes_of_x.split()))
        # Found with one head, it may be one of several in the last axis.
        first, _ = _first_meant([found, *alike], meaning)
        taken = [] if first is None else [first]
        if first is not None:
            reordered = (
                convention
                for convention in alike
                if replace(convention, call=first.call, axes_of_x=first.axes_of_x) == first
                and in_other_order(convention.axes_of_x, first.axes_of_x)
            )
            taken += [
                convention for convention in reordered if _first_meant([convention], meaning)[0]
            ]
            taken += _with_heads_side_by_side(first, alike, meaning)
        not_judged: list[Convention] = []
        for conventions in by_count.values():
            near = sorted(conventions, key=lambda each: not _is_like(each, first or found))
            best, run = _first_meant(near, meaning)
            if best is not None:
                taken += [best, *_with_heads_side_by_side(best, near, meaning)]
            else:
                run.sort(key=lambda each: not _extends(each.axes_of_x, found.axes_of_x))
                not_judged += run[:1]
        if not taken:
            return [found], not_judged
        if found.axes_of_x not in {convention.axes_of_x for convention in taken}:
            not_judged.insert(0, found)
        return taken, not_judged

    def _is_meant(self, convention: Convention, dtype: str) -> bool:
        """Return True if a call shows that it is meant."""
        meaning = functools.partial(self._meaning, dtype)
        return _first_meant([convention], meaning)[0] is not None

    def _meaning(self, dtype: str, convention: Convention, size: tuple[int, int]) -> int:
        def rotate(call: Call) -> NDArray[np.float64]:
            with self._instance(convention) as number:
                answer = self.caller.call(number, call)
            return real_numbers(answer.q, dtype)

        trials = meant.Trials(
            convention=convention,
            rotate=rotate,
            dim=self.rope.head_dim,
            axes=self.axes,
            context=min(self.context, CONTEXT),
            dtype=dtype,
        )
        with np.errstate(all="ignore"):  # an implementation may return what is not finite
            return trials.meaning(*size)

    def attempt(
        self,
        convention: Convention,
        dtype: str,
        size: tuple[int, int] | None = None,
        *,
        twice: bool = False,
    ) -> Trial:
        """Call it by a convention, and say how far it came."""
        batch, heads = size or self.size
        order = {letter for axis in letters("axes", convention.axes_of_x) for letter in axis}
        length = min(LENGTH, self.context)
        sizes = (batch if "b" in order else 1, heads if "h" in order else 1, length)
        folded = convention.axes_of_x in FOLDED and "heads" not in convention.names
        results, rows, dtype_of_result = [], [], ""
        one_head: NDArray[np.float64] | None = None
        x = _vectors(self.rope.head_dim, dtype)
        try:
            with self._instance(convention) as number:
                for call in _calls(convention, x, sizes, self.axes, twice=twice):
                    answer = self.caller.call(number, call)
                    results.append(real_numbers(answer.q, dtype))
                    dtype_of_result = known_dtype(answer.q)
                    places = call.by_sequence
                    rows.append(np.broadcast_to(places, (call.batch, *places.shape[1:])))
                if folded and call.heads > 1:
                    with contextlib.suppress(ImplementationError):
                        answer = self.caller.call(number, replace(call, scales=call.scales[:, :1]))
                        one_head = real_numbers(answer.q, dtype)
        except (ImplementationError, Unsupported) as error:
            place = getattr(error, "place", "")
            return Trial(convention=convention, level=RAISED, error=str(error), place=place)
        if "offset" in convention.names and np.array_equal(results[0], results[-1]):
            del results[1:], rows[1:]  # it ignores its offset, which is for the laws to say
        got, where = np.concatenate(results), np.concatenate(rows)
        if not np.isfinite(got).all():
            return Trial(convention=convention, level=SHAPED, dtype=dtype_of_result)
        one = x[0].astype(np.float64)
        level, right = _level(got, one, where, self.rope, convention)
        doubtful = folded and right <= MOST
        if doubtful and (one_head is None or not _has_heads(results[-1], one, one_head)):
            level, right = SHAPED, 0.0
        return Trial(convention=convention, level=level, right=right, dtype=dtype_of_result)


def _with_heads_side_by_side(
    taken: Convention, alike: Sequence[Convention], meaning: Meaning
) -> list[Convention]:
    """Return one of as many axes with heads in the last one, if it is meant where one head runs."""
    if "h" in taken.axes_of_x:
        return []
    folded, _ = _first_meant(
        [convention for convention in alike if "h*d" in convention.axes_of_x], meaning
    )
    return [] if folded is None else [folded]


def _first_meant(
    every: Iterable[Convention], meaning: Meaning, sizes: Sequence[tuple[int, int]] = meant.SIZES
) -> tuple[Convention | None, list[Convention]]:
    """Return the first convention that shows that it is meant, and those that only run.

    Those that are meant in large calls come first: fewer sequences or heads are tried where more
    raise.
    """
    left, run = [*every], list[Convention]()
    for size in sizes:
        raised: list[Convention] = []
        for convention in left:
            came = meaning(convention, meant.sizes_of(convention, size))
            if came == MEANT:
                return convention, run
            (run if came == RUNS else raised if came == RAISES else []).append(convention)
        left = raised
    return None, run


def _with_other_tables(convention: Convention, meaning: Meaning) -> Convention | None:
    """Return the convention with tables of all sequences, if it is taken, for those of each."""
    if not convention.names & {*TABLES} or "b" not in convention.axes_of_tables:
        return None
    every = (replace(convention, axes_of_tables=text) for text in AXES_OF_TABLES if "b" not in text)
    return _first_meant(every, meaning)[0]


def _with_one_list(convention: Convention, meaning: Meaning) -> Convention:
    """Return the convention with one list of positions for all sequences, if that is meant."""
    of_positions, flat = convention.axes_of_positions, "b*s" in convention.axes_of_x
    if "positions" not in convention.names or "b" not in of_positions or flat:
        return convention
    shared = replace(convention, axes_of_positions="c s" if "c" in of_positions else "s")
    # Of one sequence, both are the same list.
    return _first_meant([shared], meaning, meant.SIZES[:2])[0] or convention


def _is_like(one: Convention, other: Convention) -> bool:
    """Return True if positions have as many axes in both."""
    return len(one.axes_of_positions.split()) == len(other.axes_of_positions.split())


def _role_of_sequences(convention: Convention) -> str | None:
    """Return the name of an argument that has something for each sequence of a batch."""
    of_sequences = {"offsets", "cu_seqlens"}
    if "b" in convention.axes_of_positions.split():
        of_sequences.add("positions")
    return next(iter(sorted(of_sequences & convention.names)), None)


def _extends(one: str, other: str) -> bool:
    """Return True if the axes of one arrangement are those of another with some left out."""
    long, short = sorted((one.split(), other.split()), key=len, reverse=True)
    return [axis for axis in long if axis in short] == short


_Way = tuple[str, ...]  #: What conventions of one way of calling have in common.
_Failure = tuple[str, str]  #: Message and place of an error.


def _way(convention: Convention) -> _Way:
    return convention.framework, convention.call, convention.axes_of_x, convention.freqs


def _arguments(convention: Convention) -> _Way:
    """Return all of a convention but dtypes."""
    of_tables = convention.axes_of_tables, convention.columns
    return *_way(convention), convention.axes_of_positions, *of_tables


def _kind(failure: _Failure) -> _Failure:
    """Return a failure without the numbers in its message."""
    message, place = failure
    return re.sub(r"\d+", "", message), place


class _Tried:
    """The trials of a search in one size and dtype, and the one that came furthest."""

    def __init__(self, earlier: Mapping[_Way, _Failure], size: tuple[int, int]) -> None:
        self.failed: dict[_Way, _Failure] = {}  #: Failures, by arguments, and by size as well.
        self._earlier = earlier  # the same in other sizes and dtypes
        self._size = str(size)
        self._again: set[tuple[_Failure, str]] = set()  # with the axes of x
        self._changed: set[_Failure] = set()
        self.trials: list[Trial] = []
        self.best: Trial | None = None
        self.dtype = ""  #: Dtype of the data of that trial.
        self.failures: Counter[tuple[str, ...]] = Counter()  #: Alike ones, by way of calling.
        self._found = 0

    def add(self, trial: Trial, dtype: str) -> None:
        """Take a trial in a dtype."""
        self.trials.append(trial)
        if trial.error:  # the same words in whatever tables count up to the limit
            signature = _way(trial.convention)
            self.failures[*signature, trial.error] += 1
            self.failures[signature] = max(
                self.failures[signature], self.failures[*signature, trial.error]
            )
        arguments, failure = _arguments(trial.convention), (trial.error, trial.place)
        self.failed[arguments] = self.failed[*arguments, self._size] = failure
        before = self._failed_before(arguments)
        if failure == before:
            self._again.add((_kind(failure), trial.convention.axes_of_x))
        elif before is not None:
            self._changed.add(_kind(before))
        best = self.best
        if best is None or trial.level > best.level + MARGIN * (best.level > RAISED):
            self.best, self.dtype, self._found = trial, dtype, len(self.trials)

    def has_failed(self, convention: Convention) -> bool:
        """Return True if it failed in another size or dtype as one of the same axes of x did.

        That one fails again, and no other that failed so, at the same line with the same message
        but for numbers, does better. An exception without a message may have several reasons.
        """
        failure = self._failed_before(_arguments(convention))
        if failure is None or _kind(failure) in self._changed:
            return False
        message, place = failure
        without_message = place and ":" not in message
        return not without_message and (_kind(failure), convention.axes_of_x) in self._again

    def _failed_before(self, arguments: _Way) -> _Failure | None:
        """Return the failure in this size if there was one, for a message may name sizes."""
        return self._earlier.get((*arguments, self._size)) or self._earlier.get(arguments)

    def is_near_enough(self) -> bool:
        """Return True if one rotates in most ways, and many after it came no further."""
        far = self.best is not None and self.best.level >= ALONG
        return far and len(self.trials) - self._found > PATIENCE


class _Calls:
    """Calls by their rank, made when they are asked for."""

    def __init__(self, source: Iterable[str]) -> None:
        self._source = iter(source)
        self._made: list[str] = []

    def at(self, rank: int) -> str | None:
        """Return the call of a rank; None if there are fewer."""
        self._made += itertools.islice(self._source, max(0, rank + 1 - len(self._made)))
        return self._made[rank] if rank < len(self._made) else None


def _with_axes(call: str, of_x: Sequence[tuple[str, ...]]) -> str:
    """Return a call with the indices of the axes of x that it mentions."""
    for name, letter in (("sequence axis", "s"), ("heads axis", "h")):
        index = next((i for i, axis in enumerate(of_x) if letter in axis), 0)
        call = call.replace(name, str(index))
    return call


def _axes_of_x(names: Set[str]) -> Sequence[str]:
    """Return the arrangements of axes that a call with these names may take."""
    every: tuple[str, ...] = AXES_OF_QKV if "qkv" in names else AXES_OF_X
    if "cu_seqlens" in names:  # which promises sequences one after another
        every = tuple(text for text in every if "b*s" in text)
    return every


@functools.lru_cache(maxsize=64)
def _vectors(dim: int, dtype: str) -> NDArray[Any]:
    """Return the one vector of all tokens: results that differ do so by their positions."""
    return np.random.default_rng(0).standard_normal((1, dim)).astype(DTYPES[dtype])


def _calls(
    convention: Convention,
    x: NDArray[Any],
    sizes: tuple[int, int, int],
    axes: int,
    *,
    twice: bool = False,
) -> list[Call]:
    """Return calls with positions to try, those of each sequence apart where there is room."""
    names = convention.names
    batch, heads, length = sizes
    # Rows of a table for each token are not those that positions would choose from it.
    first = FIRST if names & {*TABLES, *PLACES} and length == LENGTH else 0
    shared = first + np.arange(length)
    apart = shared + np.arange(batch)[:, None]
    if names & {*TABLES}:
        tried = [shared, apart] if "b" in convention.axes_of_tables else [shared]
    elif "offsets" in names or ("positions" in names and "b" in convention.axes_of_positions):
        tried = [apart]
    else:  # from the next offset come the next rows, unless the sequence is on another axis
        tried = [shared, shared + 1] if first and (twice or "offset" in names) else [shared]
    return [
        Call(
            vectors=x,
            scales=np.ones((batch, heads)),
            positions=on_all_axes(positions_tried, axes),
            per_sequence=positions_tried.ndim > 1,
        )
        for positions_tried in tried
    ]


def _level(
    got: NDArray[np.float64],
    x: NDArray[np.float64],
    places: NDArray[np.int64],
    rope: Rotary,
    convention: Convention,
) -> tuple[float, float]:
    """Return how much results are like a rotation of one vector, and the share that is right."""
    near = 1e-3 * np.abs(x).max()  # float32 keeps 1e-6, and half precision tables a few times 1e-4
    heads = got.reshape(-1, *got.shape[2:])
    if convention.names & {*TABLES, *CACHES}:
        numbers, right = _rotated_as_told(got, x, places, rope, near)
        if numbers == 1:
            return EXACT, right
        return SHAPED + PARTLY * numbers * bool(_moving(heads, near).any()), right
    begin = places.reshape(*places.shape[:2], -1)[:, 0, 0]
    shared = max(1, got.shape[2] - np.ptp(begin))
    ahead = begin.max() - begin
    common = np.stack([rows[:, i : i + shared] for rows, i in zip(got, ahead, strict=True)])
    right = _alike(common.reshape(-1, *common.shape[2:]), near)
    if right < 1:
        return SHAPED + PARTLY * right, right
    lengths = np.linalg.norm(got, axis=-1)
    kept = np.abs(lengths - lengths[..., :1]).max() <= 1e-2 * lengths.max()
    return EXACT if kept else ALONG, right


def _moving(heads: NDArray[np.float64], near: float) -> NDArray[np.bool_]:
    """Return which heads (count, rows, head_dim) have rows that change with the position."""
    # One step that differs is an index of a batch, taken for a position.
    steps = np.abs(np.diff(heads, axis=1)).max(axis=-1) > near
    return np.asarray(steps.any(axis=1) & (2 * steps.sum(axis=1) >= steps.shape[1]))


def _alike(heads: NDArray[np.float64], near: float) -> float:
    """Return the share of heads that have the rows of most of those that move."""
    moving, most = heads[_moving(heads, near)], 0
    while len(moving):
        alike = np.abs(moving - moving[0]).max(axis=(-1, -2)) <= near
        most, moving = max(most, int(alike.sum())), moving[~alike]
    return most / len(heads)


def _has_heads(got: Array, x: Array, one_head: Array) -> bool:
    """Return True if each head of a call is changed, and one as in a call with one head."""
    near = 1e-3 * np.abs(x).max()
    changed = np.abs(got - x).max(axis=(0, 2, 3)) > near
    alike = np.abs(got - one_head).max(axis=(0, 2, 3)) <= near
    return bool(changed.all() and alike.any())


def _rotated_as_told(
    got: NDArray[np.float64],
    x: NDArray[np.float64],
    places: NDArray[np.int64],
    rope: Rotary,
    near: float,
) -> tuple[float, float]:
    """Return the shares of numbers and of rows that are rotated by the tables, in any layout."""
    angles = float64.angles(places.astype(np.float64), rope.inv_freq)[:, None]
    count = rope.rotary_dim // 2
    half = np.stack([np.arange(count), np.arange(count) + count], axis=1)
    adjacent = np.stack([2 * np.arange(count), 2 * np.arange(count) + 1], axis=1)
    layouts = [
        (half, half),
        (adjacent, adjacent),
        (adjacent, half),
        (rope.pairs_in, rope.pairs_out),
    ]
    every = np.broadcast_to(x, (*angles.shape[:-1], len(x)))
    most = 0.0, 0.0
    for (pairs_in, pairs_out), sign in itertools.product(layouts, (1, -1)):
        rows = float64.rotate(every, sign * angles, pairs_in=pairs_in, pairs_out=pairs_out)
        plain = rows[..., pairs_out]
        shares = got[..., pairs_out] / np.where(np.abs(plain) > near, plain, np.nan)
        # A factor of its own, such as a default of mscale, is right.
        for factor in (rope.attention_factor, float(np.nanmedian(shares))):
            rows[..., pairs_out] = factor * plain
            as_told = np.abs(got - rows) <= near * max(1.0, factor)
            turned = np.broadcast_to((np.abs(rows - x) > near).any(axis=-1), as_told.shape[:-1])
            right = np.asarray(as_told.all(axis=-1))[turned].mean() if turned.any() else 0.0
            if factor > near:
                most = max(most, (float(as_told.mean()), float(right)))
    return most
