"""The forms of a target other than function(x, positions), and frameworks other than NumPy."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from halves import DIM, HALF, Array, Module, failed, rotate_half, turn

import ropecli
from ropecli.checks.implementation.check import check

INTERLEAVED = ropecli.Rotary(head_dim=DIM)
OPTIONS: dict[str, Any] = {"head_dim": DIM, "context_length": 2048}


def test_a_class_is_made_with_its_arguments() -> None:
    assert failed(check(Module, form="module", expect=HALF, **OPTIONS)) == []
    other = check(Module, form="module", expect=HALF, init={"base": 500_000.0}, **OPTIONS)
    assert set(failed(other)) == {"convention"}
    assert other.diagnosis is not None
    assert "base 500000" in other.diagnosis


def test_an_instance_may_be_given_itself() -> None:
    assert failed(check(Module(), form="module", **OPTIONS)) == []


def test_a_class_without_a_call_is_refused() -> None:
    verdict = check(dict, form="module", **OPTIONS)
    assert verdict.diagnosis == "it can't be called: it has neither forward nor __call__"


class Decoder:
    """Right, but for steps without a prefill, or after one."""

    late: tuple[bool, ...] = ()  #: Where steps are wrong: after a prefill, or not.

    def __init__(self) -> None:
        self.length = 0
        self.prefilled = False

    def prefill(self, x: Array) -> Array:
        self.length, self.prefilled = x.shape[-2], True
        return turn(x, np.arange(self.length))

    def step(self, x: Array) -> Array:
        turned = turn(x, np.array([self.length + (self.prefilled in self.late)]))
        self.length += 1
        return turned


def test_a_decoder_is_fed_token_by_token() -> None:
    right = check(Decoder, form="decoder", expect=HALF, **OPTIONS)
    assert failed(right) == []
    unasked = {c.name for c in right.checks if c.note == "a decoder counts its positions itself"}
    assert "gaps in positions" in unasked


@pytest.mark.parametrize("late", [(False,), (True,), (False, True)])
def test_steps_follow_a_prefill_or_none(late: tuple[bool, ...]) -> None:
    kind = type("Kind", (Decoder,), {"late": late})
    wrong = check(kind, form="decoder", expect=HALF, dtypes=["float32"], **OPTIONS)
    assert "token by token" in failed(wrong)
    assert wrong.diagnosis is not None
    assert "token" in wrong.diagnosis


def transformers(q: Array, k: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
    """As Hugging Face applies its tables, (batch, sequence, dim)."""
    cos, sin = np.expand_dims(cos, 1), np.expand_dims(sin, 1)
    q_turned = (q * cos + rotate_half(q) * sin).astype(q.dtype)
    return q_turned, (k * cos + rotate_half(k) * sin).astype(k.dtype)


def plain_tables(q: Array, k: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
    """Tables (sequence, pairs), interleaved pairs."""
    assert cos.ndim == 2

    def turned(x: Array) -> Array:
        y = np.empty_like(x)
        y[..., ::2] = x[..., ::2] * cos - x[..., 1::2] * sin
        y[..., 1::2] = x[..., ::2] * sin + x[..., 1::2] * cos
        return y

    return turned(q), turned(k)


def test_tables_are_applied() -> None:
    assert failed(check(transformers, form="tables", expect=HALF, **OPTIONS)) == []
    single = check(plain_tables, form="tables", tables="single", expect=INTERLEAVED, **OPTIONS)
    assert failed(single) == []


def test_tables_for_the_other_layout_break_the_rotation() -> None:
    verdict = check(transformers, form="tables", tables="interleaved", **OPTIONS)
    assert {"rotation", "norm"} <= set(failed(verdict))


def test_keys_must_be_turned_as_queries_are() -> None:
    def queries_alone(q: Array, k: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
        return transformers(q, k, cos, sin)[0], k

    verdict = check(queries_alone, form="tables", **OPTIONS)
    assert verdict.diagnosis is not None
    assert "came out different" in verdict.diagnosis


def test_a_missing_framework_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ropecli.ArgumentError, match="needs JAX: pip install jax"):
        check(turn, framework="jax", **OPTIONS)


def test_jax_arrays_go_to_the_device_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX's own interface, as far as it is used, over NumPy arrays that can't be written to."""
    seen: set[str] = set()

    def device_put(array: Array, device: str) -> Array:
        seen.add(f"{device} {array.dtype}")
        array.flags.writeable = False
        return array

    fake = SimpleNamespace(
        config=SimpleNamespace(jax_enable_x64=False),
        devices=lambda name: [name or "first"],
        device_put=device_put,
    )
    monkeypatch.setitem(sys.modules, "jax", fake)
    verdict = check(turn, framework="jax", **OPTIONS)
    assert failed(verdict) == []
    assert seen == {"first float32", "first float16", "first bfloat16", "first int32"}
    with pytest.raises(ropecli.ArgumentError, match="float64 needs JAX's x64 mode"):
        check(turn, framework="jax", dtypes=["float64"], **OPTIONS)
