"""GGUF."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ropecli.models.gguf import converter
from ropecli.models.gguf.architectures import gguf_architecture
from ropecli.models.lint.rule import Hit, Rule
from ropecli.models.lint.subjects import GgufHeader
from ropecli.models.lint.values import number, numbers, shown, value_or_none
from ropecli.models.stacks.llama_cpp import LLAMA_CPP
from ropecli.rotary import Rotary
from ropecli.rotary.factors import longrope_factor

FACTOR = "rope.scaling.factor"
ORIGINAL_LENGTH = "rope.scaling.original_context_length"
_SECTIONS = "rope.dimension_sections"
#: Refused by llama.cpp unless the whole head is rotated.
_WHOLE = ("llama", "deci", "falcon", "llama-embed")
_FREQS = "rope_freqs.weight"
_LISTS = ("rope_factors_long.weight", "rope_factors_short.weight")
_NARROW = {1: "F16", 30: "BF16"}
_LLAMA3_LOW, _LLAMA3_HIGH, _LLAMA3_ORIGINAL = 1.0, 4.0, 8192  #: Of every model with the tensor.
_SAME_BASE = 0.01  #: Relative; divisors are float32.


@Rule(
    "R100",
    "warning",
    "a factor without a scaling type",
    why="llama.cpp assumes linear, which divides every frequency. The converter may have dropped "
    "yarn.",
    cure="Add rope.scaling.type.",
)
def no_type(header: GgufHeader) -> Iterator[Hit]:
    """A factor other than 1, under its name or its old one, and no `rope.scaling.type`."""
    factor = header.factor
    if header.rope_type is None and factor is not None and factor not in {0, 1}:
        name = FACTOR if header.get(FACTOR) is not None else "rope.scale_linear"
        yield Hit(
            header.key(name),
            f"llama.cpp assumes linear: every pair rotates {shown(factor)} times slower.",
        )


@Rule(
    "R101",
    "warning",
    "a scaling type without a factor",
    why="llama.cpp assumes 1: nothing is scaled.",
    cure="Add rope.scaling.factor.",
    rope_types=("linear", "yarn"),
)
def no_factor(header: GgufHeader) -> Iterator[Hit]:
    """Scaling type linear or yarn, and no factor, or a factor of 0."""
    if not header.factor:
        missing = "without it" if header.factor is None else "with 0, which counts as 1"
        yield Hit(header.key(FACTOR), f"Type {header.rope_type} has no effect {missing}.")


@Rule(
    "R102",
    "warning",
    "no freq_base",
    why="llama.cpp uses 10000 for every architecture; converters have dropped CodeLlama's 1000000 "
    "this way.",
    cure="Convert again, or pass the model's base to llama.cpp with --rope-freq-base.",
    threads=("ggml-org/llama.cpp#2768", "ggml-org/llama.cpp#3090", "LostRuins/koboldcpp#426"),
)
def no_base(header: GgufHeader) -> Iterator[Hit]:
    """A rotation that needs `rope.freq_base`, and no such key.

    Not in architectures such as gptneox, whose converter never writes one.
    """
    name = header.key("rope.freq_base")
    written = [facts.get("writes", ("base",)) for facts in _converter_facts(header)]
    if written and not any("base" in names for names in written):
        return
    if header.get("rope.freq_base") is None and any(
        name in sentence for settings in header.settings for sentence in settings.assumed
    ):
        yield Hit(name, "llama.cpp uses 10000; no key confirms it.")


def _converter_facts(header: GgufHeader) -> list[Mapping[str, Any]]:
    """Return what the converter writes, for each model_type that it gives the architecture."""
    return [facts for facts in converter.table().values() if facts["arch"] == header.architecture]


@Rule(
    "R123",
    "warning",
    "no dimension_count",
    why="In these architectures a part of each head rotates, and the converter always writes its "
    "size. Without it llama.cpp rotates the whole head.",
    cure="Convert again, or write rope.dimension_count: head dim times the share.",
)
def no_count(header: GgufHeader) -> Iterator[Hit]:
    """No `rope.dimension_count` in an architecture whose converter writes a share of the head."""
    facts = _converter_facts(header)
    shared = bool(facts) and all(each.get("count") in {"share", "rotary_pct"} for each in facts)
    if shared and header.get("rope.dimension_count") is None:
        head = f", {header.dim} coordinates" if header.dim else ""
        yield Hit(header.key("rope.dimension_count"), f"llama.cpp rotates the whole head{head}.")


@Rule(
    "R105",
    "warning",
    "an original length above the context",
    why="There is nothing to scale: one of the two lengths is wrong.",
    cure="Write the length before scaling as rope.scaling.original_context_length.",
    threads=("NVIDIA/Megatron-LM#1418",),
)
def original_beyond(header: GgufHeader) -> Iterator[Hit]:
    """`rope.scaling.original_context_length` above `context_length`."""
    original, context = header.original, header.context
    if original is not None and context is not None and original > context:
        yield Hit(
            header.key(ORIGINAL_LENGTH),
            f"It is {shown(original)}, and context_length is {shown(context)}.",
        )


@Rule(
    "R106",
    "note",
    "attn_factor multiplies the attention factor",
    why="In llama.cpp, rope.scaling.attn_factor multiplies the value that follows from yarn's "
    "factor; attention_factor in a config.json replaces it. A converter that copies the number "
    "changes the model.",
    cure="Compare with the config.json: it should be the attention factor, in yarn over "
    "0.1 ln factor + 1.",
    threads=("ggml-org/llama.cpp#17945", "deepseek-ai/DeepSeek-R1#684"),
)
def attn_factor(header: GgufHeader) -> Iterator[Hit]:
    """`rope.scaling.attn_factor` other than 1."""
    given = header.number("rope.scaling.attn_factor")
    if given is not None and given not in {0, 1}:
        rope = _rotary(header)
        used = given if rope is None else rope.attention_factor
        product = f", {shown(given)} times {shown(used / given)}" if used != given else ""
        yield Hit(
            header.key("rope.scaling.attn_factor"),
            f"cos and sin are multiplied by {shown(used)}{product}, and scores by "
            f"{shown(used**2)}.",
        )


def _rotary(header: GgufHeader) -> Rotary | None:
    """Return llama.cpp's rotation whose factor is farthest from 1; None if there is none."""
    rotating = [each for each in header.settings if each.rotates]
    found = value_or_none(lambda: [LLAMA_CPP.rotary(each, None) for each in rotating])
    return max(found or (), key=lambda rope: abs(rope.attention_factor - 1), default=None)


