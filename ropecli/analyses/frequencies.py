"""Frequency and wavelength of each pair, and how much of a turn it makes within a context."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.encoding_result import EncodingResult
from ropecli.numbers import length, positive
from ropecli.rotary.rotary import Rotary, check_rope

TURN = 2 * math.pi  #: Radians.


@dataclass(frozen=True, kw_only=True, eq=False)
class FrequencyTable(EncodingResult):
    """Frequencies of an encoding's pairs, and their turns within a context."""

    context_length: int  #: L, in positions.
    trained_length: int  #: Positions before frequencies were scaled, for the critical dim.
    wavelength: NDArray[np.float64]  #: Positions per turn, infinite where it never turns, (pairs,).
    turns: NDArray[np.float64]  #: L over wavelength, (pairs,).
    angle: NDArray[np.float64]  #: Radians covered, L |theta_i| up to 2 pi, (pairs,).
    trained_turns: float  #: Turns n that a pair must complete in training, for the critical dim.
    critical_dim: int | None  #: 2 ceil(d/2 log_b(T / 2 pi n)), T as trained; None if no base.

    @property
    def inv_freq(self) -> NDArray[np.float64]:
        """theta_i, radians per position, (pairs,); the norm where several axes rotate a pair."""
        rope = self.rope
        return rope.inv_freq_norm if rope.axis is None else rope.diagonal_inv_freq

    @property
    def degrees_per_token(self) -> NDArray[np.float64]:
        """theta_i in degrees, (pairs,)."""
        return np.degrees(self.inv_freq)

    @property
    def incomplete(self) -> tuple[int, ...]:
        """Pairs that turn, but never complete a turn within the context."""
        return tuple(np.flatnonzero((self.turns > 0) & (self.turns < 1)).tolist())

    @property
    def still(self) -> tuple[int, ...]:
        """Pairs that never turn: their frequency is 0."""
        return tuple(np.flatnonzero(self.turns == 0).tolist())

    @property
    def slowest(self) -> int | None:
        """The pair with the longest finite wavelength; None if no pair turns."""
        turning = np.where(self.turns > 0, self.turns, np.inf)
        return int(turning.argmin()) if self.turns.any() else None

    @property
    def granularity(self) -> float:
        """Mean over the pairs of sin theta_i, by which neighbouring positions differ.

        Xiong et al. 2023 (arXiv:2309.16039), App. B, for vectors whose coordinates are all equal.
        """
        return float(np.sin(self.inv_freq).mean())

    @property
    def neighbour_cosine(self) -> float:
        """Mean over the pairs of cos theta_i: the cosine of neighbouring positions' vectors."""
        return float(np.cos(self.inv_freq).mean())


def frequency_table(
    rope: Rotary,
    *,
    context_length: int = 4096,
    trained_length: int | None = None,
    trained_turns: float = 1.0,
    name: str | None = None,
) -> FrequencyTable:
    """Compare each pair's wavelength, 2 pi / theta_i positions, with a context length.

    theta_i = base^(-2i/d), or what a rope type makes of it (RoFormer Eq. 15).
    Pairs from the critical dim on have not completed a turn in training (Liu et al. 2023,
    arXiv:2310.05209; LongRoPE2 Eq. 7): longer contexts show them angles that they have never
    seen. It is counted from the base only, whatever scaling came later.

    Args:
        rope: The encoding.
        context_length: L, in positions.
        trained_length: Context length of the training with the unscaled base, for the critical
            dim; L by default.
        trained_turns: Turns that a pair must complete in training to count for the critical dim.
        name: Name of the encoding, such as a model's.

    Raises:
        ArgumentError: A length or a number of turns out of range.
        ArgumentTypeError: A length that is not a whole number, or turns that are not a number.
    """
    check_rope(rope)
    context = length("context length", context_length)
    trained = context if trained_length is None else length("trained length", trained_length)
    turns = positive("trained turns", trained_turns)
    angle = context * rope.inv_freq_norm
    return FrequencyTable(
        rope=rope,
        name=name,
        context_length=context,
        trained_length=trained,
        wavelength=rope.wavelength,
        turns=angle / TURN,
        angle=np.minimum(angle, TURN),
        trained_turns=turns,
        critical_dim=_critical_dim(rope, trained, turns),
    )


def _critical_dim(rope: Rotary, trained: int, turns: float) -> int | None:
    """Return twice the number of pairs that complete that many turns in training.

    For one turn that is the papers' formula: lambda_i < T means i < d/2 log_b(T / 2 pi), and the
    whole numbers from 0 below x are ceil(x). Pairs that never turn do not count.
    """
    if rope.formula is None or rope.formula.sets_axes:
        return None
    unscaled = rope.formula.unscaled.table().inv_freq[: rope.rotary_dim // 2]
    return 2 * int(np.count_nonzero((unscaled * trained > TURN * turns) & (rope.inv_freq_norm > 0)))
