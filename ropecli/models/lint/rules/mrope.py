"""M-RoPE: sections of pairs, one for each axis of a position."""

from __future__ import annotations

from collections.abc import Iterator

from ropecli.models.gguf.ggml import axes
from ropecli.models.lint.entry import Entry
from ropecli.models.lint.numbers import whole
from ropecli.models.lint.rule import Hit, rule
from ropecli.rotary.axes import MOST_AXES

NAMES = ("mrope_section", "xdrope_section")


@rule(
    "R070",
    "error",
    "M-RoPE sections that do not add up",
    of=Entry,
    why="Each pair belongs to one axis. vLLM refuses other sums; Transformers fails, or gives what "
    "is left to time without a word.",
    cure="Let the sections add up to half the rotary dim.",
    threads=("alibaba/MNN#4133", "ollama/ollama#12807", "mlx-node/mlx-node#80"),
)
def sections_sum(entry: Entry) -> Iterator[Hit]:
    """`mrope_section` or `xdrope_section` whose sum is not the number of pairs."""
    for key, sizes in _sections(entry):
        if entry.dim is not None and sum(sizes) != entry.dim // 2:
            yield Hit(
                key,
                f"{' + '.join(map(str, sizes))} = {sum(sizes)}, and there are "
                f"{entry.dim // 2} pairs.",
            )


@rule(
    "R071",
    "warning",
    "interleaved M-RoPE sections that do not fit",
    of=Entry,
    why="Axes take turns: axis a has pairs a, a + 3, a + 6, ... A section that needs pairs beyond "
    "the last is cut, and time gets more than its share.",
    cure="Make height and width smaller, and time larger.",
    threads=("xLLM-AI/xllm#2120", "QwenLM/Qwen3-VL#1800"),
)
def sections_cut(entry: Entry) -> Iterator[Hit]:
    """Interleaved sections of which height or width runs beyond the last pair."""
    for key, sizes in _sections(entry):
        cut = _cut(entry, sizes)
        if cut:
            yield Hit(key, f"Of {(entry.dim or 0) // 2} pairs {'; '.join(cut)}.")


@rule(
    "R072",
    "warning",
    "M-RoPE sections in two places",
    of=Entry,
    why="Stacks look in different places, so that text is the same everywhere and images are not.",
    cure="Leave one of them.",
    threads=("kekzl/imp#1174",),
)
def two_sections(entry: Entry) -> Iterator[Hit]:
    """Different `mrope_section` among the scaling keys and beside them."""
    own, outer = entry.values.get("mrope_section"), entry.part.config.get("mrope_section")
    if own is not None and outer is not None and own != outer:
        yield Hit(
            entry.key("mrope_section"),
            f"It is {own!r:.60} here and {outer!r:.60} at {entry.part.key('mrope_section')}; "
            "Transformers reads this one.",
        )


@rule(
    "R073",
    "note",
    "pairs that ggml gives to no axis",
    of=Entry,
    why="Of interleaved sections Transformers and vLLM give every pair that is left over to time, "
    "ggml to a fourth axis that stands at 0: in Qwen3-VL, pairs 61 and 62.",
    cure="Nothing in this file can change it; it is small, and only llama.cpp is concerned.",
)
def left_over(entry: Entry) -> Iterator[Hit]:
    """Three interleaved sections that leave pairs over in ggml."""
    table = entry.table()
    if not _taking_turns(entry) or table is None:
        return
    for key, sizes in _sections(entry):
        if len(sizes) != 3 or sum(sizes) != len(table.inv_freq) or _cut(entry, sizes):
            continue
        axis = axes((*sizes, 0), len(table.inv_freq), interleaved=True)
        left = [i for i, a in enumerate(axis) if a == 3]
        if left:
            context = entry.part.context or 0
            yield Hit(
                key,
                f"llama.cpp does not turn pairs {', '.join(map(str, left))}: "
                f"{table.inv_freq[left[0]] * context:.2g} rad at position {context:,}.",
            )


def _sections(entry: Entry) -> Iterator[tuple[str, list[int]]]:
    for name in NAMES:
        own = entry.values.get(name)
        place, given = (
            (entry, own) if own is not None else (entry.part, entry.part.config.get(name))
        )
        if not isinstance(given, list) or not 0 < len(given) <= MOST_AXES:
            continue
        sizes = [n for n in map(whole, given) if n is not None and n >= 0]
        if len(sizes) == len(given):
            yield place.key(name), sizes


def _cut(entry: Entry, sizes: list[int]) -> list[str]:
    """In words, the axes that get fewer pairs than their sections, where axes take turns."""
    if not _taking_turns(entry) or entry.dim is None:
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


def _taking_turns(entry: Entry) -> bool:
    given = entry.values.get("mrope_interleaved")
    if given is None:
        return entry.part.keys.architecture.facts.get("mrope") == "interleaved"
    return given is True
