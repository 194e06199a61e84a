"""Measured properties of encodings: against theory, and of encodings made to be wrong."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers import assert_within
from numba import config
from numpy.typing import NDArray

from ropecli import ArgumentError, ArgumentTypeError, Rotary, rope
from ropecli.analyses.invariance import Invariance, Property, invariance
from ropecli.encodings import ENCODINGS, Encoding, Sizes, Theory, encoding
from ropecli.encodings.encoding import dots, projections

COMPILED = not config.DISABLE_JIT
SIZES: dict[str, Any] = {"model_dim": 16 if COMPILED else 8, "heads": 2}

Array = NDArray[np.float64]
FIELDS = {
    "translation_invariant": "translation_invariance",
    "symmetric": "symmetry",
    "bounded": "boundedness",
    "decaying": "decay",
    "linear_shift": "linear_shift",
}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Biased(Encoding):
    """q . k / sqrt(d) and what a function makes of the positions, to try one property at a time."""

    name: ClassVar[str] = "biased"
    equation: ClassVar[str] = "none"
    default_theory: ClassVar[Theory] = Theory(
        translation_invariant=None,
        symmetric=None,
        bounded=None,
        decaying=None,
        linear_shift=None,
    )
    bias: Any

    @classmethod
    def shapes(cls, sizes: Sizes, **options: Any) -> dict[str, tuple[int, ...]]:
        return projections(sizes)

    def _scores(self, x_query: Array, x_key: Array, m: Array, n: Array) -> Array:
        content = dots(self._queries(x_query), self._keys(x_key)) * self._scale
        biased: Array = content + self.bias(m[:, None], n[None, :])
        return biased


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Coded(Biased):
    """With a code for each position."""

    codes: Any

    def code(self, positions: Any) -> Array:
        made: Array = self.codes(np.asarray(positions))
        return made


def invariance_of_bias(bias: Any) -> Invariance:
    made = encoding("nope", model_dim=16, heads=2)
    return invariance(Biased(sizes=made.sizes, weights=made.weights, bias=bias))


def linear_shift_of(codes: Any) -> Property:
    made = encoding("nope", model_dim=16, heads=2)
    kind = Coded(sizes=made.sizes, weights=made.weights, bias=lambda m, _: 0 * m, codes=codes)
    return invariance(kind).linear_shift


@pytest.mark.parametrize("seed", [0, 1] if COMPILED else [0])
@pytest.mark.parametrize("name", ENCODINGS)
def test_measurement_and_theory_agree(name: str, seed: int) -> None:
    found = invariance(encoding(name, **SIZES, seed=seed), seed=seed)
    assert found.agrees, {k: p for k, p in found.properties.items() if not p.agrees}
    assert found.name == name


@pytest.mark.parametrize(
    ("name", "field"),
    [
        (name, field)
        for name in ("nope", "rope", "sinusoidal")
        for field in FIELDS
        if (name, field) != ("nope", "linear_shift")  # it has no code that could be measured
    ],
)
def test_a_wrong_theory_is_reported(name: str, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = encoding(name, **SIZES)
    wrong = dataclasses.replace(made.theory, **{field: not getattr(made.theory, field)})
    monkeypatch.setattr(type(made), "theory", wrong)
    found = invariance(made)
    assert not found.agrees
    assert [key for key, each in found.properties.items() if not each.agrees] == [FIELDS[field]]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("alibi", {"absolute": True}),
        ("fire", {"threshold": 3000.0}),
        ("kerple", {"kind": "power"}),
        ("t5", {"bidirectional": False}),
        ("deberta", {"as_printed": True}),
        ("sinusoidal", {"order": "concatenated", "exponent": "2t/(d-2)"}),
        ("rope", {"rotary": rope("linear", head_dim=8, factor=4.0, layout="half")}),
        ("rope", {"rotary": rope("default", head_dim=8, rotary_dim=4)}),
        ("rope", {"rotary": Rotary.from_inv_freq([0.0, 0.0], head_dim=8)}),
        ("rope", {"rotary": rope("xpos", head_dim=8)}),
        (
            "rope",
            {
                "rotary": rope(
                    "yarn", head_dim=8, factor=16.0, original_max_position_embeddings=4096
                )
            },
        ),
        ("xpos", {"scale_base": 64.0}),
    ],
)
def test_theory_follows_the_options(name: str, options: dict[str, Any]) -> None:
    found = invariance(encoding(name, model_dim=16, heads=2, **options))
    assert found.agrees, {k: p for k, p in found.properties.items() if not p.agrees}


@pytest.mark.parametrize(
    ("bias", "expected"),
    [
        (
            lambda m, n: -0.5 * (m - n),
            {
                "translation_invariance": True,
                "symmetry": False,
                "boundedness": False,
                "decay": True,
                "linear_shift": None,
            },
        ),
        (lambda m, n: -0.5 * np.abs(m - n), {"symmetry": True, "decay": True}),
        (lambda m, n: 0.01 * m + 0 * n, {"translation_invariance": False}),
        # What happens far out alone is seen.
        (
            lambda m, n: np.where(m > 500, 0.01 * (m - 500), 0.0) + 0 * n,
            {"translation_invariance": False, "symmetry": False},
        ),
        (lambda m, n: 0 * (m - n), {"decay": False}),
        (lambda m, n: -(m - n) + 1.5 * (m - n > 30), {"decay": False}),  # one step up
        (
            lambda m, n: np.where(n > m, -np.inf, 0.0),
            {"translation_invariance": True, "symmetry": False, "boundedness": True},
        ),
        (
            lambda m, n: np.where(m == n, np.nan, 0.0),
            {
                "translation_invariance": False,
                "symmetry": False,
                "boundedness": False,
                "decay": False,
                "linear_shift": None,
            },
        ),
    ],
)
def test_properties_of_a_bias(bias: Any, expected: dict[str, bool | None]) -> None:
    found = invariance_of_bias(bias).properties
    assert {name: found[name].holds for name in expected} == expected


@pytest.mark.parametrize(
    ("bias", "name", "error"),
    [
        (lambda m, n: -0.5 * (m - n), "decay", -0.5),
        # Of 24 tokens, the two ends change places: twice a half of 23.
        (lambda m, n: -0.5 * (m - n), "symmetry", 23.0),
        # Each score grows by a hundredth of the shift; the far one is the larger, and by more than
        # its tolerance, which grows with the last position, is: 1009 of it.
        (lambda m, n: 0.01 * m + 0 * n, "translation_invariance", 10.09),
        (lambda m, n: 0 * (m - n), "decay", 0.0),
        (lambda m, n: -(m - n) + 1.5 * (m - n > 30), "decay", 0.5),
        (lambda m, n: np.where(n > m, -np.inf, 0.0), "symmetry", np.inf),
    ],
)
def test_error_of_a_bias(bias: Any, name: str, error: float) -> None:
    """The bias is exact, and the scores are rounded: at most the tolerance, twice a rounding."""
    found = invariance_of_bias(bias).properties[name]
    assert found.tolerance is not None
    assert found.max_error is not None
    if not error or np.isinf(error):
        assert found.max_error == error
    else:
        tolerance = abs(found.tolerance)
        assert_within(name, got=found.max_error, expected=error, tolerance=tolerance)


def test_a_stretch_that_only_some_tokens_show_is_found() -> None:
    stretching = rope("xpos", head_dim=8)
    found = invariance(encoding("rope", model_dim=16, heads=2, rotary=stretching))
    assert found.translation_invariance.holds
    assert found.boundedness.holds is False
    assert found.agrees
    # Pair 0 is stretched most, by (1.4 / 0.4)^(48 / 512) where the key stands 48 further on; the
    # tokens that show it have a query and a key of length 1 in a head of 8.
    expected = ((1.4 / 0.4) ** (48 / 512) - 1) / np.sqrt(8)
    assert found.boundedness.tolerance is not None
    assert_within(
        "stretch",
        got=found.boundedness.max_error or 0.0,
        expected=expected,
        tolerance=found.boundedness.tolerance,
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_rotation_reaches_its_bound_but_does_not_pass_it(seed: int) -> None:
    found = invariance(encoding("rope", model_dim=8, heads=2, seed=seed), seed=seed)
    assert found.boundedness.holds


def test_weights_of_zero_are_measured() -> None:
    zero = {name: np.zeros((2, 16, 8)) for name in ("query", "key")}
    found = invariance(encoding("nope", model_dim=16, heads=2, weights=zero))
    assert found.agrees


def test_heads_wider_than_the_tokens_are_measured() -> None:
    assert invariance(encoding("rope", model_dim=4, heads=2, head_dim=16)).agrees


def test_a_code_that_turns_is_linear_under_shift() -> None:
    angles = np.array([1.0, 0.1, 0.01])

    def turning(m: Array) -> Array:
        return np.concatenate([np.cos(m[:, None] * angles), np.sin(m[:, None] * angles)], axis=1)

    assert linear_shift_of(turning).holds
    bent = linear_shift_of(lambda m: turning(m) + 1e-6 * m[:, None] ** 0.5)
    assert bent.holds is False


def test_a_code_drawn_for_each_position_is_not_linear() -> None:
    table = np.random.default_rng(0).standard_normal((200, 6))
    assert linear_shift_of(lambda m: table[m.astype(int)]).holds is False


def test_agreement_is_about_what_is_known() -> None:
    for holds, theory, agrees in [
        (True, True, True),
        (True, False, False),
        (False, True, False),
        (False, False, True),
        (True, None, True),
        (False, None, True),
    ]:
        found = Property(max_error=0.0 if holds else 2.0, tolerance=1.0, theory=theory)
        assert (found.holds, found.agrees) == (holds, agrees)
    assert Property(max_error=np.nan, tolerance=1.0, theory=None).holds is False
    unknown = Property(max_error=None, tolerance=None, theory=True)
    assert (unknown.holds, unknown.agrees) == (None, True)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"shift": 0}, ArgumentError, "shift must be at least 1, got 0"),
        ({"shift": -1}, ArgumentError, "shift must be at least 1, got -1"),
        ({"seed": -1}, ArgumentError, "seed must be at least 0, got -1"),
        ({"shift": 1.5}, ArgumentTypeError, r"shift must be an integer, got 1\.5"),
    ],
)
def test_numbers_out_of_range(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        invariance(encoding("nope"), **options)
