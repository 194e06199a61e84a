"""Expected lengths of pairs from weights: against means of white input, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import assert_within
from numpy.typing import NDArray

from ropecli import ArgumentError, FileError, Rotary, Usage, usage, usage_of_weights
from ropecli.analyses.usage import expected_lengths
from ropecli.arrays import BFLOAT16
from ropecli.files.formats.safetensors import serialize

Array = NDArray[Any]
HEADS, KV_HEADS, DIM, WIDTH, TOKENS = 4, 2, 8, 32, 40_000
ROPE = Rotary(head_dim=DIM, layout="half")
LAYER, ATTENTION = "model.layers.0.", "model.layers.0.self_attn."
RANDOM = np.random.default_rng(0)
#: Pairs of very different lengths, with rows that are not orthogonal.
Q = RANDOM.standard_normal((HEADS * DIM, WIDTH)) * RANDOM.uniform(0.1, 3, (HEADS * DIM, 1))
K, V = RANDOM.standard_normal((2, KV_HEADS * DIM, WIDTH)) + RANDOM.uniform(-1, 1, (DIM * 2, 1))
PLAIN = {f"{ATTENTION}q_proj.weight": Q, f"{ATTENTION}k_proj.weight": K}
X = np.random.default_rng(1).standard_normal((TOKENS, WIDTH))


def of_weights(folder: Path, tensors: dict[str, Array], **options: Any) -> Usage:
    """Usage of the weights of a new file."""
    path = folder / "model.safetensors"
    path.write_bytes(serialize(tensors))
    sizes: dict[str, Any] = {"rope": ROPE, "heads": HEADS, "kv_heads": KV_HEADS}
    return usage_of_weights(weights=path, **sizes | options)


def heads_apart(rows: Array) -> Array:
    """(tokens, heads * dim) as (heads, tokens, dim)."""
    return rows.reshape(TOKENS, -1, DIM).swapaxes(0, 1)


def assert_close(found: Usage, q: Array, k: Array, *, approximation: float = 0.0) -> None:
    """Compare with the means over white input, whose own error is 5 standard deviations at most.

    That of a length is at most 0.76 of its mean, as of a normal number.
    """
    means = usage(found.rope, heads_apart(q), heads_apart(k))
    for role in ("q_norms", "k_norms"):
        expected = getattr(means, role)
        tolerance = expected * (5 * 0.76 / TOKENS**0.5 + approximation)
        assert_within(role, got=getattr(found, role), expected=expected, tolerance=tolerance)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_they_are_the_means_of_white_input(tmp_path: Path, layout: str) -> None:
    rope = Rotary(head_dim=DIM, layout=layout, rotary_dim=6)
    found = of_weights(tmp_path, PLAIN, rope=rope)
    assert (found.layers, found.tokens, found.q_norms.shape) == ((0,), None, (1, HEADS, 3))
    assert (found.q_massive, found.k_massive, found.peak_turns) == (None, None, None)
    assert_close(found, X @ Q.T, X @ K.T)


def test_a_bias_counts(tmp_path: Path) -> None:
    bias = RANDOM.standard_normal(HEADS * DIM) * 10
    found = of_weights(tmp_path, PLAIN | {f"{ATTENTION}q_proj.bias": bias})
    assert_close(found, X @ Q.T + bias, X @ K.T)


@pytest.mark.parametrize("name", ["input_layernorm", "attention_norm", "ln_1"])
def test_the_norm_in_front_counts(tmp_path: Path, name: str) -> None:
    weight, bias = RANDOM.standard_normal((2, WIDTH)) * 2
    norm = {f"{LAYER}{name}.weight": weight, f"{LAYER}{name}.bias": bias}
    x = X * weight + bias
    assert_close(of_weights(tmp_path, PLAIN | norm), x @ Q.T, x @ K.T)
    centered = of_weights(tmp_path, PLAIN | norm, centered_norms=True)
    x += X
    assert_close(centered, x @ Q.T, x @ K.T)


@pytest.mark.parametrize("shape", [(DIM,), (HEADS, DIM), (HEADS * DIM,)])
def test_a_norm_of_queries_is_approximated(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """Of 8 coordinates the root mean square varies; the more there are, the less."""
    weight = RANDOM.uniform(0.5, 5, shape)
    rows = RANDOM.standard_normal((HEADS * DIM, WIDTH)) * np.repeat([1, 10, 0.1, 5], DIM)[:, None]
    tensors = {f"{ATTENTION}q_norm.weight": weight, f"{ATTENTION}q_proj.weight": rows}
    q = (X @ rows.T).reshape(TOKENS, HEADS, DIM)
    axes = (1, 2) if shape == (HEADS * DIM,) else 2
    q /= np.sqrt((q**2).mean(axis=axes, keepdims=True))
    q = (q * weight.reshape(-1, DIM)).reshape(TOKENS, -1)
    assert_close(of_weights(tmp_path, PLAIN | tensors), q, X @ K.T, approximation=0.1)


def test_a_head_that_relies_on_one_pair_is_found(tmp_path: Path) -> None:
    q, k = Q.copy(), K.copy()
    q[[2 * DIM + 3, 2 * DIM + 7]] *= 100  # pair 3 of head 2, whose keys are those of head 1
    found = of_weights(tmp_path, {**PLAIN, f"{ATTENTION}q_proj.weight": q})
    assert found.peak[0, 2] == 3
    assert found.half_pairs[0].tolist()[2] == 1
    turns = of_weights(tmp_path, {**PLAIN}, context_length=628).peak_turns
    assert turns is not None
    assert_within(
        "turns",
        got=turns,
        expected=628 / ROPE.wavelength[of_weights(tmp_path, PLAIN).peak],
        tolerance=1e-9,
    )
    assert found.thirds[0, 2, 2] == found.share[0, 2, 3] > 0.9
    assert_within(
        "thirds", got=found.thirds.sum(axis=-1), expected=np.ones((1, 4)), tolerance=1e-15
    )
    assert_close(found, X @ q.T, X @ k.T)


def fused(name: str) -> Array:
    """Queries, keys and values in one tensor, as a model of that name of it has them."""
    if name in ("qkv_proj", "Wqkv"):
        return np.concatenate([Q, K, V])
    q, k, v = (rows.reshape(KV_HEADS, -1, WIDTH) for rows in (Q, K, V))
    return np.concatenate([q, k, v], axis=1).reshape(-1, WIDTH)


@pytest.mark.parametrize("name", ["qkv_proj", "Wqkv", "query_key_value", "wqkv"])
def test_fused_weights_equal_others(tmp_path: Path, name: str) -> None:
    bias = fused(name)[:, 0]
    found = of_weights(
        tmp_path,
        {f"h.3.attn.{name}.weight": fused(name), f"h.3.attn.{name}.bias": bias},
    )
    biases = {f"{ATTENTION}q_proj.bias": Q[:, 0], f"{ATTENTION}k_proj.bias": K[:, 0]}
    apart = of_weights(tmp_path, PLAIN | biases)
    assert found.layers == (3,)
    assert np.array_equal(found.q_norms, apart.q_norms)
    assert np.array_equal(found.k_norms, apart.k_norms)


def test_gates_between_the_queries_do_not_count(tmp_path: Path) -> None:
    gated = np.stack([Q.reshape(HEADS, DIM, WIDTH), np.ones((HEADS, DIM, WIDTH))], axis=1)
    found = of_weights(tmp_path, {**PLAIN, f"{ATTENTION}q_proj.weight": gated.reshape(-1, WIDTH)})
    assert np.array_equal(found.q_norms, of_weights(tmp_path, PLAIN).q_norms)


def test_layers_of_several_files_in_their_order(tmp_path: Path) -> None:
    for index, layer in enumerate((10, 2, 7)):
        tensors = {
            f"model.layers.{layer}.self_attn.q_proj.weight": Q * layer,
            f"model.layers.{layer}.self_attn.k_proj.weight": K,
            f"vision_tower.layers.{layer}.self_attn.q_proj.weight": K[:5],
        }
        (tmp_path / f"model-{index}.safetensors").write_bytes(serialize(tensors))
    (tmp_path / "consolidated.safetensors").write_bytes(serialize(tensors))
    found = usage_of_weights(ROPE, tmp_path, heads=HEADS, kv_heads=KV_HEADS)
    assert found.layers == (2, 7, 10)
    first = found.q_norms / np.array([2, 7, 10])[:, None, None]
    assert_within("layers", got=first, expected=first[[0, 0, 0]], tolerance=1e-12)
    some = usage_of_weights(ROPE, tmp_path, heads=HEADS, kv_heads=KV_HEADS, layers=[7])
    assert (some.layers, some.q_norms.tolist()) == ((7,), found.q_norms[1:2].tolist())
    with pytest.raises(FileError, match="has no queries and keys of layer 0"):
        usage_of_weights(ROPE, tmp_path, heads=HEADS, kv_heads=KV_HEADS, layers=[0, 1, 7])


NORM = f"{ATTENTION}k_norm.weight"
SHARDS = {
    "model-1.safetensors": PLAIN,
    "model-2.safetensors": {NORM: np.arange(1.0, DIM + 1)},
}
INDEX = "model.safetensors.index.json"


def write_shards(folder: Path, **changes: str) -> None:
    """Write two files, the second with a norm of the first one's keys, and the list of both."""
    for name, tensors in SHARDS.items():
        (folder / name).write_bytes(serialize(tensors))
    where = {tensor: name for name, tensors in SHARDS.items() for tensor in tensors}
    (folder / INDEX).write_text(json.dumps({"weight_map": where | changes}))


