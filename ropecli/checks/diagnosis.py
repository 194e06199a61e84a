"""What an implementation that breaks the convention does instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.convention_laws import COARSE
from ropecli.reference import rotation as reference

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.subject import Subject

    Array = NDArray[np.float64]


def convention(subject: Subject) -> str | None:
    """The layout, direction or frequencies found, where unit vectors at position 1 show them."""
    rope = subject.rope
    for layout in ("interleaved", "half"):
        pairs = reference.pairs_of(layout, rope.rotary_dim, rope.rotary_offset)
        angles = _angles(subject, pairs)
        if angles is None:
            continue
        for direction, sign in (("forward", 1), ("reversed", -1)):
            expected = rope.inv_freq * sign
            if _apart(angles, expected).max() < COARSE:
                return _named(layout, direction, subject)
        if layout == rope.layout:
            return _frequencies(subject, angles)
    return None


def _angles(subject: Subject, pairs: NDArray[np.int64]) -> Array | None:
    """The angle that each pair turns by at position 1; None if pairs do not stay on themselves."""
    dim = subject.rope.head_dim
    turned = subject.turn(np.eye(dim), np.ones(dim))
    first, second = pairs.T
    inside = np.hypot(turned[first, first], turned[first, second])
    whole = np.sqrt((turned[first] ** 2).sum(axis=1))
    if not (inside > (1 - COARSE) * whole).all():
        return None
    return np.asarray(np.arctan2(turned[first, second], turned[first, first]))


def _apart(angles: Array, expected: Array) -> Array:
    """Between angles, whole turns apart."""
    return np.asarray(np.abs(np.angle(np.exp(1j * (angles - expected)))))


def _named(layout: str, direction: str, subject: Subject) -> str | None:
    rope = subject.rope
    found = []
    if layout != rope.layout:
        found.append(f"layout {layout}, expected {rope.layout}")
    if direction != rope.direction:
        found.append(f"direction {direction}, expected {rope.direction}")
    return "; ".join(found) or None


def _frequencies(subject: Subject, angles: Array) -> str:
    sign = 1 if subject.rope.direction == "forward" else -1
    off = _apart(angles, sign * subject.rope.inv_freq)
    pair = int(off.argmax())
    return (
        # One position shows an angle up to whole turns.
        f"frequencies: pair {pair} turns by {angles[pair]:.6g} radians per position, "
        f"expected {sign * subject.rope.inv_freq[pair]:.6g}, modulo a turn"
    )
