"""The options with which other commands make the rotation that `identify` found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.checks.identify import Identification
from ropecli.errors import RopecliError
from ropecli.render.labels import shortest_repr
from ropecli.rotary import Rotary
from ropecli.rotary import rope as by_name
from ropecli.rotary.pairs import interleaved_axes, sectioned_axes
from ropecli.rotary.types import PLAIN
from ropecli.rotary.types.yarn import yarn

#: Relative difference up to which two attention factors are the same.
FACTOR = 1e-6
SURE = 4  #: Standard deviations that a measured frequency may be off by.
#: Parameters that usually follow from the others.
FOLLOWING = ("attention_factor", "axis_order")
#: Keywords of `ropecli.rope` that have an option of their own.
OPTIONS = {
    "head_dim": "--dim",
    "layout": "--layout",
    "rope_theta": "--base",
    "rotary_dim": "--rotary-dim",
    "rotary_offset": "--rotary-offset",
}


def flags(
    result: Identification, models: Mapping[str, Sequence[str]] | None = None
) -> list[str] | None:
    """Return the options that describe the rotation, without positions; None if there are none."""
    if result.rotary is None:
        return None
    for keywords in _attempts(result.rotary):
        if _reproduces(keywords, result.rotary, result.uncertainty):
            return _spell(keywords)
    same = [match.name for match in result.matches if match.matches]
    return next((list(model) for name, model in (models or {}).items() if name in same), None)


def _attempts(rope: Rotary) -> list[dict[str, Any]]:
    """Return keywords of `ropecli.rope` worth a try, the shortest first."""
    formula = rope.formula
    if formula is None:
        return []
    where = _where(rope, formula["dim"])
    where["rope_theta"] = formula["base"]
    where["rope_type"] = formula.rope_type
    parameters = {
        name: value
        for name, value in formula.own.items()
        if name not in formula.defaults or (value is not None and value != formula.defaults[name])
    }
    attempts = [
        where | {name: parameters[name] for name in parameters if name not in FOLLOWING},
        where | parameters,
    ]
    if formula.is_plain:
        # YaRN that stretches nothing is the plain table with a factor of its own.
        factor = {"factor": 1.0, "original_max_position_embeddings": 4096}
        factor["attention_factor"] = rope.attention_factor
        attempts.append(where | {"rope_type": yarn.__name__} | factor)
    return attempts


def _where(rope: Rotary, dim: int) -> dict[str, Any]:
    """Return the keywords for coordinates, direction and axes."""
    options: dict[str, Any] = {"head_dim": rope.head_dim}
    if rope.layout == "custom":
        options["pairs_in"] = rope.pairs_in.tolist()
    else:
        options["layout"] = rope.layout
        if rope.rotary_offset:
            options["rotary_offset"] = rope.rotary_offset
    if rope.reorders:
        options["pairs_out"] = rope.pairs_out.tolist()
    if dim != rope.head_dim:
        options["rotary_dim"] = dim
    if rope.direction != "forward":
        options["direction"] = rope.direction
    by_formula = rope.formula is not None and rope.formula.sets_axes
    if rope.axes > 1 and rope.axis is not None and not by_formula:
        options |= _axes(rope.axis, rope.axes)
    return options


def _axes(axis: tuple[int, ...], axes: int) -> dict[str, Any]:
    section = [axis.count(dimension) for dimension in range(axes)]
    if sectioned_axes(section, len(axis)) == axis:
        return {"mrope_section": section}
    if interleaved_axes(section, len(axis)) == axis:
        return {"mrope_section": section, "mrope_interleaved": True}
    return {"axis": list(axis)}


def _reproduces(
    keywords: dict[str, Any], rope: Rotary, uncertainty: NDArray[np.float64] | None
) -> bool:
    """Return whether keywords make the rotation that was found, as far as it was measured."""
    try:
        made = by_name(**keywords)
    except RopecliError:
        return False
    unsure = 0.0 if uncertainty is None else SURE * uncertainty
    return (
        made.input_pairs == rope.input_pairs
        and made.output_pairs == rope.output_pairs
        and made.direction == rope.direction
        and made.axis == rope.axis
        and _equal_tables(made, rope, unsure)
        and abs(made.attention_factor / rope.attention_factor - 1) <= FACTOR
    )


def _equal_tables(made: Rotary, rope: Rotary, unsure: NDArray[np.float64] | float) -> bool:
    table = rope.diagonal_inv_freq
    return bool(np.all(np.abs(made.diagonal_inv_freq - table) <= 1e-12 * table + unsure))


def _spell(keywords: dict[str, Any]) -> list[str]:
    """Return keywords of `ropecli.rope` as options of a command line."""
    options = []
    for name, option in OPTIONS.items():
        if name in keywords:
            options += [option, _value(keywords[name])]
    if keywords["rope_type"] != PLAIN:
        options += ["--rope-type", keywords["rope_type"]]
    for name, value in keywords.items():
        if name not in OPTIONS and name != "rope_type":
            options += ["--set", f"{name}={_value(value)}"]
    return options


def _value(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return shortest_repr(float(value))
    return value if isinstance(value, str) else json.dumps(value)
