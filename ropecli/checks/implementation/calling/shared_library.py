"""A function of a shared library, by one C prototype.

    int rope_f32(const float *x, float *out, const int64_t *positions,
                 int64_t batch, int64_t heads, int64_t length, int64_t head_dim);

x and out are contiguous, (batch, heads, length, head_dim); positions are (batch, length). The end
of the name says the type of the numbers: _f64, _f32, _f16, or _bf16; both halves are given as
uint16_t. It returns 0, or another number to refuse the call.
"""

from __future__ import annotations

import ctypes
import inspect
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES
from ropecli.checks.implementation.calling.vocabulary import ROLE
from ropecli.errors import FileError

SUFFIXES = (".so", ".dylib", ".dll")
TYPES = {"_f64": "float64", "_f32": "float32", "_f16": "float16", "_bf16": "bfloat16"}


class SharedFunction:
    """A symbol of a library, called with NumPy arrays."""

    def __init__(self, path: str, symbol: str) -> None:
        """Load it."""
        ending = next((end for end in TYPES if symbol.endswith(end)), None)
        if ending is None:
            raise FileError(
                f"the function must end in {', '.join(TYPES)}, which says its type, got {symbol!r}"
            )
        self.dtype = TYPES[ending]
        try:
            self._function = ctypes.CDLL(str(Path(path).resolve()))[symbol]
        except (OSError, AttributeError) as error:
            msg = f"{path} can't be loaded: {error}"
            raise FileError(" ".join(msg.split())) from None
        self._function.restype = ctypes.c_int
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self._function.argtypes = [pointer, pointer, pointer, number, number, number, number]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(name, kind, annotation=ROLE) for name in ("x", "positions")]
        )

    def __call__(self, x: NDArray[Any], positions: NDArray[Any]) -> NDArray[Any]:
        """Rotate x (batch, heads, length, head_dim) by positions (length,) or (batch, length)."""
        if x.dtype != DTYPES[self.dtype]:
            raise TypeError(f"it takes {self.dtype}, not {x.dtype.name}")
        given = np.ascontiguousarray(x)
        out = np.full_like(given, np.nan)
        each = np.broadcast_to(positions, (x.shape[0], x.shape[-2]))
        places = np.ascontiguousarray(each, dtype=np.int64)
        refused = self._function(
            given.ctypes.data, out.ctypes.data, places.ctypes.data, *given.shape
        )
        if refused:
            raise ValueError(f"it returned {refused}")
        return out
