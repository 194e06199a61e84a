"""One rotary position embedding as frozen data: the value that everything else takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self, final, get_args

import numpy as np

from ropecli.arrays import as_array
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.rotary.frequencies import geometric
from ropecli.rotary.layout import Layout, Pairs, layout_of, listed_pairs, named_pairs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

#: forward: position m turns a pair by +m inv_freq (RoFormer Eq. 34); reversed: by -m inv_freq.
Direction = Literal["forward", "reversed"]

LARGEST_DIM = 2**20  #: A thousand times any model's; more is a slip, and would take hours.


@final
@dataclass(frozen=True, kw_only=True, init=False, repr=False)
class Rotary:
    """A rotary position embedding (Su et al. 2021, arXiv:2104.09864, Eq. 34).

    Position m turns pair i by the angle m * inv_freq[i] and stretches it by attention_factor;
    coordinates in no pair pass through. Equal values are equal and hash alike.
    """

    head_dim: int  #: Coordinates of one head's vector.
    base: float | None  #: Base of a geometric table; None for any other table.
    layout: Layout  #: How coordinates are paired.
    rotary_dim: int  #: Coordinates that are rotated, twice the number of pairs.
    rotary_offset: int  #: First rotated coordinate.
    direction: Direction  #: Which way a positive position turns.
    attention_factor: float  #: Multiplies cos and sin.
    rope_type: str  #: How the frequencies came about.
    frequencies: tuple[float, ...]  #: inv_freq as a tuple, radians per position.
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
            pairs_in: Coordinates of each pair, integers (rotary_dim/2, 2), instead of a layout.
            pairs_out: Where the turned pairs are written, if not where they were read.

        Raises:
            ArgumentError: A value that is not allowed.
            ArgumentTypeError: An argument of the wrong type.
        """
        head_dim = _even("head dim", head_dim)
        rotary_dim = head_dim if rotary_dim is None else _even("rotary dim", rotary_dim)
        base = positive("base", base)
        with np.errstate(over="ignore"):
            table = geometric(base, rotary_dim // 2, denominator=rotary_dim)
        if not np.isfinite(table).all():
            msg = f"base must be large enough for finite frequencies, got {base:g}"
            raise ArgumentError(msg)
        self._settle(
            head_dim=head_dim,
            base=base,
            frequencies=table,
            layout=layout,
            rotary_offset=rotary_offset,
            direction=direction,
            attention_factor=attention_factor,
            rope_type="default",
            pairs_in=pairs_in,
            pairs_out=pairs_out,
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
        base: float | None = None,
        rope_type: str = "custom",
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
            base: The base that the table was made from, for people to read.
            rope_type: How the table came about, for people to read.
            pairs_in: As in the constructor.
            pairs_out: As in the constructor.

        Raises:
            ArgumentError: A value that is not allowed.
            ArgumentTypeError: An argument of the wrong type.
        """
        given = as_array("inv_freq", inv_freq)
        if given.dtype.kind not in "iuf":
            msg = f"inv_freq must be real numbers, got {given.dtype}"
            raise ArgumentTypeError(msg)
        table = given.astype(np.float64)
        if table.ndim != 1 or not len(table) or not np.isfinite(table).all():
            msg = f"inv_freq must be finite numbers of shape (pairs,), got shape {table.shape}"
            raise ArgumentError(msg)
        rotary = cls.__new__(cls)
        rotary._settle(
            head_dim=2 * len(table) if head_dim is None else _even("head dim", head_dim),
            base=None if base is None else positive("base", base),
            frequencies=table,
            layout=layout,
            rotary_offset=rotary_offset,
            direction=direction,
            attention_factor=attention_factor,
            rope_type=rope_type,
            pairs_in=pairs_in,
            pairs_out=pairs_out,
        )
        return rotary

    def _settle(
        self,
        *,
        head_dim: int,
        base: float | None,
        frequencies: NDArray[np.float64],
        layout: str,
        rotary_offset: int,
        direction: str,
        attention_factor: float,
        rope_type: str,
        pairs_in: ArrayLike | None,
        pairs_out: ArrayLike | None,
    ) -> None:
        """Check the fields that both ways of construction share, and set all of them."""
        count = len(frequencies)
        rotary_dim = 2 * count
        offset = _integer("rotary offset", rotary_offset)
        if rotary_dim > head_dim or offset < 0 or offset + rotary_dim > head_dim:
            msg = (
                f"the rotated coordinates must lie within the head dim {head_dim}, "
                f"got rotary dim {rotary_dim} from coordinate {offset}"
            )
            raise ArgumentError(msg)
        if direction not in get_args(Direction):
            msg = f"direction must be forward or reversed, got {direction!r}"
            raise ArgumentError(msg)
        if pairs_in is None:
            read = named_pairs(layout, rotary_dim=rotary_dim, rotary_offset=offset)
        else:
            read = listed_pairs("pairs_in", pairs_in, count=count, head_dim=head_dim)
        written = read
        if pairs_out is not None:
            written = listed_pairs("pairs_out", pairs_out, count=count, head_dim=head_dim)
            if {j for pair in written for j in pair} != {j for pair in read for j in pair}:
                msg = "pairs_out must name the same coordinates as pairs_in, in any order"
                raise ArgumentError(msg)
        name, offset = layout_of(read, written)
        fields = {
            "head_dim": head_dim,
            "base": base,
            "layout": name,
            "rotary_dim": rotary_dim,
            "rotary_offset": offset,
            "direction": direction,
            "attention_factor": positive("attention factor", attention_factor),
            "rope_type": rope_type,
            "frequencies": tuple(frequencies.tolist()),
            "input_pairs": read,
            "output_pairs": written,
        }
        for field, value in fields.items():
            object.__setattr__(self, field, value)

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
        if self.rope_type != "default":
            parts.append(f"rope_type={self.rope_type!r}")
        return f"Rotary({', '.join(parts)})"


def _integer(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        msg = f"{name} must be an integer, got {value!r}"
        raise ArgumentTypeError(msg)
    return int(value)


def _even(name: str, value: object) -> int:
    number = _integer(name, value)
    if number < 2 or number % 2:
        msg = f"{name} must be an even number of at least 2, got {number}"
        raise ArgumentError(msg)
    if number > LARGEST_DIM:
        msg = f"{name} must be at most {LARGEST_DIM:,}, got {number:,}"
        raise ArgumentError(msg)
    return number


def positive(name: str, value: object) -> float:
    """The value as a float.

    Raises:
        ArgumentError: Not finite, or not above 0.
        ArgumentTypeError: Not a number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        msg = f"{name} must be a number, got {value!r}"
        raise ArgumentTypeError(msg)
    try:
        number = float(value)
    except OverflowError:  # an integer beyond every float
        number = math.inf
    if not (math.isfinite(number) and number > 0):
        msg = f"{name} must be finite and above 0, got {number:g}"
        raise ArgumentError(msg)
    return number
