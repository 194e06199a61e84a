"""ALiBi of BLOOM and MPT: their biases, and their attention with the same weights.

Both leave out slope * m, the same for a whole row of scores, which a softmax does not see.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_within
from numpy.typing import NDArray

from ropecli.encodings import encoding
from ropecli.encodings.types.alibi import slopes

pytestmark = pytest.mark.oracle

LENGTH, HEAD_DIM = 40, 4
POSITIONS = np.arange(LENGTH)
#: Powers of two, what ALiBi's authors make of others, and those of BLOOM-176B and Falcon-7B.
HEADS = (1, 2, 3, 5, 6, 7, 8, 12, 16, 24, 32, 40, 64, 71, 112)
#: Above the scores of the attentions below, the bias included.
LARGEST_SCORE = 64


def bloom_bias(heads: int) -> NDArray[np.float64]:
    import torch
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    mask = torch.ones(1, LENGTH, dtype=torch.int64)
    bias: NDArray[np.float64] = build_alibi_tensor(mask, heads, torch.float64).numpy()
    return bias  # (heads, 1, keys)


def mpt_bias(heads: int, **options: float) -> NDArray[np.float64]:
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    bias = build_mpt_alibi_tensor(heads, LENGTH, **options)
    return np.asarray(bias, dtype=np.float64)  # (heads, 1, keys)


def relative_error(heads: int) -> float:
    """Return the error of their biases, float32 slopes times the position.

    In BLOOM slopes are powers of a rounded base, which counts `heads` times at most; the power
    itself is right to one unit, two roundings, and one more rounding is left for the product. MPT's
    has the same power and product, and a division instead of the base.
    """
    return (heads + 3) * 2.0**-24


@pytest.mark.parametrize("theirs", [bloom_bias, mpt_bias])
@pytest.mark.parametrize("heads", HEADS)
def test_biases(heads: int, theirs: Any) -> None:
    alibi = encoding("alibi", model_dim=2 * heads, heads=heads)
    zero = np.zeros((LENGTH, 2 * heads))
    got = alibi.scores(zero, zero, POSITIONS, POSITIONS)
    bias = np.broadcast_to(theirs(heads), got.shape)
    # From a row's first score, so that what a row has in common is gone; |n| and |1 - LENGTH + n|
    # are both below LENGTH, and two scores are involved.
    allowed = 2 * LENGTH * slopes(heads)[:, None, None] * relative_error(heads)
    assert_within("bias", got=got - got[..., :1], expected=bias - bias[..., :1], tolerance=allowed)


@pytest.mark.parametrize(("largest", "heads"), [(4, 8), (2, 16)])
def test_another_largest_exponent_is_the_first_heads_of_more(largest: int, heads: int) -> None:
    """MPT's alibi_bias_max: 2^(-4h/8) = 2^(-8h/16), the paper's own slopes for twice the heads."""
    theirs = -mpt_bias(heads, alibi_bias_max=largest)[:, 0, -2]  # of the key just before the last
    expected = slopes(heads * 8 // largest)[:heads]
    assert_within("slope", got=theirs, expected=expected, tolerance=expected * relative_error(0))


def bloom(heads: int, x: NDArray[np.float64], causal: bool) -> tuple[dict[str, Any], Any]:
    import torch
    from transformers import BloomConfig
    from transformers.models.bloom.modeling_bloom import BloomAttention

    config = BloomConfig(
        hidden_size=heads * HEAD_DIM, n_head=heads, hidden_dropout=0.0, attention_dropout=0.0
    )
    layer = BloomAttention(config, layer_idx=0).double().eval()
    hidden = torch.from_numpy(x)[None]
    later = torch.full((LENGTH, LENGTH), -torch.inf).triu(1) if causal else None
    with torch.no_grad():
        layer.query_key_value.bias.zero_()
        share = layer(hidden, hidden, torch.from_numpy(bloom_bias(heads)), later)[1]
    # Query, key and value of one head lie side by side.
    fused = layer.query_key_value.weight.detach().numpy().reshape(heads, 3, HEAD_DIM, -1)
    return {"query": fused[:, 0], "key": fused[:, 1]}, share[0].numpy()


def mpt(heads: int, x: NDArray[np.float64], causal: bool) -> tuple[dict[str, Any], Any]:
    import torch
    from transformers import MptConfig
    from transformers.models.mpt.modeling_mpt import MptAttention, build_mpt_alibi_tensor

    config = MptConfig(d_model=heads * HEAD_DIM, n_heads=heads, max_seq_len=3 * LENGTH)
    layer = MptAttention(config, layer_idx=0).double().eval()
    later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1) if causal else None
    with torch.no_grad():
        # As the model does: the bias of the longest text, of which the layer takes the end.
        bias = build_mpt_alibi_tensor(heads, config.max_seq_len)
        share = layer(torch.from_numpy(x)[None], bias, attention_mask=later)[1]
    fused = layer.Wqkv.weight.detach().numpy().reshape(3, heads, HEAD_DIM, -1)
    return {"query": fused[0], "key": fused[1]}, share[0].numpy()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("theirs", [bloom, mpt])
@pytest.mark.parametrize("heads", [8, 12, 16])
def test_attention(heads: int, theirs: Any, causal: bool) -> None:
    import torch

    torch.manual_seed(0)
    x = np.random.default_rng(0).standard_normal((LENGTH, heads * HEAD_DIM))
    weights, share = theirs(heads, x, causal)
    # Masked keys after the query have no distance.
    for absolute in (False, True) if causal else (False,):
        alibi = encoding(
            "alibi",
            model_dim=heads * HEAD_DIM,
            heads=heads,
            weights={name: weight.swapaxes(1, 2) for name, weight in weights.items()},
            absolute=absolute,
        )
        scores = alibi.scores(x, x, POSITIONS, POSITIONS)
        assert np.abs(scores).max() < LARGEST_SCORE
        if causal:
            scores[:, POSITIONS[:, None] < POSITIONS] = -np.inf
        got = torch.softmax(torch.from_numpy(scores), dim=-1).numpy()
        # Their softmax is float32. A score s is rounded, and again when the largest is taken off:
        # 3 |s|; the exponential takes two roundings, the sum LENGTH, the quotient one. Errors of
        # exponents count twice, of the key's own and of the others in the sum. One is to spare,
        # for float64's.
        softmax = (2 * 3 * LARGEST_SCORE + 2 * 2 + LENGTH + 1 + 1) * 2.0**-24
        bias = 2 * LENGTH * slopes(heads)[:, None, None] * relative_error(heads)
        assert_within("share", got=got, expected=share, tolerance=(softmax + bias) * share)
