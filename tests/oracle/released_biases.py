"""Biases, buckets, slopes and scores of released libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from oracle.released_code import (
    JAX,
    KERAS,
    MLX,
    TIMM,
    TORCHTUNE,
    TRANSFORMERS,
    X_TRANSFORMERS,
    Released,
    causal_scores,
    dtype,
    entry,
    jax,
    model,
    normal,
    ones,
    tensor,
    zeros,
)

HEADS = 12  #: No power of two: its slopes are those of 8 and half of those of 16.
KEYS = 2000


ALIBI_SIZES = {"heads": HEADS, "queries": 1, "keys": KEYS}
#: A power of a rounded base, which counts `heads` times, and a product.
POWER = (HEADS + 3) * 2.0**-24
X_ALIBI = "from x_transformers.x_transformers import AlibiPositionalBias\n"
MLX_ALIBI = "import mlx.nn as nn\n"
ALIBI = {
    "Bloom _get_alibi_slopes": entry(
        "slopes",
        "alibi",
        "slopes",
        model("bloom", what="_get_alibi_slopes"),
        "_get_alibi_slopes",
        lambda f: f(HEADS, "cpu"),
        {"heads": HEADS},
        POWER,
        note="device has no default",
    ),
    "Bloom build_alibi_tensor": entry(
        "bias",
        "alibi",
        "alibi",
        model("bloom", what="build_alibi_tensor"),
        "build_alibi_tensor",
        lambda f: f(ones(1, KEYS), HEADS, dtype("float32")),
        ALIBI_SIZES,
        POWER,
        convention={"bias": "slope * key"},
        note="takes an attention mask and a dtype; returns (batch * heads, 1, keys)",
    ),
    "Bloom build_alibi_tensor, bfloat16": entry(
        "bias",
        "alibi",
        "alibi",
        model("bloom", what="build_alibi_tensor"),
        "build_alibi_tensor",
        lambda f: f(ones(1, KEYS), HEADS, dtype("bfloat16")),
        ALIBI_SIZES,
        2.0**-8,
        convention={"bias": "slope * key", "rounded": "bfloat16"},
        verdict="variant",
        note="rounded once, at the end",
    ),
    "Falcon build_alibi_tensor": entry(
        "bias",
        "alibi",
        "alibi",
        model("falcon", what="build_alibi_tensor"),
        "build_alibi_tensor",
        lambda f: f(ones(1, KEYS), HEADS, dtype("float32")),
        ALIBI_SIZES,
        2.0**-24,
        convention={"bias": "slope * key", "slope": "bfloat16", "rounded": "bfloat16"},
        verdict="wrong",
        right={"bias": "slope * key"},
        error=6.768,
        note="bfloat16 slopes and products whatever the dtype; (batch * heads, 1, keys)",
    ),
    "Falcon build_alibi_tensor, 8 heads": entry(
        "bias",
        "alibi",
        "alibi",
        model("falcon", what="build_alibi_tensor"),
        "build_alibi_tensor",
        lambda f: f(ones(1, KEYS), 8, dtype("float32")),
        {**ALIBI_SIZES, "heads": 8},
        2.0**-24,
        convention={"bias": "slope * key", "slope": "bfloat16", "rounded": "bfloat16"},
        verdict="wrong",
        right={"bias": "slope * key"},
        error=2.0,
        note="bfloat16 products whatever the dtype; (batch * heads, 1, keys)",
    ),
    "MPT build_mpt_alibi_tensor": entry(
        "bias",
        "alibi",
        "alibi",
        model("mpt", what="build_mpt_alibi_tensor"),
        "build_mpt_alibi_tensor",
        lambda f: f(HEADS, KEYS),
        ALIBI_SIZES,
        POWER,
        convention={"bias": "slope * (key - last)"},
        note="heads before length; (heads, 1, keys)",
    ),
    "MPT build_mpt_alibi_tensor, alibi_bias_max": entry(
        "bias",
        "alibi",
        "alibi",
        model("mpt", what="build_mpt_alibi_tensor"),
        "build_mpt_alibi_tensor",
        lambda f: f(HEADS, KEYS, alibi_bias_max=16),
        ALIBI_SIZES,
        POWER,
        convention={"bias": "slope * (key - last)", "steepest": 16},
        verdict="variant",
        note="alibi_bias_max is an option",
    ),
    "x-transformers _get_slopes": entry(
        "slopes",
        "alibi",
        "slopes",
        X_ALIBI + "slopes = AlibiPositionalBias._get_slopes",
        "slopes",
        lambda f: f(HEADS),
        {"heads": HEADS},
        2.0**-48,
        library=X_TRANSFORMERS,
        note="returns a list of float",
    ),
    "x-transformers AlibiPositionalBias": entry(
        "bias",
        "alibi",
        "alibi",
        X_ALIBI + f"bias = AlibiPositionalBias({HEADS})",
        "bias",
        lambda f: f(30, 50),
        {"heads": HEADS, "queries": 30, "keys": 50},
        2.0**-22,
        convention={"bias": "-slope * |query - key|", "last_query": "at the last key"},
        library=X_TRANSFORMERS,
        verdict="variant",
        note="keeps a bias, and slices it for later calls that are smaller",
    ),
    "x-transformers AlibiPositionalBias of positions": entry(
        "bias",
        "alibi",
        "alibi",
        X_ALIBI + f"bias = AlibiPositionalBias({HEADS}).forward_custom_pos",
        "bias",
        lambda f: f(tensor(np.arange(50))),
        {"heads": HEADS, "queries": 50, "keys": 50},
        2.0**-22,
        convention={"bias": "-slope * |query - key|"},
        library=X_TRANSFORMERS,
        verdict="variant",
        note="takes positions",
    ),
    "KerasHub AlibiBias": entry(
        "bias",
        "alibi",
        "alibi",
        JAX + "from keras_hub.layers import AlibiBias\nadd = AlibiBias()",
        "add",
        lambda f: f(np.zeros((1, HEADS, 30, 50), np.float32))[0],
        {"heads": HEADS, "queries": 30, "keys": 50},
        2.0**-22,
        convention={"bias": "slope * (key - last)"},
        library=KERAS,
        note="adds to scores of (batch, heads, queries, keys)",
    ),
    "KerasHub AlibiBias, half precision": entry(
        "bias",
        "alibi",
        "alibi",
        JAX + "from keras_hub.layers import AlibiBias\nadd = AlibiBias(dtype='bfloat16')",
        "add",
        lambda f: f(np.zeros((1, HEADS, 1, KEYS), np.float32))[0],
        ALIBI_SIZES,
        2.0**-24,
        convention={"bias": "slope * (key - last)", "slope": "bfloat16", "rounded": "bfloat16"},
        library=KERAS,
        verdict="wrong",
        right={"bias": "slope * (key - last)"},
        error=6.768,
        note="slopes and positions in the dtype of the layer",
    ),
    "MLX create_alibi_slope": entry(
        "slopes",
        "alibi",
        "slopes",
        MLX_ALIBI + "slopes = nn.ALiBi.create_alibi_slope",
        "slopes",
        lambda f: np.asarray(f(HEADS))[:, 0, 0],
        {"heads": HEADS},
        2.0**-24,
        library=MLX,
        note="returns (heads, 1, 1)",
    ),
    "MLX create_alibi_matrix": entry(
        "bias",
        "alibi",
        "alibi",
        MLX_ALIBI + "bias = nn.ALiBi.create_alibi_matrix",
        "bias",
        lambda f: np.asarray(f(30, 50, HEADS))[0],
        {"heads": HEADS, "queries": 30, "keys": 50},
        2.0**-22,
        convention={"bias": "-slope * |query - key|"},
        library=MLX,
        verdict="variant",
        note="queries from `offset` up to the query length, which counts those before",
    ),
}

RELATIVE = np.arange(-2000, 2001)


def t5_buckets(
    source: str,
    function: str,
    call: Callable[[Any], Any],
    library: str = TRANSFORMERS,
    count: int = 32,
    furthest: int = 128,
    bidirectional: bool = True,
    **more: Any,
) -> Released:
    """Return T5's buckets of relative positions."""
    convention = {"count": count, "furthest": furthest, "bidirectional": bidirectional}
    convention |= more.pop("late", {})
    return entry(
        "buckets", "t5", "t5_buckets", source, function, call,
        more.pop("sizes", {"relative": RELATIVE}),
        library=library, convention=convention, **more,
    )  # fmt: skip


