"""`check` of code of other encodings than RoPE: causes by name, options, budget and reports."""

from __future__ import annotations

import json
import math
import resource
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from encodings_faults import FAULTS, plant
from encodings_right import (
    RIGHT,
    Added,
    Array,
    buckets,
    concatenated,
    grid_of_mae,
    interleaved,
    learned_from_two,
    over_fewer,
    slopes,
    symmetric,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import ropecli
from ropecli.checks.encoding.check import EncodingVerdict
from ropecli.checks.encoding.identify import identify_bias, identify_table
from ropecli.checks.implementation.calling.find import CallError
from ropecli.errors import ArgumentError
from ropecli.testing import assert_encoding


def _check(code: Any, encoding: str, **options: Any) -> EncodingVerdict:
    verdict = ropecli.check(code, encoding=encoding, **{"isolated": False, **options})
    assert isinstance(verdict, EncodingVerdict)
    return verdict


def _of_next_power(heads: int) -> Array:
    return np.asarray(2.0 ** (-8 * np.arange(1, heads + 1) / 2 ** math.ceil(math.log2(heads))))


def _rows_first(dim: int, grid_size: int) -> Array:
    return np.roll(grid_of_mae(dim, grid_size), dim // 2, axis=1)


CAUSES = [
    ("interleaved", "sin and cos are exchanged", "sin and cos are exchanged"),
    ("alibi", "negated", "the sign is +, expected -"),
    ("alibi", "heads are reversed", "slopes are in reverse order"),
    ("slopes", "all heads are the first", "all heads have the first head's slope"),
    ("t5", "weights: doubled", "the bias is multiplied by 2"),
    ("t5", "weights: negated", "the bias is multiplied by -1"),
    ("buckets", "the sign is turned", "distances are query minus key, expected key minus query"),
    ("buckets", "the last bucket is never used", "the last bucket is never used"),
    ("log_buckets", "the sign is turned", "distances are key minus query, expected query minus"),
    ("kerple", "two weights are exchanged", "r1 and r2 are exchanged"),
    ("transformer_xl", "two weights are exchanged", "u and v are exchanged"),
    ("deberta", "two weights are exchanged", "position keys and position queries are exchanged"),
    ("cope", "divided by d", "divided by d, expected sqrt(d)"),
    ("rel_shift", "keys are one late", "the shift is one short"),
]


@pytest.mark.parametrize(("name", "fault", "cause"), CAUSES)
def test_cause_is_named(name: str, fault: str, cause: str) -> None:
    code = plant(RIGHT[name], FAULTS[fault][1])
    verdict = _check(code, RIGHT[name].encoding, select=["formula"])
    assert verdict.passed is False
    assert (verdict.diagnosis or "").startswith(cause)


def test_slopes_of_the_next_power_are_named_with_their_number() -> None:
    verdict = _check(_of_next_power, "alibi", set={"heads": 12})
    said = (
        "slopes of 12 heads are those of 16, the first 12: the slope of head 0 of 12 is 0.7071068"
    )
    assert verdict.diagnosis == f"{said}, expected 0.5"


@pytest.mark.slow
def test_rows_first_and_columns_first_are_told_apart() -> None:
    for code, first, release in ((grid_of_mae, "columns", "MAE"), (_rows_first, "rows", "AIMv2")):
        verdict = _check(code, "sinusoidal")
        assert verdict.passed
        assert verdict.reading == f"{first} first"
        assert verdict.released == release
        assert verdict.options["first"] == first


@pytest.mark.parametrize(
    ("code", "encoding", "required", "said"),
    [
        (over_fewer, "sinusoidal", {"exponent": "d"}, "exponent d - 2, expected d"),
        (concatenated, "sinusoidal", {"order": "interleaved"}, "order sin | cos, expected inter"),
        (learned_from_two, "learned", {"start": 0}, "start 2, expected 0"),
        (symmetric, "alibi", {"distance": "past"}, "distance symmetric, expected past"),
        (grid_of_mae, "sinusoidal", {"first": "rows"}, "first columns, expected rows"),
    ],
)
def test_a_released_variant_fails_where_another_one_is_required(
    code: Any, encoding: str, required: dict[str, Any], said: str
) -> None:
    free = _check(code, encoding, select=["formula"])
    assert free.passed
    assert free.released
    (key,) = required
    same = _check(code, encoding, select=["formula"], set={key: free.options[key]})
    assert same.passed
    assert same.required == {key: free.options[key]}
    other = _check(code, encoding, select=["formula"], set=required)
    assert other.passed is False
    assert (other.diagnosis or "").startswith(said)


def test_settings_that_are_required_are_handed_over() -> None:
    verdict = _check(buckets, "t5", set={"num_buckets": 64, "bidirectional": False})
    assert verdict.passed
    assert "num_buckets=num_buckets" in verdict.call
    assert "bidirectional=bidirectional" in verdict.call


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"encoding": "alibo"}, "did you mean alibi?"),
        ({"encoding": "alibi", "set": {"head": 3}}, "has no option 'head'; it has bias_max, dim"),
        ({"encoding": "alibi", "expect": "any"}, "expect has no effect on encoding alibi"),
        ({"encoding": "alibi", "offset": 3}, "offset has no effect on encoding alibi"),
        (
            {"encoding": "alibi", "select": ["rotation"]},
            "check must be one of distances, dtypes, formula",
        ),
        ({"encoding": "alibi", "seed": -1}, "seed must be"),
    ],
)
def test_unusable_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        ropecli.check(slopes, isolated=False, **options)
    assert said in str(raised.value)


