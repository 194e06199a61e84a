"""Phases of a pair that follows several axes of the position at once (RoPE-Mixed)."""

from __future__ import annotations

import numpy as np

from ropecli.arrays import Array, Complex, Index

_WINDOW = 2**16  #: Points of the grid on which frequencies are looked for.
_OFF = 1e-6  #: Steps that positions of a grid may be off.
_WIDER = 2.0  #: Size of a part of the positions, relative to the one before.
_FOLLOWED = 0.5  #: Radians, root mean square, up to which phases are on a plane.


def fit_plane(
    phasor: Complex, positions: Array, axes: Index, unit: float
) -> tuple[Array, Array] | None:
    """Fit frequencies along all axes named to the phases of a pair, (rows,).

    The largest value of a Fourier transform over some rows is near them; least squares over more
    and more rows refine it. Positions on no grid, or too far apart for one, show nothing.

    Returns:
        The direction in which the pair turns fastest, a unit vector, and as `fit_lines` its slope
        in that direction, intercept, one standard deviation of both, and root mean square.
    """
    rows = ~np.isnan(phasor)
    u, m = phasor[rows] / np.abs(phasor[rows]), positions[rows][:, axes]
    if not len(u) or not np.ptp(m, axis=0).all():
        return None
    centre = m[np.abs(m - np.median(m, axis=0)).sum(axis=1).argmin()]
    m = m - centre
    gaps = np.array([np.diff(np.unique(column)).min() for column in m.T])
    steps = np.rint(m / gaps)
    if np.abs(steps - m / gaps).max() > _OFF:
        return None
    theta = _largest(u, steps) / gaps
    distance = np.abs(steps).max(axis=1)
    radius, furthest = _side(len(axes)) / 4, distance.max()
    while True:
        near = distance <= radius
        theta, intercept, left = _least_squares(u[near], m[near], theta)
        if left > _FOLLOWED:
            return None
        if radius >= furthest:
            break
        radius *= _WIDER
    design = np.column_stack([m, np.ones(len(m))])
    deviation = (left + unit) * np.sqrt(np.diag(np.linalg.pinv(design.T @ design)))
    slope = float(np.linalg.norm(theta))
    along = np.zeros(positions.shape[1])
    along[axes] = theta / slope
    at_zero = deviation[-1] + float(deviation[:-1] @ np.abs(centre))
    phase = float(np.angle(np.exp(1j * (intercept - theta @ centre))))
    return along, np.array([slope, phase, float(deviation[:-1].max()), at_zero, left])


def _side(axes: int) -> int:
    """Return the steps along each axis of the grid."""
    return int(_WINDOW ** (1 / axes))


def _largest(u: Complex, steps: Array) -> Array:
    """Return the frequencies of the largest value of the transform, radians per step."""
    axes = steps.shape[1]
    side = _side(axes)
    near = (np.abs(steps) < side / 4).all(axis=1)  # half of the grid: two samples for each turn
    grid = np.zeros((side,) * axes, complex)
    np.add.at(grid, tuple(steps[near].astype(int).T), u[near])
    peak = np.unravel_index(np.abs(np.fft.fftn(grid)).argmax(), grid.shape)
    return np.asarray(2 * np.pi * np.fft.fftfreq(side)[list(peak)])


def _least_squares(u: Complex, m: Array, theta: Array) -> tuple[Array, float, float]:
    """Improve frequencies that are nearly right; return them, the phase at 0, and the rms left."""
    phase, design = 0.0, np.column_stack([m, np.ones(len(m))])
    for _ in range(4):
        turned = u * np.exp(-1j * (m @ theta))
        phase = float(np.angle(turned.sum()))
        off = np.angle(turned * np.exp(-1j * phase))
        change = np.linalg.lstsq(design, off, rcond=None)[0]
        theta, phase = theta + change[:-1], phase + float(change[-1])
    left = np.angle(u * np.exp(-1j * (m @ theta + phase)))
    return theta, phase, float(np.sqrt((left**2).mean()))