def of_shards(path: Path) -> Usage:
    return usage_of_weights(ROPE, path, heads=HEADS, kv_heads=KV_HEADS)


def test_shards_are_those_of_the_index(tmp_path: Path) -> None:
    write_shards(tmp_path)
    (tmp_path / "model-copy.safetensors").write_bytes(serialize(PLAIN))
    norm = SHARDS["model-2.safetensors"]
    assert_within(
        "k",
        got=of_shards(tmp_path).k_norms,
        expected=of_weights(tmp_path, PLAIN | norm).k_norms,
        tolerance=0,
    )


def test_a_shard_that_the_index_lists_must_be_there(tmp_path: Path) -> None:
    write_shards(tmp_path)
    (tmp_path / "model-2.safetensors").unlink()
    with pytest.raises(FileError, match=rf"{INDEX} lists model-2\.safetensors, which is missing"):
        of_shards(tmp_path)


def test_names_of_shards_say_how_many_there_are(tmp_path: Path) -> None:
    """Where the index is gone, too."""
    for number, tensors in enumerate(SHARDS.values(), 1):
        (tmp_path / f"model-{number:05}-of-00002.safetensors").write_bytes(serialize(tensors))
    assert of_shards(tmp_path).layers == (0,)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(FileError, match="must have all 2 shards of model-00001-of-00002"):
        of_shards(tmp_path)


