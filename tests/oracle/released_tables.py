"""Tables of released libraries: sinusoidal in one and two dimensions, and learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from oracle.released_code import (
    DIFFUSERS,
    DIM,
    DOUBLE,
    JAX,
    KERAS,
    LENGTH,
    MLX,
    POSITIONAL,
    SINGLE,
    TIMM,
    TRANSFORMERS,
    X_TRANSFORMERS,
    Released,
    Verdict,
    dtype,
    mlx,
    model,
    ones,
    tensor,
    zeros,
)

PAPER = {"pairs": "interleaved", "first": "sin", "exponent": "d"}
HALVES = {"pairs": "halves", "first": "sin", "exponent": "d"}
FAIRSEQ = {"pairs": "halves", "first": "sin", "exponent": "d-2"}


def table(
    source: str,
    function: str,
    call: Callable[[Any], Any],
    convention: Mapping[str, Any],
    within: float = SINGLE,
    library: str = TRANSFORMERS,
    **more: Any,
) -> Released:
    """Return a sinusoidal table."""
    verdict = more.pop("verdict", "paper" if convention == PAPER else "variant")
    sizes = more.pop("sizes", {"length": LENGTH, "dim": DIM})
    return Released(
        library, source, function, "table", "sinusoidal", verdict, "sinusoidal",
        convention, call, sizes, within, **more,
    )  # fmt: skip


WITHOUT_OUT = "writes into its third argument, and returns it"
SINUSOIDAL = {
    "Whisper sinusoids": table(
        model("whisper", what="sinusoids"), "sinusoids", lambda f: f(LENGTH, DIM), FAIRSEQ
    ),
    "CodeGen create_sinusoidal_positions": table(
        model("codegen", what="create_sinusoidal_positions"),
        "create_sinusoidal_positions",
        lambda f: f(LENGTH, DIM),
        HALVES,
    ),
    "VideoPrism create_sinusoidal_positions": table(
        model("videoprism", what="create_sinusoidal_positions"),
        "create_sinusoidal_positions",
        lambda f: f(LENGTH, DIM),
        HALVES,
    ),
    "CTRL positional_encoding": table(
        model("ctrl", what="positional_encoding"),
        "positional_encoding",
        lambda f: f(LENGTH, DIM, dtype("float32")),
        HALVES,
        note="position is a length; dtype has no default, and is that of the angles",
    ),
    "CTRL positional_encoding, half precision": table(
        model("ctrl", what="positional_encoding"),
        "positional_encoding",
        lambda f: f(LENGTH, DIM, dtype("float16")),
        {**HALVES, "precision": "float16"},
        2.0**-10,
        verdict="wrong",
        right=HALVES,
        error=1.033,
        note="angles in half precision",
    ),
    "DistilBERT create_sinusoidal_embeddings": table(
        model("distilbert", what="create_sinusoidal_embeddings"),
        "create_sinusoidal_embeddings",
        lambda f: f(LENGTH, DIM, zeros(LENGTH, DIM)),
        PAPER,
        DOUBLE,
        note=WITHOUT_OUT,
    ),
    "XLM create_sinusoidal_embeddings": table(
        model("xlm", what="create_sinusoidal_embeddings"),
        "create_sinusoidal_embeddings",
        lambda f: f(LENGTH, DIM, zeros(LENGTH, DIM)),
        PAPER,
        DOUBLE,
        note=WITHOUT_OUT,
    ),
    "FlauBERT create_sinusoidal_embeddings": table(
        model("flaubert", what="create_sinusoidal_embeddings"),
        "create_sinusoidal_embeddings",
        lambda f: f(LENGTH, DIM, zeros(LENGTH, DIM)),
        PAPER,
        DOUBLE,
        note=WITHOUT_OUT,
    ),
    "Florence-2 get_sinusoid_embeddings": table(
        model(
            "florence2",
            "get_sinusoid_embeddings = Florence2VisionPositionalEmbeddingCosine1D"
            ".get_sinusoid_embeddings",
            what="Florence2VisionPositionalEmbeddingCosine1D",
        ),
        "get_sinusoid_embeddings",
        lambda f: np.concatenate([np.asarray(each) for each in f(LENGTH, DIM)], axis=-1),
        HALVES,
        note="returns the pair (sin, cos), which its caller interleaves",
    ),
    "FSMT get_embedding": table(
        model(
            "fsmt",
            "get_embedding = SinusoidalPositionalEmbedding.get_embedding",
            what="SinusoidalPositionalEmbedding",
        ),
        "get_embedding",
        lambda f: f(LENGTH, DIM, 1),
        {**FAIRSEQ, "zero_row": 1},
        note="padding_idx is required",
    ),
    "M2M100 get_embedding": table(
        model(
            "m2m_100",
            "get_embedding = M2M100SinusoidalPositionalEmbedding.get_embedding",
            what="M2M100SinusoidalPositionalEmbedding",
        ),
        "get_embedding",
        lambda f: f(LENGTH, DIM),
        FAIRSEQ,
        note="padding_idx=i sets row i to zero",
    ),
    "M2M100 module": table(
        model(
            "m2m_100",
            f"embed = M2M100SinusoidalPositionalEmbedding({LENGTH}, {DIM}, padding_idx=1)",
            what="M2M100SinusoidalPositionalEmbedding",
        ),
        "embed",
        lambda f: f(tensor(np.full((1, LENGTH), 7)))[0],
        {**FAIRSEQ, "start": 2},
        note="takes token ids: positions count those that are not padding",
    ),
    "Speech2Text module": table(
        model(
            "speech_to_text",
            f"embed = Speech2TextSinusoidalPositionalEmbedding({LENGTH}, {DIM}, padding_idx=1)",
            what="Speech2TextSinusoidalPositionalEmbedding",
        ),
        "embed",
        lambda f: f(tensor(np.full((1, LENGTH), 7)))[0],
        {**FAIRSEQ, "start": 2},
        note="takes token ids: positions count those that are not padding",
    ),
    "MusicGen get_embedding": table(
        model(
            "musicgen",
            "get_embedding = MusicgenSinusoidalPositionalEmbedding.get_embedding",
            what="MusicgenSinusoidalPositionalEmbedding",
        ),
        "get_embedding",
        lambda f: f(LENGTH, DIM),
        {**FAIRSEQ, "first": "cos"},
    ),
    "Marian create_weight": table(
        model(
            "marian",
            f"create_weight = MarianSinusoidalPositionalEmbedding({LENGTH}, {DIM}).create_weight",
            what="MarianSinusoidalPositionalEmbedding",
        ),
        "create_weight",
        lambda f: f(),
        HALVES,
        DOUBLE,
        note="no arguments; the module's own weight is random until a model initialises it",
    ),
    "Pegasus create_weight": table(
        model(
            "pegasus",
            f"create_weight = PegasusSinusoidalPositionalEmbedding({LENGTH}, {DIM}).create_weight",
            what="PegasusSinusoidalPositionalEmbedding",
        ),
        "create_weight",
        lambda f: f(),
        HALVES,
        DOUBLE,
        note="no arguments; the module's own weight is random until a model initialises it",
    ),
    "PEGASUS-X module": table(
        model(
            "pegasus_x",
            f"embed = PegasusXSinusoidalPositionalEmbedding({DIM})",
            what="PegasusXSinusoidalPositionalEmbedding",
        ),
        "embed",
        lambda f: f(zeros(1, LENGTH, DIM))[0],
        FAIRSEQ,
        note="takes embeddings, of which shape and dtype count",
    ),
    "PEGASUS-X module, half precision": table(
        model(
            "pegasus_x",
            f"embed = PegasusXSinusoidalPositionalEmbedding({DIM})",
            what="PegasusXSinusoidalPositionalEmbedding",
        ),
        "embed",
        lambda f: f(zeros(1, LENGTH, DIM, dtype="bfloat16"))[0],
        {**FAIRSEQ, "precision": "bfloat16", "recipe": "exp"},
        2.0**-6,
        verdict="wrong",
        right=FAIRSEQ,
        error=2.0,
        note="angles in the dtype of the embeddings",
    ),
    "VideoMAE get_sinusoid_encoding_table": table(
        model("videomae", what="get_sinusoid_encoding_table"),
        "get_sinusoid_encoding_table",
        lambda f: f(LENGTH, DIM)[0],
        PAPER,
        DOUBLE,
        note="a batch of one",
    ),
    "SpeechT5 scaled encoding": table(
        model(
            "speecht5",
            f"add = SpeechT5ScaledPositionalEncoding(0.0, {DIM}).eval()",
            what="SpeechT5ScaledPositionalEncoding",
        ),
        "add",
        lambda f: f(zeros(1, LENGTH, DIM))[0].detach(),
        {**PAPER, "scale": "alpha"},
        verdict="paper",
        note="adds to embeddings; alpha is a parameter",
    ),
    "TimesFM module": table(
        model(
            "timesfm",
            "from transformers import TimesFmConfig",
            f"embed = TimesFmPositionalEmbedding(TimesFmConfig(hidden_size={DIM}))",
            what="TimesFmPositionalEmbedding",
        ),
        "embed",
        lambda f: f(LENGTH)[0],
        FAIRSEQ,
        note="length or positions, by keyword",
    ),
    "Qwen2.5-Omni audio module": table(
        model(
            "qwen2_5_omni",
            f"embed = SinusoidsPositionEmbedding({LENGTH}, {DIM})",
            what="SinusoidsPositionEmbedding",
        ),
        "embed",
        lambda f: f(LENGTH),
        FAIRSEQ,
    ),
    "Qwen2.5-Omni time steps": table(
        model(
            "qwen2_5_omni",
            f"embed = SinusPositionEmbedding({DIM})",
            what="SinusPositionEmbedding",
        ),
        "embed",
        lambda f: f(tensor(np.arange(LENGTH) / 1000, "float32")),
        FAIRSEQ,
        note="positions in the first argument, times scale=1000",
    ),
    "XLNet positional_embedding": table(
        model(
            "xlnet",
            "positional_embedding = XLNetModel.positional_embedding",
            what="XLNetModel",
        ),
        "positional_embedding",
        lambda f: f(
            tensor(np.arange(LENGTH), "float32"),
            tensor(10_000.0 ** (-np.arange(0, DIM, 2) / DIM), "float32"),
        )[:, 0],
        HALVES,
        note="takes inverse frequencies; returns (positions, batch, d)",
    ),
    "ZoeDepth positional_encoding_1d": table(
        model(
            "zoedepth",
            "from functools import partial",
            "encode = partial(ZoeDepthPatchTransformerEncoder.positional_encoding_1d, None)",
            what="ZoeDepthPatchTransformerEncoder",
        ),
        "encode",
        lambda f: f(1, LENGTH, DIM)[0],
        HALVES,
        adapter=True,
        note="batch size first",
    ),
    "ZoeDepth positional_encoding_1d, half precision": table(
        model(
            "zoedepth",
            "from functools import partial",
            "encode = partial(ZoeDepthPatchTransformerEncoder.positional_encoding_1d, None)",
            what="ZoeDepthPatchTransformerEncoder",
        ),
        "encode",
        lambda f: f(1, LENGTH, DIM, dtype=dtype("bfloat16"))[0],
        {**HALVES, "precision": "bfloat16", "recipe": "exp"},
        2.0**-6,
        verdict="wrong",
        right=HALVES,
        error=2.0,
        adapter=True,
        note="angles in the dtype of the result",
    ),
    "SAM 2 get_1d_sine_pe": table(
        model("sam2_video", what="get_1d_sine_pe"),
        "get_1d_sine_pe",
        lambda f: f(tensor(np.arange(LENGTH)), DIM),
        {**HALVES, "repeat": 2},
        verdict="wrong",
        right=HALVES,
        error=2.0,
        note="each frequency twice, every second one missing",
    ),
    "Conditional DETR encode_sinusoidal_position_embedding": table(
        model("conditional_detr", what="encode_sinusoidal_position_embedding"),
        "encode_sinusoidal_position_embedding",
        lambda f: f(tensor(np.arange(LENGTH)[:, None] / LENGTH, "float32"), DIM),
        {**PAPER, "stretch": 2 * np.pi / LENGTH},
        note="coordinates from 0 to 1, times 2 pi; the last axis counts them: y before x if two",
    ),
    "diffusers get_timestep_embedding": table(
        "from diffusers.models.embeddings import get_timestep_embedding",
        "get_timestep_embedding",
        lambda f: f(tensor(np.arange(LENGTH)), DIM),
        FAIRSEQ,
        library=DIFFUSERS,
        note="flip_sin_to_cos and downscale_freq_shift are options",
    ),
    "diffusers Timesteps of Stable Diffusion": table(
        "from diffusers.models.embeddings import Timesteps\n"
        f"embed = Timesteps({DIM}, flip_sin_to_cos=True, downscale_freq_shift=0)",
        "embed",
        lambda f: f(tensor(np.arange(LENGTH))),
        {**HALVES, "first": "cos"},
        library=DIFFUSERS,
    ),
    "diffusers get_1d_sincos_pos_embed_from_grid": table(
        "from diffusers.models.embeddings import get_1d_sincos_pos_embed_from_grid",
        "get_1d_sincos_pos_embed_from_grid",
        lambda f: f(DIM, tensor(np.arange(LENGTH))),
        HALVES,
        DOUBLE,
        library=DIFFUSERS,
        note="dim first; float64",
    ),
    "diffusers SinusoidalPositionalEmbedding": table(
        "from diffusers.models.embeddings import SinusoidalPositionalEmbedding\n"
        f"add = SinusoidalPositionalEmbedding({DIM}, {LENGTH})",
        "add",
        lambda f: f(zeros(1, LENGTH, DIM))[0],
        PAPER,
        library=DIFFUSERS,
        note="adds to embeddings",
    ),
    "x-transformers ScaledSinusoidalEmbedding": table(
        f"from x_transformers.x_transformers import ScaledSinusoidalEmbedding\n"
        f"embed = ScaledSinusoidalEmbedding({DIM})",
        "embed",
        lambda f: f(zeros(1, LENGTH, DIM)).detach(),
        {**HALVES, "scale": "scale"},
        library=X_TRANSFORMERS,
        note="takes embeddings, of which the length counts; the scale is a parameter",
    ),
    "x-transformers ScaledSinusoidalEmbedding, half precision": table(
        "from x_transformers.x_transformers import ScaledSinusoidalEmbedding\n"
        f"embed = ScaledSinusoidalEmbedding({DIM}).bfloat16()",
        "embed",
        lambda f: f(zeros(1, LENGTH, DIM)),
        {**HALVES, "scale": "scale", "precision": "bfloat16", "recipe": "cast"},
        2.0**-6,
        library=X_TRANSFORMERS,
        verdict="wrong",
        right={**HALVES, "scale": "scale"},
        error=0.2517,
        note="a module in half precision has frequencies and angles in half precision",
    ),
    "KerasHub SinePositionEncoding": table(
        JAX + "from keras_hub.layers import SinePositionEncoding\nembed = SinePositionEncoding()",
        "embed",
        lambda f: f(np.zeros((1, LENGTH, DIM), np.float32))[0],
        PAPER,
        library=KERAS,
        note="takes embeddings, of which the shape counts; the dtype is the layer's",
    ),
    "KerasHub SinePositionEncoding, half precision": table(
        JAX + "from keras_hub.layers import SinePositionEncoding\n"
        "embed = SinePositionEncoding(dtype='bfloat16')",
        "embed",
        lambda f: f(np.zeros((1, LENGTH, DIM), np.float32))[0],
        {**PAPER, "precision": "bfloat16", "recipe": "power of the lowest"},
        2.0**-6,
        library=KERAS,
        verdict="wrong",
        right=PAPER,
        error=2.0,
        note="angles in the dtype of the layer",
    ),
    "MLX SinusoidalPositionalEncoding": table(
        f"import mlx.nn as nn\nembed = nn.SinusoidalPositionalEncoding({DIM})",
        "embed",
        lambda f: f(mlx(np.arange(LENGTH))),
        {**FAIRSEQ, "scale": (2 / DIM) ** 0.5},
        library=MLX,
        note="takes positions; frequencies by min_freq and max_freq",
    ),
}

HEIGHT, WIDTH = 5, 7  #: Of grids: neither a square nor a power of two.
GRID = {"height": HEIGHT, "width": WIDTH, "dim": DIM}
ROWS_FIRST = {**HALVES, "axes": "height, width", "tokens": "row by row"}


def grid(
    source: str,
    function: str,
    call: Callable[[Any], Any],
    convention: Mapping[str, Any],
    within: float = 2.0**-20,
    library: str = TRANSFORMERS,
    **more: Any,
) -> Released:
    """Return a 2-D table."""
    return Released(
        library, source, function, "table", "sinusoidal_2d", more.pop("verdict", "variant"), "grid",
        convention, call, more.pop("sizes", GRID), within, **more,
    )  # fmt: skip


BUILD_2D = "build_2d_sinusoidal_position_embedding"
DETR = {**PAPER, "axes": "height, width", "tokens": "row by row", "start": 1}


def channels_last(found: Any) -> Any:
    """Return (height * width, channels) of (1, channels, height, width)."""
    return found[0].permute(1, 2, 0).flatten(0, 1)


GRIDS = {
    "AIMv2 build_2d_sinusoidal_position_embedding": grid(
        model("aimv2", what=BUILD_2D),
        BUILD_2D,
        lambda f: f(HEIGHT, WIDTH, DIM),
        ROWS_FIRST,
        DOUBLE,
    ),
    "RT-DETR build_2d_sinusoidal_position_embedding": grid(
        model("rt_detr", what=BUILD_2D),
        BUILD_2D,
        lambda f: f(HEIGHT, WIDTH, DIM),
        ROWS_FIRST,
        DOUBLE,
    ),
    "ViT-MAE build_2d_sinusoidal_position_embedding": grid(
        model("vit_mae", what=BUILD_2D),
        BUILD_2D,
        lambda f: f(HEIGHT, WIDTH, DIM),
        ROWS_FIRST,
        DOUBLE,
        note="the model exchanges the two halves of what this returns",
    ),
    "ViT-MAE position_embeddings": grid(
        model(
            "vit_mae",
            "from transformers import ViTMAEConfig",
            "",
            "def table():",
            f"    config = ViTMAEConfig(hidden_size={DIM}, image_size=96, patch_size=16)",
            "    embeddings = ViTMAEEmbeddings(config)",
            "    embeddings.initialize_weights()",
            "    return embeddings.position_embeddings",
            what="ViTMAEEmbeddings",
        ),
        "table",
        lambda f: f()[0, 1:],
        {**ROWS_FIRST, "axes": "width, height"},
        DOUBLE,
        sizes={"height": 6, "width": 6, "dim": DIM},
        adapter=True,
        note="no arguments; a zero row of the class token first; square only",
    ),
    "OmDet-Turbo build_2d_sincos_position_embedding": grid(
        model(
            "omdet_turbo",
            "build = OmDetTurboHybridEncoder.build_2d_sincos_position_embedding",
            what="OmDetTurboHybridEncoder",
        ),
        "build",
        lambda f: f(WIDTH, HEIGHT, DIM)[0],
        {**HALVES, "axes": "width, height", "tokens": "column by column"},
        note="width before height; a batch of one",
    ),
    "DETR sine position embedding": grid(
        model(
            "detr",
            f"embed = DetrSinePositionEmbedding({DIM // 2})",
            what="DetrSinePositionEmbedding",
        ),
        "embed",
        lambda f: channels_last(f((1, 3, HEIGHT, WIDTH), "cpu", dtype("float32"))),
        DETR,
        note="takes (batch, channels, height, width) as a tuple; channels come second",
    ),
    "DETR sine position embedding, normalized": grid(
        model(
            "detr",
            f"embed = DetrSinePositionEmbedding({DIM // 2}, normalize=True)",
            what="DetrSinePositionEmbedding",
        ),
        "embed",
        lambda f: channels_last(f((1, 3, HEIGHT, WIDTH), "cpu", dtype("float32"))),
        {**DETR, "up_to": 2 * np.pi},
        2.0**-18,  # 1e-6 is added to what positions are divided by
        note="positions end at 2 pi",
    ),
    "DETR sine position embedding, half precision": grid(
        model(
            "detr",
            f"embed = DetrSinePositionEmbedding({DIM // 2})",
            what="DetrSinePositionEmbedding",
        ),
        "embed",
        lambda f: channels_last(f((1, 3, 25, 42), "cpu", dtype("bfloat16"))),
        {**DETR, "precision": "bfloat16", "recipe": "power"},
        2.0**-6,
        sizes={**GRID, "height": 25, "width": 42},
        verdict="wrong",
        right=DETR,
        error=0.05702,
        note="angles in the dtype of the result",
    ),
    "SAM positional embedding": Released(
        TRANSFORMERS,
        model(
            "sam",
            "from transformers.models.sam.configuration_sam import SamVisionConfig",
            f"embed = SamPositionalEmbedding(SamVisionConfig(num_pos_feats={DIM // 2}))",
            what="SamPositionalEmbedding",
        ),
        "embed",
        "table",
        "fourier",
        "variant",
        "fourier",
        {},
        lambda f: f(
            tensor(
                np.stack(
                    np.meshgrid(np.arange(WIDTH) / WIDTH, np.arange(HEIGHT) / HEIGHT), -1
                ).reshape(-1, 2),
                "float32",
            )
        ),
        GRID,
        2.0**-16,
        note="frequencies are a random matrix: no encoding that has a formula",
    ),
    "SAM 2 sine position embedding": grid(
        model(
            "sam2",
            f"embed = Sam2SinePositionEmbedding({DIM // 2}, normalize=True)",
            what="Sam2SinePositionEmbedding",
        ),
        "embed",
        lambda f: channels_last(f((1, 3, HEIGHT, WIDTH), "cpu", dtype("float32"))),
        {**DETR, "up_to": 2 * np.pi},
        2.0**-18,
        note="positions end at 2 pi",
    ),
    "Conditional DETR encode_sinusoidal_position_embedding, 2-D": grid(
        model("conditional_detr", what="encode_sinusoidal_position_embedding"),
        "encode_sinusoidal_position_embedding",
        lambda f: f(
            tensor(
                np.stack(
                    np.meshgrid(np.arange(WIDTH) / WIDTH, np.arange(HEIGHT) / HEIGHT), -1
                ).reshape(-1, 2),
                "float32",
            ),
            DIM // 2,
        ),
        {**DETR, "start": 0, "stretch": (2 * np.pi / HEIGHT, 2 * np.pi / WIDTH)},
        note="coordinates (x, y) from 0 to 1; dim is that of one coordinate",
    ),
    "diffusers get_2d_sincos_pos_embed": grid(
        "from diffusers.models.embeddings import get_2d_sincos_pos_embed",
        "get_2d_sincos_pos_embed",
        lambda f: f(DIM, (HEIGHT, WIDTH)),
        {**ROWS_FIRST, "axes": "width, height", "stretch": (16 / HEIGHT, 16 / WIDTH)},
        library=DIFFUSERS,
        note="dim first; positions end near base_size=16, whatever the size",
    ),
    "timm build_sincos2d_pos_embed": grid(
        "from timm.layers import build_sincos2d_pos_embed",
        "build_sincos2d_pos_embed",
        lambda f: f([HEIGHT, WIDTH], DIM),
        # Tokens are (axis, sin or cos, frequency) after the stack: first both axes' sin.
        {**ROWS_FIRST, "stack": "sin of both axes, cos of both axes"},
        library=TIMM,
    ),
    "timm build_sincos2d_pos_embed, interleaved": grid(
        "from timm.layers import build_sincos2d_pos_embed\n"
        "def build(feat_shape, dim):\n"
        "    return build_sincos2d_pos_embed(feat_shape, dim, interleave_sin_cos=True)",
        "build",
        lambda f: f([HEIGHT, WIDTH], DIM),
        ROWS_FIRST,
        library=TIMM,
        adapter=True,
        note="interleaved by name only",
    ),
    "positional-encodings PositionalEncoding2D": grid(
        "from positional_encodings.torch_encodings import PositionalEncoding2D\n"
        f"encode = PositionalEncoding2D({DIM})",
        "encode",
        lambda f: f(zeros(1, HEIGHT, WIDTH, DIM)).reshape(HEIGHT * WIDTH, DIM),
        {**DETR, "start": 0},
        library=POSITIONAL,
        note="takes (batch, x, y, channels), of which shape and dtype count",
    ),
}


def pair_of_calls(encode: Any) -> Any:
    """Return the second of two tables of one length, asked for in half and in single precision."""
    encode(zeros(1, LENGTH, DIM, dtype="bfloat16"))
    return encode(zeros(1, LENGTH, DIM))[0]


ONE_D = (
    "from positional_encodings.torch_encodings import PositionalEncoding1D\n"
    f"encode = PositionalEncoding1D({DIM})"
)
SINUSOIDAL |= {
    "positional-encodings PositionalEncoding1D": table(
        ONE_D,
        "encode",
        lambda f: f(zeros(1, LENGTH, DIM))[0],
        PAPER,
        library=POSITIONAL,
        note="takes embeddings, of which shape and dtype count",
    ),
    "positional-encodings PositionalEncoding1D, second call": table(
        ONE_D,
        "encode",
        pair_of_calls,
        {**PAPER, "rounded": "bfloat16"},
        2.0**-8,
        library=POSITIONAL,
        verdict="wrong",
        right=PAPER,
        error=0.001986,
        note="a table is kept for the next call of the same shape, in whatever dtype",
    ),
    "Parakeet relative encoding": table(
        model(
            "parakeet",
            "from transformers import ParakeetEncoderConfig",
            f"encode = ParakeetEncoderRelPositionalEncoding(ParakeetEncoderConfig("
            f"hidden_size={DIM}))",
            what="ParakeetEncoderRelPositionalEncoding",
        ),
        "encode",
        lambda f: f(zeros(1, 1000, DIM))[0],
        {**PAPER, "start": 999, "step": -1},
        sizes={"length": 1999, "dim": DIM},
        verdict="variant",
        note="relative positions from length - 1 down to 1 - length",
    ),
    "FastSpeech 2 Conformer relative encoding": table(
        model(
            "fastspeech2_conformer",
            "from transformers import FastSpeech2ConformerConfig",
            f"config = FastSpeech2ConformerConfig(hidden_size={DIM})",
            "settings = {'positional_dropout_rate': 0.0}",
            "encode = FastSpeech2ConformerRelPositionalEncoding(config, settings)",
            what="FastSpeech2ConformerRelPositionalEncoding",
        ),
        "encode",
        lambda f: f(zeros(1, 1000, DIM))[1][0],
        {**PAPER, "start": 999, "step": -1},
        sizes={"length": 1999, "dim": DIM},
        verdict="variant",
        note="returns the scaled embeddings and the table",
    ),
}

LEARNED_ROWS = 40


def learned_table(
    source: str,
    function: str,
    call: Callable[[Any], Any],
    convention: Mapping[str, Any],
    library: str = TRANSFORMERS,
    **more: Any,
) -> Released:
    """Return a learned table."""
    verdict: Verdict = "paper" if convention == {"start": 0} else "variant"
    return Released(
        library, source, function, "table", "learned", verdict, "learned_table",
        convention, call, {"length": LEARNED_ROWS}, 2.0**-23, **more,
    )  # fmt: skip


LEARNED = {
    "BART learned": learned_table(
        model(
            "bart",
            f"embed = BartLearnedPositionalEmbedding(64, {DIM})",
            what="BartLearnedPositionalEmbedding",
        ),
        "embed",
        lambda f: f(zeros(1, LEARNED_ROWS, dtype="int64"))[0],
        {"start": 2},
        note="takes token ids, of which the shape counts",
    ),
    "OPT learned": learned_table(
        model(
            "opt",
            f"embed = OPTLearnedPositionalEmbedding(64, {DIM})",
            what="OPTLearnedPositionalEmbedding",
        ),
        "embed",
        lambda f: f(ones(1, LEARNED_ROWS))[0],
        {"start": 2},
        note="takes an attention mask: positions count its ones",
    ),
    "TrOCR learned": learned_table(
        model(
            "trocr",
            f"embed = TrOCRLearnedPositionalEmbedding(64, {DIM})",
            what="TrOCRLearnedPositionalEmbedding",
        ),
        "embed",
        lambda f: f(zeros(1, LEARNED_ROWS, dtype="int64"))[0],
        {"start": 2},
        note="takes token ids, of which the shape counts",
    ),
    "Blenderbot learned": learned_table(
        model(
            "blenderbot",
            f"embed = BlenderbotLearnedPositionalEmbedding(64, {DIM})",
            what="BlenderbotLearnedPositionalEmbedding",
        ),
        "embed",
        lambda f: f((1, LEARNED_ROWS)),
        {"start": 0},
        note="takes a shape",
    ),
    "x-transformers AbsolutePositionalEmbedding": learned_table(
        "from x_transformers.x_transformers import AbsolutePositionalEmbedding\n"
        f"embed = AbsolutePositionalEmbedding({DIM}, 64)",
        "embed",
        lambda f: f(zeros(1, LEARNED_ROWS, DIM)),
        {"start": 0, "scale": DIM**-0.5},
        library=X_TRANSFORMERS,
        note="takes embeddings, of which the length counts",
    ),
}
