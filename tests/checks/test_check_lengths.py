"""Tables that change with the length of the sequence, and what the first rows do not show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conventions import implement
from implementations.plain import inv_freq
from judging import (
    CONTEXT,
    DIM,
    HALF,
    SMALL_DIM,
    THETA,
    Array,
    assert_failed,
    check_here,
    checks_of,
    failures,
    judge,
    judge_once,
    turn,
    turn_small,
)

import ropecli

pytestmark = pytest.mark.slow

ORIGINAL = 256


class ByLength:
    """Each sequence of a batch is turned by the table of its own length."""

    first = ORIGINAL + 1  #: Length from which the table is another one.
    factor = 1.0  #: Attention factor of long sequences.

    def stretch(self, length: int) -> float:
        return 1.5 if length >= self.first else 1.0

    def forward(self, x: Array, positions: Array) -> Array:
        if positions.ndim == 2:
            return np.stack([self.forward(*row) for row in zip(x, positions, strict=True)])
        length = int(positions.max()) + 1
        factor = self.factor if length >= self.first else 1.0
        return turn(x, positions, THETA / self.stretch(length), factor)


class Longer(ByLength):
    factor = 1.25


class TooEarly(ByLength):
    first = ORIGINAL


class Growing(ByLength):
    """Slower, the longer."""

    def stretch(self, length: int) -> float:
        return max(1.0, length / ORIGINAL)


def test_the_table_changes_after_the_original_length() -> None:
    options: dict[str, Any] = {"form": "module", "original_context_length": ORIGINAL}
    assert failures(judge_once(ByLength, **options)) == []
    early = judge_once(TooEarly, **options)
    assert failures(early) == ["original length"]
    shown = [each.counterexample or "" for each in checks_of(early, "original length")]
    assert any("in a sequence of 255, of 256" in text for text in shown), shown


def test_a_table_for_each_length_is_a_convention() -> None:
    verdict = judge(Growing, form="module", original_context_length=ORIGINAL, context_length=2048)
    assert failures(verdict) == []
    long = checks_of(verdict, "long positions")[0]
    assert long.note == "the frequencies change with the length of the sequence"


@pytest.mark.parametrize("kind", [ByLength, Longer])
@pytest.mark.parametrize("context", [None, 200, CONTEXT])
def test_a_table_for_each_length_needs_no_original_length(kind: Any, context: int | None) -> None:
    assert failures(judge_once(kind, form="module", context_length=context)) == []


@pytest.mark.parametrize("length", [ORIGINAL - 1, ORIGINAL, ORIGINAL + 1])
def test_one_length_around_the_original_may_be_wrong_alone(length: int) -> None:
    def one(x: Array, positions: Array) -> Array:
        return turn(x, positions + 1 if x.shape[-2] == length else positions)

    verdict = judge_once(one, expect=HALF, original_context_length=ORIGINAL)
    assert failures(verdict) == ["original length"]


def by_longest(at: Any) -> Any:
    """All sequences of a call are turned by the table of the longest, as in Transformers."""

    def rotate(x: Array, positions: Array) -> Array:
        y: Array = implement(at(int(np.max(positions)) + 1))(x, positions)
        return y

    return rotate


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("way", [lambda at: implement(at(1), at_length=at), by_longest])
def test_sequences_on_both_sides_of_the_original_length_have_one_table_or_their_own(
    way: Any, told: bool
) -> None:
    given: dict[str, Any] = {"head_dim": DIM, "factor": 4.0, "max_position_embeddings": 24}

    def at(length: int) -> ropecli.Rotary:
        return ropecli.rope("dynamic", sequence_length=length, **given)

    expect = ropecli.rope("dynamic", **given) if told else None
    laws = [
        "every shape",
        "left padding",
        *(["batched positions"] if way is not by_longest else []),
    ]
    assert failures(judge(way(at), expect=expect, context_length=48, select=laws)) == []


def test_a_table_of_each_length_is_seen_in_whole_sequences_too() -> None:
    def at(length: int) -> ropecli.Rotary:
        return ropecli.rope(
            "dynamic", head_dim=DIM, factor=2.0, max_position_embeddings=64, sequence_length=length
        )

    def from_the_beginning(x: Array) -> Array:
        y: Array = implement(at(x.shape[-2]))(x, np.arange(x.shape[-2]))
        return y

    given: dict[str, Any] = {"original_context_length": 64, "context_length": 256}
    assert failures(judge_once(from_the_beginning, **given)) == []


def test_dynamic_ntk_with_alpha_has_one_table() -> None:
    expect = ropecli.rope(
        "dynamic", head_dim=DIM, layout="half", alpha=1000.0, max_position_embeddings=64
    )
    verdict = judge_once(by(expect.inv_freq), expect=expect, context_length=512)
    assert failures(verdict) == []


def test_two_pairs_of_a_short_sequence_are_as_sure_as_its_rows_show_them() -> None:
    """Two frequencies always fit a formula; negative positions are a sequence of 16 at most."""
    options: dict[str, Any] = {
        "short_factor": (1.2697867137638703, 1.6369616873214543),
        "long_factor": (1.6445777856126347, 2.597967433511593),
        "original_max_position_embeddings": 512,
        "max_position_embeddings": 1024,
    }

    def at(length: int) -> ropecli.Rotary:
        return ropecli.rope(
            "longrope", head_dim=4, rope_theta=1e6, sequence_length=length, **options
        )

    rotate = implement(at(1), at_length=at)
    assert failures(judge_once(rotate, head_dim=4, context_length=None)) == []


# What the first rows do not show of a rotation may not be held against those far out.

#: Frequencies that no formula gives.
CUSTOM = THETA * np.random.default_rng(0).uniform(0.8, 1.2, DIM // 2)
FEW: dict[str, Any] = {"original_context_length": 64, "context_length": 32_768}


@pytest.mark.parametrize(
    ("dtype", "base", "short", "long"),
    [
        ("bfloat16", 1e4, (1.5118216247002567, 1.9504636963259352), (6.622224896065716, 37.997328)),
        ("bfloat16", 100.0, (1.2616, 1.2985), (4.5847, 32.7548)),
        ("bfloat16", 100.0, (1.6934, 1.7299), (3.3264, 37.7349)),
        ("float16", 160_805.0, (1.0003, 1.1607), (9.4473, 15.3531)),
        ("float16", 1e4, (1.0772, 1.9056), (11.6302, 25.2522)),
    ],
)
def test_two_pairs_that_change_with_the_length_are_measured_in_half_precision_alone(
    dtype: str, base: float, short: tuple[float, float], long: tuple[float, float]
) -> None:
    """Simple formulas fit two frequencies up to the rounding of a few rows, and drift far out."""
    given: dict[str, Any] = {
        "head_dim": 4,
        "rope_theta": base,
        "short_factor": short,
        "long_factor": long,
        "original_max_position_embeddings": 512,
        "max_position_embeddings": 1024,
    }
    rope = ropecli.rope("longrope", **given)
    target = implement(
        rope, at_length=lambda length: ropecli.rope("longrope", sequence_length=length, **given)
    )
    for seed in range(3):
        verdict = check_here(target, head_dim=4, dtypes=dtype, seed=seed)
        assert failures(verdict) == [], verdict.diagnosis


def by(theta: Array, beyond: Array | None = None) -> Any:
    """Turned by these frequencies, or by others in a call with positions beyond 3,000."""

    def rotate(x: Array, positions: Array) -> Array:
        far = beyond is not None and positions.max() > 3000
        return turn(x, positions, beyond if far and beyond is not None else theta)

    return rotate


@pytest.mark.parametrize("theta", [CUSTOM * THETA, inv_freq(DIM, 5e8)], ids=["custom", "slow"])
def test_pairs_too_slow_for_half_precision_may_turn_far_out(theta: Array) -> None:
    """64 rows of bfloat16 show a phase of 2^-8: at 32,767 it may be 2 rad."""
    assert failures(judge(by(theta), dtypes=["bfloat16"], **FEW)) == []


def test_coordinates_whose_pairs_do_not_show_may_turn_far_out() -> None:
    """Pairs at random places that 64 rows of float16 do not show are coordinates in no pair."""
    pairs = np.random.default_rng(0).permutation(DIM).reshape(-1, 2)
    rope = ropecli.Rotary(head_dim=DIM, base=1e12, pairs_in=pairs)
    assert failures(judge(implement(rope), dtypes=["float16"], **FEW)) == []


def test_measured_frequencies_are_as_sure_as_the_rows_show_them() -> None:
    """16 rows of float32 show some 2^-24 / 16 rad per position: at 2^20 it is 0.004 rad."""
    options = {"original_context_length": 16, "context_length": 2**20}
    assert failures(judge_once(by(CUSTOM), **options)) == []


def scale_pair(pair: int, times: float) -> Array:
    theta = THETA.copy()
    theta[pair] *= times
    return theta


def test_a_frequency_that_half_precision_nearly_shows_is_measured() -> None:
    """1 + 3e-4 times the formula's is recognised as the formula, and 0.04 rad off at 2,304."""
    verdict = judge(by(scale_pair(5, 1 + 3e-4)), dtypes=["bfloat16"])
    assert failures(verdict) == []
    assert verdict.identified is not None
    assert verdict.identified.rope_type == "default"