@Rule(
    "R108",
    "warning",
    "yarn without an original length",
    why="llama.cpp uses context_length instead, which is the stretched length: the ramp covers "
    "other pairs.",
    cure="Add rope.scaling.original_context_length.",
    threads=("ggml-org/llama.cpp#7118",),
    rope_types=("yarn",),
)
def no_original(header: GgufHeader) -> Iterator[Hit]:
    """Scaling type yarn and no `rope.scaling.original_context_length`."""
    if header.original is None and header.context is not None:
        yield Hit(
            header.key(ORIGINAL_LENGTH), f"llama.cpp uses context_length, {shown(header.context)}."
        )


@Rule(
    "R109",
    "warning",
    "a GGUF's context beyond the reach of its factor",
    why="Positions beyond factor times the original length have angles that the model was not "
    "trained on.",
    cure="Convert again from a config.json with correct lengths, or run with a smaller context.",
    threads=("huggingface/transformers#38224",),
    rope_types=("yarn",),
)
def beyond(header: GgufHeader) -> Iterator[Hit]:
    """yarn whose `context_length` is above factor times the original length."""
    factor, original, context = header.factor, header.original, header.context
    if not factor or original is None or context is None:
        return
    if context > 1.01 * factor * original:
        yield Hit(
            header.key(FACTOR),
            f"The factor is {shown(factor)} but {shown(context)} / {shown(original)} is "
            f"{shown(context / original)}.",
        )


@Rule(
    "R103",
    "warning",
    "an architecture with an unknown layout",
    why="No key of a GGUF gives the layout: stacks switch on general.architecture, and a wrong "
    "case gives fluent nonsense. Plamo was wrong for more than a year, and one wrong insertion "
    "raised the perplexity of 39 architectures, from 4.26 to 252.8.",
    cure="Compare with the model's code; half is assumed.",
    threads=("ggml-org/llama.cpp#13260", "ikawrakow/ik_llama.cpp#2290"),
)
def unknown_layout(header: GgufHeader) -> Iterator[Hit]:
    """A `general.architecture` that llama.cpp does not have."""
    sections = tuple(int(n) for n in numbers(header.get(_SECTIONS)) or ())
    if gguf_architecture(header.architecture, sections).mode is None:
        yield Hit(
            "general.architecture",
            f"llama.cpp has no {header.architecture!r:.60}; pairs (i, i + d/2) are assumed.",
        )