def test_parameters_that_no_name_explains_are_given() -> None:
    def odd(number: int, flip: bool) -> Any:
        return slopes(number) if flip is True else None

    with pytest.raises(ropecli.RopecliError, match=r"no call of .* returns a bias or slopes"):
        _check(odd, "alibi")
    assert _check(odd, "alibi", init={"flip": True}).passed
    verdict = _check(odd, "alibi", call="odd(heads, True)")
    assert verdict.passed
    assert verdict.call == "odd(heads, True)"


@pytest.mark.slow
def test_what_the_budget_leaves_out_is_unknown() -> None:
    def slow(heads: int) -> Array:
        time.sleep(0.2)
        return slopes(heads)

    verdict = _check(slow, "alibi", budget=0.3)
    assert verdict.passed is None
    assert verdict.unfinished
    assert verdict.unfinished.endswith("of 7 checks in 0.3 s")


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["sin and cos are exchanged", "wraps at 512"])
def test_failing_call_is_saved_with_what_it_must_return(tmp_path: Path, fault: str) -> None:
    """A fault that all calls show, and one that only some show."""
    file = tmp_path / "failure.npz"
    code = plant(RIGHT["at_positions"], FAULTS[fault][1])
    verdict = _check(code, "sinusoidal", save_failure=file)
    assert verdict.notes[-1] == f"a failing call is in {file}"
    with np.load(file) as saved:
        again = code(saved["positions"], int(saved["dim"]))
        assert (np.abs(again - saved["expected"]) > saved["tolerance"]).any()
        right = RIGHT["at_positions"].code(saved["positions"], int(saved["dim"]))
        assert (np.abs(right - saved["expected"]) <= saved["tolerance"]).all()
        assert "at_positions answers wrongly" in str(saved["call"])


def test_right_code_saves_nothing(tmp_path: Path) -> None:
    assert _check(slopes, "alibi", save_failure=tmp_path / "failure.npz").passed
    assert not [*tmp_path.iterdir()]


def test_assert_encoding_returns_the_verdict_or_raises_with_the_page() -> None:
    options = {"isolated": False}
    assert assert_encoding(slopes, "alibi", heads=12, options=options).required == {"heads": 12}
    with pytest.raises(AssertionError) as raised:
        assert_encoding(_of_next_power, "alibi", heads=12, options=options)
    assert str(raised.value).splitlines()[0].endswith("is not ALiBi (slopes)")
    assert "Slopes of 12 heads are those of 16, the first 12" in str(raised.value)


def test_reports_have_the_failing_check(tmp_path: Path) -> None:
    junit, sarif = tmp_path / "check.xml", tmp_path / "check.sarif"
    with pytest.raises(AssertionError):
        assert_encoding(
            _of_next_power,
            "alibi",
            heads=12,
            junit=junit,
            sarif=sarif,
            options={"isolated": False},
        )
    cases = ElementTree.parse(junit).getroot().iter("testcase")
    failed = [case for case in cases if case.find("failure") is not None]
    assert [case.get("name") for case in failed] == ["formula (float32)"]
    (run,) = json.loads(sarif.read_text())["runs"]
    assert "those of 16, the first 12" in run["results"][0]["message"]["text"]


