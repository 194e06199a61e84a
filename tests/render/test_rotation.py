"""Figure 1: the pairs of a vector, turned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import slow

from ropecli import ArgumentError, Rotary
from ropecli.analyses.rotation import rotation

ROPE = Rotary(head_dim=8)
X = np.arange(1.0, 9.0)


def figure(x: Any, rope: Rotary, **options: Any) -> Any:
    return rotation(x, rope, **options).figure()


def planes(picture: Any) -> list[Any]:
    """The panels of the upper half."""
    return [axes for axes in picture.axes if axes.get_title().startswith("pair")]


def arrows(picture: Any, panel: int) -> list[complex]:
    """The points at which the arrows of a panel end."""
    texts = picture.axes[panel].texts
    return [complex(*text.xy) for text in texts if hasattr(text, "arrow_patch")]


def test_each_arrow_is_the_pair_turned_by_its_angle() -> None:
    picture = figure(X, ROPE, positions=(0, 1, 5), pairs=(0, 2))
    assert len(planes(picture)) == 2
    for panel, pair in enumerate((0, 2)):
        start = complex(X[2 * pair], X[2 * pair + 1])
        turned = [start * np.exp(1j * m * ROPE.inv_freq[pair]) for m in (0, 1, 5)]
        assert arrows(picture, panel) == pytest.approx(turned, abs=1e-14)  # of lengths below 10


@pytest.mark.slow
@pytest.mark.parametrize("direction", [1j, *slow(1, -1 - 1j)])
def test_labels_stand_outside_the_circle(direction: complex) -> None:
    picture = figure(np.array([direction.real, direction.imag]), Rotary(head_dim=2, base=1e9))
    picture.canvas.draw()
    (axes,) = planes(picture)
    for text in [t for t in axes.texts if t.get_text()]:
        box = text.get_window_extent().transformed(axes.transData.inverted())
        nearest = np.clip(0, [box.x0, box.y0], [box.x1, box.y1])
        assert np.hypot(*nearest) >= abs(direction)


def test_positions_that_lie_close_together_share_a_label() -> None:
    (axes,) = planes(figure(np.array([1.0, 0.0]), Rotary(head_dim=2), positions=(0, 3, 3.1)))
    assert [text.get_text() for text in axes.texts if text.get_text()] == ["0", "3 to 3.1"]


@pytest.mark.parametrize(
    ("x", "pairs", "message"),
    [
        (np.ones(6), None, r"x must have shape \(8,\), got \(6,\)"),
        (X, (4,), r"pairs must be from 0 to 3, got \[4\]"),
        (X, (), r"pairs must be from 0 to 3, got \[\]"),
    ],
)
def test_what_is_refused(x: Any, pairs: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        figure(x, ROPE, pairs=pairs)
