"""Linear attention without its N x N weights: sum over n of (q_m . k_n) v_n (RoFormer Eq. 18-19).

Shapes: q and k (tokens, features), v (tokens, values), sums (blocks, features, values), total
(features, values), out (tokens, values), all float64 and C-contiguous. Blocks begin at multiples of
BLOCK whatever the threads, so that the same input gets the same bits.
"""

from __future__ import annotations

import numpy as np

from ropecli.kernels.jit import parallel, prange

BLOCK = 512  #: Tokens whose sum of k_n v_n^T is kept.


@parallel
def fill_block_sums(k, v, sums):
    """Write the sum of k_n v_n^T over each block."""
    for block in prange(sums.shape[0]):
        block_sums = sums[block]
        block_sums[:] = 0.0
        for n in range(block * BLOCK, min((block + 1) * BLOCK, k.shape[0])):
            for c in range(k.shape[1]):
                for e in range(v.shape[1]):
                    block_sums[c, e] += k[n, c] * v[n, e]


@parallel
def fill_causal(q, k, v, before, out):
    """Write the sum over n <= m; `before` (blocks, features, values) is that of earlier blocks."""
    for block in prange(before.shape[0]):
        state = before[block].copy()
        for m in range(block * BLOCK, min((block + 1) * BLOCK, q.shape[0])):
            row = np.zeros(v.shape[1])
            for c in range(q.shape[1]):
                for e in range(v.shape[1]):
                    state[c, e] += k[m, c] * v[m, e]
                    row[e] += q[m, c] * state[c, e]
            out[m] = row


@parallel
def fill_whole(q, total, out):
    """Write q_m^T total, the sum over every n."""
    for m in prange(q.shape[0]):
        row = np.zeros(total.shape[1])
        for c in range(q.shape[1]):
            for e in range(total.shape[1]):
                row[e] += q[m, c] * total[c, e]
        out[m] = row
