"""Released positional encodings against formulas in NumPy that are written for this test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from oracle.released_code import is_installed
from oracle.released_encodings import DOUBLE, RELEASED, Released, fresh

pytestmark = pytest.mark.oracle

Array = NDArray[Any]
#: Types that NumPy does not name.
NAMED: dict[str, Any] = {"bfloat16": ml_dtypes.bfloat16}


def sinusoidal(
    weights: dict[str, Array],
    length: int,
    dim: int,
    pairs: str,
    first: str,
    exponent: str,
    start: int = 0,
    scale: float | str = 1.0,
    zero_row: int | None = None,
    stretch: float = 1.0,
    repeat: int = 1,
    step: int = 1,
    precision: str = "float64",
    recipe: str = "1 / power",
    rounded: str = "float64",
) -> Array:
    def to(x: Any) -> Array:
        """Round what a library computes in half precision, step by step."""
        return np.asarray(x).astype(NAMED.get(precision, precision)).astype(np.float64)

    count = dim // 2
    index = np.arange(count) // repeat * repeat
    whole = count if exponent == "d" else count - 1
    if recipe == "exp":
        frequencies = to(np.exp(to(to(index) * (-np.log(10_000) / whole))))
    elif recipe == "cast":
        frequencies = to(10_000.0 ** (-index / whole))
    elif recipe == "power of the lowest":
        frequencies = to(to(np.float64(1e-4)) ** to(to(2.0 * index) / (2 * whole)))
    elif recipe == "power":  # what positions are divided by
        frequencies = 1 / to(10_000.0 ** to(to(2.0 * index) / (2 * whole)))
    else:
        frequencies = to(1 / to(10_000.0 ** to(to(2.0 * index) / (2 * whole))))
    angles = to(to(start + step * np.arange(length) * 1.0)[:, None] * frequencies * stretch)
    sin, cos = to(np.sin(angles)), to(np.cos(angles))
    two = (sin, cos) if first == "sin" else (cos, sin)
    found = np.concatenate(two, -1) if pairs == "halves" else np.stack(two, -1).reshape(length, dim)
    if zero_row is not None:
        found[zero_row] = 0
    found = found.astype(NAMED.get(rounded, rounded)).astype(np.float64)
    return found * (weights[scale] if isinstance(scale, str) else scale)


def grid(
    weights: dict[str, Array],
    height: int,
    width: int,
    dim: int,
    axes: str,
    tokens: str,
    start: int = 0,
    stretch: tuple[float, float] = (1.0, 1.0),
    up_to: float = 0.0,
    stack: str = "",
    **convention: Any,
) -> Array:
    parts = {}
    for axis, size, factor in zip(("height", "width"), (height, width), stretch, strict=True):
        factor = up_to / size if up_to else factor  # noqa: PLW2901 (a table that ends at `up_to`)
        parts[axis] = sinusoidal({}, size, dim // 2, start=start, stretch=factor, **convention)
    rows = np.repeat(parts["height"][:, None], width, axis=1)
    columns = np.repeat(parts["width"][None], height, axis=0)
    if tokens == "column by column":
        rows, columns = rows.swapaxes(0, 1), columns.swapaxes(0, 1)
    two = [rows, columns] if axes == "height, width" else [columns, rows]
    if stack:
        two = [
            np.concatenate(each, -1)
            for each in zip(*(np.split(part, 2, -1) for part in two), strict=True)
        ]
    return np.concatenate(two, -1).reshape(height * width, dim)


def fourier(weights: dict[str, Array], height: int, width: int, dim: int) -> Array:
    (matrix,) = weights.values()
    assert matrix.shape == (2, dim // 2)
    y, x = np.divmod(np.arange(height * width), width)
    angles = 2 * np.pi * ((2 * np.stack([x / width, y / height], -1) - 1) @ matrix)
    return np.concatenate([np.sin(angles), np.cos(angles)], -1)


def learned_table(
    weights: dict[str, Array], length: int, start: int = 0, scale: float = 1.0
) -> Array:
    (table,) = weights.values()
    return table[start : start + length] * scale


def slopes(weights: dict[str, Array], heads: int, steepest: int = 8) -> Array:
    """Return those of the power of two below, then every second one of twice as many heads."""
    power = 1 << (heads.bit_length() - 1)
    exact = [(each, power) for each in range(1, power + 1)]
    more = [(each, 2 * power) for each in range(1, 2 * power, 2)]
    both = (exact + more)[:heads]
    return np.array([2.0 ** (-steepest * part / whole) for part, whole in both])


def alibi(
    weights: dict[str, Array],
    heads: int,
    queries: int,
    keys: int,
    bias: str,
    last_query: str = "",
    steepest: int = 8,
    slope: str = "float64",
    rounded: str = "float64",
) -> Array:
    query = np.arange(queries) + (keys - queries if last_query == "at the last key" else 0)
    key = np.arange(keys)
    distance = {
        "slope * key": np.broadcast_to(key, (queries, keys)),
        "slope * (key - last)": np.broadcast_to(key - (keys - 1), (queries, keys)),
        "-slope * |query - key|": -np.abs(query[:, None] - key),
    }[bias]
    steep = slopes({}, heads, steepest).astype(NAMED.get(slope, slope)).astype(np.float64)
    terms = distance.astype(NAMED.get(slope, slope)).astype(np.float64)
    found = steep[:, None, None] * terms
    return np.asarray(found.astype(NAMED.get(rounded, rounded)).astype(np.float64))


def t5_bucket(distance: int, count: int, furthest: int) -> int:
    """Return the bucket of a distance in one direction, in integers: no logarithm is rounded."""
    exact = count // 2
    if distance < exact:
        return distance
    # The largest b with (distance / exact) ** (count - exact) >= (furthest / exact) ** b
    bucket = exact
    while bucket < count - 1:
        step = bucket + 1 - exact
        above = distance ** (count - exact) * exact**step
        if above < furthest**step * exact ** (count - exact):
            break
        bucket += 1
    return bucket


def t5_buckets(
    weights: dict[str, Array],
    relative: Array,
    count: int,
    furthest: int,
    bidirectional: bool,
    late: int | None = None,
) -> Array:
    size = count // 2 if bidirectional else count
    largest = int(np.abs(relative).max())
    one = np.array([t5_bucket(each, size, furthest) for each in range(largest + 1)])
    if late is not None:  # a border that belongs to the bucket before
        one[late] -= 1
    if bidirectional:
        return np.asarray(one[np.abs(relative)] + size * (relative > 0))
    return np.asarray(one[np.maximum(-relative, 0)])


def t5_bias(
    weights: dict[str, Array],
    queries: int,
    keys: int,
    past: int = 0,
    scale: float = 1.0,
    table: str = "",
    **convention: Any,
) -> Array:
    table = table or next(name for name in weights if "relative_attention_bias" in name)
    relative = np.arange(keys) - (np.arange(queries) + past)[:, None]
    index = t5_buckets({}, relative, **convention)
    return weights[table][index].transpose(2, 0, 1) * scale


def deberta_bucket(distance: int, count: int, furthest: int) -> int:
    """Return the bucket of a distance in integers: no logarithm is rounded."""
    middle = count // 2
    if distance <= middle:
        return distance
    # The least b with (distance / middle) ** (middle - 1) <= ((furthest - 1) / middle) ** b
    bucket = 0
    while distance ** (middle - 1) * middle**bucket > (furthest - 1) ** bucket * middle ** (
        middle - 1
    ):
        bucket += 1
    return middle + bucket


def deberta_buckets(
    weights: dict[str, Array], relative: Array, count: int = 0, furthest: int = 0
) -> Array:
    if not count:
        return relative
    largest = int(np.abs(relative).max())
    one = np.array([deberta_bucket(each, count, furthest) for each in range(largest + 1)])
    return np.asarray(np.sign(relative) * one[np.abs(relative)])


def random_values(seed: int, *shape: int) -> Array:
    """Return the numbers of `normal`, which the library gets in float32."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(np.float64)


