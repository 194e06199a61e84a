"""GGUF files: a bounded reader of their headers, and what llama.cpp rotates by what they say."""

from ropecli.models.gguf.describe import describe_gguf
from ropecli.models.gguf.file import GgufFile, read_gguf
from ropecli.models.gguf.settings import gguf_settings
from ropecli.models.gguf.tensors import TensorInfo
from ropecli.models.gguf.values import Skipped, Value

__all__ = [
    "GgufFile",
    "Skipped",
    "TensorInfo",
    "Value",
    "describe_gguf",
    "gguf_settings",
    "read_gguf",
]
