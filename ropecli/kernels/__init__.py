"""Compiled loops over arrays, and nothing else: no validation, no objects, no files.

Only this folder imports Numba. Callers hand in arrays of the documented shape and dtype, and the
arrays that results are written into.
"""
