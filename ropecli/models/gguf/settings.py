"""From the header of a GGUF to the settings of each kind of block, as llama.cpp reads it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.errors import FileError
from ropecli.models.gguf import ggml
from ropecli.models.gguf.architectures import LAYOUTS
from ropecli.models.gguf.blocks import Blocks, kinds_of_blocks
from ropecli.models.gguf.metadata import SECTIONS, Metadata
from ropecli.models.gguf.reader import GgufFile
from ropecli.models.gguf.scaling import Scaling
from ropecli.models.keys import LARGEST_HEAD, ORIGINAL
from ropecli.models.settings import Description, Settings
from ropecli.rotary.factors import Temperature

FREQS, LONG, SHORT = (f"rope_{name}.weight" for name in ("freqs", "factors_long", "factors_short"))
_LLAMA4 = Temperature(beta=0.1, length=8192, shift=1)


def describe_gguf(file: GgufFile) -> Description:
    """Describe a GGUF whose header has been read; its keys are checked when they are asked for."""
    name = file.metadata.get("general.architecture")
    return Description(
        source=os.fspath(file.path),
        format="gguf",
        model_type=name if isinstance(name, str) else None,
        raw=file.metadata,
        read=lambda _: gguf_settings(file),
    )


def gguf_settings(file: GgufFile) -> tuple[Settings, ...]:
    """Return the settings of each kind of block.

    LongRoPE's list goes by the context length with which llama.cpp is started. The geometry has
    the axis of each pair where ggml reads the sections of M-RoPE in its own way.
    """
    keys = Metadata(file)
    return tuple(_settings(keys, blocks) for blocks in kinds_of_blocks(keys))


def _settings(keys: Metadata, blocks: Blocks) -> Settings:
    scaling = Scaling(keys, blocks)
    settings = Settings(
        name=blocks.name,
        rope_type=None,
        layers=blocks.layers,
        context_length=keys.integer("context_length", least=0) or None,
        temperature=_temperature(keys, blocks, scaling.original),
    )
    if not blocks.rotates:
        return settings
    length, geometry, pairs, assumed = _geometry(keys, blocks)
    rotation = scaling.rotation(geometry["rotary_dim"], length)
    rope_type, parameters = ggml.name_rope_type(rotation, **_divisors(keys, blocks, pairs))
    score = _score_parameters(keys, rotation, scaling.log_multiplier)
    unknown: tuple[str, ...] = ()
    if keys.mode is None:
        why = f"no key of a GGUF gives it, and {keys.name!r} is not an architecture of llama.cpp"
        unknown = (f"layout half: {why}",)
    return replace(
        settings,
        rope_type=rope_type,
        geometry=geometry,
        scaling={"rope_theta": rotation.base, **parameters, **score},
        softmax="mscale_all_dim" if score else None,
        original_context_length=_original(keys, rope_type, parameters),
        assumed=(*unknown, *assumed, *scaling.assumed),
    )


def _score_parameters(
    keys: Metadata, rotation: ggml.Rotation, log_multiplier: float
) -> dict[str, float]:
    """Return DeepSeek's factor on the score as the mscale_all_dim k of (1 + 0.1 k ln s)^2."""
    # Without s above 1, only attn_factor could multiply it, which no converter writes for these.
    if keys.facts.get("softmax") != "mscale" or rotation.factor <= 1:
        return {}
    root = math.sqrt(ggml.softmax_factor(rotation, log_multiplier))
    return {
        "factor": rotation.factor,
        "mscale_all_dim": (root - 1.0) / (0.1 * math.log(rotation.factor)),
    }


def _original(keys: Metadata, rope_type: str, parameters: Mapping[str, Any]) -> int | None:
    """Return the original length, unless the number is only there to fill a gap."""
    given = keys.integer("rope.scaling.original_context_length", least=0)
    if given or rope_type not in {"yarn", "llama3"}:
        return given or None
    original: int = parameters[ORIGINAL]
    return original


def _divisors(keys: Metadata, blocks: Blocks, count: int) -> dict[str, NDArray[np.float64] | None]:
    """Read the tensors that divide frequencies; blocks that rotate fewer use the first numbers."""
    where = "all" if keys.mode is None else keys.facts.get("divisors")
    used = where == "all" or (where == "full" and not blocks.sliding)
    tensors = {"freqs": FREQS, "long_factors": LONG, "short_factors": SHORT}
    return {
        argument: _divisor(keys.file, name, count) if used and name in keys.file.tensors else None
        for argument, name in tensors.items()
    }


