"""GGUF."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ropecli.models.gguf import converter
from ropecli.models.gguf.architectures import facts_of, mode_of
from ropecli.models.lint.rule import GgufRule, Match
from ropecli.models.lint.rules.base import sees_context, slowest
from ropecli.models.lint.subjects import Subject
from ropecli.models.lint.values import number, numbers, shown, value_or_none, whole
from ropecli.models.stacks.llama_cpp import LLAMA_CPP
from ropecli.rotary import Rotary
from ropecli.rotary.factors import longrope_factor
from ropecli.rotary.frequencies import plain

FACTOR = "rope.scaling.factor"
ORIGINAL_LENGTH = "rope.scaling.original_context_length"
_SECTIONS = "rope.dimension_sections"
#: Refused by llama.cpp unless the whole head is rotated.
_WHOLE = ("llama", "deci", "falcon", "llama-embed")
_SIZES = (
    "rope.dimension_count",
    "attention.key_length",
    "embedding_length",
    "attention.head_count",
)
_FREQS = "rope_freqs.weight"
_LISTS = ("rope_factors_long.weight", "rope_factors_short.weight")
_PHI3 = ("phi3", "phimoe")  #: Long ones have LongRoPE's tensors, and no scaling type.
_EXT_FACTOR = "rope.scaling.yarn_ext_factor"
_NARROW = {1: ("F16", 2**-12), 30: ("BF16", 2**-9)}  #: Types, and what they may be off by.
_LLAMA3_LOW, _LLAMA3_HIGH, _LLAMA3_ORIGINAL = 1.0, 4.0, 8192  #: Of every model with the tensor.
_SAME_BASE = 0.01  #: Relative; divisors are float32.


@GgufRule(
    "R100",
    "warning",
    "a factor without a scaling type",
    why="llama.cpp assumes linear, which divides every frequency. The converter may have dropped "
    "yarn.",
    hint="Add rope.scaling.type.",
    requires=("factor",),
)
def no_type(header: Subject, factor: float) -> Iterator[Match]:
    """A factor other than 1, under its name or its old one, and no `rope.scaling.type`."""
    if header.rope_type is None and factor not in {0, 1}:
        name = FACTOR if header.values.get(FACTOR) is not None else "rope.scale_linear"
        message = f"llama.cpp assumes linear: every pair rotates {shown(factor)} times slower."
        yield Match(header.key(name), message)


@GgufRule(
    "R101",
    "warning",
    "a scaling type without a factor",
    why="llama.cpp assumes 1, which is no scaling.",
    hint="Add rope.scaling.factor.",
    rope_types=("linear", "yarn"),
)
def no_factor(header: Subject) -> Iterator[Match]:
    """Scaling type linear or yarn, and no factor, or a factor of 0."""
    if not header.factor:
        missing = "without it" if header.factor is None else "with 0, which counts as 1"
        yield Match(header.key(FACTOR), f"Type {header.rope_type} has no effect {missing}.")


@GgufRule(
    "R102",
    "warning",
    "no freq_base",
    why="llama.cpp uses 10000 for every architecture, as happened to CodeLlama's 1000000.",
    hint="Convert again, or pass the model's base to llama.cpp with --rope-freq-base.",
    threads=("ggml-org/llama.cpp#2768", "ggml-org/llama.cpp#3090", "LostRuins/koboldcpp#426"),
)
def no_base(header: Subject) -> Iterator[Match]:
    """No `rope.freq_base` where the rotation needs it.

    Not in architectures such as gptneox, whose converter never writes one.
    """
    name = header.key("rope.freq_base")
    written = [facts.get("writes", ("base",)) for facts in _converter_facts(header)]
    if written and not any("base" in names for names in written):
        return
    if header.values.get("rope.freq_base") is None and any(
        name in sentence for settings in header.layers for sentence in settings.assumed
    ):
        yield Match(name, "llama.cpp uses 10000; no key confirms it.")


def _converter_facts(header: Subject) -> list[Mapping[str, Any]]:
    """Return what the converter writes, for each model_type that it gives the architecture."""
    return [facts for facts in converter.table().values() if facts["arch"] == header.path]


@GgufRule(
    "R123",
    "warning",
    "no dimension_count",
    why="Without the size of the part that rotates, llama.cpp rotates the whole head.",
    hint="Convert again, or write rope.dimension_count: head dim times the share.",
)
def no_count(header: Subject) -> Iterator[Match]:
    """No `rope.dimension_count` in an architecture whose converter writes a share of the head."""
    facts = _converter_facts(header)
    shared = bool(facts) and all(fact.get("count") in {"share", "rotary_pct"} for fact in facts)
    if shared and header.values.get("rope.dimension_count") is None:
        head = f", {header.dim} coordinates" if header.dim else ""
        yield Match(header.key("rope.dimension_count"), f"llama.cpp rotates the whole head{head}.")


@GgufRule(
    "R105",
    "warning",
    "an original length above the context",
    why="There is nothing to scale: one of the two lengths is wrong.",
    hint="Write the length before scaling as rope.scaling.original_context_length.",
    requires=("original", "context"),
    threads=("NVIDIA/Megatron-LM#1418",),
)
def original_beyond(header: Subject, original: int, context: int) -> Iterator[Match]:
    """`rope.scaling.original_context_length` above `context_length`."""
    if original > context:
        message = f"It is {shown(original)}, and context_length is {shown(context)}."
        yield Match(header.key(ORIGINAL_LENGTH), message)


@GgufRule(
    "R106",
    "note",
    "attn_factor multiplies the attention factor",
    why="In llama.cpp it multiplies the value that follows from yarn's factor; attention_factor "
    "in a config.json replaces it. A converter that copies the number changes the model.",
    hint="Compare with the config.json: it should be the attention factor, in yarn over "
    "0.1 ln factor + 1.",
    requires=("rope.scaling.attn_factor",),
    threads=("ggml-org/llama.cpp#17945", "deepseek-ai/DeepSeek-R1#684"),
)
def attn_factor(header: Subject, given: float) -> Iterator[Match]:
    """`rope.scaling.attn_factor` other than 1."""
    if given not in {0, 1}:
        rope = _rotary(header)
        used = given if rope is None else rope.attention_factor
        product = f", {shown(given)} times {shown(used / given)}" if used != given else ""
        message = f"cos and sin are multiplied by {shown(used)}{product}, and scores by "
        message += f"{shown(used**2)}."
        yield Match(header.key("rope.scaling.attn_factor"), message)


def _rotary(header: Subject) -> Rotary | None:
    """Return llama.cpp's rotation whose factor is farthest from 1; None if there is none."""
    rotating = [layer for layer in header.layers if layer.rotates]
    found = value_or_none(lambda: [LLAMA_CPP.rotary(settings, None) for settings in rotating])
    return max(found or (), key=lambda rope: abs(rope.attention_factor - 1), default=None)


