"""From the header of a GGUF to the settings of each kind of block, as llama.cpp reads it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ropecli.errors import FileError
from ropecli.models.gguf import ggml
from ropecli.models.gguf.architectures import LAYOUTS, gguf_architecture, goes_by_sections
from ropecli.models.gguf.blocks import kinds_of_blocks
from ropecli.models.gguf.metadata import Metadata
from ropecli.models.gguf.reader import read_gguf
from ropecli.models.gguf.scaling import Scaling
from ropecli.models.settings import Description, Settings
from ropecli.rotary.factors import Temperature

if TYPE_CHECKING:
    from ropecli.models.gguf.architectures import GgufArchitecture
    from ropecli.models.gguf.blocks import Blocks
    from ropecli.models.gguf.reader import GgufFile

FREQS, LONG, SHORT = (f"rope_{name}.weight" for name in ("freqs", "factors_long", "factors_short"))
_LLAMA4 = Temperature(beta=0.1, length=8192, shift=1)
LARGEST_HEAD = 1 << 16  #: A hundred times any model's.
_SECTIONS = "rope.dimension_sections"


def describe_gguf(path: Path) -> Description:
    """Read a GGUF."""
    return describe_gguf_file(read_gguf(path))


def describe_gguf_file(file: GgufFile) -> Description:
    """Describe a GGUF whose header has been read."""
    settings = gguf_settings(file)
    return Description(
        source=os.fspath(file.path),
        format="gguf",
        model_type=Metadata(file).architecture,
        raw=file.metadata,
        read=lambda: settings,
    )


def gguf_settings(file: GgufFile) -> tuple[Settings, ...]:
    """Return the settings of each kind of block.

    LongRoPE's list goes by the context length with which llama.cpp is started. The geometry has
    the axis of each pair where ggml reads the sections of M-RoPE in its own way.
    """
    keys = Metadata(file)
    name = keys.architecture
    found = gguf_architecture(name, sections_of(keys) if goes_by_sections(name) else ())
    return tuple(_settings(file, keys, found, blocks) for blocks in kinds_of_blocks(keys, found))


def _settings(file: GgufFile, keys: Metadata, found: GgufArchitecture, blocks: Blocks) -> Settings:
    scaling = Scaling(keys, found, blocks)
    settings = Settings(
        name=blocks.name,
        rope_type=None,
        layers=blocks.layers,
        context_length=keys.integer("context_length", least=0) or None,
        temperature=_temperature(keys, found, blocks, scaling.original),
    )
    if not blocks.rotates:
        return settings
    placed = _geometry(keys, found, blocks)
    rotation = scaling.rotation(placed.rotary_dim, placed.key_length)
    rope_type, parameters = ggml.name_rope_type(
        rotation, **_divisors(file, found, blocks, placed.dimension_count // 2)
    )
    score = _score_parameters(found, rotation, scaling.log_multiplier)
    unknown = []
    if found.mode is None:
        unknown.append(
            f"layout half: no key of a GGUF gives it, and {found.name!r} is not an architecture of "
            "llama.cpp"
        )
    return replace(
        settings,
        rope_type=rope_type,
        geometry=placed.parameters,
        scaling={"rope_theta": rotation.base, **parameters, **score},
        softmax="mscale_all_dim" if score else None,
        original_context_length=_original(keys, rope_type, parameters),
        assumed=(*unknown, *placed.assumed, *scaling.assumed),
    )


def _score_parameters(
    found: GgufArchitecture, rotation: ggml.Rotation, log_multiplier: float
) -> dict[str, float]:
    """Return DeepSeek's factor on the score as the mscale_all_dim k of (1 + 0.1 k ln s)^2.

    Without a factor s above 1 there is no such k. Then only rope.scaling.attn_factor could
    multiply the score, and no converter writes it for these architectures.
    """
    if found.facts.get("softmax") != "mscale" or rotation.factor <= 1:
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
    original: int = parameters["original_max_position_embeddings"]
    return original


def _divisors(
    file: GgufFile, found: GgufArchitecture, blocks: Blocks, count: int
) -> dict[str, NDArray[np.float64] | None]:
    """Read the tensors that divide frequencies, where the architecture uses them.

    Each has as many numbers as rope.dimension_count has pairs. Blocks that rotate fewer coordinates
    use the first of them.
    """
    where = "all" if found.mode is None else found.facts.get("divisors")
    used = where == "all" or (where == "full" and not blocks.sliding)
    tensors = {"freqs": FREQS, "long_factors": LONG, "short_factors": SHORT}
    return {
        argument: _divisor(file, name, count) if used and name in file.tensors else None
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


def _temperature(
    keys: Metadata, found: GgufArchitecture, blocks: Blocks, original: int
) -> Temperature | None:
    """Return the temperature of the queries of a kind of block."""
    how = found.facts.get("temperature")
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


@dataclass(kw_only=True)
class Placement:
    """The parameters of `ropecli.rope` that place the rotation, and what was assumed."""

    key_length: int  #: Coordinates of a key as the loader counts them.
    rotary_dim: int
    dimension_count: int = 0  #: As the key has it: an architecture may rotate fewer.
    parameters: dict[str, Any] = field(default_factory=dict)
    assumed: list[str] = field(default_factory=list)


def _geometry(keys: Metadata, found: GgufArchitecture, blocks: Blocks) -> Placement:
    """Return the geometry of one kind of block."""
    trailing = found.facts.get("offset") == "trailing"
    length = _key_length(keys, sliding=blocks.sliding)
    head_dim = _mla_length(keys, sliding=blocks.sliding) if trailing else None
    head_dim = length if head_dim is None else head_dim
    placed = Placement(key_length=length, rotary_dim=length)
    if not (found.facts.get("fixed") or found.facts.get("whole_head")):
        _rotary_dim(keys, placed, sliding=blocks.sliding)
    placed.dimension_count = placed.rotary_dim
    if not blocks.sliding:
        placed.rotary_dim //= found.facts.get("full_divisor", 1)
    if placed.rotary_dim > head_dim:
        keys.refuse("rope.dimension_count", placed.rotary_dim, f"at most the head's {head_dim}")
    placed.parameters = {
        "head_dim": head_dim,
        "rotary_dim": placed.rotary_dim,
        "layout": LAYOUTS.get(found.mode or "neox"),
    }
    if trailing:
        placed.parameters["rotary_offset"] = head_dim - placed.rotary_dim
    if found.mode in {"mrope", "imrope"}:
        placed.parameters |= _axes(keys, placed.rotary_dim, interleaved=found.mode == "imrope")
    return placed


def sections_of(keys: Metadata) -> tuple[int, ...]:
    """Return rope.dimension_sections as four numbers; nothing without that key."""
    sections = keys.integers(_SECTIONS)
    if sections is None:
        return ()
    if not 2 <= len(sections) <= 4 or min(sections) < 0 or not 0 < sum(sections) <= LARGEST_HEAD:
        keys.refuse(_SECTIONS, sections, "two to four numbers of 0 or more")
    return sections + (0,) * (4 - len(sections))


def _key_length(keys: Metadata, *, sliding: bool) -> int:
    """Return the length of a key; by default, as in llama.cpp, the embedding's share of a head."""
    own = keys.integer("attention.key_length_swa") if sliding else None
    length = keys.integer("attention.key_length") if own is None else own
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


