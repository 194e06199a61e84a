"""The verify command."""

from __future__ import annotations

from typing import Annotated

import typer

from ropecli.cli import options
from ropecli.cli.options import Json, Quiet, RotaryDim, Seed


def verify(
    encoding: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Judge a positional encoding, such as t5, by its laws."),
    ] = None,
    model_dim: Annotated[
        int | None,
        typer.Option(metavar="N", help="With --encoding: coordinates of a token; 64 by default."),
    ] = None,
    heads: Annotated[
        int | None,
        typer.Option(metavar="N", help="With --encoding: heads side by side; 4 by default."),
    ] = None,
    dim: Annotated[
        int | None, typer.Option(metavar="N", help="Head dim, even, at least 2; 64 by default.")
    ] = None,
    base: options.Base = None,
    layout: Annotated[
        str | None,
        typer.Option(metavar="LAYOUT", help="interleaved or half; both by default."),
    ] = None,
    rotary_dim: RotaryDim = None,
    rotary_offset: Annotated[
        int | None, typer.Option(metavar="N", help="First rotated coordinate; 0 by default.")
    ] = None,
    rope_type: options.RopeType = None,
    set: options.Set = None,
    model: options.Model = None,
    layer: options.Layer = None,
    sequence_length: options.SequenceLength = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="DTYPE", help="float64, float32, float16 or bfloat16; all by default."
        ),
    ] = None,
    max_position: Annotated[
        int | None,
        typer.Option(metavar="M", help="Largest position drawn; 131072 by default."),
    ] = None,
    errors: Annotated[
        bool, typer.Option("--errors", help="Show errors and tolerances, not shares.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say where each tolerance comes from.")
    ] = False,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """\b
    Examples:
      ropecli verify --dim 64
      ropecli verify --dim 128 --base 500000 --layout half --max-position 1000000
      ropecli verify --dim 64 --dtype bfloat16 --errors
      ropecli verify --model config.json
      ropecli verify --encoding alibi

    Check the laws of RoPE against an independent reference. The laws are those of RoFormer
    Eq. 11-16 and 34-37, in every dtype and in both layouts. Exit code 1 if a law fails.
    With --encoding, check the laws of another positional encoding, and those it must violate.
    """
    from ropecli.checks.verify import MAX_POSITION, join
    from ropecli.checks.verify import verify as judge
    from ropecli.cli.encoding import chosen
    from ropecli.cli.progress import is_watched
    from ropecli.cli.verify_encoding import refuse_without_encoding, verify_one
    from ropecli.kernels._cache import is_compiled
    from ropecli.render import console, document
    from ropecli.render import verify as pages

    numbers = {
        "dim": dim,
        "base": base,
        "layout": layout,
        "rotary_dim": rotary_dim,
        "rotary_offset": rotary_offset,
        "rope_type": rope_type,
        "set": set,
    }
    rope_alone = numbers | {
        "model": model,
        "layer": layer,
        "sequence_length": sequence_length,
        "dtype": dtype,
        "max_position": max_position,
    }
    own = {"model_dim": model_dim, "heads": heads}
    if encoding is not None:
        verify_one(
            encoding, own, rope_alone, seed, errors=errors, explain=explain, json=json, quiet=quiet
        )
        return
    refuse_without_encoding(**own)
    max_position = MAX_POSITION if max_position is None else max_position
    layouts = ("interleaved", "half") if layout is None and model is None else (layout,)
    encodings = [
        chosen(model, layer, sequence_length, numbers | {"layout": each}, dim=64)
        for each in layouts
    ]
    # A single pair is the same in either layout.
    ropes = list(dict.fromkeys(encoding.rope for encoding in encodings))
    if not quiet:
        for note in encodings[0].notes:
            console.note(note)
    if not quiet and is_watched() and not is_compiled("rotation"):
        console.note("compiling the kernels: some seconds, this once")
    result = join(judge(rope, dtype=dtype, seed=seed, max_position=max_position) for rope in ropes)
    parameters = {
        "encoding": None,
        "dim": ropes[0].head_dim,
        "base": ropes[0].base if base is None else base,
        "layout": layout if model is None else ropes[0].layout,
        "rotary_dim": ropes[0].rotary_dim,
        "rotary_offset": ropes[0].rotary_offset,
        "rope_type": ropes[0].rope_type,
        "set": set,
        "model": model,
        "layer": layer,
        "sequence_length": sequence_length,
        "dtype": dtype,
        "max_position": max_position,
        "seed": seed,
    }
    if json:
        document.show("verify", parameters, pages.as_json(result))
    else:
        pages.show(result, ropes, encodings[0].name, errors=errors, explain=explain, brief=quiet)
    if not result.passed:
        raise typer.Exit(1)