def deberta_scores(
    weights: dict[str, Array], heads: int, length: int, head_dim: int, count: int, furthest: int
) -> Array:
    q, k = random_values(1, heads, length, head_dim), random_values(2, heads, length, head_dim)
    embeddings = random_values(3, 2 * count, heads * head_dim)

    def project(name: str) -> Array:
        found = embeddings @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
        return found.reshape(2 * count, heads, head_dim).transpose(1, 0, 2)

    place = np.arange(length)
    delta = deberta_buckets({}, place[:, None] - place, count, furthest)
    index = np.clip(delta + count, 0, 2 * count - 1)
    to_position = np.einsum("hid,hijd->hij", q, project("key_proj")[:, index])
    from_position = np.einsum("hjd,hijd->hij", k, project("query_proj")[:, index])
    return np.asarray((to_position + from_position) / np.sqrt(3 * head_dim))


def window_index(
    weights: dict[str, Array], height: int, width: int, class_token: bool = False
) -> Array:
    row, column = np.divmod(np.arange(height * width), width)
    down = row[:, None] - row + height - 1
    right = column[:, None] - column + width - 1
    found = down * (2 * width - 1) + right
    if class_token:
        count = (2 * height - 1) * (2 * width - 1)
        found = np.pad(found, ((1, 0), (1, 0)))
        found[0], found[:, 0], found[0, 0] = count, count + 1, count + 2
    return np.asarray(found)


