"""The reading of llama.cpp."""

from __future__ import annotations

from dataclasses import replace

from ropecli.errors import ArgumentError
from ropecli.models.gguf.converter import convert, entry_name
from ropecli.models.gguf.settings import gguf_settings
from ropecli.models.settings import INDEXER, Description, Settings
from ropecli.models.stacks.build import build
from ropecli.models.stacks.stack import Stack
from ropecli.names import quote
from ropecli.rotary import Rotary

VERSION = "0c1e570"  #: As llama-cpp-python 0.3.36 has it.
EXTRA = 3  #: ggml's fourth axis, which is 0 in text: it has the pairs that no section claims.


def read(described: Description) -> tuple[Settings, ...]:
    """Return the settings of a GGUF; of a config.json, those of the GGUF it is converted to.

    A converter permutes the weights where layouts differ, so layouts are those of the config.json.
    Only the text model is converted; other parts, and models without a known conversion, are as
    Transformers reads them.
    """
    if described.format != "config.json":
        return described.settings
    text = next((part for part in described.parts if part.name == ""), None)
    if text is None:
        return described.settings
    architecture = text.keys.architecture
    name = entry_name(text, described.raw)
    if name is None:
        if not architecture.in_transformers:
            return described.settings
        kind = quote(architecture.model_type)
        raise ArgumentError(
            f"no conversion to a GGUF is known for model_type {kind} (llama.cpp {VERSION})"
        )
    text_settings = [
        settings
        for settings in described.settings
        if settings.part == "" and not settings.is_indexer
    ]
    head_dims = {
        settings.name: settings.geometry["head_dim"]
        for settings in text_settings
        if settings.geometry
    }
    if not head_dims:
        return described.settings
    header = convert(text, name, described.source, head_dims)
    converted = [_laid_out(setting, text_settings) for setting in gguf_settings(header)]
    rotations = {
        repr((settings.rope_type, settings.geometry, settings.scaling)) for settings in converted
    }
    if len(text_settings) == 1 and len(rotations) == 1:
        converted = [
            replace(converted[0], name=text_settings[0].name, layers=text_settings[0].layers)
        ]
    converted += [
        replace(converted[0], name=INDEXER, geometry=settings.geometry, softmax=None)
        for settings in described.settings
        if settings.name == INDEXER  # of the text model
    ]
    return (*converted, *(settings for settings in described.settings if settings.part != ""))


def _laid_out(settings: Settings, own: list[Settings]) -> Settings:
    """Give a kind of layer the layout that the weights have before they are converted."""
    rotating = [layer_settings for layer_settings in own if layer_settings.geometry]
    same = next(
        (layer_settings for layer_settings in rotating if layer_settings.name == settings.name),
        rotating[0],
    )
    geometry = {k: v for k, v in settings.geometry.items() if k != "layout"}
    layout = {k: v for k, v in same.geometry.items() if k in ("layout", "output")}
    return replace(settings, geometry=geometry | layout) if settings.geometry else settings


def rotary(settings: Settings, sequence_length: int | None) -> Rotary:
    """The rotation of llama.cpp, from the settings of a GGUF.

    The sequence length is n_ctx. Cached keys are not rotated again, so dynamic NTK does not exist.
    """
    scaling, rope_type = dict(settings.scaling), settings.rope_type
    scaling["truncate"] = True  # the ends of the ramp are always rounded
    if rope_type in ("dynamic", "ntk") and scaling.get("alpha") is None:
        rope_type = "default"
    result = build(settings, rope_type, scaling, sequence_length or settings.context_length)
    section = settings.geometry.get("mrope_section")
    if section is None or not settings.geometry.get("mrope_interleaved"):
        return result
    return _with_extra_axis(result, list(section))


def _with_extra_axis(rope: Rotary, section: list[int]) -> Rotary:
    """Give ggml's fourth axis the pairs that no interleaved section claims, time's included."""
    claimed = [
        axis if axis != 0 or (i % 3 == 0 and i < 3 * section[0]) else EXTRA
        for i, axis in enumerate(rope.axis or ())
    ]
    return rope.with_axis(claimed)


LLAMA_CPP = Stack(name="llama.cpp", version=VERSION, rotary=rotary, read=read)
