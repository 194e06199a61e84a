"""Small transformers of diffusers, with all patches of an image or a video alike.

Then the queries of its patches in the first block differ by their positions alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import diffusers

GRID = (2, 3, 4)  #: Frames, rows and columns of patches.
TEXT = 5  #: Tokens of text.
IMAGE = (1, 3, 4)


@dataclass(frozen=True, kw_only=True)
class Small:
    """A class of diffusers, with what makes it small and what it is called with."""

    sizes: dict[str, Any]  #: Keys of its configuration, those that the rotation does not read.
    inputs: dict[str, Any] = field(default_factory=dict)  #: Of its forward, by name.
    grid: tuple[int, ...] = GRID  #: Sizes of the axes of a position.


def rand(*shape: int) -> torch.Tensor:
    """Return random numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def alike(*shape: int) -> torch.Tensor:
    """Return the latents of patches that are alike: one number per channel, (1, channels, ...)."""
    channels = rand(1, shape[0], *[1] * (len(shape) - 1))
    return channels.expand(1, *shape)


def points(*sizes: int) -> NDArray[np.int64]:
    """Return the position of each patch, the last axis first to change."""
    return np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), axis=-1).reshape(
        -1, len(sizes)
    )


TIME = torch.tensor([500.0])
TEXT_STATES = {"encoder_hidden_states": rand(1, TEXT, 16)}
MASK = {"encoder_attention_mask": torch.ones(1, TEXT, dtype=torch.bool)}
TWO_BLOCKS = {"num_layers": 1, "num_single_layers": 1, "num_attention_heads": 2}


def flat(axes: int, **inputs: Any) -> Small:
    """FLUX and its like: patches in a row, with the position of each."""
    grid = (*IMAGE, 1)[:axes]
    ids = torch.tensor(points(*grid), dtype=torch.float32)
    sizes = TWO_BLOCKS | {"in_channels": 8, "joint_attention_dim": 16}
    return Small(
        sizes=sizes,
        inputs={
            "hidden_states": rand(1, 1, 8).expand(1, len(ids), 8),
            "img_ids": ids,
            "txt_ids": torch.zeros(TEXT, axes),
            "timestep": TIME,
            **TEXT_STATES,
            **inputs,
        },
        grid=grid,
    )


def wan(**more: Any) -> Small:
    """Wan and its like: a video of latents."""
    frames, rows, columns = GRID
    return Small(
        sizes={
            "num_layers": 1,
            "num_attention_heads": 2,
            "in_channels": 4,
            "out_channels": 4,
            "text_dim": 16,
            "ffn_dim": 32,
            "freq_dim": 16,
        }
        | more.pop("sizes", {}),
        inputs={
            "hidden_states": alike(4, frames, 2 * rows, 2 * columns),
            "timestep": TIME.long(),
            **TEXT_STATES,
            **more,
        },
    )


def hunyuan(patch: int = 2, *, drop: tuple[str, ...] = (), **more: Any) -> Small:
    """HunyuanVideo and its like."""
    frames, rows, columns = GRID
    sizes = TWO_BLOCKS | {"in_channels": 4, "out_channels": 4, "text_embed_dim": 16}
    sizes |= {"pooled_projection_dim": 8, "num_refiner_layers": 1, "guidance_embeds": False}
    sizes |= more.pop("sizes", {})
    inputs = {
        "hidden_states": alike(4, frames, patch * rows, patch * columns),
        "timestep": TIME,
        "pooled_projections": rand(1, 8),
        **TEXT_STATES,
        "encoder_attention_mask": torch.ones(1, TEXT),
        **more,
    }
    return Small(
        sizes={key: value for key, value in sizes.items() if key not in drop},
        inputs={key: value for key, value in inputs.items() if key not in drop},
    )


