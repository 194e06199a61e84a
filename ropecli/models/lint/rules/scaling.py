"""Factors, and dynamic NTK."""

from __future__ import annotations

from collections.abc import Iterator

from ropecli.models.lint.entry import Entry
from ropecli.models.lint.numbers import shown
from ropecli.models.lint.rule import Hit, rule
from ropecli.models.lint.subject import Part

_REPLACED = ("yarn", "longrope")  #: The types that read attention_factor.


@rule(
    "R020",
    "warning",
    "a factor below 1",
    of=Entry,
    why="It squeezes where it should stretch: frequencies grow, and the model sees angles within "
    "its context that it has never met. Transformers warns and goes on.",
    cure="Write the wanted length over the trained one, at least 1.",
)
def small_factor(entry: Entry) -> Iterator[Hit]:
    """A factor above 0 and below 1."""
    factor = entry.number("factor")
    if factor is not None and 0 < factor < 1:
        yield Hit(
            entry.key("factor"),
            f"Frequencies are multiplied by {shown(1 / factor)} where a factor of 1 or more would "
            "slow them down.",
        )


@rule(
    "R025",
    "warning",
    "dynamic NTK does not read the original length",
    of=Entry,
    why="In Transformers the base of dynamic NTK begins to grow at max_position_embeddings, "
    "whatever original_max_position_embeddings says; a stretched max_position_embeddings means "
    "that nothing is stretched at all up to there.",
    cure="Let max_position_embeddings be the trained length, and take the original one out.",
    threads=("huggingface/transformers#25104", "vllm-project/vllm#3488"),
)
def dynamic_original(entry: Entry) -> Iterator[Hit]:
    """`original_max_position_embeddings` under dynamic, other than max_position_embeddings."""
    original, context = entry.original, entry.part.context
    dynamic = entry.rope_type == "dynamic" and not entry.has("alpha")
    if dynamic and original is not None and context is not None and original != context:
        yield Hit(
            entry.key("original_max_position_embeddings"),
            f"Transformers stretches beyond {context:,} positions, "
            f"max_position_embeddings, and not beyond {original:,}.",
        )


@rule(
    "R026",
    "note",
    "dynamic NTK and the cache of keys",
    of=Entry,
    why="The base grows with the sequence, and keys in the cache keep the base that they were "
    "rotated with: generated token by token, a sequence gets other scores than all at once. vLLM "
    "takes one base, that of max_position_embeddings times factor, at every length; llama.cpp has "
    "no dynamic NTK.",
    cure="For long sequences use yarn, whose frequencies do not depend on the length.",
    threads=(
        "huggingface/transformers#25104",
        "vllm-project/vllm#3488",
        "vllm-project/vllm#5093",
        "QwenLM/Qwen#401",
    ),
)
def dynamic_base(entry: Entry) -> Iterator[Hit]:
    """Rope type dynamic with a factor above 1."""
    factor, context = entry.number("factor"), entry.part.context
    if entry.rope_type != "dynamic" or factor is None or factor <= 1 or context is None:
        return
    table = entry.table(sequence_length=int(min(context * factor, 2**53)))
    if entry.has("alpha") or table is None or table.base is None:
        return
    yield Hit(
        entry.key("rope_type" if "rope_type" in entry.values else "type"),
        f"The base is {shown(entry.base or 10_000)} up to {context:,} positions and "
        f"{shown(table.base)} at {shown(context * factor)}; vLLM takes the latter at every length, "
        "and cached keys keep the base they were rotated with.",
    )


@rule(
    "R096",
    "note",
    "a key that one stack reads",
    of=Part,
    why="use_dynamic_ntk is read by the code that came with Qwen alone, where one long sequence "
    "changes the base of its whole batch, and dual_chunk_attention_config by vLLM alone: "
    "elsewhere the model runs past its trained length as it is.",
    cure="Keep within the trained length in other stacks.",
    threads=("QwenLM/Qwen#401",),
)
def one_stack(part: Part) -> Iterator[Hit]:
    """`use_dynamic_ntk: true` or a `dual_chunk_attention_config`."""
    if part.config.get("use_dynamic_ntk") is True:
        yield Hit(part.key("use_dynamic_ntk"), "Only the code that came with Qwen reads it.")
    if part.config.get("dual_chunk_attention_config"):
        yield Hit(part.key("dual_chunk_attention_config"), "Only vLLM reads it.")
