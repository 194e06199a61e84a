"""Context lengths and factors."""

from __future__ import annotations

from collections.abc import Iterator

from ropecli.models.keys import BY_ORIGINAL, ORIGINAL
from ropecli.models.lint.readings import ignoring, join_stacks
from ropecli.models.lint.rule import Match, Rule
from ropecli.models.lint.subjects import Subject
from ropecli.models.lint.values import shown

_BEYOND = {
    "linear": 1.01,
    "yarn": 1.01,
    "llama3": 4.0,
}  #: The largest ratio of released files, rounded up.
_SLACK = 1.01  #: Released files round: 131,072 / 32,000 = 4.096 at factor 4.


@Rule(
    "R021",
    "warning",
    "a context beyond the reach of the factor",
    why="Stacks do not compare the factor with the lengths. Positions beyond factor times "
    "original_max_position_embeddings have angles that the model was not trained on.",
    hint="Raise the factor to max_position_embeddings / original_max_position_embeddings, or lower "
    "max_position_embeddings.",
    threads=(
        "huggingface/transformers#38224",
        "huggingface/transformers#40320",
        "NVIDIA/Megatron-LM#1418",
    ),
    rope_types=("linear", "yarn", "llama3"),
    requires=("factor", "context"),
)
def beyond(entry: Subject, factor: float, context: int) -> Iterator[Match]:
    """A max_position_embeddings above factor times the original length.

    In linear and YaRN; in llama3 above four times that, where every layer rotates: Llama 3.1 has
    twice.
    """
    original = _original(entry)
    if original is None:
        return
    if entry.rope_type == "llama3" and not all(s.rotates for s in entry.layers):
        return
    if factor >= 1 and context > _BEYOND[entry.rope_type or ""] * factor * original:
        message = f"The factor is {shown(factor)} but {shown(context)} / {shown(original)} is "
        message += f"{shown(context / original)}: beyond {shown(factor * original)} positions the "
        message += "model runs past the length for which its frequencies are scaled."
        yield Match(entry.key("factor"), message)


@Rule(
    "R022",
    "note",
    "a context short of the reach of the factor",
    why="Frequencies are slowed for a length that max_position_embeddings does not allow, at the "
    "expense of short texts.",
    hint="Write max_position_embeddings as factor times original_max_position_embeddings, or a "
    "smaller factor.",
    threads=("huggingface/transformers#38224", "NVIDIA/Megatron-LM#1418"),
    rope_types=("linear", "yarn"),
    requires=("factor", "context"),
)
def short_of(entry: Subject, factor: float, context: int) -> Iterator[Match]:
    """Linear or YaRN whose max_position_embeddings is below factor times the original length."""
    original = _original(entry)
    if original is not None and original <= context and context * _SLACK < factor * original:
        message = f"It is for {shown(factor * original)} positions, and max_position_embeddings is "
        message += f"{shown(context)}."
        yield Match(entry.key("factor"), message)


def _original(entry: Subject) -> int | None:
    """Return the original length; linear does not use the one that the file gives."""
    return entry.written_original if entry.rope_type == "linear" else entry.original


@Rule(
    "R023",
    "warning",
    "no original length",
    why="Most stacks use max_position_embeddings, some the default of the class. If that is the "
    "stretched length, YaRN's ramp covers other pairs, llama3 does not slow the pairs that it "
    "should, and LongRoPE never leaves its short list.",
    hint="Add original_max_position_embeddings: the length before scaling.",
    threads=("huggingface/transformers#38224", "NVIDIA/Megatron-LM#1418"),
    rope_types=BY_ORIGINAL,
)
def no_original(entry: Subject) -> Iterator[Match]:
    """yarn, longrope or llama3 without original_max_position_embeddings."""
    if entry.original is not None or not entry.values:
        return
    context, factor = entry.context, entry.numbers.get("factor")
    refused = entry.refusals
    used = context if entry.settings is None else entry.settings.original_context_length
    texts = {} if used is None else entry.effects(**{ORIGINAL: used})
    same = [stack for stack in ignoring(texts) if stack not in refused]
    said = []
    if same:
        default = f"the default of model_type {entry.architecture.model_type}"
        what = "max_position_embeddings" if used == context else default
        takes = f"{join_stacks(same)} {'take' if same[1:] else 'takes'}"
        said.append(f"{takes} {what}, {shown(used or 0)}, instead.")
    if refused:
        said.append(f"The file is refused by {join_stacks(refused)}.")
    if same and context is not None and used == context and factor is not None and factor > 1:
        said.append(f"That is wrong if the model was trained on {shown(context / factor)}.")
        said.append(_describe_error(entry, context, factor))
    yield Match(entry.key(ORIGINAL), " ".join(filter(None, said)) or "No other key gives it.")


def _describe_error(entry: Subject, context: int, factor: float) -> str:
    """Describe the error of the frequencies if the context is the stretched length."""
    as_is = entry.table(**{ORIGINAL: context})
    meant = entry.table(**{ORIGINAL: max(1, round(context / factor))})
    if as_is is None or meant is None or entry.rope_type == "longrope":
        return ""
    ratio = as_is.inv_freq / meant.inv_freq
    worst = int(abs(ratio - 1).argmax())
    return f"Pair {worst} then rotates {shown(float(ratio[worst]))} times as fast as it should."


@Rule(
    "R024",
    "warning",
    "an original length that is not below the context",
    why="There is nothing to scale: one of the two lengths is wrong. Transformers warns about it "
    "in llama3.",
    hint="Write the length before scaling as original_max_position_embeddings, and the one "
    "after it as max_position_embeddings.",
    threads=("NVIDIA/Megatron-LM#1418",),
    rope_types=BY_ORIGINAL,
    requires=("original", "context"),
)
def original_beyond(entry: Subject, original: int, context: int) -> Iterator[Match]:
    """An original length above max_position_embeddings, or equal to it in llama3."""
    if original > context or (entry.rope_type == "llama3" and original == context):
        message = f"It is {shown(original)}, and max_position_embeddings {shown(context)}: no "
        message += "position is beyond the trained ones."
        yield Match(entry.key(ORIGINAL), message)
