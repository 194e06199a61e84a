"""Functions of JAX without jit: right ones pass in few shapes, each compiled, and faults fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ropecli

jax = pytest.importorskip("jax")
jnp = jax.numpy

pytestmark = pytest.mark.oracle

Array = Any
#: Operations compiled for the default run of a function of ten: there were 994 of them when every
#: size was a call of its own, which took more than a minute of a processor.
MOST_COMPILED = 460
COMPILED = "/jax/core/compile/backend_compile_duration"


def rope(x: Array, positions: Array, *, axis: int = -2) -> Array:
    """Rotate halves of x (..., sequence, head dim); the sequence may be on another axis."""
    dim = x.shape[-1]
    theta = 1.0 / 10_000 ** (jnp.arange(0, dim, 2) / dim)
    angle = jnp.asarray(positions, dtype=jnp.float32)[..., None] * theta
    if angle.ndim == 3 or axis == -3:
        angle = jnp.expand_dims(angle, 1 if axis == -2 else -2)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


def heads_second(x: Array, positions: Array) -> Array:
    """Rotate x (batch, heads, sequence, head dim)."""
    return rope(x, positions)


def heads_third(x: Array, positions: Array) -> Array:
    """Rotate x (batch, sequence, heads, head dim)."""
    return rope(x, positions, axis=-3)


def ignores_positions(x: Array, positions: Array) -> Array:
    return rope(x, jnp.arange(x.shape[-2]))


def takes_those_of_the_first_sequence(x: Array, positions: Array) -> Array:
    return rope(x, positions[0] if positions.ndim == 2 else positions)


def rounds_positions(x: Array, positions: Array) -> Array:
    return rope(x, jnp.asarray(positions).astype(jnp.bfloat16).astype(jnp.float32))


def leaves_out_half_of_the_heads(x: Array, positions: Array) -> Array:
    y = rope(x, positions)
    if x.ndim < 4:
        return y
    most = (x.shape[1] + 1) // 2
    return jnp.concatenate([y[:, :most], x[:, most:]], axis=1)


def leaves_out_the_last_tile(x: Array, positions: Array) -> Array:
    """Tiles of 64 rows, of which one that is not full is left out."""
    whole = x.shape[-2] // 64 * 64 or x.shape[-2]
    y = rope(x, positions)
    return jnp.concatenate([y[..., :whole, :], x[..., whole:, :]], axis=-2)


def leaves_out_later_sequences(x: Array, positions: Array) -> Array:
    """Sequences of a batch from the fifth on."""
    y = rope(x, positions)
    return y if x.ndim < 4 else jnp.concatenate([y[:4], x[4:]], axis=0)


def looks_up_few_rows(x: Array, positions: Array) -> Array:
    """Rows of a table of 4,096, as indices beyond the end of an array are clipped."""
    return rope(x, jnp.minimum(jnp.asarray(positions), 4095))


def rounds_angles_of_halves(x: Array, positions: Array) -> Array:
    """Data of half precision at positions of that precision."""
    return rope(x, jnp.asarray(positions).astype(x.dtype).astype(jnp.float32))


@pytest.fixture
def compiled() -> Iterator[list[str]]:
    """Operations that were compiled, one after another."""
    names: list[str] = []

    def listen(name: str, _: float, **__: Any) -> None:
        if name == COMPILED:
            names.append(name)

    jax.clear_caches()
    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    jax.monitoring.clear_event_listeners()


@pytest.mark.parametrize(
    ("function", "axes"), [(heads_second, "b h s d"), (heads_third, "b s h d")]
)
def test_right_functions_pass_in_few_shapes(
    function: Callable[..., Array], axes: str, compiled: list[str]
) -> None:
    verdict = ropecli.check(function, isolated=False)
    assert verdict.passed, verdict.diagnosis
    assert verdict.arrangements[0] == axes
    assert {"float32", "float16", "bfloat16"} <= {*verdict.dtypes}
    assert 100 < len(compiled) < MOST_COMPILED


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (ignores_positions, "positions"),
        (takes_those_of_the_first_sequence, "position"),
        (rounds_positions, "bfloat16 positions"),
        (leaves_out_half_of_the_heads, "head"),
        (leaves_out_the_last_tile, "64"),
        (leaves_out_later_sequences, "sequence"),
        (looks_up_few_rows, "taken as 4095"),
        (rounds_angles_of_halves, "16"),
    ],
)
def test_faults_fail(function: Callable[..., Array], words: str) -> None:
    verdict = ropecli.check(function, isolated=False)
    assert verdict.passed is False
    assert words in str(verdict.diagnosis)
