"""Released implementations are called as their code says, and judged as arithmetic says.

Those of a package are tried where it is installed in the version that was read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.conventions.arithmetic import RIGHT, ROUNDED, WRONG, names
from oracle.conventions.released import RELEASED, VERSIONS, Released

pytestmark = pytest.mark.oracle

HERE = Path(__file__).parent
#: Keras' backend, and SGLang on the CPU.
SETTINGS = {
    "CUDA_VISIBLE_DEVICES": "",
    "KERAS_BACKEND": "torch",
    "SGLANG_USE_CPU_ENGINE": "1",
}


def is_installed(package: str) -> bool:
    try:
        return version(package).partition("+")[0] == VERSIONS[package]
    except PackageNotFoundError:
        return False


@cache
def findings(package: str) -> dict[str, dict[str, Any]]:
    """Return the findings for the implementations of a package, by their keys."""
    done = subprocess.run(
        [sys.executable, HERE / "find_all.py", package],
        env={**os.environ, **SETTINGS},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


EACH = pytest.mark.parametrize(
    "released",
    [pytest.param(each, id=each.key) for each in RELEASED if is_installed(each.package)],
)


@EACH
def test_the_convention_is_found(released: Released) -> None:
    assert findings(released.package)[released.key]["options"] == released.options


@EACH
def test_the_rotation_is_the_one_that_arithmetic_gives(released: Released) -> None:
    assert findings(released.package)[released.key]["rotation"][0] == released.rotation


@EACH
def test_the_verdict_is_the_one_that_arithmetic_gives(released: Released) -> None:
    said = findings(released.package)[released.key]
    fault = released.fault or WRONG.get(released.rotation, (None, ""))[1]
    assert said["passed"] is not bool(fault), said["diagnosis"]
    assert fault in (said["diagnosis"] or "")
    if released.rotation not in RIGHT:
        return
    rotation, dim = RIGHT[released.rotation], 2 * len(said["frequencies"])
    turned = -1 if said["direction"] == "reversed" else 1
    assert said["read"] == rotation.read(dim).tolist()
    assert said["written"] == rotation.written(dim).tolist()
    # Rounded bases are recognised, so that nothing but the power is rounded.
    theirs = turned * np.array(said["frequencies"])
    assert np.allclose(theirs, rotation.frequencies(dim), rtol=1e-12, atol=0)
    assert said["factor"] == pytest.approx(1, abs=1e-6)


def test_equinox_rotates_a_second_theta_by_the_first_one() -> None:
    import equinox
    import jax.numpy as jnp

    dim, positions = 12, np.arange(20)
    x = np.random.default_rng(0).standard_normal((20, dim)).astype(np.float32)
    for theta in (10_000.0, 500_000.0):
        module = equinox.nn.RotaryPositionalEmbedding(dim, theta=theta)
        got = np.asarray(module(jnp.asarray(x)))
        assert [name for name in names(x, positions, got) if name in RIGHT] == ["half"]


def test_nine_of_ten_are_found_without_a_call_given() -> None:
    given = [each for each in RELEASED if each.call]
    assert len(given) <= len(RELEASED) / 10


def test_the_packages_of_the_extra_are_among_them() -> None:
    assert is_installed("transformers")


def test_the_bounds_of_the_arithmetic_part_all_rotations() -> None:
    x = np.random.default_rng(0).standard_normal((2, 40, 16)).astype(np.float32)
    positions = 1900 + np.arange(40)
    for name in (*RIGHT, *WRONG):
        rotated = RIGHT[name] if name in RIGHT else WRONG[name][0]
        got = rotated(x.astype(np.float64), positions.astype(np.float64)).astype(np.float32)
        # Positions in float32 are right.
        assert set(names(x, positions, got)) - {ROUNDED} == {name} - {ROUNDED} | (
            {"interleaved"} if name == ROUNDED else set()
        )