def t5_like(name: str, attention: str) -> Released:
    """Return the static method of a model that copies T5's."""
    return t5_buckets(
        model(name, f"bucket = {attention}._relative_position_bucket", what=attention),
        "bucket",
        lambda f: f(tensor(RELATIVE)),
    )


def t5_module(name: str, config: str, attention: str, method: str, decoder: bool = False) -> str:
    """Return a file with a method of an attention that has a table of biases."""
    return model(
        name,
        f"from transformers import {config}",
        f"config = {config}(d_model=24, d_kv=8, num_heads=3, is_decoder={decoder})",
        f"method = {attention}(config, has_relative_attention_bias=True, layer_idx=0).{method}",
        what=attention,
    )


T5_SIZES = {"queries": 30, "keys": 50}
BOTH = {"count": 32, "furthest": 128, "bidirectional": True}
CAUSAL = {**BOTH, "bidirectional": False}


def t5_bias(
    source: str,
    call: Callable[[Any], Any],
    convention: Mapping[str, Any],
    function: str = "method",
    sizes: Mapping[str, Any] = T5_SIZES,
    **more: Any,
) -> Released:
    """Return T5's bias, of a module with a table of its own."""
    return entry(
        "bias", "t5", "t5_bias", source, function, call, sizes, 2.0**-23,
        convention=convention, **more,
    )  # fmt: skip