@GgufRule(
    "R108",
    "warning",
    "yarn without an original length",
    why="llama.cpp uses context_length, the stretched one: the ramp covers other pairs.",
    hint="Add rope.scaling.original_context_length.",
    requires=("context",),
    threads=("ggml-org/llama.cpp#7118",),
    rope_types=("yarn",),
)
def no_original(header: Subject, context: int) -> Iterator[Match]:
    """Scaling type yarn and no `rope.scaling.original_context_length`."""
    if header.original is None:
        yield Match(
            header.key(ORIGINAL_LENGTH), f"llama.cpp uses context_length, {shown(context)}."
        )


@GgufRule(
    "R109",
    "warning",
    "a GGUF's context beyond the reach of its factor",
    why="Positions beyond it have angles that the model was not trained on.",
    hint="Convert again from a config.json with correct lengths, or run with a smaller context.",
    requires=("factor", "original", "context"),
    threads=("huggingface/transformers#38224",),
    rope_types=("yarn",),
)
def beyond(header: Subject, factor: float, original: int, context: int) -> Iterator[Match]:
    """yarn whose `context_length` is above factor times the original length."""
    if factor and context > 1.01 * factor * original:
        message = f"The factor is {shown(factor)} but {shown(context)} / {shown(original)} is "
        message += f"{shown(context / original)}."
        yield Match(header.key(FACTOR), message)


