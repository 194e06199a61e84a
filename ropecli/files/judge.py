"""Whether vectors are the rotation of others, held against float64 and not against the kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ropecli.arrays import dtype_name
from ropecli.files.formats.stored import box_shape
from ropecli.units import SINGLE, UNIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.files.formats.stored import Box
    from ropecli.files.rotation import Rotation

#: Roundings of a pair's length: cos and sin, two products and a sum, each on both coordinates
#: (3 sqrt 2), a factor, and one more where the result is rounded again to a smaller dtype.
_ROUNDINGS = 8


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """A vector that is not what it should be."""

    index: tuple[int, ...]  #: In the array, on all axes but the last.
    head: int  #: Along the last axis.
    position: tuple[float, ...]  #: A coordinate for each axis of the encoding.
    coordinate: int  #: The one of the head that is furthest off.
    expected: float
    got: float


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What was found in a part, or in several."""

    vectors: int = 0
    differing: int = 0
    identical: bool = True  #: Whether the bits are the kernels'.
    max_phase_error: float = 0.0  #: Radians.
    max_length_error: float = 0.0  #: Relative.
    first: Wrong | None = None

    def __add__(self, other: Judged) -> Judged:
        """Both; the first wrong vector is that of the first part that has one."""
        return Judged(
            vectors=self.vectors + other.vectors,
            differing=self.differing + other.differing,
            identical=self.identical and other.identical,
            max_phase_error=max(self.max_phase_error, other.max_phase_error),
            max_length_error=max(self.max_length_error, other.max_length_error),
            first=self.first or other.first,
        )


def judge(rotation: Rotation, box: Box, x: NDArray[Any], y: NDArray[Any]) -> Judged:
    """Hold a part of an array against the rotation of another's.

    Args:
        rotation: What should have been done.
        box: Which part.
        x: Before, C-contiguous, in native byte order.
        y: After, alike.
    """
    kernels = np.empty_like(x)
    rotation.turn(box, x, kernels)
    identical = x.size == 0 or bool((_bits(kernels) == _bits(y)).all())
    shape = rotation.as_kernels_take_it(box_shape(box))
    truth = _Truth(rotation, box, x.reshape(shape))
    after = y.reshape(shape)
    wrong, phase, length = truth.hold_against(after)
    found = Judged(
        vectors=x.size // shape[-1],
        differing=int(np.count_nonzero(wrong.any(axis=-1))),
        identical=identical,
        max_phase_error=phase,
        max_length_error=length,
    )
    if not found.differing:
        return found
    vector = int(wrong.any(axis=-1).ravel().argmax())
    place = np.unravel_index(vector, wrong.shape[:-1])
    expected, got = truth.vectors()[place], after[place].astype(np.float64)
    return found + Judged(first=_wrong(rotation, box, vector, (expected, got), wrong[place]))


class _Truth:
    """What a part should be: pairs as complex numbers (RoFormer Eq. 12), the rest as it was."""

    def __init__(self, rotation: Rotation, box: Box, x: NDArray[Any]) -> None:
        rope = rotation.rope
        read, written = rope.pairs_in, rope.pairs_out
        factor = np.full(len(read), rope.attention_factor)
        sign = 1 if rope.direction == "forward" else -1
        if rotation.inverse:
            read, written, factor, sign = written, read, 1 / factor, -sign
        places = rotation.places.of(box)
        along = places[..., None] if places.ndim == 2 else places[..., list(rope.axis)]
        self.x, self.written = x, written
        self.before = _complex(x, read)
        with np.errstate(all="ignore"):  # far from 0, what grows leaves every range
            angle = (along * rope.inv_freq)[:, None, :, None, :]
            if rope.grows:
                growth = np.array(rope.growth) * (-1 if rotation.inverse else 1)
                factor = factor * np.exp(along * growth)[:, None, :, None, :]
            self.pairs = self.before * np.exp(1j * sign * angle) * factor
        unit = UNIT[str(dtype_name(x.dtype))]
        self.rounding = _ROUNDINGS * unit
        # Tables in float32, or float64 for float64 data: an angle is rounded, a frequency
        # base^(-e) by its exponent's rounding, ln(base^e) u, and by some ulps of the power.
        still = rope.inv_freq == 0
        steps = 4 + np.abs(np.log(np.where(still, 1.0, np.abs(rope.inv_freq))))
        self.phase = steps * min(unit, SINGLE) * np.abs(angle)

    def vectors(self) -> NDArray[np.float64]:
        """What the vectors should be."""
        found = self.x.astype(np.float64)
        found[..., self.written[:, 0]] = self.pairs.real
        found[..., self.written[:, 1]] = self.pairs.imag
        return found

    def hold_against(self, after: NDArray[Any]) -> tuple[NDArray[np.bool_], float, float]:
        """Which coordinates are wrong; the largest errors of angle and of length where none is."""
        got = _complex(after, self.written)
        limits = ml_dtypes.finfo(after.dtype)  # type: ignore[no-untyped-call]
        least = 8 * float(limits.smallest_subnormal)
        with np.errstate(all="ignore"):
            length = np.abs(self.pairs)
            stretched = np.abs(np.abs(got) - length)
            apart = np.abs(got - self.pairs)
            right = (stretched <= self.rounding * length + least) & (
                apart <= (self.rounding + self.phase) * length + least
            )
            # A pair too large for the dtype, or not finite before, is not finite afterwards.
            lost = ~(length <= float(limits.max))
            right |= lost & ~np.isfinite(got)
            counted = right & ~lost & (length > least / self.rounding)
            phase = np.abs(np.angle(got[counted] * self.pairs[counted].conj()))
            relative = stretched[counted] / length[counted]
        wrong = np.zeros(after.shape, np.bool_)
        for column in range(2):
            wrong[..., self.written[:, column]] = ~right
        rest = np.setdiff1d(np.arange(after.shape[-1]), self.written)
        wrong[..., rest] = _bits(after)[..., rest] != _bits(self.x)[..., rest]
        return wrong, float(phase.max(initial=0.0)), float(relative.max(initial=0.0))


def _wrong(
    rotation: Rotation,
    box: Box,
    vector: int,
    truth: tuple[NDArray[np.float64], NDArray[np.float64]],
    wrong: NDArray[np.bool_],
) -> Wrong:
    """What is wrong with a vector, counted in the order of the part."""
    expected, got = truth
    *rows, width = box_shape(box)
    dim = rotation.axes.head_dim
    *index, head = map(int, np.unravel_index(vector, (*rows, width // dim)))
    axis = rotation.axes.sequence_axis
    position = rotation.places.of(box)[index[0] if rotation.places.per_batch else 0, index[axis]]
    with np.errstate(all="ignore"):
        apart = np.where(wrong, np.abs(got - expected), -1.0)
    coordinate = int(np.nan_to_num(apart, nan=np.inf).argmax())
    return Wrong(
        index=tuple(i + part.start for i, part in zip(index, box, strict=False)),
        head=head + box[-1].start // dim,
        position=tuple(map(float, np.atleast_1d(position))),
        coordinate=coordinate,
        expected=float(expected[coordinate]),
        got=float(got[coordinate]),
    )


def _complex(vectors: NDArray[Any], pairs: NDArray[np.int64]) -> NDArray[np.complex128]:
    found = np.empty((*vectors.shape[:-1], len(pairs)), np.complex128)
    found.real = vectors[..., pairs[:, 0]]
    found.imag = vectors[..., pairs[:, 1]]
    return found


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    return array.view(f"u{array.dtype.itemsize}")
