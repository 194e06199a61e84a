"""RoPE in the attention of RoFormer and ESM: their probabilities with the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_within
from numpy.typing import NDArray

from ropecli import Rotary
from ropecli.encodings import Encoding, encoding

pytestmark = pytest.mark.oracle

LENGTH, HEADS, HEAD_DIM = 40, 3, 16
DIM = HEADS * HEAD_DIM
X = np.random.default_rng(0).standard_normal((LENGTH, DIM))
#: Scores are sums of at most 3 DIM + HEAD_DIM terms that add up to less than 200, on both sides; a
#: share has twice their error, and its softmax rounds LENGTH terms and a few more times.
FLOAT64 = 2.0**-53 * (2 * 2 * (3 * DIM + HEAD_DIM) * 200 + LENGTH + 10)


def weights_of(attention: Any) -> dict[str, NDArray[np.float64]]:
    """W_q and W_k as (heads, model_dim, head_dim)."""
    return {
        name: getattr(attention, name)
        .weight.detach()
        .numpy()
        .reshape(HEADS, HEAD_DIM, DIM)
        .transpose(0, 2, 1)
        for name in ("query", "key")
    }


def larger_without_biases(attention: Any) -> None:
    """Weights that make scores of order 1, as trained ones do, and no biases."""
    import torch

    with torch.no_grad():
        for layer in (attention.query, attention.key):
            torch.nn.init.normal_(layer.weight, std=DIM**-0.5)
            layer.bias.zero_()


def assert_same_shares(rope: Encoding, share: Any, positions: Any, error: Any, pairs: Any) -> None:
    """Shares within what entries of R_m and R_n allow that are off by `error`.

    Args:
        rope: Ours.
        share: Theirs.
        positions: Positions of X.
        error: (positions, pairs). A pair of q turned by a matrix that is off so far is off by
            sqrt(2) error |q|, and its part of a score by sqrt(2) (error_m + error_n) |q| |k|.
        pairs: (pairs, 2), the coordinates that turn together.
    """
    import torch

    scores = rope.scores(X, X, positions, positions)
    got = torch.softmax(torch.from_numpy(scores), dim=-1).numpy()
    q, k = (
        np.linalg.norm((X @ rope.weights[name])[..., pairs], axis=-1) for name in ("query", "key")
    )
    off = ((error * q) @ k.swapaxes(1, 2) + q @ (error * k).swapaxes(1, 2)) * np.sqrt(2 / HEAD_DIM)
    # A share is off by its own score's error and by the largest of its row's.
    relative = off + off.max(axis=-1, keepdims=True) + FLOAT64
    assert_within("share", got=got, expected=share, tolerance=relative * share)


def test_roformer() -> None:
    """Interleaved pairs, as the paper has them."""
    import torch
    from transformers import RoFormerConfig, RoFormerModel

    torch.manual_seed(0)
    config = RoFormerConfig(
        vocab_size=9,
        hidden_size=DIM,
        num_hidden_layers=1,
        num_attention_heads=HEADS,
        intermediate_size=DIM,
        max_position_embeddings=300,
    )
    encoder = RoFormerModel(config).encoder.double().eval()
    attention = encoder.layer[0].attention.self
    larger_without_biases(attention)
    begin = 200
    with torch.no_grad():
        sines = encoder.embed_positions((1, LENGTH), begin)[None, None]
        share = attention(torch.from_numpy(X)[None], sinusoidal_pos=sines, output_attentions=True)
    made = encoding("rope", model_dim=DIM, heads=HEADS, weights=weights_of(attention))
    # Sines and cosines are rounded to float32; their angles, in float64, are below 300.
    error = np.full((LENGTH, HEAD_DIM // 2), 2.0**-25 + 6 * 300 * 2.0**-53)
    pairs = np.arange(HEAD_DIM).reshape(-1, 2)
    assert_same_shares(made, share[1][0].numpy(), begin + np.arange(LENGTH), error, pairs)


@pytest.mark.parametrize("begin", [0, 500])
def test_esm(begin: int) -> None:
    """Pairs of halves; q is scaled before its rotation, which makes no difference."""
    import torch
    from transformers import EsmConfig
    from transformers.models.esm.modeling_esm import EsmRotaryEmbedding, EsmSelfAttention

    torch.manual_seed(0)
    config = EsmConfig(
        vocab_size=9,
        hidden_size=DIM,
        num_attention_heads=HEADS,
        position_embedding_type="rotary",
        attention_probs_dropout_prob=0.0,
        attn_implementation="eager",
    )
    attention = EsmSelfAttention(config).double().eval()
    larger_without_biases(attention)
    positions = begin + np.arange(LENGTH)
    x = torch.from_numpy(X)[None]
    with torch.no_grad():
        tables = EsmRotaryEmbedding(config)(x, torch.from_numpy(positions)[None])
        share = attention(x, position_embeddings=tables)[1][0].numpy()
    made = encoding(
        "rope",
        model_dim=DIM,
        heads=HEADS,
        weights=weights_of(attention),
        rotary=Rotary(head_dim=HEAD_DIM, layout="half"),
    )
    # float32: an exponent's rounding, which ln(10000) magnifies, a power right to two roundings, a
    # division and the angle; then a cosine to two, and q, rounded before it turns.
    angle = positions[:, None] * 10_000.0 ** -(np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    error = ((np.log(10_000) + 4) * angle + 3) * 2.0**-24
    assert_same_shares(made, share, positions, error, np.arange(HEAD_DIM).reshape(2, -1).T)


def test_the_other_pairs_score_otherwise() -> None:
    """The layouts differ by far more than the tolerances of the tests above."""
    rotaries = [Rotary(head_dim=HEAD_DIM, layout=layout) for layout in ("interleaved", "half")]
    here, there = (
        encoding("rope", model_dim=DIM, heads=HEADS, rotary=rotary).scores(
            X, X, np.arange(LENGTH), np.arange(LENGTH)
        )
        for rotary in rotaries
    )
    assert np.abs(here - there).max() > 1
