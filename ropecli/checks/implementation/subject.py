"""An implementation with the data it is called with and the oracle of its rows."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import DTYPES
from ropecli.checks.implementation.calls import ImplementationError, Unsupported, WrongResult
from ropecli.checks.implementation.measured_oracle import (
    clearly_differ,
    computed_in_half,
    frequency_uncertainty,
    oracle_of,
    refine_frequencies,
)
from ropecli.checks.implementation.oracle import Oracle, by_length
from ropecli.checks.implementation.tolerance import rounding
from ropecli.errors import RopecliError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ropecli.checks.identify import Identification
    from ropecli.checks.implementation.calls import Implementation
    from ropecli.rotary.rotary import Rotary

    Array = NDArray[np.float64]

PROBE_ROWS = 96  #: Positions from 0 that show the table of a longer sequence.
SHORTEST = 16  #: Shorter sequences are taken to have the table of one of this length.


class Subject:
    """An implementation with all that it is judged by."""

    def __init__(
        self,
        implementation: Implementation,
        *,
        dim: int,
        dtypes: tuple[str, ...],
        expect: Rotary | None,
        context: int,
        context_given: bool,
        original: int | None,
        seed: int,
        axes: int,
    ) -> None:
        self.implementation = implementation
        self.dim = dim
        self.dtypes = dtypes
        self.dtype = dtypes[0]
        self.probe_dtype = self.dtype  #: Dtype of the data that showed the rotation.
        self.expect = expect
        self.context = context
        self.context_given = context_given
        self.original = original
        self.seed = seed
        self.axes = axes
        self.instance = implementation.fresh()
        self.identified: Identification | None = None
        self.oracle: Oracle | None = None
        self.as_expected = False
        #: Rows before and after that showed the rotation, and their positions.
        self.probe_rows: tuple[Array, Array, Array] | None = None
        self.why_unidentified: str | None = None  #: Why nothing could be identified.
        self.first_rows: Array | None = None  #: Result of the very first call.
        self._by_length: dict[int, Oracle | None] = {}

    @property
    def layout(self) -> str:
        """The layout found, or else the one expected; empty if neither is known."""
        if self.identified is not None and self.identified.layout is not None:
            return self.identified.layout
        return "" if self.expect is None else self.expect.layout

    def vectors(self, count: int, dtype: str | None = None, *, salt: int = 0) -> Array:
        """Return normal vectors (count, dim) that the dtype holds exactly."""
        random = np.random.default_rng([self.seed, salt])
        drawn = random.standard_normal((count, self.dim))
        return drawn.astype(DTYPES[dtype or self.dtype]).astype(np.float64)

    def on_axes(self, positions: Any) -> NDArray[Any]:
        """Return positions for a call: where there are several axes, the same on each."""
        array = np.asarray(positions, dtype=np.int64)
        return array if self.axes == 1 else np.repeat(array[..., None], self.axes, axis=-1)

    def rotate(self, x: Array, positions: NDArray[Any], dtype: str | None = None) -> Array:
        """Return R_m x of the implementation.

        Raises:
            ImplementationError: It raised, or returned what cannot be judged.
            Unsupported: Its form cannot take these positions, or it raised beyond the context.
        """
        with self.within_context(positions):
            rows: Array = self.instance.rows(x, positions, dtype or self.dtype)
        return rows

    @contextlib.contextmanager
    def within_context(
        self, positions: NDArray[Any], *, promised: int | None = None
    ) -> Iterator[None]:
        """Call with positions, of which those beyond the context may be refused.

        Args:
            positions: Positions of the call.
            promised: Positions that must be taken even if no context was given.

        Raises:
            ImplementationError: It raised within the context.
            Unsupported: It raised beyond it.
        """
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
            msg = f"refuses {what}: {error}"
            raise Unsupported(msg) from None

    def repeat_tolerance(self, rows: Array, dtype: str | None = None) -> Array:
        """Return how far two results that should be equal may differ by rounding, (count, 1)."""
        most = np.abs(rows).max(axis=-1, keepdims=True)
        return np.asarray(2 * rounding(dtype or self.dtype) * most)

    def choose_oracle(self, *, as_expected: bool) -> None:
        """Choose the rotation that rows are compared with: the one expected, or the one found."""
        found = self.identified
        self.as_expected = as_expected
        if as_expected and self.expect is not None:
            self.oracle = Oracle(rotary_at=by_length(self.expect))
        elif found is not None and found.recognised and found.rotary is not None:
            self.oracle = oracle_of(found)
            if self.probe_rows is not None and not computed_in_half(found):
                self.oracle = refine_frequencies(self.oracle, *self.probe_rows)
        elif self.expect is not None:
            self.oracle = Oracle(rotary_at=by_length(self.expect))

    def identify_at(self, length: int) -> Oracle | None:
        """Return the rotation of sequences of another length, if their table is another one.

        Pairs and direction are the same; None if no such rotation explains the rows.
        """
        if self.as_expected or self.identified is None or not self.identified.recognised:
            return None
        length = max(length, min(SHORTEST, self.context))
        if length not in self._by_length:
            self._by_length[length] = self._identify_at(length)
        return self._by_length[length]

    def _identify_at(self, length: int) -> Oracle | None:
        from ropecli.checks.identify import identify

        if self.identified is None or self.identified.rotary is None:
            return None
        here = self.identified.rotary
        known = (self.identified.position_step or 1.0) * here.inv_freq
        # Half precision shows less in each row.
        rows = 16 * PROBE_ROWS if "16" in self.probe_dtype else PROBE_ROWS
        near = np.arange(min(length, rows))
        positions = self.on_axes(np.unique([*near, length // 2, length - 1]))
        x = self.vectors(len(positions), self.probe_dtype, salt=length)
        held = DTYPES[self.probe_dtype]
        try:
            y = self.rotate(x, positions, self.probe_dtype)
            # Which coordinates form a pair is known: they are moved next to each other.
            before, after = x[:, here.pairs_in.ravel()], y[:, here.pairs_out.ravel()]
            found = identify(before.astype(held), after.astype(held), positions)
        except (ImplementationError, Unsupported, RopecliError):  # also rows that are not finite
            return None
        there = found.rotary
        if not found.recognised or there is None or computed_in_half(found):
            return None
        in_order = [(2 * i, 2 * i + 1) for i in range(len(there.frequencies))]
        if [*there.input_pairs] != in_order or there.reorders or there.axis[0] != here.axis[0]:
            return None
        table = np.zeros(len(here.frequencies))  # the slowest pairs may not rotate
        step = found.position_step or 1.0
        table[: len(there.frequencies)] = step * there.inv_freq
        # A table that only drifts has lost digits, and is not another one.
        if there.direction != here.direction or not clearly_differ(known, table):
            return None
        largest = 0.0 if found.uncertainty is None else float(found.uncertainty.max())
        uncertainty = np.full(len(table), largest)
        rope = here.with_inv_freq(table, attention_factor=there.attention_factor)
        # So few rows may fit another formula as well: the uncertainty covers their rounding.
        uncertainty[: len(there.frequencies)] = np.maximum(
            step * frequency_uncertainty(found), rounding("float32") / length
        )
        return Oracle(rotary_at=lambda _length: rope, uncertainty=uncertainty)


def needs_oracle(subject: Subject) -> str | None:
    """Excuse a law that says nothing before the rotation is known."""
    return "no rotation was recognised" if subject.oracle is None else None
