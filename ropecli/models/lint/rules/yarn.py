"""YaRN: its factors on attention, and the order of its betas."""

from __future__ import annotations

from collections.abc import Iterator

from ropecli.models.lint.entry import Entry
from ropecli.models.lint.numbers import shown
from ropecli.models.lint.rule import Hit, rule
from ropecli.rotary.attention import mscale, softmax_factor


@rule(
    "R030",
    "warning",
    "one of mscale and mscale_all_dim",
    of=Entry,
    why="Transformers reads them as a pair: one alone counts for nothing, and the attention "
    "factor is 0.1 ln factor + 1. mlx-lm and vLLM fill in the other: a lone mscale of 0.707 at "
    "factor 40 gives 1.2608 there and 1.3689 in Transformers.",
    cure="Give both, or attention_factor with the value that was meant.",
    threads=("vllm-project/vllm#48623", "NVIDIA/Megatron-LM#1429"),
)
def lone_mscale(entry: Entry) -> Iterator[Hit]:
    """`mscale` without `mscale_all_dim`, or the other way round; 0 counts as missing."""
    factor = entry.number("factor")
    pair = {name: entry.number(name) or 0.0 for name in ("mscale", "mscale_all_dim")}
    given = [name for name, value in pair.items() if value]
    if entry.rope_type != "yarn" or len(given) != 1 or entry.has("attention_factor"):
        return
    if factor is None or factor <= 1:
        return
    filled = mscale(factor, pair["mscale"] or 1.0) / mscale(factor, pair["mscale_all_dim"])
    yield Hit(
        entry.key(given[0]),
        f"Transformers ignores it and uses {shown(mscale(factor))} (0.1 ln {shown(factor)} + 1); "
        f"stacks that fill in the other use {shown(filled)}.",
    )


@rule(
    "R031",
    "note",
    "mscale and mscale_all_dim",
    of=Entry,
    why="The attention factor is the ratio of the two, 1 where they are equal; older stacks drop "
    "them and use 0.1 ln factor + 1. In models with multi-head latent attention mscale_all_dim "
    "multiplies the score besides, squared, which one port after the other has left out: at "
    "position 0 nothing shows it.",
    cure="Check the stack you run: at factor 40 and 1.0 the score carries 1.8739.",
    threads=(
        "vllm-project/vllm#48623",
        "huggingface/transformers#47435",
        "onnxruntime/mobius#548",
        "NVIDIA/Megatron-LM#1429",
        "ggml-org/llama.cpp#17945",
        "turboderp-org/exllamav3#259",
    ),
)
def mscale_pair(entry: Entry) -> Iterator[Hit]:
    """YaRN with both of them."""
    factor, table = entry.number("factor"), entry.table()
    pair = (entry.number("mscale"), entry.number("mscale_all_dim"))
    if entry.rope_type != "yarn" or not all(pair) or entry.has("attention_factor"):
        return
    if factor is None or factor <= 1 or table is None:
        return
    used, dropped = table.attention_factor, mscale(factor)
    message = (
        f"The attention factor is {shown(used)}; stacks that drop both use {shown(dropped)}, "
        f"which makes scores {shown((dropped / used) ** 2)} times as large."
    )
    if entry.part.keys.architecture.facts.get("softmax"):
        score = softmax_factor(factor, pair[1])
        message += f" The score is multiplied by {shown(score)} besides."
    yield Hit(entry.key("mscale"), message)


@rule(
    "R032",
    "note",
    "mscale beside attention_factor",
    of=Entry,
    why="attention_factor replaces what follows from mscale and mscale_all_dim in Transformers; "
    "stacks that do not know attention_factor go by the other two.",
    cure="Leave the ones out that do not count.",
    threads=("vllm-project/vllm#46280",),
)
def replaced_mscale(entry: Entry) -> Iterator[Hit]:
    """YaRN with `attention_factor` and one of `mscale`, `mscale_all_dim`."""
    given = [name for name in ("mscale", "mscale_all_dim") if entry.number(name)]
    factor = entry.number("attention_factor")
    if entry.rope_type == "yarn" and given and factor is not None:
        yield Hit(
            entry.key(given[0]),
            f"Transformers uses attention_factor, {shown(factor)}, and ignores "
            f"{' and '.join(given)}.",
        )


@rule(
    "R035",
    "error",
    "beta_fast below beta_slow",
    of=Entry,
    why="The ramp runs backwards: fast pairs, which tell neighbours apart, are slowed by the whole "
    "factor, and slow ones, which run out of context, are left alone. Transformers warns. "
    "The same value twice, as in Kimi K2, is a ramp of one step.",
    cure="Exchange them; usual are 32 and 1.",
)
def beta_order(entry: Entry) -> Iterator[Hit]:
    """YaRN whose `beta_fast` (32 by default) is below its `beta_slow` (1 by default)."""
    if entry.rope_type != "yarn":
        return
    fast, slow = entry.number("beta_fast") or 32.0, entry.number("beta_slow") or 1.0
    if fast < slow:
        place = "beta_fast" if entry.has("beta_fast") else "beta_slow"
        yield Hit(
            entry.key(place),
            f"beta_fast is {shown(fast)} and beta_slow {shown(slow)}: fast pairs are slowed by "
            f"the factor of {shown(entry.number('factor') or 1.0)}, and slow ones kept.",
        )