def _mla_length(keys: Metadata, *, sliding: bool) -> int | None:
    own = keys.integer("attention.key_length_mla_swa") if sliding else None
    length = keys.integer("attention.key_length_mla") if own is None else own
    if length is not None and length > LARGEST_HEAD:
        keys.refuse("attention.key_length_mla", length, f"at most {LARGEST_HEAD:,}")
    return length


def _rotary_dim(keys: Metadata, placed: Placement, *, sliding: bool) -> None:
    name = "rope.dimension_count"
    own = keys.integer(f"{name}_swa") if sliding else None
    count = keys.integer(name) if own is None else own
    if count is None:
        placed.assumed.append(
            f"rotary dim {placed.key_length}, the whole head: the file has no {keys.key(name)}"
        )
        return
    if count % 2:
        keys.refuse(name, count, "an even number")
    placed.rotary_dim = count


def _axes(keys: Metadata, rotary_dim: int, *, interleaved: bool) -> dict[str, Any]:
    """Return the sections of M-RoPE, or each pair's axis where ggml reads them in its own way."""
    sections = sections_of(keys)
    if not sections:
        keys.refuse(_SECTIONS, None, "four numbers")
    fits = sum(sections) == rotary_dim // 2
    if fits and not (interleaved and sections[3]):
        trimmed = list(sections if sections[3] else sections[:3])
        return {"mrope_section": trimmed, "mrope_interleaved": interleaved}
    # ggml repeats the sections where they end, and interleaves three axes, never four.
    return {"axis": ggml.axis_of_pairs(sections, rotary_dim // 2, interleaved=interleaved)}
