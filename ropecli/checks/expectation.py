"""The expected rotation: a value for each property, and the ground that it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from ropecli.errors import ArgumentError
from ropecli.models.model import Layer, Model
from ropecli.rotary.formula import Formula
from ropecli.rotary.frequencies import Table
from ropecli.rotary.pairs import NAMED, Placement
from ropecli.rotary.rotary import Rotary

GIVEN, MUST = "given", "must"  #: Grounds; that of a file says who reads it so.
#: Properties of an encoding; those without a ground may have any value.
PROPERTIES = ("rotary_dim", "layout", "base", "rope_type", "attention_factor")


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """The expected properties, of which only those with a ground can fail.

    What is given was asked for, what is read is in a file of a known class, and what must be holds
    for every rotation. A default of ours is none of these: it is an example of what may be.
    """

    rope: Rotary | None = None  #: Values of all properties; None where nothing is expected.
    grounds: Mapping[str, str] = field(default_factory=dict)  #: By property.
    options: frozenset[str] = frozenset()  #: Properties given one by one, as on a command line.
    offset: float = 0.0  #: Position by which a token at position 0 is rotated.
    offset_ground: str = MUST

    @classmethod
    def whole(cls, rope: Rotary, ground: str = GIVEN) -> Self:
        """Return the expectation of an encoding with all its properties."""
        return cls(rope=rope, grounds=dict.fromkeys(PROPERTIES, ground))

    @classmethod
    def of_parameters(cls, rope: Rotary, given: Iterable[str]) -> Self:
        """Return the expectation of what was given of an encoding; others were filled in.

        A base is that of a plain table, unless a type is given, too.
        """
        named = {*given}
        if "base" in named or "rope_type" in named:
            named |= {"rope_type", "attention_factor"}
        grounds = {name: GIVEN for name in PROPERTIES if name in named}
        return cls(rope=rope, grounds=grounds, options=frozenset(given))

    @classmethod
    def of_layer(cls, model: Model, layer: Layer, given: Iterable[str] = ()) -> Self:
        """Return the expectation of a model's layer, in which some values were given.

        Raises:
            ArgumentError: The layer has no rotation.
        """
        if layer.rotary is None:
            raise ArgumentError(f"layer {layer.name} of {model.source} has no rotation")
        read = cls.whole(layer.rotary, f"as {model.stack} reads it")
        free = layer.settings.undecided - {*given}
        if "base" in free:
            free |= {"rope_type", "attention_factor"}
        named = {**read.grounds, **dict.fromkeys(given, GIVEN)}
        grounds = {k: v for k, v in named.items() if k not in free}
        return replace(read, grounds=grounds, options=frozenset(given))

    @property
    def head_dim(self) -> int | None:
        """Coordinates of a head; None where any number of them will do."""
        rope = self.rope
        if rope is None or (rope.formula and not self.is_whole and "head_dim" not in self.options):
            return None
        return rope.head_dim

    def of_head_dim(self, dim: int) -> Self:
        """Return the same for heads of a dim, where any will do."""
        rope = self.rope
        if rope is None or rope.head_dim == dim or rope.formula is None:
            return self
        width = rope.rotary_dim if self.requires("rotary_dim") else dim
        formula = rope.formula.replace(dim=width)
        placement = Placement(head_dim=dim, layout=rope.layout, rotary_offset=rope.rotary_offset)
        made = Rotary.from_table(formula.table(), placement, rope.direction, formula)
        return replace(self, rope=made)

    def requires(self, *properties: str) -> bool:
        """Return True if all these properties have a ground."""
        return {*properties} <= self.grounds.keys()

    @property
    def is_whole(self) -> bool:
        """True if no property may have any value."""
        return self.requires(*PROPERTIES)

    def candidates(self, found: Rotary | None) -> list[Rotary]:
        """Return the encodings that meet it, in which what is free is as found.

        Where nothing is known of a rotation, every layout is tried. There are none if nothing is
        expected.
        """
        rope = self.rope
        if rope is None or not self.grounds:
            return []
        if self.is_whole:
            return [rope]
        if found is not None:
            return [self._complete(rope, found)]
        if self.requires("layout"):
            return [rope]
        placements = [
            Placement(head_dim=rope.head_dim, layout=layout, rotary_offset=rope.rotary_offset)
            for layout in NAMED
        ]
        return [
            Rotary.from_table(_table(rope), placement, rope.direction, rope.formula)
            for placement in placements
        ]

    def _complete(self, rope: Rotary, found: Rotary) -> Rotary:
        formula, table = self._complete_table(rope, found)
        placement = self._complete_placement(rope, found, 2 * table.inv_freq.shape[-1])
        direction = rope.direction if self.requires("rope_type") else found.direction
        return Rotary.from_table(table, placement, direction, formula)

    def _complete_table(self, rope: Rotary, found: Rotary) -> tuple[Formula | None, Table]:
        """Return the formula and the table expected; without a formula, a table is as it is."""
        dim = rope.rotary_dim if self.requires("rotary_dim") else found.rotary_dim
        source = rope if self.requires("rope_type") else found
        if source.formula is None:
            return None, _table(source if source.rotary_dim == dim else rope)
        base = source.base if self.requires("base") else found.base
        formula = source.formula
        if source.rotary_dim != dim:
            formula = formula.replace(dim=dim)
        if base is not None and base != formula["base"] and source is rope:
            formula = formula.replace(base=base)
        if formula is source.formula:
            return formula, _table(source)
        table = formula.table()
        if not self.requires("attention_factor"):
            table = replace(table, attention_factor=found.attention_factor)
        return formula, table

    def _complete_placement(self, rope: Rotary, found: Rotary, dim: int) -> Placement:
        """Return the pairs expected, of a rotary dim."""
        of_rope, of_found = self.requires("layout"), not self.requires("rotary_dim")
        if not of_rope and dim == found.rotary_dim:
            same = of_found or rope.rotary_offset == found.rotary_offset
            if same:
                return _pairs(found)
        if of_rope and dim == rope.rotary_dim and not of_found:
            return _pairs(rope)
        layout = rope.layout if of_rope or found.layout not in NAMED else found.layout
        offset = found.rotary_offset if of_found else rope.rotary_offset
        return Placement(head_dim=rope.head_dim, layout=layout, rotary_offset=offset)


def _table(rope: Rotary) -> Table:
    """Return the table of an encoding."""
    return Table(
        inv_freq=rope.compact_inv_freq,
        base=rope.base,
        axis=None if rope.axes == 1 else rope.axis,
        attention_factor=rope.attention_factor,
        softmax_factor=rope.softmax_factor,
    )


def _pairs(rope: Rotary) -> Placement:
    """Return the pairs of an encoding."""
    return Placement(head_dim=rope.head_dim, pairs_in=rope.pairs_in, pairs_out=rope.pairs_out)
