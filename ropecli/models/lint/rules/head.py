"""The head: rotated coordinates, and the sections of M-RoPE."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ropecli.models.geometry import takes_turns
from ropecli.models.gguf.ggml import axis_of_pairs
from ropecli.models.keys import SHARE
from ropecli.models.lint.readings import FIRST
from ropecli.models.lint.rule import Match, PartRule, Rule
from ropecli.models.lint.subjects import Subject
from ropecli.models.lint.values import number, shown, whole
from ropecli.rotary.pairs import MOST_AXES

NAMES = ("mrope_section", "xdrope_section")


@Rule(
    "R080",
    "error",
    "an odd number of rotated coordinates",
    why="Coordinates rotate in pairs, and one is left over; Transformers refuses the file.",
    hint="Make head_dim even, or rotate only a part of it.",
    requires=("dim",),
)
def odd(entry: Subject, dim: int) -> Iterator[Match]:
    """An odd head dim that is rotated as a whole, or an odd rotary dim that a key gives."""
    if dim % 2 == 0 or (dim != entry.head_dim and entry.share is not None):
        return
    named = ("qk_rope_head_dim", "rotary_dim", "head_dim")
    name = next((size for size in named if entry.get_all(size)), "hidden_size")
    yield Match(entry.outer_key(name), f"{dim} coordinates are rotated, which is odd.")


@Rule(
    "R081",
    "note",
    "an odd share of the head",
    why="Transformers rounds it up to whole pairs, and keeps the odd number in the exponents; "
    "llama.cpp refuses an odd rope.dimension_count.",
    hint="Choose a share that gives an even number.",
    requires=("dim", "share"),
)
def odd_share(entry: Subject, dim: int, share: tuple[str, Any]) -> Iterator[Match]:
    """A `partial_rotary_factor` that leaves an odd number of coordinates."""
    if dim % 2 and dim != entry.head_dim:
        message = f"{entry.head_dim} coordinates times {share[1]!r:.20} are {dim}: {dim + 1} "
        message += f"rotate, with exponents over {dim}."
        yield Match(share[0], message)


@PartRule(
    "R083",
    "warning",
    "hidden_size is not a multiple of num_attention_heads",
    why="The head dim is then the quotient, rounded down: the rotation has another size than the "
    "weights.",
    hint="Add head_dim.",
)
def uneven(part: Subject) -> Iterator[Match]:
    """No head dim, and a `hidden_size` that `num_attention_heads` does not divide."""
    width, heads = part.integer("hidden_size"), part.integer("num_attention_heads")
    if part.get_all("head_dim") or part.config.get("qk_rope_head_dim") or not width or not heads:
        return
    if (
        part.get_all("hidden_size")
        and width % heads
        and "head_dim" not in part.architecture.defaults
    ):
        yield Match(
            part.key("hidden_size"), f"{shown(width)} / {shown(heads)} is {shown(width / heads)}."
        )


@Rule(
    "R087",
    "note",
    "the share of the head is left to the architecture",
    why="Code that does not know the share of a model_type refuses the file, or rotates the whole "
    "head.",
    hint="Add partial_rotary_factor, so that every stack rotates the same coordinates.",
    requires=("text", "flat"),
    threads=("ml-explore/mlx-lm#1698",),
)
def default_share(entry: Subject) -> Iterator[Match]:
    """No key of the share, in an architecture whose default is a part of the head."""
    share = number(entry.architecture.defaults.get(SHARE))
    if share is None or share == 1 or entry.share is not None or entry.get_all("rotary_dim"):
        return
    if entry.settings is None or _share_is_ignored(entry):
        return
    whole_head = entry.effects_at({entry.outer_key(SHARE): 1.0}).get(FIRST, "")
    off = f" Without it, {whole_head}." if whole_head else ""
    message = f"The default of model_type {entry.architecture.model_type} is used: "
    message += f"{shown(share)}.{off}"
    yield Match(entry.outer_key(SHARE), message)


def _share_is_ignored(entry: Subject) -> bool:
    """True if the architecture's code is known not to read a share."""
    if entry.settings is None or not entry.architecture.known:
        return False
    return not {SHARE, "rotary_dim"} & set(entry.settings.geometry)


@Rule(
    "R071",
    "warning",
    "interleaved M-RoPE sections that do not fit",
    why="Axis a has pairs a, a + 3, a + 6, ... A section that needs pairs beyond the last is cut, "
    "and time gets more than its share.",
    hint="Make height and width smaller, and time larger.",
    threads=("xLLM-AI/xllm#2120", "QwenLM/Qwen3-VL#1800"),
)
def sections_cut(entry: Subject) -> Iterator[Match]:
    """Interleaved sections whose height or width runs beyond the last pair."""
    for key, sizes in _sections(entry):
        cut = _cut(entry, sizes)
        if cut:
            yield Match(key, f"Of {(entry.dim or 0) // 2} pairs {'; '.join(cut)}.")


@Rule(
    "R073",
    "note",
    "pairs that ggml does not rotate in text",
    why="Transformers and vLLM give the remaining pairs to time, ggml to a fourth axis that is 0: "
    "in Qwen3-VL, pairs 61 and 62.",
    hint="No key of this file changes it; the effect is small, and only in llama.cpp.",
)
def left_over(entry: Subject) -> Iterator[Match]:
    """Three interleaved sections that leave pairs over in ggml."""
    table = entry.table()
    if not _is_interleaved(entry) or table is None:
        return
    for key, sizes in _sections(entry):
        if len(sizes) != 3 or sum(sizes) != len(table.inv_freq) or _cut(entry, sizes):
            continue
        axis = axis_of_pairs((*sizes, 0), len(table.inv_freq), interleaved=True)
        left = [i for i, a in enumerate(axis) if a == 3]
        if left:
            context = entry.context or 0
            message = f"llama.cpp does not rotate pairs {', '.join(map(str, left))}: "
            message += f"{table.inv_freq[left[0]] * context:.2g} rad at position {shown(context)}."
            yield Match(key, message)


def _sections(entry: Subject) -> Iterator[tuple[str, list[int]]]:
    for name in NAMES:
        given = entry.values[name] if entry.has(name) else entry.config.get(name)
        if not isinstance(given, list) or not 0 < len(given) <= MOST_AXES:
            continue
        sizes = [n for n in map(whole, given) if n is not None and n >= 0]
        if len(sizes) == len(given):
            yield entry.key_in_use(name), sizes


def _cut(entry: Subject, sizes: list[int]) -> list[str]:
    """Describe the axes that get fewer pairs than their sections, where axes alternate."""
    if not _is_interleaved(entry) or entry.dim is None:
        return []
    got = [
        len(range(axis, min(len(sizes) * size, entry.dim // 2), len(sizes)))
        for axis, size in enumerate(sizes)
    ]
    return [
        f"axis {axis} asks for {sizes[axis]} and gets {got[axis]}"
        for axis in range(1, len(sizes))
        if got[axis] < sizes[axis]
    ]


def _is_interleaved(entry: Subject) -> bool:
    return takes_turns(entry.keys, entry.values.get("mrope_interleaved"))
