"""The result of an identification."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ropecli.results import Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from ropecli.rotary import Rotary


@dataclass(frozen=True, kw_only=True)
class Match:
    """A known RoPE, compared with the one that was recovered."""

    name: str  #: A rope type with its parameters, or a model's file and layer.
    max_phase_error: float  #: Largest |m| * |delta inv_freq| over the rows, radians, unwrapped.
    matches: bool  #: Whether it is within what the data can distinguish.


@dataclass(frozen=True, kw_only=True, eq=False)
class Identification(Result, view="identify"):
    """The RoPE recovered from vectors before and after it, with its uncertainty.

    If no rotation by position was recognised, `reason` says why, and fields that do not apply are
    None.
    """

    recognised: bool  #: Whether a rotation by position explains the data.
    reason: str | None = None  #: Why not, in a sentence.
    dtype: str  #: Dtype of the vectors after.
    rows: int  #: Positions seen.
    vectors: int  #: Rows times heads and batches.
    layout: str | None = None  #: "interleaved", "half" or "custom".
    rotary_dim: int | None = None  #: Coordinates that are rotated.
    rotary_offset: int | None = None  #: First of them.
    direction: str | None = None  #: "forward" or "reversed".
    base: float | None = None  #: Base of the geometric table; None if it has none.
    attention_factor: float | None = None  #: |after| / |before| of the rotated part.
    position_offset: float | None = None  #: Positions are offset + step * those given,
    position_step: float | None = None  #: or, if none were given, * 0, 1, 2, ...
    rope_type: str | None = None  #: Rope type of the best match; "custom" if none fits.
    parameters: Mapping[str, Any] = field(default_factory=dict)  #: For `rope(rope_type, ...)`.
    inv_freq: NDArray[np.float64] | None = None  #: (rotary_dim/2,), radians per position.
    uncertainty: NDArray[np.float64] | None = None  #: Standard deviation of each as measured.
    undetermined: tuple[int, ...] = ()  #: Pairs too slow to be distinguished from static ones.
    positions_needed: int | None = None  #: Positions that would show them.
    axis: tuple[int, ...] | None = None  #: Coordinate of the position that rotates each pair.
    max_residual: float | None = None  #: Largest error left, in ulp of dtype of a pair's length.
    precision: str | None = None  #: What was rounded, such as "bfloat16 positions", or "exact".
    matches: tuple[Match, ...] = ()  #: Known RoPEs, best first.
    notes: tuple[str, ...] = ()  #: What these data cannot decide, a sentence each.
    rotary: Rotary | None = None  #: With `positions`, rotates before into after.
    positions: NDArray[np.float64] | None = None  #: As `rotate` takes them.
