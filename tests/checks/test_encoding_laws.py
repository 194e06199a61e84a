"""Every encoding is as its formula says, at every option, and a wrong one is caught."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from encoding_laws import judge_encoding, laws_of
from law_options import VALUES, variants
from numba import config
from numpy.typing import NDArray

from ropecli.encodings import ENCODINGS, Encoding
from ropecli.encodings import encoding as make_encoding
from ropecli.encodings.by_name import class_of, option_names
from ropecli.encodings.types.nope import Nope
from ropecli.encodings.types.sinusoidal import EXPONENTS, ORDERS

pytestmark = pytest.mark.slow

COMPILED = not config.DISABLE_JIT
#: Model dim and heads; a head of 4 coordinates shows what a head of 16 does.
SIZES = [(64, 4), (2, 1), (24, 3), (24, 12)] if COMPILED else [(2, 1), (12, 3)]
FEW: dict[str, Any] = {"model_dim": 8, "heads": 2}

Array = NDArray[np.float64]
Scores = Callable[..., Array]
#: From an encoding's own scores, wrong ones.
Mutation = Callable[[Scores], Scores]

#: Encodings of which theory says that they are not translation invariant.
ABSOLUTE = {"fire", "learned", "sinusoidal", "tupe"}


def wrong_laws(encoding: Encoding) -> set[str]:
    return {check.name for check in judge_encoding(encoding) if check.passed is False}


def mutant(name: str, mutation: Mutation, method: str = "scores") -> Encoding:
    """An encoding of which one method is another one."""
    right = make_encoding(name, **FEW)
    kind = type(right)
    wrong = type(kind.__name__, (kind,), {method: mutation(getattr(kind, method))})
    fields = {field.name: getattr(right, field.name) for field in dataclasses.fields(right)}
    made: Encoding = wrong(**fields)
    return made


#: The first sizes, and one of the others in turn; all in the soak tier.
SOME = [
    (name, sizes)
    for name, other in zip(ENCODINGS, itertools.cycle(SIZES[1:]), strict=False)
    for sizes in (SIZES[0], other)
]


@pytest.mark.parametrize(("name", "sizes"), SOME, ids=str)
def test_every_encoding_is_as_theory_says(name: str, sizes: tuple[int, int]) -> None:
    encoding = make_encoding(name, model_dim=sizes[0], heads=sizes[1], seed=3)
    checks = judge_encoding(encoding, seed=3)
    assert [check for check in checks if not check.passed] == []
    assert encoding.theory.translation_invariant is not (name in ABSOLUTE)
    names = [check.name for check in checks]
    assert len(set(names)) == len(names)
    for check in checks:
        assert check.samples > 0
        assert check.max_error <= check.tolerance


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_option_is_judged_at_several_values(name: str) -> None:
    kind = class_of(name)
    assert set(VALUES[name]) == set(option_names(kind))
    judged = [each for _, each in variants(make_encoding(name, **FEW), {})]
    for option in VALUES[name]:
        seen = {str(getattr(each, option)) for each in judged}
        assert str(getattr(kind, option)) in seen
        assert len(seen) > 1
    kinds = {"order": set(ORDERS), "exponent": set(EXPONENTS), "kind": {"log", "power"}}
    for option, values in VALUES[name].items():
        assert kinds.get(option, set(values)) == set(values)


def test_options_that_are_chosen_stay() -> None:
    made = make_encoding("deberta", **FEW, clip=5)
    judged = [each for _, each in variants(made, {"clip": 5})]
    assert {each.clip for each in judged if hasattr(each, "clip")} == {5}
    assert len(judged) == 4
    assert all(check.passed for check in judge_encoding(made, clip=5))


@pytest.mark.parametrize("name", ENCODINGS)
def test_scores_that_are_a_millionth_off_are_caught(name: str) -> None:
    assert "scores = reference" in wrong_laws(mutant(name, scale_by(1 + 1e-6)))


@pytest.mark.parametrize("name", ENCODINGS)
def test_scores_that_are_no_numbers_violate_nothing(name: str) -> None:
    wrong = wrong_laws(mutant(name, scale_by(np.nan)))
    assert {"scores = reference", "translation invariance"} <= wrong


def with_options(**options: Any) -> Mutation:
    """The encoding with other options than it says; a function is called with what it says."""

    def values(self: Any) -> dict[str, Any]:
        return {k: v(getattr(self, k)) if callable(v) else v for k, v in options.items()}

    return lambda own: lambda self, *given: own(dataclasses.replace(self, **values(self)), *given)


def weights_changed(**changes: Callable[[Any], Array]) -> Mutation:
    """The encoding with other weights; each is called with all of them."""

    def wrong(own: Scores) -> Scores:
        def scores(self: Any, *given: Any) -> Array:
            w = self.weights
            other = {name: change(w) for name, change in changes.items() if name in w}
            return own(dataclasses.replace(self, weights={**w, **other}), *given)

        return scores

    return wrong


def scale_by(factor: float) -> Mutation:
    return lambda own: lambda *given: own(*given) * factor


def without(_own: Scores) -> Scores:
    """No positions."""
    return lambda self, *given: Nope(sizes=self.sizes, weights=self.weights).scores(*given)


def content(self: Any, *given: Any) -> Array:
    return Nope(sizes=self.sizes, weights=self.weights).scores(*given)


def one_denominator(_own: Scores) -> Scores:
    """FIRE's denominator is that of L, also beyond it."""

    def scores(self: Any, x: Array, y: Array, m: Array, n: Array) -> Array:
        w, far = self.weights, np.log1p(self.c * self.threshold)
        share = np.log1p(self.c * np.abs(m[:, None] - n)) / far
        hidden = np.maximum(share[..., None] * w["hidden"][0] + w["hidden_bias"], 0)
        bias = hidden @ w["output"] + w["output_bias"]
        return np.asarray(content(self, x, y, m, n) + np.moveaxis(bias, 2, 0))

    return scores


