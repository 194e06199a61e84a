"""Differences between the rotation found and the one expected, in words: "X, expected Y"."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ropecli.arrays import Array
from ropecli.checks.accuracy import table_roundings
from ropecli.checks.identify.agreement import format_value, name_formula
from ropecli.checks.identify.family import is_round
from ropecli.checks.identify.lines import CLEARLY
from ropecli.checks.identify.mistakes import (
    ALIKE,
    COMMON_FACTOR,
    describe_scale,
    find_mistake,
)
from ropecli.rotary import Rotary
from ropecli.rotary.formula import Formula
from ropecli.rotary.pairs import Pairs, layout_of
from ropecli.units import SINGLE, TINY

#: Relative difference of factors, and of a step, that is worth a sentence. bfloat16, whose unit is
#: 2^-8, shows them to 1e-4 over the 2,304 rows that are looked at; factors of real types are
#: further apart, the least of them 0.07 ln 1.1, 7e-3.
CLOSE = 1e-3
_NEAR = 1e-5  #: Relative difference of frequencies that needs no explanation.
_NEGATE = ": negate the sines, or swap the pairs"
#: What is compared as it is written, the most important first.
PROPERTIES: dict[str, Callable[[Rotary], object]] = {
    "head dim": lambda rope: rope.head_dim,
    "rotary dim": lambda rope: rope.rotary_dim,
    "rotary offset": lambda rope: rope.rotary_offset,
    "pairs written": lambda rope: (
        f"to {_format_pairs(rope.output_pairs)}" if rope.reorders else "where they are read"
    ),
    "lengths": lambda rope: "growing" if rope.grows else "constant",
}


def list_differences(
    found: Rotary, expected: Rotary, uncertainty: Array | None = None, *, details: bool = False
) -> list[str]:
    """Return what differs, the most important first.

    Args:
        found: The rotation that vectors show.
        expected: The one that they should show.
        uncertainty: Standard deviation of the frequencies found, as measured.
        details: Whether to add an example, or what to do about it.
    """
    values = ((words, of(found), of(expected)) for words, of in PROPERTIES.items())
    texts: list[tuple[str | None, str]] = [
        *((f"{words} {a}, expected {b}", "") for words, a, b in values if a != b),
        _compare_layouts(found, expected),
    ]
    if expected.axis is None:  # a direction is a sign in the table
        texts.append((_compare_mixed(found, expected), ""))
    else:
        if found.direction != expected.direction:
            texts.append((f"direction {found.direction}, expected {expected.direction}", _NEGATE))
        texts.append((_compare_axes(found, expected), ""))
        texts.append(_compare_tables(found, expected, uncertainty))
    texts.append(_compare_factors(found, expected))
    return [f"{words}{more}" if details else words for words, more in texts if words]


def compare_positions(step: float, offset: float, expected: float, close: float) -> str | None:
    """Describe the difference of positions that are offset + step times those given."""
    if abs(step - 1) > CLOSE:
        return describe_scale(step)
    if abs(offset - expected) <= close:
        return None
    described = f": offset {offset:.6g}, expected {expected:.6g}" if expected else ""
    return f"positions are off by {offset - expected:+.4g}{described}"


def describe_pair(pair: int, found: Array, expected: Array, along: str = "") -> str:
    """Say how fast a pair rotates, and how fast it should."""
    return (
        f"pair {pair} rotates by {found[pair]:.6g} per position{along}, "
        f"expected {expected[pair]:.6g}"
    )


def _format_pairs(pairs: Pairs) -> str:
    first, second = pairs[0]
    named = {"interleaved": "(2i, 2i+1)", "half": f"(i, i + {second - first})"}
    return named.get(layout_of(pairs)[0], f"({first}, {second}), ...")


def _compare_layouts(found: Rotary, expected: Rotary) -> tuple[str | None, str]:
    """Describe other pairs; which of the two coordinates is the first one is a direction."""
    names = found.layout, expected.layout
    near, far = (_format_pairs(rope.input_pairs) for rope in (found, expected))
    ours, theirs = (
        [pair for pair in one.input_pairs if frozenset(pair) not in map(frozenset, two.input_pairs)]
        for one, two in ((found, expected), (expected, found))
    )
    if not (ours and theirs) or (near == far and names[0] != "custom"):
        return None, ""
    if "custom" in names:
        return f"pairs {ours[0]}, ..., expected {theirs[0]}, ... ({names[1]})", ""
    if names[0] == names[1]:
        return f"pairs {near}, expected {far}", ""
    fix = f": permute the q/k weights or pair {far}"
    return f"layout {names[0]}, expected {names[1]}", fix


def _compare_axes(found: Rotary, expected: Rotary) -> str | None:
    ours, theirs = found.axis, expected.axis
    if theirs is None or ours == theirs or len(ours or theirs) != len(theirs):
        return None
    if ours is None:
        pair = int(np.count_nonzero(found.frequencies, axis=0).argmax())
        return f"pair {pair} follows several axes of the position, expected axis {theirs[pair]}"
    pair = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
    words = f"pair {pair} follows axis {ours[pair]} of the position, expected {theirs[pair]}"
    runs, wanted = _format_runs(ours), _format_runs(theirs)
    return words if runs == wanted else f"axes of the pairs {runs}, expected {wanted}: {words}"


def _format_runs(axes: Sequence[int]) -> str:
    """Return the lengths of the runs of one axis each, or the number of pairs that take turns."""
    runs = [len([*group]) for _, group in itertools.groupby(axes)]
    if len(runs) == len(set(axes)):
        return "/".join(map(str, runs))
    return "/".join(str(axes.count(axis)) for axis in sorted(set(axes))) + " in turns"


def _compare_tables(
    found: Rotary, expected: Rotary, uncertainty: Array | None
) -> tuple[str | None, str]:
    """Name the mistake or the formula that gives other frequencies, or the pair furthest off."""
    ours, theirs = found.diagonal_inv_freq, expected.diagonal_inv_freq
    formulas = None
    if found.formula is not None and expected.formula is not None:
        formulas = _compare_formulas(found.formula, expected.formula)
    if len(ours) != len(theirs):
        return formulas, ""
    unsure = np.zeros(len(ours)) if uncertainty is None else uncertainty
    allowed = (table_roundings(expected) * SINGLE + _NEAR) * np.abs(theirs)
    if found.formula is None:
        allowed = allowed + CLEARLY * unsure
    apart = np.abs(ours - theirs)
    if (apart <= allowed).all():
        return None, ""
    pair = int((apart / np.maximum(np.abs(theirs), TINY)).argmax())
    example = describe_pair(pair, ours, theirs)
    mistake = find_mistake(expected, ours, unsure, ALIKE)
    if mistake is None or (formulas and mistake.startswith(COMMON_FACTOR)):
        mistake = formulas
    return (mistake, f"; {example}") if mistake else (f"other frequencies: {example}", "")


def _compare_formulas(found: Formula, expected: Formula) -> str | None:
    """Describe rope types that differ, or else the numbers that differ."""
    if found.rope_type != expected.rope_type:
        names = (
            name_formula(formula.rope_type, formula["base"], formula.own)
            for formula in (found, expected)
        )
        return f"frequencies of {', expected '.join(names)}"
    ours, theirs = (
        {
            key: format_value(value)
            for key, value in (formula.defaults | dict(formula.parameters)).items()
        }
        for formula in (found, expected)
    )
    # Denominators are named with exponents, and attention factors by themselves.
    named = ours.keys() - {"dim", "attention_factor"}
    differ = [key for key in ours if key in named and ours[key] != theirs.get(key)]
    if len(differ) > 1 and "factor" in differ and not is_round(float(found["factor"])):
        return None  # several numbers fit together, and nobody wrote them
    unset = {None, format_value(None)}
    wanted = {key: "its default" if theirs.get(key) in unset else theirs[key] for key in differ}
    return "; ".join(f"{key} {ours[key]}, expected {wanted[key]}" for key in differ) or None


def _compare_factors(found: Rotary, expected: Rotary) -> tuple[str | None, str]:
    factor, wanted = found.attention_factor, expected.attention_factor
    if math.isclose(factor, wanted, rel_tol=CLOSE):
        return None, ""
    fix = f": multiply cos and sin by {wanted / factor:.6g}"
    if math.isclose(factor, 1.0, rel_tol=CLOSE):
        fix = ": multiply cos and sin by it"
    elif math.isclose(factor, wanted**2, rel_tol=CLOSE):
        fix = ": it is applied twice"
    return f"attention factor {factor:.6g}, expected {wanted:.6g}", fix


def _compare_mixed(found: Rotary, expected: Rotary) -> str | None:
    """Describe the difference where several axes rotate a pair."""
    wanted, got = _signed_table(expected), np.zeros_like(_signed_table(expected))
    where = {pair: i for i, pair in enumerate(expected.input_pairs)}
    for pair, column in zip(found.input_pairs, _signed_table(found).T, strict=True):
        sign = 1 if pair in where else -1  # either coordinate may be the first one
        place = where.get(pair if sign == 1 else (pair[1], pair[0]))
        if place is not None:
            got[: len(column), place] = sign * column
    for words, table in _mistaken_tables(wanted):
        if (np.abs(got - table) <= ALIKE * np.abs(wanted).max(axis=0)).all():
            return words
    axis, column = divmod(int(np.abs(got - wanted).argmax()), wanted.shape[1])
    return describe_pair(column, got[axis], wanted[axis], f" along axis {axis}")


def _signed_table(rope: Rotary) -> Array:
    return np.array(rope.frequencies) * (1 if rope.direction == "forward" else -1)


def _mistaken_tables(table: Array) -> Iterator[tuple[str | None, Array]]:
    """Yield the table of several axes as it should be, and as common mistakes make it."""
    yield None, table
    yield f"it rotates the other way{_NEGATE}", -table
    yield "the axes of the position are exchanged", table[::-1]
    for axis in range(len(table)):
        on_axis = np.arange(len(table))[:, None] == axis
        yield f"axis {axis} of the position is left out", np.where(on_axis, 0.0, table)
        yield f"axis {axis} of the position rotates the other way", np.where(on_axis, -table, table)
