"""Right implementations of RoPE drawn at random: every convention that its owner may follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from judging import check_here
from numpy.typing import NDArray

import ropecli
from ropecli.checks.implementation.check import Verdict

Array = NDArray[Any]

ORIGINAL = 512  #: Trained length of the types that have one.
TYPES = (
    "axial", "deepseek_yarn", "default", "dynamic", "linear", "llama3", "longrope", "ntk",
    "ntk_by_parts", "ntk_mixed", "p_rope", "proportional", "telechat3_yarn", "yarn",
)  # fmt: skip
#: Types whose exponents keep the head dim, and their share of pairs that rotate.
OF_WHOLE_HEADS = {"p_rope": "p", "proportional": "partial_rotary_factor"}
bases = st.one_of(st.sampled_from([10_000.0, 100.0, 500_000.0, 1_000_000.0]), st.floats(100.0, 1e8))
factors = st.one_of(st.sampled_from([2.0, 4.0, 8.0]), st.floats(1.1, 40.0))


@dataclass(frozen=True, kw_only=True)
class Convention:
    """An implementation, and what `check` knows about it."""

    rope: ropecli.Rotary
    at_length: Callable[[int], ropecli.Rotary] | None  #: Where the table changes with the length.
    table: type  #: float64, or float32 as in Transformers: frequencies, angles, cos and sin.
    own_dtype: bool  #: Whether vectors are multiplied in their own dtype, or in float64.
    told: bool  #: Whether check is told what to expect.
    original: int | None  #: Trained length, where check is given it.
    dtypes: tuple[str, ...]
    context: int | None
    seed: int

    def verdict(self, **options: Any) -> Verdict:
        """The verdict of `check`."""
        return check_here(
            implement(self.rope, self.table, own_dtype=self.own_dtype, at_length=self.at_length),
            expect=self.rope if self.told else None,
            head_dim=self.rope.head_dim,
            axes=self.rope.axes,
            dtypes=self.dtypes,
            context_length=self.context,
            original_context_length=self.original,
            seed=self.seed,
            **options,
        )


def implement(
    rope: ropecli.Rotary,
    table: Any = np.float64,
    *,
    own_dtype: bool = False,
    at_length: Callable[[int], ropecli.Rotary] | None = None,
) -> Any:
    """A rotation as its owner would write it: tables in some precision, pairs as they come."""

    def tables(places: Array, used: ropecli.Rotary) -> tuple[Array, Array]:
        theta = used.inv_freq.astype(table)
        points = places.astype(table)
        angle = points[..., None] * theta if rope.axes == 1 else points @ theta
        sign = 1 if rope.direction == "forward" else -1
        factor = table(used.attention_factor)
        return factor * np.cos(angle), sign * factor * np.sin(angle)

    def rotate(x: Array, positions: Array) -> Array:
        places = np.asarray(positions)
        batched = places.ndim > (1 if rope.axes == 1 else 2)
        if at_length is None:
            cosine, sine = tables(places, rope)
        else:  # each sequence by its own length
            parts = [
                tables(row, at_length(max(1, int(row.max()) + 1)))
                for row in (places if batched else places[None])
            ]
            cosine, sine = (
                np.stack(each) if batched else each[0] for each in zip(*parts, strict=True)
            )
        if batched and x.ndim > 3:
            cosine, sine = cosine[:, None], sine[:, None]
        y = x.copy() if own_dtype else x.astype(np.float64)
        cosine, sine = cosine.astype(y.dtype), sine.astype(y.dtype)
        a, b = y[..., rope.pairs_in[:, 0]], y[..., rope.pairs_in[:, 1]]
        y[..., rope.pairs_out[:, 0]] = a * cosine - b * sine
        y[..., rope.pairs_out[:, 1]] = a * sine + b * cosine
        turned: Array = y.astype(x.dtype)
        return turned

    return rotate


@st.composite
def conventions(draw: st.DrawFn, *, largest: int = 256) -> Convention:
    """Any type, layout, pairing, order, part, direction, factor, dtype and precision."""
    rope_type = draw(st.sampled_from(TYPES))
    # A quarter of eight is one pair, the least that turns.
    head_dim = 2 * draw(st.integers(4 if rope_type in OF_WHOLE_HEADS else 2, largest // 2))
    where = draw(placements(head_dim, rope_type))
    given = draw(parameters(rope_type, where.get("rotary_dim", head_dim)))
    # What each name means, Rotary decides: here only that the owner follows it.
    rope = ropecli.rope(rope_type, head_dim=head_dim, rope_theta=draw(bases), **where, **given)
    if draw(st.booleans()) and rope_type == "default":
        rope = ropecli.Rotary(
            head_dim=head_dim,
            base=rope.base or 10_000.0,
            attention_factor=draw(st.floats(0.5, 2.0)),
            **where,
        )
    changing = rope_type in ("dynamic", "longrope")
    names = draw(st.permutations(["float32", "float64", "float16", "bfloat16"]))
    dtypes = tuple(names[: draw(st.integers(1, 4))])
    if rope.reorders or rope.layout == "custom":
        # Half precision alone does not show which slow coordinates belong together.
        dtypes = tuple(dict.fromkeys((*dtypes, "float32")))
    return Convention(
        rope=rope,
        at_length=by_length(rope, rope_type, where, given) if changing else None,
        table=draw(st.sampled_from([np.float64, np.float32])),
        own_dtype=draw(st.booleans()),
        told=draw(st.booleans()),
        original=ORIGINAL if changing and draw(st.booleans()) else None,
        dtypes=dtypes,
        context=draw(st.sampled_from([None, 131_072, 8192, 2048])),
        seed=draw(st.integers(0, 999)),
    )


def by_length(
    rope: ropecli.Rotary, rope_type: str, where: dict[str, Any], given: dict[str, Any]
) -> Callable[[int], ropecli.Rotary]:
    """The table of each length of the sequence."""
    base = dict(rope.parameters)["base"]
    return lambda length: ropecli.rope(
        rope_type,
        head_dim=rope.head_dim,
        rope_theta=base,
        sequence_length=length,
        **where,
        **given,
    )


@st.composite
def placements(draw: st.DrawFn, head_dim: int, rope_type: str) -> dict[str, Any]:
    """The coordinates that are rotated, their pairs, where they are written and which way."""
    where: dict[str, Any] = {"direction": draw(st.sampled_from(["forward", "reversed"]))}
    pairs = head_dim // 2
    if rope_type not in (*OF_WHOLE_HEADS, "axial") and draw(st.booleans()):
        pairs = draw(st.integers(1 if rope_type == "default" else 2, head_dim // 2))
        where["rotary_dim"] = 2 * pairs
    room = head_dim - 2 * pairs
    offset = draw(st.sampled_from([0, room, room // 2]))  # first, trailing, middle
    how = draw(st.sampled_from(["interleaved", "half", "any", "reordered", "elsewhere"]))
    if how in ("interleaved", "half"):
        where |= {"layout": how, "rotary_offset": offset}
    elif how == "reordered":  # interleaved in, half-split out, as in DeepSeek
        coordinates = offset + np.arange(2 * pairs)
        where["pairs_in"] = coordinates.reshape(-1, 2)
        where["pairs_out"] = coordinates.reshape(2, -1).T
    else:
        random = np.random.default_rng(draw(st.integers(0, 999)))
        chosen = random.permutation(head_dim)[: 2 * pairs]
        where["pairs_in"] = chosen.reshape(-1, 2)
        if how == "elsewhere":
            where["pairs_out"] = random.permutation(chosen).reshape(-1, 2)
    return where


@st.composite
def parameters(  # noqa: PLR0911
    draw: st.DrawFn, rope_type: str, rotary_dim: int
) -> dict[str, Any]:
    """Parameters of the rope type."""
    given: dict[str, Any] = {}
    if rope_type == "default":
        return given
    if rope_type == "axial":
        pairs = rotary_dim // 2
        axes = next((n for n in (3, 2) if pairs % n == 0), 1)
        return {"axes": axes, "take_turns": draw(st.booleans())}
    if rope_type in OF_WHOLE_HEADS:
        return {OF_WHOLE_HEADS[rope_type]: draw(st.sampled_from([0.25, 0.5, 0.75, 1.0]))}
    if rope_type == "dynamic":
        return {"factor": draw(factors), "max_position_embeddings": ORIGINAL}
    if rope_type == "longrope":
        random = np.random.default_rng(draw(st.integers(0, 999)))
        short = np.sort(random.uniform(1, 2, rotary_dim // 2)).tolist()
        long = np.sort(random.uniform(1, 40, rotary_dim // 2)).tolist()
        return {
            "short_factor": short,
            "long_factor": long,
            "original_max_position_embeddings": ORIGINAL,
            "max_position_embeddings": ORIGINAL * draw(st.sampled_from([2, 8, 32])),
        }
    given["factor"] = draw(factors)
    if rope_type in ("linear", "ntk", "ntk_mixed"):
        return given
    given["original_max_position_embeddings"] = draw(st.sampled_from([1024, 4096, 8192]))
    if rope_type == "llama3":
        low = draw(st.floats(0.5, 2.0))
        return given | {"low_freq_factor": low, "high_freq_factor": low * draw(st.floats(2.0, 6.0))}
    if rope_type == "yarn" and draw(st.booleans()):
        given |= {"truncate": draw(st.booleans()), "attention_factor": draw(st.floats(0.5, 2.0))}
    return given