def _divisor(file: GgufFile, name: str, count: int) -> NDArray[np.float64]:
    # The shape is checked first, so that a large tensor is not read in vain.
    shape = file.tensors[name].shape
    if shape != (count,):
        raise FileError(
            f"{file.path}: tensor {name!r} has shape {shape}; expected a number per pair, {count}"
        )
    divisors = file.tensor(name)
    bad = np.flatnonzero(~(np.isfinite(divisors) & (divisors > 0)))
    if len(bad):
        raise FileError(
            f"{file.path}: tensor {name!r} holds {divisors[bad[0]]:g} at index {bad[0]}; "
            "expected finite numbers above 0"
        )
    return divisors


def _temperature(keys: Metadata, blocks: Blocks, original: int) -> Temperature | None:
    """Return the temperature of the queries of a kind of block."""
    how = keys.facts.get("temperature")
    if how == "llama4":
        return None if blocks.rotates else _LLAMA4
    scale = keys.real("attention.temperature_scale")
    if how is None or not scale:
        return None
    name = "attention.temperature_length"
    length = original if how == "original" else keys.integer(name, least=0)
    if not length:
        keys.refuse(name if how == "keys" else "context_length", length, "a number above 0")
    return Temperature(beta=scale, length=length)


# The place of the rotation in a head.


def _geometry(keys: Metadata, blocks: Blocks) -> tuple[int, dict[str, Any], int, tuple[str, ...]]:
    """Return the place of the rotation of one kind of block.

    Returns:
        Coordinates of a key as the loader counts them; the parameters of `ropecli.rope`; pairs of
        rope.dimension_count, of which an architecture may rotate fewer; what was assumed.
    """
    facts, mode = keys.facts, keys.mode
    assumed: tuple[str, ...] = ()
    trailing = facts.get("offset") == "trailing"
    length = _key_length(keys, blocks)
    head_dim = (_mla_length(keys, blocks) if trailing else None) or length
    name, count = "rope.dimension_count", None
    if not (facts.get("fixed") or facts.get("whole_head")):
        count = _by_window(keys, name, blocks)
        if count is None:
            assumed = (f"rotary dim {length}, the whole head: the file has no {keys.key(name)}",)
        elif count % 2:
            keys.refuse(name, count, "an even number")
    count = length if count is None else count
    rotary_dim = count if blocks.sliding else count // facts.get("full_divisor", 1)
    if rotary_dim > head_dim:
        keys.refuse(name, rotary_dim, f"at most the head's {head_dim}")
    layout = LAYOUTS.get(mode or "neox")
    parameters: dict[str, Any] = {"head_dim": head_dim, "rotary_dim": rotary_dim, "layout": layout}
    if trailing:
        parameters["rotary_offset"] = head_dim - rotary_dim
    if mode in {"mrope", "imrope"}:
        parameters |= _axes(keys, rotary_dim, interleaved=mode == "imrope")
    return length, parameters, count // 2, assumed


def _by_window(keys: Metadata, name: str, blocks: Blocks) -> int | None:
    """Return an integer, which blocks with a sliding window may have of their own."""
    sliding = keys.integer(f"{name}_swa") if blocks.sliding else None
    return keys.integer(name) if sliding is None else sliding


def _key_length(keys: Metadata, blocks: Blocks) -> int:
    """Return the length of a key; by default, as in llama.cpp, the embedding's share of a head."""
    length = _by_window(keys, "attention.key_length", blocks)
    if length is None:
        width = keys.integer("embedding_length")
        heads = keys.integers("attention.head_count")
        if width is None or heads is None:
            missing = "embedding_length" if width is None else "attention.head_count"
            keys.refuse(missing, None, "a number, or else attention.key_length")
        # One number per block, 0 where there is no attention.
        count = next((count for count in heads if count > 0), None)
        if count is None:
            keys.refuse("attention.head_count", heads, "a number above 0")
        length = width // count
    if not 2 <= length <= LARGEST_HEAD:
        keys.refuse("attention.key_length", length, f"a number from 2 to {LARGEST_HEAD:,}")
    return length


def _mla_length(keys: Metadata, blocks: Blocks) -> int | None:
    length = _by_window(keys, "attention.key_length_mla", blocks)
    if length is not None and length > LARGEST_HEAD:
        keys.refuse("attention.key_length_mla", length, f"at most {LARGEST_HEAD:,}")
    return length


def _axes(keys: Metadata, rotary_dim: int, *, interleaved: bool) -> dict[str, Any]:
    """Return the sections of M-RoPE, or each pair's axis where ggml reads them in its own way."""
    sections = keys.sections()
    if not sections:
        keys.refuse(SECTIONS, None, "four numbers")
    fits = sum(sections) == rotary_dim // 2
    if fits and not (interleaved and sections[3]):
        trimmed = list(sections if sections[3] else sections[:3])
        return {"mrope_section": trimmed, "mrope_interleaved": interleaved}
    # ggml repeats the sections where they end, and interleaves three axes, never four.
    return {"axis": ggml.axis_of_pairs(sections, rotary_dim // 2, interleaved=interleaved)}
