"""The vectors command."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropecli.cli.command import command, flag, option
from ropecli.cli.options import EncodingOptions, PageOptions, RotaryOffset, Seed
from ropecli.errors import ArgumentError, FileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.vectors import Case
    from ropecli.cli.encoding import NamedRotary
    from ropecli.models.model import Layer, Model

MOST_POSITIONS = 2**22  #: More would not be rotated either.


@command()
def vectors(
    output: Path = option("FOLDER", "Output folder.", "-o", "--output", under="Output"),
    format: str = option("FORMAT", "File format: npy, safetensors, bin or json.", default="npy"),
    *,
    rope: EncodingOptions,
    rotary_offset: RotaryOffset = None,
    positions: str | None = option(
        "LIST", "Positions: 0,1,4095, ranges 0:64 or 0:64:2, or a file of them."
    ),
    length: int | None = option("N", "Positions 0 ... N-1. [default: 16]"),
    dtype: list[str] | None = option("DTYPE", "Dtype to round to; repeatable. [default: all four]"),
    batch: int | None = option("N", "Number of sequences. [default: 1]"),
    heads: int | None = option("N", "Heads of the queries. [default: the model's, or 2]"),
    key_heads: int | None = option("N", "Heads of the keys. [default: the model's, or --heads]"),
    seed: Seed = 0,
    force: bool = flag("--force", "Replace a folder that this command wrote.", under="Output"),
    page: PageOptions,
) -> None:
    """\b
    Examples:
      ropecli vectors -o golden
      ropecli vectors -o golden --model example:llama-3.1-8b --positions 0:8,4095
      ropecli vectors -o golden --dim 128 --heads 8 --key-heads 2 --format bin
      ropecli vectors -o golden --format safetensors --force

    Write golden test vectors for other implementations. They are exact rotations, rounded once
    to each dtype: for the given model or options, otherwise for every
    rope type in both layouts, partial, trailing and reversed rotations, M-RoPE and long
    positions. A README explains how to compare; .bin files come with a C header.
    """
    from ropecli.checks.vectors.folder import write_vectors

    given: dict[str, Any] = {
        "positions": None if positions is None else _positions(positions),
        "length": length,
        "dtypes": dtype or None,
        "batch": batch,
        "heads": heads,
        "key_heads": key_heads,
    }
    described = [getattr(rope, field.name) for field in fields(rope)]
    if all(
        value in (None, []) for value in [*described, rotary_offset, positions, *given.values()]
    ):
        result = write_vectors(output, format=format, seed=seed, force=force)
        page.show(result, {"output": output, "format": format, "seed": seed})
        return
    encodings = _encodings(rope, rotary_offset)
    page.note(*dict.fromkeys(note for encoding in encodings for note in encoding.notes))
    make = partial(_cases, encodings, given)
    result = write_vectors(output, make, format=format, seed=seed, force=force)
    page.show(result, page.parameters(omit=["force"]))


def _encodings(rope: EncodingOptions, rotary_offset: int | None) -> list[NamedRotary]:
    """Return the encoding of the options, or of every layer type of a model that rotates."""
    if rope.model is None:
        return [rope.encoding(uses_context=False, rotary_offset=rotary_offset)]
    return rope.rotating_layers(rope.model, base=rope.base)


def _cases(encodings: list[NamedRotary], given: dict[str, Any], *, seed: int) -> Iterator[Case]:
    """Yield a case for each encoding, with the heads of its model where none are given."""
    from ropecli.checks.vectors import vectors

    for encoding in encodings:
        rope: Any = encoding.rope
        if encoding.model is not None and encoding.layer is not None:
            rope = {_case_name(encoding.model, encoding.layer): rope}
        yield from vectors(rope, **given | _heads(encoding, given), seed=seed)


def _case_name(model: Model, layer: Layer) -> str:
    name = model.model_type or Path(model.source).stem
    return name if layer.name == "all" else f"{name}-{layer.name}"


def _heads(encoding: NamedRotary, given: dict[str, Any]) -> dict[str, int]:
    """Return the heads of queries and keys that a model's file names, and no option does."""
    from ropecli.models.model import heads_of

    if encoding.model is None or encoding.layer is None or given["heads"] is not None:
        return {}
    with contextlib.suppress(ArgumentError, FileError):  # a GGUF, or a file without these keys
        counts = heads_of(encoding.model, encoding.layer.name)
        return {"heads": counts.heads, "key_heads": given["key_heads"] or counts.kv_heads}
    return {}


def _positions(text: str) -> NDArray[Any]:
    """Return the positions of a list of numbers and ranges, or of a file."""
    import numpy as np

    from ropecli.cli.encoding import read_positions
    from ropecli.names import quote

    if not re.fullmatch(r"[-0-9:,. ]+", text):
        return read_positions(Path(text))
    places: list[float] = []
    for word in text.split(","):
        number = re.fullmatch(r" *(-?\d+)(\.\d*)? *", word)
        ends = re.fullmatch(r" *(-?\d+):(-?\d+)(?::(-?[1-9]\d*))? *", word)
        if number:
            places.append(float(word) if number[2] else int(word))
        elif ends:
            places += range(int(ends[1]), int(ends[2]), int(ends[3] or 1))[: MOST_POSITIONS + 1]
        else:
            raise ArgumentError(
                f"--positions must be numbers and ranges, as in 0,7,100:200, got {quote(word)}"
            )
        if len(places) > MOST_POSITIONS:
            raise ArgumentError(
                f"--positions must be at most {MOST_POSITIONS:,}, got more in {quote(text)}"
            )
    return np.array(places)