VIDEO = alike(4, GRID[0], 2 * GRID[1], 2 * GRID[2])
PICTURE = alike(4, 2 * IMAGE[1], 2 * IMAGE[2])
ROW = rand(1, 1, 8).expand(1, 12, 8)  #: Patches of a picture.
TIMES = {"timestep": TIME}
SHAPES = {"img_shapes": [[IMAGE]], "encoder_hidden_states_mask": torch.ones(1, TEXT).bool()}
QWEN = {"num_layers": 1, "num_attention_heads": 2, "in_channels": 8, "joint_attention_dim": 16}
TEXTS = {"encoder_hidden_states": rand(1, TEXT, 16)}

MODELS: dict[str, Small] = {
    "FluxTransformer2DModel": flat(3, pooled_projections=rand(1, 768)),
    "Flux2Transformer2DModel": flat(4, guidance=TIME),
    "Flux3Transformer2DModel": flat(4),
    "ChromaTransformer2DModel": flat(3),
    "BriaTransformer2DModel": flat(3),
    "BriaFiboTransformer2DModel": flat(3, text_encoder_layers=[rand(1, TEXT, 2048)] * 2),
    "LongCatImageTransformer2DModel": flat(3),
    "OvisImageTransformer2DModel": flat(3),
    "QwenImageTransformer2DModel": Small(
        sizes=QWEN, inputs={"hidden_states": ROW, **TIMES, **TEXTS, **SHAPES}, grid=IMAGE
    ),
    "NucleusMoEImageTransformer2DModel": Small(
        sizes=QWEN | {"moe_enabled": False},
        inputs={"hidden_states": ROW, **TIMES, **TEXTS, **SHAPES},
        grid=IMAGE,
    ),
    "Krea2Transformer2DModel": Small(
        sizes={
            "num_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "in_channels": 8,
            "intermediate_size": 32,
            "text_hidden_dim": 16,
            "num_text_layers": 2,
            "text_num_attention_heads": 2,
            "text_num_key_value_heads": 2,
            "text_intermediate_size": 32,
        },
        inputs={
            "hidden_states": ROW,
            "encoder_hidden_states": rand(1, TEXT, 2, 16),
            **TIMES,
            "position_ids": torch.tensor(np.concatenate([np.zeros((TEXT, 3)), points(*IMAGE)])),
        },
        grid=IMAGE,
    ),
    "HiDreamImageTransformer2DModel": Small(
        sizes={
            "num_layers": 1,
            "num_single_layers": 1,
            "num_attention_heads": 2,
            "patch_size": 2,
            "in_channels": 4,
            "caption_channels": [16, 16],
            "text_emb_dim": 16,
            "llama_layers": [0, 0],
            "max_resolution": [8, 8],
        },
        inputs={
            "hidden_states": PICTURE,
            "timesteps": TIME,
            "encoder_hidden_states_t5": rand(1, TEXT, 16),
            "encoder_hidden_states_llama3": rand(1, 1, TEXT, 16),
            "pooled_embeds": rand(1, 16),
        },
        grid=IMAGE,
    ),
    "Lumina2Transformer2DModel": Small(
        sizes={
            "hidden_size": 192,
            "num_attention_heads": 2,
            "num_kv_heads": 2,
            "num_layers": 1,
            "num_refiner_layers": 1,
            "in_channels": 4,
            "cap_feat_dim": 16,
        },
        inputs={"hidden_states": PICTURE, **TIMES, **TEXTS, **MASK},
        grid=IMAGE,
    ),
    "ZImageTransformer2DModel": Small(
        sizes={
            "dim": 256,
            "n_heads": 2,
            "n_kv_heads": 2,
            "n_layers": 1,
            "n_refiner_layers": 1,
            "in_channels": 4,
            "cap_feat_dim": 16,
        },
        inputs={"x": [PICTURE[0][:, None]], "t": TIME / 1000, "cap_feats": [rand(TEXT, 16)]},
        grid=IMAGE,
    ),
    "HunyuanVideoTransformer3DModel": hunyuan(),
    "HunyuanVideo15Transformer3DModel": hunyuan(
        1,
        drop=(
            "num_single_layers",
            "pooled_projection_dim",
            "guidance_embeds",
            "pooled_projections",
        ),
        sizes={"text_embed_2_dim": 16, "image_embed_dim": 16},
        encoder_hidden_states_2=rand(1, TEXT, 16),
        encoder_attention_mask_2=torch.ones(1, TEXT),
        image_embeds=rand(1, TEXT, 16),
    ),
    "HunyuanImageTransformer2DModel": Small(
        sizes={
            **TWO_BLOCKS,
            "in_channels": 4,
            "out_channels": 4,
            "text_embed_dim": 16,
            "num_refiner_layers": 1,
        },
        inputs={
            "hidden_states": alike(4, *IMAGE[1:]),
            **TIMES,
            **TEXTS,
            "encoder_attention_mask": torch.ones(1, TEXT),
        },
        grid=IMAGE[1:],
    ),
    "MotifVideoTransformer3DModel": hunyuan(
        drop=(
            "pooled_projection_dim",
            "guidance_embeds",
            "pooled_projections",
            "num_refiner_layers",
        )
    ),
    "JoyImageEditTransformer3DModel": Small(
        sizes={
            "hidden_size": 256,
            "num_attention_heads": 2,
            "num_layers": 1,
            "in_channels": 4,
            "text_dim": 16,
        },
        inputs={"hidden_states": VIDEO, "timestep": TIME, **TEXTS},
    ),
    "CogVideoXTransformer3DModel": Small(
        sizes={
            "num_layers": 1,
            "num_attention_heads": 2,
            "in_channels": 4,
            "time_embed_dim": 16,
            "text_embed_dim": 16,
            "max_text_seq_length": TEXT,
            "use_rotary_positional_embeddings": True,
            "sample_height": 2 * GRID[1],
            "sample_width": 2 * GRID[2],
            "sample_frames": GRID[0],
        },
        inputs={"hidden_states": VIDEO.movedim(1, 2), **TIMES, **TEXTS},
    ),
    "PRXTransformer2DModel": Small(
        sizes={
            "hidden_size": 128,
            "num_heads": 2,
            "depth": 1,
            "in_channels": 4,
            "context_in_dim": 16,
        },
        inputs={"hidden_states": PICTURE, **TIMES, **TEXTS},
        grid=IMAGE[1:],
    ),
    "HeliosTransformer3DModel": wan(),
    "WanTransformer3DModel": wan(),
    "SkyReelsV2Transformer3DModel": wan(),
    "WanVACETransformer3DModel": wan(
        sizes={"vace_layers": [0], "vace_in_channels": 4}, control_hidden_states=VIDEO
    ),
    "AnyFlowTransformer3DModel": wan(
        hidden_states=VIDEO.movedim(1, 2),
        timestep=TIME[None].expand(1, GRID[0]),
        r_timestep=TIME[None].expand(1, GRID[0]),
    ),
}