@GgufRule(
    "R103",
    "warning",
    "an architecture with an unknown layout",
    why="No key of a GGUF gives the layout, and a wrong one gives fluent nonsense. Plamo was "
    "wrong for more than a year, and one wrong insertion raised the perplexity of 39 "
    "architectures, from 4.26 to 252.8.",
    hint="Compare with the model's code; half is assumed.",
    threads=("ggml-org/llama.cpp#13260", "ikawrakow/ik_llama.cpp#2290"),
)
def unknown_layout(header: Subject) -> Iterator[Match]:
    """A `general.architecture` that llama.cpp does not have."""
    sections = tuple(int(n) for n in numbers(header.values.get(_SECTIONS)) or ())
    if mode_of(header.path, sections) is None:
        message = f"llama.cpp has no {header.path!r:.60}; pairs (i, i + d/2) are assumed."
        yield Match("general.architecture", message)


@GgufRule(
    "R104",
    "error",
    "dimension_count is not the head dim",
    why="llama.cpp refuses the file: these architectures rotate the whole head.",
    hint="Set rope.dimension_count to attention.key_length, or embedding_length over "
    "attention.head_count.",
)
def other_size(header: Subject) -> Iterator[Match]:
    """`rope.dimension_count` other than the head dim, in llama, llama-embed, deci and falcon."""
    count, head, width, heads = (whole(header.values.get(name)) for name in _SIZES)
    if head is None and width and heads:
        head = width // heads
    if header.path in _WHOLE and count is not None and head and count != head:
        message = f"It is {shown(count)}, and the head dim is {shown(head)}."
        yield Match(header.key("rope.dimension_count"), message)


@GgufRule(
    "R107",
    "warning",
    "dimension_sections that do not add up",
    why="ggml repeats the sections where they end, and cuts them behind the last pair: slow pairs "
    "rotate with other axes than the model's.",
    hint="Make the sections add up to half of rope.dimension_count: they count pairs.",
    requires=("dim",),
)
def sections_sum(header: Subject, dim: int) -> Iterator[Match]:
    """`rope.dimension_sections` whose sum is not the number of pairs."""
    sections = numbers(header.values.get(_SECTIONS))
    if sections and sum(sections) != dim // 2:
        total = " + ".join(map(shown, sections))
        message = f"{total} = {shown(sum(sections))}, and there are {dim // 2} pairs."
        yield Match(header.key(_SECTIONS), message)


@GgufRule(
    "R111",
    "note",
    "the old name of a linear factor",
    why="rope.scaling.type and rope.scaling.factor replaced it. llama.cpp still reads it where "
    "there is no such factor; other readers need not.",
    hint="Convert again.",
    requires=("rope.scale_linear",),
)
def old_factor(header: Subject, given: float) -> Iterator[Match]:
    """`rope.scale_linear`."""
    yield Match(header.key("rope.scale_linear"), f"Its value is {shown(given)}.")


@GgufRule(
    "R115",
    "warning",
    "a freq_base that is small for the context",
    why="The slowest pair completes a turn within the context, so that distances repeat in every "
    "pair.",
    hint="Check rope.freq_base against the model's config.json.",
    requires=("base", "dim", "context"),
    threads=("ggml-org/llama.cpp#2768",),
)
def small_base(header: Subject, base: float, dim: int, context: int) -> Iterator[Match]:
    """An unscaled rotation of all blocks, and a `context_length` above its slowest wavelength."""
    if not sees_context(header) or dim < 4 or base <= 1 or _missing_lists(header):
        return
    turn = slowest(base, dim)
    if header.layers[0].rope_type == "default" and context > turn:
        message = f"With base {shown(base)} the slowest of {dim // 2} pairs completes a turn after "
        message += f"{turn:,.0f} positions, and the context is {shown(context)}."
        yield Match(header.key("rope.freq_base"), message)


@GgufRule(
    "R134",
    "warning",
    "a yarn_ext_factor above 1",
    why="It is the weight of YaRN's unscaled frequencies, from 0 to 1, which llama.cpp doesn't "
    "check: above 1, fast pairs rotate faster than without scaling. Few architectures read "
    "it, such as Grok's.",
    hint="Write 1, or remove the key: type yarn has 1 without it.",
    requires=(_EXT_FACTOR,),
)
def ext_factor(header: Subject, given: float) -> Iterator[Match]:
    """`rope.scaling.yarn_ext_factor` above 1; below 0 it counts as missing."""
    if given <= 1:
        return
    message = f"It is {shown(given)}, and llama.cpp does not read it in {header.path}."
    rope = _rotary(header)
    if "ext_factor" in facts_of(header.path).get("yarn", ()) and rope is not None:
        times = max(rope.inv_freq / plain(header.base or 10_000.0, rope.rotary_dim))
        message = f"With {shown(given)} a pair rotates {shown(times)} times as fast as unscaled."
    yield Match(header.key(_EXT_FACTOR), message)


