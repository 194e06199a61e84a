"""Vectors before and after: checked, and sampled as rows of one position each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES, Array, as_array, as_positions, dtype_name, evenly_spread
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.numbers import even
from ropecli.units import UNIT

HALVES = ("float16", "bfloat16")
#: Unit roundoffs of the dtypes of 8 bits, each of whose numbers is one of bfloat16 as well.
EIGHTHS = {"float8_e4m3fn": 2.0**-4, "float8_e5m2": 2.0**-3}
#: Unit roundings of a rotated coordinate, at most: in the vectors, cos, sin, two products, a sum.
ROUNDINGS = 16
_AT_ONCE = 2**16  #: Numbers compared at once with those of another dtype.
_ROWS = 4096  #: More rows are thinned out.
_SAMPLES = 8  #: Vectors sampled at one position.
_LARGEST_RATIO = 100  #: Power of two whose fourth power, summed over coordinates, is still finite.


@dataclass(frozen=True, kw_only=True, eq=False)
class Inputs:
    """The arguments of `identify`, validated."""

    before: NDArray[Any]  #: (..., sequence, head_dim).
    after: NDArray[Any]  #: The same shape.
    positions: Array  #: As `rotate` takes them; 0, 1, 2, ... if none were given.
    known: bool  #: Whether positions were given.
    axes: int  #: Coordinates of a position.
    held_in: str  #: Dtype that all vectors after keep to: "bfloat16", if saved as float32.
    narrowed: bool  #: Whether vectors before do not keep to it.

    @property
    def by_batch(self) -> bool:
        """True if each batch has positions of its own."""
        return self.positions.ndim - (self.axes > 1) == 2

    @property
    def dtype(self) -> str:
        """Dtype of the vectors after."""
        return str(dtype_name(self.after.dtype))

    @property
    def coarsest(self) -> str:
        """The coarser one of the dtypes of the vectors before and after."""
        return max(
            str(dtype_name(self.before.dtype)), self.held_in, key=(UNIT | EIGHTHS).__getitem__
        )

    @property
    def unit(self) -> float:
        """Unit roundoff that vectors are measured by."""
        # Vectors of 8 bits are measured as if they were those of bfloat16, and show more error.
        return UNIT.get(self.coarsest, UNIT["bfloat16"])


@dataclass(frozen=True, kw_only=True, eq=False)
class Observations:
    """The sample of vectors that an identification is made from."""

    x: Array  #: Before, (rows, samples, head_dim), scaled by a power of two to about 1.
    y: Array  #: After, the same shape and scale.
    positions: Array  #: (rows, axes), as given, or 0, 1, 2, ...
    known: bool  #: Whether positions were given.
    unit: float  #: Unit roundoff of the coarsest precision on the way.
    log2_ratio: int  #: Logarithm of the largest coordinate after, relative to before, rounded.

    @property
    def head_dim(self) -> int:
        """Coordinates of a vector."""
        return int(self.x.shape[2])

    @property
    def reach(self) -> Array:
        """Distance from the least to the largest position on each axis."""
        return np.asarray(np.ptp(self.positions, axis=0))

    @property
    def along(self) -> Array:
        """Positions on the axis with the longest reach, (rows,)."""
        return np.asarray(self.positions[:, self.reach.argmax()])


def validate_inputs(before: Any, after: Any, positions: Any) -> Inputs:
    """Return the arguments of `identify` as arrays."""
    x, y = _as_floats("before", before), _as_floats("after", after)
    if x.shape != y.shape:
        raise ArgumentError(f"before and after must have one shape, got {x.shape} and {y.shape}")
    if x.ndim < 2 or 0 in x.shape:
        raise ArgumentError(
            f"before must have shape (..., sequence, head_dim), none of them 0, got {x.shape}"
        )
    even("head dim", x.shape[-1])
    for name, array in (("before", x), ("after", y)):
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            *lead, row, coordinate = bad[0].tolist()
            raise ArgumentError(
                f"{name} must be finite, got {len(bad)} non-finite value{'s' * (len(bad) > 1)}, "
                f"the first {array[tuple(bad[0])]} in row {row}, coordinate {coordinate}"
                f"{f' of {name}{lead}' if lead else ''}"
            )
    known = positions is not None
    where = as_positions(positions) if known else np.arange(float(x.shape[-2]))
    held_in = _narrowest_dtype(y)
    return Inputs(
        before=x,
        after=y,
        positions=where,
        known=known,
        axes=_axes(where, x.shape) if known else 1,
        held_in=held_in,
        narrowed=held_in != dtype_name(y.dtype) and not _keeps_to(x, held_in),
    )


def observe(inputs: Inputs) -> Observations:
    """Sample the vectors, in rows of one position each."""
    shape = inputs.before.shape
    positions = inputs.positions.reshape(-1, inputs.axes)
    both = [inputs.before, inputs.after]
    if inputs.by_batch:
        both = [array.reshape(shape[0], -1, *shape[-2:]).swapaxes(1, 2) for array in both]
        rows = [array.reshape(-1, *array.shape[2:]) for array in both]
    else:
        rows = [array.reshape(-1, *shape[-2:]).swapaxes(0, 1) for array in both]
    used = np.flatnonzero(((rows[0] != 0) | (rows[1] != 0)).any(axis=(1, 2)))  # not padding
    which = used[_thin_out(len(used))] if len(used) else np.arange(len(positions))
    samples = _choose_samples(rows[0] != 0)
    x, y = (row[which][:, samples].astype(np.float64) for row in rows)
    before, after = (int(np.frexp(np.abs(values).max())[1]) for values in (x, y))
    # Coordinates will be squared. Scaling by a power of two changes no digit of them.
    scale = np.ldexp(1.0, -max(before, -1000))  # the least exponents have no inverse
    with np.errstate(over="ignore"):
        y = y * scale
    return Observations(
        x=x * scale,
        y=y,
        positions=positions[which],
        known=inputs.known,
        unit=inputs.unit,
        log2_ratio=after - before,
    )


def why_unusable(observed: Observations) -> str | None:
    """Return why no rotation at all could be seen in the vectors, or None."""
    if not observed.reach.any():
        return "all positions are equal: a rotation by position cannot be seen"
    if (observed.x == observed.y).all():
        return "after equals before: nothing is rotated"
    for name, array in (("before", observed.x), ("after", observed.y)):
        if not array.any():
            return f"{name} is zero everywhere: no rotation can be seen"
    if abs(observed.log2_ratio) > _LARGEST_RATIO:
        return (
            f"vectors are about 2^{observed.log2_ratio} times as long after as before, "
            "too far apart to be compared"
        )
    return None


def round_to(values: Array, name: str) -> Array:
    """Return values rounded to a half precision, or as they are for any other name."""
    if name not in HALVES:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values.astype(np.float32).astype(DTYPES[name]).astype(np.float64))


def _as_floats(name: str, value: Any) -> NDArray[Any]:
    array = as_array(name, value)
    if dtype_name(array.dtype) is None:
        raise ArgumentTypeError(f"{name} must be {', '.join(DTYPES)}, got {array.dtype}")
    return array


def _axes(positions: Array, shape: tuple[int, ...]) -> int:
    """Return the coordinates of a position, for vectors of a shape."""
    rows = [(shape[-2],)] + ([(shape[0], shape[-2])] if len(shape) > 2 else [])
    if positions.shape in rows:
        return 1
    if positions.shape[:-1] in rows and positions.shape[-1] > 1:
        return int(positions.shape[-1])
    raise ArgumentError(
        f"positions must have shape {' or '.join(map(str, rows))}, with axes last if a position "
        f"has several, for vectors of shape {shape}, got {positions.shape}"
    )


def _thin_out(count: int) -> NDArray[np.int64]:
    """Choose up to 4,096 rows: the first ones, then pairs of neighbours from all over."""
    if count <= _ROWS:
        return np.arange(count)
    spread = np.linspace(0, count - 2, _ROWS // 4).astype(int)
    return np.unique(np.concatenate([np.arange(_ROWS // 2), spread, spread + 1, [count - 1]]))


def _choose_samples(nonzero: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Choose vectors of a row, so that each coordinate that is ever used is seen."""
    some = evenly_spread(nonzero.shape[1], _SAMPLES)
    shown: NDArray[np.bool_] = np.any(nonzero, axis=0)
    hidden = shown.any(axis=0) & ~shown[some].any(axis=0)
    return np.union1d(some, shown[:, hidden].argmax(axis=0))


def _narrowest_dtype(array: NDArray[Any]) -> str:
    """Return the dtype of 8 or 16 bits that all numbers keep to, or else that of the array."""
    dtype = str(dtype_name(array.dtype))
    # Most numbers of bfloat16 are numbers of float16, too.
    narrower = [*EIGHTHS, *(() if dtype in HALVES else reversed(HALVES))]
    return next((name for name in narrower if _keeps_to(array, name)), dtype)


def _keeps_to(array: NDArray[Any], name: str) -> bool:
    """Return whether all numbers of an array are numbers of a dtype of 8 or 16 bits."""
    rows = max(1, _AT_ONCE * array.shape[-2] // array.size)
    parts = (array[..., i : i + rows, :] for i in range(0, array.shape[-2], rows))
    with np.errstate(over="ignore", invalid="ignore"):
        return all((part.astype(DTYPES.get(name, name)) == part).all() for part in parts)
