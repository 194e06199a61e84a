"""Layers without position among those with one (NoPE), and lists of layers."""

from __future__ import annotations

from collections.abc import Iterator

from ropecli.models.lint.numbers import whole
from ropecli.models.lint.rule import Hit, rule
from ropecli.models.lint.subject import Part


@rule(
    "R062",
    "warning",
    "no_rope_layers says that most layers have no position",
    of=Part,
    why="In spite of its name a 1 means that the layer HAS a rotary embedding, and a 0 that it "
    "has none. Read or written the other way round it takes position from most layers.",
    cure="Write 1 for each layer that rotates; released models have 0 in every fourth.",
)
def reversed_nope(part: Part) -> Iterator[Hit]:
    """`no_rope_layers` with more zeros than ones."""
    flags = _flags(part)
    if flags and 2 * sum(flags) < len(flags):
        yield Hit(
            part.key("no_rope_layers"),
            f"Only {sum(flags)} of {len(flags)} layers rotate: a 1 means that a layer does.",
        )


@rule(
    "R063",
    "warning",
    "no_rope_layers and no_rope_layer_interval differ",
    of=Part,
    why="Transformers goes by the list and ignores the interval; a stack that knows only the "
    "interval leaves out other layers.",
    cure="Correct the one that is wrong: with interval n layers n, 2n, ... have no position.",
)
def other_interval(part: Part) -> Iterator[Hit]:
    """A list that is not the one of the interval, with at least as many ones as zeros."""
    flags, step = _flags(part), whole(part.config.get("no_rope_layer_interval"))
    if not flags or not step or step < 1 or 2 * sum(flags) < len(flags):
        return
    wrong = [i for i, flag in enumerate(flags) if flag != bool((i + 1) % step)]
    if wrong:
        yield Hit(
            part.key("no_rope_layers"),
            f"It differs from an interval of {step} in {len(wrong)} of {len(flags)} layers, first "
            f"in layer {wrong[0]}.",
        )


@rule(
    "R064",
    "warning",
    "a list of layers of the wrong length",
    of=Part,
    why="Transformers refuses it or runs out of the list; other stacks take what they find for "
    "the wrong layers.",
    cure="Give one entry for each of num_hidden_layers.",
)
def wrong_count(part: Part) -> Iterator[Hit]:
    """`layer_types` or `no_rope_layers` with another length than `num_hidden_layers`."""
    count = next((whole(v) for v in part.given("num_hidden_layers").values()), None)
    for name in ("layer_types", "no_rope_layers"):
        given = part.config.get(name)
        if count and isinstance(given, list) and given and len(given) != count:
            yield Hit(part.key(name), f"It has {len(given):,} entries for {count:,} layers.")


def _flags(part: Part) -> list[bool]:
    given = part.config.get("no_rope_layers")
    if not isinstance(given, list) or not all(each in {0, 1} for each in map(whole, given)):
        return []
    return [bool(each) for each in given]
