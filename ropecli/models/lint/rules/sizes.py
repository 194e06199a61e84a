"""The head, and the share of it that is rotated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ropecli.models.lint.entry import Entry
from ropecli.models.lint.numbers import number, shown
from ropecli.models.lint.rule import Hit, rule
from ropecli.models.lint.subject import Part

SHARE = "partial_rotary_factor"


@rule(
    "R080",
    "error",
    "an odd number of rotated coordinates",
    of=Entry,
    why="Coordinates turn in pairs, and one is left over; Transformers refuses the file.",
    cure="Make head_dim even, or rotate a part of it.",
)
def odd(entry: Entry) -> Iterator[Hit]:
    """An odd head dim that is rotated as a whole, or an odd part that a key names."""
    dim = entry.dim
    if dim is None or dim % 2 == 0 or (dim != entry.head_dim and _share(entry) is not None):
        return
    named = ("qk_rope_head_dim", "rotary_dim", "head_dim")
    name = next((each for each in named if entry.part.given(each)), "hidden_size")
    yield Hit(entry.part.key(name), f"{dim} coordinates are rotated, which is odd.")


@rule(
    "R081",
    "note",
    "a share of the head that is odd",
    of=Entry,
    why="Transformers rounds it up to whole pairs, and keeps the odd number in the exponents; "
    "llama.cpp refuses an odd rope.dimension_count.",
    cure="Choose a share that gives an even number.",
)
def odd_share(entry: Entry) -> Iterator[Hit]:
    """A `partial_rotary_factor` that leaves an odd number of coordinates."""
    dim, share = entry.dim, _share(entry)
    if dim is None or share is None or dim % 2 == 0 or dim == entry.head_dim:
        return
    yield Hit(
        share[0],
        f"{entry.head_dim} coordinates times {share[1]!r:.20} are {dim}: {dim + 1} turn, with "
        f"exponents over {dim}.",
    )


@rule(
    "R082",
    "error",
    "a share of the head out of range",
    of=Entry,
    why="vLLM refuses it; Transformers rotates more coordinates than there are and fails, or none.",
    cure="Write a share above 0 and up to 1.",
)
def share_range(entry: Entry) -> Iterator[Hit]:
    """A `partial_rotary_factor` of 0 or less, or above 1, where it is read."""
    found = _share(entry)
    share = None if found is None else number(found[1])
    if found is None or share is None or 0 < share <= 1:
        return
    still = share == 0 and entry.rope_type == "proportional"
    if not still and not _ignored(entry):
        yield Hit(found[0], f"{shown(share)} of a head can't be rotated.")


@rule(
    "R083",
    "warning",
    "hidden_size is no multiple of the heads",
    of=Part,
    why="Without head_dim it is hidden_size over num_attention_heads, rounded down; the rotation "
    "then has another size than the weights.",
    cure="Add head_dim.",
)
def uneven(part: Part) -> Iterator[Hit]:
    """No head dim, and a `hidden_size` that `num_attention_heads` does not divide."""
    width, heads = part.integer("hidden_size"), part.integer("num_attention_heads")
    if part.given("head_dim") or part.config.get("qk_rope_head_dim") or not width or not heads:
        return
    if (
        part.given("hidden_size")
        and width % heads
        and "head_dim" not in part.keys.architecture.defaults
    ):
        yield Hit(part.key("hidden_size"), f"{width:,} / {heads:,} is {shown(width / heads)}.")


@rule(
    "R084",
    "warning",
    "two shares of the head",
    of=Entry,
    why="Stacks read different keys, and rotate different coordinates with different "
    "frequencies: a port whose exponents went by the wrong one agreed with its model in 60 % of "
    "its answers, and in 92.5 % once corrected.",
    cure="Write the same in every place, or leave one.",
    threads=(
        "pie-project/pie#603",
        "AI-Hypercomputer/maxtext#4616",
        "vllm-project/vllm#43770",
        "huggingface/transformers#48682",
    ),
)
def two_shares(entry: Entry) -> Iterator[Hit]:
    """Two names or places of the share that differ, or one that is not `rotary_dim`."""
    if entry.nested:
        return
    places: dict[str, Any] = {entry.part.key(k): v for k, v in entry.part.given(SHARE).items()}
    if entry.has(SHARE):
        places = {entry.key(SHARE): entry.values[SHARE]} | places
    found = list(places.items())
    for key, value in found[1:]:
        if value != found[0][1]:
            yield Hit(key, f"It is {value!r:.20} here and {found[0][1]!r:.20} at {found[0][0]}.")
            return
    given = entry.part.given("rotary_dim")
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
                f"Transformers goes by {SHARE}.",
            )


@rule(
    "R085",
    "warning",
    "a share of the head that the architecture does not read",
    of=Entry,
    why="The code of many architectures in Transformers rotates the whole head whatever "
    "partial_rotary_factor says, unless a rope type that scales reads it; other stacks read it "
    "for every model.",
    cure="Take it out, or name the model_type that was meant.",
    threads=("huggingface/transformers#48682", "AI-Hypercomputer/maxtext#4616"),
)
def unread_share(entry: Entry) -> Iterator[Hit]:
    """A share below 1 in a known architecture whose code rotates the whole head."""
    found = _share(entry)
    share = None if found is None else number(found[1])
    if found is None or share is None or not 0 < share < 1 or not _ignored(entry):
        return
    name = entry.part.keys.architecture.model_type
    yield Hit(
        found[0],
        f"The code of {name} rotates all {entry.head_dim} coordinates, and not {shown(share)} of "
        "them.",
    )


def _ignored(entry: Entry) -> bool:
    """Whether the architecture's code is known not to read a share."""
    if entry.settings is None or not entry.part.known:
        return False
    return not {SHARE, "rotary_dim"} & set(entry.settings.geometry)


def _share(entry: Entry) -> tuple[str, Any] | None:
    """The key of the share and its value, if the file has one."""
    if entry.has(SHARE):
        return entry.key(SHARE), entry.values[SHARE]
    for name, value in entry.part.given(SHARE).items():
        return entry.part.key(name), value
    return None