@Rule(
    "R104",
    "error",
    "dimension_count is not the head dim",
    why="llama.cpp refuses the file: in these architectures the whole head is rotated.",
    cure="Set rope.dimension_count to attention.key_length, or embedding_length over "
    "attention.head_count.",
)
def other_size(header: GgufHeader) -> Iterator[Hit]:
    """`rope.dimension_count` other than the head dim, in llama, llama-embed, deci and falcon."""
    count, head = header.integer("rope.dimension_count"), header.integer("attention.key_length")
    width, heads = header.integer("embedding_length"), header.integer("attention.head_count")
    if head is None and width and heads:
        head = width // heads
    if header.architecture in _WHOLE and count is not None and head and count != head:
        yield Hit(
            header.key("rope.dimension_count"),
            f"It is {shown(count)}, and the head dim is {shown(head)}.",
        )


@Rule(
    "R107",
    "warning",
    "dimension_sections that do not add up",
    why="ggml repeats the sections where they end, and cuts them behind the last pair, so that "
    "slow pairs rotate with other axes than the model's.",
    cure="Make the sections add up to half of rope.dimension_count: they count pairs.",
)
def sections_sum(header: GgufHeader) -> Iterator[Hit]:
    """`rope.dimension_sections` whose sum is not the number of pairs."""
    sections, dim = numbers(header.get(_SECTIONS)), header.dim
    if sections and dim is not None and sum(sections) != dim // 2:
        total = " + ".join(map(shown, sections))
        yield Hit(
            header.key(_SECTIONS),
            f"{total} = {shown(sum(sections))}, and there are {dim // 2} pairs.",
        )


@Rule(
    "R111",
    "note",
    "the old name of a linear factor",
    why="rope.scale_linear was replaced by rope.scaling.type and rope.scaling.factor. llama.cpp "
    "still reads it where there is no such factor; other readers need not know it.",
    cure="Convert again.",
)
def old_factor(header: GgufHeader) -> Iterator[Hit]:
    """`rope.scale_linear`."""
    given = header.number("rope.scale_linear")
    if given is not None:
        yield Hit(header.key("rope.scale_linear"), f"Its value is {shown(given)}.")


@Rule(
    "R115",
    "warning",
    "a freq_base that is small for the context",
    why="The slowest pair completes a turn within the context, so that distances repeat in every "
    "pair.",
    cure="Check rope.freq_base against the model's config.json.",
    threads=("ggml-org/llama.cpp#2768",),
)
def small_base(header: GgufHeader) -> Iterator[Hit]:
    """An unscaled rotation of all blocks, and a `context_length` above its slowest wavelength."""
    context = header.context
    if len(header.settings) != 1 or context is None or header.get("attention.sliding_window"):
        return
    settings, dim = header.settings[0], header.dim
    base = value_or_none(lambda: float(settings.scaling["rope_theta"]))
    if settings.rope_type != "default" or base is None or dim is None or dim < 4 or base <= 1:
        return
    slowest = 2 * math.pi * base ** ((dim - 2) / dim)
    if context > slowest:
        yield Hit(
            header.key("rope.freq_base"),
            f"With base {shown(base)} the slowest of {dim // 2} pairs completes a turn after "
            f"{slowest:,.0f} positions, and the context is {shown(context)}.",
        )


@Rule(
    "R110",
    "warning",
    "a Llama 3.1 without its scaling",
    why="In a GGUF, Llama 3.1's scaling is a tensor, rope_freqs.weight. Files that were converted "
    "before it existed lack it, and their output degrades after some thousand positions.",
    cure="Convert again.",
    threads=("ggml-org/llama.cpp#8650", "ggml-org/llama.cpp#8676", "unslothai/unsloth#6197"),
)
def no_divisors(header: GgufHeader) -> Iterator[Hit]:
    """Architecture llama with base 500000, a context of 131,072, no scaling and no such tensor."""
    plain = header.factor in {None, 0, 1} and _FREQS not in header.file.tensors
    usual = header.architecture == "llama" and header.number("rope.freq_base") == 500_000
    if usual and plain and header.context is not None and header.context >= 131_072:
        yield Hit(
            header.key("rope.freq_base"),
            f"{shown(header.context)} positions at base 500,000 without rope_freqs.weight: the "
            "slowest pairs rotate 8 times as fast as in Llama 3.1.",
        )


