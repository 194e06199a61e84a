"""What was found out about a rotation from vectors before and after it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from ropecli.rotary import Rotary


@dataclass(frozen=True, kw_only=True)
class Match:
    """A known RoPE beside what was found."""

    name: str  #: A rope type with its parameters, or a model's file and layer.
    max_phase_error: float  #: Largest |m| * |delta inv_freq| over the rows, radians, unwrapped.
    matches: bool  #: Whether it is within what the data can tell.


@dataclass(frozen=True, kw_only=True, eq=False)
class Identification:
    """Which RoPE made one array of vectors from another, and how sure that is.

    What was not recognised has None wherever there is nothing to say.
    """

    recognised: bool  #: Whether a rotation by position explains the data.
    reason: str | None = None  #: Why not, in a sentence.
    dtype: str  #: Of the vectors after.
    rows: int  #: Positions seen.
    vectors: int  #: Rows times heads and batches.
    layout: str | None = None  #: "interleaved", "half" or "custom".
    rotary_dim: int | None = None  #: Coordinates that are rotated.
    rotary_offset: int | None = None  #: First of them.
    direction: str | None = None  #: "forward" or "reversed".
    base: float | None = None  #: Of the geometric table; None where there is none.
    attention_factor: float | None = None  #: |after| / |before| of the rotated part.
    position_offset: float | None = None  #: Positions are offset + step * those given,
    position_step: float | None = None  #: or, where none were given, * 0, 1, 2, ...
    rope_type: str | None = None  #: Of the best match; "custom" where none fits.
    parameters: Mapping[str, Any] = field(default_factory=dict)  #: For `rope(rope_type, ...)`.
    inv_freq: NDArray[np.float64] | None = None  #: (rotary_dim/2,), radians per position.
    uncertainty: NDArray[np.float64] | None = None  #: Of each as measured, radians per position.
    undetermined: tuple[int, ...] = ()  #: Pairs too slow to be told apart from standing still.
    positions_needed: int | None = None  #: Positions with which they would be.
    axis: tuple[int, ...] | None = None  #: Coordinate of the position that turns each pair.
    max_residual: float | None = None  #: Largest error left, in ulp of dtype of a pair's length.
    precision: str | None = None  #: What was rounded, such as "bfloat16 positions", or "exact".
    matches: tuple[Match, ...] = ()  #: Known RoPEs, best first.
    notes: tuple[str, ...] = ()  #: What can't be told from these data, a sentence each.
    rotary: Rotary | None = None  #: With `positions`, turns before into after.
    positions: NDArray[np.float64] | None = None  #: As `rotate` takes them.
