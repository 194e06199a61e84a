"""The forms of a target other than function(x, positions), and what they keep between calls."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

import ropecli
from ropecli.arrays import DTYPES
from ropecli.checks.target.check import check
from ropecli.checks.target.verdict import Verdict

Array = NDArray[Any]

DIM = 32
HALF = ropecli.Rotary(head_dim=DIM, layout="half")
INTERLEAVED = ropecli.Rotary(head_dim=DIM)
OPTIONS: dict[str, Any] = {"head_dim": DIM, "context_length": 2048}


def turn(x: Array, positions: Any, base: float = 10_000.0, stretch: float = 1.0) -> Array:
    theta = (base * stretch) ** (-np.arange(0, DIM, 2) / DIM)
    angle = np.asarray(positions, np.float64)[..., None] * theta
    if angle.ndim == 3 and x.ndim == 4:
        angle = angle[:, None]
    a, b = np.split(x.astype(np.float64), 2, axis=-1)
    c, s = np.cos(angle), np.sin(angle)
    return np.concatenate([a * c - b * s, b * c + a * s], axis=-1).astype(x.dtype)


def failures(verdict: Verdict) -> list[str]:
    return sorted({c.name for c in verdict.checks if c.passed is False})


class Module:
    def __init__(self, base: float = 10_000.0) -> None:
        self.base = base

    def forward(self, x: Array, positions: Array) -> Array:
        return turn(x, positions, self.base)


def test_a_class_is_made_with_its_arguments() -> None:
    assert failures(check(Module, form="module", expect=HALF, **OPTIONS)) == []
    other = check(Module, form="module", expect=HALF, init={"base": 500_000.0}, **OPTIONS)
    assert failures(other) == ["convention"]
    assert other.diagnosis is not None
    assert "base 500000" in other.diagnosis


def test_an_instance_may_be_given_itself() -> None:
    assert failures(check(Module(), form="module", **OPTIONS)) == []


def test_a_class_without_a_call_is_refused() -> None:
    verdict = check(dict, form="module", **OPTIONS)
    assert verdict.diagnosis == "it can't be called: it has neither forward nor __call__"


class SharedTable(Module):
    tables: ClassVar[dict[int, float]] = {}

    def forward(self, x: Array, positions: Array) -> Array:
        return turn(x, positions, self.tables.setdefault(x.shape[-1], self.base))


def test_a_cache_that_ignores_the_base_is_found() -> None:
    SharedTable.tables.clear()
    verdict = check(SharedTable, form="module", **OPTIONS)
    assert failures(verdict) == ["two instances"]
    assert verdict.diagnosis is not None
    assert "base counts for the first instance only" in verdict.diagnosis


def test_a_base_by_keyword_is_tried_on_functions_too() -> None:
    verdict = check(turn, **OPTIONS)
    (law,) = [c for c in verdict.checks if c.name == "two instances"]
    assert law.passed is True


class Stale(Module):
    """Keeps the stretch of the longest sequence."""

    longest = 0

    def forward(self, x: Array, positions: Array) -> Array:
        self.longest = max(self.longest, int(np.max(positions)) + 1)
        return turn(x, positions, self.base, max(1.0, self.longest / 256))


def test_a_stale_table_is_found() -> None:
    verdict = check(Stale, form="module", original_context_length=256, **OPTIONS)
    assert "long, short, long" in failures(verdict)
    assert verdict.diagnosis is not None
    assert "long call" in verdict.diagnosis


class Fresh(Module):
    """A table for each length, as dynamic types have: right."""

    def forward(self, x: Array, positions: Array) -> Array:
        length = int(np.max(positions)) + 1
        return turn(x, positions, self.base, max(1.0, length / 256))


def test_a_table_for_each_length_is_a_convention() -> None:
    class ByRow(Fresh):
        def forward(self, x: Array, positions: Array) -> Array:
            if positions.ndim == 1:
                return super().forward(x, positions)
            rows = zip(x, positions, strict=True)
            return np.stack([Fresh.forward(self, *row) for row in rows])

    verdict = check(ByRow, form="module", original_context_length=256, **OPTIONS)
    assert failures(verdict) == []
    long = next(c for c in verdict.checks if c.name == "long positions")
    assert long.note == "the frequencies change with the length of the sequence"


def test_one_too_early_is_found() -> None:
    class Early(Module):
        def forward(self, x: Array, positions: Array) -> Array:
            long = int(np.max(positions)) + 1 >= 256
            return turn(x, positions, self.base, 4.0 if long else 1.0)

    verdict = check(Early, form="module", original_context_length=256, **OPTIONS)
    assert "original length" in failures(verdict)


def test_counting_calls_is_found() -> None:
    class Counts(Module):
        calls = 0

        def forward(self, x: Array, positions: Array) -> Array:
            self.calls += 1
            return turn(x, positions + self.calls, self.base)

    verdict = check(Counts, form="module", **OPTIONS)
    assert "same twice" in failures(verdict)
    assert verdict.diagnosis is not None
    assert verdict.diagnosis.startswith("the same call gives another result")


def test_what_wears_out_after_some_calls_is_found() -> None:
    """A new instance would not show it."""

    class Wears(Module):
        calls = 0

        def forward(self, x: Array, positions: Array) -> Array:
            self.calls += 1
            return turn(x, positions, self.base, 1.0 if self.calls < 6 else 2.0)

    verdict = check(Wears, form="module", dtypes=["float32"], **OPTIONS)
    assert "same twice" in failures(verdict)


@pytest.mark.parametrize("first", ["float16", "bfloat16"])
def test_positions_kept_in_the_dtype_of_the_first_call_are_found(first: str) -> None:
    """All below 256 and 2,048 are right."""

    class Keeps(Module):
        kept: Any = None

        def forward(self, x: Array, positions: Array) -> Array:
            if self.kept is None:
                half = x.dtype == DTYPES[first]
                self.kept = x.dtype if half else np.dtype(np.float64)
            return turn(x, np.asarray(positions).astype(self.kept), self.base)

    verdict = check(
        Keeps, form="module", dtypes=["float32", first], **OPTIONS | {"context_length": 4096}
    )
    assert failures(verdict) == ["same twice"]
    assert verdict.diagnosis is not None
    assert f"what is kept has the dtype of the first call, {first}" in verdict.diagnosis


class Decoder:
    late = 0

    def prefill(self, x: Array) -> Array:
        self.length = x.shape[-2]
        return turn(x, np.arange(self.length))

    def step(self, x: Array) -> Array:
        self.length = getattr(self, "length", 0)
        turned = turn(x, np.array([self.length + self.late]))
        self.length += 1
        return turned


class Late(Decoder):
    late = 1


def test_a_decoder_is_fed_token_by_token() -> None:
    right = check(Decoder, form="decoder", expect=HALF, **OPTIONS)
    assert failures(right) == []
    unasked = {c.name for c in right.checks if c.note == "a decoder counts its positions itself"}
    assert "gaps in positions" in unasked
    wrong = check(Late, form="decoder", expect=HALF, **OPTIONS)
    assert "token by token" in failures(wrong)
    assert wrong.diagnosis is not None
    assert "token" in wrong.diagnosis


def rotate_half(x: Array) -> Array:
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([-b, a], axis=-1)


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
    assert failures(check(transformers, form="tables", expect=HALF, **OPTIONS)) == []
    single = check(plain_tables, form="tables", tables="single", expect=INTERLEAVED, **OPTIONS)
    assert failures(single) == []


def test_tables_for_the_other_layout_break_the_rotation() -> None:
    verdict = check(transformers, form="tables", tables="interleaved", **OPTIONS)
    assert {"rotation", "norm"} <= set(failures(verdict))


def test_keys_must_be_turned_as_queries_are() -> None:
    def queries_alone(q: Array, k: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
        return transformers(q, k, cos, sin)[0], k

    verdict = check(queries_alone, form="tables", **OPTIONS)
    assert verdict.diagnosis is not None
    assert "came out different" in verdict.diagnosis


def scores(factor: float) -> Any:
    def score(q: Array, k: Array, positions: Array) -> Array:
        q, k = (turn(x.astype(np.float64), positions) for x in (q, k))
        return factor * (q @ k.swapaxes(-1, -2)) / math.sqrt(DIM)

    return score


def test_scores_are_judged_with_their_factor() -> None:
    expect = ropecli.Rotary(head_dim=DIM, layout="half", softmax_factor=1.5)
    assert failures(check(scores(1.5), form="score", expect=expect, **OPTIONS)) == []
    verdict = check(scores(1.0), form="score", expect=expect, **OPTIONS)
    assert failures(verdict) == ["softmax factor"]
    assert verdict.diagnosis == "the softmax factor is wrong: softmax factor 1, expected 1.5"
    other = ropecli.Rotary(head_dim=DIM, softmax_factor=1.5)
    assert "score" in failures(check(scores(1.5), form="score", expect=other, **OPTIONS))


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
    assert failures(verdict) == []
    assert seen == {"first float32", "first float16", "first bfloat16", "first int32"}
    with pytest.raises(ropecli.ArgumentError, match="float64 needs JAX's x64 mode"):
        check(turn, framework="jax", dtypes=["float64"], **OPTIONS)
