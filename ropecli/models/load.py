"""Load a model's position encodings from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ropecli.errors import FileError, RopecliError
from ropecli.models.describe import describe
from ropecli.models.description import NATIVE, Description
from ropecli.models.model import Layer, Model
from ropecli.models.readings import reading as stack
from ropecli.numbers import length

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping


def load_model(
    source: str | os.PathLike[str] | Mapping[str, Any],
    *,
    sequence_length: int | None = None,
    reading: str | None = None,
) -> Model:
    """The position encodings of a model, as a stack computes them from its file.

    Args:
        source: A config.json, a folder that holds one, a .gguf file, or "-" for a config.json on
            standard input; or the object of a config.json.
        sequence_length: Positions in use, for dynamic NTK and LongRoPE.
        reading: The stack: "transformers", "vllm", "llama.cpp", "mlx-lm" or "paper". By default
            the one that the file is made for: Transformers, or llama.cpp for a GGUF.

    Raises:
        ArgumentError: A value that is not allowed.
        FileError: A file that can't be read, or says something that is not allowed.
    """
    used = settled_length(sequence_length)
    return compute(describe(source), sequence_length=used, reading=reading)


def settled_length(sequence_length: int | None) -> int | None:
    """The sequence length, checked.

    Raises:
        ArgumentError: Not from 1 to 2^53.
        ArgumentTypeError: Not an integer.
    """
    return None if sequence_length is None else length("sequence_length", sequence_length)


def compute(
    described: Description, *, sequence_length: int | None = None, reading: str | None = None
) -> Model:
    """The position encodings of a file that has been read.

    Raises:
        ArgumentError: No such reading.
        FileError: The file says something that is not allowed.
    """
    name = NATIVE[described.format] if reading is None else reading
    rotary = stack(name)
    layers = []
    for settings in described.settings:
        try:
            rope = None if settings.rope_type is None else rotary(settings, sequence_length)
        except RopecliError as error:
            where = "" if settings.name == "all" else f"layer {settings.name}: "
            msg = f"{described.source}: {where}{error}"
            raise FileError(msg) from None
        layers.append(Layer(name=settings.name, rotary=rope, settings=settings))
    return Model(
        source=described.source,
        format=described.format,
        model_type=described.model_type,
        reading=name,
        sequence_length=sequence_length,
        layers=tuple(layers),
        raw=described.raw,
    )
