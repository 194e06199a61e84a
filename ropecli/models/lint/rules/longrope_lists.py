"""The two lists of LongRoPE."""

from __future__ import annotations

from collections.abc import Iterator

from ropecli.models.lint.entry import Entry
from ropecli.models.lint.numbers import number, numbers, shown
from ropecli.models.lint.rule import Hit, rule

LISTS = ("short_factor", "long_factor")


@rule(
    "R040",
    "error",
    "a LongRoPE list of the wrong length",
    of=Entry,
    why="There is one factor for each pair of rotated coordinates; Transformers warns when it "
    "loads the file and fails when it computes.",
    cure="Give one number a pair: half of head_dim times partial_rotary_factor.",
)
def wrong_length(entry: Entry) -> Iterator[Hit]:
    """A `short_factor` or `long_factor` whose length is not the number of pairs."""
    if entry.rope_type != "longrope" or entry.dim is None:
        return
    pairs = (entry.dim + 1) // 2
    for name in LISTS:
        given = entry.values.get(name)
        if isinstance(given, list) and len(given) != pairs:
            yield Hit(entry.key(name), f"It has {len(given):,} numbers for {pairs:,} pairs.")


@rule(
    "R041",
    "error",
    "a LongRoPE factor that is not above 0",
    of=Entry,
    why="It divides a frequency: at 0 the pair turns infinitely fast, and below 0 backwards. "
    "Transformers does not look.",
    cure="Take the lists of the released model.",
)
def not_positive(entry: Entry) -> Iterator[Hit]:
    """A `short_factor` or `long_factor` that is no list of finite numbers above 0."""
    if entry.rope_type != "longrope":
        return
    for name in LISTS:
        given = entry.values.get(name)
        if given is None:
            continue
        if not isinstance(given, list):
            yield Hit(entry.key(name), f"It is {given!r:.40}, and no list.")
            continue
        for i, each in enumerate(given):
            value = number(each)
            if value is None or value <= 0:
                yield Hit(entry.key(name), f"It holds {each!r:.40} at index {i}.")
                break


@rule(
    "R042",
    "note",
    "a LongRoPE list that falls",
    of=Entry,
    why="LongRoPE searches for factors that rise from the fastest pair to the slowest; one that "
    "falls is more often a slip of a copied list than a choice.",
    cure="Compare with the released model's list.",
)
def falling(entry: Entry) -> Iterator[Hit]:
    """A `short_factor` or `long_factor` with a number below the one before it."""
    if entry.rope_type != "longrope":
        return
    for name in LISTS:
        given = numbers(entry.values.get(name)) or []
        falls = [i for i in range(1, len(given)) if given[i] < given[i - 1]]
        if falls:
            i = falls[0]
            yield Hit(
                entry.key(name),
                f"It falls from {shown(given[i - 1])} to {shown(given[i])} at index {i}, and "
                f"{len(falls)} times in all.",
            )


@rule(
    "R043",
    "note",
    "short_factor and long_factor are the same",
    of=Entry,
    why="The original length then switches nothing, and short sequences are computed with the "
    "factors of long ones.",
    cure="Nothing to do if the model was trained so.",
)
def same_lists(entry: Entry) -> Iterator[Hit]:
    """Equal lists with a factor other than 1 in them."""
    short, long = (numbers(entry.values.get(name)) for name in LISTS)
    if entry.rope_type == "longrope" and short and short == long and set(short) != {1.0}:
        yield Hit(entry.key("short_factor"), "Every length is computed with the same factors.")
