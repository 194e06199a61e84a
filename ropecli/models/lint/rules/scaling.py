"""Scaling: factors, ramps and dynamic NTK."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ropecli.models.keys import ORIGINAL
from ropecli.models.lint.readings import sentence, without_it
from ropecli.models.lint.rule import Match, PartRule, Rule
from ropecli.models.lint.subjects import Subject
from ropecli.models.lint.values import shown
from ropecli.models.stacks.vllm import DUAL_CHUNK


@Rule(
    "R020",
    "warning",
    "a factor below 1",
    why="It compresses positions: frequencies grow, and the model sees angles that it was not "
    "trained on. Transformers only warns.",
    hint="Write the wanted length over the trained length, at least 1.",
    requires=("factor",),
)
def small_factor(entry: Subject, factor: float) -> Iterator[Match]:
    """A factor above 0 and below 1."""
    if 0 < factor < 1:
        message = f"Frequencies are multiplied by {shown(1 / factor)}; a factor above 1 divides "
        message += "them."
        yield Match(entry.key("factor"), message)


@Rule(
    "R025",
    "warning",
    "dynamic NTK does not read the original length",
    why="In Transformers the base grows from max_position_embeddings on, not from this value. "
    "With a stretched one nothing is scaled up to there.",
    hint="Set max_position_embeddings to the trained length, and remove the original length.",
    threads=("huggingface/transformers#25104", "vllm-project/vllm#3488"),
    rope_types=("dynamic",),
    requires=("original", "context"),
    reads=True,
)
def dynamic_original(entry: Subject, original: int, context: int) -> Iterator[Match]:
    """`original_max_position_embeddings` under dynamic, other than max_position_embeddings."""
    if original != context and not entry.has("alpha"):
        key = entry.key(ORIGINAL)
        length = int(min(context * (entry.factor or 1.0), 2**53))
        texts = entry.effects_at({key: ...}, length=length)
        message = f"{without_it(texts)} Transformers stretches beyond {shown(context)} positions, "
        yield Match(key, f"{message}max_position_embeddings, not beyond {shown(original)}.".strip())


@Rule(
    "R026",
    "note",
    "dynamic NTK and the KV cache",
    why="The base grows with the sequence, and cached keys keep the base that they were rotated "
    "with: scores token by token are not those of one pass. Stacks differ in the length from "
    "which it grows; some have one base, or do not scale.",
    hint="For long sequences use yarn, whose frequencies do not depend on the length.",
    threads=(
        "huggingface/transformers#25104",
        "vllm-project/vllm#3488",
        "vllm-project/vllm#5093",
        "QwenLM/Qwen#401",
    ),
    rope_types=("dynamic",),
    requires=("factor", "context"),
)
def dynamic_base(entry: Subject, factor: float, context: int) -> Iterator[Match]:
    """Rope type dynamic with a factor above 1."""
    table = entry.table(sequence_length=int(min(context * factor, 2**53)))
    if factor <= 1 or entry.has("alpha") or table is None or table.base is None:
        return
    parted = sentence(f"At {shown(context)} positions", entry.partings(context))
    message = f"The base is {shown(entry.base or 10_000)} up to {shown(context)} positions and "
    message += f"{shown(table.base)} at {shown(context * factor)}; cached keys keep the base they "
    message += f"were rotated with.{parted}"
    yield Match(entry.type_key, message)


@PartRule(
    "R096",
    "note",
    "a long context by code that stacks do not have",
    why="use_dynamic_ntk and use_logn_attn are for the code that came with Qwen: one long "
    "sequence changes the base of its whole batch, and queries beyond the trained length grow "
    "with the logarithm of their position. vLLM removed the attention of "
    "dual_chunk_attention_config in 0.11, and its Qwen models no longer start with it. Other "
    "stacks leave frequencies unscaled.",
    hint="Stay within the trained length, and remove the key where the file is refused.",
    threads=("QwenLM/Qwen#401", "vllm-project/vllm#49296", "vllm-project/vllm#33470"),
    reads=True,
)
def one_stack(part: Subject) -> Iterator[Match]:
    """`use_dynamic_ntk: true`, `use_logn_attn: true` or a `dual_chunk_attention_config`."""
    known = ("use_dynamic_ntk", "use_logn_attn", DUAL_CHUNK)
    names = [name for name in known if part.config.get(name)]
    other = "Every stack refuses the file, with it and without it."
    other = other if part.text else "It is not for text."
    for name in names:
        yield Match(part.key(name), without_it(part.effects(**{name: ...})) or other)


@Rule(
    "R035",
    "error",
    "beta_fast below beta_slow",
    why="The ramp runs backwards: fast pairs are slowed by the whole factor, and slow pairs are "
    "unchanged. Transformers warns. Equal values, as in Kimi K2, are a ramp of one step.",
    hint="Swap them; the usual values are 32 and 1.",
    rope_types=("yarn",),
)
def beta_order(entry: Subject) -> Iterator[Match]:
    """YaRN whose `beta_fast` (32 by default) is below its `beta_slow` (1 by default)."""
    fast, slow = entry.numbers.get("beta_fast") or 32.0, entry.numbers.get("beta_slow") or 1.0
    if fast < slow:
        place = "beta_fast" if entry.has("beta_fast") else "beta_slow"
        message = f"beta_fast is {shown(fast)} and beta_slow {shown(slow)}: fast pairs are slowed "
        message += f"by the factor of {shown(entry.factor or 1.0)}, and slow ones are unchanged."
        yield Match(entry.key(place), message)


@Rule(
    "R050",
    "error",
    "low_freq_factor above high_freq_factor",
    why="The ramp between slowed and unchanged pairs runs backwards. Transformers only warns. "
    "Equal values, as in Llama 4 Scout, are a step.",
    hint="Swap them; Llama 3.1 has 1 and 4.",
    rope_types=("llama3",),
    requires=("low_freq_factor", "high_freq_factor"),
)
def frequency_order(entry: Subject, low: float, high: float) -> Iterator[Match]:
    """llama3 whose `low_freq_factor` is above its `high_freq_factor`."""
    if low > high:
        message = f"It is {shown(low)}, and high_freq_factor {shown(high)}."
        yield Match(entry.key("low_freq_factor"), message)


@Rule(
    "R051",
    "warning",
    "llama3 scaling that changes no pair",
    why="Every pair completes enough turns within the original length to stay unchanged. Often "
    "that length is the stretched one by mistake.",
    hint="Write the length before scaling as original_max_position_embeddings.",
    threads=("unslothai/unsloth#6197",),
    rope_types=("llama3",),
    requires=("factor",),
)
def idle(entry: Subject, factor: float) -> Iterator[Match]:
    """llama3 with a factor above 1 whose frequencies are those without scaling."""
    scaled, plain = entry.table(), entry.table(factor=1.0)
    if factor <= 1 or scaled is None or plain is None:
        return
    if np.array_equal(scaled.inv_freq, plain.inv_freq) and not any(
        entry.effects(factor=1.0).values()  # of another kind of layer
    ):
        message = f"All {len(plain.inv_freq)} pairs rotate as without it: even the slowest has "
        message += f"more than high_freq_factor turns within {shown(entry.original or 0)} "
        message += "positions."
        yield Match(entry.key("factor"), message)


@Rule(
    "R121",
    "warning",
    "dynamic NTK with a factor of 1",
    why="Past max_position_embeddings the base then grows in Transformers and mlx-lm, and not in "
    "vLLM. HunYuan's files have alpha, which enlarges their base; without it the base is that of "
    "short texts.",
    hint="Restore alpha, or write a factor above 1.",
    rope_types=("dynamic",),
    requires=("factor",),
)
def no_alpha(entry: Subject, factor: float) -> Iterator[Match]:
    """Rope type dynamic with a factor of 1 and without alpha."""
    if factor == 1 and not entry.has("alpha"):
        message = f"The base is {shown(entry.base or 10_000)} within max_position_embeddings: no "
        message += "alpha enlarges it."
        yield Match(entry.key("factor"), message)