def kerple(least_r1: float, least_r2: float, most: float) -> Mutation:
    """KERPLE with other bounds of its weights."""

    def wrong(_own: Scores) -> Scores:
        def scores(self: Any, x: Array, y: Array, m: Array, n: Array) -> Array:
            r1 = np.maximum(self.weights["r1"], least_r1)[:, None, None]
            r2 = np.maximum(self.weights["r2"], least_r2)[:, None, None]
            distance = np.abs(m[:, None] - n)
            with np.errstate(all="ignore"):
                power = distance ** np.minimum(r2, most)
                fall = power if self.kind == "power" else np.log1p(r2 * distance)
                return np.asarray(content(self, x, y, m, n) - r1 * fall)

        return scores

    return wrong


def geometric_slopes(_own: Scores) -> Scores:
    """ALiBi's slopes as if every number of heads were a power of 2."""

    def scores(self: Any, x: Array, y: Array, m: Array, n: Array) -> Array:
        heads = self.sizes.heads
        slopes = 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
        distance = np.abs(m[:, None] - n) if self.absolute else m[:, None] - n
        return np.asarray(content(self, x, y, m, n) - slopes[:, None, None] * distance)

    return scores


def mirrored_as_printed(own: Scores) -> Scores:
    def scores(self: Any, x: Array, y: Array, m: Array, n: Array) -> Array:
        return own(self, x, y, -m, -n) if self.as_printed else own(self, x, y, m, n)

    return scores


def last_row_twice(own: Scores) -> Scores:
    """The table's last row is never reached."""

    def scores(self: Any, x: Array, y: Array, m: Array, n: Array) -> Array:
        if max(m.max(), n.max()) < self.length:
            m, n = (np.minimum(each, max(self.length - 2, 0)) for each in (m, n))
        return own(self, x, y, m, n)

    return scores


