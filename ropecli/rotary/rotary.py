"""One rotary position embedding as frozen data: the value that everything else takes."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Never, Self, final, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.names import quote
from ropecli.numbers import even, length, positive
from ropecli.rotary.formula import Formula
from ropecli.rotary.frequencies import Table, finite_table
from ropecli.rotary.pairs import Layout, Pairs, Placement, layout_of, listed_axes
from ropecli.rotary.types import PLAIN

#: forward: position m rotates a pair by +m inv_freq (RoFormer Eq. 34); reversed: by -m inv_freq.
Direction = Literal["forward", "reversed"]
CALLED = {"theta": "base", "rope_theta": "base", "scaling": "ropecli.rope(...)"}  #: By others.
BARE = "custom"  #: The rope type of a table whose formula is not known.


@final
@dataclass(frozen=True, kw_only=True, init=False, repr=False)
class Rotary:
    """A rotary position embedding (Su et al. 2021, arXiv:2104.09864, Eq. 34).

    Position m rotates pair i by the angle m * inv_freq[i] and scales it by attention_factor;
    coordinates in no pair pass through. With several axes a position is a point, and the angles are
    positions @ inv_freq, with a row of inv_freq for each axis: one entry a column in M-RoPE and
    axial RoPE, all of them in RoPE-Mixed (Heo et al. 2024, arXiv:2403.13298). Encodings that rotate
    equally are equal and hash equally, however they were made.
    """

    head_dim: int  #: Coordinates of one head's vector.
    base: float | None = field(compare=False)  #: Base of a geometric table; else None.
    layout: Layout  #: How coordinates are paired as they are read.
    rotary_dim: int  #: Coordinates that are rotated, twice the number of pairs.
    rotary_offset: int  #: First rotated coordinate.
    direction: Direction  #: Sense in which a positive position rotates.
    attention_factor: float  #: Multiplies cos and sin.
    softmax_factor: float  #: Multiplies the score q.k / sqrt(d); not part of the rotation.
    formula: Formula | None = field(compare=False)  #: What made the table; None if not known.
    frequencies: tuple[tuple[float, ...], ...]  #: The rows of inv_freq, one for each axis.
    growth: tuple[float, ...]  #: Logarithm of a query's growth per position (xPos); 0 for none.
    input_pairs: Pairs  #: pairs_in as a tuple.
    output_pairs: Pairs  #: pairs_out as a tuple.

    def __init__(
        self,
        head_dim: int,
        *,
        base: float = 10_000.0,
        layout: str = "interleaved",
        rotary_dim: int | None = None,
        rotary_offset: int = 0,
        direction: str = "forward",
        attention_factor: float = 1.0,
        softmax_factor: float = 1.0,
        axis: ArrayLike | None = None,
        pairs_in: ArrayLike | None = None,
        pairs_out: ArrayLike | None = None,
        **unknown: Never,
    ) -> None:
        """Describe plain RoPE, inv_freq[i] = base^(-2i/rotary_dim).

        Args:
            head_dim: Coordinates of one head's vector, even, at least 2.
            base: Finite and above 0.
            layout: "interleaved" for pairs (2i, 2i+1), "half" for (i, i + rotary_dim/2).
            rotary_dim: Coordinates that are rotated, even; all of head_dim by default.
            rotary_offset: First rotated coordinate.
            direction: "forward" or "reversed".
            attention_factor: Finite and above 0; multiplies cos and sin.
            softmax_factor: Finite and above 0; multiplies the score, not the rotation.
            axis: Coordinate of a position that rotates each pair, integers (rotary_dim/2,): its
                frequency is in that row of inv_freq, which has several then.
            pairs_in: Coordinates of each pair, integers (rotary_dim/2, 2), instead of a layout.
            pairs_out: Where the rotated pairs are written, if not where they were read.
            **unknown: None; names that others use are answered with ours.

        Raises:
            ArgumentError: A value out of range.
            ArgumentTypeError: An argument of the wrong type, or of another name.
        """
        for name in unknown:
            now = f"; it is {CALLED[name]} here" if name in CALLED else ""
            raise ArgumentTypeError(f"Rotary has no {name}{now}")
        head_dim = even("head dim", head_dim)
        dim = head_dim if rotary_dim is None else even("rotary dim", rotary_dim)
        formula = Formula.from_parameters(PLAIN, dim=dim, base=positive("base", base), own={})
        self._set(
            Table(
                inv_freq=formula.table().inv_freq,
                attention_factor=attention_factor,
                softmax_factor=softmax_factor,
                axis=axis,
            ),
            Placement(
                head_dim=head_dim,
                layout=layout,
                rotary_offset=rotary_offset,
                pairs_in=pairs_in,
                pairs_out=pairs_out,
            ),
            direction,
            formula,
        )

    @classmethod
    def from_inv_freq(
        cls,
        inv_freq: ArrayLike,
        *,
        head_dim: int | None = None,
        layout: str = "interleaved",
        rotary_offset: int = 0,
        direction: str = "forward",
        attention_factor: float = 1.0,
        softmax_factor: float = 1.0,
        base: float | None = None,
        formula: Formula | None = None,
        axis: ArrayLike | None = None,
        growth: ArrayLike | None = None,
        pairs_in: ArrayLike | None = None,
        pairs_out: ArrayLike | None = None,
    ) -> Self:
        """Describe RoPE with any table of frequencies.

        Args:
            inv_freq: Radians per position of each pair, finite; zero is allowed. Shape (pairs,),
                or (axes, pairs).
            head_dim: Coordinates of one head's vector; twice the number of pairs by default.
            layout: As in the constructor.
            rotary_offset: As in the constructor.
            direction: As in the constructor.
            attention_factor: As in the constructor.
            softmax_factor: As in the constructor.
            base: Base that the table was made from, if any.
            formula: What made the table, if that is known.
            axis: As in the constructor; only with inv_freq of shape (pairs,).
            growth: Logarithm of what each pair of a query grows by per position (xPos).
            pairs_in: As in the constructor.
            pairs_out: As in the constructor.

        Raises:
            ArgumentError: A value out of range.
            ArgumentTypeError: An argument of the wrong type.
        """
        table = Table(
            inv_freq=finite_table("inv_freq", inv_freq),
            base=base,
            attention_factor=attention_factor,
            softmax_factor=softmax_factor,
            axis=axis,
            growth=growth,
        )
        placement = Placement(
            head_dim=2 * table.inv_freq.shape[-1] if head_dim is None else head_dim,
            layout=layout,
            rotary_offset=rotary_offset,
            pairs_in=pairs_in,
            pairs_out=pairs_out,
        )
        return cls.from_table(table, placement, direction, formula)

    @classmethod
    def from_table(
        cls, table: Table, placement: Placement, direction: str, formula: Formula | None = None
    ) -> Self:
        """Describe RoPE with the table of a formula, at a place in the head.

        Raises:
            ArgumentError: A value out of range.
            ArgumentTypeError: An argument of the wrong type.
        """
        rotary = cls.__new__(cls)
        rotary._set(table, placement, direction, formula)
        return rotary

    def _set(
        self, table: Table, placement: Placement, direction: str, formula: Formula | None
    ) -> None:
        """Check everything, and set all fields."""
        if direction not in get_args(Direction):
            raise ArgumentError(f"direction must be forward or reversed, got {direction!r}")
        count = table.inv_freq.shape[-1]
        read, written = placement.resolve(count)
        base = table.base
        if base is None and formula is not None:
            base = formula["base"]
        layout, offset = layout_of(read)
        growth = (0.0,) * count
        if table.growth is not None:
            growth = tuple(finite_table("growth", table.growth, (count,)).tolist())
        fields = {
            "head_dim": even("head dim", placement.head_dim),
            "base": None if base is None else positive("base", base),
            "layout": layout,
            "rotary_dim": 2 * count,
            "rotary_offset": offset,
            "direction": direction,
            "attention_factor": positive("attention factor", table.attention_factor),
            "softmax_factor": positive("softmax factor", table.softmax_factor),
            "formula": formula,
            "frequencies": _rows(table),
            "growth": growth,
            "input_pairs": read,
            "output_pairs": written,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def rope_type(self) -> str:
        """Name of the formula, "custom" for a bare table."""
        return BARE if self.formula is None else self.formula.rope_type

    @property
    def parameters(self) -> tuple[tuple[str, Any], ...]:
        """Arguments of the formula, sorted by name; empty for a bare table."""
        return () if self.formula is None else self.formula.parameters

    @property
    def depends_on_length(self) -> bool:
        """True if sequences of another length have another table (dynamic NTK, LongRoPE)."""
        return self.formula is not None and self.formula.depends_on_length

    @property
    def sequence_length(self) -> int | None:
        """Positions that the table is for; None if it depends on none, or none were given."""
        if self.formula is None or not self.depends_on_length:
            return None
        used: int | None = self.formula.get("sequence_length")
        return used

    def at_length(self, sequence_length: int) -> Self:
        """Return the encoding for sequences of this length, itself if the length has no effect.

        Raises:
            ArgumentError: Below 1, or a length whose table is not finite.
            ArgumentTypeError: Not a whole number.
        """
        used = length("sequence_length", sequence_length)
        if self.formula is None or not self.depends_on_length:
            return self
        formula = self.formula.replace(sequence_length=used)
        table = formula.table()
        return self._with(
            frequencies=_rows(replace(table, axis=self.axis)),
            attention_factor=table.attention_factor,
            base=table.base or self.base,
            formula=formula,
        )

    def with_inv_freq(self, inv_freq: ArrayLike, *, attention_factor: float | None = None) -> Self:
        """Return the same pairs, axes and direction with a table whose formula is not known.

        Args:
            inv_freq: Radians per position of each pair, finite; shape (pairs,) where one axis
                rotates a pair, or that of its own table.
            attention_factor: As in the constructor; its own by default.

        Raises:
            ArgumentError: A value out of range.
            ArgumentTypeError: An argument of the wrong type.
        """
        factor = self.attention_factor if attention_factor is None else attention_factor
        shapes = [(len(self.growth),)] if self.axis is not None else []
        table = finite_table("inv_freq", inv_freq, *shapes, self.inv_freq.shape)
        axis = self.axis if table.ndim == 1 else None
        return self._with(
            frequencies=_rows(Table(inv_freq=table, axis=axis)),
            attention_factor=positive("attention factor", factor),
            base=None,
            formula=None,
        )

    def with_axis(self, axis: ArrayLike) -> Self:
        """Return the encoding with its diagonal frequencies on other axes, integers (pairs,).

        Raises:
            ArgumentError: Not as many integers from 0 to 15 as there are pairs.
            ArgumentTypeError: Not an array.
        """
        return self._with(frequencies=_rows(Table(inv_freq=self.diagonal_inv_freq, axis=axis)))

    def _with(self, **fields: Any) -> Self:
        other = copy(self)
        for name, value in fields.items():
            object.__setattr__(other, name, value)
        return other

    @property
    def inv_freq(self) -> NDArray[np.float64]:
        """Radians per position of each pair, float64: (pairs,), or (axes, pairs) of several."""
        return np.array(self.frequencies if self.axes > 1 else self.frequencies[0])

    @property
    def compact_inv_freq(self) -> NDArray[np.float64]:
        """inv_freq as it is written next to axis: (pairs,) unless several axes rotate a pair."""
        return self.inv_freq if self.axis is None else self.diagonal_inv_freq

    @property
    def inv_freq_norm(self) -> NDArray[np.float64]:
        """Radians per position along the direction in which each pair turns fastest, (pairs,)."""
        return np.asarray(np.abs(np.hypot.reduce(self.frequencies, axis=0)))

    @property
    def diagonal_inv_freq(self) -> NDArray[np.float64]:
        """Radians per position that is the same on every axis, as in text, (pairs,)."""
        return self.inv_freq if self.axes == 1 else self.inv_freq.sum(axis=0)

    @property
    def wavelength(self) -> NDArray[np.float64]:
        """Positions per turn of each pair, 2 pi / inv_freq_norm; infinite if it never turns."""
        with np.errstate(divide="ignore"):
            return 2 * math.pi / self.inv_freq_norm

    @property
    def axes(self) -> int:
        """Number of coordinates of a position."""
        return len(self.frequencies)

    @property
    def axis(self) -> tuple[int, ...] | None:
        """The coordinate that rotates each pair, 0 if none does; None if several rotate one."""
        used = np.array(self.frequencies) != 0
        return None if (used.sum(axis=0) > 1).any() else tuple(used.argmax(axis=0).tolist())

    @property
    def grows(self) -> bool:
        """True if lengths of vectors depend on position, as in xPos: then it is not a rotation."""
        return any(self.growth)

    @property
    def for_keys(self) -> Self:
        """The encoding of keys: in xPos, keys grow as queries shrink; else the same."""
        return self._with(growth=tuple(-g for g in self.growth)) if self.grows else self

    @property
    def without_growth(self) -> Self:
        """The rotation alone."""
        return self._with(growth=(0.0,) * len(self.growth))

    @property
    def reorders(self) -> bool:
        """True if rotated pairs are written elsewhere than they were read."""
        return self.input_pairs != self.output_pairs

    @property
    def pairs_in(self) -> NDArray[np.int64]:
        """Coordinates that are read for each pair, shape (rotary_dim // 2, 2)."""
        return np.array(self.input_pairs, dtype=np.int64)

    @property
    def pairs_out(self) -> NDArray[np.int64]:
        """Coordinates that each rotated pair is written to, shape (rotary_dim // 2, 2)."""
        return np.array(self.output_pairs, dtype=np.int64)

    def __repr__(self) -> str:
        """One line without the table."""
        parts = [f"head_dim={self.head_dim}", f"base={self.base}", f"layout={self.layout!r}"]
        if self.rotary_dim != self.head_dim:
            parts += [f"rotary_dim={self.rotary_dim}", f"rotary_offset={self.rotary_offset}"]
        if self.direction != "forward":
            parts.append(f"direction={self.direction!r}")
        if self.attention_factor != 1.0:
            parts.append(f"attention_factor={self.attention_factor}")
        if self.softmax_factor != 1.0:
            parts.append(f"softmax_factor={self.softmax_factor}")
        if self.axes > 1:
            parts.append(f"axes={self.axes}")
        if self.rope_type != PLAIN:
            parts.append(f"rope_type={self.rope_type!r}")
        return f"Rotary({', '.join(parts)})"


def _rows(table: Table) -> tuple[tuple[float, ...], ...]:
    """Return the frequencies of each axis, with one entry a column where the table lists axes."""
    rows = np.atleast_2d(table.inv_freq)
    if table.axis is not None:
        if len(rows) > 1:
            raise ArgumentError("axis needs inv_freq of shape (pairs,), got a row for each axis")
        axis = listed_axes(table.axis, count=rows.shape[1])
        rows = np.where(np.arange(max(axis) + 1)[:, None] == axis, rows, 0.0)
    return tuple(map(tuple, rows.tolist()))


def check_rope(rope: object) -> None:
    """Refuse what is not a `Rotary`."""
    if not isinstance(rope, Rotary):
        got = type(rope).__name__
        raise ArgumentTypeError(f"rope must be a Rotary, got {got}", rotary_of(rope))


def check_rotation(rope: Rotary, subject: str) -> None:
    """Refuse xPos where a subject, with its verb, is for rotations only."""
    if rope.grows:
        raise ArgumentError(f"{subject} for rotations, and xPos changes lengths with position")


def rotary_of(value: object) -> str:
    """Return how to get the `Rotary` of what stands for a model; "" for anything else."""
    if isinstance(value, str) and (value.startswith("example:") or "." in value):
        return f"give ropecli.load_model({quote(value)}).layer().rotary"
    return "give model.layer().rotary" if hasattr(value, "rotating_layers") else ""
