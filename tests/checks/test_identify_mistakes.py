"""A table of frequencies that is one mistake away from the expected one is named by the mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import slow
from rotated import normals

import ropecli
from ropecli import Match, Rotary, identify, rotate

DIM = 64
COUNT = 2048


def rope(rope_type: str, **parameters: Any) -> Rotary:
    return ropecli.rope(rope_type, head_dim=DIM, layout="half", **parameters)


LONGROPE: dict[str, Any] = {
    "short_factor": np.linspace(1, 2, 32).tolist(),
    "long_factor": np.linspace(1.2, 40, 32).tolist(),
    "original_max_position_embeddings": 4096,
    "attention_factor": 1.0,
}
SHORT = rope("longrope", **LONGROPE)
PLAIN = Rotary(head_dim=DIM, layout="half")
TRAINED: dict[str, Any] = {"original_max_position_embeddings": 4096, "attention_factor": 1.0}
YARN = rope("yarn", factor=16.0, **TRAINED)
LLAMA: dict[str, Any] = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
LATE = 10_000.0 ** (-1 / DIM)  #: Of the frequencies, from pair to half a pair later.
#: The encoding expected, the one found, and the mistake.
MISTAKES: dict[str, tuple[Rotary, Rotary, str | None]] = {
    "long list": (SHORT, SHORT.at_length(9000), "long_factor, expected short_factor"),
    "short list": (SHORT.at_length(9000), SHORT, "short_factor, expected long_factor"),
    "LongRoPE late": (
        SHORT,
        SHORT.with_inv_freq(LATE * SHORT.inv_freq),
        "exponents half a pair late",
    ),
    "YaRN late": (YARN, YARN.with_inv_freq(LATE * YARN.inv_freq), "exponents half a pair late"),
    "plain late": (PLAIN, PLAIN.with_inv_freq(LATE * PLAIN.inv_freq), "exponents half a pair late"),
    "YaRN over NTK": (
        YARN,
        rope("yarn", factor=16.0, rope_theta=1e4 * 16 ** (64 / 62), **TRAINED),
        "YaRN scaling over an NTK-aware base, expected 10000",
    ),
    "mscale": (
        YARN,
        rope("yarn", factor=0.1 * np.log(16) + 1, **TRAINED),
        "mscale 1.27726 for the factor 16",
    ),
    "YaRN left out": (YARN, PLAIN, "base 10000 without YaRN scaling"),
    "another base": (
        YARN,
        rope("yarn", factor=16.0, rope_theta=5e5, **TRAINED),
        "base 500000, expected 10000",
    ),
    "both": (
        YARN,
        Rotary(head_dim=DIM, layout="half", base=777.0),
        "base 777 without scaling, expected YaRN scaling over 10000",
    ),
    "another scaling": (
        rope("llama3", rope_theta=5e5, **LLAMA),
        rope("linear", rope_theta=5e5, factor=8.0),
        "linear scaling, expected Llama 3 scaling",
    ),
    "another length": (
        rope("llama3", **LLAMA),
        rope("llama3", **LLAMA | {"original_max_position_embeddings": 65_536}),
        "trained on 65,536 positions, expected 8,192",
    ),
    "twice": (
        rope("linear", factor=4.0),
        rope("linear", factor=16.0),
        "the factor 4 applied twice",
    ),
    "faster": (
        YARN,
        YARN.with_inv_freq(0.75 * YARN.inv_freq),
        "positions or frequencies are multiplied by 0.75",
    ),
    "in reverse": (PLAIN, PLAIN.with_inv_freq(PLAIN.inv_freq[::-1]), "the pairs in reverse"),
    "no mistake": (
        YARN,
        YARN.with_inv_freq(np.sort(np.random.default_rng(0).uniform(0.01, 1, 32))[::-1]),
        None,
    ),
}


def match(expected: Rotary, found: Rotary, dtype: str = "float32") -> Match:
    """Return the expected encoding's match with vectors that another one rotated."""
    before, where = normals(2, COUNT, DIM, dtype=dtype), np.arange(COUNT)
    result = identify(before, rotate(before, found), where, candidates={"expected": expected})
    assert result.recognised, result.reason
    return next(each for each in result.matches if each.name == "expected")


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("dtype", ["float32", *slow("bfloat16")])
def test_the_mistake_is_named(name: str, dtype: str) -> None:
    expected, found, mistake = MISTAKES[name]
    got = match(expected, found, dtype)
    assert (got.matches, got.mistake) == (False, mistake)


@pytest.mark.slow
def test_several_mistakes_that_are_one_table_are_named_together() -> None:
    got = match(rope("ntk", factor=4.0), rope("ntk", factor=16.0))
    assert got.mistake == (
        "either NTK-aware scaling over an NTK-aware base, expected 10000 or the factor 4 "
        "applied twice"
    )


@pytest.mark.slow
@pytest.mark.parametrize("expected", [YARN, SHORT, PLAIN])
def test_what_matches_has_no_mistake(expected: Rotary) -> None:
    got = match(expected, expected)
    assert (got.matches, got.mistake) == (True, None)
