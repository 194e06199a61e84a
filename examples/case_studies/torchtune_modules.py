"""torchtune's rotary modules, as function(x, positions).

`import torchtune` needs torchao and more; the modules' own files need nothing but PyTorch.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch


def llama2(x: Any, positions: Any) -> Any:
    """RotaryPositionalEmbeddings: interleaved."""
    path = "modules/position_embeddings.py"
    return rotate(x, positions, path, "RotaryPositionalEmbeddings", base=10_000)


def llama3(x: Any, positions: Any) -> Any:
    """Llama3ScaledRoPE: interleaved, as Meta's weights are, with the scaling of Llama 3.1."""
    path = "models/llama3_1/_position_embeddings.py"
    return rotate(x, positions, path, "Llama3ScaledRoPE", base=500_000)


def phi3(x: Any, positions: Any) -> Any:
    """Phi3RotaryPositionalEmbeddings: halves."""
    path = "models/phi3/_position_embeddings.py"
    return rotate(x, positions, path, "Phi3RotaryPositionalEmbeddings", base=10_000)


def qwen2(x: Any, positions: Any) -> Any:
    """Qwen2RotaryPositionalEmbeddings: halves."""
    path = "models/qwen2/_positional_embeddings.py"
    return rotate(x, positions, path, "Qwen2RotaryPositionalEmbeddings", base=1_000_000)


def rotate(x: Any, positions: Any, path: str, name: str, base: int) -> Any:
    """Rotate x by a module, which takes (batch, sequence, heads, head dim)."""
    places = torch.atleast_2d(positions)
    queries = x.reshape(len(places), -1, *x.shape[-2:]).transpose(1, 2)
    module = made(path, name, x.shape[-1], base)
    return module(queries, input_pos=places).transpose(1, 2).reshape(x.shape)


@cache
def made(path: str, name: str, dim: int, base: int) -> Any:
    """Return a module with a table of 131,072 positions."""
    spec = find_spec("torchtune")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    file = Path(spec.submodule_search_locations[0]) / path
    own = spec_from_file_location(file.stem, file)
    assert own is not None
    assert own.loader is not None
    code = module_from_spec(own)
    own.loader.exec_module(code)
    return getattr(code, name)(dim=dim, max_seq_len=131_072, base=base)
