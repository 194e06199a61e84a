"""The identify command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ropecli.cli import options
from ropecli.cli.options import Json, Quiet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.cli.encoding import NamedRotary


def identify(
    before: Annotated[
        Path, typer.Argument(metavar="BEFORE", help="The vectors, in any format that is read.")
    ],
    after: Annotated[
        Path, typer.Argument(metavar="AFTER", help="The same, rotated; may be the same file.")
    ],
    tensor: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Which tensor, where a file holds several."),
    ] = None,
    tensor_after: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Which one of AFTER; as --tensor by default."),
    ] = None,
    positions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Positions: (sequence,) or (batch, sequence); several axes last.",
        ),
    ] = None,
    dim: Annotated[
        int | None,
        typer.Option(metavar="N", help="Head dim, even; all of the last axis by default."),
    ] = None,
    sequence_axis: Annotated[
        int | None,
        typer.Option(metavar="AXIS", help="Where positions run; the axis before the last."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE",
            help="A config.json, its folder or a .gguf to compare with; repeatable.",
        ),
    ] = None,
    layer: options.Layer = None,
    sequence_length: options.SequenceLength = None,
    dtype: Annotated[
        str | None,
        typer.Option(metavar="DTYPE", help="bfloat16 where a file holds 2-byte void elements."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """\b
    Examples:
      ropecli identify q_before.npy q_after.npy
      ropecli identify q_before.npy q_after.npy --positions p.npy
      ropecli identify before.npy after.npy --model config.json
      ropecli identify q.npz q.npz --tensor before --tensor-after after

    Say which RoPE made one tensor from another. From vectors before and after, positions known or
    not: layout, base, scaling, direction, offset, precision, or why it is no rotation by position.
    Exit code 1 if nothing is recognised.
    """
    from ropecli.checks.identify import identify as find
    from ropecli.cli.encoding import refuse_without_model
    from ropecli.errors import ArgumentError
    from ropecli.files.axes import axis_notes
    from ropecli.files.sequences import read_sequences
    from ropecli.render import console, document
    from ropecli.render import identify as pages

    if not model:
        refuse_without_model(layer=layer, sequence_length=sequence_length)
    if tensor_after is None and after.suffix.lower() != ".npy":
        tensor_after = tensor
    if os.path.realpath(before) == os.path.realpath(after) and tensor == tensor_after:
        msg = (
            f"before and after are the same tensor of {before}: "
            "name two files, or two tensors with --tensor and --tensor-after"
        )
        raise ArgumentError(msg)
    candidates = _candidates(model or [], layer, sequence_length)
    x, axes = read_sequences(before, tensor, head_dim=dim, sequence_axis=sequence_axis, dtype=dtype)
    y, _ = read_sequences(
        after, tensor_after, head_dim=dim, sequence_axis=sequence_axis, dtype=dtype
    )
    if not quiet:
        for note in axis_notes(
            axes, axis_given=sequence_axis is not None, dim_given=dim is not None
        ):
            console.note(note)
        for name, candidate in candidates.items():
            for note in candidate.notes:
                console.note(f"{name}: {note}")
    result = find(
        x,
        y,
        None if positions is None else _read_positions(positions),
        candidates={name: candidate.rope for name, candidate in candidates.items()},
    )
    parameters = {
        "before": before,
        "after": after,
        "tensor": tensor,
        "tensor_after": tensor_after,
        "positions": positions,
        "dim": axes.head_dim,
        "sequence_axis": axes.sequence_axis,
        "model": model or [],
        "layer": layer,
        "sequence_length": sequence_length,
        "dtype": dtype,
    }
    ropes = {name: candidate.rope for name, candidate in candidates.items()}
    words = {name: _words(each, sequence_length) for name, each in candidates.items()}
    if json:
        document.show("identify", parameters, pages.as_json(result, words))
    else:
        pages.show(result, ropes, words, brief=quiet)
    if not result.recognised:
        raise typer.Exit(1)


def _read_positions(path: Path) -> NDArray[Any]:
    """The only array of a file."""
    from ropecli.errors import ArgumentError
    from ropecli.files.arrays import choose, read_whole
    from ropecli.files.formats.registry import open_source
    from ropecli.files.formats.stored import check_numeric

    with open_source(path) as source:
        names = list(source.arrays)
        if len(names) > 1:
            some = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            msg = f"--positions must be a file of one array, got {path} with {len(names)}: {some}"
            raise ArgumentError(msg)
        (name,) = choose(source, None)
        return read_whole(source.reader(check_numeric(source.arrays[name])))


def _candidates(
    sources: list[str], layer: str | None, sequence_length: int | None
) -> dict[str, NamedRotary]:
    """Every kind of layer that rotates, of every model."""
    from ropecli.cli.encoding import NamedRotary
    from ropecli.errors import ArgumentError
    from ropecli.models.load import load_model

    if sources.count("-") > 1:
        msg = f"standard input can be read once, got --model - {sources.count('-')} times"
        raise ArgumentError(msg)
    found: dict[str, NamedRotary] = {}
    for source in sources:
        model = load_model(source, sequence_length=sequence_length)
        rotating = [each for each in model.only(layer).layers if each.rotary is not None]
        if not rotating:
            which = "" if layer is None else f" {layer}"
            msg = f"{source} has no layer{which} with a rotary position embedding"
            raise ArgumentError(msg)
        several = len([each for each in model.layers if each.rotary is not None]) > 1
        for each in rotating:
            assert each.rotary is not None
            name = f"{source} ({each.name})" if several else source
            found[name] = NamedRotary(rope=each.rotary, name=name, layer=each, model=model)
    return found


def _words(candidate: NamedRotary, sequence_length: int | None) -> list[str]:
    """The options that other commands take such a layer by."""
    assert candidate.layer is not None
    assert candidate.model is not None
    source = candidate.model.source
    words = ["--model", source]
    if candidate.name != source:
        words += ["--layer", candidate.layer.name]
    return words + ([] if sequence_length is None else ["--sequence-length", str(sequence_length)])