@Rule(
    "R124",
    "warning",
    "a Gemma 3 without its scaling",
    why="Gemma 3 of 4B, 12B and 27B has a linear factor of 8 in its full-attention blocks. Without "
    "it they rotate 8 times too fast.",
    cure="Convert again, from a config.json with its rope_scaling.",
)
def no_linear(header: GgufHeader) -> Iterator[Hit]:
    """Architecture gemma3 with a context of 131,072 and no factor."""
    plain = header.factor in {None, 0, 1}
    if header.architecture == "gemma3" and plain and (header.context or 0) >= 131_072:
        yield Hit(
            header.key(FACTOR), f"{shown(header.context or 0)} positions without the factor of 8."
        )


@Rule(
    "R125",
    "warning",
    "divisors below 1",
    why="rope_freqs divides frequencies. Below 1 pairs rotate faster than without it, beyond the "
    "angles of training: the tensor holds reciprocals.",
    cure="Convert again: the tensor holds divisors, 8 for a pair that is slowed 8 times.",
)
def reciprocal(header: GgufHeader) -> Iterator[Hit]:
    """A `rope_freqs.weight` with a value above 0 and below 1."""
    divisors = _divisors(header)
    below = [value for value in divisors if 0 < value < 1]
    if below:
        fastest = shown(1 / min(below))
        said = f"{len(below)} of {len(divisors)} pairs rotate faster, up to {fastest} times."
        yield Hit(_FREQS, said)


@Rule(
    "R126",
    "warning",
    "divisors of another base",
    why="Which pairs Llama 3's scaling slows follows from the base. Divisors of one base with the "
    "frequencies of another slow other pairs than the model's.",
    cure="Write the base that the divisors are of as rope.freq_base.",
)
def other_base(header: GgufHeader) -> Iterator[Hit]:
    """A `rope_freqs.weight` that Llama 3's formula gives for another base than the file's."""
    bases = [number(each.scaling.get("rope_theta")) for each in header.settings]
    base = bases[0] if bases else None
    meant = _base_of(_divisors(header), header.dim or 0)
    if meant is not None and base is not None and abs(base / meant - 1) > _SAME_BASE:
        yield Hit(
            header.key("rope.freq_base"),
            f"The divisors are those of base {float(f'{meant:.3g}'):,.0f}, and the base is "
            f"{shown(base)}.",
        )


def _divisors(header: GgufHeader) -> list[float]:
    """Return the elements of rope_freqs.weight; none where they can't be read."""
    if _FREQS not in header.file.tensors:
        return []
    return value_or_none(lambda: [float(each) for each in header.file.tensor(_FREQS)]) or []


def _base_of(divisors: list[float], dim: int) -> float | None:
    """Return the base whose Llama 3 divisors these are; each pair on the ramp gives one."""
    factor = max(divisors, default=0.0)
    if factor <= 1 or min(divisors) < 1 or not math.isfinite(factor):
        return None
    found: list[float] = []
    for i, divisor in enumerate(divisors):
        if i > 0 and 1 < divisor < factor:
            # A mean of 1 and 1 / factor, by the turns within 8,192 positions.
            share = (1 / divisor - 1 / factor) / (1 - 1 / factor)
            wavelength = _LLAMA3_ORIGINAL / (share * (_LLAMA3_HIGH - _LLAMA3_LOW) + _LLAMA3_LOW)
            found.append((wavelength / (2 * math.pi)) ** (dim / (2 * i)))
    if len(found) < 2 or max(found) > (1 + _SAME_BASE) * min(found):
        return None
    return sum(found) / len(found)


