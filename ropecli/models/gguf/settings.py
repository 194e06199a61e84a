"""What llama.cpp makes of a GGUF, for each kind of block."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.errors import FileError
from ropecli.models.gguf.architectures import architecture, goes_by_sections
from ropecli.models.gguf.blocks import kinds_of_blocks
from ropecli.models.gguf.geometry import geometry, sections_of
from ropecli.models.gguf.ggml import softmax_factor
from ropecli.models.gguf.metadata import Metadata
from ropecli.models.gguf.naming import named
from ropecli.models.gguf.scaling import Scaling
from ropecli.models.settings import Settings
from ropecli.rotary.attention import Temperature

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ropecli.models.gguf.architectures import Architecture
    from ropecli.models.gguf.blocks import Blocks
    from ropecli.models.gguf.file import GgufFile
    from ropecli.models.gguf.ggml import Rotation

FREQS, LONG, SHORT = (f"rope_{name}.weight" for name in ("freqs", "factors_long", "factors_short"))
_LLAMA4 = Temperature(beta=0.1, length=8192, shift=1)


def gguf_settings(file: GgufFile) -> tuple[Settings, ...]:
    """The settings of each kind of block, as llama.cpp computes with them.

    LongRoPE's list goes by the context length that llama.cpp is started with. The geometry has an
    axis, as `Rotary` takes it, where ggml reads the sections of M-RoPE in a way of its own.

    Raises:
        FileError: A key or a tensor that is missing, or has a value that is not allowed.
    """
    keys = Metadata(file)
    name = keys.architecture
    found = architecture(name, sections_of(keys) if goes_by_sections(name) else ())
    return tuple(_settings(file, keys, found, blocks) for blocks in kinds_of_blocks(keys, found))


def _settings(file: GgufFile, keys: Metadata, found: Architecture, blocks: Blocks) -> Settings:
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
    placed = geometry(keys, found, blocks)
    rotation = scaling.rotation(placed.rotary_dim, placed.key_length)
    rope_type, parameters = named(rotation, **_divisors(file, found, blocks, rotation.n_rot // 2))
    score = _score(found, rotation, scaling.log_multiplier)
    unknown = [] if found.mode else [_unknown(found.name)]
    return replace(
        settings,
        rope_type=rope_type,
        geometry=placed.parameters,
        scaling={"rope_theta": rotation.base, **parameters, **score},
        softmax="mscale_all_dim" if score else None,
        original_context_length=_original(keys, rope_type, parameters),
        assumed=(*unknown, *placed.assumed, *scaling.assumed),
    )


def _unknown(name: str) -> str:
    return (
        f"layout half: no key of a GGUF says it, and {name!r} is none of llama.cpp's architectures"
    )


def _score(found: Architecture, rotation: Rotation, log_multiplier: float) -> dict[str, float]:
    """What multiplies DeepSeek's score, as the mscale_all_dim k of (1 + 0.1 k ln s)^2.

    Without a factor s above 1 there is no such k. Only rope.scaling.attn_factor would multiply
    the score then, which no converter writes for these architectures.
    """
    if found.facts.get("softmax") != "mscale" or rotation.factor <= 1:
        return {}
    root = math.sqrt(softmax_factor(rotation, log_multiplier))
    return {
        "factor": rotation.factor,
        "mscale_all_dim": (root - 1.0) / (0.1 * math.log(rotation.factor)),
    }


def _original(keys: Metadata, rope_type: str, parameters: Mapping[str, Any]) -> int | None:
    """Positions before the frequencies were scaled, unless the number only fills a gap."""
    given = keys.integer("rope.scaling.original_context_length", least=0)
    if given or rope_type not in {"yarn", "llama3"}:
        return given or None
    original: int = parameters["original_max_position_embeddings"]
    return original


def _divisors(
    file: GgufFile, found: Architecture, blocks: Blocks, count: int
) -> dict[str, NDArray[np.float64] | None]:
    """The tensors that divide frequencies, where the architecture uses them."""
    where = "all" if found.mode is None else found.facts.get("divisors")
    used = where == "all" or (where == "full" and not blocks.sliding)
    tensors = {"freqs": FREQS, "long_factors": LONG, "short_factors": SHORT}
    return {
        argument: _divisor(file, name, count) if used and name in file.tensors else None
        for argument, name in tensors.items()
    }


def _divisor(file: GgufFile, name: str, count: int) -> NDArray[np.float64]:
    # The shape comes first: a large tensor is not read in vain.
    shape = file.tensors[name].shape
    if len(shape) != 1 or shape[0] < count:
        msg = (
            f"{file.path}: tensor {name!r} has shape {shape}; allowed is one number a pair, {count}"
        )
        raise FileError(msg)
    divisors = file.tensor(name)[:count]
    bad = np.flatnonzero(~(np.isfinite(divisors) & (divisors > 0)))
    if len(bad):
        msg = (
            f"{file.path}: tensor {name!r} holds {divisors[bad[0]]:g} at index {bad[0]}; "
            "allowed are finite numbers above 0"
        )
        raise FileError(msg)
    return divisors


def _temperature(
    keys: Metadata, found: Architecture, blocks: Blocks, original: int
) -> Temperature | None:
    """What a query of this kind of block is multiplied by."""
    how = found.facts.get("temperature")
    if how == "llama4":
        return None if blocks.rotates else _LLAMA4
    scale = keys.real("attention.temperature_scale")
    if how is None or not scale:
        return None
    name = "attention.temperature_length"
    length = original if how == "original" else keys.integer(name, least=0)
    if not length:
        keys.refuse(name if how == "keys" else "context_length", length, "above 0")
    return Temperature(beta=scale, length=length)
