"""The verdict as a whole: arguments, what applies, and encodings out of the ordinary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import mark_slow, slow

from ropecli import ArgumentError, ArgumentTypeError, Rotary, rotate, verify
from ropecli.checks.law import Check
from ropecli.checks.rotation_laws import LAWS
from ropecli.checks.verify import join
from ropecli.rotary.apply import SMALL

ROPES = {
    "two coordinates": Rotary(head_dim=2),
    "partial": Rotary(head_dim=16, rotary_dim=6, rotary_offset=5, layout="half"),
    "stretched": Rotary(head_dim=8, attention_factor=1.3689),
    "stretched a lot": Rotary(head_dim=8, attention_factor=300.0),
    "shrunk a lot": Rotary(head_dim=8, attention_factor=1e-3),
    "reversed": Rotary(head_dim=8, direction="reversed"),
    "a table with zeros": Rotary.from_inv_freq([1.0, 0.25, 0.0], head_dim=8, layout="half"),
    "listed pairs": Rotary(head_dim=8, pairs_in=[[7, 0], [1, 6], [5, 2], [3, 4]]),
    "reordered output": Rotary(head_dim=8, pairs_out=[[0, 4], [1, 5], [2, 6], [3, 7]]),
    "large base": Rotary(head_dim=8, base=1e9),
    "base below 1": Rotary(head_dim=8, base=1e-30),
    "pairs of two axes": Rotary.from_inv_freq(np.random.default_rng(0).standard_normal((2, 8))),
    "axes that cancel": Rotary.from_inv_freq([[1.0, 0.5], [-0.99, 0.5], [0.3, -0.9]]),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    mark_slow(
        ROPES, quick=("partial", "a table with zeros", "reordered output", "pairs of two axes")
    ),
)
def test_the_built_in_rotation_holds_every_law(name: str) -> None:
    result = verify(ROPES[name])
    assert [check for check in result.checks if check.passed is False] == []
    assert result.passed


@pytest.mark.parametrize("seed", [1, *slow(2, 3)])
@pytest.mark.parametrize("max_position", [1, 5000, 10**6, 2**49])
def test_at_other_positions_and_seeds(seed: int, max_position: int) -> None:
    result = verify(Rotary(head_dim=8), dtype="float32", seed=seed, max_position=max_position)
    assert result.passed
    assert (result.seed, result.max_position) == (seed, max_position)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_half_precision_is_rotated_on_one_thread(
    layout: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rope, sizes = Rotary(head_dim=64, layout=layout), dict[str, list[int]]()

    def record(x: Any, *arguments: Any) -> Any:
        sizes.setdefault(x.dtype.name, []).append(x.size)
        return rotate(x, *arguments)

    monkeypatch.setattr("ropecli.checks.verify.built_in_rotate", record)
    assert verify(rope).passed
    most = {name: max(each) for name, each in sizes.items()}
    assert most["float64"] == most["float32"] > SMALL
    assert most["float16"] == most["bfloat16"] == SMALL


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_on_several_threads(layout: Any, dtype: str) -> None:
    rope, sizes = Rotary(head_dim=64, layout=layout), list[int]()

    def rotate_at_once(x: Any, positions: Any) -> Any:
        sizes.append(x.size)
        return rotate(x, rope, positions)

    result = verify(rope, dtype=dtype, rotate=rotate_at_once)
    assert result.passed
    assert max(sizes) > SMALL
    one_thread = verify(rope, dtype=dtype)
    assert [each.max_error for each in result.checks] == [e.max_error for e in one_thread.checks]


def test_every_law_is_judged_in_every_dtype_or_says_why_not() -> None:
    result = verify(Rotary(head_dim=8))
    assert len(result.checks) == 4 * len(LAWS)
    for check in result.checks:
        assert check.because
        assert check.expected == "holds"
        assert (check.passed is None) == (check.samples == 0) == bool(check.note)


def test_the_same_seed_gives_the_same_verdicts() -> None:
    first, second = (verify(Rotary(head_dim=8), dtype="float32", seed=5) for _ in range(2))
    assert first.checks == second.checks
    assert first.checks != verify(Rotary(head_dim=8), dtype="float32", seed=6).checks


def test_joined_verdicts() -> None:
    good = verify(Rotary(head_dim=4), dtype="float64")
    bad = verify(Rotary(head_dim=4), dtype="float64", rotate=lambda x, _: 2 * x)
    both = join([good, bad])
    assert len(both.checks) == len(good.checks) + len(bad.checks)
    assert good.passed
    assert not both.passed


def test_share_of_a_check() -> None:
    def share(error: float, tolerance: float) -> float:
        return Check(
            name="x", equation="1", dtype="float64", layout="half", expected="holds",
            passed=True, max_error=error, tolerance=tolerance, samples=1, because="y",
        ).share  # fmt: skip

    assert share(1.0, 4.0) == 0.25
    assert share(0.0, 0.0) == 0
    assert share(1e-300, 0.0) == np.inf


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"dtype": "int8"}, ArgumentError, "must be one of float64, float32, float16, bfloat16, "),
        ({"seed": -1}, ArgumentError, "seed must be at least 0, got -1"),
        ({"max_position": 0}, ArgumentError, "max position must be from 1 to 2\\^49, got 0"),
        ({"max_position": 2**50}, ArgumentError, "max position must be from 1 to 2\\^49"),
        ({"seed": 1.5}, ArgumentTypeError, "seed must be an integer, got 1.5"),
        ({"max_position": "far"}, ArgumentTypeError, "max position must be an integer"),
        ({"rotate": lambda x, _: x[:, :2]}, ArgumentTypeError, "must return a NumPy array"),
        ({"rotate": lambda x, _: x.tolist()}, ArgumentTypeError, "must return a NumPy array"),
    ],
)
def test_arguments_that_are_refused(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        verify(Rotary(head_dim=4), **arguments)


@pytest.mark.parametrize(
    ("table", "layout", "note"),
    [
        ([4.0, 1.0], "half", "layout half, expected interleaved"),
        ([-4.0, -1.0], "interleaved", "direction reversed, expected forward"),
        ([4.0, 1.5], "interleaved", "frequencies: pair 1 turns by 1.5 radians per position"),
    ],
)
def test_pairs_that_make_more_than_half_a_turn(table: list[float], layout: str, note: str) -> None:
    """One position shows an angle up to whole turns."""
    other = Rotary.from_inv_freq(np.abs(table), head_dim=4, layout=layout)
    sign = np.sign(table[0])
    result = verify(
        Rotary.from_inv_freq([4.0, 1.0], head_dim=4),
        dtype="float64",
        rotate=lambda x, positions: rotate(x, other, sign * positions),
    )
    (check,) = [each for each in result.checks if each.name == "kernel = reference"]
    assert str(check.note).startswith(note)