@GgufRule(
    "R110",
    "warning",
    "a Llama 3.1 without its scaling",
    why="In a GGUF, Llama 3.1's scaling is a tensor, rope_freqs.weight. Without it, as in older "
    "files, output degrades after some thousand positions.",
    hint="Convert again.",
    requires=("context",),
    threads=("ggml-org/llama.cpp#8650", "ggml-org/llama.cpp#8676", "unslothai/unsloth#6197"),
)
def no_divisors(header: Subject, context: int) -> Iterator[Match]:
    """Architecture llama with base 500000, a context of 131,072, no scaling and no such tensor."""
    plain = header.factor in {None, 0, 1} and _FREQS not in header.tensors
    usual = header.path == "llama" and header.numbers.get("rope.freq_base") == 500_000
    if usual and plain and context >= 131_072:
        message = f"{shown(context)} positions at base 500,000 without rope_freqs.weight: the "
        message += "slowest pairs rotate 8 times as fast as in Llama 3.1."
        yield Match(header.key("rope.freq_base"), message)


@GgufRule(
    "R124",
    "warning",
    "a Gemma 3 without its scaling",
    why="Gemma 3 of 4B, 12B and 27B has a linear factor of 8 in its full-attention blocks. "
    "Without it they rotate 8 times too fast.",
    hint="Convert again, from a config.json with its rope_scaling.",
    requires=("context",),
)
def no_linear(header: Subject, context: int) -> Iterator[Match]:
    """Architecture gemma3 with a context of 131,072 and no factor."""
    if header.path == "gemma3" and header.factor in {None, 0, 1} and context >= 131_072:
        yield Match(header.key(FACTOR), f"{shown(context)} positions without the factor of 8.")


@GgufRule(
    "R125",
    "warning",
    "divisors below 1",
    why="It divides frequencies: below 1 pairs rotate beyond the angles of training. The tensor "
    "holds reciprocals.",
    hint="Convert again: the tensor holds divisors, 8 for a pair that is slowed 8 times.",
)
def reciprocal(header: Subject) -> Iterator[Match]:
    """A `rope_freqs.weight` with a value above 0 and below 1."""
    divisors = header.tensor(_FREQS)
    below = [value for value in divisors if 0 < value < 1]
    if below:
        fastest = shown(1 / min(below))
        said = f"{len(below)} of {len(divisors)} pairs rotate faster, up to {fastest} times."
        yield Match(_FREQS, said)


@GgufRule(
    "R126",
    "warning",
    "divisors of another base",
    why="The base decides which pairs Llama 3's scaling slows: these divisors slow other pairs "
    "than the model's.",
    hint="Write the base that the divisors are of as rope.freq_base.",
)
def other_base(header: Subject) -> Iterator[Match]:
    """A `rope_freqs.weight` that Llama 3's formula gives for another base than the file's."""
    bases = [b for layer in header.layers if (b := number(layer.scaling.get("rope_theta")))]
    meant = _base_of(header.tensor(_FREQS), header.dim or 0)
    if meant and bases and all(abs(base / meant - 1) > _SAME_BASE for base in bases):
        message = f"The divisors are those of base {float(f'{meant:.3g}'):,.0f}, and the base is "
        message += f"{shown(bases[0])}."
        yield Match(header.key("rope.freq_base"), message)


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


@GgufRule(
    "R127",
    "warning",
    "longrope without its attention factor",
    why="llama.cpp computes none for LongRoPE: it is rope.scaling.attn_factor, which the "
    "converter writes for Phi-3, and 1 without it.",
    hint="Convert again, or write sqrt(1 + ln s / ln original), where s is the context over the "
    "original length.",
    requires=("original", "context"),
)
def no_attention_factor(header: Subject, original: int, context: int) -> Iterator[Match]:
    """Architecture phi3 or phimoe with LongRoPE's tensors, and no `rope.scaling.attn_factor`."""
    has = header.path in _PHI3 and _LISTS[0] in header.tensors
    if not has or header.numbers.get("rope.scaling.attn_factor"):
        return
    if context > original >= 2:
        factor = longrope_factor(context / original, original)
        message = f"cos and sin are multiplied by 1 instead of {shown(factor)}, and scores by 1 "
        message += f"instead of {shown(factor**2)}."
        yield Match(header.key("rope.scaling.attn_factor"), message)


