"""What a law is, what it is judged on, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Check:
    """The verdict on one law in one dtype and layout."""

    name: str  #: The law.
    equation: str  #: Where RoFormer states it.
    dtype: str  #: Arithmetic that was checked.
    layout: str  #: Layout that was checked.
    expected: Literal["holds", "fails"]  #: What theory says.
    passed: bool | None  #: Whether that was found; None where the law does not apply.
    max_error: float  #: Error of the sample that came closest to its tolerance, or passed it.
    tolerance: float  #: Tolerance of that sample.
    samples: int  #: Samples judged.
    because: str  #: Where the tolerance comes from.
    counterexample: str | None = None  #: On failure, a case small enough to type in.
    note: str | None = None  #: What a failure, or the lack of a verdict, means.

    @property
    def share(self) -> float:
        """The error as a share of its tolerance: above 1 is too much."""
        if self.tolerance > 0:
            return self.max_error / self.tolerance
        return 0.0 if self.max_error == 0 else float("inf")


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Vectors and positions that a law is judged on; one row each."""

    q: NDArray[np.float64]  #: (count, head_dim), values that the dtype holds exactly.
    k: NDArray[np.float64]  #: (count, head_dim), likewise.
    m: NDArray[np.float64]  #: Positions of q, (count,).
    n: NDArray[np.float64]  #: Positions of k, (count,).
    shift: NDArray[np.float64]  #: Positions to move both by, (count,).

    def rows(self, index: NDArray[Any] | slice) -> Sample:
        """The chosen rows."""
        return Sample(
            q=self.q[index],
            k=self.k[index],
            m=self.m[index],
            n=self.n[index],
            shift=self.shift[index],
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Judgement:
    """What was got and expected, a row a sample, and how far apart they may be."""

    got: NDArray[np.float64]  #: (count,) or (count, width).
    expected: NDArray[np.float64]  #: As got.
    error: NDArray[np.float64]  #: (count,), at least 0.
    tolerance: NDArray[np.float64]  #: (count,), at least 0.

    @property
    def share(self) -> NDArray[np.float64]:
        """Error over tolerance; not a number counts as infinite."""
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(self.error == 0, 0.0, self.error / self.tolerance)
        return np.where(np.isnan(share), np.inf, share)


@dataclass(frozen=True, kw_only=True)
class Law:
    """A statement about rotations that can be put to numbers."""

    name: str  #: A word or two.
    equation: str  #: Where RoFormer states it.
    because: str  #: Where the tolerance comes from.
    judge: Callable[[Any, Sample], Judgement]  #: Puts it to a subject and a prepared sample.
    prepare: Callable[[Any, Sample], Sample] = lambda _, sample: sample  #: What it is judged on.
    uses: tuple[str, ...]  #: Fields of the sample that a counterexample must show.
    dtypes: tuple[str, ...] | None = None  #: Dtypes in which it says anything; None for all.
