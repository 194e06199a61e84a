"""What figures share."""

from __future__ import annotations

from ropecli.render.figure import COLOURS, LINES, curve_style


def test_no_two_of_many_curves_look_the_same() -> None:
    looks = [tuple(curve_style(index).values()) for index in range(len(COLOURS) * len(LINES))]
    assert len(set(looks)) == len(looks) >= 42


def test_neighbours_differ_in_both_colour_and_line() -> None:
    for index in range(50):
        one, two = curve_style(index), curve_style(index + 1)
        assert one["color"] != two["color"]
        assert one["linestyle"] != two["linestyle"]
