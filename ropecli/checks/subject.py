"""A rotation in one dtype, with the samples that its laws are judged on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import DTYPES
from ropecli.checks.accuracy import ACCURACY, ANGLE
from ropecli.errors import ArgumentError, ArgumentTypeError
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Vectors and positions that a law is judged on; one row each."""

    q: Array  #: (count, head_dim), values that the dtype holds exactly.
    k: Array  #: (count, head_dim), values that the dtype holds exactly.
    m: Array  #: Positions of q, (count,).
    n: Array  #: Positions of k, (count,).
    shift: Array  #: Positions by which both are shifted, (count,).

    def rows(self, index: NDArray[Any] | slice) -> Sample:
        """Return some of the rows."""
        return Sample(
            q=self.q[index],
            k=self.k[index],
            m=self.m[index],
            n=self.n[index],
            shift=self.shift[index],
        )


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
        """Return cos and sin, each (count, pairs), in mpmath."""
        key = positions.tobytes()
        if key not in self._tables:
            self._tables[key] = reference.cos_sin(positions, self.inv_freq)
        return self._tables[key]


class Subject:
    """A rotation under test in one dtype, and the encoding that it should be."""

    def __init__(
        self,
        rope: Rotary,
        dtype: str,
        sample: Sample,
        *,
        rotate: Rotate,
        decay: Decays,
        oracle: Oracle,
    ) -> None:
        self.rope = rope
        self.dtype = dtype
        self.sample = sample
        self.decay = decay
        self.oracle = oracle
        self.accuracy = ACCURACY[dtype]
        self._rotate = rotate
        self.fastest = float(np.abs(rope.inv_freq).max())
        self.rotated = np.unique(oracle.pairs)
        self.passed_through = np.setdiff1d(np.arange(rope.head_dim), self.rotated)

    def rotate(self, x: Array, positions: Array) -> Array:
        """Return R_m x of the rotation under test, as float64; x is rounded to the dtype.

        Positions are (count,), the same on every axis, or (count, axes). Rotated pairs that the
        encoding writes elsewhere are put back where they were read.

        Raises:
            ArgumentTypeError: The result is not a NumPy array of x's shape.
        """
        if self.rope.axes > 1 and positions.ndim == 1:
            positions = np.repeat(positions[:, None], self.rope.axes, axis=1)
        result = self._rotate(x.astype(DTYPES[self.dtype]), positions)
        if not isinstance(result, np.ndarray) or result.shape != x.shape:
            got = getattr(result, "shape", type(result).__name__)
            msg = f"the function under test must return a NumPy array of shape {x.shape}, got {got}"
            raise ArgumentTypeError(msg)
        rotated = result.astype(np.float64)
        restored = rotated.copy()
        restored[:, self.rope.pairs_in] = rotated[:, self.rope.pairs_out]
        return restored

    def stretch(self, x: Array, rotated: Array) -> Array:
        """Return |R_m x| / |x| over the rotated coordinates, (count,)."""
        return lengths(rotated[:, self.rotated]) / lengths(x[:, self.rotated])

    def relative_error(self, *positions: Array) -> Array:
        """Return the tolerance of vectors rotated at each of the positions in turn, over A^k |x|.

        Args:
            *positions: k arrays (count,), one for each rotation.
        """
        total = np.ones(len(positions[0]))
        for m in positions:
            total = total * (1 + self.accuracy.relative + ANGLE * np.abs(m) * self.fastest)
        return total - 1

    def floor(self) -> float:
        """Return the absolute tolerance of a whole vector."""
        return self.accuracy.floor * float(np.sqrt(self.rope.head_dim))


def refuse_growth(rope: Rotary) -> None:
    """Refuse an encoding of which these laws say nothing.

    Raises:
        ArgumentError: It changes lengths, as xPos does.
    """
    if rope.grows:
        msg = "xPos is not a rotation: it changes lengths with the position, so these laws do "
        msg += "not apply"
        raise ArgumentError(msg)


def lengths(x: Array) -> Array:
    """Return the Euclidean lengths of the rows."""
    return np.asarray(np.sqrt((x * x).sum(axis=1)))
