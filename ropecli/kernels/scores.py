"""Scores of every query against every key, O(queries * keys * head_dim), float64.

Shapes: q (heads, queries, head_dim), k (heads, keys, head_dim), out (heads, queries, keys), all
C-contiguous. Each adds to what is in out. Sums run over coordinates in their order, so that the
same rows get the same bits whatever the other rows are.
"""

from __future__ import annotations

from ropecli.kernels.jit import parallel, prange


@parallel
def add_dots(q, k, out):
    """Add q_m . k_n."""
    heads, queries, _ = q.shape
    for task in prange(heads * queries):
        h, m = task // queries, task % queries
        for n in range(k.shape[1]):
            total = 0.0
            for c in range(q.shape[2]):
                total += q[h, m, c] * k[h, n, c]
            out[h, m, n] += total


@parallel
def add_relative(q, table, index, out):
    """Add q_m . table[index[m, n]]: table (heads, rows, head_dim), index (queries, keys), int64."""
    heads, queries, _ = q.shape
    for task in prange(heads * queries):
        h, m = task // queries, task % queries
        for n in range(index.shape[1]):
            row = index[m, n]
            total = 0.0
            for c in range(q.shape[2]):
                total += q[h, m, c] * table[h, row, c]
            out[h, m, n] += total


@parallel
def add_relative_keys(k, table, index, out):
    """Add k_n . table[index[m, n]]: as `add_relative`, with the key in the query's place."""
    heads, keys, _ = k.shape
    queries = index.shape[0]
    for task in prange(heads * queries):
        h, m = task // queries, task % queries
        for n in range(keys):
            row = index[m, n]
            total = 0.0
            for c in range(k.shape[2]):
                total += k[h, n, c] * table[h, row, c]
            out[h, m, n] += total


@parallel
def add_network(x, hidden, hidden_bias, output, output_bias, out):
    """Add sum_j output_j max(0, hidden_j x + hidden_bias_j) + output_bias, a network of one number.

    x (queries, keys), hidden and hidden_bias (width,), output (width, heads), output_bias (heads,).
    """
    heads, queries, keys = out.shape
    for task in prange(heads * queries):
        h, m = task // queries, task % queries
        for n in range(keys):
            total = output_bias[h]
            for j in range(hidden.shape[0]):
                unit = hidden[j] * x[m, n] + hidden_bias[j]
                if unit > 0:
                    total += output[j, h] * unit
            out[h, m, n] += total
