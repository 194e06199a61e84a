"""Golden vectors: read as a stranger would, held against ropecli, and seen to catch mistakes."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import assert_same_bits, assert_within, assert_within_ulps
from mpmath import mp, mpf
from numpy.typing import NDArray

from ropecli import ArgumentError, ArgumentTypeError, Rotary, rope
from ropecli.arrays import DTYPES
from ropecli.checks.vectors.case import Case, round_to
from ropecli.checks.vectors.cases import vectors
from ropecli.checks.vectors.folder import FORMATS, contents
from ropecli.rotary.types import ROPE_TYPES

pytestmark = pytest.mark.slow

Array = NDArray[Any]


@functools.cache
def cases() -> tuple[Case, ...]:
    return vectors()


@functools.cache
def files(format: str) -> dict[str, bytes]:
    return contents(cases(), format=format, seed=0)


def rotations() -> list[Case]:
    assert len({case.name for case in cases()}) == len(cases())
    return [case for case in cases() if case.kind == "rotation"]


# A stranger has the files and their README, and none of the code.


def stranger_reads(content: Mapping[str, bytes], entry: Mapping[str, Any]) -> Array:
    """An array as the README describes its file."""
    data, dtype, shape = content[entry["file"]], entry["dtype"], entry["shape"]
    kinds = {"float64": "<f8", "float32": "<f4", "float16": "<f2", "int64": "<i8"}
    if entry["file"].endswith(".json"):
        values = np.array(json.loads(data)[entry["key"]])
        assert list(values.shape) == shape
        return values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    if entry["file"].endswith(".safetensors"):
        length = struct.unpack("<Q", data[:8])[0]
        field = json.loads(data[8 : 8 + length])[entry["key"]]
        begin, end = (8 + length + offset for offset in field["data_offsets"])
        assert field["shape"] == shape
        raw = data[begin:end]
    elif entry["file"].endswith(".bin"):
        raw = data
    else:
        end = 10 + struct.unpack("<H", data[8:10])[0]
        header = ast.literal_eval(data[10:end].decode())
        assert header["descr"] == kinds.get(dtype, "<u2")
        assert header["fortran_order"] is False
        raw = data[end:]
    if dtype == "bfloat16":
        bits = np.frombuffer(raw, "<u2").reshape(shape)
        return (bits.astype("<u4") << 16).view("<f4").astype(ml_dtypes.bfloat16)
    return np.frombuffer(raw, kinds[dtype]).reshape(shape)


def stranger_rotates(case: Mapping[str, Any], arrays: Mapping[str, Array], dtype: str) -> Array:
    """The formula of the README, every operation after cos, sin and exp rounded to the dtype."""
    kind = DTYPES[dtype].type
    x = arrays["x"].astype(kind)
    y = x.copy()
    sign = -1 if case["direction"] == "reversed" else 1
    for row, position in enumerate(arrays["positions"]):
        for i, (a, b) in enumerate(case["pairs_in"]):
            m = float(position if case["axis"] is None else position[case["axis"][i]])
            t = sign * m * float(arrays["inv_freq"][i])
            size = kind(case["attention_factor"])
            cosine, sine = kind(math.cos(t)) * size, kind(math.sin(t)) * size
            grown = kind(1 if case["growth"] is None else math.exp(m * case["growth"][i]))
            c, d = case["pairs_out"][i]
            y[:, row, c] = (x[:, row, a] * cosine - x[:, row, b] * sine) * grown
            y[:, row, d] = (x[:, row, a] * sine + x[:, row, b] * cosine) * grown
    return y


def stranger_allows(
    manifest: Mapping[str, Any], case: Mapping[str, Any], arrays: Mapping[str, Array], dtype: str
) -> Array:
    """The tolerance of the README, e being that of one product in float64."""
    unit, floor = manifest["dtypes"][dtype]["unit"], manifest["dtypes"][dtype]["floor"]
    x = arrays["x"]
    allowed = np.zeros(x.shape)
    for row, position in enumerate(arrays["positions"]):
        for i, ((a, b), out) in enumerate(zip(case["pairs_in"], case["pairs_out"], strict=True)):
            m = float(position if case["axis"] is None else position[case["axis"][i]])
            growth = 0.0 if case["growth"] is None else case["growth"][i]
            rate = 2.0**-53 * abs(m) * (abs(arrays["inv_freq"][i]) + abs(growth))
            size = case["attention_factor"] * np.hypot(x[:, row, a], x[:, row, b])
            grown = size * math.exp(m * growth)
            for c in out:
                allowed[:, row, c] = (case["roundings"] * unit + rate) * grown + floor
    return allowed


@pytest.mark.parametrize("format", FORMATS)
def test_a_stranger_finds_every_vector_within_the_tolerance(format: str) -> None:
    content = files(format)
    manifest = json.loads(content["manifest.json"])
    for case in manifest["cases"]:
        if case["kind"] != "rotation":
            continue
        arrays = {name: stranger_reads(content, entry) for name, entry in case["arrays"].items()}
        for dtype in manifest["dtypes"]:
            assert_within(
                f"{case['name']} {dtype}",
                got=stranger_rotates(case, arrays, dtype).astype(np.float64),
                expected=arrays[f"y.{dtype}"].astype(np.float64),
                tolerance=stranger_allows(manifest, case, arrays, dtype),
            )


@pytest.mark.parametrize("format", FORMATS)
def test_files_hold_the_arrays_to_the_bit(format: str) -> None:
    content = files(format)
    manifest = json.loads(content["manifest.json"])
    assert [case["name"] for case in manifest["cases"]] == [case.name for case in cases()]
    for case, listed in zip(cases(), manifest["cases"], strict=True):
        assert set(case.arrays) == set(listed["arrays"])
        for name, array in case.arrays.items():
            read = stranger_reads(content, listed["arrays"][name])
            assert_same_bits(f"{case.name} {name}", got=read, expected=array)


@pytest.mark.parametrize("format", FORMATS)
def test_the_manifest_lists_every_file_with_its_sum(format: str) -> None:
    content = files(format)
    manifest = json.loads(content["manifest.json"])
    listed = {entry["path"]: entry for entry in manifest["files"]}
    assert set(listed) == set(content) - {"manifest.json"}
    for path, entry in listed.items():
        assert entry["sha256"] == hashlib.sha256(content[path]).hexdigest()
        assert entry["bytes"] == len(content[path])
    assert sum(map(len, content.values())) < 2_000_000


def test_the_readme_names_every_key_and_case() -> None:
    text = files("npy")["README.md"].decode()
    for case in cases():
        assert f"* `{case.name}`" in text
        for key in case.facts:
            assert f"`{key}`" in text, key
    assert max(map(len, text.splitlines())) <= 100


def encoding_of(case: Case) -> Rotary:
    """The case's encoding with the frequencies of the file."""
    taken = ("direction", "attention_factor", "axis", "growth", "pairs_in", "pairs_out")
    return Rotary.from_inv_freq(
        case.arrays["inv_freq"],
        head_dim=case.facts["parameters"]["head_dim"],
        **{key: case.facts[key] for key in taken},
    )


