"""An implementation with the data it is called with and the oracle of its rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES, Array, on_all_axes
from ropecli.checks.expectation import MUST, Expectation
from ropecli.checks.identify import Identification
from ropecli.checks.implementation.call import (
    Call,
    ImplementationError,
    Unsupported,
    WrongResult,
)
from ropecli.checks.implementation.interface import Implementation, Instance
from ropecli.checks.implementation.oracle import (
    DERIVED,
    Oracle,
    Tolerances,
    by_length,
    computed_in_half,
    frequency_uncertainty,
    refine_frequencies,
    rounding_tolerance,
    sequence_length,
)
from ropecli.errors import RopecliError
from ropecli.rotary.rotary import Rotary

PROBE_ROWS = 96  #: Positions from 0 that show the table of a longer sequence.
#: Relative change of a frequency that no loss of digits makes: twice the 2^-11 of float16.
CHANGED = 2.0**-10
DISTINCT = 4200  #: Vectors of a call.
WHOLE = 2**23  #: Numbers of a sequence that is called as a whole to see some of its rows.
SHORTEST = 16  #: Shorter sequences are taken to have the table of one of this length.
FRUITLESS = 3  #: Lengths after which, if none had another table, no further one is identified.


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Rows of the first calls, and the rotation that they show."""

    dtype: str  #: Dtype of the data that showed it.
    first_rows: Array | None = None  #: Result of the very first call,
    again: Array | None = None  #: and of the second one, which is the same call.
    #: Rows before and after that showed the rotation, and their positions.
    rows: tuple[Array, Array, Array] | None = None
    identified: Identification | None = None  #: The RoPE that they are rotated by.
    why_unidentified: str | None = None  #: Why nothing could be identified.
    parting: str | None = None  #: How some rows part from the rotation identified, if they do.


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """An implementation, what it is called with, and the rotation that it is held to."""

    implementation: Implementation
    instance: Instance  #: The one that is called, but where a check needs a new one.
    dim: int  #: Coordinates of a vector.
    axes: int  #: Coordinates of a position.
    dtypes: tuple[str, ...]  #: Dtypes of the vectors, the first one for all checks.
    expectation: Expectation  #: What is expected, of which some properties may be free.
    #: The encoding that meets it, with what is free as found; None if any RoPE is correct.
    expect: Rotary | None
    context: int  #: Positions up to which it is checked.
    context_given: bool  #: Whether it must take all of them.
    original: int | None  #: Positions of the training; None if unknown.
    seed: int  #: Seed of the vectors.
    evidence: Evidence
    named_dtypes: tuple[str, ...] = ()  #: Dtypes that were asked for, which results must keep.
    thorough: bool = False  #: Whether to make about ten times as many calls.
    fast: bool = False  #: Whether to make about a tenth of the calls.
    tolerances: Tolerances = DERIVED  #: Of rows and what follows from them.
    oracle: Oracle | None = None  #: The rotation that rows are compared with.
    as_expected: bool = False  #: Whether that is the one expected.
    surveyed: list[Any] = field(default_factory=list)  #: Rows that checks of all shapes have seen.
    #: Vectors of calls, by dtype and salt.
    _vectors: dict[tuple[str, int], NDArray[Any]] = field(default_factory=dict)
    #: Tokens of calls: those that it took, by False, and those that it refused, by True.
    tried_lengths: dict[bool, set[int]] = field(default_factory=lambda: {False: set(), True: set()})
    read_only: set[str] = field(default_factory=set)  #: Dtypes of data that it writes into.
    _oracles: dict[int, Oracle | None] = field(default_factory=dict)  #: By length of the sequence.
    #: Rotations by other tables, by length of the longest sequence of a call with wrong rows.
    _others: dict[int, Oracle | None] = field(default_factory=dict)

    @property
    def few_calls(self) -> bool:
        """True if a check makes few calls: each takes long, or that was asked for."""
        return self.fast or self.implementation.costly

    @property
    def dtype(self) -> str:
        """Dtype of the vectors of most checks."""
        return self.dtypes[0]

    @property
    def expected(self) -> Oracle:
        """The encoding expected, to compare rows with."""
        assert self.expect is not None
        return Oracle(
            rotary_at=by_length(self.expect), offset=self.offset, tolerances=self.tolerances
        )

    @property
    def held_to_expected(self) -> Subject:
        """The same, whose rows are compared with the encoding expected."""
        return replace(self, oracle=self.expected, as_expected=True)

    @property
    def limits(self) -> tuple[int, ...]:
        """Lengths that its tables may have."""
        return self.context, self.original or self.context

    @property
    def layout(self) -> str:
        """The layout found, or else the one expected; empty if neither is known."""
        identified = self.evidence.identified
        if identified is not None and identified.layout is not None:
            return identified.layout
        return "" if self.expect is None else self.expect.layout

    @property
    def found_offset(self) -> float:
        """The position by which a token at position 0 is rotated, as far as it is known."""
        identified = self.evidence.identified
        return 0.0 if identified is None else identified.position_offset or 0.0

    @property
    def offset(self) -> float:
        """The position by which a token at position 0 must be rotated.

        It is 0 unless another one is given; of code that counts positions itself, whole or half
        ones are a choice.
        """
        free = not self.implementation.is_given_positions and self.expectation.offset_ground == MUST
        if free and (2 * self.found_offset).is_integer():
            return self.found_offset
        return self.expectation.offset

    def vectors(self, count: int, dtype: str | None = None, *, salt: int = 0) -> NDArray[Any]:
        """Return normal vectors in a dtype, (count, head_dim); after many, they begin again."""
        count, key = min(count, DISTINCT), (dtype or self.dtype, salt)
        kept = self._vectors.get(key)
        if kept is None or len(kept) < count:
            random = np.random.default_rng([self.seed, salt])
            normal = random.standard_normal((1 << (count - 1).bit_length(), self.dim))
            kept = self._vectors[key] = normal.astype(DTYPES[key[0]])
        return kept[:count]

    def on_axes(self, positions: Any) -> NDArray[Any]:
        """Return positions for a call: where there are several axes, the same on each."""
        return on_all_axes(np.asarray(positions, dtype=np.int64), self.axes)

    def call(self, positions: Any, salt: int = 0, dtype: str | None = None, **more: Any) -> Call:
        """Return a call of one head of one sequence, or as further fields of it say.

        Positions on one axis are the same on each.
        """
        array = np.asarray(positions, dtype=np.int64)
        flat = array.ndim == 1 + bool(more.get("per_sequence"))
        length = array.shape[1 if more.get("per_sequence") else 0]
        return Call(
            vectors=self.vectors(length, dtype, salt=salt),
            positions=self.on_axes(array) if flat else array,
            **more,
        )

    def rows(self, call: Call) -> Array:
        """Return the rows of the implementation, (rows, head_dim)."""
        with self.within_context(call.positions):
            return self.instance.rows(call)

    @contextlib.contextmanager
    def within_context(
        self, positions: NDArray[Any], *, promised: int | None = None
    ) -> Iterator[None]:
        """Call with positions, of which those beyond the context may be refused."""
        least = self.context if self.context_given or promised is None else promised
        try:
            yield
        except WrongResult:
            raise
        except ImplementationError as error:
            furthest = int(positions.max(initial=0))
            if furthest < least:
                raise
            what = f"position {furthest:,}"
            if furthest >= self.context:
                what = f"positions beyond {self.context:,}"
            raise Unsupported(f"refuses {what}: {error}") from None

    @property
    def longest_sequence(self) -> int | None:
        """Return the most tokens that it took, where it refused all longer sequences."""
        most, refused = (
            max(self.tried_lengths[own_positions], default=0) for own_positions in (False, True)
        )
        return most if 0 < most < refused else None

    def repeat_tolerance(self, rows: Array, dtype: str | None = None) -> Array:
        """Return how far two results that should be equal may differ by rounding, (count, 1)."""
        most = np.abs(rows).max(axis=-1, keepdims=True)
        dtype = dtype or self.dtype
        rounding = 2 * self.tolerances.of_pair(dtype) * most
        return np.asarray(np.maximum(rounding, 2 * self.tolerances.absolute.get(dtype, 0.0)))

    def oracles_of(
        self, positions: NDArray[Any], *, identify: bool = True
    ) -> Iterator[list[Oracle]]:
        """Yield the oracle of each sequence, or one for all, one convention after another.

        Where the table depends on the length, all sequences have that of the longest, as in
        Transformers, or each its own. The oracle's own tables come first, then those that the
        implementation shows for these lengths.
        """
        oracle = self.oracle
        assert oracle is not None
        lengths = [sequence_length(ids) for ids in positions]
        yield [oracle.at_length(max(lengths))]
        if len({oracle.rotary_at(length) for length in set(lengths)}) > 1:
            yield [oracle.at_length(length) for length in lengths]
        fruitless = len(self._others) >= FRUITLESS and not any(self._others.values())
        if identify and not fruitless:
            other = self._others[max(lengths)] = self.identify_at(max(lengths))
            if other is not None:
                yield [other]
        if identify and len(set(lengths)) > 1:
            others = [self.identify_at(length) for length in lengths]
            if any(others):
                own = zip(others, lengths, strict=True)
                yield [other or oracle.at_length(length) for other, length in own]

    def identify_at(self, length: int) -> Oracle | None:
        """Return the rotation of sequences of another length, if their table is another one.

        Pairs and direction are the same; None if no such rotation explains the rows. A table that
        drifts a little has lost digits, and is not another one, unless the tables of the shortest
        or the longest sequences show that they change with the length.
        """
        identified = self.evidence.identified
        if (
            self.as_expected
            or identified is None
            or not identified.recognised
            or identified.rotary is None
        ):
            return None
        known = (identified.position_step or 1.0) * identified.rotary.diagonal_inv_freq
        there = self._measure_at(length, identified.rotary)
        for other in (length, SHORTEST, self.context) if there else ():
            oracle = self._measure_at(other, identified.rotary)
            if oracle is not None and _clearly_differ(known, oracle.rotary_at(other).inv_freq):
                return there
        return None

    def _measure_at(self, length: int, here: Rotary) -> Oracle | None:
        """Return the rotation of sequences of a length, with the pairs of another one."""
        length = max(length, min(SHORTEST, self.context))
        if length not in self._oracles:
            self._oracles[length] = self._identify_at(length, here)
        return self._oracles[length]

    def _identify_at(self, length: int, here: Rotary) -> Oracle | None:
        from ropecli.checks.identify import identify_rows

        # Half precision shows less in each row.
        rows = 16 * PROBE_ROWS if "16" in self.evidence.dtype else PROBE_ROWS
        near = np.arange(min(length, rows))
        positions = self.on_axes(np.unique([*near, length // 2, length - 1]))
        call = self.call(positions, 23, self.evidence.dtype)
        x, held = call.x, call.vectors.dtype
        try:
            y = self._rotate_within(length, call)
            # Which coordinates form a pair is known: they are moved next to each other.
            before, after = x[:, here.pairs_in.ravel()], y[:, here.pairs_out.ravel()]
            after = after.astype(DTYPES[self.tolerances.result_dtype or self.evidence.dtype])
            identified = identify_rows(before.astype(held), after, positions, explained=False)
        except (ImplementationError, Unsupported, RopecliError):  # also rows that are not finite
            return None
        there = identified.rotary
        if not identified.recognised or there is None or computed_in_half(identified):
            return None
        if there.axis is None or here.axis is None or there.reorders:
            return None
        if (there.axis[0], there.direction) != (here.axis[0], here.direction):
            return None
        step = identified.position_step or 1.0
        in_order = [pair == (2 * i, 2 * i + 1) for i, pair in enumerate(there.input_pairs)]
        count = len(in_order) if all(in_order) else in_order.index(False)
        # The slowest pairs may not be seen to rotate, or not with which coordinate.
        measured = step * there.diagonal_inv_freq
        if (measured[count:] * length > rounding_tolerance(identified.dtype)).any():
            return None
        table = np.zeros(here.rotary_dim // 2)
        table[:count] = measured[:count]
        largest = 0.0 if identified.uncertainty is None else float(identified.uncertainty.max())
        uncertainty = np.full(len(table), largest)
        rope = here.with_inv_freq(table, attention_factor=there.attention_factor)
        # So few rows may fit another formula as well: the uncertainty covers their rounding.
        unsure = np.maximum(
            step * frequency_uncertainty(identified), rounding_tolerance("float32") / length
        )
        uncertainty[:count] = np.broadcast_to(unsure, there.rotary_dim // 2)[:count]
        oracle = Oracle(
            rotary_at=lambda _length: rope, uncertainty=uncertainty, tolerances=self.tolerances
        )
        # So few rows fit many a simple formula; those in the middle and at the end tell them apart.
        return refine_frequencies(
            oracle, x, y, positions.astype(np.float64), identified.dtype, other=0
        )

    def _rotate_within(self, length: int, call: Call) -> Array:
        """Rotate some rows of a sequence, with all others if it must be whole."""
        try:
            return self.rows(call)
        except Unsupported:
            if length * self.dim > WHOLE:
                raise
            index = call.positions if call.positions.ndim == 1 else call.positions[:, 0]
            padded = np.zeros((length, self.dim), call.vectors.dtype)
            padded[index] = call.vectors
            every = self.on_axes(np.arange(length))
            return self.rows(replace(call, vectors=padded, positions=every))[index]


def _clearly_differ(one: Array, other: Array) -> bool:
    """Return True if some frequency differs by much more than it is measured to."""
    return len(one) == len(other) and bool((np.abs(other - one) > CHANGED * np.abs(one)).any())
