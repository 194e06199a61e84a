"""The head: rotated coordinates, and the sections of M-RoPE."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ropecli.models.geometry import takes_turns
from ropecli.models.gguf.ggml import axis_of_pairs
from ropecli.models.keys import SHARE
from ropecli.models.lint.readings import FIRST, without_it
from ropecli.models.lint.rule import Hit, Rule
from ropecli.models.lint.subjects import ConfigPart, ScalingKeys
from ropecli.models.lint.values import number, shown, whole
from ropecli.rotary.pairs import MOST_AXES

NAMES = ("mrope_section", "xdrope_section")


@Rule(
    "R080",
    "error",
    "an odd number of rotated coordinates",
    why="Coordinates rotate in pairs, and one is left over; Transformers refuses the file.",
    cure="Make head_dim even, or rotate only a part of it.",
)
def odd(entry: ScalingKeys) -> Iterator[Hit]:
    """An odd head dim that is rotated as a whole, or an odd rotary dim that a key gives."""
    dim = entry.dim
    if dim is None or dim % 2 == 0 or (dim != entry.head_dim and _share(entry) is not None):
        return
    named = ("qk_rope_head_dim", "rotary_dim", "head_dim")
    name = next((each for each in named if entry.part.get_all(each)), "hidden_size")
    yield Hit(entry.part.key(name), f"{dim} coordinates are rotated, which is odd.")


@Rule(
    "R081",
    "note",
    "an odd share of the head",
    why="Transformers rounds it up to whole pairs, but keeps the odd number in the exponents; "
    "llama.cpp refuses an odd rope.dimension_count.",
    cure="Choose a share that gives an even number.",
)
def odd_share(entry: ScalingKeys) -> Iterator[Hit]:
    """A `partial_rotary_factor` that leaves an odd number of coordinates."""
    dim, share = entry.dim, _share(entry)
    if dim is None or share is None or dim % 2 == 0 or dim == entry.head_dim:
        return
    yield Hit(
        share[0],
        f"{entry.head_dim} coordinates times {share[1]!r:.20} are {dim}: {dim + 1} rotate, with "
        f"exponents over {dim}.",
    )


@Rule(
    "R082",
    "error",
    "a share of the head out of range",
    why="vLLM refuses it; Transformers rotates more coordinates than there are and fails, or none.",
    cure="Write a share above 0 and up to 1.",
)
def share_range(entry: ScalingKeys) -> Iterator[Hit]:
    """A `partial_rotary_factor` of 0 or less, or above 1, where it is read."""
    found = _share(entry)
    share = None if found is None else number(found[1])
    if found is None or share is None or 0 < share <= 1:
        return
    static = share == 0 and entry.rope_type == "proportional"
    if not static and not _share_is_ignored(entry):
        yield Hit(found[0], f"{shown(share)} of a head cannot be rotated.")


@Rule(
    "R083",
    "warning",
    "hidden_size is not a multiple of num_attention_heads",
    why="Without head_dim, the head dim is hidden_size over num_attention_heads, rounded down; the "
    "rotation then has another size than the weights.",
    cure="Add head_dim.",
)
def uneven(part: ConfigPart) -> Iterator[Hit]:
    """No head dim, and a `hidden_size` that `num_attention_heads` does not divide."""
    width, heads = part.integer("hidden_size"), part.integer("num_attention_heads")
    if part.get_all("head_dim") or part.config.get("qk_rope_head_dim") or not width or not heads:
        return
    if (
        part.get_all("hidden_size")
        and width % heads
        and "head_dim" not in part.architecture.defaults
    ):
        yield Hit(
            part.key("hidden_size"), f"{shown(width)} / {shown(heads)} is {shown(width / heads)}."
        )


@Rule(
    "R084",
    "warning",
    "two shares of the head",
    why="Stacks read different keys, and rotate different coordinates at different frequencies. A "
    "port with the wrong one in its exponents agreed with its model in 60 % of its answers, and in "
    "92.5 % once fixed.",
    cure="Write the same value everywhere, or remove all but one.",
    threads=(
        "pie-project/pie#603",
        "AI-Hypercomputer/maxtext#4616",
        "vllm-project/vllm#43770",
        "huggingface/transformers#48682",
    ),
)
def two_shares(entry: ScalingKeys) -> Iterator[Hit]:
    """Two names or places of the share that differ, or one that contradicts `rotary_dim`."""
    if entry.nested:
        return
    places: dict[str, Any] = {entry.part.key(k): v for k, v in entry.part.get_all(SHARE).items()}
    if entry.has(SHARE):
        places = {entry.key(SHARE): entry.values[SHARE]} | places
    found = list(places.items())
    for key, value in found[1:]:
        if value != found[0][1]:
            yield Hit(key, f"It is {value!r:.20} here and {found[0][1]!r:.20} at {found[0][0]}.")
            return
    given = entry.part.get_all("rotary_dim")
    share = number(found[0][1]) if found else None
    for name, dim in given.items():
        if (
            share is not None
            and 0 <= share <= 1
            and entry.head_dim
            and int(entry.head_dim * share) != dim
        ):
            yield Hit(
                entry.part.key(name),
                f"It is {dim!r:.20}, and {found[0][0]} gives {int(entry.head_dim * share)}; "
                f"Transformers uses {SHARE}.",
            )


@Rule(
    "R085",
    "warning",
    "a share of the head that the architecture does not read",
    why="In Transformers the code of many architectures rotates the whole head, whatever the value "
    "of partial_rotary_factor, unless a rope type that scales reads it; vLLM reads it for every "
    "model of its own code.",
    cure="Remove it, or set the intended model_type.",
    threads=("huggingface/transformers#48682", "AI-Hypercomputer/maxtext#4616"),
)
def unread_share(entry: ScalingKeys) -> Iterator[Hit]:
    """A share below 1 in a known architecture whose code rotates the whole head."""
    found = _share(entry)
    share = None if found is None else number(found[1])
    if found is None or share is None or not 0 < share < 1 or not _share_is_ignored(entry):
        return
    name = entry.part.architecture.model_type
    message = f"The code of {name} rotates all {entry.head_dim} coordinates, not {shown(share)} of "
    said = without_it(entry.part.effects({found[0]: ...}))
    yield Hit(found[0], f"{said} {message}them.".strip())


@Rule(
    "R086",
    "warning",
    "a rotary dim that the architecture does not read",
    why="The code of most architectures has no rotary_dim: it rotates the whole head, or the share "
    "of partial_rotary_factor. Code that reads the key rotates other coordinates, at other "
    "frequencies.",
    cure="Remove it, or write partial_rotary_factor where the architecture reads that.",
    threads=("vllm-project/vllm#30389",),
)
def unread_rotary_dim(entry: ScalingKeys) -> Iterator[Hit]:
    """A `rotary_dim` that is not read, and is not the number of coordinates that rotate."""
    of_its_own = entry.part.keys.facts.get("ignores", ())  # MiniMax-M3 has such a key
    for name, value in entry.part.get_all("rotary_dim").items():
        ignored = name in entry.part.keys.unread_keys and name not in of_its_own
        if ignored and entry.dim not in (None, value):
            yield Hit(
                entry.part.key(name),
                f"The code of {entry.part.architecture.model_type} does not read it, and "
                f"rotates {entry.dim} coordinates, not {value!r:.20}.",
            )


@Rule(
    "R087",
    "note",
    "the share of the head is left to the architecture",
    why="The code of a model_type knows its own share. Code that does not know it refuses the "
    "file, or rotates the whole head.",
    cure="Add partial_rotary_factor, so that every stack rotates the same coordinates.",
    threads=("ml-explore/mlx-lm#1698",),
)
def default_share(entry: ScalingKeys) -> Iterator[Hit]:
    """No key of the share, in an architecture whose default is a part of the head."""
    share = number(entry.part.architecture.defaults.get(SHARE))
    if share is None or share == 1 or _share(entry) is not None or entry.part.get_all("rotary_dim"):
        return
    if entry.part.name or entry.nested or entry.settings is None or _share_is_ignored(entry):
        return
    whole_head = entry.part.effects({entry.part.key(SHARE): 1.0}).get(FIRST, "")
    off = f" Without it, {whole_head}." if whole_head else ""
    yield Hit(
        entry.part.key(SHARE),
        f"The default of model_type {entry.part.architecture.model_type} is used: "
        f"{shown(share)}.{off}",
    )


def _share_is_ignored(entry: ScalingKeys) -> bool:
    """True if the architecture's code is known not to read a share."""
    if entry.settings is None or not entry.part.architecture.known:
        return False
    return not {SHARE, "rotary_dim"} & set(entry.settings.geometry)


