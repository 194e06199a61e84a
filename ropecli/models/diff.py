"""The differences of two models: fields, and the phases that follow from them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import LARGEST_POSITION
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.models.load import load_model
from ropecli.models.model import Layer, Model
from ropecli.models.stacks.llama_cpp import EXTRA
from ropecli.results import Drawable
from ropecli.rotary import Rotary

#: Largest relative difference of frequencies and factors in float32 tables of one formula:
#: (ln base + factor + 6) 2^-24 with a base of 10^7 and a factor of 12, rounded down.
FLOAT32 = 2e-6
THRESHOLDS = (0.01, 0.1, 1.0)  #: Radians; the first position beyond each is reported.
POSITIONS = (1, 16, 256, 4096, 65_536)  #: Positions of the phase, with the context lengths.
#: Fields of a rotation that are compared as they are.
_PLAIN = ("rope_type", "base", "head_dim", "rotary_dim", "rotary_offset", "layout", "direction")
_FACTORS = ("attention_factor", "softmax_factor")


@dataclass(frozen=True, kw_only=True)
class FieldDifference:
    """A field with two values."""

    name: str  #: Of inv_freq with the first pair that differs.
    a: Any  #: In the first.
    b: Any  #: In the second.
    matters: bool  #: True if the rotation, or the score, differs because of it.


@dataclass(frozen=True, kw_only=True)
class Phase:
    """The largest difference of an angle at one position."""

    position: int  #: On every axis.
    max_radians: float  #: |m| times the difference of two frequencies, never modulo 2 pi.
    pair: int  #: The pair that has it.


@dataclass(frozen=True, kw_only=True)
class LayerDifference:
    """One kind of layer in both models."""

    a: str | None  #: Its name in the first; None where that has no such layer.
    b: str | None  #: Its name in the second.
    same: bool  #: True if it does the same in both, to within float32 tables.
    fields: tuple[FieldDifference, ...]  #: Those with two values.
    phase: tuple[Phase, ...]  #: Empty where only one of them rotates.
    first_position_over: dict[str, int | None]  #: For "0.01", "0.1" and "1" radian; else None.
    per_pair: tuple[float, ...]  #: |theta_a - theta_b|, radians per position.


@dataclass(frozen=True, kw_only=True)
class Difference(Drawable):
    """Two models, layer by layer."""

    a: Model  #: The first.
    b: Model  #: The second.
    layers: tuple[LayerDifference, ...]  #: In the order of the first.

    @property
    def same(self) -> bool:
        """True if every kind of layer does the same in both."""
        return all(layer.same for layer in self.layers)


def diff(
    a: Model | str | os.PathLike[str],
    b: Model | str | os.PathLike[str],
    *,
    positions: Sequence[int] | None = None,
) -> Difference:
    """Compare what two models do with positions.

    Kinds of layers are matched by name; the only kind of one is compared with every kind of the
    other. A config.json and a GGUF whose layouts differ are the same: the weights were permuted.

    Args:
        a: A model, or what `load_model` takes as a path.
        b: The same; the same file in another reading, or another file.
        positions: Positions of the phase; powers of 16 and both context lengths by default.

    Raises:
        ArgumentError: A position beyond 2^53.
        ArgumentTypeError: Not models, or a position that is not an integer.
    """
    a, b = (_model(name, side) for name, side in (("a", a), ("b", b)))
    places = None if positions is None else _check_positions(positions)
    permuted = a.format != b.format
    return Difference(
        a=a,
        b=b,
        layers=tuple(
            _compare_layers(first, second, a, b, places, permuted=permuted)
            for first, second in _match_layers(a, b)
        ),
    )


def _model(name: str, given: object) -> Model:
    if isinstance(given, str | os.PathLike):
        return load_model(given)
    if isinstance(given, Model):
        return given
    raise ArgumentTypeError(f"{name} must be a Model or a path, got {type(given).__name__}")


def _check_positions(positions: Sequence[int]) -> tuple[int, ...]:
    for position in positions:
        if isinstance(position, bool) or not isinstance(position, int | np.integer):
            raise ArgumentTypeError(f"positions must be integers, got {position!r}")
        if abs(position) > LARGEST_POSITION:
            raise ArgumentError(f"positions must be at most 2^53 in magnitude, got {position}")
    return tuple(int(position) for position in positions)


def _match_layers(a: Model, b: Model) -> list[tuple[Layer | None, Layer | None]]:
    """Match kinds of layers by name, in each part that both have: a GGUF has only the text."""
    sides = [[layer.settings.part for layer in model.layers] for model in (a, b)]
    shared = [part for part in dict.fromkeys(sides[0]) if part in sides[1]]
    if not shared:
        return _match_kinds(a.layers, b.layers)
    matches = []
    for part in shared:
        of_part = [tuple(x for x in m.layers if x.settings.part == part) for m in (a, b)]
        matches += _match_kinds(*of_part)
    return matches


def _match_kinds(
    a: tuple[Layer, ...], b: tuple[Layer, ...]
) -> list[tuple[Layer | None, Layer | None]]:
    if len(a) == 1 or len(b) == 1:
        return [(x, y) for x in a for y in b]
    first, second = ({layer.name: layer for layer in layers} for layers in (a, b))
    names = [*first, *(name for name in second if name not in first)]
    return [
        (first.get(name, first.get("all")), second.get(name, second.get("all"))) for name in names
    ]


def _compare_layers(
    first: Layer | None,
    second: Layer | None,
    a: Model,
    b: Model,
    positions: tuple[int, ...] | None,
    *,
    permuted: bool,
) -> LayerDifference:
    one, two = (None if layer is None else layer.rotary for layer in (first, second))
    fields = tuple(_compare_fields(first, second, permuted=permuted))
    table: NDArray[np.float64] = np.zeros(0)
    if one is not None and two is not None:  # a pair that one lacks has 0 there
        tables = [_frequencies(one, a), _frequencies(two, b)]
        size = max(map(len, tables))
        table = np.abs(np.subtract(*(np.pad(row, (0, size - len(row))) for row in tables)))
    worst = int(table.argmax()) if len(table) else 0
    places = positions or _default_positions(first, second)
    return LayerDifference(
        a=None if first is None else first.name,
        b=None if second is None else second.name,
        same=not any(field.matters for field in fields),
        fields=fields,
        phase=tuple(
            Phase(position=place, max_radians=float(abs(place) * table[worst]), pair=worst)
            for place in (places if len(table) else ())
        ),
        first_position_over={f"{t:g}": _first_over(table, t) for t in THRESHOLDS},
        per_pair=tuple(table.tolist()),
    )


def _frequencies(rope: Rotary, model: Model) -> NDArray[np.float64]:
    """Return the radians of each pair from one position of a text to the next, signed."""
    rows = rope.frequencies[:EXTRA] if model.reading == "llama.cpp" else rope.frequencies
    return np.asarray(np.sum(rows, axis=0)) * (1 if rope.direction == "forward" else -1)


def _first_over(table: NDArray[np.float64], radians: float) -> int | None:
    if not len(table) or not table.max() > 0:
        return None
    first = math.floor(radians / float(table.max())) + 1
    return first if first <= LARGEST_POSITION else None


def _default_positions(first: Layer | None, second: Layer | None) -> tuple[int, ...]:
    lengths = [layer.context_length for layer in (first, second) if layer is not None]
    ends = {length - 1 for length in lengths if length is not None and length > 1}
    longest = max(ends, default=max(POSITIONS))
    return tuple(sorted({p for p in POSITIONS if p <= longest} | ends))


def _compare_fields(
    first: Layer | None, second: Layer | None, *, permuted: bool
) -> Iterator[FieldDifference]:
    one, two = (None if layer is None else layer.rotary for layer in (first, second))
    encodings = [None if layer is None else layer.settings.encoding for layer in (first, second)]
    if encodings[0] != encodings[1]:
        names = [name or "RoPE" for name in encodings]
        yield FieldDifference(name="encoding", a=names[0], b=names[1], matters=True)
        return
    if first is None or second is None or one is None or two is None:
        if one is not two or first is None or second is None:
            types = ["none" if rope is None else rope.rope_type for rope in (one, two)]
            yield FieldDifference(name="rope_type", a=types[0], b=types[1], matters=True)
        return
    for name in _PLAIN:
        x, y = getattr(one, name), getattr(two, name)
        if x != y:
            harmless = name in ("rope_type", "base", "head_dim") or (name == "layout" and permuted)
            yield FieldDifference(name=name, a=x, b=y, matters=not harmless)
    yield from _compare_parameters(one, two)
    for name in _FACTORS:
        x, y = getattr(one, name), getattr(two, name)
        if not math.isclose(x, y, rel_tol=FLOAT32):
            yield FieldDifference(name=name, a=x, b=y, matters=True)
    yield from _compare_tables(one, two)
    x, y = first.settings.temperature, second.settings.temperature
    if x != y:
        yield FieldDifference(name="temperature", a=x, b=y, matters=True)


def _compare_parameters(one: Rotary, two: Rotary) -> Iterator[FieldDifference]:
    """Compare the parameters that both have of one rope type, named as in config.json."""
    if one.formula is None or two.formula is None or one.rope_type != two.rope_type:
        return
    x, y = (formula.defaults | formula.own for formula in (one.formula, two.formula))
    for name in sorted(x.keys() & y.keys() - {*_FACTORS}):
        if x[name] != y[name] and None not in (x[name], y[name]):
            yield FieldDifference(name=name, a=x[name], b=y[name], matters=False)


def _compare_tables(one: Rotary, two: Rotary) -> Iterator[FieldDifference]:
    """Compare frequencies, axes and the order of the output."""
    x, y = one.diagonal_inv_freq, two.diagonal_inv_freq
    size = min(len(x), len(y))
    off = np.flatnonzero(~np.isclose(x[:size], y[:size], rtol=FLOAT32, atol=0))
    if len(off) or len(x) != len(y):
        pair = int(off[0]) if len(off) else size
        a, b = (float(t[pair]) if pair < len(t) else None for t in (x, y))
        yield FieldDifference(name=f"inv_freq[{pair}]", a=a, b=b, matters=True)
    if one.axis != two.axis and one.axes + two.axes > 2:
        yield FieldDifference(name="axis", a=one.axis, b=two.axis, matters=True)
    if (one.reorders, two.reorders) != (False, False) and one.output_pairs != two.output_pairs:
        # Queries and keys in another order, both of them, have the same scores.
        yield FieldDifference(name="output", a=_order(one), b=_order(two), matters=False)


def _order(rope: Rotary) -> str:
    return "reordered" if rope.reorders else rope.layout
