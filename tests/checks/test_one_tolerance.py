"""Tables that other code computes in float32: their rounding is not a fault, anywhere."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from files.folders import save
from helpers import random_array
from hypothesis import example, given, settings
from hypothesis import strategies as st
from implementations.plain import half, inv_freq
from judging import check_here
from models.stacks.measured import lines, one_axis
from numpy.typing import NDArray

import ropecli
from ropecli import Rotary, load_model, rope
from ropecli.checks.accuracy import phase_tolerance, table_roundings
from ropecli.checks.encode_check import compare_file
from ropecli.errors import RopecliError

Array = NDArray[Any]
Single = np.float32
UNIT = 2.0**-24


def exponents(dim: int) -> Array:
    return np.arange(0, dim, 2, dtype=Single) / Single(dim)


def chain(first: Any, ratio: float, pairs: int) -> Array:
    """The chain of llama.cpp: each number is the one before times the ratio, in float32."""
    table = [np.asarray(first, Single)]
    for _ in range(pairs - 1):
        table.append(table[-1] * Single(ratio))
    return np.stack(table, axis=-1)


#: Ways to compute base^(-2i/d) in float32, by (base, dim).
WAYS: dict[str, Callable[[float, int], Array]] = {
    "Transformers": lambda b, d: Single(1) / Single(b) ** exponents(d),
    "a power": lambda b, d: Single(b) ** -exponents(d),
    "fairseq": lambda b, d: np.exp(np.arange(0, d, 2, dtype=Single) * -Single(np.log(b) / d)),
    "logarithm": lambda b, d: np.exp(-exponents(d) * np.log(Single(b))),
    "MLX": lambda b, d: np.exp2(-exponents(d) * Single(np.log2(b))),
    "neighbours": lambda b, d: chain(1, b ** (-2 / d), d // 2),
}
BASES = st.one_of(
    st.sampled_from([10_000.0, 500_000.0, 1_000_000.0]), st.floats(100, 1e9).map(round).map(float)
)


def blend(base: float, dim: int, factor: float, context: int) -> Array:
    """The table of llama3 as Transformers computes it, all in float32."""
    theta = WAYS["Transformers"](base, dim)
    turns = Single(context) / (Single(2 * np.pi) / theta)
    share = (turns - Single(1)) / Single(3)
    mixed = (Single(1) - share) * theta / Single(factor) + share * theta
    return np.where(turns > 4, theta, np.where(turns < 1, theta / Single(factor), mixed))


@given(st.sampled_from(sorted(WAYS)), BASES, st.sampled_from([8, 20, 64, 96, 128, 256, 512]))
def test_every_way_to_compute_a_table_is_within_the_roundings(
    way: str, base: float, dim: int
) -> None:
    exact = Rotary(head_dim=dim, base=base)
    error = np.abs(WAYS[way](base, dim) - exact.inv_freq)
    allowed = phase_tolerance(1.0, exact.inv_freq, table_roundings(exact))
    assert (error <= allowed).all(), (error / allowed).max()


@given(
    BASES,
    st.sampled_from([64, 96, 128]),
    st.sampled_from([2.0, 8.0, 32.0, 128.0]),
    st.integers(11, 17).map(lambda power: 2**power),
)
@example(1_987_114.0, 96, 128.0, 16_384)  # 1.8 times what a table without a blend may be off by
@example(536_800.0, 96, 64.0, 8192)
def test_a_blend_magnifies_what_rounds_in_it(
    base: float, dim: int, factor: float, context: int
) -> None:
    exact = rope(
        "llama3", head_dim=dim, rope_theta=base, factor=factor, low_freq_factor=1.0,
        high_freq_factor=4.0, original_max_position_embeddings=context,
    )  # fmt: skip
    error = np.abs(blend(base, dim, factor, context) - exact.inv_freq)
    allowed = phase_tolerance(1.0, exact.inv_freq, table_roundings(exact))
    assert (error <= allowed).all(), (error / allowed).max()


def test_a_first_frequency_that_happens_to_be_a_power_of_two_still_rounds() -> None:
    """exp(-ln(64) (1/4)^(1/2)) is 1/8, and comes out of an exponential."""
    mixed = rope("ntk_mixed", head_dim=8, rope_theta=1e6, factor=64.0, mixed_b=0.5)
    assert abs(mixed.inv_freq[0] - 1 / 8) < 1e-15
    assert ropecli.verify(mixed, dtype="float64").passed


def tables_of_transformers() -> list[tuple[str, Rotary, Array]]:
    """Encodings with the tables in float32 that Transformers computed for them."""
    found = []
    for line in lines("transformers"):
        try:
            layers = [each for each in load_model(line["config"]).layers if each.rotary is not None]
        except RopecliError:
            continue
        for module in line.get("expected") or ():
            table = np.array(module["inv_freq"])
            for rotary in {layer.rotary for layer in layers if layer.rotary is not None}:
                own = one_axis(rotary) if rotary.rope_type == "axial" else rotary.diagonal_inv_freq
                if own.shape == table.shape and np.allclose(own, table, rtol=1e-4, atol=0):
                    found.append((line["source"], rotary, table))
    return found


def test_tables_that_stacks_computed_are_within_the_roundings() -> None:
    tables = tables_of_transformers()
    assert len(tables) > 100
    for source, rotary, table in tables:
        axial = rotary.rope_type == "axial"
        own = one_axis(rotary) if axial else rotary.diagonal_inv_freq
        first = np.array(rotary.axis) == 0 if axial else slice(None)
        allowed = table_roundings(rotary)[first] * UNIT * own
        assert (np.abs(table - own) <= np.maximum(allowed, 1e-9 * own)).all(), source


@dataclass(frozen=True)
class Table:
    """Angles of a table, and whether it may be called that of the encoding."""

    name: str
    dim: int
    base: float
    angles: Callable[[Array], Array]  #: (..., pairs) of positions (...).
    right: bool

    def __repr__(self) -> str:
        return f"{self.name}, dim {self.dim}, base {self.base:g}"


CONTEXT = 2048


def of_frequencies(theta: Array) -> Callable[[Array], Array]:
    return lambda m: m.astype(theta.dtype)[..., None] * theta


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Right ones that round, and ones that are off by a little more or less than rounding."""
    dim, base = draw(st.sampled_from([16, 64])), draw(BASES)
    pairs, theta = dim // 2, inv_freq(dim, base)
    kind = draw(st.sampled_from(["way", "ggml", "less", "more", "base", "positions"]))
    name, right = kind, kind in ("way", "ggml", "less")
    if kind == "way":
        name = draw(st.sampled_from(sorted(WAYS)))
        angles = of_frequencies(WAYS[name](base, dim))
    elif kind == "ggml":
        ratio = base ** (-2 / dim)

        def angles(m: Array) -> Array:
            return chain(m, ratio, pairs)

    elif kind == "base":
        angles = of_frequencies(inv_freq(dim, base * 1.0001))
    elif kind == "positions":

        def angles(m: Array) -> Array:
            return m.astype(ml_dtypes.bfloat16).astype(float)[..., None] * theta

    else:
        # One frequency moved, of a pair that turns far beyond what vectors round.
        roundings = table_roundings(Rotary(head_dim=dim, base=base))
        shown = np.flatnonzero(roundings * theta * CONTEXT > 100)
        pair = draw(st.sampled_from(shown.tolist()))
        share = draw(st.sampled_from([0.5, 0.9] if right else [1.5, 4.0]))
        sign = draw(st.sampled_from([1, -1]))
        moved = theta.copy()
        moved[pair] *= 1 + sign * share * roundings[pair] * UNIT
        name, angles = (
            f"pair {pair} off by {sign * share} of what is allowed",
            of_frequencies(moved),
        )
    return Table(name, dim, base, angles, right)


