"""Tables in 16 bits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ropecli.models.lint.rule import Hit, rule
from ropecli.models.lint.subject import Part
from ropecli.models.lint.vocabulary import LONGEST_NAME

_DTYPE = re.compile(r"(rope|rotary|inv_freq).*(dtype|precision)$")
_IN_FLOAT32 = re.compile(r"(rope|rotary|inv_freq).*(fp32|float32)|(fp32|float32).*(rope|rotary)")
_NARROW = ("bf16", "bfloat16", "fp16", "float16", "half", "torch.bfloat16", "torch.float16")

#: Of bfloat16, and of float16.
_EFFECT = {
    True: "bfloat16 positions collide from 257 on, and angles are off by up to half a turn.",
    False: "float16 positions collide from 2,049 on.",
}


@rule(
    "R093",
    "warning",
    "rotary tables in 16 bits",
    of=Part,
    why="bfloat16 holds no odd position above 256, so that neighbours fall on one another from "
    "257 on; a table of frequencies in bfloat16 is off by 0.62 rad at position 512 and by half "
    "a turn at 4,096.",
    cure="Compute positions, frequencies and angles in float32; cos and sin may be rounded.",
    threads=(
        "huggingface/transformers#29285",
        "EleutherAI/gpt-neox#1003",
        "Modalities/modalities#462",
        "huggingface/candle#3520",
        "okoge-kaz/llm-recipes#6",
    ),
)
def narrow_tables(part: Part) -> Iterator[Hit]:
    """A key that has rotary tables computed in 16 bits.

    Such as `rope_dtype: bfloat16` or `apply_rope_in_fp32: false`; the dtype of the weights does
    not count.
    """
    for name, value in part.config.items():
        if len(name) > LONGEST_NAME:
            continue
        if _DTYPE.search(name) and isinstance(value, str) and value.lower() in _NARROW:
            yield Hit(part.key(name), _EFFECT["b" in value.lower()])
        elif _IN_FLOAT32.search(name) and value is False:
            yield Hit(part.key(name), f"In the dtype of the weights: {_EFFECT[True]}")
