"""Outliers: vectors that do not follow the rotation of most others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ropecli.checks.identify.observe import Inputs
from ropecli.rotary import Rotary

_FEWEST = 32  #: Rows of which half are enough to be recognised.
MOST_PARTS = 7  #: Parts of vectors, of one head or of some rows, that may be rotated by themselves.
LISTED = 8  #: Vectors or indices that are written out.


@dataclass(frozen=True, kw_only=True, eq=False)
class Parting:
    """The vectors that a rotation of most others does not explain."""

    count: int  #: How many they are,
    vectors: int  #: of how many.
    where: str  #: Which, such as "rows 240 to 255".
    first: tuple[int, ...]  #: Index of the first in (..., sequence).
    which: NDArray[np.bool_]  #: Whether each of (..., sequence) is one of them.
    rotary: Rotary  #: What rotates the others.


def find_parting(error: NDArray[np.float64], tolerance: float, rotary: Rotary) -> Parting | None:
    """Return the vectors off by more than a tolerance, or None if there are none, or most are."""
    parts = ~(error <= tolerance)
    count = int(parts.sum())
    if not count or 2 * count > parts.size:
        return None
    indices = np.argwhere(parts)
    return Parting(
        count=count,
        vectors=parts.size,
        where=_describe(indices, parts.shape),
        first=tuple(indices[0].tolist()),
        which=parts,
        rotary=rotary,
    )


def parts_of(inputs: Inputs) -> Iterator[Inputs]:
    """Yield parts that may be rotated although the whole is not: some heads, and some rows."""
    lead, rows = inputs.before.shape[:-2], inputs.before.shape[-2]
    count = int(np.prod(lead))
    for place in sorted({0, count // 2, count - 1}) if count > 1 else ():
        index = np.unravel_index(place, lead)
        yield replace(
            inputs,
            before=inputs.before[index],
            after=inputs.after[index],
            positions=inputs.positions[index[0]] if inputs.by_batch else inputs.positions,
        )
    half = rows // 2
    # A tile may leave out its last row: 15 of 16, 63 of 64.
    runs = [slice(half), slice(half, None), *(slice(n) for n in (15, 63) if n < half)]
    for run in runs if rows >= _FEWEST else ():
        yield replace(
            inputs,
            before=inputs.before[..., run, :],
            after=inputs.after[..., run, :],
            positions=inputs.positions[:, run] if inputs.by_batch else inputs.positions[run],
        )


def list_indices(indices: NDArray[np.int64]) -> str:
    """Return a run of indices as its ends, any others one by one, at most eight."""
    if len(indices) > 2 and (np.diff(indices) == 1).all():
        return f"{indices[0]} to {indices[-1]}"
    return ", ".join(map(str, indices[:LISTED])) + (", ..." if len(indices) > LISTED else "")


def _describe(indices: NDArray[np.int64], shape: tuple[int, ...]) -> str:
    """Return a box of vectors by its sides, any others one by one."""
    sides = [np.unique(indices[:, axis]) for axis in range(len(shape))]
    if np.prod([len(side) for side in sides]) != len(indices):
        some = ", ".join(str(index) for index in indices[:LISTED].tolist())
        return f"vectors {some}" + (", ..." if len(indices) > LISTED else "")
    *lead, rows = sides
    words = [f"row{'s' * (len(rows) > 1)} {list_indices(rows)}"] if len(rows) < shape[-1] else []
    words += [
        f"{'index' if len(side) == 1 else 'indices'} {list_indices(side)} of axis {axis}"
        for axis, side in enumerate(lead)
        if len(side) < shape[axis]
    ]
    return ", ".join(words)
