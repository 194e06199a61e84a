"""Reasons why vectors are not rotated by position."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from ropecli.arrays import Array, Index
from ropecli.checks.identify.explain import Explanation
from ropecli.checks.identify.lines import fit_lines, phasors, wrap
from ropecli.checks.identify.observe import ROUNDINGS, Observations
from ropecli.checks.identify.pairing import KEPT, find_pairs
from ropecli.checks.identify.parting import list_indices
from ropecli.checks.identify.table import Measurement
from ropecli.rotary import Rotary
from ropecli.rotary.pairs import NAMED, as_complex, named_pairs
from ropecli.units import TINY

_UNKNOWN_LENGTHS = "lengths are not kept, and nothing known explains how they change"
OFF = "most vectors are rotated, but some are off by"
UNEXPLAINED = "not a rotation by position"  #: Stands for `rejection_reason`, which takes long.
_ALIKE = 0.02  #: Relative difference that vectors of one position may have once rotated back.
_CLOSE = 0.05  #: Relative error up to which an explanation is accepted.
_COVERED = 0.9  #: Share of the coordinates that move which pairs must account for.
_ROUGH = 0.2  #: Relative error to accept if a frequency is known only to 1 %.
_NEAR = 8  #: Positions within which a frequency need not be known better than to 2 %.
_FEWEST = 5  #: Number of such positions.
_NOT_ONE = 1e-3  #: |factor - 1| from which a factor is not 1.
_GRID = np.geomspace(1e-5, np.pi, 1024)  #: Frequencies to try, 1.2 % apart.


def rejection_reason(observed: Observations) -> str:
    """Return the reason that fits, in a sentence; the most specific ones are tried first."""
    layouts = [
        (name, np.array(named_pairs(name, rotary_dim=observed.head_dim, rotary_offset=0)))
        for name in NAMED
    ]

    def in_layouts(*explanations: Callable[..., str | None]) -> Iterator[str | None]:
        return (
            explanation(observed, *layout) for explanation in explanations for layout in layouts
        )

    reasons = itertools.chain(
        (
            explain(observed)
            for explain in (_explain_added, _explain_scaled, _explain_partly_scaled)
        ),
        in_layouts(_explain_uneven, _explain_growing, _explain_mirrored),
        (explain(observed) for explain in (_explain_different_pairs,)),
        in_layouts(_explain_overwritten, _explain_mixed_layouts, _explain_tables_as_angles),
    )
    if reason := next(filter(None, reasons), None):
        return reason
    before, after = (np.linalg.norm(array, axis=2) for array in (observed.x, observed.y))
    ratio = after[before > 0] / before[before > 0]
    if np.ptp(ratio) < _CLOSE * ratio.mean():
        return "lengths are kept, but no pairs of coordinates rotate with the position"
    return _UNKNOWN_LENGTHS


def reason_from_pairs(measured: Measurement) -> str | None:
    """Return why measured pairs are not a rotation by position, or None."""
    pairs, observed = measured.pairs, measured.observed
    covered = np.union1d(pairs.read.ravel(), pairs.written.ravel())
    alone = np.setdiff1d(measured.pairing.single, covered)
    if len(alone):
        return _reason_from_single(measured, alone)
    shown = pairs[pairs.shown]
    if (shown.disagreement > max(_ALIKE, ROUNDINGS * observed.unit)).any():
        return "vectors at one position are rotated by different angles"
    if shown.mirrored.any() or not shown.linear.any():
        return UNEXPLAINED
    if shown.turning.any():
        return None
    if shown.linear.all():
        return "pairs are rotated by one angle at all positions: the position is ignored"
    return _out_of_proportion(observed)


def _out_of_proportion(observed: Observations) -> str:
    positions = "the positions given" if observed.known else "positions 0, 1, 2, ..."
    return f"pairs are rotated, but by angles that are not proportional to {positions}"


def _reason_from_single(measured: Measurement, alone: Index) -> str:
    """Return what to report of coordinates that change and have no partner."""
    count = int(measured.pairs.shown.sum())
    if count < 2 * len(alone):
        return UNEXPLAINED
    if len(alone) == 1:
        which = f"coordinate {alone[0]} changes and is"
    else:
        which = f"coordinates {list_indices(alone)} change and are"
    return f"{count} pairs are rotated, but {which} in none of them"


def reason_from_explanation(measured: Measurement, found: Explanation) -> str | None:
    """Return why pairs that rotate do not rotate by position, or None."""
    if not found.consistent:
        if measured.pairing.swapped:
            return UNEXPLAINED
        return _describe_start(measured)
    turning = measured.pairs[measured.pairs.shown & measured.pairs.turning]
    if not found.precision.explains and not turning.linear.all():
        return _out_of_proportion(measured.observed)
    return None


def _describe_start(measured: Measurement) -> str:
    """Say by which angles pairs are rotated at position 0."""
    at_zero = measured.pairs.intercept[measured.pairs.shown & measured.pairs.linear]
    one = len(at_zero) > 1 and (np.abs(wrap(at_zero - at_zero[0])) <= _CLOSE).all()
    if one and abs(abs(float(wrap(at_zero[0]))) - np.pi / 2) <= _CLOSE:
        return "pairs are rotated by a quarter of a turn at position 0: cos and sin are exchanged"
    angles = "all by one angle" if one else "each by an angle of its own"
    return f"pairs are rotated at position 0, {angles}"


def reason_from_rest(observed: Observations, rotary: Rotary) -> str | None:
    """Return what happens to coordinates in no pair, if they are not copied."""
    unrotated = np.setdiff1d(np.arange(rotary.head_dim), rotary.pairs_out)
    if not len(unrotated):
        return None
    x, y = observed.x[..., unrotated], observed.y[..., unrotated]
    size = np.abs(x).max()
    if np.abs(y - x).max() <= ROUNDINGS * observed.unit * size:
        return None
    words = f"coordinates that are in no pair ({list_indices(unrotated)}) are changed, not copied"
    return _explain_partly_scaled(observed) or words


def _explain_added(observed: Observations) -> str | None:
    """One vector is added to all vectors of a position."""
    added = observed.y - observed.x
    size = np.linalg.norm(added, axis=2)
    if observed.x.shape[1] > 1:
        alike = np.linalg.norm(added - added[:, :1], axis=2).max() < _CLOSE * size.max()
    else:  # each coordinate by itself follows a sinusoid, whatever the vectors
        alike = _sinusoidal_share(added[:, 0], observed) > 1 - _CLOSE
    if not alike:
        return None
    return "a vector is added at each position: an additive encoding, not a rotation"


def _sinusoidal_share(added: Array, observed: Observations) -> float:
    """Return the least share of any added coordinate that one frequency explains."""
    m = observed.along
    near = np.flatnonzero(np.abs(m - m[0]) <= 4 * _NEAR)
    if len(near) < 2 * _FEWEST:
        return 0.0
    m, added = m[near], added[near]
    total = (added**2).sum(axis=0)
    squares = (observed.x[near, 0] ** 2 + observed.y[near, 0] ** 2).sum(axis=0)
    rounding = (2 * observed.unit) ** 2 * squares
    angles = _GRID[:, None] * m
    basis = np.linalg.qr(np.stack([np.cos(angles), np.sin(angles)], axis=2))[0]
    left = (total - ((basis.mT @ added) ** 2).sum(axis=1)).min(axis=0)
    return float(1 - (np.maximum(left - rounding, 0) / np.maximum(total, TINY)).max())


def _explain_scaled(observed: Observations) -> str | None:
    """Each vector only becomes longer or shorter."""
    product = (observed.x * observed.y).sum(axis=2)
    size = np.linalg.norm(observed.x, axis=2) * np.linalg.norm(observed.y, axis=2)
    if (product < (1 - 1e-6) * size).any():
        return None
    return "vectors keep their directions and change only in length: nothing is rotated"


def _explain_partly_scaled(observed: Observations) -> str | None:
    """Some coordinates are only multiplied, by a factor that is not 1."""
    x, y, rows = observed.x, observed.y, (0, 1)
    times = (x * y).sum(axis=rows) / np.maximum((x**2).sum(axis=rows), TINY)
    left = np.abs(y - times * x).max(axis=rows)
    size = np.abs(x).max(axis=rows)
    noise = ROUNDINGS * observed.unit
    scaled = (size > 0) & (left <= noise * size) & (np.abs(times - 1) > max(_NOT_ONE, noise))
    where = np.flatnonzero(scaled)
    if not len(where) or len(where) == observed.head_dim or np.ptp(times[where]) > _CLOSE:
        return None
    what = f"coordinates that are in no pair ({list_indices(where)}) are"
    if len(where) == 1:
        what = f"the coordinate that is in no pair ({where[0]}) is"
    return f"{what} multiplied by {times[where].mean():.4g}, not copied"


def _pair_lengths(observed: Observations, pairs: Index) -> tuple[Array, Array]:
    """Return the length of each pair before and after, (rows, samples, pairs)."""
    return np.abs(as_complex(observed.x, pairs)), np.abs(as_complex(observed.y, pairs))


def _explain_uneven(observed: Observations, name: str, pairs: Index) -> str | None:
    """Pairs are rotated, and each is multiplied by a factor of its own."""
    before, after = _pair_lengths(observed, pairs)
    if not before.all():
        return None
    times = (after / before).reshape(-1, len(pairs))
    mean = times.mean(axis=0)
    if np.abs(times - mean).max() < _CLOSE * mean.min() and np.ptp(mean) > _CLOSE * mean.max():
        return (
            f"pairs ({name}) are each multiplied by a factor of its own, "
            f"from {mean.min():.3g} to {mean.max():.3g}"
        )
    return None


def _explain_growing(observed: Observations, name: str, pairs: Index) -> str | None:
    """Pairs are rotated, and their lengths grow or shrink with the position."""
    m = observed.along - observed.along.mean()
    before, after = _pair_lengths(observed, pairs)
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log(after / before).mean(axis=1)
    if not np.isfinite(log).all() or np.abs(log).max() < 1e-3:
        return None
    rate = (m[:, None] * log).sum(axis=0) / (m**2).sum()
    left = np.abs(log - log.mean(axis=0) - rate * m[:, None]).max()
    change = np.abs(rate).max() * np.ptp(observed.along)
    if left < _CLOSE * change and change > _CLOSE:
        return (
            f"pairs ({name}) are rotated, but their lengths grow or shrink with the position, "
            f"by up to {np.abs(rate).max():.3g} in the logarithm per position, as in xPos"
        )
    return None


def _explain_mirrored(observed: Observations, name: str, pairs: Index) -> str | None:
    """Pairs are reflected instead of rotated."""
    mirrored = phasors(observed, pairs, pairs, 1.0).mirrored
    if (np.abs(np.abs(mirrored) - 1) > _CLOSE).any():
        return None
    rms = fit_lines(mirrored, observed.along[:, None], observed.unit)[1][-1]
    if rms.max() < _CLOSE:
        return f"pairs ({name}) are reflected, not rotated: a sign is wrong in one of two rows"
    return None


def _explain_different_pairs(observed: Observations) -> str | None:
    """Each vector of a position is rotated, but in other pairs."""
    count = observed.x.shape[1]
    if count < 2:
        return None
    alone = [
        find_pairs(replace(observed, x=observed.x[:, [i]], y=observed.y[:, [i]]))
        for i in range(count)
    ]
    if any(pairing.spread > KEPT for pairing in alone):
        return None
    if any(2 * len(pairing.read) < _COVERED * pairing.moved.sum() for pairing in alone):
        return None
    partitions = {
        tuple(np.sort(np.sort(pairing.read, axis=1), axis=0).ravel().tolist()) for pairing in alone
    }
    if len(partitions) < 2:
        return None
    return "vectors at one position are paired differently: heads are rotated in different layouts"


def _explain_overwritten(observed: Observations, name: str, pairs: Index) -> str | None:
    """One coordinate of each pair is overwritten, and the other made of what is there then."""
    for (first, word), (second, other) in itertools.permutations(enumerate(("first", "second"))):
        one = pairs[:, first]
        x = observed.x.copy()
        x[..., one] = observed.y[..., one]
        after = replace(observed, x=x)
        two_pairs = zip(one[:2], pairs[:2, second], strict=True)
        if all(_fits_in_turn(observed, after, a, b) for a, b in two_pairs):
            return (
                f"the {word} coordinate of each pair ({name}) is overwritten before the "
                f"{other} one is computed"
            )
    return None


def _fits_in_turn(observed: Observations, after: Observations, a: int, b: int) -> bool:
    """Return True if one coordinate is rotated, and then another one with the new value of it."""
    error, theta, sign = _fit_combination(observed, a, b)
    if error >= _ROUGH:
        return False
    left, again, opposite = _fit_combination(after, b, a)
    return left < _ROUGH and sign == -opposite and abs(again / theta - 1) < _CLOSE


def _first_pairs(pairs: Index) -> Iterator[tuple[int, int]]:
    """Yield coordinates 0 and 1 of two pairs with their partners, each both ways round."""
    for a in (0, 1):
        ((row, column),) = np.argwhere(pairs == a)
        partner = int(pairs[row, 1 - column])
        yield from ((a, partner), (partner, a))


def _explain_mixed_layouts(observed: Observations, name: str, pairs: Index) -> str | None:
    """Each coordinate takes its partner from one layout and its angle from the other."""
    every = (_fit_combination(observed, a, b) for a, b in _first_pairs(pairs))
    fits = list(itertools.takewhile(lambda fit: fit[0] <= _ROUGH, every))
    if len(fits) < 4:
        return None
    (_, first, sign), (_, second, opposite) = fits[:2]
    if abs(first / second - 1) < _CLOSE and sign == opposite:
        return f"pairs ({name}) are not rotated: sin has the same sign in both rows of each"
    if abs(first / second - 1) > _CLOSE or abs(fits[2][1] / fits[3][1] - 1) > _CLOSE:
        return (
            f"coordinates are combined as in the {name} layout, but the two of a pair rotate "
            "by different angles: cos and sin are laid out for the other layout"
        )
    return None


def _explain_tables_as_angles(observed: Observations, name: str, pairs: Index) -> str | None:
    """Each coordinate turns by the cosine or sine of its angle, instead of by its angle."""
    for a, b in _first_pairs(pairs):
        if min(_fit_combination(observed, a, b, f)[0] for f in (np.cos, np.sin)) >= _ROUGH:
            return None
    return (
        f"coordinates are combined as in the {name} layout, but rotate by 1 radian at "
        "most: cosines and sines are taken for angles"
    )


def _fit_combination(
    observed: Observations, a: int, b: int, table: Callable[[Array], Array] | None = None
) -> tuple[float, float, int]:
    """Fit cos x + sign sin x' to a coordinate after; return the error, the frequency, the sign."""
    best = (np.inf, 1.0, 1)
    near = np.abs(observed.along - observed.along[0]) <= _NEAR
    m = observed.along[near]
    if len(m) < _FEWEST:
        return best  # no error is small enough
    x, partner = observed.x[near][..., a], observed.x[near][..., b]
    y = observed.y[near][..., a]
    rounding = ROUNDINGS * observed.unit * float(np.linalg.norm(x))
    changed = max(float(np.linalg.norm(y - x)), TINY)
    if changed <= rounding:
        return best  # it is as it was, as by any of these with a frequency of 0
    angles = _GRID[:, None] * m
    angles = angles if table is None else table(angles)  # or their cosines or sines
    # The square of y - x - (cos - 1) x - sign sin x' is a sum over products of these three.
    terms = np.stack([np.ones_like(angles), -2 * np.sin(angles / 2) ** 2, np.sin(angles)], axis=2)
    products = np.einsum("tra,trb->trab", terms, terms).reshape(len(_GRID), -1)
    for sign in (1, -1):
        vectors = np.stack([y - x, -x, -sign * partner])
        left = products @ np.einsum("arv,brv->rab", vectors, vectors).ravel()
        i = int(np.argmin(left))
        best = min(best, (float(np.sqrt(max(left[i], 0))) / changed, float(_GRID[i]), sign))
    return best
