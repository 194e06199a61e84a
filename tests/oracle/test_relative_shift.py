"""Transformer-XL's scores in XLNet and three Conformers: their shares, with the same weights.

All of them compute (q + v) . W_R R for a row of distances, from the largest down, and shift each
row into place: R_(m-n), as in the paper. Their R is made in float32; it is compared by itself, and
the attention is given ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers import assert_within
from numpy.typing import NDArray

from ropecli.encodings import encoding
from ropecli.encodings.types.transformer_xl import TransformerXl

pytestmark = pytest.mark.oracle

LENGTH, HEADS, HEAD_DIM = 40, 3, 8
DIM = HEADS * HEAD_DIM
X = np.random.default_rng(0).standard_normal((LENGTH, DIM))
DISTANCES = np.arange(LENGTH - 1, -LENGTH, -1)  # as the Conformers order them
#: Conformers mix sines and cosines; these are their coordinates in our order, all sines first.
SINES_FIRST = np.r_[0:DIM:2, 1:DIM:2]
LARGEST_SCORE = 20
#: On each side three projections and two products, whose terms add up to less than 300. A share has
#: twice the error of its score, of which the softmax rounds the difference to the largest, LENGTH
#: terms, and a few more times.
FLOAT64 = 2.0**-53 * (2 * 2 * (3 * DIM + 2 * HEAD_DIM) * 300 + 4 * LARGEST_SCORE + 2 * LENGTH + 10)
#: The same where their softmax is in float32, to which the scores are rounded too.
FLOAT32 = 2.0**-24 * (6 * LARGEST_SCORE + LENGTH + 10)


class Conformer(NamedTuple):
    """A library's attention, with its own names."""

    attention: Any
    table: Any  #: Makes R of all distances.
    argument: str  #: Name of its argument R.
    names: tuple[str, ...]  #: Names of W_q, W_k, W_R, u and v.
    allowed: float  #: Error of a share, relative.


NAMES = ("linear_q", "linear_k", "linear_pos", "pos_bias_u", "pos_bias_v")
COMMON = {"hidden_size": DIM, "attn_implementation": "eager"}


def wav2vec2() -> Conformer:
    from transformers import Wav2Vec2ConformerConfig
    from transformers.models.wav2vec2_conformer import modeling_wav2vec2_conformer as module

    config = Wav2Vec2ConformerConfig(
        num_attention_heads=HEADS, position_embeddings_type="relative", **COMMON
    )
    attention = module.Wav2Vec2ConformerSelfAttention(config)
    table = module.Wav2Vec2ConformerRelPositionalEmbedding(config)
    return Conformer(attention, table, "relative_position_embeddings", NAMES, FLOAT64)


def fastspeech2() -> Conformer:
    from transformers import FastSpeech2ConformerConfig
    from transformers.models.fastspeech2_conformer import modeling_fastspeech2_conformer as module

    config = FastSpeech2ConformerConfig(
        encoder_num_attention_heads=HEADS, decoder_num_attention_heads=HEADS, **COMMON
    )
    attention = module.FastSpeech2ConformerAttention(config, config.encoder_config)
    table = module.FastSpeech2ConformerRelPositionalEncoding(config, config.encoder_config)
    return Conformer(attention, lambda x: table.eval()(x)[1], "pos_emb", NAMES, FLOAT64)


def parakeet() -> Conformer:
    from transformers import ParakeetEncoderConfig
    from transformers.models.parakeet import modeling_parakeet as module

    config = ParakeetEncoderConfig(num_attention_heads=HEADS, **COMMON)
    attention = module.ParakeetEncoderAttention(config, layer_idx=0)
    names = ("q_proj", "k_proj", "relative_k_proj", "bias_u", "bias_v")
    table = module.ParakeetEncoderRelPositionalEncoding(config)
    return Conformer(attention, table, "position_embeddings", names, FLOAT32)


def xlnet() -> Any:
    import torch
    from transformers import XLNetConfig, XLNetModel

    torch.manual_seed(0)
    config = XLNetConfig(vocab_size=9, d_model=DIM, n_layer=1, n_head=HEADS, d_inner=DIM)
    return XLNetModel(config).eval()


def transformer_xl(weights: dict[str, Any] | None = None) -> TransformerXl:
    got = encoding("transformer_xl", model_dim=DIM, heads=HEADS, weights=weights)
    assert isinstance(got, TransformerXl)
    return got