def test_a_tensor_that_the_index_lists_must_be_there(tmp_path: Path) -> None:
    write_shards(tmp_path, **{f"{ATTENTION}q_norm.weight": "model-1.safetensors"})
    with pytest.raises(FileError, match=r"lists \S+q_norm\.weight in model-1\.safetensors, which"):
        of_shards(tmp_path)


def test_one_shard_is_not_read_without_a_norm_in_another(tmp_path: Path) -> None:
    write_shards(tmp_path)
    with pytest.raises(FileError, match=r"k_norm\.weight is in model-2\.safetensors: give the fol"):
        of_shards(tmp_path / "model-1.safetensors")


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", "{}", '{"weight_map": [1]}', '{"weight_map": {"a": 1}}', "[" * 10**5, "\xff"),
        '{"weight_map": {"a": "../model-1.safetensors"}}',
    ],
)
def test_an_index_that_is_refused(tmp_path: Path, text: str) -> None:
    write_shards(tmp_path)
    (tmp_path / INDEX).write_bytes(text.encode("latin-1"))
    with pytest.raises(FileError, match=r"index\.json must have a weight_map, from names of"):
        of_shards(tmp_path)


@pytest.mark.parametrize("dtype", ["float32", "float16", BFLOAT16])
def test_narrow_weights(tmp_path: Path, dtype: Any) -> None:
    narrow = {name: each.astype(dtype) for name, each in PLAIN.items()}
    wide = {name: each.astype(np.float64) for name, each in narrow.items()}
    found, expected = of_weights(tmp_path, narrow), of_weights(tmp_path, wide)
    # A variance is a sum of 32 products in float32.
    tolerance = 32 * 2.0**-24 * expected.q_norms
    assert_within("q", got=found.q_norms, expected=expected.q_norms, tolerance=tolerance)


