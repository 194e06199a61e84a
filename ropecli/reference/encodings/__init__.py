"""Scores of every positional encoding, as its paper prints them: a file for each.

Each file has a function `scores(x_query, x_key, query_positions, key_positions, weights)`, and
the encoding's options as keywords, with the same shapes as the encoding that it judges: loops
over heads, queries and keys, one formula, float64.
"""
