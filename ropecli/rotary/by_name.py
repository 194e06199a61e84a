"""Any rope type by name, with its parameters named as in config.json."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.errors import ArgumentError, RopecliError
from ropecli.numbers import even, number, positive, shown
from ropecli.rotary.axes import in_sections, interleaved
from ropecli.rotary.rotary import Rotary
from ropecli.rotary.types import canonical, formula, own_parameters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from ropecli.rotary.frequencies import Table

#: Arguments of the formulas that go by other names here, as in config.json.
_NAMED = {"base": "rope_theta", "dim": "head_dim or rotary_dim"}


def rope(
    rope_type: str,
    *,
    head_dim: int,
    rope_theta: float = 10_000.0,
    rotary_dim: int | None = None,
    partial_rotary_factor: float | None = None,
    rotary_offset: int = 0,
    layout: str = "interleaved",
    direction: str = "forward",
    softmax_factor: float | None = None,
    mrope_section: Sequence[int] | None = None,
    mrope_interleaved: bool = False,
    axis: ArrayLike | None = None,
    pairs_in: ArrayLike | None = None,
    pairs_out: ArrayLike | None = None,
    **parameters: Any,
) -> Rotary:
    """A rotary embedding of any type.

    Args:
        rope_type: A file of `ropecli.rotary.types`, such as "yarn"; "su" is "longrope".
        head_dim: Coordinates of one head's vector, even, at least 2.
        rope_theta: The base, under its name in config.json.
        rotary_dim: Coordinates that are rotated, even; all of head_dim by default.
        partial_rotary_factor: Their share of head_dim instead; an odd number of them is rounded
            up, the exponents keep it. Proportional RoPE takes it as its own.
        rotary_offset: First rotated coordinate.
        layout: "interleaved" or "half".
        direction: "forward" or "reversed".
        softmax_factor: Multiplies the score; what the type says by default.
        mrope_section: Pairs of each axis of the positions (M-RoPE).
        mrope_interleaved: Whether the axes take turns, instead of one run of pairs each.
        axis: The axis of each pair, where no sections say it.
        pairs_in: As in `Rotary`.
        pairs_out: As in `Rotary`.
        **parameters: The type's own: factor, original_max_position_embeddings, ...

    Raises:
        ArgumentError: No such type or parameter, one that is missing, or a value not allowed.
        ArgumentTypeError: A parameter of the wrong type.
    """
    name = canonical(rope_type)
    head_dim = even("head dim", head_dim)
    base = positive("base", rope_theta)
    if partial_rotary_factor is not None and "partial_rotary_factor" in own_parameters(name):
        parameters["partial_rotary_factor"] = partial_rotary_factor
        partial_rotary_factor = None
    dim = _dim(head_dim, rotary_dim, partial_rotary_factor)
    for key, named in _NAMED.items():
        if key in parameters:
            msg = f"rope type {name} has no parameter {key!r}; give it as {named}"
            raise ArgumentError(msg)
    arguments = {"dim": dim, "base": base} | parameters
    table = _table(name, arguments)
    if not np.isfinite(table.inv_freq).all():
        msg = f"rope type {name}: no finite frequencies of base {base:g} and its parameters"
        raise ArgumentError(msg)
    if axis is not None and mrope_section is not None:
        msg = "axis and mrope_section both say which axis turns a pair: give one of them"
        raise ArgumentError(msg)
    if mrope_section is not None:
        share = interleaved if mrope_interleaved else in_sections
        axis = share(mrope_section, len(table.inv_freq))
    return Rotary.from_inv_freq(
        table.inv_freq,
        head_dim=head_dim,
        layout=layout,
        rotary_offset=rotary_offset,
        direction=direction,
        attention_factor=table.attention_factor,
        softmax_factor=table.softmax_factor if softmax_factor is None else softmax_factor,
        base=table.base or base,
        rope_type=name,
        parameters=arguments,
        axis=table.axis if axis is None else axis,
        growth=table.growth,
        pairs_in=pairs_in,
        pairs_out=pairs_out,
    )


def _dim(head_dim: int, rotary_dim: int | None, share: float | None) -> int:
    """The denominator of the exponents."""
    if rotary_dim is not None:
        return even("rotary dim", rotary_dim)
    if share is None:
        return head_dim
    coordinates = head_dim * number("partial_rotary_factor", share)
    if not 1 <= coordinates < head_dim + 1:
        msg = f"partial_rotary_factor must leave 1 to {head_dim} coordinates, got {share:g}"
        raise ArgumentError(msg)
    return int(coordinates)


def _table(name: str, arguments: dict[str, Any]) -> Table:
    make = formula(name)
    known = inspect.signature(make).parameters
    unknown = [key for key in arguments if key not in known]
    missing = [key for key, p in known.items() if p.default is p.empty and key not in arguments]
    if unknown or missing:
        wrong = f"has no parameter {', '.join(unknown)}" if unknown else f"needs {missing[0]}"
        allowed = ", ".join(own_parameters(name)) or "none"
        msg = f"rope type {name} {wrong}; its parameters are {allowed}"
        raise ArgumentError(msg)
    try:
        with np.errstate(all="ignore"):  # what overflows is refused in a line
            return make(**arguments)
    except RopecliError:
        raise
    except (ArithmeticError, ValueError):  # of math: a logarithm of 0, a power beyond every float
        given = ", ".join(f"{key}={shown(value)}" for key, value in arguments.items())
        msg = f"rope type {name}: its formula has no finite value for {given}"
        raise ArgumentError(msg) from None
