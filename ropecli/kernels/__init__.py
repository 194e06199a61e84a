"""Compiled loops over arrays, and nothing else: no validation, no objects, no files.

Only this folder imports Numba. Callers hand in arrays of the documented shape and dtype, and the
arrays that results are written into.
"""

from ropecli.kernels.settings import import_numba

import_numba()
