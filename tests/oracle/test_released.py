"""`identify` and `check` on released code: right ones are named and pass, wrong ones are caught."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import assert_within
from oracle.released import (
    EQUINOX,
    LITGPT_YARN,
    OFFSETS,
    ONE_THETA,
    RIGHT,
    XPOS,
    Case,
    failures,
    load,
    rotate,
    vectors,
)

import ropecli

pytestmark = pytest.mark.oracle

BFLOAT16: Any = ml_dtypes.bfloat16


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_identified(name: str) -> None:
    case, rotary = RIGHT[name], RIGHT[name].expect()
    x = vectors(rotary, case.rows)
    found = ropecli.identify(x, rotate(case, x, np.arange(case.rows)), np.arange(case.rows))
    assert found.recognised, found.reason
    assert found.rotary is not None
    # Written as it is read, or, as in DeepSeek-V3, into halves.
    assert found.rotary.pairs_in.tolist() == rotary.pairs_in.tolist()
    assert found.rotary.pairs_out.tolist() == rotary.pairs_out.tolist()
    assert found.direction == "forward"
    assert found.precision == case.precision
    # float32 keeps 2^-24 of it; what rounding hides in one row, 2,048 rows show.
    assert found.attention_factor == pytest.approx(rotary.attention_factor, rel=2.0**-22)
    assert found.rope_type == rotary.rope_type
    assert found.base == rotary.base
    assert found.inv_freq is not None
    # A table of float32, and one rounding of each of its steps more.
    np.testing.assert_allclose(found.inv_freq, rotary.inv_freq, rtol=2.0**-20)


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_passes(name: str) -> None:
    case = RIGHT[name]
    verdict = case.check(case.expect())
    assert failures(verdict) == set(), verdict.diagnosis
    assert verdict.identified is not None
    assert {"rotation", "convention", "long positions"} <= {
        each.name for each in verdict.checks if each.passed
    }


@pytest.mark.parametrize(
    "name", [name for name, case in RIGHT.items() if case.expect().rope_type == "default"]
)
def test_rotate_does_what_right_code_does(name: str) -> None:
    case, rotary, positions = RIGHT[name], RIGHT[name].expect(), np.arange(512)
    x = vectors(rotary, len(positions))
    first, second = rotary.pairs_in.T
    length = np.hypot(x[..., first], x[..., second]).astype(np.float64)
    # Ten roundings by 2^-24: cos, sin, two products and a sum in float32, on both sides. Angles are
    # float32 products of a float32 table, whose power's rounding ln(base) magnifies.
    assert rotary.base is not None
    roundings = 0.0 if case.precision == "exact" else 2 + np.log(rotary.base)
    bound = np.zeros(x.shape)
    bound[..., first] = bound[..., second] = length * (
        (10 + roundings * positions[:, None] * rotary.inv_freq) * 2.0**-24
    )
    got, expected = ropecli.rotate(x, rotary), rotate(case, x, positions)
    assert_within(name, got=got, expected=expected, tolerance=bound)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("Transformers Llama 3.1", "torchtune Llama 3.1"),
        ("Transformers Gemma 3, full", "Transformers Gemma 3, sliding"),
        ("ONNX Runtime, half", "ONNX Runtime, interleaved"),
        ("torchtune Qwen2", "torchtune Phi-3"),
    ],
)
def test_right_code_is_not_taken_for_another(name: str, other: str) -> None:
    verdict = RIGHT[name].check(RIGHT[other].expect(), dtypes=["float32"], context_length=1024)
    assert "convention" in failures(verdict)
    assert "rotation" not in failures(verdict)


def test_inverted_yarn_of_litgpt_is_found_and_named() -> None:
    verdict = LITGPT_YARN.check(LITGPT_YARN.expect())
    assert failures(verdict) == {"convention"}
    assert verdict.diagnosis is not None
    assert "ramp is upside down" in verdict.diagnosis
    # Fast pairs divided by the factor, slow ones kept: the other way round.
    found, right = verdict.identified, LITGPT_YARN.expect()
    assert found is not None
    assert found.inv_freq is not None
    unscaled = 10_000.0 ** (-np.arange(32) / 32)
    np.testing.assert_allclose(unscaled[[0, -1]] / found.inv_freq[[0, -1]], [40, 1], rtol=1e-4)
    np.testing.assert_allclose(unscaled[[0, -1]] / right.inv_freq[[0, -1]], [1, 40], rtol=1e-4)


def test_equinox_keeps_the_first_theta_for_all() -> None:
    clear_equinox()
    verdict = EQUINOX.check(EQUINOX.expect())
    assert failures(verdict) == {"two instances"}
    assert verdict.diagnosis is not None
    assert "two instances of the same size share" in verdict.diagnosis
    assert "theta" in verdict.diagnosis


def test_equinox_with_one_theta_is_right() -> None:
    clear_equinox()
    verdict = ONE_THETA.check(ONE_THETA.expect())
    assert failures(verdict) == set(), verdict.diagnosis
    assert verdict.identified is not None
    assert verdict.identified.base == 10_000


def test_equinox_is_identified_by_the_theta_that_counts() -> None:
    import jax.numpy as jnp

    x = vectors(EQUINOX.expect(), EQUINOX.rows)[0, 0]
    clear_equinox()
    for theta in (10_000.0, 500_000.0):
        y = np.asarray(EQUINOX.function(theta=theta).prefill(jnp.asarray(x)))
        found = ropecli.identify(x, y)
        assert (found.layout, found.rope_type, found.base) == ("half", "default", 10_000)
    clear_equinox()
    y = np.asarray(EQUINOX.function(theta=500_000.0).prefill(jnp.asarray(x)))
    assert ropecli.identify(x, y).base == 500_000


def test_positions_of_half_precision_in_rotary_embedding_torch() -> None:
    load.cache_clear()  # a module that has turned float32 data keeps their positions
    verdict = OFFSETS.check(OFFSETS.expect(), dtypes=["bfloat16"], context_length=8192)
    assert "long positions" in failures(verdict)
    assert verdict.diagnosis is not None
    assert "positions are rounded to bfloat16" in verdict.diagnosis
    load.cache_clear()
    verdict = OFFSETS.check(OFFSETS.expect(), dtypes=["float32"], context_length=8192)
    assert failures(verdict) == set(), verdict.diagnosis


def test_positions_of_half_precision_are_identified() -> None:
    import torch

    load.cache_clear()
    x = vectors(OFFSETS.expect(), 1024).astype(BFLOAT16)
    given = torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    y = OFFSETS.function(given, torch.arange(1024)).view(torch.int16).numpy().view(BFLOAT16)
    found = ropecli.identify(x, y, np.arange(1024))
    assert (found.layout, found.base, found.precision) == (
        "interleaved",
        10_000,
        "bfloat16 positions",
    )


def test_rotary_embedding_torch_keeps_positions_of_half_precision_for_float32() -> None:
    import torch

    load.cache_clear()
    x = vectors(OFFSETS.expect(), 1024)
    OFFSETS.function(torch.from_numpy(x).bfloat16(), torch.arange(1024))
    found = ropecli.identify(x, rotate(OFFSETS, x, np.arange(1024)), np.arange(1024))
    assert found.precision is not None
    assert "bfloat16 positions" in found.precision


def test_xpos_is_refused_as_such() -> None:
    x = vectors(XPOS.expect(), XPOS.rows)
    found = ropecli.identify(x, rotate(XPOS, x, np.arange(XPOS.rows)), np.arange(XPOS.rows))
    assert not found.recognised
    assert found.reason is not None
    assert "as in xPos" in found.reason
    verdict = XPOS.check()
    assert {"rotation"} <= failures(verdict)
    assert verdict.diagnosis is not None
    assert "as in xPos" in verdict.diagnosis


def clear_equinox() -> None:
    """Tables are kept for the whole process."""
    import equinox

    equinox.clear_caches()


def test_every_case_has_a_function() -> None:
    for case in (*RIGHT.values(), EQUINOX, ONE_THETA, LITGPT_YARN, OFFSETS, XPOS):
        assert isinstance(case, Case)
        assert callable(case.function)
