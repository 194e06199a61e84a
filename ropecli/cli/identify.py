"""The identify command."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropecli.cli.command import argument, command, option
from ropecli.cli.options import SOURCE, Layer, PageOptions, SequenceLength
from ropecli.errors import ArgumentError, spell_parameters

if TYPE_CHECKING:
    from ropecli.cli.encoding import NamedRotary


OF_VECTORS = ("before", "positions", "dim", "sequence_axis", "model", "tensor_after")


@command(
    needs={"layer": "model", "sequence_length": "model"},
    excludes={"table": (*OF_VECTORS, "bias"), "bias": OF_VECTORS},
)
def identify(
    before: Path | None = argument("BEFORE", "Vectors before rotation, any readable format."),
    after: Path | None = argument("AFTER", "Vectors after rotation; may be the same file."),
    table: Path | None = option(
        "FILE", "In place of vectors: a table of codes, (positions, columns)."
    ),
    bias: Path | None = option(
        "FILE", "In place of vectors: a bias of scores, (heads, queries, keys)."
    ),
    tensor: str | None = option("NAME", "Tensor to read from a file with several."),
    tensor_after: str | None = option("NAME", "Tensor of AFTER. [default: --tensor]"),
    positions: Path | None = option(
        "FILE", "Position ids (sequence,) or (batch, sequence), axes last. [default: recovered]"
    ),
    dim: int | None = option("N", "Head dim, even. [default: recovered]"),
    sequence_axis: int | None = option("AXIS", "Axis of the positions. [default: recovered]"),
    model: list[str] | None = option("SOURCE", f"Model to compare with: {SOURCE}; repeatable."),
    layer: Layer = None,
    sequence_length: SequenceLength = None,
    dtype: str | None = option("DTYPE", "Dtype of 2-byte void elements: bfloat16."),
    *,
    page: PageOptions,
) -> bool:
    """\b
    Examples:
      ropecli identify q_before.npy q_after.npy
      ropecli identify q_before.npy q_after.npy --positions p.npy
      ropecli identify before.npy after.npy --model config.json
      ropecli identify q.npz q.npz --tensor before --tensor-after after
      ropecli identify --table pe.npy
      ropecli identify --bias alibi.npy

    Recover the RoPE from vectors before and after rotation. Positions may be unknown. Show
    layout, base, scaling, direction, offset and precision, or why it is not a rotation by position.
    Of a table or a bias, show which positional encoding it has. Exit code 1 if nothing is
    recognised, or if no --model matches.
    """
    if table is not None or bias is not None:
        return _identify_encoding(table, bias, tensor, page)
    if before is None or after is None:
        raise ArgumentError(
            "identify needs BEFORE and AFTER, two files of vectors; or --table FILE, or --bias FILE"
        )
    from ropecli.checks.identify import identify as recover
    from ropecli.cli.app import option_of
    from ropecli.cli.encoding import read_positions
    from ropecli.files.array_axes import axis_notes
    from ropecli.files.load import read_sequences

    if tensor_after is None and after.suffix.lower() != ".npy":
        tensor_after = tensor
    same_file = before.exists() and os.path.realpath(before) == os.path.realpath(after)
    if same_file and tensor == tensor_after:
        raise ArgumentError(
            f"before and after are the same tensor of {before}: "
            "name two files, or two tensors with --tensor and --tensor-after"
        )
    candidates = _load_candidates(model or [], layer, sequence_length)
    ropes = {name: candidate.rope for name, candidate in candidates.items()}
    options = {name: _spell(rope, sequence_length) for name, rope in candidates.items()}
    given: dict[str, Any] = {"head_dim": dim, "sequence_axis": sequence_axis}
    x, axes = read_sequences(before, tensor, dtype=dtype, **given)
    y, _ = read_sequences(after, tensor_after, dtype=dtype, **given)
    where = None if positions is None else read_positions(positions)
    result = recover(x, y, where, candidates=ropes, **given)
    axes = replace(
        axes,
        sequence_axis=result.sequence_axis,
        heads=result.heads,
        head_dim=x.shape[-1] // result.heads,
    )
    guesses = axis_notes(axes, axis_given=sequence_axis is not None, dim_given=dim is not None)
    page.note(
        *(spell_parameters(note, partial(option_of, "identify")) for note in guesses),
        *(f"{name}: {note}" for name, rope in candidates.items() for note in rope.notes),
    )
    parameters = page.parameters(axes, tensor_after=tensor_after, model=model or [])
    page.show(result, parameters, candidates=ropes, models=options)
    return result.recognised and (not ropes or result.matches_any(ropes))


def _identify_encoding(
    table: Path | None, bias: Path | None, tensor: str | None, page: PageOptions
) -> bool:
    """Show which encoding a table or a bias has."""
    from ropecli.checks.encoding.identify import identify_bias, identify_table
    from ropecli.files.arrays import open_array, read_whole

    path = table or bias
    assert path is not None
    with open_array(path, tensor, accept=lambda stored: stored) as reader:
        array = read_whole(reader)
    result = identify_table(array) if table is not None else identify_bias(array)
    page.show(result, page.parameters(result))
    return result.recognised


def _load_candidates(
    sources: list[str], layer: str | None, sequence_length: int | None
) -> dict[str, NamedRotary]:
    """Return every layer type that rotates, of every model, by name."""
    from ropecli.cli.options import RotaryOptions

    if sources.count("-") > 1:
        raise ArgumentError(
            f"stdin (-) can be given only once, got --model - {sources.count('-')} times"
        )
    options = RotaryOptions(layer=layer, sequence_length=sequence_length)
    return {
        str(shown_layer.name): shown_layer
        for source in sources
        for shown_layer in options.rotating_layers(source)
    }


def _spell(candidate: NamedRotary, sequence_length: int | None) -> list[str]:
    """Return the options that choose such a layer in other commands."""
    assert candidate.layer is not None
    assert candidate.model is not None
    source = candidate.model.source
    options = ["--model", source]
    if candidate.name != source:
        options += ["--layer", candidate.layer.name]
    if sequence_length is not None:
        options += ["--sequence-length", str(sequence_length)]
    return options
