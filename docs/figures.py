"""Draw the pictures that the pages show; most are wavelengths against those of plain RoPE."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ropecli import Rotary, base_bound, construct, decay, frequency_table, rope, rotation, scale
from ropecli.render.figure import figure_bytes, with_style
from ropecli.render.frequencies import wavelengths_figure

figure = with_style(wavelengths_figure)
Curves = Sequence[tuple[str, Rotary]]
Contexts = Sequence[tuple[str, int]]

PLAIN = ("default", Rotary(head_dim=128))
#: Name, head dim, base and trained length of models.
TRAINED = (
    ("Llama 2", 128, 10_000.0, 4096),
    ("Phi-3-mini", 96, 10_000.0, 2048),
    ("Llama 3", 128, 500_000.0, 8192),
)


def picture(name: str) -> bytes:
    """Draw `images/NAME.svg`."""
    page = name.removeprefix("rope-types/")
    if page in FIGURES and page != name:
        title, curves, contexts = FIGURES[page]()
        drawn = figure(curves, contexts, title=title)
    else:
        drawn = RESULTS[name]()
    return figure_bytes(drawn, suffix=".svg", command=f"docs/figures.py, {name}")


def looks_like(one: bytes, other: bytes) -> bool:
    """Return whether two pictures have the same texts, and their curves in the same places.

    Another Matplotlib may place the frame, and simplify a path, a little differently.
    """
    words, points = zip(*(_read_picture(picture.decode()) for picture in (one, other)), strict=True)
    return words[0] == words[1] and bool(np.abs(points[0] - points[1]).max() < 2)


def _read_picture(svg: str) -> tuple[list[str], NDArray[np.float64]]:
    """Return the texts of a picture, and quantiles of the coordinates of its paths, in points."""
    numbers = re.findall(r"-?\d+\.?\d*", " ".join(re.findall(r' d="([^"]+)"', svg)))
    spread = np.quantile(np.array(numbers, dtype=float), np.linspace(0, 1, 101))
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg), spread


def _figure1() -> Figure:
    vector = np.random.default_rng(7).standard_normal(64)
    return rotation(vector, Rotary(head_dim=64)).figure()


def _frequencies() -> Figure:
    spans = [
        frequency_table(Rotary(head_dim=dim, base=base), context_length=length, name=name)
        for name, dim, base, length in TRAINED
    ]
    return spans[0].figure(*spans[1:])


def _base_bound() -> Figure:
    bounds = [
        base_bound(Rotary(head_dim=dim, base=base), context_length=length, name=name)
        for name, dim, base, length in TRAINED[::2]
    ]
    return bounds[0].figure(*bounds[1:])


def _scale() -> Figure:
    name, dim, base, length = TRAINED[-1]
    rotary = Rotary(head_dim=dim, base=base)
    return scale(rotary, original_length=length, factor=16.0, name=name).figure()


#: Pictures of results.
RESULTS: dict[str, Callable[[], Figure]] = {
    "figure1": _figure1,
    "figure2": lambda: decay(PLAIN[1], max_distance=256, step=0.02).figure(figure2=True),
    "construct": lambda: construct(PLAIN[1]).figure(),
    "frequencies": _frequencies,
    "base_bound": _base_bound,
    "scale": _scale,
}


def _of(rope_type: str, head_dim: int = 128, **parameters: Any) -> Rotary:
    return rope(rope_type, head_dim=head_dim, **parameters)


def _longrope() -> tuple[str, Curves, Contexts]:
    own: dict[str, Any] = {
        "head_dim": 96,
        "short_factor": [1 + i / 48 for i in range(48)],
        "long_factor": [1 + i**1.05 for i in range(48)],
        "original_max_position_embeddings": 4096,
        "max_position_embeddings": 131_072,
    }
    curves = [
        ("default", Rotary(head_dim=96)),
        ("longrope up to 4,096 positions", _of("longrope", **own)),
        ("longrope beyond", _of("longrope", **own, sequence_length=4097)),
    ]
    title = "dim 96, base 10000, with lists made up for the figure"
    return title, curves, [("original", 4096), ("context", 131_072)]


def _dynamic() -> tuple[str, Curves, Contexts]:
    own: dict[str, Any] = {"factor": 4.0, "max_position_embeddings": 2048}
    curves = [
        (f"{length:,} positions in use", _of("dynamic", **own, sequence_length=length))
        for length in (2048, 4096, 8192)
    ]
    return "dim 128, base 10000, factor 4", curves, [("context", 2048), ("in use", 8192)]


SCALED: dict[str, Any] = {"factor": 10.0, "original_max_position_embeddings": 2048}
LONGER: dict[str, Any] = {"factor": 16.0, "original_max_position_embeddings": 4096}
V3: dict[str, Any] = {
    "factor": 40.0,
    "original_max_position_embeddings": 4096,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}
LLAMA3: dict[str, Any] = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}

#: Pictures of rope types: a page's name, and what its figure shows.
FIGURES: dict[str, Callable[[], tuple[str, Curves, Contexts]]] = {
    "default": lambda: (
        "dim 128",
        [("base 10,000", PLAIN[1]), ("base 500,000", _of("default", rope_theta=5e5))],
        [("context", 4096)],
    ),
    "linear": lambda: (
        "dim 128, base 10000",
        [PLAIN, ("linear, factor 8", _of("linear", factor=8.0))],
        [("original", 2048), ("context", 16_384)],
    ),
    "ntk": lambda: (
        "dim 128, base 10000",
        [
            PLAIN,
            ("ntk, factor 8", _of("ntk", factor=8.0)),
            ("linear, factor 8", _of("linear", factor=8.0)),
        ],
        [("original", 2048), ("context", 16_384)],
    ),
    "ntk_mixed": lambda: (
        "dim 128, base 10000",
        [
            PLAIN,
            ("ntk_mixed, factor 8, mixed_b 1", _of("ntk_mixed", factor=8.0)),
            ("ntk_mixed, factor 8, mixed_b 0.625", _of("ntk_mixed", factor=8.0, mixed_b=0.625)),
        ],
        [("original", 2048), ("context", 16_384)],
    ),
    "dynamic": _dynamic,
    "ntk_by_parts": lambda: (
        "dim 128, base 10000",
        [PLAIN, ("ntk_by_parts, factor 16", _of("ntk_by_parts", **LONGER))],
        [("original", 4096), ("context", 65_536)],
    ),
    "yarn": lambda: (
        "dim 128, base 10000",
        [
            PLAIN,
            ("yarn, factor 10, the code's ramp", _of("yarn", **SCALED)),
            ("yarn, factor 10, the paper's ramp", _of("yarn", **SCALED, ramp="paper")),
        ],
        [("original", 2048), ("context", 20_480)],
    ),
    "deepseek_yarn": lambda: (
        "DeepSeek-V3: rotary dim 64, base 10000",
        [
            ("default", Rotary(head_dim=64)),
            ("deepseek_yarn, factor 40", _of("deepseek_yarn", 64, **V3)),
        ],
        [("original", 4096), ("context", 163_840)],
    ),
    "telechat3_yarn": lambda: (
        "dim 128, base 10000",
        [PLAIN, ("telechat3_yarn, factor 16", _of("telechat3_yarn", **LONGER))],
        [("original", 4096), ("context", 65_536)],
    ),
    "longrope": _longrope,
    "llama3": lambda: (
        "Llama 3.1: dim 128, base 500000",
        [
            ("default", _of("default", rope_theta=5e5)),
            ("llama3, factor 8", _of("llama3", rope_theta=5e5, **LLAMA3)),
        ],
        [("original", 8192), ("context", 131_072)],
    ),
    "p_rope": lambda: (
        "dim 128, base 10000",
        [PLAIN, ("p_rope, p 0.75", _of("p_rope", p=0.75))],
        [("context", 8192)],
    ),
    "proportional": lambda: (
        "dim 512, base 1000000",
        [
            ("default", _of("default", 512, rope_theta=1e6)),
            (
                "proportional, partial_rotary_factor 0.25",
                _of("proportional", 512, rope_theta=1e6, partial_rotary_factor=0.25),
            ),
        ],
        [("context", 262_144)],
    ),
    "axial": lambda: (
        "dim 80, base 10000",
        [("default", Rotary(head_dim=80)), ("axial", _of("axial", 80))],
        [],
    ),
    "xpos": lambda: (
        "dim 128, base 10000: xPos turns as plain RoPE does",
        [PLAIN, ("xpos", _of("xpos"))],
        [],
    ),
    "mrope": lambda: (
        "dim 128",
        [
            (
                "Qwen2-VL, base 1,000,000",
                _of("default", rope_theta=1e6, mrope_section=[16, 24, 24]),
            ),
            (
                "Qwen3-VL, base 5,000,000",
                _of("default", rope_theta=5e6, mrope_section=[24, 20, 20], mrope_interleaved=True),
            ),
        ],
        [],
    ),
    "partial": lambda: (
        "head dim 512, base 1000000, a quarter turns",
        [
            ("all pairs of the head", _of("default", 512, rope_theta=1e6)),
            (
                "the first 128 coordinates, or the last",
                _of("default", 512, rope_theta=1e6, partial_rotary_factor=0.25),
            ),
            (
                "proportional",
                _of("proportional", 512, rope_theta=1e6, partial_rotary_factor=0.25),
            ),
        ],
        [],
    ),
}
