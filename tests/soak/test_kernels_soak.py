"""The kernels of examples/kernels by every law: `pytest tests/soak/test_kernels_soak.py`.

Their compilers must be there.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import test_kernels as kernels


@pytest.mark.parametrize("name", ["kernel.c", "rope.c", *kernels.OTHERS])
def test_a_kernel_is_right(name: str, tmp_path: Path) -> None:
    kernels.assert_right(name, tmp_path)
