"""Released implementations, with their calling conventions and rotations.

The conventions are those that were found, as a record against changes. Another one may fit as well:
a function that broadcasts also takes tables of each sequence, (b, 1, s, d). The rotation is the one
of `arithmetic` with the same numbers.
"""

# ruff: noqa: E501

from __future__ import annotations

from dataclasses import dataclass

HEAD_DIM = 16

#: Packages, and their versions that were read.
VERSIONS = {
    "ai2-olmo": "0.6.0",
    "ai2-olmo-core": "3.0.0",
    "chronos-forecasting": "2.3.2",
    "curated-transformers": "2.0.1",
    "diffusers": "0.42.1",
    "equinox": "0.13.8",
    "esm": "3.2.1.post1",
    "fair-esm": "2.0.0",
    "fla-core": "0.6.0",
    "gemma": "3.3.0",
    "keras-hub": "0.32.0",
    "kornia": "0.9.0",
    "litgpt": "0.5.13",
    "llama-models": "0.3.0",
    "local-attention": "1.11.2",
    "megatron-core": "0.16.1",
    "mistral-inference": "1.6.0",
    "mlx": "0.32.4",
    "mlx-lm": "0.32.2",
    "mlx-vlm": "0.7.10",
    "moshi": "0.2.13",
    "palm-rlhf-pytorch": "0.8.0",
    "ring-attention-pytorch": "0.5.20",
    "rotary-embedding-torch": "0.9.1",
    "sglang": "0.5.23",
    "stable-audio-tools": "0.0.19",
    "timm": "1.0.31",
    "torchscale": "0.3.0",
    "torchtitan": "0.3.0",
    "transformer-lens": "4.3.0",
    "transformers": "5.24.0",
    "vit-pytorch": "1.26.11",
    "x-transformers": "2.31.10",
    "zetascale": "2.8.8",
}


@dataclass(frozen=True)
class Released:
    """An implementation of a released package."""

    package: str
    target: str
    options: str  #: The convention, as options.
    other: str = ""  #: The second function, which takes the tables that the first one makes.
    call: str = ""  #: The call, where it must be given.
    note: str = ""
    #: Its rotation, of those in `arithmetic`: one of RIGHT or WRONG.
    rotation: str = "half"
    #: What `check` must report, although a sequence by itself is rotated correctly.
    fault: str = ""

    @property
    def key(self) -> str:
        """Unique key."""
        return " ".join(filter(None, (self.target, self.other, self.call)))


