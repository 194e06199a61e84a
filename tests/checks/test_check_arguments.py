"""Arguments that `check` refuses, and the frameworks it loads."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from judging import HALF, SMALL, Array, Module, failures, judge, judge_small, turn, turn_small

import ropecli
from ropecli.checks.implementation.check import check

INIT: dict[str, Any] = {"form": "module", "init": {"base": 2e4}}


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        (Module(), INIT, "init needs a class with form module, got a Module"),
        (turn, INIT, "init needs a class with form module, got a function"),
        (Module(), {"form": "decoder"}, "form decoder takes a class, got a Module"),
        (Module, {"form": "decoder", "axes": 2},
         "form decoder counts positions of one axis, got axes 2"),
        (turn, {"axes": 0}, "axes must be at least 1, got 0"),
        (turn, {"axes": -1}, "axes must be at least 1, got -1"),
        (turn, {"form": "call"},
         "form must be one of apply, tables, module, decoder, got 'call'"),
        (turn, {"framework": "cupy"},
         "framework must be one of numpy, torch, jax, mlx, got 'cupy'"),
        (turn, {"tables": "wide"}, "tables must be one of half, interleaved, single, got 'wide'"),
        (turn, {"head_dim": 7}, "head dim must be an even number of at least 2, got 7"),
        (turn, {"dtypes": ["int8"]},
         "dtypes must be of float64, float32, float16, bfloat16, got 'int8'"),
        (turn, {"dtypes": []}, "dtypes must name at least one, got none"),
        (turn, {"seed": -1}, "seed must be at least 0, got -1"),
        (turn, {"device": "cuda:0"}, "device must be cpu with numpy, got 'cuda:0'"),
        (turn, {"context_length": 0}, "context length must be from 1 to 2^53, got 0"),
        (turn, {"expect": HALF, "axes": 2}, "axes must be the 1 of what is expected, got 2"),
        (turn, {"select": ["axes"], "ignore": ["axes"]}, "no check is left to make"),
        (turn, {"tolerance": "loose"},
         "tolerance must be a number above 0 such as 1e-3, or 2ulp, or for one dtype "
         "float16=1e-3, got 'loose'"),
        (turn, {"tolerance": "0ulp"},
         "tolerance must be a number above 0 such as 1e-3, or 2ulp, or for one dtype "
         "float16=1e-3, got '0ulp'"),
        (turn, {"tolerance": {"bfloat16": 1e-2}, "dtypes": "float32"},
         "tolerance must be for a dtype of the data, float32, got 'bfloat16'"),
        (turn, {"tolerance": [1e-3, "float32=2ulp"], "dtypes": "float32"},
         "tolerance of float32 is given twice: 0.001 and 2ulp"),
        (turn, {"result_dtype": "int8"},
         "result dtype must be one of float64, float32, float16, bfloat16, got 'int8'"),
        (turn, {"expect": HALF, "head_dim": 64},
         "head dim must be the 32 of what is expected, got 64"),
    ],
)  # fmt: skip
def test_values_that_are_not_allowed(target: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ropecli.ArgumentError) as error:
        judge(target, **options)
    assert str(error.value) == message


@pytest.mark.parametrize("word", ["select", "ignore"])
def test_laws_that_are_not_known(word: str) -> None:
    options: dict[str, Any] = {word: "beauty"}
    with pytest.raises(ropecli.ArgumentError, match="got 'beauty'"):
        judge(turn, **options)


def test_laws_are_selected_and_ignored() -> None:
    verdict = judge_small(turn_small, select=["rotation", "axes", "same twice"], ignore="axes")
    assert [each.name for each in verdict.checks] == ["rotation", "same twice"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("two threads", "calls at the same time are not tried"),
        ("norm", "right rows imply it, and verify shows it"),
        ("score", "scores are not judged, and vectors show no factor"),
    ],
)
def test_laws_that_are_gone_say_where_they_went(name: str, words: str) -> None:
    with pytest.raises(ropecli.ArgumentError) as error:
        judge(turn, select=name)
    assert str(error.value) == f"check {name!r} is gone: {words}"


def test_xpos_is_refused() -> None:
    with pytest.raises(ropecli.ArgumentError, match="xPos is not a rotation"):
        check(turn, expect=ropecli.rope("xpos", head_dim=32))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"expect": "half"}, "expect must be a Rotary or \"any\", got 'half'"),
        ({"init": [1]}, "init must be a mapping, got [1]"),
        ({"init": {1: 2}}, "init must have names as keys, got 1"),
        ({"form": ["apply"]}, "form must be a string, got ['apply']"),
        ({"tables": 2}, "tables must be a string, got 2"),
        ({"framework": ["numpy"]}, "framework must be a string, got ['numpy']"),
        ({"device": 0}, "device must be a string, got 0"),
        ({"dtypes": [["a"]]}, "dtypes must be a string, got ['a']"),
        ({"dtypes": 32}, "dtypes must be a sequence of strings, got 32"),
        ({"axes": 1.5}, "axes must be an integer, got 1.5"),
        ({"seed": "0"}, "seed must be an integer, got '0'"),
    ],
)
def test_arguments_of_the_wrong_type(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ropecli.ArgumentTypeError) as error:
        judge(turn, **options)
    assert str(error.value) == message


def test_one_dtype_needs_no_list() -> None:
    verdict = judge_small(turn_small, dtypes="float64", expect=SMALL)
    assert verdict.passed
    assert {each.dtype for each in verdict.checks} == {"float64"}


def test_a_signature_of_the_targets_own_may_fail() -> None:
    class Odd:
        @property
        def __signature__(self) -> Any:
            raise RuntimeError("not yet")

        def __call__(self, x: Array, positions: Array) -> Array:
            return turn_small(x, positions)

    assert judge_small(Odd()).passed


def test_a_missing_framework_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ropecli.ArgumentError, match="needs JAX: pip install jax"):
        judge(turn, framework="jax")


def test_a_framework_that_can_not_be_loaded(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "libtorch.so: cannot open shared object file"
    (tmp_path / "torch.py").write_text(f"raise OSError({words!r})")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(ropecli.ArgumentError, match=r"needs PyTorch: .*libtorch\.so"):
        judge(turn, framework="torch")


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
    assert failures(judge(turn, framework="jax", context_length=2048)) == []
    assert seen == {"first float32", "first float16", "first bfloat16", "first int32"}
    with pytest.raises(ropecli.ArgumentError, match="float64 needs JAX's x64 mode"):
        judge(turn, framework="jax", dtypes=["float64"])


def test_a_first_position_that_some_pairs_alone_follow_is_not_left_out_of_the_call() -> None:
    """Without it every row is right; with it the numbers are those of other rows."""

    def first_pair(x: Array, start_pos: int = 0) -> Array:
        counted = np.arange(x.shape[-2])
        y = turn_small(x, counted)
        y[..., :2] = turn_small(x, start_pos + counted)[..., :2]
        return y

    verdict = judge_small(first_pair, select=["rotation", "offset positions"])
    assert failures(verdict) == ["offset positions"]
