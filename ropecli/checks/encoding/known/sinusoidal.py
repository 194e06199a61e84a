"""Sinusoidal tables (RoFormer Eq. 4, Vaswani et al. 2017), of one coordinate and of a grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array
from ropecli.checks.encoding.asked import Asked
from ropecli.checks.encoding.reading import Difference, Reading, Values

BASE = 10_000.0
#: Columns of sines and cosines.
ORDERS: dict[str, Difference] = {
    "interleaved": Difference("", ""),
    "sin | cos": Difference("all sines before all cosines", "tensor2tensor, fairseq, Whisper"),
    "cos | sin": Difference("all cosines before all sines", "diffusers, MusicGen"),
    "cos, sin": Difference("sin and cos are exchanged"),
}
#: What tables are multiplied by, of the dim.
SIZES: dict[str, Difference] = {
    "1": Difference("", "", lambda dim: 1.0),
    "1/sqrt(d)": Difference("multiplied by 1/sqrt(d)", "x-transformers", lambda dim: dim**-0.5),
    "sqrt(2/d)": Difference("multiplied by sqrt(2/d)", "MLX", lambda dim: (2 / dim) ** 0.5),
    "sqrt(d)": Difference("multiplied by sqrt(d)", None, lambda dim: dim**0.5),
}
OVER_2 = Difference(
    "exponents are over d - 2", "tensor2tensor, fairseq, Whisper, diffusers, MusicGen"
)
#: What diffusion models multiply times from 0 to 1 by: rows do not show frequencies so large.
LARGE_STEP, OF_LARGE_STEP = 1000.0, "diffusers, Qwen2.5-Omni"
STARTS: dict[float, str] = {1: "DETR", 2: "fairseq, M2M100"}
#: Roundings of an angle: 2 of the exponent, times its size ln(10000) where it is exp of it, 4 of
#: quotient, power and product, and 1 of the sine; together below 24 of the angle.
ANGLE = 24.0
CLOSE = 3e-3  #: Relative change of a frequency that is no rounding in half precision.


@dataclass(frozen=True, kw_only=True)
class Sinusoids:
    """A table of sinusoids: what its numbers show."""

    order: str
    inv_freq: Array  #: Measured, (pairs,).
    start: float  #: Position of its first row.
    size: float  #: What sines and cosines are multiplied by.


def columns(order: str, dim: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the columns of sines and of cosines."""
    half = np.arange(dim // 2)
    first, second = (half, dim // 2 + half) if "|" in order else (2 * half, 2 * half + 1)
    return (second, first) if order.startswith("cos") else (first, second)


def theta(dim: int, exponent: str, base: float) -> Array:
    """Return the frequencies: base^(-2t/d), or base^(-2t/(d - 2))."""
    below = dim if exponent == "d" else dim - 2
    if not below:  # of one pair, nothing is over 0
        return np.full(1, np.nan)
    return np.asarray(base ** (-2 * np.arange(dim // 2) / below))


def table(
    positions: NDArray[Any], dim: int, order: str, inv_freq: Array, *, size: float = 1.0
) -> Values:
    """Return the codes of positions, (positions, dim); the last column of an odd dim is 0."""
    angles = positions[:, None] * inv_freq
    out, own, inner = np.zeros((3, len(positions), dim))
    sines, cosines = columns(order, dim)
    out[:, sines], out[:, cosines] = size * np.sin(angles), size * np.cos(angles)
    for place in (sines, cosines):
        own[:, place], inner[:, place] = 3 * abs(size), abs(size) * ANGLE * np.abs(angles)
    return out, own, inner


def measure(got: Array, positions: Array) -> Iterator[Sinusoids]:
    """Yield what a table's numbers may show, for each order of columns that explains them.

    Rows at positions p and p + 1 differ by a turn, by which frequencies are measured; rows further
    apart tell them more closely.
    """
    dim = got.shape[1] // 2 * 2
    steps = np.flatnonzero(np.diff(positions) == 1)
    if not dim or not len(steps) or not np.isfinite(got).all():
        return
    for order in ORDERS:
        sines, cosines = columns(order, dim)
        z = got[:, cosines] + 1j * got[:, sines]
        length = np.abs(z)
        size = float(np.median(length))
        if size == 0 or np.abs(length - size).max() > CLOSE * size:
            continue
        turn = np.angle((z[steps + 1] * z[steps].conj()).sum(axis=0))
        inv_freq = _refine(turn, z, positions)
        phase = np.angle((z * np.exp(-1j * positions[:, None] * inv_freq)).sum(axis=0))
        fast = np.abs(inv_freq) > 0.05
        start = float(np.median(phase[fast] / inv_freq[fast])) if fast.any() else 0.0
        yield Sinusoids(order=order, inv_freq=inv_freq, start=start, size=size)


def _refine(coarse: Array, z: NDArray[np.complex128], positions: Array) -> Array:
    """Return frequencies by rows that lie further and further apart."""
    theta, span = coarse, 1.0
    while span * 2 <= positions[-1] - positions[0]:
        span *= 2
        at = {float(p): i for i, p in enumerate(positions)}
        pairs = [(at[p], at[p + span]) for p in at if p + span in at]
        if pairs:
            one, other = np.array(pairs).T
            turned = (z[other] * z[one].conj()).sum(axis=0) * np.exp(-1j * span * theta)
            theta = theta + np.angle(turned) / span
    return np.asarray(theta)


@dataclass(frozen=True, kw_only=True)
class Formula:
    """The parameters of a table."""

    base: float
    order: str = "interleaved"
    exponent: str = "d"  #: What 2t is divided by: "d" or "d - 2".
    start: float = 0
    step: float = 1
    size: str = "1"  #: What sines and cosines are multiplied by, an expression of d.

    def reading(self, base: float, padding: tuple[int, ...] = ()) -> Reading:
        """Return the reading of it, with what differs from the definition.

        Args:
            base: That of the definition.
            padding: Positions whose rows are 0, at most one.
        """
        of_step = OF_LARGE_STEP if self.step == LARGE_STEP else None
        differences = {
            ORDERS[self.order]: True,
            OVER_2: self.exponent != "d",
            Difference(f"base {self.base:.6g}, expected {base:g}"): self.base != base,
            Difference(f"positions are multiplied by {self.step:.6g}", of_step): self.step != 1,
            Difference(f"positions start at {self.start:g}", STARTS.get(self.start)): self.start,
            SIZES.get(self.size) or Difference(f"multiplied by {self.size}"): True,
            Difference(
                f"row {', '.join(map(str, padding))} is zero, for padding", "fairseq"
            ): padding,
        }
        return Reading.of(
            partial(self._values, base, padding),
            *(difference for difference, differs in differences.items() if differs),
            base=self.base,
            order=self.order,
            exponent=self.exponent,
            start=self.start,
        )

    def _values(self, base: float, padding: tuple[int, ...], asked: Asked) -> Values:
        wanted = float(asked.setting("base", base)) if self.base == base else self.base
        inv_freq = self.step * theta(asked.dim, self.exponent, wanted)
        known = SIZES.get(self.size)
        size = float(self.size) if known is None else known.value(asked.dim)
        positions = asked.positions + self.start
        values, own, inner = table(positions, asked.dim, self.order, inv_freq, size=size)
        values[np.isin(asked.positions, padding)] = 0.0
        return values, own, inner


def explain(found: Sinusoids, base: float = BASE) -> list[Formula]:
    """Return the formulas that measured frequencies follow, those with the shortest base first.

    One base over d and another one over d - 2 are nearly the same, so numbers must decide.
    """
    measured = found.inv_freq
    dim = 2 * len(measured)
    fits = [
        (exponent, candidate, step)
        for candidate in _bases(measured, base)
        for step in (1.0, float(measured[0]))
        for exponent in ("d", "d - 2")
        if candidate > 0 and _alike(step * theta(dim, exponent, candidate), measured)
    ]
    fits.sort(key=lambda fit: (fit[1] != base, len(f"{fit[1]:.6e}".split("e")[0].rstrip("0"))))
    nearest = round(2 * found.start) / 2
    start = nearest if abs(found.start - nearest) < 0.02 else found.start
    sizes = {text: known.value(dim) for text, known in SIZES.items()}
    alike = (text for text, size in sizes.items() if abs(found.size - size) < CLOSE * size)
    size = next(alike, f"{found.size:.9g}")
    return [
        Formula(
            base=fitted, order=found.order, exponent=exponent, start=start, step=step, size=size
        )
        for exponent, fitted, step in fits
    ]


def _bases(measured: Array, base: float) -> list[float]:
    """Return the base expected, and that of the measured frequencies by either exponent."""
    pairs = len(measured)
    if pairs < 2 or measured[0] <= 0 or measured[1] <= 0:
        return [base]
    falls = math.log(measured[0] / measured[1])
    return [
        base,
        *(short_base(math.exp(falls * below / 2)) for below in (2 * pairs, 2 * pairs - 2)),
    ]


def short_base(base: float) -> float:
    """Return a measured base in as few digits as it is known to."""
    rough = float(f"{base:.3g}")
    return rough if abs(base - rough) < 2e-4 * base else base


def _alike(formula: Array, measured: Array) -> bool:
    """Return True if all frequencies are those of a formula, as far as they are measured."""
    return bool((np.abs(measured - formula) <= CLOSE * formula + 2e-6).all())


def readings(got: Array, asked: Asked) -> Iterator[Reading]:
    """Yield the definition, then what a table's own numbers show."""
    base = float(asked.setting("base", BASE))
    yield Formula(base=base).reading(base)
    blank = np.flatnonzero((got == 0).all(axis=1))
    kept = np.setdiff1d(np.arange(len(got)), blank)
    if len(blank) > 1 or len(kept) < 3:
        return
    for found in measure(got[kept], asked.positions[kept].astype(np.float64)):
        formulas = explain(found, base)
        yield from (formula.reading(base, tuple(asked.positions[blank])) for formula in formulas)
        if not formulas:
            yield _odd(found)
    for order, exponent in itertools.product(ORDERS, ("d", "d - 2")):
        yield Formula(base=base, order=order, exponent=exponent, step=LARGE_STEP).reading(base)


def _odd(found: Sinusoids) -> Reading:
    """Return a reading of frequencies that follow no formula."""
    measured, dim = found.inv_freq, 2 * len(found.inv_freq)
    twice = len(measured) > 2 and np.allclose(measured[0::2][: len(measured) // 2], measured[1::2])
    expected = theta(dim, "d", BASE)
    unlike = int(np.argmax(~(np.abs(measured - expected) <= CLOSE * expected)))
    said = f"frequency {unlike} is {measured[unlike]:.6g}, expected {expected[unlike]:.6g}"

    def compute(asked: Asked) -> Values:
        if asked.dim != dim:
            return (np.full((asked.length, asked.dim), np.nan),) * 3
        return table(asked.positions + found.start, dim, found.order, measured, size=found.size)

    return Reading(compute=compute, said="every frequency stands twice" if twice else said)


#: Positions that the last row and column of a grid may have.
ENDS = {"": 0.0, "16": 16.0, "2 pi": 2 * math.pi}


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The parameters of a table of a grid: a formula for each half of the columns."""

    first: str  #: What the first half has: "rows" or "columns".
    order: str  #: Of each half.
    exponent: str
    start: int
    ends: str  #: A name of `ENDS`.
    stacked: bool  #: Whether sines of both axes come before cosines of both.
    down: bool  #: Whether tokens go down the columns.

    def reading(self) -> Reading:
        """Return the reading of it."""
        rows, detr = self.first == "rows", "DETR" if self.order == "interleaved" else None
        of_ends = "DETR" if "pi" in self.ends else "diffusers"
        differences = {
            Difference("rows first", "AIMv2"): rows,
            Difference("columns first", "MAE"): not rows,
            Difference(f"order {self.order}", detr): self.order != "sin | cos",
            Difference("exponents are over d - 2"): self.exponent != "d",
            Difference(f"positions start at {self.start}", "DETR"): self.start,
            Difference(f"positions end at {self.ends}", of_ends): self.ends,
            Difference("sines of both axes before cosines", "timm"): self.stacked,
            Difference("tokens go down the columns", "OmDet-Turbo"): self.down,
        }
        found = [difference for difference, differs in differences.items() if differs]
        return Reading.of(self._values, *found, **vars(self))

    def _values(self, asked: Asked) -> Values:
        lines, across = np.indices((asked.height, asked.width)).astype(float) + self.start
        if self.ends:
            end = ENDS[self.ends]
            lines, across = lines * end / asked.height, across * end / asked.width
        if self.down:
            lines, across = lines.T, across.T
        half, base = asked.dim // 2, float(asked.setting("base", BASE))
        places = [across, lines] if self.first == "columns" else [lines, across]
        inv_freq = theta(half, self.exponent, base)
        parts = [table(place.ravel(), half, self.order, inv_freq) for place in places]
        values, own, inner = (np.hstack(halves) for halves in zip(*parts, strict=True))
        if self.stacked:
            quarter = np.arange(half // 2)
            turned = [quarter, half + quarter, half // 2 + quarter, half + half // 2 + quarter]
            at = np.concatenate(turned)
            values, own, inner = values[:, at], own[:, at], inner[:, at]
        return values, own, inner


#: What is tried of each parameter of a grid, the last one varying fastest. On a square, rows first
#: is also columns first with tokens that go down, which is the last thing tried.
GRIDS: dict[str, tuple[Any, ...]] = {
    "down": (False, True),
    "ends": tuple(ENDS),
    "order": ("sin | cos", "interleaved", "cos | sin"),
    "exponent": ("d", "d - 2"),
    "start": (0, 1),
    "first": ("columns", "rows"),
    "stacked": (False, True),
}


def grid_readings(_got: Array, _asked: Asked) -> Iterator[Reading]:
    """Yield tables of a grid: which half of the columns has the row, and each half's formula."""
    for values in itertools.product(*GRIDS.values()):
        yield Grid(**dict(zip(GRIDS, values, strict=True))).reading()
