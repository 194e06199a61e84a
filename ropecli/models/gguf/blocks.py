"""The kinds of blocks of a model that rotate differently."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ropecli.models.gguf.metadata import Metadata
from ropecli.models.keys import FULL, SLIDING

Pattern = Callable[[int], bool]

MOST_BLOCKS = 1 << 12  #: llama.cpp has a limit of 512.
_PATTERN = "attention.sliding_window_pattern"


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """One kind of block."""

    name: str  #: "all", or the kind.
    rotates: bool = True
    sliding: bool = False  #: True if its attention is a sliding window.
    compress: bool = False  #: True if it has the base of compressed attention.
    layers: tuple[int, ...] | None = None  #: The indices of the blocks, where they are known.


def kinds_of_blocks(keys: Metadata) -> tuple[Blocks, ...]:
    """Return every kind of block, in the order of their names."""
    count, facts = _count(keys), keys.facts
    off = facts.get("switch") and _is_off(keys, "rope.scaling.finetuned")
    if keys.mode == "none" or facts.get("blocks", count) != count or off:
        return (Blocks(name="all", rotates=False),)
    if count is not None and {"no_rope_every", "dense"} & set(facts):
        return _by_block(keys, count)
    if facts.get("compress"):
        ratios = _flags(keys, "attention.compress_ratios")
        return _two(count, ratios, Blocks(name="compress", compress=True), Blocks(name="main"))
    if _has_sliding(keys, count):
        full = Blocks(name=FULL, rotates=facts.get("full") != "none")
        sliding = Blocks(name=SLIDING, sliding=True)
        return _two(count, _sliding_pattern(keys), sliding, full)
    pattern = _flags(keys, "attention.rope_pattern") if facts.get("rope_pattern") else None
    if pattern is None:
        return (Blocks(name="all"),)
    return _two(count, pattern, Blocks(name="rope"), Blocks(name="nope", rotates=False))


def _is_off(keys: Metadata, name: str) -> bool:
    """True if a boolean is there, and false."""
    value = keys.get(name)
    if value is not None and not isinstance(value, bool):
        keys.refuse(name, value, "a boolean")
    return value is False


def _by_block(keys: Metadata, count: int) -> tuple[Blocks, ...]:
    """Return the kinds where blocks rotate by a rule that is not that of sliding windows."""
    facts, has_sliding = keys.facts, _has_sliding(keys, count)
    pattern = _sliding_pattern(keys) if has_sliding else None
    sliding = [pattern is not None and pattern(i) for i in range(count)]
    every = facts.get("no_rope_every")
    if every is None:
        dense = keys.integer("leading_dense_block_count", least=0) or 0
        rotates = [slides or i < dense for i, slides in enumerate(sliding)]
    else:
        # Without sliding blocks, Llama 4's period is all of its blocks.
        every = count if facts.get("sliding") == "unless_zero" and not has_sliding else every
        rotates = [(i + 1) % every != 0 for i in range(count)]
    layers_by_block: dict[tuple[bool, bool], list[int]] = {}
    for i, kind in enumerate(zip(rotates, sliding, strict=True)):
        layers_by_block.setdefault(kind, []).append(i)
    names = _names(set(layers_by_block), has_sliding=has_sliding)
    return tuple(
        Blocks(name=names[turns, slides], rotates=turns, sliding=slides, layers=tuple(layers))
        for (turns, slides), layers in sorted(
            layers_by_block.items(), key=lambda item: names[item[0]]
        )
    )


def _names(kinds: set[tuple[bool, bool]], *, has_sliding: bool) -> dict[tuple[bool, bool], str]:
    """Return the name of each kind: by its window, and by its rotation where that says more."""
    if len(kinds) == 1:
        return dict.fromkeys(kinds, "all")
    if not has_sliding:
        return {kind: "rope" if kind[0] else "nope" for kind in kinds}
    windows = {kind: SLIDING if kind[1] else FULL for kind in kinds}
    shared = len(set(windows.values())) < len(kinds)
    return {
        kind: window if kind[0] or not shared else f"{window}-nope"
        for kind, window in windows.items()
    }


def _count(keys: Metadata) -> int | None:
    """Count the blocks of the model, without those that draft further tokens."""
    count = keys.integer("block_count")
    if count is None:
        return None
    if count > MOST_BLOCKS:
        keys.refuse("block_count", count, f"at most {MOST_BLOCKS:,}")
    return max(1, count - (keys.integer("nextn_predict_layers", least=0) or 0))


def _has_sliding(keys: Metadata, count: int | None) -> bool:
    when = keys.facts.get("sliding")
    window = keys.integer("attention.sliding_window", least=0)
    if when is None:
        # An unknown architecture has only its keys.
        unknown = keys.mode is None
        return unknown and bool(window) and keys.get("rope.freq_base_swa") is not None
    if when in {"always", "pattern"}:
        return True
    if when in {"window", "unless_zero"}:
        return bool(window) or (window is None and when == "unless_zero")
    return bool(count == when)


def _sliding_pattern(keys: Metadata) -> Pattern | None:
    """Return a function that is true of the index of a sliding block."""
    if isinstance(keys.get(_PATTERN), tuple):
        return _flags(keys, _PATTERN)
    period = keys.integer(_PATTERN, least=0)
    if period is None:
        period = keys.facts.get("period")
    if period is None:
        return None
    if period == 0:
        return lambda _: True
    full = 0 if keys.facts.get("full_first") else period - 1
    return lambda layer: layer % period != full


def _flags(keys: Metadata, name: str) -> Pattern | None:
    """Return a function that is true where an array has a number other than 0."""
    flags = keys.integers(name)
    if flags is None:
        return None
    return lambda layer: layer < len(flags) and flags[layer] != 0


def _two(count: int | None, pattern: Pattern | None, yes: Blocks, no: Blocks) -> tuple[Blocks, ...]:
    """Return both kinds with their blocks, or the only one that has blocks, named "all"."""
    if count is None or pattern is None:
        return tuple(sorted((yes, no), key=lambda kind: kind.name))
    of_yes = tuple(layer for layer in range(count) if pattern(layer))
    of_no = tuple(layer for layer in range(count) if not pattern(layer))
    blocks = [
        replace(kind, layers=layers, name=kind.name if of_yes and of_no else "all")
        for kind, layers in ((yes, of_yes), (no, of_no))
        if layers
    ]
    return tuple(sorted(blocks, key=lambda kind: kind.name))
