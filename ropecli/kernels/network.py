"""A network of one number with one hidden layer, for every query and key.

Shapes: x (queries, keys), hidden and hidden_bias (width,), output (width, heads), output_bias
(heads,), out (heads, queries, keys), all float64 and C-contiguous.
"""

from __future__ import annotations

from ropecli.kernels.jit import parallel, prange


@parallel
def add_network(x, hidden, hidden_bias, output, output_bias, out):
    """Add sum_j output_j max(0, hidden_j x + hidden_bias_j) + output_bias."""
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
