"""Files that were sound, and were changed at random."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from helpers import soon
from models.gguf.writer import ARRAY, STRING, array, float32, gguf, llama, model, text

from ropecli.errors import FileError, RopecliError
from ropecli.models.gguf import read_gguf
from ropecli.models.gguf.settings import FREQS, LONG, SHORT, gguf_settings
from ropecli.models.stacks.llama_cpp import LLAMA_CPP

#: Numbers that sit at the edges of types and counts.
EDGES = [0, 1, 2, 3, 8, 9, 13, 255, 2**16, 2**31, 2**32 - 1, 2**40, 2**62, 2**63, 2**64 - 1]
FLOATS = [0.0, -1.0, 1.0, 1e-38, 1e-5, 1e38, np.nan, np.inf]


def sound_files() -> list[bytes]:
    """Files of several architectures."""
    yarn = {
        "context_length": 4096,
        "attention.key_length": 8,
        "rope.dimension_count": 4,
        "rope.freq_base": 150_000.0,
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 32.0,
        "rope.scaling.original_context_length": 128,
        "rope.scaling.yarn_log_multiplier": 0.1,
        "block_count": 4,
        "attention.sliding_window": 128,
        "rope.freq_base_swa": 10_000.0,
    }
    vision = {"attention.key_length": 16, "rope.dimension_sections": [4, 2, 2, 0]}
    nested = array(ARRAY, 2, array(STRING, 2, text("a") + text("b")).data * 2)
    words = array(STRING, 1_030, text("token") * 1_030)
    twos, ones = float32([2.0] * 32), float32([1.0] * 32)
    return [
        gguf(llama(), {FREQS: twos}),
        gguf(llama(), {LONG: twos, SHORT: ones}, version=2),
        gguf(model("gpt-oss", yarn)),
        gguf(model("deepseek2", yarn)),
        gguf(model("qwen3vl", vision)),
        gguf({"nested": nested, "words": words} | model("gemma3", yarn)),
    ]


def mutate(random: np.random.Generator, files: list[bytes]) -> bytes:
    """One of the files, changed in one or two places."""
    data = bytearray(files[random.integers(len(files))])
    for _ in range(random.integers(1, 3)):
        place = int(random.integers(4, min(len(data), 700)))
        kind = random.integers(8)
        if kind < 3:
            data[place] = (data[place] + int(random.choice([-1, 1, 128]))) % 256
        elif kind == 3:
            data[place : place + 8] = struct.pack("<Q", EDGES[random.integers(len(EDGES))])
        elif kind == 4:
            data[place : place + 4] = struct.pack("<f", random.choice(FLOATS))
        elif kind == 5:
            del data[place : place + int(random.integers(1, 9))]
        elif kind == 6:
            data[place:place] = random.bytes(int(random.integers(1, 9)))
        else:
            other = int(random.integers(4, min(len(data), 700)))
            data[place : place + 8] = data[other : other + 8]
    return bytes(data[: random.integers(1, len(data))] if random.integers(10) == 0 else data)


def assert_refused_or_read(path: Path) -> bool:
    """Assert that a file is soon refused in one line, or understood; say which."""
    __tracebackhide__ = True
    message, read = "", True
    with soon(path):
        try:
            for layer in gguf_settings(read_gguf(path)):
                if layer.rope_type is not None:
                    LLAMA_CPP.rotary(layer, None)
        except RopecliError as error:
            message, read = str(error), not isinstance(error, FileError)
    assert "\n" not in message, f"refused in several lines: {message}"
    assert read or message.startswith(f"{path}: "), f"refused without its name: {message}"
    return read
