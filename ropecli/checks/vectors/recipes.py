"""Rotations with golden vectors: each rope type in both layouts, and conventions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES
from ropecli.checks.vectors.case import (
    GROWING_ROUNDINGS,
    ROUNDINGS,
    Case,
    Turns,
    rotate_heads,
    sample,
    stagger,
)
from ropecli.reference import frequencies
from ropecli.reference.factors import factors
from ropecli.reference.rotation import pairs_of

HEAD_DIM = 16
HEADS = 2
LAYOUTS = ("interleaved", "half")
#: The first few, the ends of common contexts, and what a float32 or an int32 can't hold.
POSITIONS = (0, 1, 2, 7, 300, 4095, 4096, 131_071, 1_000_003, 2**31)
#: Where xPos has neither vanished nor overflowed in float16.
XPOS_POSITIONS = (0, 1, 2, 7, 100, 255, 256, 511, 512, 1024)

_STRETCH: dict[str, Any] = {"factor": 16.0, "original_max_position_embeddings": 4096}
_LISTS: dict[str, Any] = {
    "short_factor": [1.0, 1.02, 1.05, 1.1, 1.2, 1.4, 1.7, 2.0],
    "long_factor": [1.0, 1.3, 2.0, 4.0, 9.0, 20.0, 40.0, 64.0],
    "original_max_position_embeddings": 4096,
    "max_position_embeddings": 131_072,
}
_LLAMA3: dict[str, Any] = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
_DYNAMIC: dict[str, Any] = {"factor": 4.0, "max_position_embeddings": 4096}
_XPOS: dict[str, Any] = {"scale_base": 512.0, "gamma": 0.4}
#: Parameters of each rope type's own.
TYPES: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"factor": 8.0},
    "ntk": {"factor": 8.0},
    "ntk_mixed": {"factor": 8.0, "mixed_b": 0.625},
    "dynamic": _DYNAMIC | {"sequence_length": 16_384},
    "ntk_by_parts": _STRETCH,
    "yarn": _STRETCH,
    "deepseek_yarn": _STRETCH | {"factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.707},
    "telechat3_yarn": _STRETCH,
    "longrope": _LISTS | {"sequence_length": 4097},
    "llama3": _LLAMA3 | {"rope_theta": 500_000.0},
    "p_rope": {"p": 0.75},
    "proportional": {"partial_rotary_factor": 0.25, "rope_theta": 1_000_000.0},
    "axial": {"axes": 2},
    "xpos": _XPOS,
}
#: The axis of each of 8 pairs, written out.
_AXIAL = (0, 0, 0, 0, 1, 1, 1, 1)
_SECTIONS = (0, 0, 0, 0, 1, 1, 2, 2)
_TURNS = (0, 1, 2, 0, 1, 2, 0, 0)
#: Rope type, parameters, the axis of each pair.
_Kind = tuple[str, dict[str, Any], tuple[int, ...] | None]
#: Conventions by name, each in both layouts.
CONVENTIONS: dict[str, _Kind] = {
    "large_base": ("default", {"rope_theta": 5_000_000.0}, None),
    "partial": ("default", {"rotary_dim": 8}, None),
    "trailing": ("default", {"rotary_dim": 8, "rotary_offset": 8}, None),
    "middle": ("default", {"rotary_dim": 8, "rotary_offset": 4}, None),
    "reversed": ("default", {"direction": "reversed"}, None),
    "dynamic_short": ("dynamic", _DYNAMIC | {"sequence_length": 4096}, None),
    "longrope_short": ("longrope", _LISTS | {"sequence_length": 4096}, None),
    "yarn_untruncated": ("yarn", _STRETCH | {"truncate": False}, None),
    "mrope": ("default", {"mrope_section": [4, 2, 2]}, _SECTIONS),
    "mrope_interleaved": (
        "default",
        {"mrope_section": [4, 2, 2], "mrope_interleaved": True},
        _TURNS,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Parameters of one case."""

    name: str
    rope_type: str
    parameters: Mapping[str, Any]  #: Of `ropecli.rope`, the rope type apart.
    axis: tuple[int, ...] | None = None  #: The coordinate of the position that turns each pair.
    role: str = "query"  #: In xPos, a "key" grows as a "query" shrinks.

    @property
    def own(self) -> dict[str, Any]:
        """Parameters of the rope type's formula."""
        return {key: value for key, value in self.parameters.items() if key not in _COMMON}

    @property
    def dim(self) -> int:
        """The denominator of the exponents."""
        return int(self.parameters.get("rotary_dim", HEAD_DIM))

    @property
    def positions(self) -> tuple[int, ...]:
        """Positions of one axis."""
        return XPOS_POSITIONS if self.rope_type == "xpos" else POSITIONS


