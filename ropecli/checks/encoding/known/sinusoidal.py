"""Sinusoidal tables (RoFormer Eq. 4, Vaswani et al. 2017), of one coordinate and of a grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array
from ropecli.checks.encoding.asked import Asked
from ropecli.checks.encoding.reading import Reading, Values, released_by

BASE = 10_000.0
#: Columns of sines and cosines, what is said of them, and who releases them so.
ORDERS: dict[str, tuple[str, str | None]] = {
    "interleaved": ("", ""),
    "sin | cos": ("all sines before all cosines", "tensor2tensor, fairseq, Whisper"),
    "cos | sin": ("all cosines before all sines", "diffusers, MusicGen"),
    "cos, sin": ("sin and cos are exchanged", None),
}
#: What tables are multiplied by, of the dim.
SIZES: dict[str, Callable[[int], float]] = {
    "1": lambda dim: 1.0,
    "1/sqrt(d)": lambda dim: dim**-0.5,
    "sqrt(2/d)": lambda dim: (2 / dim) ** 0.5,
    "sqrt(d)": lambda dim: dim**0.5,
}
RELEASED_SIZES = {"1/sqrt(d)": "x-transformers", "sqrt(2/d)": "MLX"}
OVER_2 = ("exponents are over d - 2", "tensor2tensor, fairseq, Whisper, diffusers, MusicGen")
LARGE_STEP = 1000.0  #: What diffusion models multiply times from 0 to 1 by.
STARTS = {1: "DETR", 2: "fairseq, M2M100"}
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
    for each in (sines, cosines):
        own[:, each], inner[:, each] = 3 * abs(size), abs(size) * ANGLE * np.abs(angles)
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
class Explained:
    """The parameters of a formula that a table follows."""

    order: str
    exponent: str  #: What 2t is divided by: "d" or "d - 2".
    base: float
    start: float
    step: float
    size: str  #: What sines and cosines are multiplied by, an expression of d.
    said: tuple[tuple[str, str | None], ...]  #: Differences, and who releases each.


def explain(found: Sinusoids, base: float = BASE) -> Iterator[Explained]:
    """Yield the formulas that measured frequencies follow, those with the shortest base first.

    One base over d and another one over d - 2 are nearly the same, so numbers must decide.
    """
    pairs = len(found.inv_freq)
    dim, measured = 2 * pairs, found.inv_freq
    fits = [
        (exponent, each, step)
        for each in _bases(measured, base)
        for step in (1.0, float(measured[0]))
        for exponent in ("d", "d - 2")
        if each > 0 and _alike(step * theta(dim, exponent, each), measured)
    ]
    fits.sort(key=lambda fit: (fit[1] != base, len(f"{fit[1]:.6e}".split("e")[0].rstrip("0"))))
    for exponent, each, step in fits:
        yield _explained(found, exponent, each, step, base)


def _explained(
    found: Sinusoids, exponent: str, found_base: float, step: float, base: float
) -> Explained:
    """Return a formula with what is said of it."""
    pairs = len(found.inv_freq)
    dim = 2 * pairs
    start = (
        round(2 * found.start) / 2
        if abs(found.start - round(2 * found.start) / 2) < 0.02
        else found.start
    )
    size = next(
        (text for text, of in SIZES.items() if abs(found.size - of(dim)) < CLOSE * of(dim)),
        f"{found.size:.9g}",
    )
    said = [ORDERS[found.order]] if found.order != "interleaved" else []
    if exponent != "d" and pairs > 1:
        said.append(OVER_2)
    if found_base != base and pairs > 1:
        said.append((f"base {found_base:.6g}, expected {base:g}", None))
    if step != 1.0:
        said.append((f"positions are multiplied by {step:.6g}", None))
    if start:
        said.append(
            (f"positions start at {start:g}", STARTS.get(int(start) if start == int(start) else -1))
        )
    if size != "1":
        said.append((f"multiplied by {size}", RELEASED_SIZES.get(size)))
    return Explained(
        order=found.order,
        exponent=exponent,
        base=found_base,
        start=start,
        step=step,
        size=size,
        said=tuple(said),
    )


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
    yield _reading(
        Explained(order="interleaved", exponent="d", base=base, start=0, step=1, size="1", said=()),
        base,
        0,
    )
    blank = np.flatnonzero((got == 0).all(axis=1))
    kept = np.setdiff1d(np.arange(len(got)), blank)
    if len(blank) > 1 or len(kept) < 3:
        return
    for found in measure(got[kept], asked.positions[kept].astype(np.float64)):
        every = [*explain(found, base)]
        for explained in every:
            yield _reading(explained, base, len(blank), asked.positions[blank])
        if not every:
            yield from _odd(found)
    # Of steps so large, rows do not show the frequencies.
    for order, exponent in itertools.product(ORDERS, ("d", "d - 2")):
        said: list[tuple[str, str | None]] = []
        said += [ORDERS[order]] if order != "interleaved" else []
        said += [OVER_2] if exponent != "d" else []
        said.append((f"positions are multiplied by {LARGE_STEP:g}", "diffusers, Qwen2.5-Omni"))
        of_order = Explained(
            order=order,
            exponent=exponent,
            base=base,
            start=0,
            step=LARGE_STEP,
            size="1",
            said=tuple(said),
        )
        yield _reading(of_order, base, 0)


def _reading(each: Explained, base: float, blank: int, row: Any = ()) -> Reading:
    """Return the reading of a formula."""

    def compute(asked: Asked) -> Values:
        positions = asked.positions + each.start
        wanted = float(asked.setting("base", each.base)) if each.base == base else each.base
        inv_freq = each.step * theta(asked.dim, each.exponent, wanted)
        size = SIZES[each.size](asked.dim) if each.size in SIZES else float(each.size)
        values, own, inner = table(positions, asked.dim, each.order, inv_freq, size=size)
        for at in row if blank else ():
            values[asked.positions == at] = 0.0
        return values, own, inner

    said = [*each.said]
    if blank:
        said.append((f"row {int(row[0])} is zero, for padding", "fairseq"))
    return Reading(
        compute=compute,
        said=", ".join(words for words, _ in said),
        released=released_by(*(who for _, who in said)),
        options={
            "base": each.base,
            "order": each.order,
            "exponent": each.exponent,
            "start": each.start,
        },
    )


def _odd(found: Sinusoids) -> Iterator[Reading]:
    """Yield a reading of frequencies that follow no formula."""
    theta_of, dim = found.inv_freq, 2 * len(found.inv_freq)
    twice = len(theta_of) > 2 and np.allclose(theta_of[0::2][: len(theta_of) // 2], theta_of[1::2])
    expected = theta(dim, "d", BASE)
    unlike = int(np.argmax(~(np.abs(theta_of - expected) <= CLOSE * expected)))
    said = (
        "every frequency stands twice"
        if twice
        else f"frequency {unlike} is {theta_of[unlike]:.6g}, expected {expected[unlike]:.6g}"
    )

    def compute(asked: Asked) -> Values:
        if asked.dim != dim:
            return (np.full((asked.length, asked.dim), np.nan),) * 3
        return table(asked.positions + found.start, dim, found.order, theta_of, size=found.size)

    yield Reading(compute=compute, said=said)


#: Positions that the last row and column of a grid may have.
ENDS = {"": 0.0, "16": 16.0, "2 pi": 2 * math.pi}


def grid_readings(_got: Array, _asked: Asked) -> Iterator[Reading]:
    """Yield tables of a grid: which half of the columns has the row, and each half's formula."""
    # On a square, rows first is also columns first with tokens that go down: the last thing tried.
    for down, ends, order, exponent, start, first, stacked in itertools.product(
        (False, True),
        ENDS,
        ("sin | cos", "interleaved", "cos | sin"),
        ("d", "d - 2"),
        (0, 1),
        ("columns", "rows"),
        (False, True),
    ):
        yield _grid_reading(first, order, exponent, start, ends, stacked=stacked, down=down)


