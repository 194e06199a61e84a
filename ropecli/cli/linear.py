"""The linear command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ropecli.cli.command import Help, command, option
from ropecli.cli.options import EncodingOptions, Seed, TableOptions
from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Arrays = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]

DIM = 64
LENGTH = 2048  #: Random tokens.
LARGEST_DIM = 1024  #: The sums are squares of it, one for each block of tokens.
LARGEST = 2**26  #: Coordinates of all tokens: some fifteen arrays of that size are 8 GB.


@command(needs={"q": "k", "k": "v", "v": "q"})
def linear(
    length: int | None = option("N", "Number of tokens. [default: 2048, or all of --q]"),
    q: Path | None = option("FILE", "Queries (tokens, head dim), .npy."),
    k: Path | None = option("FILE", "Keys (tokens, head dim), .npy."),
    v: Path | None = option("FILE", "Values (tokens, values), .npy."),
    feature_map: str = option(
        "MAP",
        "Feature map: elu (elu + 1), exp, softmax, relu, or your own module:function.",
        default="elu",
    ),
    rows: int = option("N", "Rows that are also computed weight by weight.", default=256),
    *,
    rope: Annotated[EncodingOptions, Help(dim="Head dim, even. [default: 64, or that of --q]")],
    seed: Seed = 0,
    output: Annotated[TableOptions, Help(output="Output of each token: .csv .md .tex .json.")],
) -> None:
    """\b
    Examples:
      ropecli linear --length 256
                                 all keys   causal
        negative terms              0.19 %   0.16 %
        row sum, mean               0.4854   0.5451
        denominator, smallest    1.733e+04    85.52
          if it were rotated          7150    85.52
      ropecli linear --length 65536 --feature-map exp
      ropecli linear --q q.npy --k k.npy --v v.npy --model config.json
      ropecli linear --feature-map my_maps:squared --json

    Run RoPE in linear attention (RoFormer Eq. 19). Show weights below zero, rows that do not
    sum to 1, the smallest denominator with and without rotation, how well the sums in O(N)
    agree with the weights in O(N^2), and how closely the weights match softmax attention
    (Eq. 2). With -o, write the output of each token.
    """
    from ropecli.analyses.linear import linear as analyse
    from ropecli.files.function import in_reach, load_function

    arrays = _read(q, k, v, length=length, dim=rope.dim)
    width = DIM if arrays is None else arrays[0].shape[1]
    _check_dim(width if rope.dim is None else rope.dim)
    encoding = rope.encoding(dim=width, uses_context=False)
    if arrays is None:
        arrays = _random(length, encoding.rope.head_dim, seed)
    with in_reach(feature_map), output.working():
        phi = load_function(feature_map) if ":" in feature_map else feature_map
        result = analyse(*arrays, encoding.rope, feature_map=phi, rows=rows)
    output.note(*encoding.notes)
    output.show(result, output.parameters(encoding.rope, length=len(arrays[0])))
    sampled = min(rows, len(arrays[0]))
    if sampled < len(arrays[0]) and not output.json:
        output.note(f"negative terms and O(N^2) are of {sampled} sampled rows; --rows N takes more")


def _read(
    q: Path | None, k: Path | None, v: Path | None, *, length: int | None, dim: int | None
) -> Arrays | None:
    """Return the arrays of the files; None where no file is given."""
    from ropecli.files.load import load_tokens

    if q is None or k is None or v is None:  # without one of them there is none
        return None
    arrays = load_tokens(q), load_tokens(k), load_tokens(v)
    tokens, head_dim = arrays[0].shape
    for name, expected, size in (("--length", length, tokens), ("--dim", dim, head_dim)):
        if expected not in (None, size):
            raise ArgumentError(f"{name} must be that of {q}, {size}, got {expected}")
    if arrays[1].shape != arrays[0].shape:
        raise ArgumentError(
            f"{k} must have the shape of {q}, {arrays[0].shape}, got {arrays[1].shape}"
        )
    if len(arrays[2]) != tokens:
        raise ArgumentError(f"{v} must have shape ({tokens}, values), got {arrays[2].shape}")
    _check_dim(head_dim)
    for path, array in ((q, arrays[0]), (v, arrays[2])):
        if array.shape[1] > LARGEST_DIM or array.size > LARGEST:
            raise ArgumentError(
                f"{path} must be at most {LARGEST_DIM} wide and {LARGEST:,} numbers large, "
                f"got shape {array.shape}"
            )
    return arrays


def _random(length: int | None, dim: int, seed: int) -> Arrays:
    """Return queries, keys and values of a normal distribution."""
    import numpy as np

    from ropecli.numbers import at_least, between

    _check_dim(dim)
    at_least("seed", seed, 0)
    count = between("--length", LENGTH if length is None else length, 1, LARGEST // dim)
    q, k, v = np.random.default_rng(seed).standard_normal((3, count, dim))
    return q, k, v


def _check_dim(dim: int) -> None:
    """Refuse a head dim whose sums would not fit into memory."""
    from ropecli.numbers import even

    if even("head dim", dim) > LARGEST_DIM:
        raise ArgumentError(f"head dim must be at most {LARGEST_DIM}, got {dim}")