def window_bias(weights: dict[str, Array], height: int, width: int) -> Array:
    (table,) = weights.values()
    return table[window_index({}, height, width)].transpose(2, 0, 1)


def clipped_bias(
    weights: dict[str, Array],
    queries: int,
    keys: int,
    clip: tuple[int, int],
    relative: str,
    given: tuple[int, int] | None = None,
) -> Array:
    (table,) = [random_values(0, *given)] if given else weights.values()
    distance = np.arange(keys) - np.arange(queries)[:, None]
    distance = -distance if relative == "query - key" else distance
    return np.asarray(table[np.clip(distance, *clip) - clip[0]].transpose(2, 0, 1))


def dynamic_bias(weights: dict[str, Array], queries: int, keys: int, relative: str) -> Array:
    assert relative == "query - key"
    distance = np.arange(queries)[:, None] - np.arange(keys)
    first, first_bias, last, last_bias = weights.values()
    hidden = distance[..., None] * first[:, 0] + first_bias
    hidden = hidden / (1 + np.exp(-hidden))
    return np.asarray((hidden @ last.T + last_bias).transpose(2, 0, 1))


def shaw_scores(
    weights: dict[str, Array], heads: int, length: int, head_dim: int, clip: tuple[int, int]
) -> Array:
    q = random_values(1, heads, length, head_dim)
    distance = np.clip(np.arange(length) - np.arange(length)[:, None], *clip) - clip[0]
    table = weights["distance_embedding.weight"][distance]
    return np.asarray(np.einsum("hid,ijd->hij", q, table) / np.sqrt(head_dim))


def relative_shift(
    weights: dict[str, Array], heads: int, length: int, columns: int, first: str
) -> Array:
    """Scores by relative position: the first column has the largest query - key."""
    x = random_values(0, heads, length, columns)
    largest = length if first == "distance + length" else length - 1
    query, key = np.ogrid[:length, :length]
    return x[:, query, largest - (query - key)]


def xlnet_scores(weights: dict[str, Array], heads: int, length: int, head_dim: int) -> Array:
    q, k = random_values(1, length, heads, head_dim), random_values(2, length, heads, head_dim)
    r = random_values(3, 2 * length, heads, head_dim)
    query, key = np.ogrid[:length, :length]
    by_distance = r[length - (query - key)]
    content = np.einsum("ihd,jhd->hij", q + weights["r_w_bias"], k)
    position = np.einsum("ihd,ijhd->hij", q + weights["r_r_bias"], by_distance)
    scores = (content + position) / np.sqrt(head_dim)
    return np.asarray(scores - np.log(np.exp(scores).sum(-1, keepdims=True)))


def cope_scores(
    weights: dict[str, Array], heads: int, length: int, head_dim: int, furthest: int
) -> Array:
    q, logits = random_values(1, heads, length, head_dim), random_values(2, heads, length, length)
    gates = np.tril(1 / (1 + np.exp(-logits)))
    position = np.minimum(gates[..., ::-1].cumsum(-1)[..., ::-1], furthest - 1)
    by_integer = q @ weights["pos_emb"].T
    below, above = np.floor(position).astype(int), np.ceil(position).astype(int)
    part = position - below
    lower = np.take_along_axis(by_integer, below, -1)
    upper = np.take_along_axis(by_integer, above, -1)
    return np.asarray(lower * (1 - part) + upper * part)