def answers(table: Table) -> dict[str, bool]:
    """Verdict of each of the three: that it is the encoding, or not."""
    expect = Rotary(head_dim=table.dim, base=table.base, layout="half")

    def turn(x: Array, positions: Array) -> Array:
        angles = table.angles(np.asarray(positions))
        return half(x, np.cos(angles), np.sin(angles))

    verdict = check_here(
        turn,
        expect=expect,
        head_dim=table.dim,
        context_length=CONTEXT,
        dtypes=["float32"],
        select=["rotation", "convention", "precision", "long positions"],
    )
    x = random_array(CONTEXT, table.dim)
    y = turn(x, np.arange(CONTEXT))
    found = ropecli.identify(x, y, np.arange(CONTEXT), candidates={"expected": expect})
    alike = any(each.name == "expected" and each.matches for each in found.matches)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compared = compare_file(save(folder, x), save(folder, y, "y.npy"), expect)
    return {
        "check": bool(verdict.passed),
        "identify": alike and found.precision in ("exact", "float32 angles"),
        "encode --check": compared.passed,
    }


def assert_one_answer(table: Table) -> None:
    assert answers(table) == dict.fromkeys(("check", "identify", "encode --check"), table.right)


@pytest.mark.slow
@settings(settings.get_profile("few"))
@given(tables())
def test_three_commands_give_one_answer(table: Table) -> None:
    assert_one_answer(table)


@pytest.mark.slow
@settings(max_examples=15)
@given(tables())
def test_three_commands_give_one_answer_about_many_tables(table: Table) -> None:
    assert_one_answer(table)


@pytest.mark.slow
@pytest.mark.parametrize(("pair", "share"), [(1, 4.0), (2, 1.5), (4, -1.5)])
def test_a_measured_table_is_no_formula_whose_roundings_it_could_have(
    pair: int, share: float
) -> None:
    roundings, moved = table_roundings(Rotary(head_dim=64)), inv_freq(64, 10_000.0)
    moved[pair] *= 1 + share * roundings[pair] * UNIT
    assert_one_answer(Table("moved", 64, 10_000.0, of_frequencies(moved), right=False))
