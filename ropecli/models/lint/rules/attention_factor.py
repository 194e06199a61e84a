"""Attention factor and mscale."""

from __future__ import annotations

from collections.abc import Iterator

from ropecli.models.lint.readings import ignoring, join_stacks, without_it
from ropecli.models.lint.rule import Match, Rule
from ropecli.models.lint.subjects import Subject
from ropecli.models.lint.values import shown
from ropecli.rotary.factors import mscale, softmax_factor


@Rule(
    "R028",
    "note",
    "an attention factor written as an integer",
    why="Transformers expects a float in yarn, and warns at every load.",
    hint="Write it with a decimal point: 1.0.",
    threads=("huggingface/transformers#48594",),
    rope_types=("yarn",),
    requires=("attention_factor",),
)
def attention_factor_kind(entry: Subject, given: float) -> Iterator[Match]:
    """An integer `attention_factor` in yarn."""
    written = entry.values["attention_factor"]
    if isinstance(written, int):
        key, warned = entry.key("attention_factor"), f"Transformers warns that {written!r:.40} is"
        yield Match(key, f"{warned} not a float.", fix={key: given})


@Rule(
    "R031",
    "note",
    "mscale and mscale_all_dim",
    why="The attention factor is the ratio of the two, 1 where they are equal; stacks that ignore "
    "them use 0.1 ln factor + 1. With multi-head latent attention, mscale_all_dim also "
    "multiplies the score, squared, which many ports leave out.",
    hint="Check the stack you run: at factor 40 and 1.0 the score is multiplied by 1.8739.",
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
    reads=True,
)
def mscale_pair(entry: Subject, factor: float, k: float, k_all_dim: float) -> Iterator[Match]:
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
    yield Match(entry.key("mscale"), message)


@Rule(
    "R032",
    "note",
    "mscale with attention_factor",
    why="In Transformers and vLLM attention_factor overrides the other two; mlx-lm uses them, and "
    "llama.cpp none in most architectures.",
    hint="Remove the keys that are not used.",
    threads=("vllm-project/vllm#46280",),
    rope_types=("yarn",),
    requires=("attention_factor",),
    reads=True,
)
def replaced_mscale(entry: Subject, factor: float) -> Iterator[Match]:
    """YaRN with `attention_factor` and one of `mscale`, `mscale_all_dim`."""
    given = [name for name in ("mscale", "mscale_all_dim") if entry.numbers.get(name)]
    if given:
        message = f"Transformers uses attention_factor, {shown(factor)}, and ignores "
        said = without_it(entry.effects(**dict.fromkeys(given, ...)))
        yield Match(entry.key(given[0]), f"{message}{' and '.join(given)}. {said}".strip())
