"""Names of keys: misspelt, unread, or of another rope type."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ropecli.models.lint.entry import Entry
from ropecli.models.lint.numbers import number, shown
from ropecli.models.lint.rule import Hit, rule
from ropecli.models.lint.subject import Part
from ropecli.models.lint.vocabulary import ELSEWHERE, MOST_NAMES, TOP, meant, of_any_type, of_type
from ropecli.rotary.attention import mscale

#: Keys that scale, and so do nothing under a type that does not.
_SCALE = (
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "short_factor",
    "long_factor",
    "beta_fast",
    "beta_slow",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
    "alpha",
)


@rule(
    "R009",
    "error",
    "a misspelt key",
    of=Part,
    why="Nobody reads it, and its default counts without a word: with rope_teta: 500000 a model "
    "of head dim 128 turns its slowest pair 47 times too fast.",
    cure="Correct the name.",
)
def misspelt_at_the_top(part: Part) -> Iterator[Hit]:
    """A key beside the others that is one or two letters off a key of rotary embeddings."""
    for name in islice(part.config, MOST_NAMES):
        right = meant(name) if name not in TOP else None
        if right is not None and not part.given(right):
            yield Hit(
                part.key(name), f"No stack reads it; {right} is missing.", f"Call it {right}."
            )


@rule(
    "R010",
    "error",
    "a misspelt scaling key",
    of=Entry,
    why="Nobody reads it, and its default counts: with beta_fst: 64 YaRN goes on with 32.",
    cure="Correct the name.",
    threads=("deepseek-ai/DeepSeek-R1#684",),
)
def misspelt(entry: Entry) -> Iterator[Hit]:
    """A scaling key that is one or two letters off one that the rope type reads."""
    rope_type = entry.rope_type
    known = of_any_type() if rope_type is None else of_type(rope_type)
    for name in islice(entry.values, MOST_NAMES):
        right = None if _is_read(name) else meant(name, sorted(known | {"rope_type"}))
        if right is not None and not entry.has(right):
            yield Hit(
                entry.key(name), f"No stack reads it; {right} is missing.", f"Call it {right}."
            )


@rule(
    "R011",
    "warning",
    "a scaling key that no stack reads",
    of=Entry,
    why="Transformers says that it does not recognise it, other stacks say nothing, and all of "
    "them go on without it.",
    cure="Take it out, or find the name that was meant.",
    threads=("huggingface/transformers#48594",),
)
def unread(entry: Entry) -> Iterator[Hit]:
    """A scaling key that no rope type has, and that is not near one that has."""
    rope_type = entry.rope_type
    known = of_any_type() if rope_type is None else of_type(rope_type)
    for name in islice(entry.values, MOST_NAMES):
        if _is_read(name) or name == "attn_factor":
            continue
        right = meant(name, sorted(known | {"rope_type"}))
        if right is None or entry.has(right):
            yield Hit(entry.key(name), "No rope type of any stack reads it; it changes nothing.")


@rule(
    "R012",
    "error",
    "attn_factor is no key of config.json",
    of=Entry,
    why="YaRN's authors multiply their own factor by attn_factor; Transformers has "
    "attention_factor, which replaces it, and ignores attn_factor. In "
    "DeepSeek-R1-0528-Qwen3-8B 0.8782 was meant to give 1, and Transformers uses 1.1386: 14 % on "
    "cos and sin, 30 % on scores.",
    cure="Take it out, and write attention_factor with the value that was meant.",
    threads=("deepseek-ai/DeepSeek-R1#684", "vllm-project/vllm#46280"),
)
def attn_factor(entry: Entry) -> Iterator[Hit]:
    """`attn_factor` among the scaling keys, other than 1."""
    given = number(entry.values.get("attn_factor"))
    if "attn_factor" not in entry.values or given == 1:
        return
    table = entry.table() if entry.rope_type == "yarn" else None
    if given is None or table is None:
        yield Hit(entry.key("attn_factor"), "No stack reads it from a config.json of this type.")
        return
    factor, used = entry.number("factor"), table.attention_factor
    formula = f" (0.1 ln {shown(factor)} + 1)" if factor and used == mscale(factor) else ""
    product = used * given
    yield Hit(
        entry.key("attn_factor"),
        f"Transformers ignores it and uses {shown(used)}{formula}; multiplied, as YaRN's authors "
        f"and older vLLM do, it gives {shown(product)}.",
        f"Write attention_factor: {round(product, 6)!r} if that was meant, and take this one out.",
    )


@rule(
    "R013",
    "warning",
    "scaling keys under a type that does not scale",
    of=Entry,
    why="Without a rope_type, or with default, nothing is stretched: the model runs past its "
    "trained length as it is.",
    cure="Name the rope_type that was meant, or take the scaling keys out.",
    threads=("unslothai/unsloth#6197",),
)
def unscaled(entry: Entry) -> Iterator[Hit]:
    """Scaling keys, a factor other than 1 for instance, under rope_type default or none."""
    names = [name for name in _SCALE if entry.has(name) and entry.values[name] != 1]
    if entry.rope_type == "default" and names:
        why = "No rope_type is named" if entry.written_type is None else "The rope_type is default"
        yield Hit(entry.key(names[0]), f"{why}, so nothing reads {', '.join(names)}.")


@rule(
    "R014",
    "note",
    "keys of another rope type",
    of=Entry,
    why="A rope type reads its own keys; those of another one change nothing.",
    cure="Take them out, or name the rope_type that they belong to.",
)
def of_another_type(entry: Entry) -> Iterator[Hit]:
    """A scaling key that other rope types read and this one does not."""
    rope_type = entry.rope_type
    if rope_type is None or rope_type == "default":
        return
    others = [
        name
        for name in entry.values
        if entry.has(name) and name in of_any_type() and name not in of_type(rope_type) | ELSEWHERE
    ]
    if others:
        yield Hit(entry.key(others[0]), f"Rope type {rope_type} does not read {', '.join(others)}.")


def _is_read(name: str) -> bool:
    return name in of_any_type() or name in ELSEWHERE
