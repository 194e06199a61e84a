"""Every option of every encoding: the values that its laws are judged at."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ropecli.encodings import Encoding
from ropecli.encodings.by_name import option_names, with_options
from ropecli.errors import ArgumentError
from ropecli.rotary.rotary import Rotary

#: Values of each option next to the encoding's own. All combinations are judged.
VALUES: dict[str, dict[str, tuple[Any, ...]]] = {
    "alibi": {"absolute": (False, True)},
    "cope": {"p_max": (1, 3), "as_listed": (False, True)},
    "deberta": {"clip": (1, 3), "shared": (False, True), "as_printed": (False, True)},
    "fire": {"c": (2.0,), "threshold": (8.5,)},
    "kerple": {"kind": ("log", "power")},
    "learned": {"length": (16,)},
    "nope": {},
    "pope": {"base": (100.0,)},
    "rope": {"rotary": ()},  # `_other_rotary`
    "shaw": {"clip": (1, 3), "as_printed": (False, True)},
    "sinusoidal": {
        "order": ("interleaved", "concatenated"),
        "exponent": ("2t/d", "2t/(d-2)"),
    },
    "t5": {"num_buckets": (12,), "max_distance": (20,), "bidirectional": (False, True)},
    "transformer_xl": {"as_printed": (False, True)},
    "tupe": {"length": (16,), "untie_cls": (False, True)},
    "xpos": {"base": (100.0,), "scale_base": (64.0,), "gamma": (1.0,)},
}
LARGEST_P_MAX = 256  #: The reference adds up every gate for every key.
#: Numbers of heads at which ALiBi's slopes change their rule.
ALIBI_HEADS = (1, 2, 3, 8, 12, 20)
#: KERPLE's weights below, between and above what they are clamped to, a head each.
KERPLE_R1 = (-1.0, 0.005, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
KERPLE_R2 = (3.0, 2.5, 2.0, 1.5, 1.0, 0.5, 0.005, -1.0)


def variants(encoding: Encoding, given: Mapping[str, Any]) -> Iterator[tuple[str, Encoding]]:
    """Yield the encoding, then those of its class with other options, and which these are."""
    name = encoding.name
    options = {
        key: tuple(dict.fromkeys((getattr(encoding, key), *more)))
        for key, more in VALUES[name].items()
        if key not in given
    }
    for values in itertools.product(*options.values()):
        chosen = dict(zip(options, values, strict=True))
        other = {key: v for key, v in chosen.items() if v != getattr(encoding, key)}
        words = ", ".join(f"{key} = {value}" for key, value in other.items())
        made = with_options(encoding, **chosen) if other else encoding
        yield words, made
        before = f"{words}, " if words else ""
        if name == "alibi":
            for heads in ALIBI_HEADS:
                sizes = replace(encoding.sizes, heads=heads)
                yield f"{before}heads = {heads}", with_options(made, sizes=sizes)
        if name == "kerple":
            clamped = with_options(made, sizes=replace(encoding.sizes, heads=len(KERPLE_R1)))
            weights = {"r1": np.array(KERPLE_R1), "r2": np.array(KERPLE_R2)}
            both = f"{before}r1 = {KERPLE_R1}, r2 = {KERPLE_R2}"
            yield both, replace(clamped, weights={**clamped.weights, **weights})
    if name == "rope" and "rotary" not in given:
        rotary = _other_rotary(encoding.sizes.head_dim)
        yield f"rotary = {rotary!r}", with_options(encoding, rotary=rotary)


def _other_rotary(head_dim: int) -> Rotary:
    """Return a rotation that differs from the paper's in every respect."""
    return Rotary(
        head_dim=head_dim,
        rotary_dim=max(2, head_dim // 4 * 2),
        layout="half",
        base=500.0,
        direction="reversed",
        attention_factor=1.25,
    )


def check_options(encoding: Encoding) -> None:
    """Refuse options of which the laws say nothing."""
    p_max = getattr(encoding, "p_max", 1)
    if p_max > LARGEST_P_MAX:
        raise ArgumentError(f"p_max must be at most {LARGEST_P_MAX} for this, got {p_max}")
    rotary = getattr(encoding, "rotary", None)
    if encoding.name == "rope" and rotary is not None and rotary.grows:
        raise ArgumentError("rotary must not change lengths; the encoding xpos does")


def reference_options(encoding: Encoding) -> dict[str, Any]:
    """Return the options as the reference takes them."""
    if encoding.name != "rope":
        return {key: getattr(encoding, key) for key in option_names(type(encoding))}
    rotary: Rotary | None = getattr(encoding, "rotary", None)
    if rotary is None:
        return {}
    return {"turns": turns_of(rotary, rotary.pairs_in), "softmax_factor": rotary.softmax_factor}


def turns_of(rotary: Rotary, pairs: Any) -> list[tuple[int, int, float, float]]:
    """Return coordinates, theta and attention factor of each pair."""
    sign = 1.0 if rotary.direction == "forward" else -1.0
    return [
        (int(i), int(j), sign * float(theta), rotary.attention_factor)
        for (i, j), theta in zip(pairs, rotary.diagonal_inv_freq, strict=True)
    ]
