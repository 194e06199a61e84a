"""Released code, with the RoPE that each piece should be.

The functions are those of `examples/case_studies`, where anyone can run them.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from helpers import ROOT
from judging import check_here
from numpy.typing import NDArray

import ropecli
from ropecli.checks.implementation.check import Verdict
from ropecli.files.function import load_function

FOLDER = ROOT / "examples" / "case_studies"


@dataclass(frozen=True)
class Case:
    """A function of released code."""

    target: str  #: file.py:function.
    expect: Callable[[], ropecli.Rotary]
    framework: str = "torch"
    context: int = 131_072
    rows: int = 2048  #: Positions to identify it by.
    precision: str = "float32 angles"  #: Precision of its tables.
    options: Mapping[str, Any] = field(default_factory=dict)  #: Options of `check`.

    @property
    def function(self) -> Callable[..., Any]:
        """The function, loaded as the command does it."""
        return load(self.target)

    def check(self, expect: ropecli.Rotary | None = None, **options: Any) -> Verdict:
        """Return the verdict of `check`."""
        known: dict[str, Any] = {"framework": self.framework, "context_length": self.context}
        known |= {**self.options, **options}
        return check_here(self.function, expect=expect, **known)


@cache
def load(target: str) -> Callable[..., Any]:
    """Load a function of the folder, ignoring warnings of the libraries it imports."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_function(str(FOLDER / target))


def of_model(name: str, layer: int = 0) -> Callable[[], ropecli.Rotary]:
    """Return a reader of the rotation of a model's config.json."""

    def read() -> ropecli.Rotary:
        config = json.loads((FOLDER / "models" / f"{name}.json").read_text())
        rotary = ropecli.load_model(config).layers[layer].rotary
        assert rotary is not None
        return rotary

    return read


def plain(**parameters: Any) -> Callable[[], ropecli.Rotary]:
    """Return a function that makes a rotation without a model."""
    return lambda: ropecli.Rotary(head_dim=64, **parameters)


def llama3() -> ropecli.Rotary:
    """Llama 3.1's frequencies as Meta's own weights take them: interleaved, head dim 128."""
    return ropecli.rope(
        "llama3",
        head_dim=128,
        rope_theta=500_000,
        factor=8,
        low_freq_factor=1,
        high_freq_factor=4,
        original_max_position_embeddings=8192,
    )


def failures(verdict: Verdict) -> set[str]:
    """Return the names of laws that fail."""
    return {each.name for each in verdict.checks if each.passed is False}


def vectors(rotary: ropecli.Rotary, rows: int) -> NDArray[np.float32]:
    """Return random vectors, one batch of two heads."""
    random = np.random.default_rng(0)
    return random.standard_normal((1, 2, rows, rotary.head_dim)).astype(np.float32)


def rotate(case: Case, x: NDArray[Any], positions: NDArray[np.int64]) -> NDArray[Any]:
    """Rotate vectors by the released code."""
    if case.framework == "numpy":
        return np.asarray(case.function(x, positions))
    import torch

    return np.asarray(case.function(torch.from_numpy(x), torch.from_numpy(positions)).detach())


#: Arguments for tables computed in float64.
ONNX: dict[str, Any] = {"framework": "numpy", "context": 16_384, "precision": "exact"}
RIGHT = {
    "Transformers Llama 3.1": Case("hugging_face.py:llama", of_model("llama-3.1-8b")),
    "Transformers GPT-J": Case("hugging_face.py:gptj", of_model("gpt-j-6b"), context=2048),
    "Transformers GLM-4": Case("hugging_face.py:glm4", of_model("glm-4-9b"), context=32_768),
    "Transformers Cohere": Case("hugging_face.py:cohere", of_model("command-r"), context=8192),
    "Transformers DeepSeek-V3": Case("hugging_face.py:deepseek_v3", of_model("deepseek-v3")),
    "Transformers gpt-oss": Case("hugging_face.py:gpt_oss", of_model("gpt-oss-20b")),
    "Transformers Gemma 3, sliding": Case(
        "hugging_face.py:gemma3_sliding", of_model("gemma-3-4b", layer=0)
    ),
    "Transformers Gemma 3, full": Case(
        "hugging_face.py:gemma3_full", of_model("gemma-3-4b", layer=1)
    ),
    "ONNX Runtime, half": Case("onnx_runtime.py:half", plain(layout="half"), **ONNX),
    "ONNX Runtime, interleaved": Case("onnx_runtime.py:interleaved", plain(), **ONNX),
    "rotary-embedding-torch": Case("rotary_embedding.py:by_positions", plain()),
    "x-transformers": Case("x_transformers_rotary.py:rope", plain()),
    "torchtune Llama 2": Case("torchtune_modules.py:llama2", plain()),
    "torchtune Llama 3.1": Case("torchtune_modules.py:llama3", llama3),
    "torchtune Phi-3": Case("torchtune_modules.py:phi3", plain(layout="half")),
    "torchtune Qwen2": Case("torchtune_modules.py:qwen2", plain(layout="half", base=1e6)),
    "litgpt Llama 3.1": Case("litgpt_model.py:llama", of_model("llama-3.1-8b")),
}
DECODER = {"form": "decoder"}
EQUINOX = Case("equinox_module.py:Decoder", plain(layout="half"), "jax", rows=256, options=DECODER)
ONE_THETA = Case(
    "equinox_module.py:OneTheta", plain(layout="half"), "jax", rows=256, options=DECODER
)
LITGPT_YARN = Case("litgpt_model.py:deepseek_v3", of_model("deepseek-v3"), context=163_840)
OFFSETS = Case("rotary_embedding.py:by_offset", plain())
XPOS = Case("x_transformers_rotary.py:xpos", plain())
