"""Where the rotation sits in a head, by the keys of a GGUF."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ropecli.models.gguf import ggml
from ropecli.models.gguf.architectures import LAYOUTS

if TYPE_CHECKING:
    from ropecli.models.gguf.architectures import Architecture
    from ropecli.models.gguf.blocks import Blocks
    from ropecli.models.gguf.metadata import Metadata

LARGEST_HEAD = 1 << 16  #: A hundred times any model's.
_SECTIONS = "rope.dimension_sections"


@dataclass(kw_only=True)
class Geometry:
    """The parameters of `ropecli.rope` that place the rotation, and what was assumed."""

    key_length: int  #: Coordinates of a key as the loader counts them.
    rotary_dim: int
    parameters: dict[str, Any] = field(default_factory=dict)
    assumed: list[str] = field(default_factory=list)


def geometry(keys: Metadata, found: Architecture, blocks: Blocks) -> Geometry:
    """The geometry of one kind of block.

    Raises:
        FileError: Lengths that are missing or don't fit together.
    """
    trailing = found.facts.get("offset") == "trailing"
    length = _key_length(keys, sliding=blocks.sliding)
    head_dim = _mla_length(keys, sliding=blocks.sliding) if trailing else None
    head_dim = length if head_dim is None else head_dim
    placed = Geometry(key_length=length, rotary_dim=length)
    if not (found.facts.get("fixed") or found.facts.get("whole_head")):
        _rotary_dim(keys, placed, sliding=blocks.sliding)
    if placed.rotary_dim > head_dim:
        keys.refuse("rope.dimension_count", placed.rotary_dim, f"up to the head's {head_dim}")
    placed.parameters = {
        "head_dim": head_dim,
        "rotary_dim": placed.rotary_dim,
        "layout": LAYOUTS.get(found.mode or "neox"),
    }
    if trailing:
        placed.parameters["rotary_offset"] = head_dim - placed.rotary_dim
    if found.mode in {"mrope", "imrope"}:
        placed.parameters |= _axes(keys, placed.rotary_dim, taking_turns=found.mode == "imrope")
    return placed


def sections_of(keys: Metadata) -> tuple[int, ...]:
    """rope.dimension_sections as four numbers, or nothing.

    Raises:
        FileError: Not two to four numbers of 0 or more.
    """
    sections = keys.integers(_SECTIONS)
    if sections is None:
        return ()
    if not 2 <= len(sections) <= 4 or min(sections) < 0 or not 0 < sum(sections) <= LARGEST_HEAD:
        keys.refuse(_SECTIONS, sections, "two to four numbers of 0 or more")
    return sections + (0,) * (4 - len(sections))


def _key_length(keys: Metadata, *, sliding: bool) -> int:
    """As llama.cpp defaults it: the embedding's share of a head."""
    own = keys.integer("attention.key_length_swa") if sliding else None
    length = keys.integer("attention.key_length") if own is None else own
    if length is None:
        width = keys.integer("embedding_length")
        heads = keys.integers("attention.head_count")
        if width is None or heads is None:
            missing = "embedding_length" if width is None else "attention.head_count"
            keys.refuse(missing, None, "a number, or else attention.key_length")
        # One number a block, 0 where there is no attention.
        count = next((count for count in heads if count > 0), None)
        if count is None:
            keys.refuse("attention.head_count", heads, "a number above 0")
        length = width // count
    if not 2 <= length <= LARGEST_HEAD:
        keys.refuse("attention.key_length", length, f"from 2 to {LARGEST_HEAD:,}")
    return length


def _mla_length(keys: Metadata, *, sliding: bool) -> int | None:
    own = keys.integer("attention.key_length_mla_swa") if sliding else None
    length = keys.integer("attention.key_length_mla") if own is None else own
    if length is not None and length > LARGEST_HEAD:
        keys.refuse("attention.key_length_mla", length, f"up to {LARGEST_HEAD:,}")
    return length


def _rotary_dim(keys: Metadata, placed: Geometry, *, sliding: bool) -> None:
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


def _axes(keys: Metadata, rotary_dim: int, *, taking_turns: bool) -> dict[str, Any]:
    """M-RoPE by its sections, or by axes where ggml reads them in a way of its own."""
    sections = sections_of(keys)
    if not sections:
        keys.refuse(_SECTIONS, None, "four numbers")
    fits = sum(sections) == rotary_dim // 2
    if fits and not (taking_turns and sections[3]):
        trimmed = list(sections if sections[3] else sections[:3])
        return {"mrope_section": trimmed, "mrope_interleaved": taking_turns}
    # ggml begins anew where the sections end, and has three axes take turns, never four.
    return {"axis": ggml.axes(sections, rotary_dim // 2, interleaved=taking_turns)}
