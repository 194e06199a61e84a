"""Tensors of a GGUF that divide frequencies, and files that lack them."""

from __future__ import annotations

from collections.abc import Iterator

from ropecli.models.lint.header import Header
from ropecli.models.lint.rule import Hit, rule

_FREQS = "rope_freqs.weight"
_LISTS = ("rope_factors_long.weight", "rope_factors_short.weight")
_NARROW = {1: "F16", 30: "BF16"}


@rule(
    "R110",
    "warning",
    "a Llama 3.1 without its scaling",
    of=Header,
    why="Llama 3.1's scaling is a tensor in a GGUF, rope_freqs.weight. Files that were converted "
    "before there was one lack it, and lose the thread after some thousand positions.",
    cure="Convert again.",
    threads=("ggml-org/llama.cpp#8650", "ggml-org/llama.cpp#8676", "unslothai/unsloth#6197"),
)
def no_divisors(header: Header) -> Iterator[Hit]:
    """Architecture llama with base 500000, a context of 131,072, no scaling and no such tensor."""
    plain = header.factor in {None, 0, 1} and _FREQS not in header.file.tensors
    usual = header.architecture == "llama" and header.number("rope.freq_base") == 500_000
    if usual and plain and header.context is not None and header.context >= 131_072:
        yield Hit(
            header.key("rope.freq_base"),
            f"{header.context:,} positions at base 500,000 without rope_freqs.weight: the "
            "slowest pairs turn 8 times as fast as in Llama 3.1.",
        )


@rule(
    "R112",
    "warning",
    "divisors in 16 bits",
    of=Header,
    why="rope_freqs and rope_factors divide frequencies. In bfloat16 they are off by up to 0.4 %, "
    "in float16 by 0.05 %, and so is every angle.",
    cure="Write these tensors as F32, as converters do.",
    threads=("Modalities/modalities#462",),
)
def narrow_divisors(header: Header) -> Iterator[Hit]:
    """A tensor `rope_freqs.weight` or `rope_factors_*.weight` of type F16 or BF16."""
    for name, info in header.file.tensors.items():
        if name.startswith(("rope_freqs", "rope_factors")) and info.type in _NARROW:
            kind, error = _NARROW[info.type], 2**-9 if info.type == 30 else 2**-12
            reach = f" and angles at position {header.context:,}" if header.context else ""
            yield Hit(name, f"{kind} is off by up to {error:.2%} of a frequency{reach}.")


@rule(
    "R113",
    "warning",
    "longrope without its tensors",
    of=Header,
    why="LongRoPE's lists are tensors in a GGUF; without them no frequency is stretched.",
    cure="Convert again, from a config.json with both lists.",
    threads=("ggml-org/llama.cpp#8995",),
)
def no_lists(header: Header) -> Iterator[Hit]:
    """Scaling type longrope and neither `rope_factors_long.weight` nor the short one."""
    missing = [name for name in _LISTS if name not in header.file.tensors]
    if header.scaling == "longrope" and missing:
        yield Hit(header.key("rope.scaling.type"), f"The file has no {' and no '.join(missing)}.")


@rule(
    "R114",
    "warning",
    "DeepSeek without yarn_log_multiplier",
    of=Header,
    why="It says by what YaRN multiplies the score of DeepSeek-V2 and V3, 1.8739 in V3. Without "
    "it llama.cpp multiplies by another factor.",
    cure="Convert again, with rope.scaling.yarn_log_multiplier as 0.1 times mscale_all_dim.",
    threads=("ggml-org/llama.cpp#17945", "ggml-org/llama.cpp#18006"),
)
def no_log_multiplier(header: Header) -> Iterator[Hit]:
    """Architecture deepseek2 with yarn, and no `rope.scaling.yarn_log_multiplier`."""
    name = "rope.scaling.yarn_log_multiplier"
    if header.architecture == "deepseek2" and header.scaling == "yarn" and header.get(name) is None:
        yield Hit(header.key(name), "The factor of the score does not follow from this file.")
