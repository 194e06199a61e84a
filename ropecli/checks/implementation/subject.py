"""What the laws are put to: a target, the data it is tried on, and the oracle beside it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import DTYPES
from ropecli.checks.implementation.failure import TargetError, Unsuited, WrongResult
from ropecli.checks.implementation.oracle import Oracle, by_length
from ropecli.checks.implementation.refined import refined
from ropecli.checks.implementation.tolerance import rounding
from ropecli.errors import RopecliError
from ropecli.units import UNIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ropecli.checks.identify import Identification
    from ropecli.checks.implementation.target import Target
    from ropecli.rotary.rotary import Rotary

    Array = NDArray[np.float64]

#: Relative change of a frequency that no loss of digits makes: twice the 2^-11 of float16.
CHANGED = 2.0**-10
RELEARN_ROWS = 96  #: Positions from 0 that show the table of a longer sequence.
FEWEST = 16  #: Of them; shorter sequences have the table of so long a one.


class Subject:
    """A target with what it is judged by."""

    def __init__(
        self,
        target: Target,
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
        self.target = target
        self.dim = dim
        self.dtypes = dtypes
        self.dtype = dtypes[0]
        self.sharp = self.dtype  #: Of the data by which the rotation was found.
        self.expect = expect
        self.context = context
        self.context_given = context_given
        self.original = original
        self.seed = seed
        self.axes = axes
        self.instance = target.fresh()
        self.found: Identification | None = None
        self.oracle: Oracle | None = None
        self.as_expected = False
        #: Rows before and after by which the rotation was found, and their positions.
        self.shown: tuple[Array, Array, Array] | None = None
        self.unseen: str | None = None  #: Why nothing could be identified.
        self.beginning: Array | None = None  #: What the very first call gave.
        self._learned: dict[int, Oracle | None] = {}

    def vectors(self, count: int, dtype: str | None = None, *, salt: int = 0) -> Array:
        """Normal vectors (count, dim) that the dtype holds exactly."""
        random = np.random.default_rng([self.seed, salt])
        drawn = random.standard_normal((count, self.dim))
        return drawn.astype(DTYPES[dtype or self.dtype]).astype(np.float64)

    def places(self, positions: Any) -> NDArray[Any]:
        """Positions as the target takes them: on every axis the same, where there are several."""
        array = np.asarray(positions, dtype=np.int64)
        return array if self.axes == 1 else np.repeat(array[..., None], self.axes, axis=-1)

    def turn(self, x: Array, positions: NDArray[Any], dtype: str | None = None) -> Array:
        """R_m x of the target.

        Raises:
            TargetError: It raised, or returned what can't be judged.
            Unsuited: Its form can't take these positions, or it raised beyond the context.
        """
        with self.asking(positions):
            rows: Array = self.instance.rows(x, positions, dtype or self.dtype)
        return rows

    @contextlib.contextmanager
    def asking(self, positions: NDArray[Any], *, promised: int | None = None) -> Iterator[None]:
        """Ask for positions, of which those beyond the context may be refused.

        Args:
            positions: What is asked for.
            promised: Positions that must be taken all the same where no context was given.

        Raises:
            TargetError: It raised within the context.
            Unsuited: It raised beyond it.
        """
        least = self.context if self.context_given or promised is None else promised
        try:
            yield
        except WrongResult:
            raise
        except TargetError as error:
            furthest = int(positions.max(initial=0))
            if furthest < least:
                raise
            what = f"position {furthest:,}"
            if furthest >= self.context:
                what = f"positions beyond {self.context:,}"
            msg = f"refuses {what}: {error}"
            raise Unsuited(msg) from None

    def slack(self, rows: Array, dtype: str | None = None) -> Array:
        """How far two results that should be the same may be apart by rounding, (count, 1)."""
        most = np.abs(rows).max(axis=-1, keepdims=True)
        return np.asarray(2 * rounding(dtype or self.dtype) * most)

    def adopt(self, *, as_expected: bool) -> None:
        """Choose the rotation that the target is held to: what was expected, or what was found."""
        found = self.found
        self.as_expected = as_expected
        if as_expected and self.expect is not None:
            self.oracle = Oracle(rotary_at=by_length(self.expect))
        elif found is not None and found.recognised and found.rotary is not None:
            self.oracle = measured(found)
            if self.shown is not None and not half_precision(found):
                self.oracle = refined(self.oracle, *self.shown)
        elif self.expect is not None:
            self.oracle = Oracle(rotary_at=by_length(self.expect))

    def relearn(self, length: int) -> Oracle | None:
        """The rotation at another length of the sequence, where that may change the table.

        The pairs, the direction and the stretch stay; None where no such rotation explains it.
        """
        if self.as_expected or self.found is None or not self.found.recognised:
            return None
        length = max(length, min(FEWEST, self.context))
        if length not in self._learned:
            self._learned[length] = self._relearn(length)
        return self._learned[length]

    def _relearn(self, length: int) -> Oracle | None:
        from ropecli.checks.identify import identify

        if self.found is None or self.found.rotary is None:
            return None
        here = self.found.rotary
        before = (self.found.position_step or 1.0) * here.inv_freq
        rows = 16 * RELEARN_ROWS if "16" in self.sharp else RELEARN_ROWS  # coarse data show less
        near = np.arange(min(length, rows))
        positions = self.places(np.unique([*near, length // 2, length - 1]))
        x = self.vectors(len(positions), self.sharp, salt=length)
        held = DTYPES[self.sharp]
        try:
            y = self.turn(x, positions, self.sharp)
            # Which coordinates form a pair is known: they are put side by side.
            given, turned = x[:, here.pairs_in.ravel()], y[:, here.pairs_out.ravel()]
            found = identify(given.astype(held), turned.astype(held), positions)
        except (TargetError, Unsuited, RopecliError):  # rows that are not finite, too
            return None
        there = found.rotary
        if not found.recognised or there is None or half_precision(found):
            return None
        in_order = [(2 * i, 2 * i + 1) for i in range(len(there.frequencies))]
        if [*there.input_pairs] != in_order or there.reorders or there.axis[0] != here.axis[0]:
            return None
        table = np.zeros(len(here.frequencies))  # the slowest may stand still
        step = found.position_step or 1.0
        table[: len(there.frequencies)] = step * there.inv_freq
        # What only drifts is a loss of digits, and no other table.
        if there.direction != here.direction or not clearly_apart(before, table):
            return None
        unsure = np.full(
            len(table), 0.0 if found.uncertainty is None else float(found.uncertainty.max())
        )
        rope = here.with_inv_freq(table, attention_factor=there.attention_factor)
        # Over so few rows another formula may be as near: what their rounding hides stays open.
        unsure[: len(there.frequencies)] = np.maximum(
            step * _unsure(found), rounding("float32") / length
        )
        return Oracle(rotary_at=lambda _length: rope, uncertainty=unsure)


def measured(found: Identification) -> Oracle:
    """The rotation that was identified, and how sure its frequencies are."""
    rope = found.rotary
    assert rope is not None
    return Oracle(
        rotary_at=lambda _length: rope,
        step=found.position_step or 1.0,
        shift=found.position_offset or 0.0,
        uncertainty=_unsure(found),
        outside=_half_bound(found),
    )


def _unsure(found: Identification) -> Array | float:
    """What frequencies may be off by: nothing where a formula gives them all."""
    if "16" in found.dtype:
        unsure = 0.0 if found.uncertainty is None else found.uncertainty
        return np.maximum(unsure, _half_bound(found))
    known = found.rotary is not None and found.rotary.formula is not None
    return 0.0 if known or found.uncertainty is None else found.uncertainty


def _half_bound(found: Identification) -> float:
    """Radians per position that half precision hides: one rounding over all positions seen."""
    return 2 * UNIT[found.dtype] / found.rows if "16" in found.dtype else 0.0


def clearly_apart(one: Array, other: Array) -> bool:
    """Whether some frequency is another one, by far more than it is measured to."""
    return len(one) == len(other) and bool((np.abs(other - one) > CHANGED * np.abs(one)).any())


def half_precision(found: Identification) -> bool:
    """Whether positions, frequencies, angles or tables were rounded to half precision."""
    return found.precision is not None and "float16" in found.precision