def test_code_is_called_with_the_same_arguments_that_it_gets() -> None:
    """A layer that adds its table: what is judged is what it adds."""
    verdict = _check(Added, "sinusoidal")
    assert verdict.form == "table"
    assert "x" in verdict.call


@pytest.mark.slow
def test_memory_stays_small() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name in ("t5", "fire", "alibi"):
        assert _check(RIGHT[name].code, RIGHT[name].encoding).passed
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 1_000_000  # KiB


@given(
    base=st.sampled_from([100.0, 500.0, 10_000.0, 500_000.0]),
    order=st.sampled_from(["interleaved", "sin | cos", "cos | sin"]),
    exponent=st.sampled_from(["d", "d - 2"]),
    start=st.integers(0, 3),
    pairs=st.integers(4, 32),
)
@settings(max_examples=25)
def test_identify_recovers_any_sinusoidal_table(
    base: float, order: str, exponent: str, start: int, pairs: int
) -> None:
    below = pairs if exponent == "d" else pairs - 1
    angles = np.outer(np.arange(start, start + 200), base ** (-np.arange(pairs) / below))
    parts = [np.sin(angles), np.cos(angles)]
    if order == "interleaved":
        table = np.stack(parts, -1).reshape(200, -1)
    else:
        table = np.hstack(parts if order.startswith("sin") else parts[::-1])
    found = identify_table(table.astype(np.float32))
    assert found.encoding == "sinusoidal"
    assert found.options["base"] == pytest.approx(base, rel=1e-3)
    assert (found.options["order"], found.options["exponent"]) == (order, exponent)
    assert found.options["start"] == start


@given(heads=st.integers(1, 40), queries=st.integers(3, 12), more=st.integers(0, 5))
@settings(max_examples=25)
def test_identify_recovers_alibi_of_any_number_of_heads(
    heads: int, queries: int, more: int
) -> None:
    distance = np.arange(queries + more) - np.arange(queries)[:, None]
    bias = -slopes(heads)[:, None, None] * np.abs(distance)
    found = identify_bias(bias.astype(np.float32))
    assert found.encoding == "alibi"
    assert found.said.startswith(f"ALiBi of {heads} heads")
    assert found.options == {"slopes": "authors", "distance": "symmetric"}


def test_identify_says_that_other_numbers_may_be_learned() -> None:
    random = np.random.default_rng(0)
    table = random.standard_normal((40, 16))
    assert identify_table(table).said == "no formula gives these numbers: it may be learned"
    nearly = interleaved(40, 16) + np.where(np.arange(40) == 33, 0.01, 0)[:, None]
    assert identify_table(nearly).encoding is None
    by_distance = random.standard_normal(23)[np.arange(12) - np.arange(12)[:, None] + 11]
    assert identify_bias(by_distance).said.startswith("a bias by distance that no formula gives")
    assert identify_bias(random.standard_normal((2, 9, 9))).said.startswith("not a bias by dist")


def test_code_may_be_named_like_what_it_takes() -> None:
    def heads(heads: int) -> Any:
        return slopes(heads)

    def dim(length: int, dim: int, base: float = 10_000.0) -> Any:
        angle = np.arange(length)[:, None] / base ** (2 * np.arange(dim // 2) / dim)
        return np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)

    assert ropecli.check(heads, encoding="alibi", isolated=False).passed
    verdict = ropecli.check(dim, encoding="sinusoidal", isolated=False)
    assert verdict.passed
    assert verdict.call == "target(length, dim)"
    assert {check.name for check in verdict.checks if check.passed} > {"formula", "settings"}


def test_a_call_of_parameters_that_say_nothing_needs_to_be_explained() -> None:
    def right(foo: int) -> Any:
        return slopes(foo)

    def wrong(foo: int) -> Any:
        return slopes(foo) + 1

    def nothing() -> Any:
        return np.zeros((5, 8))

    assert ropecli.check(right, encoding="alibi", isolated=False).passed
    for code, encoding in ((wrong, "alibi"), (nothing, "sinusoidal")):
        with pytest.raises(CallError, match=f"no call of {code.__name__} returns"):
            ropecli.check(code, encoding=encoding, isolated=False)
