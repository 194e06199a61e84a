"""Sums over pairs at many relative distances (RoFormer Eq. 35-37).

The distances are start + index * step, with index from `first` on. Within a block of BLOCK of them
e^{i r theta} comes from angle addition, one cos and sin per pair and block and a table of the
offsets, so that nothing of the size distances x pairs is ever stored. Blocks begin at multiples of
BLOCK, as `first` does, whatever the threads.

Shapes: inv_freq and weights (pairs,), out (distances,), all float64; table_cos and table_sin
(pairs, BLOCK), float64, from `fill_steps`.
"""

from __future__ import annotations

import math

import numpy as np

from ropecli.kernels.jit import parallel, prange

BLOCK = 256  #: Distances that share one block start.


@parallel
def fill_steps(inv_freq, step, table_cos, table_sin):
    """Write cos and sin of index * step * inv_freq, one row a pair."""
    for i in prange(table_cos.shape[0]):
        for index in range(table_cos.shape[1]):
            angle = index * step * inv_freq[i]
            table_cos[i, index] = math.cos(angle)
            table_sin[i, index] = math.sin(angle)


@parallel
def weighted_partial_sums(inv_freq, weights, start, step, first, table_cos, table_sin, out):
    """Write sum_i weights_i |S_{i+1}(r)| with S_j(r) = sum_{i<j} e^{i r theta_i}.

    Weights of one give the sum of Figure 2, weights |h_{i+1} - h_i| the Abel bound of Eq. 37.
    """
    for block in prange((out.shape[0] + BLOCK - 1) // BLOCK):
        low = block * BLOCK
        count = min(BLOCK, out.shape[0] - low)
        begin = start + (first + low) * step
        real = np.zeros(BLOCK, np.float64)
        imaginary = np.zeros(BLOCK, np.float64)
        total = np.zeros(BLOCK, np.float64)
        for i in range(inv_freq.shape[0]):
            begin_cos, begin_sin = math.cos(begin * inv_freq[i]), math.sin(begin * inv_freq[i])
            for n in range(count):
                c, s = table_cos[i, n], table_sin[i, n]
                real[n] += begin_cos * c - begin_sin * s
                imaginary[n] += begin_cos * s + begin_sin * c
                total[n] += weights[i] * math.sqrt(real[n] * real[n] + imaginary[n] * imaginary[n])
        for n in range(count):
            out[low + n] = total[n]


@parallel
def scores(inv_freq, real, imaginary, start, step, first, table_cos, table_sin, out):
    """Write Re sum_i h_i e^{i r theta_i} (Eq. 35) for h_i = real_i + i imaginary_i."""
    for block in prange((out.shape[0] + BLOCK - 1) // BLOCK):
        low = block * BLOCK
        count = min(BLOCK, out.shape[0] - low)
        begin = start + (first + low) * step
        total = np.zeros(BLOCK, np.float64)
        for i in range(inv_freq.shape[0]):
            begin_cos, begin_sin = math.cos(begin * inv_freq[i]), math.sin(begin * inv_freq[i])
            h_cos = real[i] * begin_cos - imaginary[i] * begin_sin
            h_sin = real[i] * begin_sin + imaginary[i] * begin_cos
            for n in range(count):
                total[n] += h_cos * table_cos[i, n] - h_sin * table_sin[i, n]
        for n in range(count):
            out[low + n] = total[n]
