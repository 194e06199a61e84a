"""Right implementations called in random ways: arguments, axes, results, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from conventions import Convention, conventions, implement
from hypothesis import strategies as st
from judging import check_here
from numpy.typing import NDArray

import ropecli
from ropecli.checks.implementation.check import Verdict

Array = NDArray[Any]

AXES = (
    "b h s d", "b s h d", "s b h d", "b*s h d", "b*s h*d", "b s h*d", "b s d", "h s d", "s h d",
    "s d",
)  # fmt: skip
#: With positions of several axes, and where each sequence has its own table.
FOUR_AXES = AXES[:3]
POSITIONS = ("x, positions", "positions, x", "q, position_ids", "q, k, positions")
COUNTED = ("x", "x, offset", "q, k, start_pos", "x, seq_len")
TABLES = ("x, cos, sin", "q, k, cos, sin", "x, freqs", "x, freqs_cis")
#: Refused lengths are above every trial's.
LIMITS = (None, None, 4096, 700, 128)


@dataclass(frozen=True, kw_only=True)
class Calling:
    """A way to be called."""

    arguments: str
    axes: str
    in_place: bool  #: It returns nothing.
    most_batches: int | None
    most_heads: int | None
    most_rows: int | None
    dtypes: tuple[str, ...] | None  #: All that are taken.
    limit_is_told: bool

    def refuse(self, x: Array) -> None:
        """Raise for x (batch, heads, sequence, head_dim) that is not taken.

        Raises:
            ValueError: Too much of something.
            TypeError: Another dtype.
        """
        limits = (self.most_batches, self.most_heads, self.most_rows)
        for name, size, most in zip(("batch", "heads", "length"), x.shape, limits, strict=False):
            if most is not None and size > most:
                raise ValueError(f"{name} {size} is more than {most}")
        if self.dtypes is not None and x.dtype.name not in self.dtypes:
            raise TypeError(f"{x.dtype.name} is not taken")


@dataclass(frozen=True, kw_only=True)
class Called:
    """A right implementation and the way it is called."""

    convention: Convention
    calling: Calling

    def verdict(self, wrap: Callable[[Any], Any] = lambda it: it, **options: Any) -> Verdict:
        """The verdict of `check`, which finds the way."""
        given = self.convention
        dtypes = given.dtypes
        if self.calling.dtypes is not None:
            dtypes = tuple(each for each in dtypes if each in self.calling.dtypes)
        told: dict[str, Any] = {
            "expect": given.rope if given.told else None,
            "head_dim": given.rope.head_dim,
            "axes": given.rope.axes,
            "dtypes": dtypes or self.calling.dtypes,
            "context_length": given.context,
            "original_context_length": given.original,
            "seed": given.seed,
        }
        if self.calling.most_rows is not None:
            told["context_length"] = self.calling.most_rows if self.calling.limit_is_told else None
        return check_here(wrap(self.implementation()), **told | options)

    def implementation(self) -> Any:
        """The function."""
        rope, calling = self.convention.rope, self.calling
        rotate = implement(
            rope,
            self.convention.table,
            own_dtype=self.convention.own_dtype,
            at_length=self.convention.at_length,
        )

        def by_positions(x: Array, positions: Any) -> Array:
            places = np.asarray(positions)
            if calling.most_rows is not None and places.size and places.max() >= calling.most_rows:
                raise IndexError(f"position {places.max()} is beyond the table")
            y: Array = rotate(x, places)
            return y

        def by_offset(x: Array, offset: Any = 0) -> Array:
            return by_positions(x, int(offset) + np.arange(x.shape[-2]))

        def by_tables(x: Array, cos: Array, sin: Array) -> Array:
            return turn(x, rope, cos, sin)

        def by_freqs(x: Array, freqs: Array) -> Array:
            count = len(rope.inv_freq)
            angles = freqs[..., :count].astype(np.float64) if freqs.ndim > 1 else freqs
            factor = rope.attention_factor
            return turn(x, rope, factor * np.cos(angles), factor * np.sin(angles), single=True)

        def by_complex(x: Array, freqs: Array) -> Array:
            if not np.iscomplexobj(freqs):
                raise TypeError("freqs_cis must be complex")
            return turn(x, rope, freqs.real, freqs.imag, single=True)

        return signature(
            calling, rope.head_dim, by_positions, by_offset, by_tables, by_freqs, by_complex
        )


def turn(x: Array, rope: ropecli.Rotary, cos: Array, sin: Array, *, single: bool = False) -> Array:
    """Rotate x (batch, heads, sequence, head_dim) by tables (sequence, columns) or with a batch."""
    if cos.ndim not in {2, 3} or cos.shape[-2] != x.shape[-2]:
        raise ValueError(f"tables must be (sequence, columns), got {cos.shape}")
    count = len(rope.inv_freq)
    if cos.shape[-1] != (count if single else 2 * count):
        raise ValueError(f"tables must have {2 * count} columns")
    if not single:
        step = slice(None, None, 2) if rope.layout == "interleaved" else slice(count)
        cos, sin = cos[..., step], sin[..., step]
    if cos.ndim == 3:
        cos, sin = cos[:, None], sin[:, None]
    y = x.astype(np.float64)
    a, b = y[..., rope.pairs_in[:, 0]], y[..., rope.pairs_in[:, 1]]
    y[..., rope.pairs_out[:, 0]] = a * cos - b * sin
    y[..., rope.pairs_out[:, 1]] = a * sin + b * cos
    turned: Array = y.astype(x.dtype)
    return turned


def signature(calling: Calling, dim: int, *ways: Callable[..., Array]) -> Any:
    """The function that a caller sees, with names as its owner would choose them."""
    by_positions, by_offset, by_tables, by_freqs, by_complex = ways

    def over(work: Callable[..., Array], *vectors: Array, **more: Any) -> Any:
        """Rotate each of the vectors in its own axes."""
        results = []
        for given in vectors:
            x = unpack(given, calling.axes, dim)
            calling.refuse(x)
            y = pack(work(x, *more.values()), given, calling.axes)
            if calling.in_place:
                given[...] = y
            results.append(y)
        if calling.in_place:
            return None
        return results[0] if len(results) == 1 else tuple(results)

    def x_positions(x: Any, positions: Any) -> Any:
        return over(by_positions, x, positions=positions)

    def positions_x(positions: Any, x: Any) -> Any:
        return over(by_positions, x, positions=positions)

    def q_position_ids(q: Any, position_ids: Any) -> Any:
        return over(by_positions, q, positions=position_ids)

    def q_k_positions(q: Any, k: Any, positions: Any) -> Any:
        return over(by_positions, q, k, positions=positions)

    def x_alone(x: Any) -> Any:
        return over(by_offset, x)

    def x_offset(x: Any, offset: int = 0) -> Any:
        return over(by_offset, x, offset=offset)

    def q_k_start_pos(q: Any, k: Any, start_pos: int) -> Any:
        return over(by_offset, q, k, offset=start_pos)

    def x_seq_len(x: Any, seq_len: int) -> Any:
        return over(by_offset, x)

    def x_cos_sin(x: Any, cos: Any, sin: Any) -> Any:
        return over(by_tables, x, cos=cos, sin=sin)

    def q_k_cos_sin(q: Any, k: Any, cos: Any, sin: Any) -> Any:
        return over(by_tables, q, k, cos=cos, sin=sin)

    def x_freqs(x: Any, freqs: Any) -> Any:
        return over(by_freqs, x, freqs=freqs)

    def x_freqs_cis(x: Any, freqs_cis: Any) -> Any:
        return over(by_complex, x, freqs=freqs_cis)

    functions = (
        x_positions, positions_x, q_position_ids, q_k_positions, x_alone, x_offset, q_k_start_pos,
        x_seq_len, x_cos_sin, q_k_cos_sin, x_freqs, x_freqs_cis,
    )  # fmt: skip
    return dict(zip((*POSITIONS, *COUNTED, *TABLES), functions, strict=True))[calling.arguments]


def unpack(x: Array, axes: str, dim: int) -> Array:
    """The vectors as (batch, heads, sequence, head_dim).

    Raises:
        ValueError: Other axes.
    """
    words = axes.split()
    if x.ndim != len(words):
        raise ValueError(f"x must have axes {axes}, got shape {x.shape}")
    if words[-1] == "h*d":
        x = x.reshape(*x.shape[:-1], -1, dim)
        words = [*words[:-1], "h", "d"]
    if x.shape[-1] != dim:
        raise ValueError(f"the last axis must be {dim}, got shape {x.shape}")
    letters = [word[-1] for word in words]  # tokens are a sequence
    x = x.transpose([letters.index(each) for each in "bhsd" if each in letters])
    return np.expand_dims(x, [i for i, each in enumerate("bhsd") if each not in letters])


def pack(y: Array, like: Array, axes: str) -> Array:
    """The opposite of `unpack`, in the shape of the array given."""
    letters = [word[-1] for word in axes.replace("h*d", "h d").split()]
    absent = tuple(i for i, each in enumerate("bhsd") if each not in letters)
    present = [each for each in "bhsd" if each in letters]
    y = y.squeeze(absent).transpose([present.index(each) for each in letters])
    return np.ascontiguousarray(y).reshape(like.shape)


@st.composite
def calls(draw: st.DrawFn, *, largest: int = 64) -> Called:
    """Any right implementation, called in any way that can say its positions."""
    convention = draw(conventions(largest=largest))
    rope = convention.rope
    several, changing = rope.axes > 1, convention.at_length is not None
    trained = "original_max_position_embeddings" in dict(rope.parameters)  # it takes so many
    plain = not several and not changing and rope.direction == "forward"
    kinds = [*POSITIONS] if several else [*POSITIONS, *COUNTED]
    arguments = draw(st.sampled_from([*kinds, *TABLES] if plain else kinds))
    if arguments in TABLES:  # whose tables are those of what is expected
        convention = replace(convention, told=True)
    four = several or changing
    dtypes: tuple[str, ...] | None = None
    if draw(st.booleans()) and "float32" in convention.dtypes:
        more = draw(st.sampled_from(["float32", "float64", "float16"]))
        dtypes = tuple(dict.fromkeys(("float32", more)))
    calling = Calling(
        arguments=arguments,
        axes=draw(st.sampled_from(FOUR_AXES if four else AXES)),
        in_place=draw(st.booleans()),
        most_batches=draw(st.sampled_from([None, None, 2, 4])),
        most_heads=draw(st.sampled_from([None, None, 3, 8])),
        most_rows=None if changing or trained else draw(st.sampled_from(LIMITS)),
        dtypes=dtypes,
        limit_is_told=draw(st.booleans()),
    )
    return Called(convention=convention, calling=calling)
