"""The linear command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ropecli.cli import options
from ropecli.cli.options import Json, Layout, Quiet, RotaryDim, Seed

if TYPE_CHECKING:
    from collections.abc import Callable

DIM = 64
LARGEST_DIM = 1024  #: The sums are squares of it, one for each block of tokens.
LARGEST = 2**26  #: Coordinates of all tokens: some fifteen arrays of that size are 8 GB.


def linear(
    length: Annotated[int, typer.Option(metavar="N", help="Tokens, drawn.")] = 2048,
    dim: Annotated[
        int | None, typer.Option(metavar="N", help="Head dim, even; 64 by default.")
    ] = None,
    feature_map: Annotated[
        str,
        typer.Option(
            metavar="MAP", help="elu (elu + 1), exp, softmax, relu, or your own module:function."
        ),
    ] = "elu",
    rows: Annotated[
        int, typer.Option(metavar="N", help="Rows that are also computed weight by weight.")
    ] = 256,
    base: options.Base = None,
    layout: Layout = None,
    rotary_dim: RotaryDim = None,
    rope_type: options.RopeType = None,
    set: options.Set = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """\b
    Examples:
      ropecli linear
      ropecli linear --length 65536 --feature-map exp
      ropecli linear --feature-map my_maps:squared --json

    Show what RoPE does to linear attention. Weights below zero, rows that do not sum to 1,
    the smallest denominator, and what rotating it too would do (RoFormer Eq. 17-19); and how
    well the sums in O(N) agree with the weights in O(N^2).
    """
    from ropecli.analyses.linear import linear as analyse
    from ropecli.cli.encoding import from_parameters
    from ropecli.render import document
    from ropecli.render import linear as pages

    q, k, v = _drawn(length, DIM if dim is None else dim, seed)
    rope = from_parameters(
        dim=q.shape[1],
        base=base,
        layout=layout,
        rotary_dim=rotary_dim,
        rope_type=rope_type,
        set=set,
    ).rope
    result = analyse(q, k, v, rope, feature_map=_map(feature_map), rows=rows)
    if json:
        parameters = {
            "length": length,
            "dim": q.shape[1],
            "feature_map": feature_map,
            "rows": rows,
            "base": base,
            "layout": layout or "interleaved",
            "rotary_dim": rotary_dim,
            "rope_type": rope_type,
            "set": set,
            "seed": seed,
        }
        document.show("linear", parameters, pages.as_json(result))
    else:
        pages.show(result, brief=quiet)


def _drawn(length: int, dim: int, seed: int) -> Any:
    """Queries, keys and values of a normal distribution."""
    import numpy as np

    from ropecli.errors import ArgumentError
    from ropecli.rotary.numbers import even

    if even("head dim", dim) > LARGEST_DIM:
        msg = f"--dim must be at most {LARGEST_DIM}, got {dim}"
        raise ArgumentError(msg)
    if not 1 <= length <= LARGEST // dim:
        msg = f"--length must be from 1 to {LARGEST // dim:,} for --dim {dim}, got {length}"
        raise ArgumentError(msg)
    if seed < 0:
        msg = f"--seed must be at least 0, got {seed}"
        raise ArgumentError(msg)
    return np.random.default_rng(seed).standard_normal((3, length, dim))


def _map(name: str) -> str | Callable[..., Any]:
    """A feature map of ours by its name, or the user's own."""
    from ropecli.files.function import load_function

    return load_function(name) if ":" in name else name
