"""Positional encodings of released libraries, with the convention that each was found to follow.

`source` is a user's file as it would be written, and `function` the name in it that is checked. The
numbers of `convention` are parameters of a formula in test_released_encodings.py, which knows
neither the library nor this package.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np

Shape = Literal["table", "bias", "buckets", "slopes", "scores"]
Verdict = Literal["paper", "variant", "wrong"]

LENGTH, DIM = 2000, 64  #: Size of most tables.
HF = "transformers.models"


@dataclass(frozen=True)
class Released:
    """One function, method or module as it is released."""

    library: str  #: Name and version of the distribution.
    source: str
    function: str
    shape: Shape
    encoding: str
    verdict: Verdict
    formula: str  #: Name of a function of the test module.
    convention: Mapping[str, Any]
    call: Callable[[Any], Any]  #: Calls the function with the sizes of `sizes`.
    sizes: Mapping[str, Any] = field(default_factory=dict)
    within: float = 0.0  #: Largest error of a right one, in units of the largest value.
    right: Mapping[str, Any] = field(default_factory=dict)  #: What a wrong one should have been.
    error: float = 0.0  #: Largest difference of a wrong one from that, to within 1 %.
    note: str = ""  #: What is odd in its signature, or wrong.
    adapter: bool = False  #: `source` has code that no user of the library would need.

    @property
    def signature(self) -> str:
        """The signature, of `forward` where a module of torch is called."""
        function = load(self.source, self.function)
        return str(inspect.signature(getattr(function, "forward", function)))

    @property
    def origin(self) -> str:
        """The module and qualified name of the released code, or the import of an adapter."""
        function = load(self.source, self.function)
        function = inspect.unwrap(getattr(function, "func", function))
        if not inspect.isroutine(function):
            function = type(function)
        if function.__module__ == "builtins":
            return next(line for line in self.source.splitlines() if line.startswith("from "))
        return f"{function.__module__}:{function.__qualname__}"

    @property
    def angles(self) -> str:
        """The dtype in which a table has computed its angles, as its error shows."""
        return "float64" if self.within <= DOUBLE else "float32"

    @property
    def line(self) -> str:
        """The convention in one line."""
        words = [f"{name} {value}" for name, value in self.convention.items()]
        return ", ".join([*words, self.note] if self.note else words)


@cache
def load(source: str, function: str) -> Any:
    """Return what a user's file calls `function`, ignoring warnings of the libraries."""
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(source, f"<{function}>", "exec"), names)
    return names[function]


def fresh(source: str, function: str) -> Any:
    """Return the same of a new run of the file, so that no earlier call has left a trace in it."""
    return load.__wrapped__(source, function)


def model(name: str, *lines: str, what: str) -> str:
    """Return a file that imports names of a model of Transformers, and goes on with `lines`."""
    start = f"from {HF}.{name}.modeling_{name} import {what}"
    return "\n".join([start, *lines])


def tensor(array: Any, dtype: str = "int64") -> Any:
    """Return a tensor of torch, whose dtype NumPy need not know."""
    import torch

    return torch.as_tensor(np.asarray(array)).to(getattr(torch, dtype))


def dtype(name: str) -> Any:
    """Return a dtype of torch."""
    import torch

    return getattr(torch, name)


def zeros(*shape: int, dtype: str = "float32") -> Any:
    """Return zeros, whose shape alone counts."""
    return tensor(np.zeros(shape), dtype)


def ones(*shape: int) -> Any:
    """Return a mask that leaves nothing out."""
    return tensor(np.ones(shape))


TRANSFORMERS = "transformers 5.24.0"
X_TRANSFORMERS = "x-transformers 2.31.10"
DIFFUSERS = "diffusers 0.42.1"
MLX = "mlx 0.32.4"
TORCHTUNE = "torchtune 0.6.1"
TIMM = "timm 1.0.31"
POSITIONAL = "positional-encodings 6.0.3"

#: What a table in float32 may be off by: its angles are right to one unit or two.
SINGLE = LENGTH * 2.0**-22
#: The same of angles in float64, rounded to float32 at the end.
DOUBLE = 2.0**-23

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


def mlx(array: Any) -> Any:
    """Return an array of MLX."""
    import mlx.core as mx

    return mx.array(np.asarray(array))


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


def learned(
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
        library, source, function, "table", "learned", verdict, "learned",
        convention, call, {"length": LEARNED_ROWS}, 2.0**-23, **more,
    )  # fmt: skip


LEARNED = {
    "BART learned": learned(
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
    "OPT learned": learned(
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
    "TrOCR learned": learned(
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
    "Blenderbot learned": learned(
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
    "x-transformers AbsolutePositionalEmbedding": learned(
        "from x_transformers.x_transformers import AbsolutePositionalEmbedding\n"
        f"embed = AbsolutePositionalEmbedding({DIM}, 64)",
        "embed",
        lambda f: f(zeros(1, LEARNED_ROWS, DIM)),
        {"start": 0, "scale": DIM**-0.5},
        library=X_TRANSFORMERS,
        note="takes embeddings, of which the length counts",
    ),
}

HEADS = 12  #: No power of two: its slopes are those of 8 and half of those of 16.
KEYS = 2000


def entry(
    shape: Shape,
    encoding: str,
    formula: str,
    source: str,
    function: str,
    call: Callable[[Any], Any],
    sizes: Mapping[str, Any],
    within: float = 0.0,
    library: str = TRANSFORMERS,
    verdict: Verdict = "paper",
    **more: Any,
) -> Released:
    """Return an entry with the arguments in another order."""
    convention = more.pop("convention", {})
    return Released(
        library, source, function, shape, encoding, verdict, formula,
        convention, call, sizes, within, **more,
    )  # fmt: skip


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


def normal(seed: int, *shape: int) -> Any:
    """Return random numbers in float32, those that the formula draws too."""
    return tensor(np.random.default_rng(seed).standard_normal(shape), "float32")


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
        lambda f: f(normal(1, 1, 3, 20, 8), masked(2, 1, 3, 20, 20))[0],
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


def masked(seed: int, *shape: int) -> Any:
    """Return the same with keys ahead of the query left out."""
    import torch

    ahead = torch.ones(shape[-2:], dtype=torch.bool).triu(1)
    return normal(seed, *shape).masked_fill(ahead, -torch.finfo(torch.float32).max)


RELEASED: dict[str, Released] = {
    **SINUSOIDAL,
    **GRIDS,
    **LEARNED,
    **ALIBI,
    **T5,
    **DEBERTA,
    **OTHER_BIASES,
    **SCORES,
}
