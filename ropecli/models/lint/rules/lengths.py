"""Context lengths, and how they go with a factor."""

from __future__ import annotations

from collections.abc import Iterator

from ropecli.models.lint.entry import BY_ORIGINAL, ORIGINAL, Entry
from ropecli.models.lint.numbers import shown, whole
from ropecli.models.lint.rule import Hit, rule

_SLACK = 1.01  #: Released files round: 131,072 / 32,000 = 4.096 at factor 4.


@rule(
    "R021",
    "warning",
    "a context beyond what the factor stretches for",
    of=Entry,
    why="Stacks take the factor as it is and do not compare it with the lengths; positions beyond "
    "factor times original_max_position_embeddings have angles that no part of training has met.",
    cure="Raise the factor to max_position_embeddings / original_max_position_embeddings, or lower "
    "max_position_embeddings.",
    threads=(
        "huggingface/transformers#38224",
        "huggingface/transformers#40320",
        "NVIDIA/Megatron-LM#1418",
    ),
)
def beyond(entry: Entry) -> Iterator[Hit]:
    """YaRN whose max_position_embeddings is above factor times the original length."""
    factor, original, context = entry.number("factor"), entry.original, entry.part.context
    if entry.rope_type != "yarn" or factor is None or original is None or context is None:
        return
    if factor >= 1 and context > _SLACK * factor * original:
        yield Hit(
            entry.key("factor"),
            f"The factor is {shown(factor)} but {context:,} / {original:,} is "
            f"{shown(context / original)}: beyond {shown(factor * original)} positions the model "
            "runs past what its frequencies were stretched for.",
        )


@rule(
    "R022",
    "note",
    "a context short of what the factor stretches for",
    of=Entry,
    why="Frequencies are slowed for a length that max_position_embeddings does not admit: short "
    "texts pay for it, and a stack that takes its limit from max_position_embeddings, as "
    "llama.cpp's converter does, cuts there. vLLM takes factor times the original length.",
    cure="Write max_position_embeddings as factor times original_max_position_embeddings, or a "
    "smaller factor.",
    threads=("huggingface/transformers#38224", "NVIDIA/Megatron-LM#1418"),
)
def short_of(entry: Entry) -> Iterator[Hit]:
    """YaRN whose max_position_embeddings is below factor times the original length."""
    factor, original, context = entry.number("factor"), entry.original, entry.part.context
    if entry.rope_type != "yarn" or factor is None or original is None or context is None:
        return
    if ORIGINAL not in {**entry.part.config, **entry.values} or original > context:
        return
    if context * _SLACK < factor * original:
        yield Hit(
            entry.key("factor"),
            f"It stretches for {shown(factor * original)} positions, and max_position_embeddings "
            f"ends at {context:,}.",
        )


@rule(
    "R023",
    "warning",
    "the original length is missing",
    of=Entry,
    why="Transformers takes max_position_embeddings for it. Where that is the stretched length "
    "already, YaRN's ramp lies at other pairs, llama3 leaves alone what it should slow down, and "
    "LongRoPE never leaves its short list. vLLM refuses the file.",
    cure="Add original_max_position_embeddings: the length before stretching.",
    threads=("huggingface/transformers#38224", "NVIDIA/Megatron-LM#1418"),
)
def no_original(entry: Entry) -> Iterator[Hit]:
    """yarn, longrope or llama3 without original_max_position_embeddings."""
    if entry.rope_type not in BY_ORIGINAL or entry.original is not None or not entry.values:
        return
    context, factor = entry.part.context, entry.number("factor")
    taken = "nothing" if context is None else f"{context:,}, max_position_embeddings,"
    message = f"Transformers takes {taken} for it, and vLLM refuses the file."
    if context is not None and factor is not None and factor > 1:
        message += f" If the model was trained on {shown(context / factor)}, that is wrong."
        message += _moved(entry, context, factor)
    yield Hit(entry.key(ORIGINAL), message)


def _moved(entry: Entry, context: int, factor: float) -> str:
    """By how much the frequencies are off if the context is the stretched length."""
    as_is = entry.table(**{ORIGINAL: context})
    meant = entry.table(**{ORIGINAL: max(1, round(context / factor))})
    if as_is is None or meant is None or entry.rope_type == "longrope":
        return ""
    ratio = as_is.inv_freq / meant.inv_freq
    worst = int(abs(ratio - 1).argmax())
    return f" Pair {worst} then turns {shown(float(ratio[worst]))} times as fast as it should."


@rule(
    "R037",
    "warning",
    "an original length beside the layer types",
    of=Entry,
    why="Where the scaling keys stand under layer types, Transformers reads the original length of "
    "each type alone, or takes max_position_embeddings; one at the top level is not read.",
    cure="Write it among the scaling keys of the layer type.",
)
def misplaced_original(entry: Entry) -> Iterator[Hit]:
    """yarn, longrope or llama3 under a layer type, the original length at the top alone."""
    if entry.rope_type not in BY_ORIGINAL or entry.has(ORIGINAL):
        return
    if entry.part.config.get(ORIGINAL) is not None and entry.nested:
        context = entry.part.context
        taken = "nothing" if context is None else f"max_position_embeddings, {context:,}"
        yield Hit(
            entry.part.key(ORIGINAL), f"Transformers does not read it here: it takes {taken}."
        )


@rule(
    "R024",
    "warning",
    "an original length that is not below the context",
    of=Entry,
    why="There is nothing to stretch: the model's limit lies within what it was trained on. One "
    "of the two lengths is wrong, and Transformers warns of it in llama3.",
    cure="Write the length before stretching as original_max_position_embeddings, and the one "
    "after it as max_position_embeddings.",
    threads=("NVIDIA/Megatron-LM#1418",),
)
def original_beyond(entry: Entry) -> Iterator[Hit]:
    """An original length above max_position_embeddings, or equal to it in llama3."""
    original, context = entry.original, entry.part.context
    if entry.rope_type not in BY_ORIGINAL or original is None or context is None:
        return
    if original > context or (entry.rope_type == "llama3" and original == context):
        yield Hit(
            entry.key(ORIGINAL),
            f"It is {original:,}, and max_position_embeddings {context:,}: no position lies beyond "
            "the trained ones.",
        )


@rule(
    "R029",
    "warning",
    "two original lengths",
    of=Entry,
    why="Transformers takes the one at the top level (Phi-3 keeps it there), or the one of the "
    "layer type where there are several; other stacks take the one among the scaling keys.",
    cure="Write the same number in both places, or leave one out.",
)
def two_originals(entry: Entry) -> Iterator[Hit]:
    """original_max_position_embeddings at the top level and among the scaling keys, different."""
    inner, outer = whole(entry.values.get(ORIGINAL)), whole(entry.part.config.get(ORIGINAL))
    if inner is not None and outer is not None and inner != outer:
        yield Hit(
            entry.key(ORIGINAL),
            f"It is {inner:,} here and {outer:,} at {entry.part.key(ORIGINAL)}; Transformers "
            f"computes with {entry.original or 0:,}.",
        )
