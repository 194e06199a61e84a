"""A claim about every case needs a computed one: pages say "always" only beside a test."""

from __future__ import annotations

import math
import re

import ml_dtypes
import mpmath
import numpy as np
import pytest
from helpers import ROOT

from ropecli import Rotary, rotate

UNIVERSAL = re.compile(r"\b(whatever|always|from there on|in (?:all|any|every) cases?)\b", re.I)
#: What a page says of every case, and the test that computes it.
CLAIMS = {
    "equal if they rotate equally**, whatever their rope type and parameters": (
        "rotary/test_rotary.py::test_equal_encodings_are_equal_and_hash_alike"
    ),
    "float64 whatever the dtype of the data": (
        "docs/test_universal_words.py::test_angles_are_float64_whatever_the_dtype_of_the_data"
    ),
    "whatever the correlation of the error with the score": (
        "docs/test_universal_words.py::test_attention_moves_alike_whatever_the_correlation"
    ),
    "the same whatever a matplotlibrc says": (
        "render/test_figure.py::test_a_matplotlibrc_changes_nothing"
    ),
    "one head's rows, whatever the size of the file": (
        "files/test_permute.py::test_little_memory_is_taken"
    ),
    "really rotated by, whatever a program's `position_ids` say": (
        "checks/test_recover_positions.py::test_positions_are_recovered"
    ),
    "Text is right whatever the axes are": (
        "checks/test_trace.py::test_positions_in_text_do_not_show_the_axes"
    ),
}
#: What the papers claim is quoted there, each claim with its class and its test.
QUOTED = ROOT / "docs/statements.md"
PAGES = [ROOT / "README.md", *sorted({*(ROOT / "docs").rglob("*.md")} - {QUOTED})]


def prose(text: str) -> str:
    """Return a page without its blocks of code, as one line."""
    return " ".join(re.sub(r"^```.*?^```", "", text, flags=re.M | re.S).split())


def test_each_claim_about_every_case_has_a_test() -> None:
    found = []
    for page in PAGES:
        text = prose(page.read_text())
        for claim in CLAIMS:
            text = text.replace(claim, "")
        words = UNIVERSAL.finditer(text)
        found += [f"{page.name}: {text[max(0, w.start() - 60) : w.end() + 40]}" for w in words]
    assert not found, "say what holds, or add the claim to CLAIMS with the test that computes it"


def test_each_claim_is_made_and_its_test_exists() -> None:
    pages = " ".join(prose(page.read_text()) for page in PAGES)
    for claim, test in CLAIMS.items():
        file, name = test.split("::")
        assert claim in pages, claim
        assert f"def {name}(" in (ROOT / "tests" / file).read_text(), test


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_angles_are_float64_whatever_the_dtype_of_the_data(dtype: str) -> None:
    # A bfloat16 angle of 131,071 radians is off by up to 512, one of float32 by 0.004.
    data = np.dtype(getattr(ml_dtypes, dtype)) if dtype == "bfloat16" else np.dtype(dtype)
    x = np.array([[1, 0, 0, 0]], data)
    out = rotate(x, Rotary(4, base=100.0), [131_071.0]).astype(np.float64)[0]
    with mpmath.workdps(40):
        exact = [mpmath.cos(131_071), mpmath.sin(131_071)]
    rounded = np.array([float(value) for value in exact]).astype(data).astype(np.float64)
    ulps = 2.5 * 2**-23 * np.abs(rounded) if dtype == "float32" else 0
    np.testing.assert_array_less(np.abs(out[:2] - rounded), ulps + 1e-10)


@pytest.mark.parametrize("correlation", [-0.9, 0.0, 0.5])
def test_attention_moves_alike_whatever_the_correlation(correlation: float) -> None:
    # Sums of 10^6 keys, whose weights spread by exp(1): about 1 % of a half.
    size, spread = 0.2, 1.0
    score, other = np.random.default_rng(0).standard_normal((2, 10**6))
    error = size * (correlation * score + math.sqrt(1 - correlation**2) * other)
    before, after = (np.exp(logits) for logits in (spread * score, spread * score + error))
    moved = np.abs(after / after.sum() - before / before.sum()).sum() / 2
    assert moved == pytest.approx(math.erf(size / math.sqrt(8)), rel=0.02)
