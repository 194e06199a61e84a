"""The base."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.models.keys import FULL
from ropecli.models.lint.readings import FIRST, ignoring, join_stacks
from ropecli.models.lint.rule import Match, PartRule, Rule
from ropecli.models.lint.subjects import Subject
from ropecli.models.lint.values import number, shown, value_or_none
from ropecli.models.settings import Settings
from ropecli.rotary.frequencies import plain

#: Other keys that hold a base, or change it.
_OTHER = ("rope_ratio", "rope_local_base_freq", "global_rope_theta", "layer_rope_theta")
_USUAL = 10_000.0
_LONG = 32_768  #: Positions up to which models with the usual base were released.
#: Rope types whose pairs all rotate; the slow ones of proportional stand still.
_ALL_ROTATE = ("default", "linear", "dynamic", "yarn", "llama3", "longrope")
#: Multiple of what the base holds from which a context is worth a note. Of 138 unscaled
#: configurations 83 are beyond the bound, Llama 2 by 2.4 and Qwen3-VL by 3.2, but 30 by more than
#: four. It is not a warning, since some of those 30 are released models: Qwen2.5-0.5B by 5.3,
#: LFM2 by 20.
_BEYOND = 4
_STEP = 512  #: Distances tried at a time.
_MOST_COSINES = 2**24  #: Of one search, a fraction of a second.
_MOST_PAIRS = 1024  #: Of a head that is searched; no released model has more.


@Rule(
    "R090",
    "warning",
    "no base in an unknown architecture",
    why="10000 is silently used. If the model was trained with 500000 and head dim 128, its "
    "slowest pair rotates 47 times too fast.",
    hint="Add rope_theta with the value of the model's code.",
    threads=(
        "ggml-org/llama.cpp#2768",
        "ggml-org/llama.cpp#3090",
        "paiml/aprender#2148",
        "deepspeedai/DeepSpeed#8341",
        "InternLM/lmdeploy#4303",
    ),
    requires=("text",),
)
def unknown_base(entry: Subject) -> Iterator[Match]:
    """A text model without a base under any name, whose model_type is not in the table."""
    if not entry.architecture.known and _no_base(entry):
        yield Match(_base_key(entry), "The default of 10000 is used; no key confirms it.")


@Rule(
    "R091",
    "note",
    "the base is left to the architecture",
    why="Stacks that do not know the default of a model_type take 10000, as happened to "
    "CodeLlama's 1000000.",
    hint="Add rope_theta, so that every stack uses the same base.",
    threads=("ggml-org/llama.cpp#2768", "sgl-project/mini-sglang#13", "sgl-project/SpecForge#265"),
    requires=("text", "known"),
)
def default_base(entry: Subject) -> Iterator[Match]:
    """A text model without a base under any name, whose model_type has a default for it."""
    architecture = entry.architecture
    if entry.settings is not None and entry.settings.refused is not None:
        return
    if not architecture.fixes_base and _no_base(entry):
        by_layer = "rope_parameters" in architecture.defaults
        value = "" if by_layer else f": {entry.base or _USUAL:.10g}"
        name = entry.keys.read_name("rope_theta")
        yield Match(
            _base_key(entry),
            f"The default of model_type {architecture.model_type} is used{value}.",
            "" if name == "rope_theta" else f"Add {name}, so that every stack uses the same base.",
        )


@Rule(
    "R092",
    "warning",
    "a base that is small for the context",
    why="The slowest pair completes a turn within the context, so that distances repeat in every "
    "pair, or the base is the 10000 of models with 2,048 positions. As a rule of thumb, "
    "`Men et al. 2024` require 640000 for 32,768 positions.",
    hint="Check rope_theta and the scaling keys against the released model's.",
    threads=("ggml-org/llama.cpp#2768", "unslothai/unsloth#6197"),
    rope_types=_ALL_ROTATE,
    requires=("text", "base", "dim", "context"),
)
def small_base(entry: Subject, base: float, dim: int, context: int) -> Iterator[Match]:
    """A context longer than the slowest wavelength; unscaled, one above 32,768 with base 10000.

    Only in layers that see the whole context.
    """
    table = entry.table(sequence_length=context)
    if dim < 4 or base <= 1 or not sees_context(entry) or table is None:
        return
    theta, unscaled = min(table.inv_freq), entry.rope_type == "default"
    if context * theta > 2 * math.pi or (unscaled and base <= _USUAL and context > _LONG):
        scaled = "" if unscaled else ", scaled,"
        message = f"With base {base:.10g}{scaled} the slowest of {len(table.inv_freq)} pairs "
        message += f"completes a turn after {2 * math.pi / theta:,.0f} positions, and the "
        message += f"context is {shown(context)}."
        yield Match(entry.key_in_use("rope_theta"), message)


@Rule(
    "R116",
    "note",
    "a context far beyond what the base holds",
    why="At a distance where the sum of the pairs' cosines is negative, a key like a query of "
    "random coordinates is expected to score below a random one (Men et al. 2024, "
    "arXiv:2405.14591). Few models are released more than four times beyond; scaling keys may "
    "have been lost.",
    hint="If the model was not trained with this base at this length, restore its scaling keys, or "
    "raise rope_theta: `ropecli base-bound --scan` lists bases that hold the context.",
    threads=("JIA-Lab-research/LongLoRA#181", "unslothai/unsloth#6197"),
    of="scaling or gguf",
    requires=("base", "dim", "context", "settings"),
)
def base_holds_less(
    entry: Subject, base: float, dim: int, context: int, settings: Settings
) -> Iterator[Match]:
    """A context of more than four times the positions that the base holds.

    In unscaled layers that see the whole context and rotate whole heads, where R092 and R115 do
    not fire.
    """
    is_text = entry.text or entry.of == "gguf"
    if not is_text or settings.rope_type != "default" or settings.geometry["head_dim"] != dim:
        return
    if base <= 1 or not sees_context(entry) or (dim >= 4 and context > slowest(base, dim)):
        return
    held = _held(plain(base, dim), context // _BEYOND)
    if held is not None and context > _BEYOND * held and not (base <= _USUAL and context > _LONG):
        message = f"Base {base:.10g} holds up to {held:,} positions of {shown(context)}: at "
        message += f"distance {held + 1:,} the sum of the cosines is negative."
        key = entry.key("rope.freq_base") if entry.gguf else entry.key_in_use("rope_theta")
        yield Match(key, message)


def _held(inv_freq: NDArray[np.float64], last: int) -> int | None:
    """Return the last distance before a negative sum of cosines; None where none is found."""
    if len(inv_freq) > _MOST_PAIRS:
        return None
    within = np.outer(np.arange(_STEP), inv_freq)
    cosine, sine = np.cos(within), np.sin(within)
    for begin in range(0, min(last + 2, _MOST_COSINES // len(inv_freq)), _STEP):
        angle = begin * inv_freq  # cos(a + b) = cos a cos b - sin a sin b
        negative = np.vecdot(cosine, np.cos(angle)) - np.vecdot(sine, np.sin(angle)) < 0
        if negative.any():
            return begin + int(negative.argmax()) - 1
    return None


@PartRule(
    "R006",
    "note",
    "rope_parameters without the older keys",
    why="Transformers 5 writes rope_parameters. Code for the older form finds no rope_theta and "
    "rope_scaling, and silently takes base 10000 and no scaling.",
    hint="For such code, write rope_theta and rope_scaling as well, with the same values.",
    requires=("text", "held"),
    threads=("deepspeedai/DeepSpeed#8341", "sgl-project/mini-sglang#13", "InternLM/lmdeploy#4303"),
    reads=True,
)
def new_form_only(part: Subject, held: dict[str, Any]) -> Iterator[Match]:
    """`rope_parameters` without the older form, where that makes a difference."""
    if part.holder != "rope_parameters" or part.get_all("rope_theta"):
        return
    older = part.effects(rope_parameters=..., rope_theta=_USUAL)
    without = part.effects(rope_parameters={})
    if not older.get(FIRST) or not without.get(FIRST):
        return
    kinds = [entry for entry in (held, *held.values()) if isinstance(entry, dict)]
    bases = [f"{b:.10g}" for nested in kinds if (b := number(nested.get("rope_theta"))) is not None]
    factors = [f"{f:.10g}" for nested in kinds if (f := number(nested.get("factor"))) is not None]
    lost = f"base {' and '.join(bases)}" if bases else "the base"
    lost += f" and factor {' and '.join(factors)}" if factors else ""
    unread = ignoring(without)
    by = f" So does {join_stacks(unread)}." if unread else ""
    message = f"Code for the older form loses {lost}: {older[FIRST]}.{by}"
    yield Match(part.key("rope_parameters"), message)


@Rule(
    "R089",
    "error",
    "a base that is not above 1",
    why="Pair i rotates by base^(-2i/d) per position: with 1 all pairs by a radian, and below 1 "
    "the last ones fastest.",
    hint="Write the base that the model was trained with; 10000 is the usual one.",
    requires=("base",),
)
def tiny_base(entry: Subject, base: float) -> Iterator[Match]:
    """A base above 0 and up to 1."""
    if base <= 1 and entry.rope_type != "axial":
        last = value_or_none(lambda: base ** (2 / (entry.dim or 2) - 1))
        rotates = "" if last is None else f" the last pair rotates by {last:.4g} rad per position,"
        message = f"With {base:.4g}{rotates} as fast as the first or faster."
        yield Match(entry.key_in_use("rope_theta"), message)


def _no_base(entry: Subject) -> bool:
    if entry.rope_type == "axial" or "rope_theta" in entry.values:
        return False
    return not entry.get_all("rope_theta") and not any(entry.config.get(k) for k in _OTHER)


def _base_key(entry: Subject) -> str:
    """Return the key of a base: among the scaling keys in the new form, at the top in the old."""
    is_new = entry.holder == "rope_parameters"
    return entry.key("rope_theta") if is_new else entry.outer_key("rope_theta")


def slowest(base: float, dim: int) -> float:
    """Return the slowest wavelength of unscaled pairs."""
    return float(2 * math.pi * base ** ((dim - 2) / dim))


def sees_context(entry: Subject) -> bool:
    """True if no window is known that keeps the distances of a layer below the context."""
    if entry.of == "gguf":
        return len(entry.layers) == 1 and not entry.values.get("attention.sliding_window")
    if entry.nested and entry.layer != FULL:
        return False
    types = entry.config.get("layer_types")
    if isinstance(types, list) and not entry.nested and FULL not in types:
        return False
    windowed = entry.config.get("sliding_window") and types is None
    return not windowed or entry.config.get("use_sliding_window") is False
