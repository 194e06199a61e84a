"""Sums of cosines over pairs, B(m) = sum_i cos(m theta_i), searched for their first negative value.

A block is the positions centre - REACH ... centre + REACH, of which two at a time come from angle
addition: cos((c + n) theta) and cos((c - n) theta) are cos(c theta) cos(n theta) minus and plus
sin(c theta) sin(n theta). From block to block e^{i c theta} is multiplied by e^{i WIDTH theta}, and
every RUN blocks it is computed again, so that errors do not add up.
"""

from __future__ import annotations

import math

import numpy as np

from ropecli.kernels.jit import parallel, prange

REACH = 127  #: Positions to either side of a block's centre.
WIDTH = 2 * REACH + 1  #: Positions of a block.
FINE = 16  #: Offsets whose cos and sin are computed directly; the others are made from them.
RUN = 64  #: Blocks between two exact centres.


@parallel
def first_below(inv_freq, start, stop, slope, floor, out, value):
    """Find the first position with B(m) < slope m + floor, from start to stop, for each table."""
    pairs = inv_freq.shape[1]
    for row in prange(inv_freq.shape[0]):
        cosines, sines = np.empty((pairs, REACH + 1)), np.empty((pairs, REACH + 1))
        centre_cos, centre_sin = np.empty(pairs), np.empty(pairs)
        step_cos, step_sin = np.empty(pairs), np.empty(pairs)
        for i in range(pairs):
            for n in range(FINE):
                cosines[i, n] = math.cos(n * inv_freq[row, i])
                sines[i, n] = math.sin(n * inv_freq[row, i])
            for coarse in range(FINE, REACH + 1, FINE):
                c, s = math.cos(coarse * inv_freq[row, i]), math.sin(coarse * inv_freq[row, i])
                for n in range(FINE):
                    cosines[i, coarse + n] = c * cosines[i, n] - s * sines[i, n]
                    sines[i, coarse + n] = c * sines[i, n] + s * cosines[i, n]
            step_cos[i] = math.cos(WIDTH * inv_freq[row, i])
            step_sin[i] = math.sin(WIDTH * inv_freq[row, i])
        even, odd = np.empty(REACH + 1), np.empty(REACH + 1)
        found = -1
        block = 0
        while found < 0 and start[row] + block * WIDTH <= stop:
            centre = start[row] + block * WIDTH + REACH
            for n in range(REACH + 1):
                even[n] = 0.0
                odd[n] = 0.0
            for i in range(pairs):
                if block % RUN == 0:
                    c, s = math.cos(centre * inv_freq[row, i]), math.sin(centre * inv_freq[row, i])
                else:
                    c = centre_cos[i] * step_cos[i] - centre_sin[i] * step_sin[i]
                    s = centre_cos[i] * step_sin[i] + centre_sin[i] * step_cos[i]
                centre_cos[i], centre_sin[i] = c, s
                for n in range(REACH + 1):
                    even[n] += c * cosines[i, n]
                    odd[n] += s * sines[i, n]
            threshold = slope[row] * (centre + REACH) + floor[row]
            for n in range(-REACH, REACH + 1):
                total = even[n] - odd[n] if n >= 0 else even[-n] + odd[-n]
                if total < threshold and found < 0 and centre + n <= stop:
                    found = centre + n
                    value[row] = total
            block += 1
        out[row] = found