WAVLM = model("wavlm", "attention = WavLMAttention(24, 3)", what="WavLMAttention")
X_T5 = "from x_transformers.x_transformers import RelativePositionBias\n"
T5 = {
    "T5 _relative_position_bucket": t5_like("t5", "T5Attention"),
    "MT5 _relative_position_bucket": t5_like("mt5", "MT5Attention"),
    "LongT5 _relative_position_bucket": t5_like("longt5", "LongT5Attention"),
    "Switch _relative_position_bucket": t5_like(
        "switch_transformers", "SwitchTransformersAttention"
    ),
    "Pix2Struct _relative_position_bucket": t5_like("pix2struct", "Pix2StructTextAttention"),
    "Pop2Piano _relative_position_bucket": t5_like("pop2piano", "Pop2PianoAttention"),
    "UDOP _relative_position_bucket": t5_like("udop", "UdopAttention"),
    "T5 _relative_position_bucket, causal": t5_buckets(
        model("t5", "bucket = T5Attention._relative_position_bucket", what="T5Attention"),
        "bucket",
        lambda f: f(tensor(RELATIVE), bidirectional=False),
        bidirectional=False,
    ),
    "UMT5 _relative_position_bucket": t5_buckets(
        t5_module("umt5", "UMT5Config", "UMT5Attention", "_relative_position_bucket"),
        "method",
        lambda f: f(tensor(RELATIVE)),
        note="counts and distances are the module's",
    ),
    "LayoutLMv2 relative_position_bucket": t5_buckets(
        model("layoutlmv2", what="relative_position_bucket"),
        "relative_position_bucket",
        lambda f: f(tensor(RELATIVE), num_buckets=64, max_distance=256),
        count=64,
        furthest=256,
    ),
    "MPNet relative_position_bucket": t5_buckets(
        model("mpnet", "bucket = MPNetEncoder.relative_position_bucket", what="MPNetEncoder"),
        "bucket",
        lambda f: f(tensor(RELATIVE)),
        note="no option for one direction",
    ),
    "CPM-Ant _position_bucket": t5_buckets(
        model(
            "cpmant",
            "from functools import partial",
            "bucket = partial(CpmAntSegmentPositionEmbedding._position_bucket, None)",
            what="CpmAntSegmentPositionEmbedding",
        ),
        "bucket",
        lambda f: f(tensor(RELATIVE), num_buckets=512, max_distance=2048),
        count=512,
        furthest=2048,
        adapter=True,
        note="int32",
    ),
    "ProphetNet compute_relative_buckets": t5_buckets(
        model("prophetnet", what="compute_relative_buckets"),
        "compute_relative_buckets",
        lambda f: f(32, 128, tensor(RELATIVE)),
        bidirectional=False,
        note="counts before positions; causal unless is_bidirectional; int32",
    ),
    "WavLM _relative_positions_bucket": t5_buckets(
        WAVLM + "\nbucket = attention._relative_positions_bucket",
        "bucket",
        lambda f: f(tensor(RELATIVE)),
        count=320,
        furthest=800,
        note="counts and distances are the module's",
    ),
    "x-transformers _relative_position_bucket": t5_buckets(
        X_T5 + "bucket = RelativePositionBias._relative_position_bucket",
        "bucket",
        lambda f: f(tensor(RELATIVE)),
        library=X_TRANSFORMERS,
        bidirectional=False,
        note="causal=True is its default",
    ),
    "KerasHub _relative_position_bucket": t5_buckets(
        JAX + "from keras_hub.src.models.t5.t5_multi_head_attention import T5MultiHeadAttention\n"
        "bucket = T5MultiHeadAttention._relative_position_bucket",
        "bucket",
        lambda f: f(jax(RELATIVE)),
        library=KERAS,
    ),
    "KerasHub _relative_position_bucket, 32 to 800": t5_buckets(
        JAX + "from keras_hub.src.models.t5.t5_multi_head_attention import T5MultiHeadAttention\n"
        "bucket = T5MultiHeadAttention._relative_position_bucket",
        "bucket",
        lambda f: f(jax(RELATIVE), max_distance=800),
        library=KERAS,
        furthest=800,
        late={"late": 80},
        verdict="wrong",
        right={"count": 32, "furthest": 800, "bidirectional": True},
        error=1.0,
        note="distance 80 is a border, and the logarithm in float32 falls below it",
    ),
    "torchtune bucket table": t5_buckets(
        "from torchtune.models.t5._encoder import _calc_birectional_rel_pos_to_bucket",
        "_calc_birectional_rel_pos_to_bucket",
        lambda f: f(32, 128, 300),
        library=TORCHTUNE,
        sizes={"relative": np.arange(300) - np.arange(300)[:, None]},
        note="counts before a length; (length, length)",
    ),
    "torchtune T5EncoderRelativePositionBias": t5_bias(
        "from torchtune.models.t5._encoder import T5EncoderRelativePositionBias\n"
        "method = T5EncoderRelativePositionBias(32, 128, 3, 40)",
        lambda f: f()[0],
        {**BOTH, "table": "embedding.weight"},
        sizes={"queries": 40, "keys": 40},
        library=TORCHTUNE,
        note="no arguments: the length is the module's; a batch of one",
    ),
    "T5 compute_bias": t5_bias(
        t5_module("t5", "T5Config", "T5Attention", "compute_bias"),
        lambda f: f(30, 50)[0],
        BOTH,
        note="queries from 0, or from past_seen_tokens; a batch of one",
    ),
    "T5 compute_bias, decoder with past": t5_bias(
        t5_module("t5", "T5Config", "T5Attention", "compute_bias", decoder=True),
        lambda f: f(30, 50, past_seen_tokens=20)[0],
        {**CAUSAL, "past": 20},
        note="queries from 0, or from past_seen_tokens; a batch of one",
    ),
    "UMT5 compute_bias": t5_bias(
        t5_module("umt5", "UMT5Config", "UMT5Attention", "compute_bias"),
        lambda f: f(30, 50)[0],
        BOTH,
        note="queries from 0, or from past_seen_tokens; a batch of one",
    ),
    "Switch compute_bias": t5_bias(
        t5_module(
            "switch_transformers",
            "SwitchTransformersConfig",
            "SwitchTransformersAttention",
            "compute_bias",
        ),
        lambda f: f(30, 50)[0],
        BOTH,
        note="queries from 0, or from past_seen_tokens; a batch of one",
    ),
    "LongT5 local compute_bias": t5_bias(
        model(
            "longt5",
            "from transformers import LongT5Config",
            "config = LongT5Config(d_model=24, d_kv=8, num_heads=3)",
            "method = LongT5LocalAttention(config, has_relative_attention_bias=True).compute_bias",
            what="LongT5LocalAttention",
        ),
        lambda f: f(20)[0, 0],
        {**BOTH, "past": 20},
        sizes={"queries": 20, "keys": 60},
        verdict="variant",
        note="one block of queries, keys of three; (1, 1, heads, block, 3 * block)",
    ),
    "WavLM compute_bias": t5_bias(
        WAVLM + "\nmethod = attention.compute_bias",
        lambda f: f(30, 50),
        {**BOTH, "count": 320, "furthest": 800, "table": "rel_attn_embed.weight"},
        verdict="variant",
        note="320 buckets to distance 800; no batch axis",
    ),
    "x-transformers RelativePositionBias": t5_bias(
        X_T5 + "method = RelativePositionBias(scale=8**0.5, heads=3)",
        lambda f: f(30, 50),
        {**BOTH, "past": 20, "scale": 8**0.5},
        library=X_TRANSFORMERS,
        verdict="variant",
        note="i queries, j keys; the last query is at the last key; times a scale",
    ),
    "UDOP RelativePositionBias1D": t5_bias(
        model(
            "udop",
            "method = RelativePositionBias1D(num_heads=3).eval()",
            what="RelativePositionBias1D",
        ),
        lambda f: f(ones(1, 40))[0],
        BOTH,
        sizes={"queries": 40, "keys": 40},
        note="takes an attention mask",
    ),
}

