"""The calling conventions of released implementations are found, each as its code says.

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

import pytest
from oracle.conventions.released import RELEASED, VERSIONS, Released

pytestmark = pytest.mark.oracle

HERE = Path(__file__).parent
#: Which backend Keras has, which device tinygrad has, and that SGLang is to run on a CPU.
SETTINGS = {
    "CUDA_VISIBLE_DEVICES": "",
    "DEV": "PYTHON",
    "KERAS_BACKEND": "torch",
    "SGLANG_USE_CPU_ENGINE": "1",
}


def installed(package: str) -> bool:
    try:
        return version(package).partition("+")[0] == VERSIONS[package]
    except PackageNotFoundError:
        return False


@cache
def found(package: str) -> dict[str, str]:
    """Return the options found for the implementations of a package, by their keys."""
    done = subprocess.run(
        [sys.executable, HERE / "find_all.py", package],
        env={**os.environ, **SETTINGS},
        capture_output=True,
        text=True,
        check=True,
    )
    pairs = json.loads(done.stdout.splitlines()[-1])
    return {Released(*fields).key: options for fields, options in pairs}


@pytest.mark.parametrize(
    "released",
    [pytest.param(each, id=each.key) for each in RELEASED if installed(each.package)],
)
def test_the_convention_is_found(released: Released) -> None:
    assert found(released.package)[released.key] == released.options


def test_nine_of_ten_are_found_without_a_call_given() -> None:
    given = [each for each in RELEASED if each.call]
    assert len(given) <= len(RELEASED) / 10


def test_the_packages_of_the_extra_are_among_them() -> None:
    assert installed("transformers")
