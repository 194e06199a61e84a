"""The queries, keys and values of the linear command: read, or drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.errors import ArgumentError
from ropecli.numbers import at_least, even

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Arrays = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]

LENGTH = 2048  #: Tokens that are drawn.
LARGEST_DIM = 1024  #: The sums are squares of it, one for each block of tokens.
LARGEST = 2**26  #: Coordinates of all tokens: some fifteen arrays of that size are 8 GB.


def read(
    q: Path | None, k: Path | None, v: Path | None, *, length: int | None, dim: int | None
) -> Arrays | None:
    """The arrays of the files; None where none was given.

    Args:
        q: A .npy file, (tokens, head_dim).
        k: Of the same shape.
        v: (tokens, values).
        length: The tokens that there must be, where the user said it.
        dim: The head dim that there must be, where the user said it.

    Raises:
        ArgumentError: Some files and not all, or a size that is not allowed.
        FileError: A file that can't be read.
    """
    from ropecli.files.tokens import load_tokens

    if q is None and k is None and v is None:
        return None
    if q is None or k is None or v is None:
        given = [f"--{name}" for name, path in (("q", q), ("k", k), ("v", v)) if path is not None]
        msg = f"--q, --k and --v go together, got {' and '.join(given)} alone"
        raise ArgumentError(msg)
    arrays = load_tokens(q), load_tokens(k), load_tokens(v)
    tokens, head_dim = arrays[0].shape
    for option, wanted, found in (("--length", length, tokens), ("--dim", dim, head_dim)):
        if wanted not in (None, found):
            msg = f"{option} must be that of {q}, {found}, got {wanted}"
            raise ArgumentError(msg)
    if arrays[1].shape != arrays[0].shape:
        msg = f"{k} must have the shape of {q}, {arrays[0].shape}, got {arrays[1].shape}"
        raise ArgumentError(msg)
    if len(arrays[2]) != tokens:
        msg = f"{v} must have shape ({tokens}, values), got {arrays[2].shape}"
        raise ArgumentError(msg)
    check_dim(head_dim)
    for path, array in ((q, arrays[0]), (v, arrays[2])):
        if array.shape[1] > LARGEST_DIM or array.size > LARGEST:
            msg = (
                f"{path} must be at most {LARGEST_DIM} wide and {LARGEST:,} numbers large, "
                f"got shape {array.shape}"
            )
            raise ArgumentError(msg)
    return arrays


def drawn(length: int | None, dim: int, seed: int) -> Arrays:
    """Queries, keys and values of a normal distribution.

    Raises:
        ArgumentError: A size or a seed that is not allowed.
    """
    check_dim(dim)
    length = LENGTH if length is None else length
    if not 1 <= length <= LARGEST // dim:
        msg = f"--length must be from 1 to {LARGEST // dim:,} for head dim {dim}, got {length}"
        raise ArgumentError(msg)
    at_least("seed", seed, 0)
    q, k, v = np.random.default_rng(seed).standard_normal((3, length, dim))
    return q, k, v


def check_dim(dim: int) -> None:
    """Refuse a head dim whose sums would not fit into memory.

    Raises:
        ArgumentError: It is odd, or too large.
    """
    if even("head dim", dim) > LARGEST_DIM:
        msg = f"head dim must be at most {LARGEST_DIM}, got {dim}"
        raise ArgumentError(msg)