@GgufRule(
    "R128",
    "warning",
    "rope_factors_short above rope_factors_long",
    why="llama.cpp takes the long list for a context above the original length. Exchanged, short "
    "contexts get the factors of long ones.",
    hint="Exchange the two tensors.",
)
def exchanged(header: Subject) -> Iterator[Match]:
    """LongRoPE's tensors whose short one is above the long one in most pairs."""
    long, short = map(header.tensor, _LISTS)
    above = sum(a > b for a, b in zip(short, long, strict=True)) if len(short) == len(long) else 0
    if 2 * above > len(long):
        yield Match(_LISTS[1], f"It is larger in {above} of {len(long)} pairs.")


@GgufRule(
    "R112",
    "warning",
    "divisors in 16 bits",
    why="They divide frequencies. In bfloat16 they are off by up to 0.2 %, in float16 by 0.02 %, "
    "and so is every angle. ggml takes them as F32 only: llama.cpp aborts.",
    hint="Write these tensors as F32, as converters do.",
    threads=("Modalities/modalities#462",),
)
def narrow_divisors(header: Subject) -> Iterator[Match]:
    """A tensor `rope_freqs.weight` or `rope_factors_*.weight` of type F16 or BF16."""
    for name, info in header.tensors.items():
        if name.startswith(("rope_freqs", "rope_factors")) and info.type in _NARROW:
            kind, error = _NARROW[info.type]
            reach = f" and angles at position {shown(header.context)}" if header.context else ""
            yield Match(name, f"{kind} is off by up to {error:.2%} of a frequency{reach}.")


@GgufRule(
    "R113",
    "warning",
    "longrope without its tensors",
    why="In a GGUF, LongRoPE's lists are tensors: the long one for a context above the original "
    "length, else the short one. Where that is missing, llama.cpp scales no frequency.",
    hint="Convert again, from a config.json with both lists.",
    threads=("ggml-org/llama.cpp#8995",),
)
def no_lists(header: Subject) -> Iterator[Match]:
    """No `rope_factors_long.weight` or no short one, with scaling type longrope.

    Or in architecture phi3 or phimoe without a scaling type, with a context above the original
    length or the slowest wavelength.
    """
    missing = _missing_lists(header)
    if missing:
        key = header.key("rope.scaling.type") if header.rope_type else missing[0]
        yield Match(key, f"The file has no {' and no '.join(missing)}.")


def _missing_lists(header: Subject) -> list[str]:
    """Return the tensors of LongRoPE that a file needs and does not have."""
    context, base, dim = header.context or 0, header.base, header.dim
    long = header.rope_type == "longrope"
    if header.path in _PHI3 and header.rope_type is None and base and dim:
        long = context > (header.original or slowest(base, dim))
    return [name for name in _LISTS if long and name not in header.tensors]


@GgufRule(
    "R114",
    "warning",
    "DeepSeek without yarn_log_multiplier",
    why="It is mscale_all_dim. Without it llama.cpp multiplies cos and sin by 0.1 ln factor + 1, "
    "where DeepSeek-V2 and V3 have 1, and the score by its square, as in V3; V2 has 1.5896 "
    "instead of 1.8739.",
    hint="Convert again, with rope.scaling.yarn_log_multiplier as 0.1 times mscale_all_dim.",
    threads=("ggml-org/llama.cpp#17945", "ggml-org/llama.cpp#18006"),
    rope_types=("yarn",),
)
def no_log_multiplier(header: Subject) -> Iterator[Match]:
    """Architecture deepseek2 with yarn, and no `rope.scaling.yarn_log_multiplier`."""
    name = "rope.scaling.yarn_log_multiplier"
    if header.path == "deepseek2" and header.values.get(name) is None:
        rope = _rotary(header)
        if rope is not None:
            message = f"cos and sin are multiplied by {shown(rope.attention_factor)}, and the "
            message += f"whole score by {shown(rope.softmax_factor)}."
            yield Match(header.key(name), message)
