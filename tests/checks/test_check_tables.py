"""Form "tables": cos and sin by the length of the sequence, by axes, and left as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from eight import failed, judged, of
from halves import rotate_half
from implementations.plain import Array

import ropecli


def apply(q: Array, k: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
    """As Hugging Face applies its tables, (batch, sequence, dim)."""
    cos, sin = np.expand_dims(cos, 1), np.expand_dims(sin, 1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


DYNAMIC = ropecli.rope(
    "dynamic", head_dim=8, layout="half", factor=2.0, max_position_embeddings=128
)
LONG = ropecli.rope(
    "longrope",
    head_dim=8,
    layout="half",
    short_factor=(1.0, 1.1, 1.2, 1.3),
    long_factor=(1.0, 2.0, 4.0, 8.0),
    original_max_position_embeddings=128,
    max_position_embeddings=512,
)
AXES = ropecli.Rotary(head_dim=8, layout="half", axis=(0, 0, 1, 1))


@pytest.mark.parametrize("expect", [DYNAMIC, LONG, AXES], ids=["dynamic", "longrope", "axes"])
def test_tables_are_those_of_the_sequence(expect: ropecli.Rotary) -> None:
    verdict = judged(apply, form="tables", expect=expect)
    assert failed(verdict) == []
    assert of(verdict, "long positions")[0].passed


def test_batches_are_judged_with_axes_too() -> None:
    verdict = judged(apply, form="tables", expect=AXES)
    assert of(verdict, "left padding")[0].passed


def plain_tables(q: Array, k: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
    """Tables (sequence, dim) alone."""
    assert cos.ndim == 2
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def test_tables_without_a_batch_may_have_axes() -> None:
    assert failed(judged(plain_tables, form="tables", expect=AXES)) == []


def writing(name: str) -> Any:
    def target(q: Array, k: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
        turned = apply(q, k, cos, sin)
        if q.shape[-2] == 6:  # in no other call
            {"q": q, "k": k, "cos": cos, "sin": sin}[name][...] += 1
        return turned

    return target


@pytest.mark.parametrize("name", ["q", "k", "cos", "sin"])
def test_no_argument_is_written_into(name: str) -> None:
    verdict = judged(writing(name), form="tables")
    assert failed(verdict) == ["input untouched"]
    (law,) = of(verdict, "input untouched")
    assert law.note == f"{name} is written into"
    assert str(law.counterexample).startswith(f"{name}[0, 0, 0")
