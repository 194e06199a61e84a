"""The rotation that each stack computes from the same settings.

A stack is a function of this file and a name in `STACKS`. The function contains only what the
stack does differently from Transformers; everything else is `build`, which all of them share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ropecli.errors import ArgumentError
from ropecli.numbers import positive, quote
from ropecli.rotary import Rotary, rope
from ropecli.rotary.factors import mscale, softmax_factor
from ropecli.rotary.pairs import named_pairs
from ropecli.rotary.types import canonical, own_parameters

if TYPE_CHECKING:
    from ropecli.models.settings import Settings

#: From the settings of a kind of layer and a sequence length to the rotation. Raises ArgumentError
#: for a value that is missing or out of range, ArgumentTypeError for one of the wrong type.
Stack = Callable[["Settings", int | None], Rotary]

LARGEST_HEAD = 2**16  #: A hundred times any model's; larger tables take seconds.
EXTRA = 3  #: ggml's fourth axis, which is 0 in text: it has the pairs that no section claims.


def transformers(settings: Settings, sequence_length: int | None) -> Rotary:
    """The rotation of Hugging Face Transformers."""
    scaling = dict(settings.scaling)
    if settings.nested:  # Transformers looks next to the layer types, and never finds it here
        scaling.pop("truncate", None)
    elif "truncate" in scaling:  # null counts as false
        scaling["truncate"] = bool(scaling["truncate"])
    return build(settings, settings.rope_type, scaling, sequence_length)


def vllm(settings: Settings, sequence_length: int | None) -> Rotary:
    """The rotation of vLLM; the sequence length is max_model_len.

    Dynamic NTK has one table, for context times factor, at every length. LongRoPE's list is chosen
    once per server, by the longest sequence that it admits.
    """
    scaling, rope_type = dict(settings.scaling), settings.rope_type
    older = scaling.get("type")
    if older is not None and older != rope_type:
        msg = f"vLLM refuses type {quote(older)} with rope_type {quote(rope_type)}"
        raise ArgumentError(msg)
    if rope_type == "dynamic" and scaling.get("factor") and settings.context_length:
        factor = positive("factor", scaling["factor"])
        scaling["alpha"] = scaling.get("alpha") or factor * factor - (factor - 1)
    elif rope_type == "ntk":
        rope_type = "ntk_mixed"
    elif rope_type == "yarn" and settings.softmax is not None:
        rope_type = "deepseek_yarn"
    return build(settings, rope_type, scaling, sequence_length or settings.context_length)


def llama_cpp(settings: Settings, sequence_length: int | None) -> Rotary:
    """The rotation of llama.cpp, from a GGUF or a config.json that was converted to one.

    The sequence length is n_ctx. Cached keys are not rotated again, so dynamic NTK does not exist.
    Layouts are unchanged: a converter permutes the weights where the two differ.
    """
    scaling, rope_type = dict(settings.scaling), settings.rope_type
    scaling["truncate"] = True  # the ends of the ramp are always rounded
    if rope_type in ("dynamic", "ntk") and scaling.get("alpha") is None:
        rope_type = "default"
    result = build(settings, rope_type, scaling, sequence_length or settings.context_length)
    section = settings.geometry.get("mrope_section")
    if section is None or not settings.geometry.get("mrope_interleaved"):
        return result
    return _with_extra_axis(result, list(section))


def mlx_lm(settings: Settings, sequence_length: int | None) -> Rotary:
    """The rotation of mlx-lm, which has text only: the axes of M-RoPE are one."""
    scaling = dict(settings.scaling)
    sections = ("mrope_section", "mrope_interleaved")
    geometry = {key: value for key, value in settings.geometry.items() if key not in sections}
    if settings.rope_type == "yarn":
        scaling["truncate"] = True
        factor = positive("factor", scaling.get("factor") or 1.0)
        k, k_all_dim = scaling.get("mscale", 1.0), scaling.get("mscale_all_dim", 0.0)
        scaling["attention_factor"] = mscale(factor, k) / mscale(factor, k_all_dim)
    if settings.rope_type in ("longrope", "su"):
        scaling["short_factor"] = scaling.get("long_factor")  # the long list at every length
        scaling["factor"] = scaling["attention_factor"] = None
    settings = replace(settings, geometry=geometry)
    return build(settings, settings.rope_type, scaling, sequence_length)


def paper(settings: Settings, sequence_length: int | None) -> Rotary:
    """The rotation of the papers' formulas, where released code differs from them.

    YaRN's ramp is linear in turns (arXiv:2309.00071, Eq. 18) and its attention factor is
    0.1 ln s + 1 (Eq. 22). Dynamic NTK stretches by max(1, L'/L) and nothing else (section 3.3).
    """
    scaling, rope_type = dict(settings.scaling), settings.rope_type
    if rope_type == "yarn":
        scaling["ramp"] = "paper"
        for key in ("attention_factor", "mscale", "mscale_all_dim"):
            scaling.pop(key, None)
    elif rope_type == "dynamic" and scaling.get("alpha") is None and settings.context_length:
        used = max(sequence_length or 0, settings.context_length)
        rope_type, scaling["factor"] = "ntk", used / settings.context_length
    return build(settings, rope_type, scaling, sequence_length)


STACKS: Mapping[str, Stack] = {
    "transformers": transformers,
    "vllm": vllm,
    "llama.cpp": llama_cpp,
    "mlx-lm": mlx_lm,
    "paper": paper,
}
#: The stack that a file format is made for.
NATIVE = {"config.json": "transformers", "gguf": "llama.cpp"}


def find_stack(name: str) -> Stack:
    """Return the stack of a name.

    Raises:
        ArgumentError: No such stack.
    """
    if name not in STACKS:
        msg = f"reading must be one of {', '.join(STACKS)}, got {name!r}"
        raise ArgumentError(msg)
    return STACKS[name]


def build(
    settings: Settings,
    rope_type: str | None,
    scaling: Mapping[str, Any],
    sequence_length: int | None,
) -> Rotary:
    """Build the rotation of a rope type; keys that the type does not have are left out.

    Raises:
        ArgumentError: A value that is missing or out of range.
        ArgumentTypeError: A value of the wrong type.
    """
    if rope_type is None:
        msg = f"layer {settings.name} has no rotary position embedding"
        raise ArgumentError(msg)
    head_dim = settings.geometry["head_dim"]
    if head_dim > LARGEST_HEAD:
        msg = f"head dim must be at most {LARGEST_HEAD:,} in a model, got {head_dim:,}"
        raise ArgumentError(msg)
    name = canonical(rope_type)
    own = own_parameters(name)
    arguments = dict(settings.geometry)
    output = arguments.pop("output", None)
    factor = arguments.pop("softmax_factor", None) or _score_factor(settings, scaling)
    arguments |= {
        key: scaling[key] for key in own if scaling.get(key) is not None and key not in arguments
    }
    arguments |= {"rope_theta": scaling["rope_theta"], "softmax_factor": factor}
    if "sequence_length" in own and sequence_length is not None:
        arguments["sequence_length"] = sequence_length
    result = rope(name, **arguments)
    if output is None:
        return result
    # Read in one layout and written in another, as DeepSeek-V3 is.
    pairs_out = named_pairs(
        output, rotary_dim=result.rotary_dim, rotary_offset=result.rotary_offset
    )
    return rope(name, pairs_out=pairs_out, **arguments)


def _score_factor(settings: Settings, scaling: Mapping[str, Any]) -> float | None:
    """DeepSeek's factor on the score; None where the model has none."""
    if settings.softmax is None or settings.rope_type == "default":
        return None
    factor = positive("factor", scaling.get("factor") or 1.0)
    try:
        return softmax_factor(factor, scaling.get(settings.softmax))
    except OverflowError:
        msg = f"{settings.softmax} must leave the score finite, got {scaling[settings.softmax]:g}"
        raise ArgumentError(msg) from None


def _with_extra_axis(rope: Rotary, section: list[int]) -> Rotary:
    """Give ggml's fourth axis the pairs that no interleaved section claims, time's included."""
    claimed = [
        axis if axis != 0 or (i % 3 == 0 and i < 3 * section[0]) else EXTRA
        for i, axis in enumerate(rope.axis)
    ]
    return rope.with_axis(claimed)