@Rule(
    "R127",
    "warning",
    "longrope without its attention factor",
    why="llama.cpp computes no attention factor for LongRoPE: it is rope.scaling.attn_factor, "
    "which the converter writes for Phi-3, and 1 without it.",
    cure="Convert again, or write sqrt(1 + ln s / ln original), where s is the context over the "
    "original length.",
)
def no_attention_factor(header: GgufHeader) -> Iterator[Hit]:
    """Architecture phi3 or phimoe with LongRoPE's tensors, and no `rope.scaling.attn_factor`."""
    original, context = header.original, header.context
    has = header.architecture in ("phi3", "phimoe") and _LISTS[0] in header.file.tensors
    if not has or header.number("rope.scaling.attn_factor") or not original or original < 2:
        return
    if context is not None and context > original:
        factor = longrope_factor(context / original, original)
        yield Hit(
            header.key("rope.scaling.attn_factor"),
            f"cos and sin are multiplied by 1 instead of {shown(factor)}, and scores by 1 instead "
            f"of {shown(factor**2)}.",
        )


@Rule(
    "R128",
    "warning",
    "rope_factors_short above rope_factors_long",
    why="llama.cpp takes the long list for a context above the original length. Exchanged, short "
    "contexts are computed with the factors of long ones.",
    cure="Exchange the two tensors.",
)
def exchanged(header: GgufHeader) -> Iterator[Hit]:
    """LongRoPE's tensors whose short one is above the long one in most pairs."""
    if any(name not in header.file.tensors for name in _LISTS):
        return
    lists = value_or_none(lambda: [header.file.tensor(name).tolist() for name in _LISTS])
    if not lists or len(lists[0]) != len(lists[1]):
        return
    above = sum(short > long for long, short in zip(*lists, strict=True))
    if 2 * above > len(lists[0]):
        yield Hit(_LISTS[1], f"It is larger in {above} of {len(lists[0])} pairs.")


@Rule(
    "R112",
    "warning",
    "divisors in 16 bits",
    why="rope_freqs and rope_factors divide frequencies. In bfloat16 they are off by up to 0.2 %, "
    "in float16 by 0.02 %, and so is every angle. ggml takes them as F32 only: llama.cpp aborts.",
    cure="Write these tensors as F32, as converters do.",
    threads=("Modalities/modalities#462",),
)
def narrow_divisors(header: GgufHeader) -> Iterator[Hit]:
    """A tensor `rope_freqs.weight` or `rope_factors_*.weight` of type F16 or BF16."""
    for name, info in header.file.tensors.items():
        if name.startswith(("rope_freqs", "rope_factors")) and info.type in _NARROW:
            kind, error = _NARROW[info.type], 2**-9 if info.type == 30 else 2**-12
            reach = f" and angles at position {shown(header.context)}" if header.context else ""
            yield Hit(name, f"{kind} is off by up to {error:.2%} of a frequency{reach}.")


@Rule(
    "R113",
    "warning",
    "longrope without its tensors",
    why="In a GGUF, LongRoPE's lists are tensors. llama.cpp takes the long one for a context above "
    "the original length, else the short one; where that is missing, no frequency is scaled.",
    cure="Convert again, from a config.json with both lists.",
    threads=("ggml-org/llama.cpp#8995",),
    rope_types=("longrope",),
)
def no_lists(header: GgufHeader) -> Iterator[Hit]:
    """Scaling type longrope and neither `rope_factors_long.weight` nor the short one."""
    missing = [name for name in _LISTS if name not in header.file.tensors]
    if missing:
        yield Hit(header.key("rope.scaling.type"), f"The file has no {' and no '.join(missing)}.")


@Rule(
    "R114",
    "warning",
    "DeepSeek without yarn_log_multiplier",
    why="It stands for mscale_all_dim. Without it llama.cpp multiplies cos and sin by "
    "0.1 ln factor + 1, where DeepSeek-V2 and V3 have 1, and the score by its square, as in V3; "
    "V2 has 1.5896 instead of 1.8739.",
    cure="Convert again, with rope.scaling.yarn_log_multiplier as 0.1 times mscale_all_dim.",
    threads=("ggml-org/llama.cpp#17945", "ggml-org/llama.cpp#18006"),
    rope_types=("yarn",),
)
def no_log_multiplier(header: GgufHeader) -> Iterator[Hit]:
    """Architecture deepseek2 with yarn, and no `rope.scaling.yarn_log_multiplier`."""
    name = "rope.scaling.yarn_log_multiplier"
    if header.architecture == "deepseek2" and header.get(name) is None:
        rope = _rotary(header)
        if rope is not None:
            yield Hit(
                header.key(name),
                f"cos and sin are multiplied by {shown(rope.attention_factor)}, and the whole "
                f"score by {shown(rope.softmax_factor)}.",
            )
