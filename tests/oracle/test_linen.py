"""Modules of Flax's linen, which can't be called before they are bound."""

from __future__ import annotations

from typing import Any

import pytest
from judging import check_here, refusals

pytestmark = pytest.mark.oracle

DIM = 8


def module(kind: str, *, late: int = 0) -> Any:
    """A class that rotates halves, its frequencies made in `setup` or in the call itself."""
    import jax.numpy as jnp
    from flax import linen

    def turn(x: Any, positions: Any, theta: Any) -> Any:
        positions = positions + late * (positions > 5)
        angles = positions[..., None].astype(jnp.float32) * theta
        cos, sin = jnp.cos(angles), jnp.sin(angles)
        a, b = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)

    def frequencies(base: float) -> Any:
        return 1.0 / base ** (jnp.arange(0, DIM, 2) / DIM)

    class Setup(linen.Module):  # type: ignore[misc]
        base: float = 10_000.0

        def setup(self) -> None:
            self.theta = frequencies(self.base)

        def __call__(self, x: Any, positions: Any) -> Any:
            return turn(x, positions, self.theta)

    class Compact(linen.Module):  # type: ignore[misc]
        base: float = 10_000.0

        @linen.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: Any, positions: Any) -> Any:
            return turn(x, positions, frequencies(self.base))

    return {"setup": Setup, "compact": Compact}[kind]


def judge(target: Any) -> Any:
    return check_here(
        target,
        framework="jax",
        head_dim=DIM,
        context_length=64,
        dtypes="float32",
        select=("rotation", "offset positions"),
    )


@pytest.mark.parametrize("kind", ["setup", "compact"])
def test_a_module_is_called(kind: str) -> None:
    for target in (module(kind), module(kind)(base=500.0)):
        verdict = judge(target)
        assert refusals(verdict) == []
        assert verdict.passed


def test_a_fault_in_one_is_seen() -> None:
    assert not judge(module("setup", late=1)).passed
