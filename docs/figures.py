"""Draw the figures of the pages on rope types: wavelengths against those of plain RoPE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ropecli import Rotary, base_bound, construct, coverage, rope, rotation, scale
from ropecli.analyses.base_bound import BaseBounds
from ropecli.analyses.coverage import Coverages
from ropecli.render.figure import figure_bytes
from ropecli.render.frequencies_figure import figure
from ropecli.results import Drawable

Curves = Sequence[tuple[str, Rotary]]
Contexts = Sequence[tuple[str, int]]

PLAIN = ("default", Rotary(head_dim=128))
#: Name, head dim, base and trained length of models.
TRAINED = (
    ("Llama 2", 128, 10_000.0, 4096),
    ("Phi-3-mini", 96, 10_000.0, 2048),
    ("Llama 3", 128, 500_000.0, 8192),
)


def write(folder: Path) -> None:
    """Write an SVG for each page; one that is the same is left as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in FIGURES.items():
        title, curves, contexts = make()
        command = f"docs/figures.py, {name}"
        picture = figure(curves, contexts, title=title)
        content = figure_bytes(picture, suffix=".svg", command=command)
        path = folder / f"{name}.svg"
        _save(path, content)


def write_results(folder: Path) -> None:
    """Write the pictures of results that pages show."""
    folder.mkdir(parents=True, exist_ok=True)
    vector = np.random.default_rng(7).standard_normal(64)
    results: dict[str, Drawable] = {
        "figure1": rotation(vector, Rotary(head_dim=64)),
        "construct": construct(Rotary(head_dim=128)),
        "coverage": Coverages(
            coverages=tuple(
                coverage(Rotary(head_dim=dim, base=base), context_length=length, name=name)
                for name, dim, base, length in TRAINED
            )
        ),
        "base_bound": BaseBounds(
            bounds=tuple(
                base_bound(Rotary(head_dim=dim, base=base), context_length=length, name=name)
                for name, dim, base, length in TRAINED[::2]
            )
        ),
    }
    _, dim, base, length = TRAINED[-1]
    results["scale"] = scale(
        Rotary(head_dim=dim, base=base), original_length=length, factor=16.0, name="Llama 3"
    )
    for name, result in results.items():
        command = f"docs/figures.py, {name}"
        content = figure_bytes(result.figure(), suffix=".svg", command=command)
        _save(folder / f"{name}.svg", content)


def _save(path: Path, content: bytes) -> None:
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


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

#: A page's name, and what its figure shows.
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
