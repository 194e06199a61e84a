"""Golden vectors of one's own case: exact to the bit, in any shape, and read by a C program."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import assert_same_bits, assert_within, assert_within_ulps
from mpmath import mp, mpf
from numpy.typing import NDArray

from ropecli import ArgumentError, ArgumentTypeError, Rotary, rope, rotate, vectors
from ropecli.arrays import DTYPES
from ropecli.checks.vectors.case import Case, round_to
from ropecli.checks.vectors.folder import contents
from ropecli.checks.vectors.recipes import CONVENTIONS, TYPES, recipes
from ropecli.reference.double_double import DIGITS
from ropecli.reference.rotation import cos_sin, elementwise

Array = NDArray[Any]

LISTS: dict[str, Any] = {"head_dim": 16, "layout": "half"}
ENCODINGS: dict[str, Rotary] = {name: rope(name, **LISTS, **own) for name, own in TYPES.items()} | {
    name: rope(kind, **LISTS, **own) for name, (kind, own, _) in CONVENTIONS.items()
}
ENCODINGS["interleaved"] = Rotary(head_dim=16)
ENCODINGS["no formula"] = Rotary.from_inv_freq([1.0, 0.3, 0.0], head_dim=16, attention_factor=1.3)
ENCODINGS["mixed"] = Rotary.from_inv_freq([[1.0, -0.3, 0.02], [0.5, 0.7, 0.0]], head_dim=16)
ENCODINGS["written elsewhere"] = Rotary(
    head_dim=4, pairs_in=[[0, 1], [2, 3]], pairs_out=[[0, 2], [1, 3]]
)
FAR = (0, 1, 7, 255, 4096, 131_071)
NEAR = (0, 1, 2, 7, 500, 1024)  # where xPos has neither vanished nor overflowed in float16


def own(name: str, **options: Any) -> Case:
    (case,) = vectors(ENCODINGS[name], **options)
    return case


def in_40_digits(case: Case, role: str, dtype: str) -> Array:
    """The rotation of RoFormer Eq. 34 by the reference, number by number."""
    facts, arrays = case.facts, case.arrays
    x, positions = arrays[f"{role}.{dtype}"].astype(np.float64), arrays["positions"]
    before, after = np.array(facts["pairs_in"]), np.array(facts["pairs_out"])
    sign = -1 if facts["direction"] == "reversed" else 1
    out = []
    for batch, heads in enumerate(x):
        shared = positions.ndim == (1 if facts["shape"]["axes"] == 1 else 2)
        where = positions if shared else positions[batch]
        axis = facts["axis"] or [0] * len(before)
        points = where.reshape(len(where), -1)
        columns = [
            cos_sin(points[:, a], sign * arrays["inv_freq"][i : i + 1]) for i, a in enumerate(axis)
        ]
        if arrays["inv_freq"].ndim == 2:  # several axes rotate a pair
            columns = [cos_sin(points, sign * arrays["inv_freq"])]
        cosine, sine = (np.concatenate([c[k] for c in columns], axis=1) for k in range(2))
        for head in heads:
            turned = elementwise(head, cosine, sine, before, facts["attention_factor"])
            moved = turned.copy()
            moved[:, after] = turned[:, before]
            if facts["growth"] is not None:
                with mp.workdps(DIGITS):
                    for n, m in enumerate(where):
                        for pair, rate in zip(after, facts["growth"], strict=True):
                            times = mp.exp(int(m) * mpf(rate) * (1 if role == "q" else -1))
                            moved[n, pair] = [value * times for value in moved[n, pair]]
            out.append(moved)
    return np.array(out).reshape(x.shape)


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_number_is_the_exact_one_rounded_once(name: str) -> None:
    where = NEAR if name == "xpos" else FAR
    case = own(name, positions=where, heads=2, key_heads=1)
    for role in ("q", "k"):
        exact = in_40_digits(case, role, "float64")
        for dtype in DTYPES:
            assert_same_bits(
                f"{name} {role} {dtype}",
                got=case.arrays[f"{role}_rotated.{dtype}"],
                expected=round_to(exact, dtype),
            )


def test_a_table_of_a_formula_is_its_own_in_40_digits() -> None:
    case = own("yarn")
    made = rope(**{key: case.facts["parameters"][key] for key in case.facts["parameters"]})
    assert made == ENCODINGS["yarn"]
    # As for every rope type: the power's rounding times ln(base), and a ramp's.
    assert_within_ulps("yarn", got=made.inv_freq, expected=case.arrays["inv_freq"], ulps=60)
    with mp.workdps(DIGITS):
        factor = float(mp.log(16) / 10 + 1)
    assert case.facts["attention_factor"] == factor


def test_a_table_of_no_formula_is_taken_as_it_is() -> None:
    case = own("no formula")
    assert case.arrays["inv_freq"].tolist() == [1.0, 0.3, 0.0]
    assert case.facts["attention_factor"] == 1.3
    assert case.facts["parameters"]["rope_type"] == "custom"


@pytest.mark.parametrize("name", ["llama3", "partial", "mrope", "yarn"])
def test_shapes_of_grouped_heads(name: str) -> None:
    case = own(name, batch=2, heads=6, key_heads=3, length=5, dtypes=["bfloat16", "float32"])
    encoding = ENCODINGS[name]
    sizes = {"batch": 2, "heads": 6, "key_heads": 3, "length": 5, "head_dim": 16}
    pairs = encoding.rotary_dim // 2
    assert case.facts["shape"] == {**sizes, "pairs": pairs, "axes": encoding.axes}
    assert set(case.facts["tolerance"]) == {"bfloat16", "float32"}
    for dtype in ("bfloat16", "float32"):
        for role, heads in (("q", 6), ("k", 3)):
            x, y = case.arrays[f"{role}.{dtype}"], case.arrays[f"{role}_rotated.{dtype}"]
            assert x.shape == y.shape == (2, heads, 5, 16)
            assert x.dtype == y.dtype == DTYPES[dtype]
            got = rotate(x, encoding, case.arrays["positions"])
            bound = case.facts["tolerance"][dtype]
            assert_within(f"{role} {dtype}", got=got, expected=y, tolerance=bound)
        assert case.arrays[f"cos.{dtype}"].shape == (5, pairs)
    assert not any(key.endswith("float64") for key in case.arrays)


def test_positions_of_each_sequence() -> None:
    where = np.array([[0, 1, 2], [100, 7, 100]])
    case = own("default", batch=2, positions=where)
    assert_same_bits("positions", got=case.arrays["positions"], expected=where)
    alone = own("default", batch=2, positions=where[0])
    for role in ("q", "k"):
        name = f"{role}_rotated.float32"
        assert_same_bits(role, got=case.arrays[name][0], expected=alone.arrays[name][0])
        assert (case.arrays[name][1] != alone.arrays[name][1]).any()
    assert case.arrays["cos.float64"].shape == (2, 3, 8)
    # cos and sin of a float64 product, right to an ulp, and its rounding of up to 100.
    angle = where[..., None] * case.arrays["inv_freq"]
    bound = 2.0**-52 + 100 * 2.0**-53
    for name, function in (("cos", np.cos), ("sin", np.sin)):
        got = case.arrays[f"{name}.float64"]
        assert_within(name, got=got, expected=function(angle), tolerance=bound)


def test_positions_with_axes() -> None:
    differing = own("mrope", length=8).arrays["positions"]
    assert differing.shape == (8, 3)
    assert all(len(set(point)) == 3 for point in differing.tolist())
    shared = own("mrope", positions=[3, 9]).arrays["positions"]
    assert shared.tolist() == [[3, 3, 3], [9, 9, 9]]
    points = [[0, 1, 2], [5, 4, 3]]
    assert own("mrope", positions=points).arrays["positions"].tolist() == points


def test_positions_that_are_not_whole() -> None:
    case = own("default", positions=[0.0, 0.5])
    assert case.arrays["positions"].tolist() == [0.0, 0.5]
    assert case.arrays["positions"].dtype == np.float64
    assert own("default", positions=[0.0, -2.0]).arrays["positions"].dtype == np.int64


def test_a_mistake_is_outside_the_tolerance() -> None:
    case = own("llama3", positions=range(8), dtypes=["float32", "bfloat16"])
    mistakes = {
        "layout": rope("llama3", head_dim=16, **TYPES["llama3"]),
        "direction": rope("llama3", **LISTS, direction="reversed", **TYPES["llama3"]),
        "base": rope("llama3", **LISTS, **TYPES["llama3"] | {"rope_theta": 10_000.0}),
    }
    for name, mistaken in mistakes.items():
        for dtype, bound in case.facts["tolerance"].items():
            y = case.arrays[f"q_rotated.{dtype}"].astype(float)
            got = rotate(case.arrays[f"q.{dtype}"], mistaken, range(8)).astype(float)
            assert np.abs(got - y).max() > 2 * bound, (name, dtype)


def test_the_tolerance_is_that_of_the_readme() -> None:
    case = own("yarn", positions=[0, 30_000], heads=1, dtypes=["float16"])
    facts, m = case.facts, np.array([0, 30_000.0])
    largest = {"tolerance": 0.0, "tolerance_float32_angles": 0.0}
    for role in ("q", "k"):
        x = case.arrays[f"{role}.float16"].astype(float)[0, 0]
        for i, (a, b) in enumerate(facts["pairs_in"]):
            size = facts["attention_factor"] * np.hypot(x[:, a], x[:, b])
            theta = case.arrays["inv_freq"][i]
            r = abs(np.log(theta))
            single = 0 if theta == 1 else (7 + r + 2 * max(r, i)) * 2.0**-24
            for key, e in (("tolerance", 2.0**-53), ("tolerance_float32_angles", single)):
                rate = 8 * 2.0**-11 + e * m * theta
                largest[key] = max(largest[key], float((rate * size).max()) + 4 * 2.0**-24)
    for key, expected in largest.items():
        assert facts[key]["float16"] == pytest.approx(expected, rel=1e-12), key


def test_several_encodings_have_names() -> None:
    both = {"full layer": ENCODINGS["linear"], "sliding": ENCODINGS["default"]}
    assert [case.name for case in vectors(both, length=2)] == ["full-layer", "sliding"]
    assert own("default").name == "default-half"


def test_seeds() -> None:
    first, again, other = (own("default", length=2, seed=seed) for seed in (0, 0, 1))
    for name, array in first.arrays.items():
        assert_same_bits(name, got=again.arrays[name], expected=array)
    assert (first.arrays["q.float32"] != other.arrays["q.float32"]).any()


PLAIN = ENCODINGS["default"]
REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (PLAIN, {"heads": 3, "key_heads": 2}, "heads must be a multiple of key_heads, got 3 and 2"),
    (PLAIN, {"batch": 0}, "batch must be at least 1, got 0"),
    (PLAIN, {"length": 0}, "length must be from 1 to 4,194,304, got 0"),
    (PLAIN, {"length": 2, "positions": [0, 1]}, "length is the number of positions"),
    (PLAIN, {"positions": []}, "positions must have shape (length,) or (1, length), length at"),
    (PLAIN, {"positions": 3}, "got ()"),
    (PLAIN, {"positions": [[0], [1], [2]], "batch": 2}, "(2, length), length at least 1, got (3,"),
    (ENCODINGS["mrope"], {"positions": [[0, 1]]}, "shape (length, 3) or (1, length, 3)"),
    (PLAIN, {"positions": [2.0**60]}, "at most 2^53"),
    (PLAIN, {"dtypes": ["float8"]}, "dtype must be one of float64, float32, float16, bfloat16"),
    (PLAIN, {"dtypes": []}, "got none"),
    (PLAIN, {"length": 10**12}, "length must be from 1 to 4,194,304, got 1000000000000"),
    (PLAIN, {"length": 10**6}, "batch x heads x length x head dim must be at most 4,194,304"),
    (ENCODINGS["xpos"], {"positions": [10**6]}, "must be finite after rotation, got inf in"),
    ({}, {}, "encodings must have names"),
    ({"a b": PLAIN, "a-b": PLAIN}, {}, "encodings must have names that differ"),
    (None, {"heads": 4}, "heads is of a case of your own, which needs an encoding; pass rope"),
]


@pytest.mark.parametrize(("encoding", "options", "message"), REFUSED)
def test_refusals(encoding: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        vectors(encoding, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("encoding", "options"),
    [("half", {}), ({"mine": "half"}, {}), (PLAIN, {"dtypes": "float32"}), (PLAIN, {"heads": "2"})],
)
def test_wrong_types(encoding: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        vectors(encoding, **options)
    assert "\n" not in str(caught.value)


# A C program has the files and their header.

PROGRAM = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include "rope_case.h"

static void *load(const char *path, size_t count, size_t size) {
    FILE *file = fopen(path, "rb");
    void *data = malloc(count * size + 1);
    if (!file || fread(data, size, count + 1, file) != count) exit(2);
    fclose(file);
    return data;
}

static double worst(const float *x, const float *y, int heads) {
    const int64_t *positions = load(ROPE_POSITIONS_FILE, ROPE_POSITIONS_COUNT, 8);
    const double *inv_freq = load(ROPE_INV_FREQ_FILE, ROPE_INV_FREQ_COUNT, 8);
    double error = 0;
    for (int row = 0; row < ROPE_BATCH * heads * ROPE_LENGTH; row++) {
        double m = positions[row % ROPE_LENGTH];
        float out[ROPE_HEAD_DIM];
        const float *in = x + row * ROPE_HEAD_DIM, *expected = y + row * ROPE_HEAD_DIM;
        for (int i = 0; i < ROPE_HEAD_DIM; i++) out[i] = in[i];
        for (int i = 0; i < ROPE_PAIRS; i++) {
            double t = ROPE_SIGN * m * inv_freq[i];
            float c = ROPE_ATTENTION_FACTOR * cos(t), s = ROPE_ATTENTION_FACTOR * sin(t);
            float a = in[ROPE_PAIRS_IN[i][0]], b = in[ROPE_PAIRS_IN[i][1]];
            out[ROPE_PAIRS_OUT[i][0]] = a * c - b * s;
            out[ROPE_PAIRS_OUT[i][1]] = a * s WRONG b * c;
        }
        for (int i = 0; i < ROPE_HEAD_DIM; i++) error = fmax(error, fabs(out[i] - expected[i]));
    }
    return error;
}

int main(void) {
    const float *q = load(ROPE_Q_FLOAT32_FILE, ROPE_Q_FLOAT32_COUNT, 4);
    const float *k = load(ROPE_K_FLOAT32_FILE, ROPE_K_FLOAT32_COUNT, 4);
    const float *rotated_q = load(ROPE_Q_ROTATED_FLOAT32_FILE, ROPE_Q_ROTATED_FLOAT32_COUNT, 4);
    const float *rotated_k = load(ROPE_K_ROTATED_FLOAT32_FILE, ROPE_K_ROTATED_FLOAT32_COUNT, 4);
    double error = fmax(worst(q, rotated_q, ROPE_HEADS), worst(k, rotated_k, ROPE_KEY_HEADS));
    printf("%s %g %g\n", ROPE_CASE, error, ROPE_TOLERANCE_FLOAT32);
    return error > ROPE_TOLERANCE_FLOAT32;
}
"""


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
def test_a_c_program_reads_the_raw_files_by_their_header(tmp_path: Path, *, wrong: bool) -> None:
    encoding = rope(
        "yarn", head_dim=32, rotary_dim=24, layout="half", direction="reversed", **TYPES["yarn"]
    )
    cases = vectors(
        encoding, batch=2, heads=4, key_heads=2, positions=[0, 1, 2, 4095, 100_000],
        dtypes=["float32", "bfloat16"],
    )  # fmt: skip
    write(tmp_path, contents(cases, format="bin", seed=0))
    source = tmp_path / "test_rope.c"
    source.write_text(PROGRAM.replace("WRONG", "-" if wrong else "+"))
    folder = tmp_path / cases[0].name
    compiler = ["cc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-I", str(folder)]
    subprocess.run([*compiler, source, "-o", tmp_path / "test_rope", "-lm"], check=True)
    done = subprocess.run(
        [tmp_path / "test_rope"], cwd=folder, capture_output=True, text=True, check=False
    )
    name, error, bound = done.stdout.split()
    assert name == cases[0].name
    assert float(bound) == pytest.approx(cases[0].facts["tolerance"]["float32"], rel=1e-5)
    assert done.returncode == wrong
    assert (float(error) > 1) == wrong


