"""GGUF files: a bounded reader of their headers, and the rotation of llama.cpp."""

from ropecli.models.gguf.reader import GgufFile, Skipped, TensorInfo, Value, read_gguf
from ropecli.models.gguf.settings import describe_gguf, gguf_settings

__all__ = [
    "GgufFile",
    "Skipped",
    "TensorInfo",
    "Value",
    "describe_gguf",
    "gguf_settings",
    "read_gguf",
]
