"""Attention factor and mscale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ropecli.models.lint.readings import FIRST, ignoring, join_stacks, without_it
from ropecli.models.lint.rule import Hit, Rule
from ropecli.models.lint.subjects import Subject
from ropecli.models.lint.values import shown
from ropecli.rotary.factors import mscale, softmax_factor


@Rule(
    "R027",
    "error",
    "an attention factor that is not above 0",
    why="It multiplies cos and sin: with 0 every score is 0. A negative one cancels in the score "
    "of a query and a key, but nowhere else.",
    cure="Remove it, so that it follows from the factor, or write a number above 0.",
    requires=("attention_factor",),
)
def attention_factor_range(entry: Subject, given: float) -> Iterator[Hit]:
    """An `attention_factor` of 0 or less."""
    if given <= 0:
        message = f"cos and sin are multiplied by {shown(given)}, and scores by its square."
        yield Hit(entry.key("attention_factor"), message)


@Rule(
    "R028",
    "note",
    "an attention factor written as an integer",
    why="The value is used, but Transformers warns at every load, since it expects a float in "
    "yarn.",
    cure="Write it with a decimal point: 1.0.",
    threads=("huggingface/transformers#48594",),
    rope_types=("yarn",),
    requires=("attention_factor",),
)
def attention_factor_kind(entry: Subject, given: float) -> Iterator[Hit]:
    """An integer `attention_factor` in yarn."""
    written = entry.values["attention_factor"]
    if isinstance(written, int):
        key, warned = entry.key("attention_factor"), f"Transformers warns that {written!r:.40} is"
        yield Hit(key, f"{warned} not a float.", fix={key: given})


@Rule(
    "R036",
    "note",
    "an attention factor that not every stack reads",
    why="Transformers uses it instead of the value that follows from the factor. Stacks that "
    "compute their own multiply cos and sin by 1.4159 at factor 64 where 1.0 is written, as "
    "in Laguna, and scores by 2.00.",
    cure="Check that the stack you run reads attention_factor.",
    threads=("vllm-project/vllm#46280", "ml-explore/mlx-lm#1507"),
    rope_types=("yarn", "longrope"),
    requires=("attention_factor",),
)
def attention_factor_elsewhere(entry: Subject, given: float) -> Iterator[Hit]:
    """An `attention_factor` in yarn or longrope that differs from the one of the factor."""
    if given <= 0:
        return
    without = {name: v for name, v in entry.values.items() if name != "attention_factor"}
    plain = replace(entry, values=without).table()
    texts = entry.effects(attention_factor=...)
    unread = ignoring(texts)
    if not unread or not texts.get(FIRST):
        return
    if plain is not None and abs(plain.attention_factor - given) > 1e-3 * given:
        message = f"{join_stacks(unread)} do not read it and use {shown(plain.attention_factor)} "
        message += f"instead of {shown(given)}: scores are "
        message += f"{shown((plain.attention_factor / given) ** 2)} times as large."
        yield Hit(entry.key("attention_factor"), message)


@Rule(
    "R030",
    "warning",
    "only one of mscale and mscale_all_dim",
    why="Some stacks read them as a pair, so that one alone has no effect, and others fill in the "
    "missing one: cos and sin are then multiplied by different factors.",
    cure="Set both, or attention_factor with the intended value.",
    threads=("vllm-project/vllm#48623", "NVIDIA/Megatron-LM#1429"),
    rope_types=("yarn",),
)
def lone_mscale(entry: Subject) -> Iterator[Hit]:
    """`mscale` without `mscale_all_dim`, or the other way round, where stacks part over it.

    0 counts as missing.
    """
    given = [name for name in ("mscale", "mscale_all_dim") if entry.numbers.get(name)]
    if len(given) != 1 or entry.has("attention_factor"):
        return
    effects = entry.effects(**dict.fromkeys(("mscale", "mscale_all_dim"), ...))
    if any(effects.values()) and not all(effects.values()):
        yield Hit(entry.key(given[0]), without_it(effects))


@Rule(
    "R031",
    "note",
    "mscale and mscale_all_dim",
    why="The attention factor is the ratio of the two, 1 where they are equal; stacks that ignore "
    "them use 0.1 ln factor + 1. In models with multi-head latent attention, mscale_all_dim "
    "also multiplies the score, squared. Many ports have left this out, since it does not show at "
    "position 0.",
    cure="Check the stack you run: at factor 40 and 1.0 the score is multiplied by 1.8739.",
    threads=(
        "vllm-project/vllm#48623",
        "huggingface/transformers#47435",
        "onnxruntime/mobius#548",
        "NVIDIA/Megatron-LM#1429",
        "ggml-org/llama.cpp#17945",
        "turboderp-org/exllamav3#259",
    ),
    rope_types=("yarn",),
    requires=("factor", "mscale", "mscale_all_dim"),
)
def mscale_pair(entry: Subject, factor: float, k: float, k_all_dim: float) -> Iterator[Hit]:
    """YaRN with both of them."""
    table = entry.table()
    if not k or not k_all_dim or entry.has("attention_factor") or factor <= 1 or table is None:
        return
    used, dropped = table.attention_factor, mscale(factor)
    message = f"The attention factor is {shown(used)}, and {shown(dropped)} without them."
    unread = ignoring(entry.effects(mscale=..., mscale_all_dim=...))
    if unread and used != dropped:
        message += f" {join_stacks(unread)} do not read them, which makes scores "
        message += f"{shown((dropped / used) ** 2)} times as large."
    if entry.architecture.facts.get("softmax"):
        score = softmax_factor(factor, k_all_dim)
        message += f" The score is also multiplied by {shown(score)}."
    yield Hit(entry.key("mscale"), message)


@Rule(
    "R032",
    "note",
    "mscale with attention_factor",
    why="In Transformers and vLLM attention_factor overrides mscale and mscale_all_dim; mlx-lm "
    "uses the other two, and llama.cpp none of them in most architectures.",
    cure="Remove the keys that are not used.",
    threads=("vllm-project/vllm#46280",),
    rope_types=("yarn",),
    requires=("attention_factor",),
)
def replaced_mscale(entry: Subject, factor: float) -> Iterator[Hit]:
    """YaRN with `attention_factor` and one of `mscale`, `mscale_all_dim`."""
    given = [name for name in ("mscale", "mscale_all_dim") if entry.numbers.get(name)]
    if given:
        message = f"Transformers uses attention_factor, {shown(factor)}, and ignores "
        said = without_it(entry.effects(**dict.fromkeys(given, ...)))
        yield Hit(entry.key(given[0]), f"{message}{' and '.join(given)}. {said}".strip())