def test_headers_of_every_case_compile(tmp_path: Path) -> None:
    cases = [own(name, positions=[0, 1]) for name in ("mrope", "xpos", "no formula", "longrope")]
    for case in cases:
        write(tmp_path / case.name, contents([case], format="bin", seed=0))
        header = tmp_path / case.name / case.name / "rope_case.h"
        compiler = ["cc", "-std=c99", "-pedantic", "-Werror", "-fsyntax-only", "-x", "c"]
        subprocess.run([*compiler, "-include", header, "-"], input=b"int main(void){}", check=True)
        manifest = json.loads((tmp_path / case.name / "manifest.json").read_text())
        listed = manifest["cases"][0]["arrays"]
        for name, array in case.arrays.items():
            raw = (tmp_path / case.name / listed[name]["file"]).read_bytes()
            assert raw == array.tobytes()


def test_golden_vectors_of_another_release_are_of_the_same_cases() -> None:
    """A change of names, parameters, axes or positions belongs in the changelog."""
    cases = [(each, each.positions) for each in recipes()]
    digest = hashlib.sha256(repr(cases).encode()).hexdigest()
    assert (len(cases), digest[:16]) == (53, "604664eac4bd871f")


def test_tables_of_xpos_do_not_grow() -> None:
    (case,) = vectors(ENCODINGS["xpos"], positions=[0, 3, 50])
    cosine, sine = case.arrays["cos.float64"], case.arrays["sin.float64"]
    assert np.allclose(cosine**2 + sine**2, 1, rtol=0, atol=1e-12)
