"""LongRoPE: the two lists, and the attention factor."""

from __future__ import annotations

from collections.abc import Iterator

from ropecli.models.keys import ORIGINAL
from ropecli.models.lint.readings import sentence, without_it
from ropecli.models.lint.rule import Match, Rule
from ropecli.models.lint.subjects import Subject
from ropecli.models.lint.values import numbers, shown

LISTS = ("short_factor", "long_factor")


@Rule(
    "R042",
    "note",
    "a decreasing LongRoPE list",
    why="LongRoPE's factors increase from the fastest pair to the slowest. A smaller one is more "
    "likely a mistake in a copied list.",
    hint="Compare with the released model's list.",
    rope_types=("longrope",),
)
def falling(entry: Subject) -> Iterator[Match]:
    """A `short_factor` or `long_factor` with a number below the one before it."""
    for name in LISTS:
        given = numbers(entry.values.get(name)) or []
        falls = [i for i in range(1, len(given)) if given[i] < given[i - 1]]
        if falls:
            i = falls[0]
            message = f"It decreases from {shown(given[i - 1])} to {shown(given[i])} at index {i}, "
            message += f"the first of {len(falls)} places."
            yield Match(entry.key(name), message)


@Rule(
    "R043",
    "note",
    "short_factor and long_factor are the same",
    why="Short sequences are computed with the factors of long ones.",
    hint="Nothing to do if the model was trained this way.",
    rope_types=("longrope",),
)
def same_lists(entry: Subject) -> Iterator[Match]:
    """Equal lists with a factor other than 1 in them."""
    short, long = (numbers(entry.values.get(name)) for name in LISTS)
    if short and short == long and set(short) != {1.0}:
        yield Match(entry.key("short_factor"), "Every length is computed with the same factors.")


@Rule(
    "R044",
    "note",
    "stacks switch LongRoPE's lists at different lengths",
    why="Transformers uses the long list for a sequence beyond the original length; others choose "
    "once, by the length that they are set up for, or have one list. In Phi-3.5 long_factor "
    "rises to 64.8 where short_factor is near 1.",
    hint="Compare the stacks on short texts before you rely on one.",
    threads=(
        "huggingface/transformers#33129",
        "vllm-project/vllm#27431",
        "ggml-org/llama.cpp#8995",
        "unslothai/unsloth#10681",
    ),
    rope_types=("longrope",),
    reads=True,
)
def the_switch(entry: Subject) -> Iterator[Match]:
    """LongRoPE with two different lists."""
    short, long = (numbers(entry.values.get(name)) for name in LISTS)
    if not short or not long or short == long or len(short) != len(long) or min(short) <= 0:
        return
    worst = max(b / a for a, b in zip(short, long, strict=True))
    where = (
        "the original length" if entry.original is None else f"{shown(entry.original)} positions"
    )
    message = f"Transformers uses it for a sequence beyond {where}; with it a pair rotates up to "
    message += f"{shown(worst)} times slower."
    for length in (entry.original, entry.context):
        if length:
            message += sentence(f"At {shown(length)} positions", entry.partings(length))
    yield Match(entry.key("long_factor"), message)


@Rule(
    "R048",
    "warning",
    "short_factor above long_factor",
    why="The long list is for positions beyond the original length, and larger in every pair. "
    "Exchanged, long sequences run past the angles of training.",
    hint="Exchange the two lists.",
    rope_types=("longrope",),
)
def exchanged(entry: Subject) -> Iterator[Match]:
    """LongRoPE whose `short_factor` is above `long_factor` in most pairs."""
    short, long = (numbers(entry.values.get(name)) for name in LISTS)
    if not short or not long or len(short) != len(long):
        return
    above = sum(a > b for a, b in zip(short, long, strict=True))
    if 2 * above > len(short):
        message = f"It is larger in {above} of {len(short)} pairs: up to {shown(max(short))}, and "
        message += f"long_factor up to {shown(max(long))}."
        yield Match(entry.key("short_factor"), message)


@Rule(
    "R045",
    "note",
    "short_mscale and long_mscale",
    why="The code of Phi-3.5-MoE multiplies cos and sin by them, and so does vLLM's in every "
    "model; Transformers ignores them in others.",
    hint="Remove them, or write one value for both, and as attention_factor, which vLLM ignores.",
    reads=True,
)
def own_mscales(entry: Subject) -> Iterator[Match]:
    """`short_mscale` or `long_mscale` outside Phi-3.5-MoE."""
    given = [name for name in ("short_mscale", "long_mscale") if entry.has(name)]
    if given and entry.architecture.model_type != "phimoe":
        length = entry.original if given[0] == "short_mscale" else entry.context
        changes = dict.fromkeys(map(entry.key, given), ...)
        texts = entry.effects_at(changes, length=length)
        said = without_it(texts) or f"Transformers ignores {' and '.join(given)} in this model."
        yield Match(entry.key(given[0]), said)


@Rule(
    "R046",
    "warning",
    "LongRoPE's factor is not the ratio of the lengths",
    why="It gives only the attention factor, sqrt(1 + ln factor / ln original); a model is "
    "trained with that of its lengths.",
    hint="Remove the factor, or write max_position_embeddings / original_max_position_embeddings.",
    threads=("huggingface/transformers#38224",),
    rope_types=("longrope",),
    requires=("factor", "original", "context"),
    reads=True,
)
def other_factor(entry: Subject, factor: float, original: int, context: int) -> Iterator[Match]:
    """LongRoPE with a `factor` that is more than 1 % off the ratio of the lengths."""
    ratio = context / original
    if not factor or abs(factor / ratio - 1) <= 0.01 or ratio == 1 or entry.has("attention_factor"):
        return
    given, implied = entry.table(), entry.table(factor=ratio)
    if given is not None and implied is not None:
        message = f"With it the attention factor is {shown(given.attention_factor)}; the lengths, "
        message += f"{shown(context)} / {shown(original)}, give {shown(implied.attention_factor)}."
        yield Match(entry.key("factor"), message)


@Rule(
    "R047",
    "note",
    "LongRoPE's factor is left to the lengths",
    why="Transformers uses max_position_embeddings over the original length, and warns. Another "
    "max_position_embeddings changes every score.",
    hint="Add factor or attention_factor, so that the limit can change without the scores.",
    rope_types=("longrope",),
    requires=("original", "context"),
)
def no_factor(entry: Subject, original: int, context: int) -> Iterator[Match]:
    """LongRoPE without `factor` and `attention_factor`, and the original length at the top."""
    if entry.has("factor") or entry.has("attention_factor") or ORIGINAL not in entry.config:
        return
    table = entry.table()
    if table is None or not context or not original:
        return
    if table.attention_factor != 1:
        message = f"The attention factor {shown(table.attention_factor)} follows from "
        message += f"max_position_embeddings / {ORIGINAL} = {shown(context / original)}."
        yield Match(entry.key("factor"), message)
