"""LongRoPE: when which list counts, and the factor on attention."""

from __future__ import annotations

from collections.abc import Iterator

from ropecli.models.lint.entry import ORIGINAL, Entry
from ropecli.models.lint.numbers import numbers, shown
from ropecli.models.lint.rule import Hit, rule

LISTS = ("short_factor", "long_factor")


@rule(
    "R044",
    "note",
    "stacks switch LongRoPE's lists at different times",
    of=Entry,
    why="Transformers takes the long list for a sequence beyond the original length, vLLM for a "
    "server whose limit is beyond it, llama.cpp for a context that is, and mlx-lm always. In "
    "Phi-3.5 long_factor rises to 64.8 where short_factor is near 1.",
    cure="Compare short texts between stacks before you trust one.",
    threads=(
        "huggingface/transformers#33129",
        "vllm-project/vllm#27431",
        "ggml-org/llama.cpp#8995",
        "unslothai/unsloth#10681",
    ),
)
def the_switch(entry: Entry) -> Iterator[Hit]:
    """LongRoPE with two different lists."""
    short, long = (numbers(entry.values.get(name)) for name in LISTS)
    if entry.rope_type != "longrope" or not short or not long or short == long:
        return
    if len(short) != len(long) or min(short) <= 0:
        return
    worst = max(b / a for a, b in zip(short, long, strict=True))
    where = "the original length" if entry.original is None else f"{entry.original:,} positions"
    yield Hit(
        entry.key("long_factor"),
        f"Transformers switches to it for a sequence beyond {where}, vLLM and llama.cpp for a "
        f"server or context that is, mlx-lm always; a pair turns up to {shown(worst)} times "
        "slower with it.",
    )


@rule(
    "R045",
    "note",
    "short_mscale and long_mscale",
    of=Entry,
    why="The code of Phi-3.5-MoE and vLLM multiply cos and sin by them; for other models "
    "Transformers ignores them and computes its own factor.",
    cure="Use attention_factor where one value will do.",
)
def own_mscales(entry: Entry) -> Iterator[Hit]:
    """`short_mscale` or `long_mscale` outside Phi-3.5-MoE."""
    given = [name for name in ("short_mscale", "long_mscale") if entry.has(name)]
    if given and entry.part.keys.architecture.model_type != "phimoe":
        yield Hit(entry.key(given[0]), f"Transformers ignores {' and '.join(given)} in this model.")


@rule(
    "R046",
    "warning",
    "LongRoPE's factor is not the ratio of the lengths",
    of=Entry,
    why="The factor only makes the attention factor, sqrt(1 + ln factor / ln original); a model "
    "is trained with the one that follows from its lengths.",
    cure="Leave the factor out, or write max_position_embeddings / "
    "original_max_position_embeddings.",
    threads=("huggingface/transformers#38224",),
)
def other_factor(entry: Entry) -> Iterator[Hit]:
    """LongRoPE with a `factor` that is more than 1 % off the ratio of the lengths."""
    factor, original, context = entry.number("factor"), entry.original, entry.part.context
    if entry.rope_type != "longrope" or not factor or original is None or context is None:
        return
    ratio = context / original
    if abs(factor / ratio - 1) <= 0.01 or ratio == 1 or entry.has("attention_factor"):
        return
    given, implied = entry.table(), entry.table(factor=ratio)
    if given is not None and implied is not None:
        yield Hit(
            entry.key("factor"),
            f"With it the attention factor is {shown(given.attention_factor)}; the lengths, "
            f"{context:,} / {original:,}, give {shown(implied.attention_factor)}.",
        )


@rule(
    "R047",
    "note",
    "LongRoPE's factor is left to the lengths",
    of=Entry,
    why="Transformers takes max_position_embeddings / original_max_position_embeddings, wherever "
    "the original length stands, and warns; a changed max_position_embeddings changes every "
    "score.",
    cure="Add factor or attention_factor, so that the limit can be changed alone.",
)
def no_factor(entry: Entry) -> Iterator[Hit]:
    """LongRoPE without `factor` and `attention_factor`, the original length at the top level."""
    if entry.rope_type != "longrope" or entry.has("factor") or entry.has("attention_factor"):
        return
    table, context, original = entry.table(), entry.part.context, entry.original
    if ORIGINAL not in entry.part.config or table is None or not context or not original:
        return
    if table.attention_factor != 1:
        yield Hit(
            entry.key("factor"),
            f"The attention factor {shown(table.attention_factor)} follows from "
            f"max_position_embeddings / {ORIGINAL} = {shown(context / original)}.",
        )
