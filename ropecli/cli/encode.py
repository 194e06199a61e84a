"""The encode command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ropecli.cli.command import Help, command
from ropecli.cli.options import EncodingOptions, Force, PageOptions, RotaryOffset


@command
def encode(
    input: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT", help="Files of vectors, folders or globs; - for .npy on stdin."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Output file, or folder for several. [default: INPUT.rope.npy]",
        ),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="File to compare with the rotation of INPUT."),
    ] = None,
    tensor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Tensors to rotate, if INPUT holds several: name or glob."
        ),
    ] = None,
    *,
    rope: Annotated[EncodingOptions, Help(dim="Head dim, even. [default: all of the last axis]")],
    rotary_offset: RotaryOffset = None,
    sequence_axis: Annotated[
        int | None,
        typer.Option(metavar="AXIS", help="Axis of the positions. [default: the last but one]"),
    ] = None,
    positions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Positions: (sequence,) or (batch, sequence); several axes last.",
        ),
    ] = None,
    offset: Annotated[int, typer.Option(metavar="N", help="Number added to every position.")] = 0,
    positions_continue: Annotated[
        bool,
        typer.Option("--positions-continue", help="Continue positions from one file to the next."),
    ] = False,
    inverse: Annotated[bool, typer.Option("--inverse", help="Apply the inverse rotation.")] = False,
    dtype: Annotated[
        str | None,
        typer.Option(metavar="DTYPE", help="Dtype of a raw input, or of 2-byte void elements."),
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option(metavar="N,N,...", help="Shape of a raw (headerless) input; needs --dtype."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Keep finished blocks if interrupted, and continue from them."
        ),
    ] = False,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Dask scheduler whose workers rotate: tcp://HOST:PORT."
        ),
    ] = None,
    force: Force = False,
    page: PageOptions,
) -> None:
    """\b
    Examples:
      ropecli encode input.npy
      ropecli encode queries.npy --dim 128 --layout half --base 500000
      ropecli encode queries.rope.npy --dim 128 --inverse -o back.npy
      ropecli encode queries.npy --model config.json
      ropecli encode 'dump/*.safetensors' --tensor '*.q' -o out/
      ropecli encode queries.npy --check engine_output.npy

    Rotate a file of embeddings by their positions. The file may be larger than memory; the output
    has its shape, dtype and memory order, and appears whole or not at all. Exit code 1 if OUT of
    --check is not the rotation of INPUT.
    """
    # First, because CPython 3.11 maps and unmaps memory for each of the many calls in which Numba
    # is loaded, where modules that load each other stand between it and this one.
    import ropecli.rotary.apply  # noqa: F401  # isort: split
    from ropecli.cli.encode_run import EncodeOptions, encode_check, encode_many, encode_one
    from ropecli.files.formats.raw import parse_shape
    from ropecli.files.many import expanded

    inputs = expanded(input)
    options = EncodeOptions(
        rope=rope,
        rotary_offset=rotary_offset,
        of_job={
            "tensor": tensor,
            "positions": positions,
            "offset": offset,
            "sequence_axis": sequence_axis,
            "inverse": inverse,
            "dtype": dtype,
            "shape": None if shape is None else parse_shape(shape),
        },
        force=force,
        resume=resume,
        scheduler=scheduler,
        page=page,
    )
    if check is not None:
        writing: dict[str, object] = {
            "-o": output,
            "--resume": resume,
            "--scheduler": scheduler,
            "--force": force,
        }
        _refuse_with_check(inputs, writing, positions_continue=positions_continue)
        encode_check(inputs[0], check, options)
        return
    if _several(input, inputs, output):
        encode_many(inputs, output, options, positions_continue=positions_continue)
    else:
        encode_one(inputs[0], output, options)


def _several(given: list[str], inputs: list[Path], output: Path | None) -> bool:
    """Whether outputs go into a folder, or next to each of several files.

    One file that a pattern or a folder stands for is treated as several would be.
    """
    from ropecli.errors import ArgumentError
    from ropecli.files.formats.pipe import is_pipe
    from ropecli.files.many import is_plain_folder

    several = len(inputs) > 1 or inputs != [Path(name) for name in given]
    if several and any(map(is_pipe, inputs)):
        msg = "- is one file, got it among several"
        raise ArgumentError(msg)
    if several and output is None and any(is_plain_folder(Path(name)) for name in given):
        msg = "a folder as INPUT needs another for the outputs: give -o FOLDER"
        raise ArgumentError(msg)
    return several or (output is not None and is_plain_folder(output))


def _refuse_with_check(
    inputs: list[Path], writing: dict[str, object], *, positions_continue: bool
) -> None:
    from ropecli.errors import ArgumentError

    for name, given in writing.items():
        if given:
            msg = f"--check writes nothing: leave {name} out"
            raise ArgumentError(msg)
    if len(inputs) > 1:
        msg = f"--check compares one file with one, got {len(inputs)}"
        raise ArgumentError(msg)
    if positions_continue:
        msg = "--check compares one file with one: leave --positions-continue out"
        raise ArgumentError(msg)