def _grid_reading(
    first: str, order: str, exponent: str, start: int, ends: str, *, stacked: bool, down: bool
) -> Reading:
    def compute(asked: Asked) -> Values:
        lines, across = np.indices((asked.height, asked.width)).astype(float) + start
        if ends:
            lines, across = lines * ENDS[ends] / asked.height, across * ENDS[ends] / asked.width
        if down:  # tokens go down the columns
            lines, across = lines.T, across.T
        places = {"rows": lines.ravel(), "columns": across.ravel()}
        half, base = asked.dim // 2, float(asked.setting("base", BASE))
        parts = [
            table(places[each], half, order, theta(half, exponent, base))
            for each in (first, "rows" if first == "columns" else "columns")
        ]
        values, own, inner = (np.hstack(each) for each in zip(*parts, strict=True))
        if stacked:  # sines of both axes, then cosines of both
            quarter = np.arange(half // 2)
            turned = [quarter, half + quarter, half // 2 + quarter, half + half // 2 + quarter]
            at = np.concatenate(turned)
            values, own, inner = values[:, at], own[:, at], inner[:, at]
        return values, own, inner

    said: list[tuple[str, str | None]] = []
    said += [("columns first", "MAE") if first == "columns" else ("rows first", "AIMv2")]
    if order != "sin | cos":
        said.append((f"order {order}", "DETR" if order == "interleaved" else None))
    said += [("exponents are over d - 2", None)] if exponent != "d" else []
    said += [(f"positions start at {start}", "DETR")] if start else []
    said += [(f"positions end at {ends}", "DETR" if "pi" in ends else "diffusers")] * bool(ends)
    said += [("sines of both axes before cosines", "timm")] if stacked else []
    said += [("tokens go down the columns", "OmDet-Turbo")] if down else []
    return Reading(
        compute=compute,
        said=", ".join(words for words, _ in said),
        released=released_by(*(who for _, who in said)),
        options={
            "first": first,
            "order": order,
            "exponent": exponent,
            "start": start,
            "ends": ends,
            "stacked": stacked,
            "down": down,
        },
    )


SETTINGS: Mapping[str, Any] = {"base": BASE}
