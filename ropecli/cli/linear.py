"""The linear command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ropecli.cli import options
from ropecli.cli.options import Force, Json, Layout, Quiet, RotaryDim, Seed

if TYPE_CHECKING:
    from collections.abc import Callable

    from ropecli.analyses.linear_cost import Cost

DIM = 64


def linear(
    length: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens; 2048 drawn ones, or those of --q.")
    ] = None,
    dim: Annotated[
        int | None, typer.Option(metavar="N", help="Head dim, even; 64, or that of --q.")
    ] = None,
    q: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Queries (tokens, head dim), .npy.")
    ] = None,
    k: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keys (tokens, head dim), .npy.")
    ] = None,
    v: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Values (tokens, values), .npy.")
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
    model: options.Model = None,
    layer: options.Layer = None,
    sequence_length: options.SequenceLength = None,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Time and memory against N, measured: .png .svg .pdf .csv .json.",
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """\b
    Examples:
      ropecli linear
      ropecli linear --length 65536 --feature-map exp
      ropecli linear --length 16384 -o cost.png
      ropecli linear --q q.npy --k k.npy --v v.npy --model config.json
      ropecli linear --feature-map my_maps:squared --json

    Show what RoPE does to linear attention. Weights below zero, rows that do not sum to 1,
    the smallest denominator, and what rotating it too would do (RoFormer Eq. 17-19); and how
    well the sums in O(N) agree with the weights in O(N^2). With -o, time and memory of both
    and of softmax attention (Eq. 2) are measured.
    """
    from ropecli.analyses.linear import linear as analyse
    from ropecli.analyses.linear_cost import linear_cost
    from ropecli.cli import linear_input
    from ropecli.cli.encoding import chosen
    from ropecli.cli.inputs import files
    from ropecli.files.function import in_reach
    from ropecli.render import console, document, linear_file
    from ropecli.render import linear as pages
    from ropecli.render.output import check_output

    check_output(output, force=force, sources=files(q, k, v, models=[model] if model else None))
    numbers = {
        "dim": dim,
        "base": base,
        "layout": layout,
        "rotary_dim": rotary_dim,
        "rope_type": rope_type,
        "set": set,
    }
    arrays = linear_input.read(q, k, v, length=length, dim=dim)
    width = DIM if arrays is None else arrays[0].shape[1]
    linear_input.check_dim(width if dim is None else dim)
    encoding = chosen(model, layer, sequence_length, numbers, dim=width)
    if arrays is None:
        arrays = linear_input.drawn(length, encoding.rope.head_dim, seed)
    cost: tuple[Cost, ...] = ()
    with in_reach(feature_map):
        phi = _map(feature_map)
        result = analyse(*arrays, encoding.rope, feature_map=phi, rows=rows)
        if output is not None:
            cost = linear_cost(*arrays, encoding.rope, feature_map=phi, rows=rows)
    parameters = {
        "length": len(arrays[0]),
        **numbers,
        "dim": None if model else encoding.rope.head_dim,
        "layout": None if model else encoding.rope.layout,
        "q": q,
        "k": k,
        "v": v,
        "feature_map": feature_map,
        "rows": rows,
        "model": model,
        "layer": layer,
        "sequence_length": sequence_length,
        "seed": seed,
    }
    if not quiet:
        for note in encoding.notes:
            console.note(note)
    if output is not None:
        linear_file.write(result, cost, encoding.rope, output, parameters, force=force)
    if json:
        document.show("linear", parameters, pages.as_json(result, cost))
    else:
        pages.show(result, cost, saved=output, brief=quiet)


def _map(name: str) -> str | Callable[..., Any]:
    """A feature map of ours by its name, or the user's own."""
    from ropecli.files.function import load_function

    return load_function(name) if ":" in name else name
