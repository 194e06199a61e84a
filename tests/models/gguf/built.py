"""From metadata to what is rotated by, and assertions on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from helpers import assert_within
from models.gguf.writer import Tensor, float32, write_and_read

from ropecli.models.gguf.settings import FREQS, gguf_settings
from ropecli.models.settings import Settings
from ropecli.models.stacks.llama_cpp import LLAMA_CPP
from ropecli.rotary import Rotary


def only(metadata: Mapping[str, object], tensors: Mapping[str, Tensor] | None = None) -> Settings:
    """The settings of a file whose blocks are all alike."""
    with TemporaryDirectory() as folder:
        (found,) = gguf_settings(write_and_read(Path(folder), metadata, tensors))
    return found


def rotary(layer: Settings) -> Rotary:
    """The rotation of a kind of block, as llama.cpp reads it."""
    assert layer.rope_type is not None, f"{layer.name} does not rotate"
    return LLAMA_CPP.rotary(layer, None)


def with_divisors(values: Sequence[float]) -> dict[str, Tensor]:
    """The tensor rope_freqs.weight."""
    return {FREQS: float32(values)}


def assert_turns(
    what: str, layer: Settings, inv_freq: Sequence[float], attention_factor: float
) -> None:
    """Assert frequencies and attention factor.

    The tolerance: the table that is judged against multiplies by base^(-2/n) a pair at a time,
    some 3 roundings of 2^-53 each, over up to 64 pairs, so 1e-13 is generous.
    """
    __tracebackhide__ = True
    got = rotary(layer)
    tolerance = [1e-12 * abs(f) + 1e-20 for f in inv_freq]
    assert_within(f"{what}: inv_freq", got=got.inv_freq, expected=inv_freq, tolerance=tolerance)
    assert_within(
        f"{what}: attention factor",
        got=got.attention_factor,
        expected=attention_factor,
        tolerance=1e-12,
    )