def test_expected_lengths_of_known_distributions() -> None:
    zero, one = np.zeros(1), np.ones(1)
    cases = [
        ((one, one), zero, (zero, zero), np.sqrt(np.pi / 2)),  # Rayleigh
        ((one, zero), zero, (zero, zero), np.sqrt(2 / np.pi)),  # |x| of a normal number
        ((one, one), one, (zero, zero), np.sqrt(4 / np.pi)),  # sqrt 2 of it
        ((zero, zero), zero, (3 * one, 4 * one), 5.0),
        ((zero, zero), zero, (zero, zero), 0.0),
        # Rice: sqrt(pi / 2) L_1/2(-m^2 / 2) with L_1/2(-2) of the Laguerre function, m = 2.
        ((one, one), zero, (2 * one, zero), 2.2723834),
    ]
    for variance, covariance, mean, expected in cases:
        found = float(expected_lengths(variance, covariance, mean)[0])
        # Off by (pi / 64)^2 / 12 at most, where x is always in the same direction.
        assert abs(found - expected) <= 2.01e-4 * expected


@pytest.mark.parametrize(
    ("tensors", "options", "message"),
    [
        ({"embed.weight": Q}, {}, "has no weights of queries and keys; expected names that end in"),
        (PLAIN, {"layers": [5]}, "has no weights of queries and keys in the layers that rotate"),
        ({"q_proj.weight": Q}, {}, "has q_proj.weight, but no keys of layer 0"),
        ({"k_proj.weight": K}, {}, "has k_proj.weight, but no queries of layer 0"),
        (PLAIN | {"b.0.wq.weight": Q}, {}, "has queries of layer 0 twice, in "),
        (PLAIN, {"heads": 6}, "has shape (32, 32); expected (48, 32): 6 heads of q and 2 of k, of"),
        (PLAIN, {"kv_heads": 1}, "has shape (16, 32); expected (8, 32): 4 heads of q and 1 of k"),
        (PLAIN, {"heads": 3}, "heads must be a multiple of kv heads, got 3 and 2"),
        (PLAIN, {"kv_heads": 0}, "kv_heads must be at least 1, got 0"),
        (
            PLAIN | {f"{ATTENTION}k_proj.weight": K[:, :9], f"{LAYER}ln_1.weight": Q[0]},
            {},
            "k_proj.weight has shape (16, 9); expected (16, 32): 4 heads of q and 2 of k, of 8; ",
        ),
        (
            PLAIN,
            {"hidden_size": 64},
            "expected (32, 64): 4 heads of q and 2 of k, of 8; width 64",
        ),
        (PLAIN, {"hidden_size": 0}, "hidden_size must be at least 1, got 0"),
        ({"h.0.qkv_proj.weight": Q}, {}, "has shape (32, 32); expected (64, 32)"),
        (PLAIN | {f"{ATTENTION}q_proj.weight": Q[0]}, {}, "has shape (32,); expected (32, 32)"),
        (PLAIN | {f"{ATTENTION}q_proj.bias": Q[0, :5]}, {}, "has shape (5,); expected (32,)"),
        (PLAIN | {f"{ATTENTION}q_norm.weight": Q[0, :5]}, {}, "expected (8,) or (4, 8) or (32,)"),
        (PLAIN | {f"{LAYER}ln_1.weight": Q[0, :5]}, {}, "expected (32,): inputs of model.layers.0"),
        (PLAIN | {f"{ATTENTION}q_proj.weight": Q > 0}, {}, "holds uint8; expected floats"),
        (PLAIN | {f"{ATTENTION}k_proj.bias": K[:, 0] * np.inf}, {}, "its norms must be finite"),
        ({"l.0.kv_a_proj_with_mqa.weight": K}, {}, "is of multi-head latent attention"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, tensors: dict[str, Array], options: dict[str, Any], message: str
) -> None:
    stored = {
        name: each.astype(np.uint8) if each.dtype == bool else each
        for name, each in tensors.items()
    }
    with pytest.raises((ArgumentError, FileError)) as caught:
        of_weights(tmp_path, stored, **options)
    assert message in str(caught.value)


def test_files_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"has no file that ends in \.safetensors"):
        usage_of_weights(ROPE, tmp_path, heads=4)
    with pytest.raises(FileError, match=r"must end in \.safetensors, or be a folder, got 'x.npz'"):
        usage_of_weights(ROPE, "x.npz", heads=4)
