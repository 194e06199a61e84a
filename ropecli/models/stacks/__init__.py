"""The rotation that each stack computes from the same file, one stack per file.

A reading contains only what the stack does differently from Transformers: in what it reads from a
file (`Stack.read`) and in what it computes from that (`Stack.rotary`). Everything else is `build`,
which all of them share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ropecli.errors import ArgumentError
from ropecli.models.stacks.diffusers import DIFFUSERS
from ropecli.models.stacks.llama_cpp import LLAMA_CPP
from ropecli.models.stacks.mlx_lm import MLX_LM
from ropecli.models.stacks.paper import PAPER
from ropecli.models.stacks.transformers import TRANSFORMERS
from ropecli.models.stacks.vllm import VLLM
from ropecli.names import one_of

if TYPE_CHECKING:
    from ropecli.models.settings import Description
    from ropecli.models.stacks.stack import Stack

STACKS: Mapping[str, Stack] = {
    stack.name: stack for stack in (TRANSFORMERS, VLLM, LLAMA_CPP, MLX_LM, PAPER)
}
#: The stack that a file format is made for.
NATIVE = {"config.json": "transformers", "gguf": "llama.cpp"}


def find_stack(described: Description, name: str | None = None) -> Stack:
    """Return the stack of a name; by default the one that the file is made for."""
    if described.format == DIFFUSERS.name:
        if name not in (None, DIFFUSERS.name):
            raise ArgumentError(f"a configuration of diffusers is read as diffusers, got {name}")
        return DIFFUSERS
    return STACKS[NATIVE[described.format] if name is None else one_of("reading", name, STACKS)]