def by_parameters(case: Case) -> Rotary:
    made = rope(**case.facts["parameters"])
    return made.for_keys if case.facts["role"] == "key" else made


def test_ropecli_makes_the_same_encodings_of_the_parameters() -> None:
    for case in rotations():
        made, known = by_parameters(case), encoding_of(case)
        assert made.input_pairs == known.input_pairs, case.name
        assert made.output_pairs == known.output_pairs, case.name
        assert (made.axis, made.direction) == (known.axis, known.direction), case.name
        # As for every rope type: the power's rounding times ln(base), and a ramp's.
        ulps = math.log(made.base or 1e4) + 10 + 2 * made.head_dim
        assert_within_ulps(
            case.name, got=made.diagonal_inv_freq, expected=known.diagonal_inv_freq, ulps=ulps
        )
        # A logarithm, its product, a sum, a quotient or a square, each an ulp or less.
        for name in ("attention_factor", "softmax_factor"):
            assert_within_ulps(
                f"{case.name} {name}", got=getattr(made, name), expected=case.facts[name], ulps=6
            )
        assert_within_ulps(case.name, got=made.growth, expected=known.growth, ulps=8)


def test_every_rope_type_and_convention_is_there() -> None:
    given = [case.facts["parameters"] for case in rotations()]
    for layout in ("interleaved", "half"):
        types = {p["rope_type"] for p in given if p.get("layout") == layout}
        assert types == set(ROPE_TYPES)
    assert any(p.get("rotary_offset") == 8 for p in given)
    assert any(p.get("direction") == "reversed" for p in given)
    assert any(p.get("mrope_interleaved") for p in given)


def test_vectors_to_be_rotated_are_exact_in_every_dtype() -> None:
    for case in cases():
        x = case.arrays["x"]
        for dtype in DTYPES.values():
            assert_same_bits(case.name, got=x.astype(dtype).astype(np.float64), expected=x)


def test_rounding_is_done_once() -> None:
    with mp.workdps(40):
        just_above_a_tie = 1 + mpf(2) ** -11 + mpf(2) ** -60
        tie, small = 1 + mpf(2) ** -11, mpf(2) ** -25 + mpf(2) ** -60
        tiny_tie = 3 * mpf(2) ** -25
        below = -just_above_a_tie
    values = np.array([just_above_a_tie, below, tie, small, tiny_tie, mpf(0)])
    got = round_to(values, "float16")
    up = 1 + 2.0**-10
    expected = np.array([up, -up, 1, 2.0**-24, 2.0**-23, 0], dtype=np.float16)
    assert_same_bits("float16", got=got, expected=expected)
    assert float(just_above_a_tie) == float(tie)  # by way of float64 it would have gone down


def test_runs_and_seeds() -> None:
    again = contents(vectors(), format="safetensors", seed=0)
    assert again == files("safetensors")
    other = vectors(seed=1)[0]
    assert (other.arrays["x"] != cases()[0].arrays["x"]).any()
    with pytest.raises(ArgumentError, match="seed must be at least 0, got -1"):
        vectors(seed=-1)
    with pytest.raises(ArgumentTypeError, match="seed must be an integer, got 'one'"):
        vectors(seed="one")  # type: ignore[arg-type]