LAYERS = {"query_layer": (1, 2, 700, 8), "key_layer": (1, 2, 900, 8)}
DEBERTA = {
    "DeBERTa v2 make_log_bucket_position": entry(
        "buckets",
        "deberta",
        "deberta_buckets",
        model("deberta_v2", what="make_log_bucket_position"),
        "make_log_bucket_position",
        lambda f: f(tensor(RELATIVE), 256, 512),
        {"relative": RELATIVE},
        convention={"count": 256, "furthest": 512},
        note="relative = query - key; float32, negative for keys ahead",
    ),
    "DeBERTa v2 build_relative_position": entry(
        "buckets",
        "deberta",
        "deberta_buckets",
        model("deberta_v2", what="build_relative_position"),
        "build_relative_position",
        lambda f: f(*[zeros(*LAYERS[each]) for each in LAYERS], 256, 512)[0],
        {"relative": np.arange(700)[:, None] - np.arange(900)},
        convention={"count": 256, "furthest": 512},
        note="takes (..., length, d) tensors, of which the lengths count",
    ),
    "DeBERTa build_relative_position": entry(
        "buckets",
        "deberta",
        "deberta_buckets",
        model("deberta", what="build_relative_position"),
        "build_relative_position",
        lambda f: f(*[zeros(*LAYERS[each]) for each in LAYERS])[0],
        {"relative": np.arange(700)[:, None] - np.arange(900)},
        note="no buckets; not clipped",
    ),
    "KerasHub _make_log_bucket_position": entry(
        "buckets",
        "deberta",
        "deberta_buckets",
        JAX + "from keras_hub.src.models.deberta_v3.disentangled_self_attention import (\n"
        "    DisentangledSelfAttention)\n"
        "attention = DisentangledSelfAttention(2, 16, max_position_embeddings=512,\n"
        "    bucket_size=256)\n"
        "bucket = attention._make_log_bucket_position",
        "bucket",
        lambda f: f(jax(RELATIVE)),
        {"relative": RELATIVE},
        convention={"count": 256, "furthest": 512},
        library=KERAS,
        note="counts and distances are the layer's",
    ),
    "SEW-D build_relative_position": entry(
        "buckets",
        "deberta",
        "deberta_buckets",
        model("sew_d", what="build_relative_position"),
        "build_relative_position",
        lambda f: f(700, 900, 256, 512)[0],
        {"relative": np.arange(700)[:, None] - np.arange(900)},
        convention={"count": 256, "furthest": 512},
        note="takes lengths",
    ),
    "DeBERTa v2 disentangled_attention_bias": entry(
        "scores",
        "deberta",
        "deberta_scores",
        model(
            "deberta_v2",
            "from transformers import DebertaV2Config",
            "config = DebertaV2Config(hidden_size=24, num_attention_heads=3,",
            "    relative_attention=True, pos_att_type=['c2p', 'p2c'], share_att_key=True,",
            "    position_buckets=16, max_relative_positions=32)",
            "bias = DisentangledSelfAttention(config).eval().disentangled_attention_bias",
            what="DisentangledSelfAttention",
        ),
        "bias",
        lambda f: f(normal(1, 3, 50, 8), normal(2, 3, 50, 8), None, normal(3, 32, 24), 3),
        {"heads": 3, "length": 50, "head_dim": 8},
        2.0**-20,
        convention={"count": 16, "furthest": 32},
        note="terms c2p + p2c without content; (heads, length, d); divided by sqrt(3 d)",
    ),
}