@pytest.mark.parametrize("beyond", [scale_pair(0, 1 + 8e-4), -THETA], ids=["drift", "other way"])
def test_what_only_drifts_or_turns_the_other_way_is_no_other_table(beyond: Array) -> None:
    assert_failed(judge_once(by(THETA, beyond)), "long positions")


@pytest.mark.parametrize("rows", [600, 100, 40])
def test_a_rotation_is_known_by_the_rows_that_its_table_has(rows: int) -> None:
    def looked_up(x: Array, positions: Array) -> Array:
        if positions.max() >= rows:
            raise IndexError("position out of range")
        return turn(x, positions)

    verdict = judge_once(looked_up, context_length=None)
    assert verdict.identified is not None
    assert verdict.identified.rope_type == "default"
    assert "rotation" not in failures(verdict)


def test_a_single_frequency_is_what_rows_show_whatever_formula_comes_near() -> None:
    """NTK with a factor of 36.55 has nearly this one, 3e-10 radians per position faster."""
    rope = ropecli.rope(
        "deepseek_yarn", head_dim=4, rope_theta=1e6, factor=3.655004501533088, direction="reversed",
        original_max_position_embeddings=1024,
    )  # fmt: skip
    given: dict[str, Any] = {"head_dim": 4, "dtypes": ["float16", "float32"], "seed": 342}
    verdict = check_here(implement(rope), select="long positions", **given)
    assert failures(verdict) == []
    assert verdict.identified is not None
    assert verdict.identified.rotary is not None
    assert verdict.identified.rotary.formula is not None


