"""Tables that stacks computed, from tests/data/stacks; its README says how it was measured."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
from helpers import ROOT

from ropecli.models.diff import FLOAT32
from ropecli.rotary import Rotary

FOLDER = ROOT / "tests" / "data" / "stacks"
#: Kimi K2 without its scaling.
KIMI_K2: dict[str, Any] = {
    "model_type": "kimi_k2",
    "hidden_size": 7168,
    "num_attention_heads": 64,
    "num_hidden_layers": 61,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "max_position_embeddings": 262_144,
    "rope_theta": 50_000.0,
}


@cache
def lines(stack: str) -> list[dict[str, Any]]:
    """Return the measurements of a stack."""
    text = (FOLDER / f"{stack}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def apart(got: Any, expected: Any) -> float:
    """Return the largest relative difference of two tables; infinity if their lengths differ."""
    a, b = np.asarray(got, dtype=float), np.asarray(expected, dtype=float)
    if a.shape != b.shape:
        return float("inf")
    scale = np.where(b == 0, 1.0, np.abs(b))
    return float(np.max(np.abs(a - b) / scale, initial=0.0))


def one_axis(rotary: Rotary) -> Any:
    """Return the inverse frequencies of an axial rotation's first axis."""
    return rotary.diagonal_inv_freq[np.array(rotary.axis) == 0]


def same_angles(rotary: Rotary, theta: list[float]) -> bool:
    """Return whether a rotation turns by angles that were measured at position 1, modulo 2 pi.

    The table is float32, and each angle is that of a cosine and a sine in float32, which are
    within 2^-24 of the true ones relative to 1 and the sine relative to itself.
    """
    if len(theta) != rotary.rotary_dim // 2:
        return False
    turned = rotary.diagonal_inv_freq * (1 if rotary.direction == "forward" else -1)
    off = np.abs(np.angle(np.exp(1j * (np.array(theta) - turned))))
    return bool(np.all(off <= FLOAT32 * np.abs(turned) + 2**-22 * np.minimum(np.abs(turned), 1)))
