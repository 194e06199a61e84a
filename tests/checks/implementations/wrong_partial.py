"""Rotary dims: too many, too few, elsewhere, or with the other rule's exponents."""

from __future__ import annotations

from typing import Any

import numpy as np
from implementations import intended
from implementations.case import Wrong
from implementations.plain import Array, half, interleaved, inv_freq, turn


def exponents_over_the_head(x: Array, positions: Array) -> Array:
    """theta^(-2i/head_dim) where theta^(-2i/rotary_dim) belongs."""
    return turn(x, positions, inv_freq(x.shape[-1])[: x.shape[-1] // 8], half)


def everything(x: Array, positions: Array) -> Array:
    """partial_rotary_factor dropped."""
    return turn(x, positions, inv_freq(x.shape[-1]), half)


def half_of_it(x: Array, positions: Array) -> Array:
    """The rotary dim halved twice: its first half turns."""
    return turn(x, positions, inv_freq(x.shape[-1] // 8), half)


def partial_for_proportional(x: Array, positions: Array) -> Array:
    """Gemma 4's share read as a rotary dim: pairs and exponents of a smaller head."""
    return turn(x, positions, inv_freq(x.shape[-1] // 4, 1_000_000.0), half)


def proportional_table_on_first_slice(x: Array, positions: Array) -> Array:
    """The table is right to the last bit, the coordinates it is applied to are not."""
    theta = inv_freq(x.shape[-1], 1_000_000.0)[: x.shape[-1] // 8]
    return turn(x, positions, theta, half)


def pairs_across_the_head(x: Array, positions: Array) -> Array:
    """Partial's exponents, but coordinate i is paired with i + head_dim/2."""
    theta = np.zeros(x.shape[-1] // 2)
    theta[: x.shape[-1] // 8] = inv_freq(x.shape[-1] // 4)
    return turn(x, positions, theta, half)


def first_for_last(x: Array, positions: Array) -> Array:
    """[rope | nope] where the model has [nope | rope]."""
    return turn(x, positions, inv_freq(x.shape[-1] // 4), interleaved)


def last_for_first(x: Array, positions: Array) -> Array:
    start = x.shape[-1] * 3 // 4
    y = x.copy()
    y[..., start:] = turn(x[..., start:], positions, inv_freq(x.shape[-1] // 4), half)
    return y


def rest_dropped(x: Array, positions: Array) -> Array:
    """What is not rotated comes back as 0."""
    y = np.zeros_like(x)
    n = x.shape[-1] // 4
    y[..., :n] = turn(x[..., :n], positions, inv_freq(n), half)
    return y


def parts_swapped(x: Array, positions: Array) -> Array:
    """Put together again in the wrong order: the rotated part comes first."""
    start = x.shape[-1] * 3 // 4
    turned = turn(x[..., start:], positions, inv_freq(x.shape[-1] // 4), interleaved)
    return np.append(turned, x[..., :start], axis=-1)


def every_fourth(x: Array, positions: Array) -> Array:
    """Split with a stride: every fourth coordinate is rotated."""
    y = x.copy()
    y[..., ::4] = turn(x[..., ::4], positions, inv_freq(x.shape[-1] // 4), half)
    return y


def case(name: str, thread: str, target: Any, means: Any, says: str) -> Wrong:
    return Wrong(
        name=name, thread=thread, target=target, intended=means, laws=("convention",), says=says
    )


CASES = (
    case(
        "exponents over the head",
        "pie-project/pie#603",
        exponents_over_the_head,
        intended.PARTIAL,
        "frequencies",
    ),
    case(
        "partial factor dropped",
        "AI-Hypercomputer/maxtext#4616",
        everything,
        intended.PARTIAL,
        "64",
    ),
    case(
        "half of the rotary dim", "vllm-project/vllm#43770", half_of_it, intended.PARTIAL, "rotary"
    ),
    case(
        "partial for proportional",
        "apple/coreai-models#66",
        partial_for_proportional,
        intended.PROPORTIONAL,
        "16",
    ),
    case(
        "right table on the wrong coordinates",
        "labscommunity/cascadia#69",
        proportional_table_on_first_slice,
        intended.PROPORTIONAL,
        "16",
    ),
    case(
        "pairs across the head",
        "huggingface/transformers#48682",
        pairs_across_the_head,
        intended.PARTIAL,
        "pair",
    ),
    case(
        "first for last", "huggingface/transformers#48633", first_for_last, intended.TRAILING, "48"
    ),
    case("last for first", "AI-Hypercomputer/maxtext#4742", last_for_first, intended.PARTIAL, "48"),
    case(
        "every fourth coordinate",
        "apache/tvm#18102",
        every_fourth,
        intended.PARTIAL,
        "pair",
    ),
    Wrong(
        name="rest dropped",
        thread="huggingface/transformers#45776",
        target=rest_dropped,
        intended=intended.PARTIAL,
        told=False,
        laws=("rotation", "norm"),
        says="0",
    ),
    Wrong(
        name="parts swapped",
        thread="xLLM-AI/xllm#853",
        target=parts_swapped,
        intended=intended.TRAILING,
        laws=("convention", "rotation"),
        says="48",
    ),
)
