"""Errors of angles, and of their cos and sin, due to rounding in a narrower dtype.

An angle is the product of a position and a frequency, both rounded already, which is rounded once
more. The exact angle is position * theta in float64. A dtype is an array of three numbers, its
`rounding`: 1.5 * 2^(53 - digits), or 0 for float64; the smallest normal number; the largest number.

Shapes: theta and freq (pairs,); positions (count + 1,), the positions `first` - 1 up to
`first` + count - 1 as they are rounded; results (count,). All float64 but for `same`, uint8.
"""

from __future__ import annotations

import math

import numpy as np

from ropecli.kernels.jit import parallel, prange, serial

BLOCK = 256  #: Positions that share one block start.
#: Below it (radians), the next terms of the series of cos and sin are less than 2^-55.
SMALL = 2.0**-3
EXPONENT = 0x7FF0000000000000  #: Bits of a float64 that hold its exponent.


@serial
def nearest(value, magic, normal, largest):
    """The nearest number of a dtype, ties to even; infinite where it is beyond all of them.

    Adding 1.5 * 2^52 units in the last place, and subtracting them, leaves a whole number of them.
    """
    result = value
    if magic != 0:
        exponent = np.float64(max(abs(value), normal)).view(np.int64) & np.int64(EXPONENT)
        shift = np.int64(exponent).view(np.float64) * magic
        result = (value + shift) - shift
    return result if abs(result) <= largest else np.inf


@parallel
def phase_errors(theta, freq, positions, first, rounding, phase, departure, same):
    """Write for each position the largest error of its angles, over pairs, in radians."""
    for block in prange((phase.shape[0] + BLOCK - 1) // BLOCK):
        magic, normal, largest = rounding[0], rounding[1], rounding[2]
        low = block * BLOCK
        count = min(BLOCK, phase.shape[0] - low)
        angle = np.empty(BLOCK + 1, np.float64)
        error = np.zeros(BLOCK, np.float64)
        drift = np.zeros(BLOCK, np.float64)
        equal = np.ones(BLOCK, np.uint8)
        for i in range(theta.shape[0]):
            t, f = theta[i], freq[i]
            for n in range(count + 1):
                angle[n] = nearest(positions[low + n] * f, magic, normal, largest)
            for n in range(count):
                m = np.float64(first + low + n)
                error[n] = max(error[n], abs(angle[n + 1] - m * t))
                drift[n] = max(drift[n], abs(angle[n + 1] - m * f))
                equal[n] = equal[n] & np.uint8(angle[n + 1] == angle[n])
        for n in range(count):
            phase[low + n] = error[n]
            departure[low + n] = drift[n]
            same[low + n] = equal[n]


@parallel
def table_errors(
    theta, freq, positions, first, rounding, tables, factor, table_cos, table_sin, known, out
):
    """Write the largest error of a table entry up to each position, over pairs, cos and sin.

    It is the largest before the first position and since the beginning of the position's block, so
    that the largest of all up to a position is right. cos and sin of the exact angle come from
    angle addition, and from them those of an angle that is nearly the same. An error is computed
    only where it may pass all before it: it is at most that of the angle and of the rounding, and
    at most 1 + |cos| or 1 + |sin|.
    """
    for block in prange((out.shape[0] + BLOCK - 1) // BLOCK):
        magic, normal, largest = rounding[0], rounding[1], rounding[2]
        t_magic, t_normal, t_largest = tables[0], tables[1], tables[2]
        most = nearest(factor, t_magic, t_normal, t_largest)
        unit = factor * t_magic / 1.5 * 2.0**-53  # of one rounding of an entry
        low = block * BLOCK
        count = min(BLOCK, out.shape[0] - low)
        c, s = np.empty(BLOCK, np.float64), np.empty(BLOCK, np.float64)
        delta, bound = np.empty(BLOCK, np.float64), np.empty(BLOCK, np.float64)
        error = np.empty(BLOCK, np.float64)
        best = np.full(BLOCK, known)  # up to each position of the block
        for i in range(theta.shape[0]):
            t, f = theta[i], freq[i]
            begin = np.float64(first + low) * t
            begin_cos, begin_sin = factor * math.cos(begin), factor * math.sin(begin)
            wanted = 0
            for n in range(count):
                angle = nearest(positions[low + 1 + n] * f, magic, normal, largest)
                delta[n] = angle - np.float64(first + low + n) * t
            for n in range(count):
                c[n] = begin_cos * table_cos[i, n] - begin_sin * table_sin[i, n]
                s[n] = begin_cos * table_sin[i, n] + begin_sin * table_cos[i, n]
                allowed = factor * abs(delta[n]) + unit
                bound[n] = min(allowed, most + max(abs(c[n]), abs(s[n])))
                wanted += bound[n] > best[n]
            if wanted == 0:
                continue
            for n in range(count):
                d = delta[n] if abs(delta[n]) <= SMALL else 0.0
                d2 = d * d
                # 1 - cos d and sin d
                fall = d2 * (1 / 2 - d2 * (1 / 24 - d2 * (1 / 720 - d2 * (1 / 40320))))
                rise = d - d * d2 * (1 / 6 - d2 * (1 / 120 - d2 * (1 / 5040)))
                new_c = c[n] - (c[n] * fall + s[n] * rise)
                new_s = s[n] - (s[n] * fall - c[n] * rise)
                error[n] = max(
                    abs(nearest(new_c, t_magic, t_normal, t_largest) - c[n]),
                    abs(nearest(new_s, t_magic, t_normal, t_largest) - s[n]),
                )
            largest_so_far = known
            for n in range(count):
                if bound[n] > best[n]:
                    value = error[n]
                    if abs(delta[n]) > SMALL:
                        angle = nearest(positions[low + 1 + n] * f, magic, normal, largest)
                        value = np.inf
                        if angle < np.inf:
                            new_c, new_s = factor * math.cos(angle), factor * math.sin(angle)
                            value = max(
                                abs(nearest(new_c, t_magic, t_normal, t_largest) - c[n]),
                                abs(nearest(new_s, t_magic, t_normal, t_largest) - s[n]),
                            )
                    best[n] = max(best[n], value)
                largest_so_far = max(largest_so_far, best[n])
                best[n] = largest_so_far
        for n in range(count):
            out[low + n] = best[n]
