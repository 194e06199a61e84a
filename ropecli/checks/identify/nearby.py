"""Refused vectors that a usual RoPE explains at other positions, or but for noise."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array, evenly_spread
from ropecli.checks.identify.family import BASES
from ropecli.checks.identify.observe import Inputs, observe
from ropecli.checks.identify.parting import list_indices
from ropecli.reference import float64
from ropecli.rotary import Rotary
from ropecli.rotary.pairs import NAMED, as_complex

MOST_ROWS = 4096  #: Longest sequence whose positions are looked for.
LEAST_POSITIONS = 4096  #: Positions that are tried, and twice as many as rows.
SAMPLED = 64  #: Rows by which an encoding is chosen.
VECTORS = 8  #: Of each position.
ALIKE = 0.98  #: Cosine, at least, between vectors and those of an encoding.
NEARLY = 0.9  #: Share of the rows that must be as near.
BLOCK = 256  #: Rows at a time.
STRETCHED = 4.0  #: Ratio of the largest coordinates after and before, at most, either way.


def recover_positions(inputs: Inputs) -> tuple[Rotary, NDArray[np.int64]] | None:
    """Return the usual RoPE and the position of each row that explain vectors; None if none does.

    All integers from 0 are tried, with each usual base and layout.
    """
    rows = inputs.before.shape[-2]
    if inputs.axes > 1 or inputs.positions.ndim > 1 or not 1 < rows <= MOST_ROWS:
        return None
    before, after = (float(np.abs(each).max()) for each in (inputs.before, inputs.after))
    if not before / STRETCHED <= after <= before * STRETCHED:
        return None
    some = evenly_spread(rows, SAMPLED)
    tried = np.arange(max(LEAST_POSITIONS, 2 * rows))
    best, most = None, ALIKE
    for layout, base in itertools.product(NAMED, BASES):
        rope = Rotary(head_dim=inputs.before.shape[-1], base=base, layout=layout)
        alike, _ = _nearest(_turns(inputs, rope, some), rope, tried)
        typical = float(np.quantile(alike, 1 - NEARLY))
        if typical > most:
            best, most = rope, typical
    if best is None:
        return None
    turns = _turns(inputs, best, np.arange(rows))
    blocks = [_nearest(turns[i : i + BLOCK], best, tried) for i in range(0, rows, BLOCK)]
    alike, found = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return (best, tried[found]) if (alike > ALIKE).mean() >= NEARLY else None


def explain_nearby(inputs: Inputs, rope: Rotary, found: NDArray[np.int64]) -> str:
    """Say which usual RoPE vectors are near, at the positions given or at those that were found."""
    named = f"{rope.layout} layout, base {rope.base:g}"
    off = np.flatnonzero(found != inputs.positions)
    if len(off) > (1 - NEARLY) * len(found):
        return (
            f"rows are rotated ({named}), but not by positions "
            f"{list_indices(inputs.positions.astype(np.int64))}: row {off[0]} is rotated by "
            f"position {found[off[0]]:,}, row {off[1]} by {found[off[1]]:,}; give their positions"
        )
    x, y = (_as_vectors(each) for each in (inputs.before, inputs.after))
    angles = float64.angles(inputs.positions, rope.diagonal_inv_freq)
    left = y - float64.rotate(x, angles, pairs_in=rope.pairs_in, pairs_out=rope.pairs_out)
    size = float(np.linalg.norm(left) / np.linalg.norm(y))
    kept = observe(inputs).arithmetic
    why = f": they keep to {kept}" if kept else ""
    return f"vectors are near a rotation ({named}), but off by {size:.2g} of their length{why}"


def _as_vectors(array: NDArray[np.generic]) -> Array:
    """Return some vectors of each position, (vectors, rows, head_dim)."""
    every = array.reshape(-1, *array.shape[-2:])
    return every[evenly_spread(len(every), VECTORS)].astype(np.float64)


def _turns(inputs: Inputs, rope: Rotary, rows: NDArray[np.int64]) -> NDArray[np.complex128]:
    """Return factors between pairs (rows, pairs), of absolute sum 1 at a row that is rotated."""
    arrays = (inputs.before, inputs.after)
    z, w = (as_complex(_as_vectors(each)[:, rows], rope.pairs_in) for each in arrays)
    sizes = np.sqrt((np.abs(z) ** 2).sum(axis=(0, 2)) * (np.abs(w) ** 2).sum(axis=(0, 2)))
    turns: NDArray[np.complex128] = (w * z.conj()).sum(axis=0) / np.maximum(sizes, 1e-300)[:, None]
    return turns


def _nearest(
    turns: NDArray[np.complex128], rope: Rotary, tried: NDArray[np.int64]
) -> tuple[Array, NDArray[np.int64]]:
    """Return the largest cosine between each row and its rotation, and the index of that place."""
    angles = tried * rope.diagonal_inv_freq[:, None]
    alike = turns.real @ np.cos(angles) + turns.imag @ np.sin(angles)
    return alike.max(axis=1), alike.argmax(axis=1)
