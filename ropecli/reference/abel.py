"""Scores and their bounds by Abel summation, RoFormer Eq. 35-37, in mpmath.

h_i = q_i conj(k_i) on the pairs seen as complex numbers; S_j(r) = sum_{i<j} e^{i r theta_i}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpmath import mp, mpc, mpf

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIGITS = 40


def partial_sums(distance: float, inv_freq: NDArray[np.float64]) -> list[Any]:
    """S_1 ... S_{d/2} at one relative distance."""
    with mp.workdps(DIGITS):
        sums, total = [], mpc(0)
        for theta in inv_freq:
            total += mp.expj(mpf(float(distance)) * mpf(float(theta)))
            sums.append(total)
        return sums


def relative_upper_bound(distance: float, inv_freq: NDArray[np.float64]) -> Any:
    """Figure 2: the mean of |S_j| over j."""
    with mp.workdps(DIGITS):
        return sum(abs(s) for s in partial_sums(distance, inv_freq)) / len(inv_freq)


def products(q: NDArray[np.float64], k: NDArray[np.float64], pairs: NDArray[np.int64]) -> list[Any]:
    """h_0 ... h_{d/2-1} of two vectors (head_dim,)."""
    with mp.workdps(DIGITS):
        return [mpc(float(q[a]), float(q[b])) * mpc(float(k[a]), -float(k[b])) for a, b in pairs]


def score(distance: float, inv_freq: NDArray[np.float64], h: list[Any]) -> Any:
    """Eq. 35: Re sum_i h_i e^{i r theta_i}, term by term."""
    with mp.workdps(DIGITS):
        turns = [mp.expj(mpf(float(distance)) * mpf(float(theta))) for theta in inv_freq]
        return mp.re(sum((a * b for a, b in zip(h, turns, strict=True)), mpc(0)))


def score_by_parts(distance: float, inv_freq: NDArray[np.float64], h: list[Any]) -> Any:
    """Eq. 36: the same score as -Re sum_i S_{i+1} (h_{i+1} - h_i), with h_{d/2} = 0."""
    with mp.workdps(DIGITS):
        sums = partial_sums(distance, inv_freq)
        steps = [after - before for before, after in zip(h, [*h[1:], mpc(0)], strict=True)]
        return -mp.re(sum((s * step for s, step in zip(sums, steps, strict=True)), mpc(0)))


def bounds(distance: float, inv_freq: NDArray[np.float64], h: list[Any]) -> tuple[Any, Any]:
    """Eq. 37: sum |S_{i+1}| |h_{i+1} - h_i|, and max |h_{i+1} - h_i| times sum |S_{i+1}|."""
    with mp.workdps(DIGITS):
        sizes = [abs(s) for s in partial_sums(distance, inv_freq)]
        steps = [abs(after - before) for before, after in zip(h, [*h[1:], mpc(0)], strict=True)]
        abel = sum(size * step for size, step in zip(sizes, steps, strict=True))
        return abel, max(steps) * sum(sizes)
