"""How the header of a GGUF scales."""

from __future__ import annotations

from collections.abc import Iterator

from ropecli.models.lint.header import Header
from ropecli.models.lint.numbers import shown
from ropecli.models.lint.rule import Hit, rule

FACTOR = "rope.scaling.factor"
ORIGINAL = "rope.scaling.original_context_length"


@rule(
    "R100",
    "warning",
    "a factor without a scaling type",
    of=Header,
    why="llama.cpp takes linear, which divides every frequency. A converter that dropped the type "
    "may have meant yarn.",
    cure="Add rope.scaling.type.",
)
def no_type(header: Header) -> Iterator[Hit]:
    """A factor other than 1, under its name or its old one, and no `rope.scaling.type`."""
    factor = header.factor
    if header.scaling is None and factor is not None and factor not in {0, 1}:
        name = FACTOR if header.get(FACTOR) is not None else "rope.scale_linear"
        yield Hit(
            header.key(name),
            f"llama.cpp takes linear: every pair turns {shown(factor)} times slower.",
        )


@rule(
    "R101",
    "warning",
    "a scaling type without a factor",
    of=Header,
    why="llama.cpp takes 1: nothing is stretched.",
    cure="Add rope.scaling.factor.",
)
def no_factor(header: Header) -> Iterator[Hit]:
    """Scaling type linear or yarn, and no factor."""
    if header.scaling in {"linear", "yarn"} and header.factor is None:
        yield Hit(header.key(FACTOR), f"Type {header.scaling} without it stretches nothing.")


@rule(
    "R102",
    "warning",
    "no freq_base",
    of=Header,
    why="llama.cpp takes 10000 for every architecture; converters have dropped CodeLlama's "
    "1000000 so.",
    cure="Convert again, or give --rope-freq-base with the model's own.",
    threads=("ggml-org/llama.cpp#2768", "ggml-org/llama.cpp#3090", "LostRuins/koboldcpp#426"),
)
def no_base(header: Header) -> Iterator[Hit]:
    """A rotation that goes by `rope.freq_base`, and no such key."""
    name = header.key("rope.freq_base")
    if header.get("rope.freq_base") is None and any(
        name in sentence for settings in header.settings for sentence in settings.assumed
    ):
        yield Hit(name, "llama.cpp takes 10000; nothing says whether that is right.")


@rule(
    "R105",
    "warning",
    "an original length above the context",
    of=Header,
    why="There is nothing to stretch: one of the two lengths is wrong.",
    cure="Write the length before stretching as rope.scaling.original_context_length.",
    threads=("NVIDIA/Megatron-LM#1418",),
)
def original_beyond(header: Header) -> Iterator[Hit]:
    """`rope.scaling.original_context_length` above `context_length`."""
    original, context = header.original, header.context
    if original is not None and context is not None and original > context:
        yield Hit(header.key(ORIGINAL), f"It is {original:,}, and context_length {context:,}.")


@rule(
    "R106",
    "note",
    "attn_factor multiplies",
    of=Header,
    why="In llama.cpp rope.scaling.attn_factor multiplies what follows from the factor; the "
    "attention_factor of a config.json replaces it. A converter that copies the number changes "
    "the model.",
    cure="Compare with the config.json: divide its attention_factor by 0.1 ln factor + 1.",
    threads=("ggml-org/llama.cpp#17945", "deepseek-ai/DeepSeek-R1#684"),
)
def attn_factor(header: Header) -> Iterator[Hit]:
    """`rope.scaling.attn_factor` other than 1."""
    given = header.number("rope.scaling.attn_factor")
    if given is not None and given not in {0, 1}:
        yield Hit(
            header.key("rope.scaling.attn_factor"),
            f"cos and sin are multiplied by {shown(given)}, and scores by {shown(given**2)}.",
        )


@rule(
    "R108",
    "warning",
    "yarn without an original length",
    of=Header,
    why="llama.cpp takes context_length for it, which is the stretched length: the ramp lies at "
    "other pairs.",
    cure="Add rope.scaling.original_context_length.",
    threads=("ggml-org/llama.cpp#7118",),
)
def no_original(header: Header) -> Iterator[Hit]:
    """Scaling type yarn and no `rope.scaling.original_context_length`."""
    if header.scaling == "yarn" and header.original is None and header.context is not None:
        yield Hit(header.key(ORIGINAL), f"llama.cpp takes context_length, {header.context:,}.")


@rule(
    "R109",
    "warning",
    "a GGUF's context beyond what its factor stretches for",
    of=Header,
    why="Positions beyond factor times the original length have angles that no part of training "
    "has met.",
    cure="Convert again from a config.json whose lengths are right, or run with a smaller context.",
    threads=("huggingface/transformers#38224",),
)
def beyond(header: Header) -> Iterator[Hit]:
    """yarn whose `context_length` is above factor times the original length."""
    factor, original, context = header.factor, header.original, header.context
    if header.scaling != "yarn" or not factor or original is None or context is None:
        return
    if context > 1.01 * factor * original:
        yield Hit(
            header.key(FACTOR),
            f"The factor is {shown(factor)} but {context:,} / {original:,} is "
            f"{shown(context / original)}.",
        )