WINDOW = {"height": 4, "width": 3}
LENGTHS = {"queries": 30, "keys": 30}
OTHER_BIASES = {
    "Swin relative position index": entry(
        "buckets",
        "relative_2d",
        "window_index",
        model(
            "swin",
            "index = SwinRelativePositionBias(3, (4, 3))._create_relative_position_index",
            what="SwinRelativePositionBias",
        ),
        "index",
        lambda f: f(),
        WINDOW,
        note="no arguments",
    ),
    "Swin SwinRelativePositionBias": entry(
        "bias",
        "relative_2d",
        "window_bias",
        model(
            "swin", "bias = SwinRelativePositionBias(3, (4, 3))", what="SwinRelativePositionBias"
        ),
        "bias",
        lambda f: f()[0],
        WINDOW,
        2.0**-23,
        note="no arguments; a batch of one",
    ),
    "BEiT generate_relative_position_index": entry(
        "buckets",
        "relative_2d",
        "window_index",
        model(
            "beit",
            "index = BeitRelativePositionBias.generate_relative_position_index",
            what="BeitRelativePositionBias",
        ),
        "index",
        lambda f: f((4, 3)),
        WINDOW,
        convention={"class_token": True},
        note="the last three indices are those of the class token",
    ),
    "timm gen_relative_position_index": entry(
        "buckets",
        "relative_2d",
        "window_index",
        "from timm.layers import gen_relative_position_index",
        "gen_relative_position_index",
        lambda f: f((4, 3)),
        WINDOW,
        library=TIMM,
    ),
    "Phi-4 audio bias": entry(
        "bias",
        "shaw",
        "clipped_bias",
        model(
            "phi4_multimodal",
            "from transformers.models.phi4_multimodal.configuration_phi4_multimodal import (",
            "    Phi4MultimodalAudioConfig)",
            "config = Phi4MultimodalAudioConfig(bias_max_distance=10, num_attention_heads=3)",
            "bias = Phi4MultimodalAudioRelativeAttentionBias(config)",
            what="Phi4MultimodalAudioRelativeAttentionBias",
        ),
        "bias",
        lambda f: f(zeros(1, 30, 8))[0],
        LENGTHS,
        2.0**-23,
        convention={"clip": (-10, 9), "relative": "key - query"},
        verdict="variant",
        note="a bias for each clipped distance; takes embeddings",
    ),
    "SpeechT5 relative encoding": entry(
        "bias",
        "shaw",
        "clipped_bias",
        model(
            "speecht5",
            "embed = SpeechT5RelativePositionalEncoding(8, 10)",
            what="SpeechT5RelativePositionalEncoding",
        ),
        "embed",
        lambda f: f(zeros(1, 30, 8)).permute(2, 0, 1),
        LENGTHS,
        2.0**-23,
        convention={"clip": (-10, 9), "relative": "query - key"},
        verdict="variant",
        note="returns the embeddings, (queries, keys, d), not scores",
    ),
    "ViTDet get_rel_pos": entry(
        "bias",
        "shaw",
        "clipped_bias",
        model("vitdet", what="get_rel_pos"),
        "get_rel_pos",
        lambda f: f(30, 30, normal(0, 59, 8)).permute(2, 0, 1),
        LENGTHS,
        2.0**-23,
        convention={"clip": (-29, 29), "relative": "query - key", "given": (59, 8)},
        verdict="variant",
        note="takes the table, and resizes it to 2 * length - 1 rows",
    ),
    "x-transformers DynamicPositionBias": entry(
        "bias",
        "dynamic",
        "dynamic_bias",
        "from x_transformers.x_transformers import DynamicPositionBias\n"
        "bias = DynamicPositionBias(6, heads=3, depth=1)",
        "bias",
        lambda f: f(30, 30),
        LENGTHS,
        2.0**-20,
        library=X_TRANSFORMERS,
        convention={"relative": "query - key"},
        verdict="variant",
        note="a network of the distance, as FIRE's without its logarithm and threshold",
    ),
}