def draw(layer: Any) -> None:
    """Weights that make scores of order 1, u and v among them, and no other biases."""
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.endswith(".bias"):
                parameter.zero_()
            else:
                torch.nn.init.normal_(parameter, std=1.5 * DIM**-0.5)


def assert_same_shares(
    weights: dict[str, Any], share: Any, allowed: float, memory: int = 0
) -> None:
    """Compare the attention of queries that follow `memory` tokens, which are keys only."""
    import torch

    positions = np.arange(LENGTH)
    scores = transformer_xl(weights).scores(X[memory:], X, positions[memory:], positions)
    assert np.abs(scores).max() < LARGEST_SCORE
    got = torch.softmax(torch.from_numpy(scores), dim=-1).numpy()
    assert_within("share", got=got, expected=share, tolerance=allowed * share)


def angles_error(distances: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the error of sines and cosines in float32, all sines first.

    An exponent of at most ln(10000), rounded twice, its power right to two roundings, a quotient
    and the angle, which make the angle wrong; and a sine that is right to two of them.
    """
    angle = np.abs(distances)[:, None] * 10_000.0 ** (-np.arange(DIM // 2) / (DIM // 2))
    allowed: NDArray[np.float64] = ((2 * np.log(10_000) + 4) * angle + 2) * 2.0**-24
    return np.hstack([allowed, allowed])


@pytest.mark.parametrize("theirs", [wav2vec2, fastspeech2, parakeet])
def test_conformers_sinusoids(theirs: Callable[[], Conformer]) -> None:
    import torch

    table = theirs().table(torch.zeros(1, LENGTH, DIM))[0].numpy()
    got = transformer_xl().code(DISTANCES)
    allowed = angles_error(DISTANCES)
    assert_within("R", got=got, expected=table[:, SINES_FIRST], tolerance=allowed)


@pytest.mark.parametrize("memory", [0, 15])
def test_xlnet_s_sinusoids(memory: int) -> None:
    """In our order; the row begins one distance further, which the shift pushes out."""
    table = xlnet().relative_positional_encoding(LENGTH - memory, LENGTH, bsz=1)[:, 0].numpy()
    distances = np.arange(LENGTH, -(LENGTH - memory), -1)
    got = transformer_xl().code(distances)
    assert_within("R", got=got, expected=table, tolerance=angles_error(distances))


@pytest.mark.parametrize("theirs", [wav2vec2, fastspeech2, parakeet])
def test_conformers_attention(theirs: Callable[[], Conformer]) -> None:
    import torch

    conformer = theirs()
    layer = conformer.attention.double().eval()
    draw(layer)
    table = np.empty((1, len(DISTANCES), DIM))
    table[..., SINES_FIRST] = transformer_xl().code(DISTANCES)
    relative = {conformer.argument: torch.from_numpy(table)}
    with torch.no_grad():
        share = layer(torch.from_numpy(X)[None], output_attentions=True, **relative)[1][0].numpy()
    query, key, position, u, v = (getattr(layer, name) for name in conformer.names)
    weights = {
        name: linear.weight.detach().numpy().reshape(HEADS, HEAD_DIM, DIM).transpose(0, 2, 1)
        for name, linear in {"query": query, "key": key, "key_position": position}.items()
    }
    weights["key_position"] = weights["key_position"][:, SINES_FIRST]
    weights |= {"u": u.detach().numpy(), "v": v.detach().numpy()}
    assert_same_shares(weights, share, conformer.allowed)


@pytest.mark.parametrize("memory", [0, 15])
def test_xlnet_s_attention(memory: int) -> None:
    """With the memory of an earlier segment, queries begin in the middle of the keys."""
    import torch

    layer = xlnet().layer[0].rel_attn.double()
    draw(layer)
    table = transformer_xl().code(np.arange(LENGTH, -(LENGTH - memory), -1))
    with torch.no_grad():
        share = layer(
            torch.from_numpy(X[memory:, None]),
            None,
            None,
            None,
            torch.from_numpy(table[:, None]),
            None,
            mems=torch.from_numpy(X[:memory, None]) if memory else None,
            output_attentions=True,
        )[2]
    # q + r_w_bias meets keys, q + r_r_bias meets distances: u and v.
    names = {"query": layer.q, "key": layer.k, "key_position": layer.r}
    weights = {name: w.detach().numpy().transpose(1, 0, 2) for name, w in names.items()}
    weights |= {"u": layer.r_w_bias.detach().numpy(), "v": layer.r_r_bias.detach().numpy()}
    assert_same_shares(weights, share[:, :, 0].numpy().transpose(2, 0, 1), FLOAT64, memory)