RELEASED = [
    Released(
        "ai2-olmo",
        "olmo.model:RotaryEmbedding",
        '--call "RotaryEmbedding(ModelConfig(d_model=head_dim, n_heads=1), BufferCache())(q, k)" --axes-of-x "b h s d" --framework torch',
        call="RotaryEmbedding(ModelConfig(d_model=head_dim, n_heads=1), BufferCache())(q, k)",
        note="Its cache is a dictionary of another class.",
    ),
    Released(
        "ai2-olmo-core",
        "olmo_core.nn.rope:ComplexRotaryEmbedding",
        '--call "ComplexRotaryEmbedding(head_size=head_dim)(q, k, start_pos=offset)" --axes-of-x "b h s d" --framework torch',
        rotation="interleaved, base 500000",
    ),
    Released(
        "ai2-olmo-core",
        "olmo_core.nn.rope:RotaryEmbedding",
        '--call "RotaryEmbedding(head_size=head_dim)(q, k, start_pos=offset)" --axes-of-x "b h s d" --framework torch',
        rotation="half, base 500000",
    ),
    Released(
        "chronos-forecasting",
        "chronos.chronos2.layers:Chronos2RotaryEmbedding",
        '--call "apply_rotary_pos_emb(q, k, *Chronos2RotaryEmbedding(config=Chronos2CoreConfig(d_model=head_dim, d_kv=head_dim, num_layers=1, num_heads=1, rope_theta=base))(x, positions))" --axes-of-x "b h s d" --axes-of-positions "b s" --framework torch',
        other="chronos.chronos2.layers:Chronos2RotaryEmbedding.apply_rotary_pos_emb",
    ),
    Released(
        "chronos-forecasting",
        "chronos.chronos2.layers:Chronos2RotaryEmbedding.apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(q, k, cos, sin)" --axes-of-x "b h s d" --framework torch',
    ),
    Released(
        "curated-transformers",
        "curated_transformers.layers.embeddings:QueryKeyRotaryEmbeddings",
        '--call "QueryKeyRotaryEmbeddings(fraction=1.0, head_width=head_dim)(query=q, key=k, positions=positions)" --axes-of-x "b h s d" --axes-of-positions "b s" --framework torch',
    ),
    Released(
        "curated-transformers",
        "curated_transformers.layers.embeddings:RotaryEmbeddings",
        '--call "RotaryEmbeddings(width=head_dim)(x, positions=positions)" --axes-of-x "b h s d" --axes-of-positions "b s" --framework torch',
    ),
    Released(
        "diffusers",
        "diffusers.models.condition_embedders.condition_embedder_anima:AnimaRotaryEmbedding",
        '--call "_apply_rotary_pos_emb(x, *AnimaRotaryEmbedding(head_dim=head_dim)(x, positions))" --axes-of-x "b h s d" --axes-of-positions "b s" --framework torch',
        other="diffusers.models.condition_embedders.condition_embedder_anima:_apply_rotary_pos_emb",
    ),
    Released(
        "diffusers",
        "diffusers.models.embeddings:apply_rotary_emb",
        '--call "apply_rotary_emb(x, (cos, sin))" --axes-of-x "b h s d" --axes-of-tables "s d" --tables interleaved --framework torch',
        rotation="interleaved",
    ),
    Released(
        "diffusers",
        "diffusers.models.transformers.transformer_anyflow:apply_rotary_emb",
        '--call "apply_rotary_emb(x, freqs)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --freqs complex --framework torch',
        rotation="interleaved",
    ),
    Released(
        "diffusers",
        "diffusers.models.transformers.transformer_helios:apply_rotary_emb_transposed",
        '--call "apply_rotary_emb_transposed(x, freqs)" --axes-of-x "b s h d" --tables interleaved --freqs "cos then sin" --framework torch',
        rotation="interleaved",
    ),
    Released(
        "diffusers",
        "diffusers.models.transformers.transformer_hidream_image:apply_rope",
        '--call "apply_rope(q, k, freqs)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --freqs matrix --framework torch',
        rotation="interleaved",
    ),
    Released(
        "diffusers",
        "diffusers.models.transformers.transformer_hidream_image:rope",
        '--call "apply_rope(q, k, rope(positions, head_dim, base)[:, None])" --axes-of-x "b h s d" --axes-of-positions "b s" --framework torch',
        other="diffusers.models.transformers.transformer_hidream_image:apply_rope",
        rotation="interleaved",
    ),
    Released(
        "diffusers",
        "diffusers.models.transformers.transformer_joyimage:_apply_rotary_emb",
        '--call "_apply_rotary_emb(q, k, (cos, sin))" --axes-of-x "b s h d" --axes-of-tables "s d" --tables interleaved --framework torch',
        rotation="interleaved",
    ),
    Released(
        "diffusers",
        "diffusers.models.transformers.transformer_kandinsky6:apply_rotary",
        '--call "apply_rotary(x, freqs)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --freqs matrix --framework torch',
        rotation="interleaved",
    ),
    Released(
        "diffusers",
        "diffusers.models.transformers.transformer_longcat_audio_dit:AudioDiTRotaryEmbedding",
        '--call "_apply_rotary_emb(x, [table[offset:] for table in AudioDiTRotaryEmbedding(dim=head_dim)(x, seq_len=offset + length)])" --axes-of-x "b s h d" --framework torch',
        other="diffusers.models.transformers.transformer_longcat_audio_dit:_apply_rotary_emb",
        rotation="half, base 100000",
    ),
    Released(
        "diffusers",
        "diffusers.models.transformers.transformer_longcat_audio_dit:_apply_rotary_emb",
        '--call "_apply_rotary_emb(x, (cos, sin))" --axes-of-x "b s h d" --axes-of-tables "s d" --framework torch',
    ),
    Released(
        "diffusers",
        "diffusers.models.transformers.transformer_ltx2:apply_interleaved_rotary_emb",
        '--call "apply_interleaved_rotary_emb(x, (cos, sin))" --axes-of-x "b s d" --tables interleaved --framework torch',
        rotation="interleaved",
    ),
    Released(
        "diffusers",
        "diffusers.models.transformers.transformer_ltx2:apply_split_rotary_emb",
        '--call "apply_split_rotary_emb(x, (cos, sin))" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --tables single --framework torch',
    ),
    Released(
        "diffusers",
        "diffusers.models.transformers.transformer_minimax_music3:_apply_partial_rotary_emb",
        '--call "_apply_partial_rotary_emb(x, (cos, sin))" --axes-of-x "b h s d" --framework torch',
    ),
    Released(
        "diffusers",
        "diffusers.models.transformers.transformer_nucleusmoe_image:_apply_rotary_emb_nucleus",
        '--call "_apply_rotary_emb_nucleus(x, (cos, sin))" --axes-of-x "b h s d" --axes-of-tables "s d" --tables interleaved --framework torch',
        rotation="interleaved",
    ),
    Released(
        "diffusers",
        "diffusers.models.transformers.transformer_prx:apply_rope",
        '--call "apply_rope(q, freqs)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --freqs matrix --framework torch',
        rotation="interleaved",
    ),
    Released(
        "diffusers",
        "diffusers.models.transformers.transformer_qwenimage:apply_rotary_emb_qwen",
        '--call "apply_rotary_emb_qwen(x, (cos, sin))" --axes-of-x "b h s d" --axes-of-tables "s d" --tables interleaved --framework torch',
        rotation="interleaved",
    ),
    Released(
        "diffusers",
        "diffusers.models.transformers.transformer_stable_audio3:_apply_rotary_partial",
        '--call "_apply_rotary_partial(x, freqs)" --axes-of-x "b s h d" --axes-of-tables "s d" --framework torch',
    ),
    Released(
        "diffusers",
        "diffusers.models.embeddings:get_1d_rotary_pos_embed",
        '--call "apply_rotary_emb(x, get_1d_rotary_pos_embed(head_dim, positions, use_real=True, repeat_interleave_real=False), use_real_unbind_dim=-2)" --axes-of-x "b h s d" --framework torch',
        other="diffusers.models.embeddings:apply_rotary_emb",
        call="apply_rotary_emb(x, get_1d_rotary_pos_embed(head_dim, positions, use_real=True, repeat_interleave_real=False), use_real_unbind_dim=-2)",
        note="As Stable Audio calls it.",
    ),
    Released(
        "diffusers",
        "diffusers.models.embeddings:get_1d_rotary_pos_embed",
        '--call "apply_rotary_emb(x, get_1d_rotary_pos_embed(head_dim, positions, use_real=True, repeat_interleave_real=False))" --axes-of-x "b h s d" --framework torch',
        other="diffusers.models.embeddings:apply_rotary_emb",
        call="apply_rotary_emb(x, get_1d_rotary_pos_embed(head_dim, positions, use_real=True, repeat_interleave_real=False))",
        note="No caller of it does so.",
        rotation="interleaved by tables of halves",
    ),
    Released(
        "diffusers",
        "diffusers.models.embeddings:get_1d_rotary_pos_embed",
        '--call "apply_rotary_emb(x, get_1d_rotary_pos_embed(head_dim, positions, use_real=True), use_real_unbind_dim=-2)" --axes-of-x "b h s d" --framework torch',
        other="diffusers.models.embeddings:apply_rotary_emb",
        call="apply_rotary_emb(x, get_1d_rotary_pos_embed(head_dim, positions, use_real=True), use_real_unbind_dim=-2)",
        note="No caller of it does so.",
        rotation="half by interleaved tables",
    ),
    Released(
        "diffusers",
        "oracle.conventions.adapters:ernie_image",
        '--call "ernie_image(x, positions)" --axes-of-x "b s h d" --framework torch',
        rotation="half by interleaved tables",
    ),
    Released(
        "equinox",
        "equinox.nn:RotaryPositionalEmbedding",
        '--call "RotaryPositionalEmbedding(embedding_size=head_dim)(x)" --axes-of-x "s d" --framework jax',
        fault="counts for the first instance only",
    ),
    Released(
        "esm",
        "esm.layers.rotary:RotaryEmbedding",
        '--call "RotaryEmbedding(dim=head_dim)(q, k, seqlen_offset=offset)" --axes-of-x "b s h d" --framework torch',
    ),
    Released(
        "esm",
        "esm.layers.rotary:RotaryEmbedding",
        '--call "RotaryEmbedding(dim=head_dim, interleaved=True)(q, k, seqlen_offset=offset)" --axes-of-x "b s h d" --framework torch',
        call="RotaryEmbedding(dim=head_dim, interleaved=True)(q, k, seqlen_offset=offset)",
        rotation="interleaved by tables of halves",
    ),
    Released(
        "esm",
        "esm.layers.rotary:apply_rotary_emb_torch",
        '--call "apply_rotary_emb_torch(x, cos, sin)" --axes-of-x "b s h d" --axes-of-tables "s d" --tables single --framework torch',
    ),
    Released(
        "fair-esm",
        "esm.rotary_embedding:RotaryEmbedding",
        '--call "RotaryEmbedding(dim=head_dim)(q, k)" --axes-of-x "b h s d" --framework torch',
    ),
    Released(
        "fair-esm",
        "esm.rotary_embedding:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(x, cos, sin)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --framework torch',
    ),
    Released(
        "fla-core",
        "fla.modules.rotary.ops:rotary_embedding_ref",
        '--call "rotary_embedding_ref(x, cos, sin)" --axes-of-x "b s h d" --tables single --framework torch',
    ),
    Released(
        "gemma",
        "gemma.gm.math._positional_embeddings:apply_rope",
        '--call "apply_rope(x, positions, base_frequency=base)" --axes-of-x "b s h d" --framework jax',
    ),
    Released(
        "keras-hub",
        "keras_hub.layers:RotaryEmbedding",
        '--call "RotaryEmbedding()(x, start_index=offset)" --axes-of-x "b s h d" --framework torch',
    ),
    Released(
        "keras-hub",
        "keras_hub.src.models.moonshine.moonshine_multi_head_attention:_apply_rotary_pos_emb",
        '--call "_apply_rotary_pos_emb(x, freqs)" --axes-of-x "b s h d" --axes-of-tables "s d" --tables interleaved --framework torch',
        rotation="interleaved",
    ),
    Released(
        "keras-hub",
        "keras_hub.src.models.smollm3.smollm3_utils:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(q, k, cos, sin)" --axes-of-x "b h s d" --framework torch',
    ),
    Released(
        "kornia",
        "kornia.feature.lightglue:apply_cached_rotary_emb",
        '--call "apply_cached_rotary_emb((cos, sin), x)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --tables interleaved --framework torch',
        rotation="interleaved",
    ),
    Released(
        "kornia",
        "kornia.models.kimi_vl.moonvit:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(x, cos, sin)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --tables single --framework torch',
        rotation="interleaved",
    ),
    Released(
        "kornia",
        "kornia.models.paligemma.modeling_paligemma:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(q, k, cos, sin)" --axes-of-x "b h s d" --framework torch',
    ),
    Released(
        "litgpt",
        "litgpt.model:apply_rope",
        '--call "apply_rope(x, cos, sin)" --axes-of-x "b h s d" --framework torch',
    ),
    Released(
        "litgpt",
        "litgpt.model:build_rope_cache",
        '--call "apply_rope(x, *[table[None] for table in [table[offset:] for table in build_rope_cache(offset + length, head_dim)]])" --axes-of-x "b h s d" --framework torch',
        other="litgpt.model:apply_rope",
    ),
    Released(
        "llama-models",
        "llama_models.llama3.model:apply_rotary_emb",
        '--call "apply_rotary_emb(q, k, freqs)" --axes-of-x "b s h d" --axes-of-tables "s d" --freqs complex --framework torch',
        rotation="interleaved",
    ),
    Released(
        "llama-models",
        "llama_models.llama3.model:precompute_freqs_cis",
        '--call "apply_rotary_emb(q, k, precompute_freqs_cis(head_dim, context)[offset:offset + length])" --axes-of-x "b s h d" --framework torch',
        other="llama_models.llama3.model:apply_rotary_emb",
        rotation="interleaved",
    ),
    Released(
        "local-attention",
        "local_attention.rotary:SinusoidalEmbeddings",
        '--call "apply_rotary_pos_emb(q, k, *SinusoidalEmbeddings(dim=head_dim)(x))" --axes-of-x "b h s d" --framework torch',
        other="local_attention.rotary:apply_rotary_pos_emb",
    ),
    Released(
        "local-attention",
        "local_attention.rotary:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(q, k, freqs, torch.ones(1, 1))" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --framework torch',
        call="apply_rotary_pos_emb(q, k, freqs, torch.ones(1, 1))",
        note="Its own default of `scale` raises.",
    ),
    Released(
        "megatron-core",
        "megatron.core.models.common.embeddings.rope_utils:_apply_rotary_pos_emb_bshd",
        '--call "_apply_rotary_pos_emb_bshd(x, freqs)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --framework torch',
    ),
    Released(
        "megatron-core",
        "megatron.core.models.common.embeddings.rope_utils:apply_rotary_pos_emb",
        "--call \"apply_rotary_pos_emb(x, freqs, type('Config', (), {'apply_rope_fusion': False, 'rotary_interleaved': False, 'multi_latent_attention': False, 'mrope_section': None}), cp_group=0)\" --axes-of-x \"b h s d\" --axes-of-tables \"b 1 s d\" --framework torch",
        call="apply_rotary_pos_emb(x, freqs, type('Config', (), {'apply_rope_fusion': False, 'rotary_interleaved': False, 'multi_latent_attention': False, 'mrope_section': None}), cp_group=0)",
        note="Its configuration is of a module that is not imported where it runs.",
    ),
    Released(
        "megatron-core",
        "megatron.core.models.common.embeddings.rope_utils:apply_rotary_pos_emb_with_cos_sin",
        '--call "apply_rotary_pos_emb_with_cos_sin(x, cos, sin)" --axes-of-x "b h s d" --tables single --framework torch',
        note="Without flash-attn.",
        rotation="half by tables as angles",
    ),
    Released(
        "mistral-inference",
        "mistral_inference.rope:apply_rotary_emb",
        '--call "apply_rotary_emb(q, k, freqs)" --axes-of-x "b h s d" --freqs complex --framework torch',
        rotation="interleaved",
    ),
    Released(
        "mistral-inference",
        "mistral_inference.rope:precompute_freqs_cis",
        '--call "apply_rotary_emb(q, k, precompute_freqs_cis(head_dim, context, base)[offset:offset + length])" --axes-of-x "b s h d" --framework torch',
        other="mistral_inference.rope:apply_rotary_emb",
        rotation="interleaved",
    ),
    Released(
        "mlx",
        "mlx.core.fast:rope",
        '--call "rope(x, head_dim, traditional=False, base=base, scale=1.0, offset=offset)" --axes-of-x "b h s d" --framework mlx',
    ),
    Released(
        "mlx",
        "mlx.nn:RoPE",
        '--call "RoPE(dims=head_dim)(x, offset=offset)" --axes-of-x "b h s d" --framework mlx',
    ),
    Released(
        "mlx-lm",
        "mlx_lm.models.muse_spark:_apply_vision_rope",
        '--call "_apply_vision_rope(x, cos=cos, sin=sin)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --tables single --framework mlx',
        rotation="interleaved",
    ),
    Released(
        "mlx-lm",
        "mlx_lm.models.nanochat:apply_rotary_emb",
        '--call "apply_rotary_emb(x, offset)" --axes-of-x "b h s d" --framework mlx',
        rotation="half, backwards",
    ),
    Released(
        "mlx-lm",
        "mlx_lm.models.rope_utils:YarnRoPE",
        '--call "YarnRoPE(dims=head_dim)(x, offset=offset)" --axes-of-x "b h s d" --framework mlx',
    ),
    Released(
        "mlx-vlm",
        "mlx_vlm.models.kimi_k25.vision:apply_rope",
        '--call "apply_rope(q, k, freqs)" --axes-of-x "s h d" --axes-of-tables "s d" --freqs complex --framework mlx',
        rotation="interleaved",
    ),
    Released(
        "mlx-vlm",
        "mlx_vlm.models.pixtral.vision:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(q, k, cos, sin)" --axes-of-x "b h s d" --framework mlx',
    ),
    Released(
        "mlx-vlm",
        "mlx_vlm.models.qwen3_vl.vision:apply_rotary_pos_emb_vision",
        '--call "apply_rotary_pos_emb_vision(x, freqs)" --axes-of-x "b s h d" --axes-of-tables "s d" --tables single --framework mlx',
    ),
    Released(
        "mlx-vlm",
        "mlx_vlm.models.sam3d_body.rope:apply_rope",
        '--call "apply_rope(q, k, sin, cos, 0)" --axes-of-x "b h s d" --axes-of-tables "s d" --framework mlx',
    ),
    Released(
        "moshi",
        "moshi.modules.rope:RotaryEmbedding",
        '--call "RotaryEmbedding(interleave=False)(q, k, offsets)" --axes-of-x "b h s d" --framework torch',
    ),
    Released(
        "moshi",
        "moshi.modules.rope:apply_rope",
        '--call "apply_rope(q, k, offsets)" --axes-of-x "b h s d" --framework torch',
        rotation="interleaved",
    ),
    Released(
        "palm-rlhf-pytorch",
        "palm_rlhf_pytorch.palm:RotaryEmbedding",
        '--call "apply_rotary_pos_emb(*[table[offset:] for table in RotaryEmbedding(dim=head_dim)(offset + length, None)][:1], x, *[table[offset:] for table in RotaryEmbedding(dim=head_dim)(offset + length, None)][1:])" --axes-of-x "b h s d" --framework torch',
        other="palm_rlhf_pytorch.palm:apply_rotary_pos_emb",
        rotation="xPos of half",
    ),
    Released(
        "palm-rlhf-pytorch",
        "palm_rlhf_pytorch.palm:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(freqs, x)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --framework torch',
    ),
    Released(
        "ring-attention-pytorch",
        "ring_attention_pytorch.ring_attention:RingRotaryEmbedding",
        '--call "apply_rotary_pos_emb(RingRotaryEmbedding(dim=head_dim)(offset + length)[offset:], x)" --axes-of-x "b s h d" --framework torch',
        other="ring_attention_pytorch.ring_attention:apply_rotary_pos_emb",
    ),
    Released(
        "ring-attention-pytorch",
        "ring_attention_pytorch.ring_attention:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(freqs, x)" --axes-of-x "b s h d" --axes-of-tables "s d" --framework torch',
    ),
    Released(
        "rotary-embedding-torch",
        "rotary_embedding_torch:RotaryEmbedding",
        '--call "RotaryEmbedding(dim=head_dim).rotate_queries_or_keys(x, offset=offset)" --axes-of-x "b h s d" --framework torch',
        rotation="interleaved, by positions in the dtype of x",
    ),
    Released(
        "rotary-embedding-torch",
        "rotary_embedding_torch:apply_rotary_emb",
        '--call "apply_rotary_emb(freqs, x)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --tables interleaved --framework torch',
        rotation="interleaved",
    ),
    Released(
        "sglang",
        "sglang.srt.layers.rotary_embedding.base:RotaryEmbedding",
        '--call "RotaryEmbedding(head_size=head_dim, rotary_dim=rotary_dim, max_position_embeddings=context, base=base, is_neox_style=True, dtype=dtype).forward_native(positions, q, k)" --axes-of-x "b s h d" --axes-of-positions "b s" --framework torch',
    ),
    Released(
        "sglang",
        "sglang.srt.layers.rotary_embedding.utils:apply_rotary_emb",
        '--call "apply_rotary_emb(x, cos, sin, True)" --axes-of-x "b s h d" --tables single --framework torch',
    ),
    Released(
        "sglang",
        "sglang.srt.layers.rotary_embedding.utils:apply_rotary_pos_emb_native",
        '--call "apply_rotary_pos_emb_native(q, k, cos, sin)" --axes-of-x "b h s d" --framework torch',
    ),
    Released(
        "stable-audio-tools",
        "stable_audio_tools.models.transformer:RotaryEmbedding",
        '--call "apply_rotary_pos_emb(x, *RotaryEmbedding(dim=head_dim)(positions))" --axes-of-x "b h s d" --framework torch',
        other="stable_audio_tools.models.transformer:apply_rotary_pos_emb",
    ),
    Released(
        "stable-audio-tools",
        "stable_audio_tools.models.transformer:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(x, freqs)" --axes-of-x "b h s d" --framework torch',
    ),
    Released(
        "timm",
        "timm.layers.pos_embed_sincos:apply_rot_embed_cat",
        '--call "apply_rot_embed_cat(x, freqs)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --tables interleaved --freqs "sin then cos" --framework torch',
        rotation="interleaved",
    ),
    Released(
        "torchscale",
        "torchscale.component.xpos_relative_position:XPOS",
        '--call "XPOS(head_dim=head_dim)(x, offset=offset)" --axes-of-x "b s d" --framework torch',
        rotation="xPos of interleaved",
    ),
    Released(
        "torchscale",
        "torchscale.component.xpos_relative_position:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(x, sin, cos)" --axes-of-x "b s d" --axes-of-tables "s d" --tables single --framework torch',
        rotation="interleaved",
    ),
    Released(
        "torchtitan",
        "torchtitan.models.common.rope:ComplexRoPE",
        '--call "ComplexRoPE(config=ComplexRoPE.Config(dim=head_dim, max_seq_len=context, theta=base))(q, k, positions=positions)" --axes-of-x "b s h d" --framework torch',
        rotation="interleaved",
    ),
    Released(
        "torchtitan",
        "torchtitan.models.common.rope:CosSinRoPE",
        '--call "CosSinRoPE(config=CosSinRoPE.Config(dim=head_dim, max_seq_len=context, theta=base))(q, k, positions=positions)" --axes-of-x "b s h d" --framework torch',
    ),
    Released(
        "transformer-lens",
        "transformer_lens.model_bridge.generalized_components.glm_moe_dsa_attention:_apply_rotary_pos_emb_single",
        '--call "_apply_rotary_pos_emb_single(x, cos, sin, 1)" --axes-of-x "b h s d" --framework torch',
        rotation="interleaved, written in halves",
    ),
    Released(
        "transformer-lens",
        "transformer_lens.model_bridge.generalized_components.mla_attention:_apply_rotary_complex",
        '--call "_apply_rotary_complex(q, k, freqs)" --axes-of-x "b h s d" --freqs complex --framework torch',
        rotation="interleaved",
    ),
    Released(
        "transformer-lens",
        "transformer_lens.model_bridge.generalized_components.mla_attention:_apply_rotary_pos_emb_interleave",
        '--call "_apply_rotary_pos_emb_interleave(q, k, cos, sin)" --axes-of-x "b h s d" --framework torch',
        rotation="interleaved, written in halves",
    ),
    Released(
        "transformer-lens",
        "transformer_lens.model_bridge.generalized_components.position_embeddings_attention:_apply_rotary_pos_emb_adjacent_pairs",
        '--call "_apply_rotary_pos_emb_adjacent_pairs(q, k, cos, sin)" --axes-of-x "b h s d" --framework torch',
        rotation="interleaved",
    ),
    Released(
        "transformers",
        "transformers.exporters.exporter_openvino:_apply_rotary_pos_emb_pairs",
        '--call "_apply_rotary_pos_emb_pairs(x, freqs)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --tables single --freqs "cos sin" --framework torch',
        rotation="interleaved",
    ),
    Released(
        "transformers",
        "transformers.models.clvp.modeling_clvp:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(q, k, k, cos_cache, sin_cache, positions)" --axes-of-x "b h s d" --axes-of-positions "b s" --framework torch',
    ),
    Released(
        "transformers",
        "transformers.models.cohere.modeling_cohere:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(q, k, cos, sin)" --axes-of-x "b h s d" --tables interleaved --framework torch',
        rotation="interleaved",
    ),
    Released(
        "transformers",
        "transformers.models.deepseek_v2.modeling_deepseek_v2:apply_rotary_emb",
        '--call "apply_rotary_emb(q, k, freqs)" --axes-of-x "b h s d" --freqs complex --framework torch',
        rotation="interleaved",
    ),
    Released(
        "transformers",
        "transformers.models.dinov3_vit.modeling_dinov3_vit:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(q, k, cos, sin)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --framework torch',
    ),
    Released(
        "transformers",
        "transformers.models.esm.modeling_esm:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(q, k, cos, sin)" --axes-of-x "b h s d" --framework torch',
    ),
    Released(
        "transformers",
        "transformers.models.gemma3.modeling_gemma3:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(q, k, cos, sin)" --axes-of-x "b h s d" --framework torch',
    ),
    Released(
        "transformers",
        "transformers.models.gemma4.modeling_gemma4:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(x, cos, sin)" --axes-of-x "b h s d" --framework torch',
    ),
    Released(
        "transformers",
        "transformers.models.glm.modeling_glm:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(q, k, cos, sin)" --axes-of-x "b h s d" --framework torch',
        rotation="interleaved",
    ),
    Released(
        "transformers",
        "transformers.models.gpt_neox.modeling_gpt_neox:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(q, k, cos, sin)" --axes-of-x "b h s d" --framework torch',
    ),
    Released(
        "transformers",
        "transformers.models.gpt_oss.modeling_gpt_oss:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(q, k, cos, sin)" --axes-of-x "b h s d" --tables single --framework torch',
    ),
    Released(
        "transformers",
        "transformers.models.gptj.modeling_gptj:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(x, sin, cos)" --axes-of-x "b s h d" --tables single --framework torch',
        rotation="interleaved",
    ),
    Released(
        "transformers",
        "transformers.models.llama.modeling_llama:LlamaRotaryEmbedding",
        "--call \"apply_rotary_pos_emb(q, k, *LlamaRotaryEmbedding(config=LlamaConfig(hidden_size=head_dim, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1, max_position_embeddings=context, rope_parameters={'rope_type': 'default', 'rope_theta': base}, head_dim=head_dim))(x, positions))\" --axes-of-x \"b h s d\" --axes-of-positions \"b s\" --framework torch",
        other="transformers.models.llama.modeling_llama:apply_rotary_pos_emb",
    ),
    Released(
        "transformers",
        "transformers.models.llama.modeling_llama:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(q, k, cos, sin)" --axes-of-x "b h s d" --framework torch',
    ),
    Released(
        "transformers",
        "transformers.models.llama4.modeling_llama4:apply_rotary_emb",
        '--call "apply_rotary_emb(q, k, freqs)" --axes-of-x "b s h d" --freqs complex --framework torch',
        rotation="interleaved",
    ),
    Released(
        "transformers",
        "transformers.models.llama4.modeling_llama4:vision_apply_rotary_emb",
        '--call "vision_apply_rotary_emb(q, k, freqs)" --axes-of-x "b s h d" --axes-of-tables "s d" --freqs complex --framework torch',
        rotation="interleaved",
    ),
    Released(
        "transformers",
        "transformers.models.mistral4.modeling_mistral4:apply_rotary_pos_emb_interleave",
        '--call "apply_rotary_pos_emb_interleave(q, k, cos, sin)" --axes-of-x "b h s d" --framework torch',
        rotation="interleaved, written in halves",
    ),
    Released(
        "transformers",
        "transformers.models.musicflamingo.modeling_musicflamingo:apply_rotary_time_emb",
        '--call "apply_rotary_time_emb(x, cos, sin)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --tables interleaved --framework torch',
        rotation="interleaved",
    ),
    Released(
        "transformers",
        "transformers.models.phi3.modeling_phi3:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(q, k, cos, sin)" --axes-of-x "b h s d" --framework torch',
    ),
    Released(
        "transformers",
        "transformers.models.qwen2.modeling_qwen2:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(q, k, cos, sin)" --axes-of-x "b h s d" --framework torch',
    ),
    Released(
        "transformers",
        "transformers.models.qwen3_vl.modeling_qwen3_vl:apply_rotary_pos_emb_vision",
        '--call "apply_rotary_pos_emb_vision(q, k, cos, sin)" --axes-of-x "b s h d" --framework torch',
    ),
    Released(
        "transformers",
        "transformers.models.roformer.modeling_roformer:RoFormerSelfAttention.apply_rotary_position_embeddings",
        '--call "apply_rotary_position_embeddings(freqs, q, k)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --tables single --freqs "sin then cos" --framework torch',
        rotation="interleaved",
    ),
    Released(
        "transformers",
        "transformers.models.sam3.modeling_sam3:apply_rotary_pos_emb_2d",
        '--call "apply_rotary_pos_emb_2d(q, k, cos, sin)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --tables interleaved --framework torch',
        rotation="interleaved",
    ),
    Released(
        "transformers",
        "transformers.models.vjepa2.modeling_vjepa2:rotate_queries_or_keys",
        '--call "rotate_queries_or_keys(x, positions)" --axes-of-x "b h s d" --framework torch',
        rotation="interleaved by tables of halves",
    ),
    Released(
        "vit-pytorch",
        "vit_pytorch.levjepa:apply_rotary",
        '--call "apply_rotary(q, k, sin, cos)" --axes-of-x "b h s d" --tables interleaved --framework torch',
        rotation="interleaved",
    ),
    Released(
        "x-transformers",
        "x_transformers.x_transformers:RotaryEmbedding",
        '--call "apply_rotary_pos_emb(x, *RotaryEmbedding(dim=head_dim)(positions))" --axes-of-x "b h s d" --framework torch',
        other="x_transformers.x_transformers:apply_rotary_pos_emb",
        rotation="interleaved",
    ),
    Released(
        "zetascale",
        "zeta.structs.simple_transformer:apply_rotary_pos_emb",
        '--call "apply_rotary_pos_emb(freqs, x)" --axes-of-x "b h s d" --axes-of-tables "b 1 s d" --framework torch',
    ),
]
