"""The vectors that are looked at: rows of one position each, before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import DTYPES, as_array, dtype_name
from ropecli.checks.identify.precision import computed_in
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.numbers import even
from ropecli.rotary.positions import as_positions
from ropecli.units import UNIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

#: Half the distance between 1 and the next number.
_ROWS = 4096  #: More are thinned out: neighbours at the start, and then ever further apart.
_SAMPLES = 8  #: Vectors of one position that are looked at.
#: Largest power of two that squares of squares of lengths, and sums of them, can bear.
_LONGER = 100


@dataclass(frozen=True, kw_only=True, eq=False)
class Sight:
    """What the steps of an identification look at."""

    x: Array  #: Before, (rows, samples, head_dim).
    y: Array  #: After, likewise.
    positions: Array  #: (rows, axes), as given, or 0, 1, 2, ...
    known: bool  #: Whether they were given.
    unit: float  #: Relative rounding of the coarser of the two dtypes.
    dtype: str  #: Of the vectors after.
    arithmetic: str | None  #: The half precision that the vectors after keep to all the same.
    longer: int  #: Power of two by which the vectors after are longer, about.

    @property
    def head_dim(self) -> int:
        """Coordinates of a vector."""
        return int(self.x.shape[2])

    @property
    def reach(self) -> Array:
        """How far the positions of each axis lie apart."""
        spread: Array = np.ptp(self.positions, axis=0)
        return spread


@dataclass(frozen=True, kw_only=True, eq=False)
class Given:
    """The arguments of `identify`, checked."""

    before: NDArray[Any]
    after: NDArray[Any]
    positions: Array  #: As `rotate` takes them; 0, 1, 2, ... where none were given.
    known: bool
    axes: int  #: Coordinates of a position.

    @property
    def dtype(self) -> str:
        """Of the vectors after."""
        return str(dtype_name(self.after.dtype))

    @property
    def unit(self) -> float:
        """Relative rounding of the coarser of the two dtypes."""
        return max(UNIT[str(dtype_name(each.dtype))] for each in (self.before, self.after))


def given(before: Any, after: Any, positions: Any) -> Given:
    """The arguments, checked.

    Raises:
        ArgumentError: A shape or a value that is not allowed.
        ArgumentTypeError: Not arrays of floats.
    """
    x, y = _floats("before", before), _floats("after", after)
    if x.shape != y.shape:
        msg = f"before and after must have one shape, got {x.shape} and {y.shape}"
        raise ArgumentError(msg)
    if x.ndim < 2 or 0 in x.shape:
        msg = f"before must have shape (..., sequence, head_dim), none of them 0, got {x.shape}"
        raise ArgumentError(msg)
    even("head dim", x.shape[-1])
    for name, array in (("before", x), ("after", y)):
        if not np.isfinite(array).all():
            msg = (
                f"{name} must be finite, got {int((~np.isfinite(array)).sum())} values that are not"
            )
            raise ArgumentError(msg)
    if positions is None:
        counted = np.arange(float(x.shape[-2]))
        return Given(before=x, after=y, positions=counted, known=False, axes=1)
    settled = as_positions(positions)
    return Given(before=x, after=y, positions=settled, known=True, axes=_axes(settled, x.shape))


def sight_of(data: Given) -> Sight:
    """Rows of one position each; of many rows and samples only some."""
    shape = data.before.shape
    batched = len(shape) > 2 and data.positions.shape[:2] == (shape[0], shape[-2])
    batched &= data.positions.ndim == 2 + (data.axes > 1)
    points = data.positions.reshape(-1, data.axes)
    if batched:  # a row for each position of each batch
        split = (shape[0], -1, *shape[-2:])
        rows = [array.reshape(split).swapaxes(1, 2) for array in (data.before, data.after)]
        rows = [array.reshape(-1, *array.shape[2:]) for array in rows]
    else:
        both = (data.before, data.after)
        rows = [array.reshape(-1, *shape[-2:]).swapaxes(0, 1) for array in both]
    said = np.flatnonzero(((rows[0] != 0) | (rows[1] != 0)).any(axis=(1, 2)))  # not padding
    which = said[_thinned(len(said))] if len(said) else np.arange(len(points))
    some = np.unique(np.linspace(0, rows[0].shape[1] - 1, _SAMPLES).astype(int))
    shown = (rows[0] != 0).any(axis=0)
    hidden = shown.any(axis=0) & ~shown[some].any(axis=0)
    some = np.union1d(some, shown[:, hidden].argmax(axis=0))
    x, y = (each[which][:, some].astype(np.float64) for each in rows)
    half = computed_in(y, data.dtype)
    before, after = (int(np.frexp(np.abs(each).max())[1]) for each in (x, y))
    # Squares are taken of them: a power of two changes nothing else.
    scale = np.ldexp(1.0, -max(before, -1000))  # the least exponents have no inverse
    with np.errstate(over="ignore"):
        y = y * scale
    return Sight(
        x=x * scale,
        y=y,
        positions=points[which],
        known=data.known,
        unit=data.unit if half is None else UNIT[half],
        dtype=data.dtype,
        arithmetic=half,
        longer=after - before,
    )


def unseen(sight: Sight) -> str | None:
    """Why no turn can be seen, whatever it may be."""
    if not sight.reach.any():
        return "all positions are the same: no turn can be told from others"
    if (sight.x == sight.y).all():
        return "after equals before: nothing is turned"
    for name, array in (("before", sight.x), ("after", sight.y)):
        if not array.any():
            return f"{name} is zero everywhere: nothing can be seen to turn"
    if abs(sight.longer) > _LONGER:
        return (
            f"vectors are about 2^{sight.longer} times as long after as before, "
            "too far apart to be compared"
        )
    return None


def _thinned(count: int) -> NDArray[np.int64]:
    if count <= _ROWS:
        return np.arange(count)
    spread = np.linspace(0, count - 2, _ROWS // 4).astype(int)
    neighbours = np.concatenate([np.arange(_ROWS // 2), spread, spread + 1, [count - 1]])
    return np.unique(neighbours)


def _floats(name: str, value: Any) -> NDArray[Any]:
    array = as_array(name, value)
    if dtype_name(array.dtype) is None:
        msg = f"{name} must be {', '.join(DTYPES)}, got {array.dtype}"
        raise ArgumentTypeError(msg)
    return array


def _axes(positions: Array, shape: tuple[int, ...]) -> int:
    rows = [(shape[-2],)] + ([(shape[0], shape[-2])] if len(shape) > 2 else [])
    if positions.shape in rows:
        return 1
    for allowed in rows:
        if positions.shape[:-1] == allowed and positions.shape[-1] > 1:
            return int(positions.shape[-1])
    msg = (
        f"positions must have shape {' or '.join(map(str, rows))}, with axes last if a position "
        f"has several, for vectors of shape {shape}, got {positions.shape}"
    )
    raise ArgumentError(msg)
