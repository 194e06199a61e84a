"""Load the position encodings of a model from its file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ropecli.errors import ArgumentError, FileError, NoRotaryError, RopecliError
from ropecli.models import config, diffusers
from ropecli.models.gguf import describe_gguf, read_gguf
from ropecli.models.model import Layer, Model
from ropecli.models.settings import Description, Settings
from ropecli.models.source import open_source
from ropecli.models.stacks import find_stack
from ropecli.numbers import length

LONGEST_NAME = 200  #: Of a model_type or a kind of layer; tables and figures show it.


def load_model(
    source: str | os.PathLike[str] | Mapping[str, Any],
    *,
    sequence_length: int | None = None,
    reading: str | None = None,
) -> Model:
    """Load the position encodings of a model, as a stack computes them from its file.

    Args:
        source: A config.json, of Transformers or of a transformer of diffusers, a folder that
            holds one, a .gguf file, or "-" for a config.json on standard input; or the object of
            a config.json.
        sequence_length: Positions in use, for dynamic NTK and LongRoPE.
        reading: The stack: "transformers", "vllm", "llama.cpp", "mlx-lm" or "paper". By default
            the one that the file is made for: Transformers, or llama.cpp for a GGUF.

    Raises:
        ArgumentError: No such stack, or a sequence length that is not from 1 to 2^53.
        ArgumentTypeError: A source that is neither a path nor an object of keys, or a sequence
            length that is not an integer.
        FileError: A file that cannot be read, or a value in it that cannot be used.
    """
    used = check_length(sequence_length)
    return compute(describe(source), sequence_length=used, reading=reading)


def check_length(sequence_length: int | None) -> int | None:
    """Check a sequence length, before a file is read."""
    return None if sequence_length is None else length("sequence_length", sequence_length)


def describe(source: object) -> Description:
    """Read a file, with nothing computed yet."""
    name, keys = open_source(source)
    if keys is None:
        described = describe_gguf(read_gguf(Path(name)))
        read_settings(described)  # which refuses a header with keys that cannot be used
    else:
        described = describe_config(name, keys)
    _check_label(name, described.model_type or "")
    return described


def describe_config(name: str, keys: Mapping[str, Any]) -> Description:
    """Describe the object of a config.json, with nothing computed yet."""
    of_diffusers = diffusers.is_diffusers(keys)
    kind = keys.get(diffusers.CLASS if of_diffusers else "model_type")
    return Description(
        source=name,
        format=diffusers.FORMAT if of_diffusers else "config.json",
        model_type=kind if isinstance(kind, str) else None,
        raw=keys,
        read=diffusers.settings_of if of_diffusers else config.settings_of,
    )


def read_settings(described: Description, reading: str | None = None) -> tuple[Settings, ...]:
    """Return the settings of each kind of layer, as a stack reads them from a file."""
    stack = find_stack(described, reading)
    if stack.name in described.readings:
        return described.readings[stack.name]
    try:
        settings = stack.read(described)
    except NoRotaryError as error:
        raise NoRotaryError(f"{described.source}: {error}") from None
    except FileError:  # which names the file
        raise
    except RopecliError as error:
        raise FileError(f"{described.source}: {error}") from None
    for kind in settings:
        _check_label(described.source, kind.name)
    return described.readings.setdefault(stack.name, settings)


def _check_label(source: str, label: str) -> None:
    if len(label) > LONGEST_NAME:
        raise FileError(
            f"{source}: names may have at most {LONGEST_NAME} letters, "
            f"got {label[:20]!r}... of {len(label):,}"
        )


def compute(
    described: Description, *, sequence_length: int | None = None, reading: str | None = None
) -> Model:
    """Compute the position encodings of a file that has been read."""
    stack = find_stack(described, reading)
    layers = []
    for settings in read_settings(described, reading):
        try:
            rope = stack.rotary(settings, sequence_length) if settings.rotates else None
        except RopecliError as error:
            where = "" if settings.name == "all" else f"layer {settings.name}: "
            raise FileError(f"{described.source}: {where}{error}") from None
        layers.append(Layer(name=settings.name, rotary=rope, settings=settings))
    return Model(
        source=described.source,
        format=described.format,
        model_type=described.model_type,
        reading=stack.name,
        reading_version=stack.version,
        sequence_length=sequence_length,
        layers=tuple(layers),
        raw=described.raw,
    )


def trained_length(layer: Layer, described: Description) -> int | None:
    """Return the positions of training: before scaling, and before an override of the context."""
    if layer.original_context_length is not None:
        return layer.original_context_length
    try:
        same_name = [
            shown_layer
            for shown_layer in compute(described).layers
            if shown_layer.name == layer.name
        ]
    except (ArgumentError, FileError):  # only overrides make it right
        same_name = []
    return (same_name[0] if same_name else layer).trained_length