#: Parameters of `ropecli.rope` that no formula takes.
_COMMON = (
    *("head_dim", "rope_theta", "layout", "rotary_dim", "rotary_offset", "direction"),
    *("mrope_section", "mrope_interleaved", "pairs_in", "pairs_out"),
)


def recipes() -> Iterator[Recipe]:
    """Yield all of them, in the order of the files."""
    by_name: dict[str, _Kind] = {name: (name, own, None) for name, own in TYPES.items()}
    by_name["axial"] = ("axial", TYPES["axial"], _AXIAL)
    by_name |= {"xpos_keys": ("xpos", _XPOS, None), **CONVENTIONS}
    for layout in LAYOUTS:
        for name, (rope_type, recipe, axis) in by_name.items():
            yield Recipe(
                name=f"{name}-{layout}",
                rope_type=rope_type,
                parameters={"head_dim": HEAD_DIM, "layout": layout} | recipe,
                axis=axis,
                role="key" if name == "xpos_keys" else "query",
            )
    # Pairs read in one layout and written in the other, as Transformers' DeepSeek-V3 does.
    read, written = (pairs_of(layout, HEAD_DIM).tolist() for layout in LAYOUTS)
    parameters = {"head_dim": HEAD_DIM, "pairs_in": read, "pairs_out": written}
    yield Recipe(name="reordered", rope_type="default", parameters=parameters)


def rotation_case(recipe: Recipe, random: np.random.Generator) -> Case:
    """Return the case of a recipe."""
    given = recipe.parameters
    base = float(given.get("rope_theta", 10_000.0))
    exact = getattr(frequencies, recipe.rope_type)(dim=recipe.dim, base=base, **recipe.own)
    inv_freq = np.array([float(theta) for theta in exact])
    pairs = pairs_of(given.get("layout", ""), 2 * len(inv_freq), given.get("rotary_offset", 0))
    brings = factors(recipe.rope_type, dim=recipe.dim, **recipe.own)
    growth = None
    if brings.growth is not None:
        growth = [float(rate) * (-1 if recipe.role == "key" else 1) for rate in brings.growth]
    facts: dict[str, Any] = {
        "parameters": {"rope_type": recipe.rope_type, **given},
        "role": recipe.role,
        "direction": given.get("direction", "forward"),
        "pairs_in": given.get("pairs_in", pairs.tolist()),
        "pairs_out": given.get("pairs_out", pairs.tolist()),
        "axis": None if recipe.axis is None else list(recipe.axis),
        "attention_factor": float(brings.attention),
        "softmax_factor": float(brings.softmax),
        "growth": growth,
        "roundings": ROUNDINGS if growth is None else GROWING_ROUNDINGS,
    }
    positions = stagger(np.array(recipe.positions), 1 + max(recipe.axis or (0,)))
    x = sample(random, (HEADS, len(positions), HEAD_DIM))
    x[0] = np.arange(1, HEAD_DIM + 1)  # every dtype holds these, too
    turns = Turns.of_case(positions.astype(np.float64), inv_freq, facts)
    pairs_in, pairs_out = np.array(facts["pairs_in"]), np.array(facts["pairs_out"])
    rotated = rotate_heads(x[None], [turns], pairs_in, pairs_out, tuple(DTYPES))
    arrays: dict[str, NDArray[Any]] = {"positions": positions, "inv_freq": inv_freq, "x": x}
    arrays |= {f"y.{dtype}": y[0] for dtype, y in rotated.items()}
    return Case(name=recipe.name, kind="rotation", facts=facts, arrays=arrays)