SCORE_SIZES = {"heads": 3, "length": 20, "head_dim": 8}
SCORES = {
    "Wav2Vec2-BERT _apply_relative_key_position_encoding": entry(
        "scores",
        "shaw",
        "shaw_scores",
        model(
            "wav2vec2_bert",
            "from functools import partial",
            "from transformers import Wav2Vec2BertConfig",
            "config = Wav2Vec2BertConfig(hidden_size=24, num_attention_heads=3,",
            "    left_max_position_embeddings=6, right_max_position_embeddings=3)",
            "attention = Wav2Vec2BertSelfAttention(config)",
            "scores = partial(_apply_relative_key_position_encoding, attention)",
            what="Wav2Vec2BertSelfAttention, _apply_relative_key_position_encoding",
        ),
        "scores",
        lambda f: f(normal(1, 1, 3, 20, 8), normal(2, 1, 3, 20, 8))[1][0],
        SCORE_SIZES,
        2.0**-20,
        convention={"clip": (-6, 3)},
        verdict="variant",
        adapter=True,
        note="the relative term alone, over sqrt(d); returns (queries, scores)",
    ),
    "XLNet rel_shift_bnij": entry(
        "scores",
        "transformer_xl",
        "relative_shift",
        model(
            "xlnet",
            "shift = XLNetRelativeAttention.rel_shift_bnij",
            what="XLNetRelativeAttention",
        ),
        "shift",
        lambda f: f(normal(0, 1, 3, 20, 40), klen=20)[0],
        {"heads": 3, "length": 20, "columns": 40},
        2.0**-23,
        convention={"first": "distance + length"},
        note="takes scores by relative position, (batch, heads, queries, keys + queries)",
    ),
    "Parakeet _rel_shift": entry(
        "scores",
        "transformer_xl",
        "relative_shift",
        model(
            "parakeet",
            "from functools import partial",
            "shift = partial(ParakeetEncoderAttention._rel_shift, None)",
            what="ParakeetEncoderAttention",
        ),
        "shift",
        lambda f: f(normal(0, 1, 3, 20, 39))[0, ..., :20],
        {"heads": 3, "length": 20, "columns": 39},
        2.0**-23,
        convention={"first": "distance + length - 1"},
        adapter=True,
        note="the first `length` columns count, the rest are left over",
    ),
    "XLNet rel_attn_core": entry(
        "scores",
        "transformer_xl",
        "xlnet_scores",
        model(
            "xlnet",
            "from transformers import XLNetConfig",
            "config = XLNetConfig(d_model=24, n_head=3, d_inner=24, n_layer=1)",
            "attention = XLNetRelativeAttention(config).eval()",
            "",
            "def scores(q, k, r):",
            "    weights = attention.rel_attn_core(q, k, k, r, output_attentions=True)[1]",
            "    return weights.log().permute(2, 3, 0, 1)",
            what="XLNetRelativeAttention",
        ),
        "scores",
        lambda f: f(normal(1, 20, 1, 3, 8), normal(2, 20, 1, 3, 8), normal(3, 40, 1, 3, 8))[0],
        SCORE_SIZES,
        2.0**-18,
        adapter=True,
        note="weights, of which the logarithm is the score up to a number for each row; "
        "(length, batch, heads, d)",
    ),
    "x-transformers CoPE": entry(
        "scores",
        "cope",
        "cope_scores",
        "from x_transformers.x_transformers import CoPE\nscores = CoPE(8, 3, 10)",
        "scores",
        lambda f: f(normal(1, 1, 3, 20, 8), causal_scores(2, 1, 3, 20, 20))[0],
        {**SCORE_SIZES, "furthest": 10},
        2.0**-18,
        library=X_TRANSFORMERS,
        note="takes queries and masked scores; at most max_pos - 1",
    ),
    "x-transformers PolarEmbedding": entry(
        "scores",
        "pope",
        "pope_scores",
        "import torch\n"
        "from x_transformers.x_transformers import PolarEmbedding, apply_polar_pos_emb\n"
        "polar = PolarEmbedding(8, 3)\n\n"
        "def scores(q, k):\n"
        "    angles, bias = polar(torch.arange(q.shape[-2]))\n"
        "    k = apply_polar_pos_emb(k, angles + bias)\n"
        "    return apply_polar_pos_emb(q, angles) @ k.transpose(-1, -2)\n",
        "scores",
        lambda f: f(normal(1, 1, 3, 20, 8), normal(2, 1, 3, 20, 8))[0],
        SCORE_SIZES,
        2.0**-18,
        library=X_TRANSFORMERS,
        adapter=True,
        note="one frequency a dimension, base ** -(c / d); its parameter is clipped to [-2 pi, 0]",
    ),
    "x-transformers apply_polar_pos_emb of a batch": entry(
        "scores",
        "pope",
        "pope_of_batch",
        "import torch\n"
        "from x_transformers.x_transformers import PolarEmbedding, apply_polar_pos_emb\n"
        "polar = PolarEmbedding(8, 3)\n\n"
        "def scores(q, k, positions):\n"
        "    angles, bias = polar(positions)\n"
        "    k = apply_polar_pos_emb(k, angles + bias)\n"
        "    return apply_polar_pos_emb(q, angles) @ k.transpose(-1, -2)\n",
        "scores",
        lambda f: f(
            normal(1, 3, 3, 20, 8),
            normal(2, 3, 3, 20, 8),
            tensor(np.arange(20) * np.arange(1, 4)[:, None]),
        ),
        SCORE_SIZES,
        2.0**-18,
        library=X_TRANSFORMERS,
        verdict="wrong",
        adapter=True,
        convention={"positions_of": "head"},
        right={"positions_of": "batch"},
        error=9.499,
        note="positions of batch element i are given to head i where there are as many of both, "
        "and an error is raised where there are not",
    ),
}