def cogvideox_tables(model: Any) -> Any:
    """Return the tables of the grid, as the pipeline of CogVideoX makes them."""
    frames, rows, columns = GRID
    pipeline = SimpleNamespace(vae_scale_factor_spatial=1, transformer=model)
    make = diffusers.CogVideoXPipeline._prepare_rotary_positional_embeddings
    return make(pipeline, 2 * rows, 2 * columns, frames, torch.device("cpu"))


def queries(name: str, keys: dict[str, Any]) -> Iterator[NDArray[np.float32]]:
    """Yield the queries of one head in each call of attention, (tokens, head_dim)."""
    small = MODELS[name]
    torch.manual_seed(1)
    model = getattr(diffusers, name)(**(small.sizes | keys)).eval()
    found: list[NDArray[np.float32]] = []
    attention = torch.nn.functional.scaled_dot_product_attention

    def record(query: torch.Tensor, *rest: Any, **options: Any) -> torch.Tensor:
        found.append(query[0, 0].detach().float().numpy())
        return attention(query, *rest, **options)

    torch.nn.functional.scaled_dot_product_attention = record
    inputs = small.inputs
    if name.startswith("CogVideoX"):  # its pipeline makes the tables
        inputs = inputs | {"image_rotary_emb": cogvideox_tables(model)}
    try:
        with torch.no_grad():
            model(**inputs)
    finally:
        torch.nn.functional.scaled_dot_product_attention = attention
    yield from found
