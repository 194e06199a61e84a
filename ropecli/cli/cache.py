"""The cache command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ropecli.cli.command import Help, command, flag, option
from ropecli.cli.options import EncodingOptions, OutputOptions, Seed
from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.analyses.cache import CachedKeys
    from ropecli.cli.encoding import NamedRotary

DIM = 128


@command(
    needs={
        **dict.fromkeys(("times", "dtype"), "shift"),
        "prefill": "decode",
        "decode": "prefill",
        "decoded": "prefill",
        **dict.fromkeys(("per", "group", "when", "k"), "quantize"),
    },
    excludes={
        "shift": ("prefill", "decode", "quantize"),
        "prefill": ("quantize", "sequence_length", "seed", "hadamard"),
        "k": ("seed",),
    },
)
def cache(
    shift: int | None = option("N", "Positions by which all cached keys are shifted."),
    times: int | None = option("N", "Number of shifts. [default: 1000]"),
    dtype: str | None = option(
        "DTYPE",
        "Dtype of the shifted keys: float64, float32, float16, bfloat16, or llama.cpp's q8_0 or "
        "q4_0. [default: bfloat16]",
    ),
    prefill: int | None = option("N", "Sequence length with which keys were cached."),
    decode: int | None = option("N", "Sequence length of the query, which is its last token."),
    decoded: bool = flag(
        "--decoded", "Count keys decoded since the prefill, each of its own sequence length."
    ),
    quantize: str | None = option(
        "FORM",
        "Quantize keys: int8, int4, int3, int2, fp8 (e4m3), fp8_e5m2, or llama.cpp's q8_0 or q4_0.",
    ),
    per: str | None = option(
        "PART", "What shares a scale: channel, token or group. [default: channel]"
    ),
    group: int | None = option("N", "Channels of a token that share a scale. [default: 32]"),
    hadamard: bool | None = flag(
        "--hadamard/--no-hadamard",
        "Mix channels by a Hadamard matrix before they are quantized. "
        "[default: for q8_0 and q4_0 of heads of a multiple of 64]",
        default=None,
    ),
    when: str | None = option("WHEN", "Quantize before or after the rotation. [default: after]"),
    k: Path | None = option(
        "FILE", "Keys before rotation, (..., tokens, head dim). [default: white noise]"
    ),
    *,
    rope: Annotated[EncodingOptions, Help(dim="Head dim, even. [default: 128, or that of --k]")],
    seed: Seed = 0,
    output: OutputOptions,
) -> None:
    """\b
    Examples:
      ropecli cache --shift -1 --times 1000 --dtype bfloat16
        pair  wavelength  rms error of keys
           0       6.283              0.366
           8       19.87             0.0653
      ropecli cache --model example:llama-3.1-8b --shift -256 --times 16
      ropecli cache --model example:internlm2-20b --prefill 32768 --decode 65536
      ropecli cache --quantize int4 --per token --when before
      ropecli cache --shift -1024 --times 4 --dtype q8_0
      ropecli cache --quantize fp8 --k keys.npy -o cache.png

    Measure errors of shifted or quantized keys in a KV cache. With --shift, compare keys that are
    rotated again and again with keys rotated once. With --prefill and --decode, put keys of one
    sequence length under queries of another, for dynamic NTK and LongRoPE. With --quantize, round
    keys to few bits, before the rotation or after it.
    """
    from ropecli.files.load import read_layers

    if (shift, prefill, quantize) == (None, None, None):
        raise ArgumentError("give --shift N, --prefill N with --decode N, or --quantize FORM")
    keys = None if k is None else read_layers(k, head_dim=rope.dim)
    named = rope.encoding(dim=DIM if keys is None else keys.shape[-1], uses_context=False)
    # A note on the length that a table is for has no place where two lengths are given.
    output.note(*(named.notes if prefill is None else named.overrides))
    options = {"shift": shift, "times": times, "dtype": dtype}
    options |= {"prefill": prefill, "decode": decode, "decoded": decoded or None}
    options |= {"format": quantize, "per": per, "group": group, "when": when, "hadamard": hadamard}
    given = {name: value for name, value in options.items() if value is not None}
    with output.working():
        result = _analyse(named, keys, given, seed)
    output.show(result, output.parameters(result))


def _analyse(
    named: NamedRotary, keys: NDArray[Any] | None, given: dict[str, Any], seed: int
) -> CachedKeys:
    """Return the errors of what the options ask for."""
    from ropecli.analyses.cache import cache_mix, cache_quantize, cache_shift

    if "shift" in given:
        return cache_shift(named.rope, **given, seed=seed, name=named.name)
    if "prefill" in given:
        return cache_mix(named.rope, **given, name=named.name)
    return cache_quantize(named.rope, keys, **given, seed=seed, name=named.name)
