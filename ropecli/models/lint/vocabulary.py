"""The keys that any stack reads."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache

from ropecli.models.keys import ALIASES, ORIGINAL, ROTARY_KEYS
from ropecli.rotary.types import ROPE_TYPES, own_parameters

#: Among the scaling keys of every rope type.
COMMON = frozenset(
    {
        "rope_type",
        "type",
        "rope_theta",
        "partial_rotary_factor",
        "mrope_section",
        "mrope_interleaved",
        "xdrope_section",
    }
)
#: Keys of one stack, or of the code of one model.
ELSEWHERE = frozenset(
    {
        "apply_yarn_scaling",
        "attn_factor",
        "extrapolation_factor",
        "finetuned",
        "llama_4_scaling_beta",
        "long_mscale",
        "max_position_embeddings",
        ORIGINAL,
        "short_mscale",
    }
)
#: Arguments of formulas that no file has.
_OURS = frozenset({"sequence_length", "ramp"})
#: At the top level.
TOP = frozenset(
    {
        *ROTARY_KEYS,
        *ALIASES,
        *(name for names in ALIASES.values() for name in names),
        "global_head_dim",
        "layer_types",
        "local_rope_theta",
        "max_position_embeddings",
        "mrope_interleaved",
        "mrope_section",
        "no_rope_layer_interval",
        "no_rope_layers",
        "num_position_embeddings",
        ORIGINAL,
        "qk_head_dim",
        "qk_nope_head_dim",
        "rope_interleave",
        "rope_type",
        "rotary_emb_interleaved",
    }
)
#: Keys of other formats and places, by the key of a config.json that they stand for.
FOREIGN = {
    **dict.fromkeys(("rope_freq_base", "freq_base", "theta"), "rope_theta"),
    **dict.fromkeys(
        (
            *("rope_scaling_factor", "rope_scale_factor", "rope_scaling_type", "use_scaled_rope"),
            *("factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow"),
            *("short_factor", "long_factor", "attention_factor"),
        ),
        "rope_scaling",
    ),
}
#: Names long enough that a near miss is most likely a misspelling.
SPELT = tuple(name for name in sorted(TOP) if len(name) > 9)
MOST_NAMES = 256  #: Keys of one object that are looked at; real files have up to a hundred.
LONGEST_NAME = 64  #: Of a key that is looked at.


@cache
def of_type(rope_type: str) -> frozenset[str]:
    """Return the scaling keys that a rope type reads."""
    return frozenset(own_parameters(rope_type)) - _OURS | COMMON


@cache
def of_any_type() -> frozenset[str]:
    """Return the scaling keys that any rope type reads."""
    return frozenset().union(*map(of_type, ROPE_TYPES))


def intended_name(key: str, names: Iterable[str]) -> str | None:
    """Return the name that a misspelt key is close to; plurals and longer names are correct."""
    if len(key) > LONGEST_NAME:
        return None
    close = difflib.get_close_matches(key.lower(), names, n=1, cutoff=0.9)
    if (
        not close
        or key == f"{close[0]}s"
        or f"{close[0]}_" in f"{key}_"
        or f"_{close[0]}" in f"_{key}"
    ):
        return None
    return close[0]
