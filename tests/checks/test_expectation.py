"""Expectations: only what was given, read or must hold can fail; what is assumed is reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import assert_refused, read_json, read_output
from hypothesis import given
from hypothesis import strategies as st
from implementations.plain import half, inv_freq, turn
from judging import check_here, failures

import ropecli
from ropecli import Rotary
from ropecli.checks.expectation import GIVEN, PROPERTIES, Expectation

DIM = 16
QUICK: dict[str, Any] = {
    "head_dim": DIM,
    "dtypes": ["float32"],
    "context_length": 512,
    "select": ["rotation", "convention"],
}
Array = np.ndarray[Any, Any]

KERNEL = """
import numpy as np

def rope(x, positions, base={base}, width={dim}):
    half = width // 2
    angle = positions[:, None] * base ** (-np.arange(half) / half)
    a, b, cos, sin = x[..., :half], x[..., half:width], np.cos(angle), np.sin(angle)
    parts = [a * cos - b * sin, a * sin + b * cos, x[..., width:]]
    return np.concatenate(parts, axis=-1).astype(x.dtype)
"""


def by(base: float, dim: int = DIM) -> Callable[..., Array]:
    """Return a right half-split kernel of a base, which rotates the first coordinates."""

    def rotate(x: Array, positions: Array) -> Array:
        turned = turn(x[..., :dim], positions, inv_freq(dim, base), half)
        return np.concatenate([turned, x[..., dim:]], axis=-1)

    return rotate


def given_of(**values: Any) -> Expectation:
    """Return an expectation of these values alone, with our defaults in place of others."""
    return Expectation.of_parameters(Rotary(DIM, **values), values)


@pytest.mark.parametrize(
    ("expect", "kernel"),
    [
        (given_of(base=500_000.0), by(500_000.0)),
        (given_of(base=500_000.0), by(500_000.0, dim=8)),
        (given_of(rotary_dim=8), by(500_000.0, dim=8)),
        (given_of(layout="half"), by(500_000.0, dim=8)),
        (given_of(layout="half", base=500_000.0), by(500_000.0)),
        ("any", by(1000.0)),
    ],
    ids=["base", "base of a part", "rotary dim", "layout", "layout and base", "any"],
)
def test_what_nobody_gave_may_be_any(expect: Any, kernel: Callable[..., Array]) -> None:
    assert check_here(kernel, expect=expect, **QUICK).passed


@pytest.mark.parametrize(
    ("expect", "kernel", "words"),
    [
        (given_of(base=500_000.0), by(10_000.0), "base 10000, expected 500000"),
        (given_of(rotary_dim=8), by(500_000.0), "rotary dim 16, expected 8"),
        (given_of(layout="interleaved"), by(500_000.0), "layout half, expected interleaved"),
        (Rotary(DIM), by(10_000.0), "layout half, expected interleaved"),
    ],
    ids=["base", "rotary dim", "layout", "all"],
)
def test_what_was_given_is_required(expect: Any, kernel: Callable[..., Array], words: str) -> None:
    verdict = check_here(kernel, expect=expect, **QUICK)
    assert failures(verdict) == ["convention"]
    assert verdict.diagnosis is not None
    assert words in verdict.diagnosis


@given(
    st.sets(st.sampled_from(["rotary_dim", "layout", "base"])),
    st.sampled_from([(8, "half", 1e4), (16, "interleaved", 5e5), (4, "interleaved", 100.0)]),
)
def test_a_candidate_has_what_is_required_and_otherwise_what_was_found(
    names: set[str], found: tuple[int, str, float]
) -> None:
    wanted = Rotary(DIM, rotary_dim=12, layout="half", base=1e6)
    rotary_dim, layout, base = found
    seen = Rotary(DIM, rotary_dim=rotary_dim, layout=layout, base=base)
    expected = Expectation.of_parameters(wanted, names)
    (candidate,) = expected.candidates(seen) or [seen]
    for name in ("rotary_dim", "layout", "base"):
        source = wanted if name in names else seen
        assert getattr(candidate, name) == getattr(source, name)
    plain = Rotary(DIM, rotary_dim=candidate.rotary_dim, base=candidate.base or 0.0)
    assert np.allclose(candidate.inv_freq, plain.inv_freq, rtol=1e-15)


def test_a_type_without_a_base_has_the_base_that_was_found() -> None:
    wanted = ropecli.rope("linear", head_dim=DIM, factor=4.0)
    expected = Expectation.of_parameters(wanted, ["rope_type"])
    seen = ropecli.rope("linear", head_dim=DIM, factor=2.0, rope_theta=5e5, layout="half")
    (candidate,) = expected.candidates(seen)
    right = ropecli.rope("linear", head_dim=DIM, factor=4.0, rope_theta=5e5, layout="half")
    assert candidate == right


def test_the_whole_of_an_encoding_is_itself() -> None:
    rope = Rotary(DIM, layout="half", attention_factor=1.25)
    assert Expectation.whole(rope).candidates(Rotary(DIM)) == [rope]
    assert Expectation.whole(rope).grounds == dict.fromkeys(PROPERTIES, GIVEN)


# Positions.


def one_late(x: Array, positions: Array) -> Array:
    return by(10_000.0)(x, positions + 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("expect", "law", "words"),
    [
        (
            "any",
            "rotation",
            "positions come out shifted by 1: position 0 is rotated as position 1, expected 0",
        ),
        (Rotary(DIM, layout="half"), "convention", "positions are off by +1"),
    ],
)
def test_positions_that_are_given_and_come_out_shifted_fail(
    expect: Any, law: str, words: str
) -> None:
    verdict = check_here(one_late, expect=expect, **QUICK)
    assert failures(verdict) == [law]
    assert verdict.diagnosis == words
    assert check_here(one_late, expect=expect, offset=1, **QUICK).passed
    assert not check_here(by(10_000.0), expect=expect, offset=1, **QUICK).passed


@pytest.mark.parametrize("expect", ["any", Rotary(DIM, layout="half")])
def test_code_that_counts_positions_itself_may_begin_anywhere(expect: Any) -> None:
    def rotate(x: Array) -> Array:
        return one_late(x, np.arange(x.shape[-2]))

    verdict = check_here(rotate, expect=expect, **QUICK)
    assert verdict.passed
    assert "positions start at 1: the first token is rotated as position 1" in verdict.findings


# The command.


def kernel(folder: Path, base: float = 10_000.0, dim: int = DIM) -> str:
    (folder / "mine.py").write_text(KERNEL.format(base=base, dim=dim))
    return f"{folder}/mine.py:rope"


def run_check(*words: object, code: int = 0) -> tuple[dict[str, Any], str]:
    """Return the result of a quick check, and its page."""
    select = ["--select", "rotation", "--select", "convention"]
    given_words = ["check", *map(str, words), "--dtype", "float32", "--context", "256", *select]
    document = read_json(*given_words, code=code)
    page, _ = read_output(*given_words, code=code, COLUMNS="80")
    return document["result"], page


@pytest.mark.slow
def test_nothing_expected_is_said_in_the_first_line(tmp_path: Path) -> None:
    result, page = run_check(kernel(tmp_path, 1000.0), "--dim", DIM)
    assert page.splitlines()[0].endswith(
        "dim 16, base 1000, half (nothing expected: --model or --base compares it)"
    )
    assert result["expected"] == {"offset": {"value": 0.0, "ground": "must"}}


@pytest.mark.slow
def test_the_base_alone_is_required_where_it_alone_is_given(tmp_path: Path) -> None:
    target = kernel(tmp_path, 500_000.0)
    result, page = run_check(target, "--dim", DIM, "--base", 500_000)
    assert "  expected  base 500000 (given); any layout and rotary dim\n" in page
    assert result["expected"]["base"] == {"value": 500_000.0, "ground": "given"}
    assert "layout" not in result["expected"]


CONFIG = {"model_type": "llama", "rope_theta": 5e5, "head_dim": DIM, "hidden_size": 4 * DIM}


@pytest.mark.slow
def test_a_model_is_required_as_a_stack_reads_it(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    model = tmp_path / "config.json"
    result, _ = run_check(kernel(tmp_path, 500_000.0), "--model", model)
    assert result["expected"]["layout"]["ground"].startswith("as transformers 5.")
    result, _ = run_check(kernel(tmp_path, 10_000.0), "--model", model, code=1)
    assert "base 10000, expected 500000" in result["diagnosis"]


@pytest.mark.slow
def test_what_only_an_unknown_class_decides_can_not_fail(tmp_path: Path) -> None:
    model = tmp_path / "config.json"
    model.write_text(json.dumps(CONFIG | {"model_type": "nemotron_x"}))
    interleaved = tmp_path / "theirs.py"
    text = KERNEL.format(base=500_000.0, dim=DIM).replace("x[..., :half]", "x[..., 0::2]")
    text = text.replace("x[..., half:width]", "x[..., 1::2]").replace(
        "return np.concatenate(parts, axis=-1)",
        "return np.stack(parts[:2], axis=-1).reshape(x.shape)",
    )
    interleaved.write_text(text)
    result, page = run_check(f"{interleaved}:rope", "--model", model)
    assert result["identified"]["layout"] == "interleaved"
    assert not {"layout", "rotary_dim"} & result["expected"].keys()
    assert "any layout and rotary dim" in " ".join(page.split())
    result, _ = run_check(kernel(tmp_path, 10_000.0), "--model", model, code=1)
    assert "base 10000, expected 500000" in result["diagnosis"]


def test_a_model_that_leaves_nothing_to_require_is_refused(tmp_path: Path) -> None:
    model = tmp_path / "config.json"
    keys = {
        "model_type": "nemotron_x",
        "head_dim": DIM,
        "rope_scaling": None,
        "rope_parameters": {},
    }
    model.write_text(json.dumps(keys))
    line = assert_refused("check", kernel(tmp_path), "--model", model)
    assert "config.json leaves nothing to compare with: " in line


def test_a_test_must_say_what_it_expects(tmp_path: Path) -> None:
    from ropecli.testing import assert_rope

    with pytest.raises(ropecli.ArgumentError, match="a test must say what it expects") as error:
        assert_rope(by(1000.0), **QUICK)
    for each in ("expect=Rotary", "model=", 'expect="any"'):
        assert each in str(error.value)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert assert_rope(by(500_000.0), model=tmp_path, **QUICK).passed
    with pytest.raises(AssertionError, match="base 1000"):
        assert_rope(by(1000.0), model=tmp_path, **QUICK)
    with pytest.raises(ropecli.ArgumentError, match="either expect or model"):
        assert_rope(by(1000.0), "any", model=tmp_path, **QUICK)


# Defaults that an author wrote.


def with_defaults(
    x: Array, positions: Array, rotary_dim: int = 8, theta: float = 1e6, half_split: bool = True
) -> Array:
    return by(theta, rotary_dim)(x, positions)


def by_the_whole_head(x: Array, positions: Array, rotary_dim: int = 8) -> Array:
    """Right if all coordinates are rotated: the second halves are where those of a head are."""
    count, middle = rotary_dim // 2, x.shape[-1] // 2
    parts = x[..., :count], x[..., middle : middle + count]
    turned = turn(np.concatenate(parts, axis=-1), positions, inv_freq(rotary_dim), half)
    y = x.copy()
    y[..., :count], y[..., count:rotary_dim] = turned[..., :count], turned[..., count:]
    return y


class WithDefaults:
    def __init__(self, dim: int = 32, base: float = 500_000.0) -> None:
        self.theta, self.dim = inv_freq(dim, base), dim

    def __call__(self, x: Array, positions: Array) -> Array:
        return turn(x[..., : self.dim], positions, self.theta, half)


def ignoring(x: Array, positions: Array, theta: float = 1e6) -> Array:
    return by(10_000.0)(x, positions)


def check_defaults(target: Any, expect: Any = "any", **options: Any) -> Any:
    return check_here(target, expect=expect, **{**QUICK, "head_dim": None, **options})


def test_a_default_is_judged_as_its_author_wrote_it() -> None:
    verdict = check_defaults(with_defaults, head_dim=DIM)
    assert verdict.passed
    assert (verdict.identified.base, verdict.identified.rotary_dim) == (1e6, 8)
    wrong = check_defaults(by_the_whole_head, head_dim=DIM)
    assert "rotation" in failures(wrong)
    assert check_defaults(by_the_whole_head, head_dim=DIM, init={"rotary_dim": DIM}).passed


@pytest.mark.slow
def test_the_head_dim_is_the_default_of_the_code_unless_one_is_given() -> None:
    verdict = check_defaults(WithDefaults)
    assert (verdict.passed, verdict.head_dim) == (True, 32)
    assert verdict.convention.call == "WithDefaults()(x, positions)"
    verdict = check_defaults(WithDefaults, head_dim=DIM)
    assert (verdict.passed, verdict.head_dim) == (True, DIM)
    assert verdict.convention.call == "WithDefaults(dim=head_dim)(x, positions)"
    assert check_defaults(with_defaults).head_dim == 64


@pytest.mark.slow
@pytest.mark.parametrize("target", [with_defaults, WithDefaults])
def test_an_option_is_passed_by_name_in_place_of_a_default(target: Any) -> None:
    verdict = check_defaults(target, given_of(base=20_000.0))
    assert verdict.passed
    assert verdict.identified.base == 20_000.0
    assert "=base" in verdict.convention.call
    verdict = check_defaults(ignoring, given_of(base=20_000.0))
    assert failures(verdict) == ["convention"]
    # Of a whole encoding the code's own default is judged.
    whole = Rotary(DIM, base=20_000.0, layout="half")
    assert failures(check_defaults(with_defaults, whole)) == ["convention"]