def _share(entry: ScalingKeys) -> tuple[str, Any] | None:
    """Return the key of the share and its value, if the file has one."""
    if entry.has(SHARE):
        return entry.key(SHARE), entry.values[SHARE]
    for name, value in entry.part.get_all(SHARE).items():
        return entry.part.key(name), value
    return None


@Rule(
    "R070",
    "error",
    "M-RoPE sections that do not add up",
    why="Each pair belongs to one axis. vLLM refuses other sums; Transformers fails, or silently "
    "gives the remaining pairs to time.",
    cure="Make the sections add up to half the rotary dim.",
    threads=("alibaba/MNN#4133", "ollama/ollama#12807", "mlx-node/mlx-node#80"),
)
def sections_sum(entry: ScalingKeys) -> Iterator[Hit]:
    """`mrope_section` or `xdrope_section` whose sum is not the number of pairs."""
    for key, sizes in _sections(entry):
        if entry.dim is not None and sum(sizes) != entry.dim // 2:
            yield Hit(
                key,
                f"{' + '.join(map(str, sizes))} = {sum(sizes)}, and there are "
                f"{entry.dim // 2} pairs.",
            )


@Rule(
    "R071",
    "warning",
    "interleaved M-RoPE sections that do not fit",
    why="Axes alternate: axis a has pairs a, a + 3, a + 6, ... A section that needs pairs beyond "
    "the last is cut, and time gets more than its share.",
    cure="Make height and width smaller, and time larger.",
    threads=("xLLM-AI/xllm#2120", "QwenLM/Qwen3-VL#1800"),
)
def sections_cut(entry: ScalingKeys) -> Iterator[Hit]:
    """Interleaved sections whose height or width runs beyond the last pair."""
    for key, sizes in _sections(entry):
        cut = _cut(entry, sizes)
        if cut:
            yield Hit(key, f"Of {(entry.dim or 0) // 2} pairs {'; '.join(cut)}.")


