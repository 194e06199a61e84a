"""What `check` refuses to judge at all, as the caller's mistake."""

from __future__ import annotations

from typing import Any

import pytest
from eight import ROPE, judged, plain

import ropecli
from ropecli.checks.implementation.check import check


class Module:
    """A right one, as a class."""

    def __init__(self, base: float = 10_000.0) -> None:
        self.base = base

    def forward(self, x: Any, positions: Any) -> Any:
        return plain(x, positions)


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        (
            lambda q, k, p: None,
            {"form": "score"},
            "form score needs to know what is expected, got nothing: scores alone do not show "
            "which RoPE it is",
        ),
        (
            Module(),
            {"form": "module", "init": {"base": 2e4}},
            "init needs a class with form module, got a Module",
        ),
        (
            plain,
            {"form": "module", "init": {"base": 2e4}},
            "init needs a class with form module, got a function",
        ),
        (Module(), {"form": "decoder"}, "form decoder takes a class, got a Module"),
        (
            Module,
            {"form": "decoder", "axes": 2},
            "form decoder counts positions of one axis, got axes 2",
        ),
        (plain, {"axes": 0}, "axes must be at least 1, got 0"),
        (plain, {"axes": -1}, "axes must be at least 1, got -1"),
    ],
    ids=[
        "scores", "init of an instance", "init of a function", "a made decoder",
        "axes of a decoder", "no axes", "fewer axes",
    ],
)  # fmt: skip
def test_what_is_not_allowed(target: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ropecli.ArgumentError) as error:
        judged(target, **options)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"expect": "half"}, "expect must be a Rotary, got 'half'"),
        ({"init": [1]}, "init must be a mapping, got [1]"),
        ({"init": {1: 2}}, "init must have names as keys, got 1"),
        ({"form": ["apply"]}, "form must be a string, got ['apply']"),
        ({"tables": None}, "tables must be a string, got None"),
        ({"framework": ["numpy"]}, "framework must be a string, got ['numpy']"),
        ({"device": 0}, "device must be a string, got 0"),
        ({"dtypes": [["a"]]}, "dtypes must be a string, got ['a']"),
        ({"dtypes": 32}, "dtypes must be a sequence of strings, got 32"),
        ({"axes": 1.5}, "axes must be an integer, got 1.5"),
        ({"seed": "0"}, "seed must be an integer, got '0'"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_arguments_of_the_wrong_type(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ropecli.ArgumentTypeError) as error:
        judged(plain, **options)
    assert str(error.value) == message


def test_one_dtype_needs_no_list() -> None:
    verdict = judged(plain, dtypes="float64", expect=ROPE)
    assert verdict.passed
    assert {each.dtype for each in verdict.checks} == {"float64"}


def test_a_signature_of_the_targets_own_may_fail() -> None:
    class Odd:
        @property
        def __signature__(self) -> Any:
            msg = "not yet"
            raise RuntimeError(msg)

        def __call__(self, x: Any, positions: Any) -> Any:
            return plain(x, positions)

    assert judged(Odd()).passed


def test_a_framework_that_can_not_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> Any:
        msg = f"lib{name}.so: cannot open shared object file"
        raise OSError(msg)

    monkeypatch.setattr("ropecli.checks.implementation.framework.importlib.import_module", broken)
    with pytest.raises(ropecli.ArgumentError, match=r"needs PyTorch: .*libtorch\.so"):
        check(plain, framework="torch")