def last_bucket_late(own: Scores) -> Scores:
    """T5's last bucket begins at max_distance: keys before it get the bucket of half of that."""

    def scores(self: Any, x: Array, y: Array, m: Array, n: Array) -> Array:
        out, half = own(self, x, y, m, n), own(self, x, y, m, (m[:1] + n) / 2 // 1)
        distance = np.abs(m[:, None] - n)
        near = (distance < self.max_distance) & (distance > 0.9 * self.max_distance)
        return np.where(near, half, out)

    return scores


#: Faults in what an option, a bound or a table's end does.
FAULTS: dict[str, tuple[str, Mutation]] = {
    "ALiBi in both directions as in one": ("alibi", with_options(absolute=False)),
    "ALiBi's slopes of 20 heads": ("alibi", geometric_slopes),
    "CoPE as listed": ("cope", with_options(as_listed=False)),
    "CoPE clamped one row early": ("cope", with_options(p_max=lambda p: max(p - 1, 1))),
    "DeBERTa as printed": ("deberta", with_options(as_printed=False)),
    "DeBERTa clipped one early": ("deberta", with_options(clip=lambda k: max(k - 1, 1))),
    "DeBERTa's own projections as shared": (
        "deberta",
        weights_changed(position_key=lambda w: w["key"]),
    ),
    "FIRE beyond L": ("fire", one_denominator),
    "FIRE's c": ("fire", with_options(c=0.1)),
    "FIRE's L": ("fire", with_options(threshold=512.0)),
    "KERPLE's exponent above 2": ("kerple", kerple(0.01, 0.01, 9.0)),
    "KERPLE's exponent above 1": ("kerple", kerple(0.01, 0.01, 1.0)),
    "KERPLE's least r1": ("kerple", kerple(0.0, 0.01, 2.0)),
    "KERPLE's least r2": ("kerple", kerple(0.01, 0.0, 2.0)),
    "KERPLE's kind": ("kerple", with_options(kind="log")),
    "learned, the last row": ("learned", last_row_twice),
    "RoPE, another rotation": ("rope", with_options(rotary=None)),
    "Shaw as printed": ("shaw", mirrored_as_printed),
    "Shaw clipped one early": ("shaw", with_options(clip=lambda k: max(k - 1, 1))),
    "sinusoidal exponent": ("sinusoidal", with_options(exponent="2t/d")),
    "sinusoidal order": ("sinusoidal", with_options(order="interleaved")),
    "T5, causal": ("t5", with_options(bidirectional=True)),
    "T5's largest distance": ("t5", with_options(max_distance=128)),
    "T5's last bucket": ("t5", last_bucket_late),
    "Transformer-XL as printed": ("transformer_xl", mirrored_as_printed),
    "TUPE, [CLS] untied": (
        "tupe",
        weights_changed(theta1=lambda w: w["theta2"], theta2=lambda w: w["theta1"]),
    ),
    "TUPE, the last row": ("tupe", last_row_twice),
    "xPos, base": ("xpos", with_options(base=10_000.0)),
    "xPos, scale": ("xpos", with_options(scale_base=512.0)),
    "xPos, gamma": ("xpos", with_options(gamma=0.4)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_an_option_is_caught(fault: str) -> None:
    name, mutation = FAULTS[fault]
    assert "scores = reference" in wrong_laws(mutant(name, mutation))


def with_other_options(own: Scores) -> Scores:
    """Off wherever an option is not the default; NoPE has none."""

    def scores(self: Any, *given: Any) -> Array:
        options = option_names(type(self))
        other = any(getattr(self, key) != getattr(type(self), key) for key in options)
        return own(self, *given) * (1 + 1e-6 * (other or not options))

    return scores


def far_away(own: Scores) -> Scores:
    """Off at positions that formulas are not sampled at."""

    def scores(self: Any, x: Array, y: Array, m: Array, n: Array) -> Array:
        first = {"fire": 1500, "learned": 500, "tupe": 500}.get(self.name, 1000)
        return own(self, x, y, m, n) + 1e-3 * (m >= first)[:, None]

    return scores


def clipped_to_table(own: Scores) -> Scores:
    def scores(self: Any, x: Array, y: Array, m: Array, n: Array) -> Array:
        return own(self, x, y, *(np.clip(np.floor(p), 0, self.length - 1) for p in (m, n)))

    return scores


def fractions_cut_off(own: Scores) -> Scores:
    return lambda self, positions: own(self, np.trunc(positions))


#: For each law, a fault that it alone sees, and the method that has it.
ALONE: dict[str, tuple[str, Mutation]] = {
    "scores = reference": ("scores", with_other_options),
    "outputs = reference": ("output", scale_by(1 + 1e-6)),
    "translation invariance": ("scores", far_away),
    "codes = reference": ("code", scale_by(1 + 1e-6)),
    "refuses positions that its table lacks": ("scores", clipped_to_table),
}
LAWS = [(name, law.name) for name in ENCODINGS for law in laws_of(make_encoding(name, **FEW))]


@pytest.mark.parametrize(("name", "law"), LAWS)
def test_each_law_sees_a_fault_that_no_other_sees(name: str, law: str) -> None:
    method, mutation = ALONE[law]
    if (name, law) == ("sinusoidal", "codes = reference"):
        mutation = fractions_cut_off  # its scores are made of its codes
    assert wrong_laws(mutant(name, mutation, method)) == {law}


def test_every_law_has_a_fault_of_its_own() -> None:
    assert {law for _, law in LAWS} == set(ALONE)


def note(encoding: Encoding, law: str) -> str | None:
    (check,) = (each for each in judge_encoding(encoding) if each.name == law)
    assert check.passed is False
    return check.note


def test_a_law_that_should_fail_and_holds_says_so() -> None:
    found = note(mutant("sinusoidal", without), "translation invariance")
    assert found == "theory says that this law fails, and it held"


@pytest.mark.parametrize("name", sorted(ABSOLUTE))
def test_any_other_violation_is_not_the_one_that_theory_asks_for(name: str) -> None:
    def garbage(_own: Scores) -> Scores:
        return lambda self, x, y, m, n: np.sin(m[:, None] * 3 + n) + content(self, x, y, m, n)

    found = note(mutant(name, garbage), "translation invariance")
    assert found == "it fails, but not by what the formula has"


def test_a_counterexample_names_the_option() -> None:
    (check,) = (
        each
        for each in judge_encoding(mutant("alibi", with_options(absolute=False)))
        if each.passed is False
    )
    assert str(check.counterexample).startswith("absolute = True")
    assert ": entry (" in str(check.counterexample)