def pope(q: Array, k: Array, bias: Array, positions: Array) -> Array:
    """Return the scores of one head."""
    frequencies = 10_000.0 ** -(np.arange(q.shape[-1]) / q.shape[-1])
    distance = positions - positions[:, None]
    angles = distance[:, :, None] * frequencies + np.clip(bias, -2 * np.pi, 0)
    q, k = np.logaddexp(0, q), np.logaddexp(0, k)
    return np.asarray(np.einsum("ic,jc,ijc->ij", q, k, np.cos(angles)))


def pope_scores(weights: dict[str, Array], heads: int, length: int, head_dim: int) -> Array:
    q, k = random_values(1, heads, length, head_dim), random_values(2, heads, length, head_dim)
    bias = weights["learned_bias"][:, 0]
    return np.stack([pope(*each, np.arange(length)) for each in zip(q, k, bias, strict=True)])


def pope_of_batch(
    weights: dict[str, Array], heads: int, length: int, head_dim: int, positions_of: str
) -> Array:
    shape = (heads, heads, length, head_dim)
    q, k, bias = random_values(1, *shape), random_values(2, *shape), weights["learned_bias"][:, 0]
    positions = np.arange(length) * np.arange(1, heads + 1)[:, None]
    found = np.empty((heads, heads, length, length))
    for batch, head in np.ndindex(heads, heads):
        own = positions[head if positions_of == "head" else batch]
        found[batch, head] = pope(q[batch, head], k[batch, head], bias[head], own)
    return found


FORMULAS: dict[str, Callable[..., Array]] = {
    each.__name__: each
    for each in (
        sinusoidal,
        grid,
        fourier,
        learned_table,
        slopes,
        alibi,
        t5_buckets,
        t5_bias,
        deberta_buckets,
        deberta_scores,
        window_index,
        window_bias,
        clipped_bias,
        dynamic_bias,
        shaw_scores,
        relative_shift,
        xlnet_scores,
        cope_scores,
        pope_scores,
        pope_of_batch,
    )
}


def fill(function: Any) -> dict[str, Array]:
    """Give the parameters of a module known values, and return them."""
    owner = getattr(function, "__self__", function)
    if inspect.isfunction(function):  # an adapter, which calls the module of its file
        modules = (each for each in function.__globals__.values() if not inspect.isclass(each))
        owner = next((each for each in modules if hasattr(each, "named_parameters")), owner)
    if isinstance(function, functools.partial):
        owner = function.args[0]
    weights = {}
    if hasattr(owner, "named_parameters"):
        import torch

        random = np.random.default_rng(0)
        for name, parameter in owner.named_parameters():
            weights[name] = random.standard_normal(parameter.shape)
            if parameter.requires_grad:
                with torch.no_grad():
                    parameter.copy_(torch.from_numpy(weights[name]))
    return weights


def array(found: Any) -> Array:
    """Return what a library returned, in float64."""
    if hasattr(found, "detach"):
        found = found.detach().double()
    return np.asarray(found, dtype=np.float64)


def run(each: Released, convention: Mapping[str, Any] | None = None) -> tuple[Array, Array]:
    """Return the values of the library and those of the formula."""
    # Those of the extra `oracles` must be there.
    if each.library.split()[0] not in {"transformers", "x-transformers"} and not is_installed(each):
        pytest.skip(f"needs {each.library}")
    function = fresh(each.source, each.function)
    weights = fill(function)
    got = array(each.call(function))
    expected = FORMULAS[each.formula](weights, **each.sizes, **(convention or each.convention))
    return got, expected


def largest_error(got: Array, expected: Array) -> float:
    assert got.shape == expected.shape
    return float(np.abs(got - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("name", RELEASED)
def test_convention(name: str) -> None:
    each = RELEASED[name]
    got, expected = run(each)
    error = largest_error(got, expected)
    assert error <= each.within
    if each.encoding == "sinusoidal" and each.verdict != "wrong":
        assert (error <= DOUBLE) == (each.angles == "float64")


@pytest.mark.parametrize("name", [name for name in RELEASED if RELEASED[name].right])
def test_wrong(name: str) -> None:
    each = RELEASED[name]
    assert each.verdict == "wrong"
    got, expected = run(each, each.right)
    assert np.abs(got - expected).max() == pytest.approx(each.error, rel=0.01)


def test_survey() -> None:
    assert len(RELEASED) > 100
    assert {each.formula for each in RELEASED.values()} == set(FORMULAS)
    assert all(bool(each.right) == (each.verdict == "wrong") for each in RELEASED.values())
