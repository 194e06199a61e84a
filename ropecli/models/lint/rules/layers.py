"""Layers that differ: sliding windows, layer types, layers without position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ropecli.models.lint.entry import Entry
from ropecli.models.lint.numbers import shown, whole
from ropecli.models.lint.rule import Hit, rule
from ropecli.models.lint.subject import Part

SLIDING = "sliding"
#: What may stand beside layer types: Transformers looks for it there.
_BESIDE = ("truncate",)


@rule(
    "R060",
    "note",
    "scaling that is not for sliding layers",
    of=Entry,
    why="Where a file has a base of its own for sliding layers, as Gemma 3 does, Transformers "
    "scales the others alone. Stacks that scale both answer short prompts well and lose long "
    "ones: rank correlation 0.96 at 195 tokens, 0.53 at 2,916.",
    cure="Check the stack you run, or write rope_parameters by layer type.",
    threads=(
        "vllm-project/vllm#29111",
        "Blaizzy/mlx-vlm#1709",
        "lablup/mlxcel#1340",
        "NVIDIA/TensorRT-Model-Connect#1304",
    ),
)
def flat_scaling(entry: Entry) -> Iterator[Hit]:
    """A factor for all layers beside `rope_local_base_freq`."""
    factor = entry.number("factor")
    usual = entry.part.keys.architecture.defaults.get("rope_parameters", {})
    apart = entry.part.config.get("rope_local_base_freq") or "sliding_attention" in usual
    if entry.nested or not apart or factor is None or factor <= 1:
        return
    window = whole(entry.part.config.get("sliding_window"))
    off = ""
    if window:
        off = f" At the end of their window of {window:,} the fastest pair would be off by "
        off += f"{window * (1 - 1 / factor):.4g} rad."
    yield Hit(
        entry.key("factor"),
        f"Transformers scales full_attention by {shown(factor)} and leaves sliding layers "
        f"alone.{off}",
    )


@rule(
    "R061",
    "warning",
    "scaled sliding layers",
    of=Entry,
    why="A layer with a sliding window never sees a distance beyond it, so there is nothing to "
    "stretch: scaling only blurs the distances that it was trained on.",
    cure="Leave sliding_attention at rope_type default.",
    threads=("vllm-project/vllm#29111", "antonellof/ferrox#39"),
)
def scaled_sliding(entry: Entry) -> Iterator[Hit]:
    """A layer type of sliding windows with a rope type that scales."""
    factor = entry.number("factor")
    if SLIDING in entry.layer and entry.rope_type not in {None, "default"} and factor:
        if factor == 1:
            return
        yield Hit(
            entry.key("factor"),
            f"Sliding layers are stretched by {shown(factor)} and never see beyond their window.",
        )


@rule(
    "R065",
    "warning",
    "a layer type that no layer has",
    of=Part,
    why="Transformers goes by layer_types: what stands under another name is not used, and if "
    "there is nothing else the whole dictionary counts as one without a rope_type.",
    cure="Use the names of layer_types.",
)
def other_layer_type(part: Part) -> Iterator[Hit]:
    """Scaling keys under a name that is not in `layer_types`."""
    types = part.config.get("layer_types")
    if not isinstance(types, list) or part.holder is None:
        return
    usual = part.keys.architecture.defaults.get("rope_parameters", {})
    for name, value in _held(part).items():
        if isinstance(value, dict) and name not in types and name not in usual:
            has = ", ".join(sorted({str(each)[:30] for each in types})[:5])
            yield Hit(part.key(f"{part.holder}.{name}"), f"The layers are of type {has}.")


@rule(
    "R066",
    "warning",
    "keys beside the layer types",
    of=Part,
    why="Where scaling keys are nested by layer type, Transformers reads the nested ones; one "
    "that stands beside them counts for no layer.",
    cure="Write it under each layer type that it is for.",
)
def beside(part: Part) -> Iterator[Hit]:
    """A plain value beside nested scaling keys, `truncate` apart."""
    held = _held(part)
    if not any(isinstance(value, dict) for value in held.values()):
        return
    for name, value in held.items():
        if not isinstance(value, dict | None) and name not in _BESIDE:
            yield Hit(part.key(f"{part.holder}.{name}"), "It counts for no layer type.")


@rule(
    "R067",
    "note",
    "null for a layer type",
    of=Part,
    why="The newest Transformers takes null for layers without position in models that have such "
    "layers, and for a default in others; older ones and other stacks fail on it.",
    cure="Check that the stack you run knows it.",
)
def without_position(part: Part) -> Iterator[Hit]:
    """null as the scaling keys of a layer type."""
    types = part.config.get("layer_types")
    for name, value in _held(part).items():
        nested = isinstance(types, list) and name in types
        if value is None and nested:
            yield Hit(
                part.key(f"{part.holder}.{name}"),
                "It means no position, or a default: that is up to the model's code.",
            )


def _held(part: Part) -> dict[str, Any]:
    given = part.config.get(part.holder or "")
    return given if isinstance(given, dict) else {}
