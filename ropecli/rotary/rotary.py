"""One rotary position embedding as frozen data: the value that everything else takes."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np

from ropecli.errors import ArgumentError
from ropecli.numbers import even, positive
from ropecli.rotary.frequencies import finite_table, geometric
from ropecli.rotary.layout import Layout, Pairs
from ropecli.rotary.settle import Direction, settled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray


@final
@dataclass(frozen=True, kw_only=True, init=False, repr=False)
class Rotary:
    """A rotary position embedding (Su et al. 2021, arXiv:2104.09864, Eq. 34).

    Position m turns pair i by the angle m * inv_freq[i] and stretches it by attention_factor;
    coordinates in no pair pass through. With several axes a position is a point, and each pair
    turns by the coordinate that axis[i] names. Values that do the same are equal and hash alike,
    whatever they were made from.
    """

    head_dim: int  #: Coordinates of one head's vector.
    base: float | None = field(compare=False)  #: Base of a geometric table; else None.
    layout: Layout  #: How coordinates are paired as they are read.
    rotary_dim: int  #: Coordinates that are rotated, twice the number of pairs.
    rotary_offset: int  #: First rotated coordinate.
    direction: Direction  #: Which way a positive position turns.
    attention_factor: float  #: Multiplies cos and sin.
    softmax_factor: float  #: Multiplies the score q.k / sqrt(d); not part of the rotation.
    rope_type: str = field(compare=False)  #: How the frequencies came about.
    parameters: tuple[tuple[str, Any], ...] = field(compare=False)  #: The formula's arguments.
    frequencies: tuple[float, ...]  #: inv_freq as a tuple, radians per position.
    axis: tuple[int, ...]  #: The coordinate of the position that turns each pair; 0 for all.
    growth: tuple[float, ...]  #: Logarithm of a query's growth per position (xPos); 0 for none.
    input_pairs: Pairs  #: pairs_in as a tuple.
    output_pairs: Pairs  #: pairs_out as a tuple.

    def __init__(
        self,
        *,
        head_dim: int,
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
            axis: Which coordinate of a position turns each pair, integers (rotary_dim/2,).
            pairs_in: Coordinates of each pair, integers (rotary_dim/2, 2), instead of a layout.
            pairs_out: Where the turned pairs are written, if not where they were read.

        Raises:
            ArgumentError: A value that is not allowed.
            ArgumentTypeError: An argument of the wrong type.
        """
        head_dim = even("head dim", head_dim)
        rotary_dim = head_dim if rotary_dim is None else even("rotary dim", rotary_dim)
        base = positive("base", base)
        with np.errstate(over="ignore"):
            table = geometric(base, rotary_dim // 2, denominator=rotary_dim)
        if not np.isfinite(table).all():
            msg = f"base must be large enough for finite frequencies, got {base:g}"
            raise ArgumentError(msg)
        self._set(
            settled(
                head_dim=head_dim,
                base=base,
                frequencies=table,
                layout=layout,
                rotary_offset=rotary_offset,
                direction=direction,
                attention_factor=attention_factor,
                softmax_factor=softmax_factor,
                rope_type="default",
                parameters={"dim": rotary_dim, "base": base},
                axis=axis,
                growth=None,
                pairs_in=pairs_in,
                pairs_out=pairs_out,
            )
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
        rope_type: str = "custom",
        parameters: Mapping[str, Any] | None = None,
        axis: ArrayLike | None = None,
        growth: ArrayLike | None = None,
        pairs_in: ArrayLike | None = None,
        pairs_out: ArrayLike | None = None,
    ) -> Self:
        """Describe RoPE with any table of frequencies.

        Args:
            inv_freq: Radians per position of each pair, shape (pairs,), finite; zero is allowed.
            head_dim: Coordinates of one head's vector; twice the number of pairs by default.
            layout: As in the constructor.
            rotary_offset: As in the constructor.
            direction: As in the constructor.
            attention_factor: As in the constructor.
            softmax_factor: As in the constructor.
            base: The base that the table was made from, for people to read.
            rope_type: How the table came about, for people to read.
            parameters: What the formula of the rope type was given.
            axis: As in the constructor.
            growth: Logarithm of what each pair of a query grows by per position (xPos).
            pairs_in: As in the constructor.
            pairs_out: As in the constructor.

        Raises:
            ArgumentError: A value that is not allowed.
            ArgumentTypeError: An argument of the wrong type.
        """
        table = finite_table("inv_freq", inv_freq)
        rotary = cls.__new__(cls)
        rotary._set(
            settled(
                head_dim=2 * len(table) if head_dim is None else even("head dim", head_dim),
                base=None if base is None else positive("base", base),
                frequencies=table,
                layout=layout,
                rotary_offset=rotary_offset,
                direction=direction,
                attention_factor=attention_factor,
                softmax_factor=softmax_factor,
                rope_type=rope_type,
                parameters=parameters or {},
                axis=axis,
                growth=growth,
                pairs_in=pairs_in,
                pairs_out=pairs_out,
            )
        )
        return rotary

    def _set(self, fields: Mapping[str, Any]) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def inv_freq(self) -> NDArray[np.float64]:
        """Radians per position of each pair, shape (rotary_dim // 2,), float64."""
        return np.array(self.frequencies, dtype=np.float64)

    @property
    def wavelength(self) -> NDArray[np.float64]:
        """Positions per full turn of each pair, 2 pi / inv_freq, infinite where it never turns."""
        with np.errstate(divide="ignore"):
            return 2 * math.pi / np.abs(self.inv_freq)

    @property
    def axes(self) -> int:
        """How many coordinates a position has."""
        return max(self.axis) + 1

    @property
    def grows(self) -> bool:
        """Whether a vector's length depends on its position, as in xPos: then it is no rotation."""
        return any(self.growth)

    @property
    def for_keys(self) -> Self:
        """What keys are turned by, where a query grows and a key shrinks; else the same."""
        return self._with_growth(tuple(-g for g in self.growth)) if self.grows else self

    @property
    def without_growth(self) -> Self:
        """The rotation alone."""
        return self._with_growth((0.0,) * len(self.growth))

    def _with_growth(self, growth: tuple[float, ...]) -> Self:
        other = copy(self)
        object.__setattr__(other, "growth", growth)
        return other

    @property
    def reorders(self) -> bool:
        """Whether turned pairs are written elsewhere than they were read."""
        return self.input_pairs != self.output_pairs

    @property
    def pairs_in(self) -> NDArray[np.int64]:
        """Coordinates that are read for each pair, shape (rotary_dim // 2, 2)."""
        return np.array(self.input_pairs, dtype=np.int64)

    @property
    def pairs_out(self) -> NDArray[np.int64]:
        """Coordinates that each turned pair is written to, shape (rotary_dim // 2, 2)."""
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
        if self.rope_type != "default":
            parts.append(f"rope_type={self.rope_type!r}")
        return f"Rotary({', '.join(parts)})"
