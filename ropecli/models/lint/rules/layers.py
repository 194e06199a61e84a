"""Layers: sliding windows, layer types, layers without position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ropecli.models.entries import unread_objects
from ropecli.models.keys import SLIDING
from ropecli.models.lint.rule import Match, PartRule, Rule
from ropecli.models.lint.subjects import Subject
from ropecli.models.lint.values import shown, value_or_none, whole
from ropecli.models.refusals import failure
from ropecli.names import meant

#: The layer types of Transformers 5.24, with their old names.
_LAYER_TYPES = (
    *("full_attention", "sliding_attention", "chunked_attention", "window_attention"),
    *("indexed_attention", "compressed_sparse_attention", "heavily_compressed_attention"),
    *("reference_sliding_attention", "linear_attention", "minimax_m3_sparse", "conv", "moe"),
    *("hybrid", "hybrid_sliding", "sparse", "dense"),
    *("mamba", "attention", "deepseek_sparse_attention", "qwen_sparse_attention"),
)


@Rule(
    "R060",
    "note",
    "scaling that does not apply to sliding layers",
    why="Where sliding layers have their own base, as in Gemma 3, Transformers scales only the "
    "other layers. Stacks that scale both fail on long prompts: rank correlation 0.96 at 195 "
    "tokens, 0.53 at 2,916.",
    hint="Check the stack you run, or write rope_parameters by layer type.",
    threads=(
        "vllm-project/vllm#29111",
        "Blaizzy/mlx-vlm#1709",
        "lablup/mlxcel#1340",
        "NVIDIA/TensorRT-Model-Connect#1304",
    ),
    requires=("flat", "factor"),
)
def flat_scaling(entry: Subject, factor: float) -> Iterator[Match]:
    """A factor for all layers, in a file with `rope_local_base_freq`."""
    apart = entry.config.get("rope_local_base_freq") or SLIDING in entry.architecture.scaling
    if not apart or factor <= 1:
        return
    kinds = entry.rotating
    scaled = [settings.name for settings in kinds if settings.rope_type != "default"]
    plain = [settings.name for settings in kinds if settings.rope_type == "default"]
    if not scaled or not plain or any(settings.refused for settings in kinds):
        return
    window = whole(entry.config.get("sliding_window"))
    off = ""
    if window:
        off = f" At the end of their window of {shown(window)} the fastest pair would be off by "
        off += f"{window * (1 - 1 / factor):.4g} rad."
    message = f"Transformers scales {', '.join(scaled)} by {shown(factor)} and {', '.join(plain)} "
    message += f"not at all.{off}"
    yield Match(entry.key("factor"), message)


@Rule(
    "R061",
    "warning",
    "scaled sliding layers",
    why="A sliding window sees no distance beyond it: scaling only changes the distances that it "
    "was trained on.",
    hint="Use rope_type default for sliding_attention.",
    requires=("rope_type", "factor"),
    threads=("vllm-project/vllm#29111", "antonellof/ferrox#39"),
)
def scaled_sliding(entry: Subject, rope_type: str, factor: float) -> Iterator[Match]:
    """A layer type of sliding windows with a rope type that scales."""
    if "sliding" in entry.layer and rope_type != "default" and factor not in {0, 1}:
        message = f"Sliding layers are scaled by {shown(factor)} and never see beyond their window."
        yield Match(entry.key("factor"), message)


@PartRule(
    "R069",
    "error",
    "scaling keys by layer type in a model that has one object for all layers",
    why="Transformers looks for rope_theta and rope_type next to the objects of layer types, and "
    "not in them: it computes plain RoPE with its default base, or fails with a KeyError.",
    hint="Write one object without layer types: rope_parameters: {rope_type, rope_theta, ...}.",
)
def unread_by_layer_type(part: Subject) -> Iterator[Match]:
    """Objects by layer type in `rope_parameters`, where the code of `model_type` reads none."""
    objects = value_or_none(lambda: unread_objects(part.keys))
    if not objects:
        return
    kind = part.architecture.model_type
    if value_or_none(lambda: failure(part.keys, None)):
        what = f"Transformers fails on it: model_type {kind} has one object for all its layers."
    else:
        read = next(iter(part.rotating), None)
        base = None if read is None else read.scaling.get("rope_theta")
        what = f"Transformers reads none of it in model_type {kind}"
        if read is not None and base is not None:
            what += f"; it rotates by {read.rope_type}, base {base:,.10g}"
        what += "."
    for name in objects:
        yield Match(part.key(f"{part.holder}.{name}"), what)


@PartRule(
    "R068",
    "error",
    "an unknown layer type",
    why="Transformers refuses the file. Other stacks take the layer for another type: without its "
    "window, or with another base.",
    hint="Correct the name.",
    requires=("layer_types",),
)
def unknown_layer_type(part: Subject, types: list[Any]) -> Iterator[Match]:
    """A name in `layer_types` that Transformers does not know."""
    if not part.architecture.in_transformers:
        return
    blocks = part.architecture.facts.get("mlp_blocks")
    for i, name in enumerate(types):
        if blocks and i % 2 and name == "mlp":  # attention and mlp take turns
            continue
        if isinstance(name, str) and name not in _LAYER_TYPES:
            close = meant(name, _LAYER_TYPES) or "."
            said = f"{name!r:.60} of layer {i} is not a layer type{close} Transformers refuses it."
            yield Match(part.key("layer_types"), said)
            return


@PartRule(
    "R067",
    "note",
    "null for a layer type",
    why="The newest Transformers takes null as no position in models that have such layers, and "
    "as a default in others; older versions and other stacks fail.",
    hint="Check that the stack you run supports it.",
    requires=("layer_types", "held"),
)
def without_position(part: Subject, types: list[Any], held: dict[str, Any]) -> Iterator[Match]:
    """null as the scaling keys of a layer type."""
    for name, value in held.items():
        if value is None and name in types:
            message = "It means no position, or a default, depending on the model's code."
            yield Match(part.key(f"{part.holder}.{name}"), message)


@PartRule(
    "R062",
    "warning",
    "no_rope_layers with mostly zeros",
    why="1 means that a layer HAS a rotary embedding, and 0 that it has none. With the two "
    "swapped, most layers lose their positions.",
    hint="Write 1 for each layer that rotates; released models have 0 in every fourth.",
    requires=("no_rope_layers",),
)
def reversed_nope(part: Subject, flags: list[bool]) -> Iterator[Match]:
    """`no_rope_layers` with more zeros than ones."""
    if 2 * sum(flags) < len(flags):
        message = f"Only {sum(flags)} of {len(flags)} layers rotate: 1 means that a layer does."
        yield Match(part.key("no_rope_layers"), message)


@PartRule(
    "R063",
    "warning",
    "no_rope_layers and no_rope_layer_interval differ",
    why="Transformers uses the list; a stack that knows only the interval skips other layers.",
    hint="Correct the wrong one: with interval n, layers n, 2n, ... have no position.",
    requires=("no_rope_layers",),
)
def other_interval(part: Subject, flags: list[bool]) -> Iterator[Match]:
    """A list that differs from the interval's, with at least as many ones as zeros."""
    step = whole(part.config.get("no_rope_layer_interval"))
    if not step or step < 1 or 2 * sum(flags) < len(flags):
        return
    wrong = [i for i, flag in enumerate(flags) if flag != bool((i + 1) % step)]
    if wrong:
        message = f"It differs from an interval of {step} in {len(wrong)} of {len(flags)} layers, "
        message += f"first in layer {wrong[0]}."
        yield Match(part.key("no_rope_layers"), message)


@PartRule(
    "R064",
    "warning",
    "a list of layers of the wrong length",
    why="Transformers refuses layer_types of another length, and a no_rope_layers that is too "
    "short; of a longer one the last entries have no effect.",
    hint="Write one entry for each of num_hidden_layers.",
)
def wrong_count(part: Subject) -> Iterator[Match]:
    """`layer_types` or `no_rope_layers` whose length is not `num_hidden_layers`."""
    count = next((whole(v) for v in part.get_all("num_hidden_layers").values()), None)
    for name in ("layer_types", "no_rope_layers"):
        given = part.config.get(name)
        if count and isinstance(given, list) and given and len(given) != count:
            yield Match(part.key(name), f"It has {len(given):,} entries for {shown(count)} layers.")
