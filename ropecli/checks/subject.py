"""What is verified: a rotation in one dtype, and the encoding that it should be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import DTYPES
from ropecli.checks.accuracy import ACCURACY, ANGLE
from ropecli.errors import ArgumentTypeError
from ropecli.reference import rotation as reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ropecli.analyses.decay import Decay
    from ropecli.rotary.rotary import Rotary

    #: Called with x (count, head_dim) and positions (count,), or (count, axes) of several axes.
    Rotate = Callable[[NDArray[Any], NDArray[np.float64]], Any]
    #: Called as `analyses.decay.decay`.
    Decays = Callable[..., Decay]
    Array = NDArray[np.float64]


class Oracle:
    """cos and sin of the reference for one encoding, computed once per set of positions."""

    def __init__(self, rope: Rotary) -> None:
        self.inv_freq = rope.inv_freq * (1 if rope.direction == "forward" else -1)
        if rope.layout == "custom":
            self.pairs = rope.pairs_in
        else:
            self.pairs = reference.pairs_of(rope.layout, rope.rotary_dim, rope.rotary_offset)
        self._tables: dict[bytes, tuple[NDArray[Any], NDArray[Any]]] = {}

    def table(self, positions: Array) -> tuple[NDArray[Any], NDArray[Any]]:
        """cos and sin, each (count, pairs), in mpmath."""
        key = positions.tobytes()
        if key not in self._tables:
            self._tables[key] = reference.cos_sin(positions, self.inv_freq)
        return self._tables[key]


class Subject:
    """An implementation in one dtype beside the encoding that it should be."""

    def __init__(
        self, rope: Rotary, dtype: str, rotate: Rotate, decay: Decays, oracle: Oracle
    ) -> None:
        self.rope = rope
        self.dtype = dtype
        self.decay = decay
        self.oracle = oracle
        self.accuracy = ACCURACY[dtype]
        self._rotate = rotate
        self.fastest = float(np.abs(rope.inv_freq).max())
        self.rotated = np.unique(oracle.pairs)
        self.passed_through = np.setdiff1d(np.arange(rope.head_dim), self.rotated)

    def turn(self, x: Array, positions: Array) -> Array:
        """R_m x of the implementation, as float64; x is taken in the subject's dtype.

        Positions are (count,), the same on every axis, or (count, axes). Turned pairs that the
        encoding writes elsewhere are put back where they were read.
        """
        if self.rope.axes > 1 and positions.ndim == 1:
            positions = np.repeat(positions[:, None], self.rope.axes, axis=1)
        result = self._rotate(x.astype(DTYPES[self.dtype]), positions)
        if not isinstance(result, np.ndarray) or result.shape != x.shape:
            got = getattr(result, "shape", type(result).__name__)
            msg = f"what is verified must return a NumPy array of shape {x.shape}, got {got}"
            raise ArgumentTypeError(msg)
        turned = result.astype(np.float64)
        restored = turned.copy()
        restored[:, self.rope.pairs_in] = turned[:, self.rope.pairs_out]
        return restored

    def stretch(self, x: Array, turned: Array) -> Array:
        """|R_m x| / |x| over the rotated coordinates, (count,)."""
        return lengths(turned[:, self.rotated]) / lengths(x[:, self.rotated])

    def relative_error(self, *positions: Array) -> Array:
        """Allowed error of vectors rotated at each of the positions in turn, over A^times |x|."""
        total = np.ones(len(positions[0]))
        for m in positions:
            total = total * (1 + self.accuracy.relative + ANGLE * np.abs(m) * self.fastest)
        return total - 1

    def floor(self) -> float:
        """Absolute error allowed to a whole vector."""
        return self.accuracy.floor * float(np.sqrt(self.rope.head_dim))


def lengths(x: Array) -> Array:
    """Euclidean lengths of the rows."""
    return np.asarray(np.sqrt((x * x).sum(axis=1)))
