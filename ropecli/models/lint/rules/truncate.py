"""The ends of YaRN's ramp, rounded or not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ropecli.models.lint.entry import Entry
from ropecli.models.lint.rule import Hit, rule


@rule(
    "R033",
    "warning",
    "truncate under a layer type",
    of=Entry,
    why="Transformers looks for truncate beside the layer types, not in them, does not find it, "
    "and rounds the ends of the ramp.",
    cure="Write truncate beside the layer types as well.",
    threads=("huggingface/transformers#42189",),
)
def nested_truncate(entry: Entry) -> Iterator[Hit]:
    """`truncate: false` under a layer type, and not beside the layer types."""
    off = entry.values.get("truncate", True)
    if entry.rope_type != "yarn" or not entry.nested or off:
        return
    beside = entry.part.config.get(entry.part.holder or "", {})
    if beside.get("truncate", True):
        yield Hit(entry.key("truncate"), f"Transformers does not read it here.{_rounding(entry)}")


@rule(
    "R034",
    "note",
    "truncate is not read everywhere",
    of=Entry,
    why="llama.cpp and mlx-lm always round the ends of YaRN's ramp to whole pairs, vLLM did "
    "before its correction. In gpt-oss pair 17 is then off by 76 %: 0.90 rad at position 4,096.",
    cure="Check the stack you run; a GGUF can't say it.",
    threads=(
        "vllm-project/vllm#28244",
        "huggingface/transformers#42189",
        "apache/tvm#18576",
    ),
)
def truncate_elsewhere(entry: Entry) -> Iterator[Hit]:
    """`truncate: false` where Transformers reads it."""
    if entry.rope_type == "yarn" and entry.values.get("truncate") is False and not entry.nested:
        yield Hit(entry.key("truncate"), f"llama.cpp and mlx-lm do not read it.{_rounding(entry)}")


def _rounding(entry: Entry) -> str:
    """What rounding the ramp's ends does."""
    exact, rounded = entry.table(truncate=False), entry.table(truncate=True)
    if exact is None or rounded is None:
        return ""
    off = np.abs(rounded.inv_freq / exact.inv_freq - 1)
    pair, context = int(off.argmax()), entry.part.context or entry.original or 0
    angle = float(np.abs(rounded.inv_freq - exact.inv_freq).max()) * context
    return (
        f" With rounded ends pair {pair} is off by {off[pair]:.2%}, and the worst angle at "
        f"position {context:,} by {angle:.2g} rad."
    )