def test_tables_of_neighbouring_lengths_are_each_their_own() -> None:
    """They differ by less than a table that has lost digits."""

    def at(length: int) -> ropecli.Rotary:
        return ropecli.rope(
            "dynamic", head_dim=8, rope_theta=1e7, layout="interleaved", factor=8.0,
            max_position_embeddings=512, sequence_length=length,
        )  # fmt: skip

    rotate = implement(at(1), at_length=at)
    given: dict[str, Any] = {"head_dim": 8, "context_length": 2048, "dtypes": ["float32"]}
    assert failures(check_here(rotate, select="every shape", **given)) == []


@pytest.mark.parametrize(("most", "longest"), [(50, 50), (None, None)])
def test_the_longest_sequence_that_is_taken_is_in_the_verdict(
    most: int | None, longest: int | None
) -> None:
    def limited(x: Array, positions: Array) -> Array:
        if most is not None and x.shape[-2] > most:
            raise ValueError("too many tokens")
        if x.shape[-2] == 7:  # shorter than others that it takes
            raise ValueError("no seven tokens")
        return turn_small(x, positions)

    verdict = ropecli.check(limited, isolated=False, head_dim=SMALL_DIM)
    assert verdict.passed
    assert verdict.longest_sequence == longest
    limit = f" for sequences of up to {longest} tokens"
    assert str(verdict).splitlines()[0].endswith(limit) == (longest is not None)
