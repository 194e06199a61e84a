"""Every encoding satisfies its laws, violates those it must, and a wrong one is caught."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import config
from numpy.typing import NDArray

from ropecli.checks.encoding_laws import OWN
from ropecli.checks.verify_encoding import verify_encoding, verify_instance
from ropecli.encodings import ENCODINGS, Encoding
from ropecli.encodings import encoding as make_encoding
from ropecli.encodings.types.nope import Nope
from ropecli.errors import ArgumentError

pytestmark = pytest.mark.slow

COMPILED = not config.DISABLE_JIT
#: Model dim and heads; a head of 4 coordinates shows what a head of 16 does.
SIZES = [(64, 4), (2, 1), (24, 3), (24, 12)] if COMPILED else [(2, 1), (12, 3)]
FEW: dict[str, Any] = {"model_dim": 64 if COMPILED else 8, "heads": 4 if COMPILED else 2}
HEAD_DIM = FEW["model_dim"] // FEW["heads"]

Array = NDArray[np.float64]
Scores = Callable[..., Array]
#: From an encoding's own scores, wrong ones.
Mutation = Callable[[Scores], Scores]

#: Laws of relative encodings that theory says fail, and those of absolute ones.
RELATIVE = {"symmetry", "bounded"}
ABSOLUTE = RELATIVE | {"translation invariance"}
FAILS: dict[str, set[str]] = {
    "alibi": RELATIVE | {"slopes of 12 heads are geometric"},
    "cope": RELATIVE | {"any key may be put in"},
    "deberta": RELATIVE | {"p2c at n - m, as printed"},
    "fire": ABSOLUTE | {"relative beyond L"},
    "kerple": {"bounded"},
    "learned": ABSOLUTE | {"shift is a matrix"},
    "nope": set(),
    "rope": {"symmetry", "keys may change places"},
    "shaw": RELATIVE | {"alike from k - 1 on"},
    "sinusoidal": ABSOLUTE | {"position part is relative, any W_q, W_k"},
    "t5": RELATIVE | {"the last bucket begins at max_distance", "content is q . k / sqrt(d)"},
    "transformer_xl": RELATIVE | {"relative shift, keys after the query"},
    "tupe": ABSOLUTE | {"shift is a matrix", "[CLS] is a position"},
    "xpos": RELATIVE | {"scores = RoPE's"},
}


def wrong_laws(encoding: Encoding) -> set[str]:
    return {check.name for check in verify_instance(encoding).checks if not check.passed}


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
    got = verify_encoding(name, seed=3, model_dim=sizes[0], heads=sizes[1])
    assert [check for check in got.checks if not check.passed] == []
    assert got.passed
    assert got.seed == 3
    assert {check.name for check in got.checks if check.expected == "fails"} == FAILS[name]
    names = [check.name for check in got.checks]
    assert len(set(names)) == len(names)
    for check in got.checks:
        assert (check.dtype, check.layout) == ("float64", "")
        assert check.samples > 0
        assert (check.max_error <= check.tolerance) == (check.expected == "holds")


def test_every_encoding_has_laws_of_its_own() -> None:
    assert set(OWN) == set(ENCODINGS) == set(FAILS)
    assert all(OWN.values())


@pytest.mark.parametrize("name", ENCODINGS)
def test_scores_that_are_a_millionth_off_are_caught(name: str) -> None:
    assert "scores = reference" in wrong_laws(mutant(name, scaled(1 + 1e-6)))


@pytest.mark.parametrize("name", ENCODINGS)
def test_scores_that_are_no_numbers_violate_nothing(name: str) -> None:
    wrong = wrong_laws(mutant(name, scaled(np.nan)))
    assert {"scores = reference", "translation invariance", "symmetry"} <= wrong


def changed(**options: Any) -> Mutation:
    """The encoding with other options than it says."""
    return lambda own: lambda self, *given: own(dataclasses.replace(self, **options), *given)


def scaled(factor: float) -> Mutation:
    return lambda own: lambda *given: own(*given) * factor


def stretched(own: Scores) -> Scores:
    return lambda self, x, y, m, n: own(self, x, y, m * 1.01, n)


def mirrored(own: Scores) -> Scores:
    return lambda self, x, y, m, n: own(self, x, y, -m, -n)


def without(_own: Scores) -> Scores:
    """No positions."""
    return lambda self, *given: Nope(sizes=self.sizes, weights=self.weights).scores(*given)


def every_key_counted(_own: Scores) -> Scores:
    """CoPE with every gate open: the distance in tokens is the position."""

    def scores(self: Any, x: Array, y: Array, m: Array, n: Array) -> Array:
        q, k = x @ self.weights["query"], y @ self.weights["key"]
        position = np.clip(m[:, None] - n, 0, self.p_max - 1).astype(int)
        by_row = np.take_along_axis(q @ self.weights["position"].T, position[None], 2)
        total: Array = (q @ k.transpose(0, 2, 1) + by_row) / np.sqrt(self.sizes.head_dim)
        return total

    return scores


def by_place(own: Scores) -> Scores:
    return lambda self, x, y, m, n: own(self, x, y * (1 + n[:, None]), m, n)


SCORES: list[tuple[str, Mutation, set[str]]] = [
    ("cope", without, {"any key may be put in", "symmetry"}),
    ("cope", every_key_counted, {"a key whose gate is 0 is not counted"}),
    (
        "deberta",
        changed(as_printed=True),
        {"p2c at m - n, as released", "p2c at n - m, as printed"},
    ),
    ("fire", changed(threshold=1e9), {"relative beyond L", "translation invariance"}),
    ("kerple", changed(kind="log"), {"bias, log and power"}),
    ("learned", without, {"refuses positions beyond its table", "translation invariance"}),
    ("nope", by_place, {"keys may change places", "translation invariance", "bounded"}),
    ("rope", without, {"keys may change places", "symmetry"}),
    ("rope", scaled(2.0), {"bounded"}),
    ("shaw", changed(clip=15), {"alike from k - 1 on"}),
    ("sinusoidal", without, {"position part is relative, any W_q, W_k"}),
    ("sinusoidal", stretched, {"position part is relative, W_q = W_k = I"}),
    ("t5", scaled(HEAD_DIM**-0.5), {"content is q . k", "content is q . k / sqrt(d)"}),
    ("transformer_xl", stretched, {"relative shift, keys up to the query"}),
    ("transformer_xl", without, {"relative shift, keys after the query"}),
    ("tupe", changed(untie_cls=False), {"[CLS] has thetas", "[CLS] is a position"}),
    ("xpos", without, {"symmetry", "bounded"}),
    ("xpos", changed(scale_base=1e300), {"scores = RoPE's", "bounded"}),
    ("xpos", mirrored, {"bound falls as zeta^(m-n)"}),
]


@pytest.mark.parametrize(("name", "mutation", "caught"), SCORES)
def test_wrong_scores_are_caught(name: str, mutation: Mutation, caught: set[str]) -> None:
    assert caught <= wrong_laws(mutant(name, mutation))


def off_slopes(heads: int) -> Array:
    geometric: Array = 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
    return geometric


@pytest.mark.parametrize("where", ["checks.encoding_laws.biases", "encodings.types.alibi"])
def test_wrong_slopes_are_caught(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"ropecli.{where}.slopes", lambda heads: off_slopes(heads) * 1.01)
    laws = {"slopes of 8, 12 and 16 heads"} if "laws" in where else {"scores = reference"}
    assert laws | {"bias = -slope (m - n)"} <= wrong_laws(make_encoding("alibi", **FEW))


def test_slopes_of_12_heads_that_are_geometric_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ropecli.checks.encoding_laws.biases.slopes", off_slopes)
    assert wrong_laws(make_encoding("alibi", **FEW)) == {
        "slopes of 8, 12 and 16 heads",
        "slopes of 12 heads are geometric",
    }


def test_wrong_buckets_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(relative: NDArray[np.int64], **_: Any) -> NDArray[np.int64]:
        wrong: NDArray[np.int64] = np.minimum(np.abs(relative) * 15 // 128, 15)
        return wrong

    monkeypatch.setattr("ropecli.checks.encoding_laws.biases.buckets", late)
    wrong = wrong_laws(make_encoding("t5", **FEW))
    assert wrong == {"published buckets", "the last bucket begins at max_distance"}


@pytest.mark.parametrize(
    ("change", "caught"),
    [
        (lambda p: p * 1.001, {"|p_m|^2 = d/2", "p_m . p_n = sum cos((m-n) theta)"}),
        (lambda p: p[:, ::-1], {"p_(m+k) = M_k p_m"}),
    ],
)
def test_wrong_sinusoids_are_caught(change: Callable[[Array], Array], caught: set[str]) -> None:
    wrong = mutant("sinusoidal", lambda own: lambda *given: change(own(*given)), "code")
    assert caught | {"scores = reference"} <= wrong_laws(wrong)


def test_a_law_that_should_fail_and_holds_says_so() -> None:
    got = verify_instance(mutant("rope", without))
    assert not got.passed
    check = next(check for check in got.checks if check.name == "keys may change places")
    assert (check.expected, check.passed) == ("fails", False)
    assert check.note == "theory says that this law fails, and it held"
    assert check.counterexample is not None
    assert check.counterexample.startswith("entry (")


def test_same_seed_gives_the_same_verdicts() -> None:
    first = verify_encoding("shaw", seed=5, **FEW).checks
    assert verify_encoding("shaw", seed=5, **FEW).checks == first
    assert verify_encoding("shaw", seed=6, **FEW).checks != first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"model_dim": 1026}, "model_dim must be at most 1,024 for this, got 1026"),
        ({"heads": 0}, "heads must be at least 1, got 0"),
    ],
)
def test_bad_numbers_are_refused(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        verify_encoding("nope", **arguments)
    assert str(caught.value) == message
