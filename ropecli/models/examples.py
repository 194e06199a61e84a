"""Bundled configurations of public models: the sources that begin with `example:`."""

from __future__ import annotations

from dataclasses import dataclass

from ropecli.models.load import load_model
from ropecli.models.source import EXAMPLE, EXAMPLES
from ropecli.models.tables import read_table
from ropecli.results import Result


@dataclass(frozen=True, kw_only=True)
class Example:
    """A bundled configuration."""

    name: str  #: What follows the prefix of a bundled source.
    model: str  #: Name of the model; "none" of a mistake.
    rope_types: tuple[str, ...]  #: Of the layers that rotate, each once.
    context_length: int  #: In positions.
    shows: str  #: A few words on its RoPE.


@dataclass(frozen=True, kw_only=True)
class ExampleList(Result):
    """The bundled configurations."""

    examples: tuple[Example, ...]  #: By family.
    folder: str  #: Folder with a file NAME.json of each.


def examples() -> ExampleList:
    """List the configurations that `load_model` takes as "example:NAME"."""
    listed = read_table(__file__).items()
    return ExampleList(
        examples=tuple(_example(name, **facts) for name, facts in listed),
        folder=str(EXAMPLES),
    )


def _example(name: str, *, model: str, shows: str) -> Example:
    layers = load_model(f"{EXAMPLE}{name}").layers
    types = [layer.rotary.rope_type for layer in layers if layer.rotary is not None]
    return Example(
        name=name,
        model=model,
        rope_types=tuple(dict.fromkeys(types)),
        context_length=layers[0].context_length or 0,
        shows=shows,
    )
