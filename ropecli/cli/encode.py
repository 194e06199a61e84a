"""The encode command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ropecli.cli import options
from ropecli.cli.options import Force, Json, Layout, Quiet, RotaryDim


def encode(
    input: Annotated[Path, typer.Argument(metavar="INPUT", help="An array of vectors, .npy.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Where to write; INPUT.rope.npy by default."
        ),
    ] = None,
    dim: Annotated[
        int | None,
        typer.Option(metavar="N", help="Head dim, even; all of the last axis by default."),
    ] = None,
    base: options.Base = None,
    layout: Layout = None,
    rotary_dim: RotaryDim = None,
    rotary_offset: Annotated[
        int | None, typer.Option(metavar="N", help="First rotated coordinate; 0 by default.")
    ] = None,
    rope_type: options.RopeType = None,
    set: options.Set = None,
    model: options.Model = None,
    layer: options.Layer = None,
    sequence_length: options.SequenceLength = None,
    sequence_axis: Annotated[
        int | None,
        typer.Option(metavar="AXIS", help="Where positions run; the axis before the last."),
    ] = None,
    positions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Positions, .npy: (sequence,) or (batch, sequence); several axes last.",
        ),
    ] = None,
    offset: Annotated[int, typer.Option(metavar="N", help="Added to every position.")] = 0,
    inverse: Annotated[bool, typer.Option("--inverse", help="Turn back.")] = False,
    dtype: Annotated[
        str | None,
        typer.Option(metavar="DTYPE", help="bfloat16 where the file holds 2-byte void elements."),
    ] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """\b
    Examples:
      ropecli encode input.npy
      ropecli encode queries.npy --dim 128 --layout half --base 500000
      ropecli encode queries.rope.npy --dim 128 --inverse -o back.npy
      ropecli encode queries.npy --model config.json

    Rotate a file of embeddings by their positions. The file may be larger than memory; the output
    has its shape, dtype and memory order, and appears whole or not at all.
    """
    from ropecli.analyses.float32_tables import float32_error
    from ropecli.cli.encoding import chosen
    from ropecli.cli.inputs import files
    from ropecli.cli.progress import progress_bar
    from ropecli.files.atomic import check_target
    from ropecli.files.axes import axis_notes, understand_axes
    from ropecli.files.encode import check_output, default_output, encode_file
    from ropecli.files.npy import open_npy
    from ropecli.files.positions import open_positions
    from ropecli.render import document
    from ropecli.render import encode as pages

    with open_npy(input, dtype) as reader:
        file = reader.file
    numbers = {
        "dim": dim,
        "base": base,
        "layout": layout,
        "rotary_dim": rotary_dim,
        "rotary_offset": rotary_offset,
        "rope_type": rope_type,
        "set": set,
    }
    width = understand_axes(file).head_dim
    encoding = chosen(model, layer, sequence_length, numbers, dim=width)
    rope = encoding.rope
    axes = understand_axes(file, head_dim=rope.head_dim, sequence_axis=sequence_axis)
    target = default_output(input) if output is None else output
    check_output(target)
    sources = files(input, positions, models=[] if model is None else [model])
    check_target(target, force=force, sources=sources)
    with open_positions(positions, axes, offset, coordinates=rope.axes):
        pass  # what is wrong with them is said before the plan
    named = dim is not None or model is not None
    notes = axis_notes(axes, axis_given=sequence_axis is not None, dim_given=named)
    notes += encoding.notes
    if rope.axes > 1 and positions is None:
        notes += (f"positions have {rope.axes} axes, alike without --positions, as in text",)
    if not quiet:
        pages.show_notes(notes)
    if not json:
        pages.show_plan(axes, rope, positions=positions, offset=offset)
    with progress_bar(input.name, wanted=not quiet) as progress:
        result = encode_file(
            input,
            target,
            rope,
            positions=positions,
            offset=offset,
            sequence_axis=sequence_axis,
            inverse=inverse,
            dtype=dtype,
            force=force,
            progress=progress,
        )
    tables = None if model is None else float32_error(rope, result.positions)
    if not quiet:
        pages.show_warnings(result)
        pages.show_tables(tables)
    parameters = {
        "dim": axes.head_dim,
        "base": rope.base if base is None else base,
        "layout": rope.layout,
        "rotary_dim": rope.rotary_dim,
        "rotary_offset": rope.rotary_offset,
        "rope_type": rope.rope_type,
        "set": set,
        "model": model,
        "layer": layer,
        "sequence_length": sequence_length,
        "sequence_axis": axes.sequence_axis,
        "positions": positions,
        "offset": offset,
        "inverse": inverse,
        "dtype": dtype,
    }
    if json:
        document.show("encode", parameters, pages.as_json(result, notes, tables))
    else:
        pages.show(result)