@Rule(
    "R072",
    "warning",
    "M-RoPE sections in two places",
    why="Stacks look in different places, so that text is the same everywhere and images are not.",
    cure="Remove one of them.",
    threads=("kekzl/imp#1174",),
)
def two_sections(entry: ScalingKeys) -> Iterator[Hit]:
    """Different `mrope_section` among the scaling keys and at the top level."""
    own, outer = entry.values.get("mrope_section"), entry.part.config.get("mrope_section")
    if own is not None and outer is not None and own != outer:
        yield Hit(
            entry.key("mrope_section"),
            f"It is {own!r:.60} here and {outer!r:.60} at {entry.part.key('mrope_section')}; "
            "Transformers reads this one.",
        )


@Rule(
    "R073",
    "note",
    "pairs that ggml does not rotate in text",
    why="With interleaved sections, Transformers and vLLM give the remaining pairs to time, ggml "
    "to a fourth axis that is 0: in Qwen3-VL, pairs 61 and 62.",
    cure="No key of this file changes it; the effect is small, and only in llama.cpp.",
)
def left_over(entry: ScalingKeys) -> Iterator[Hit]:
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
            context = entry.part.context or 0
            yield Hit(
                key,
                f"llama.cpp does not rotate pairs {', '.join(map(str, left))}: "
                f"{table.inv_freq[left[0]] * context:.2g} rad at position {shown(context)}.",
            )


def _sections(entry: ScalingKeys) -> Iterator[tuple[str, list[int]]]:
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


def _cut(entry: ScalingKeys, sizes: list[int]) -> list[str]:
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


def _is_interleaved(entry: ScalingKeys) -> bool:
    return takes_turns(entry.part.keys, entry.values.get("mrope_interleaved"))
