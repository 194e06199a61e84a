"""Checks of names that a caller gives, with the name that was probably meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches

from ropecli.errors import ArgumentError

#: Names that are used elsewhere, and ours.
ELSEWHERE = {
    "neox": "half",
    "gpt-neox": "half",
    "rotate-half": "half",
    "split": "half",
    "hf": "half",
    "gptj": "interleaved",
    "gpt-j": "interleaved",
    "meta": "interleaved",
    "normal": "interleaved",
    "pairwise": "interleaved",
    "f64": "float64",
    "fp64": "float64",
    "double": "float64",
    "f32": "float32",
    "fp32": "float32",
    "single": "float32",
    "f16": "float16",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "pi": "linear",
    "llamacpp": "llama.cpp",
    "hf-transformers": "transformers",
    "mlx": "mlx-lm",
    "pytorch": "torch",
}


def one_of(name: str, value: object, allowed: Collection[str]) -> str:
    """Return the value, which must be one of the allowed names."""
    if isinstance(value, str) and value in allowed:
        return value
    raise ArgumentError(
        f"{name} must be {either(allowed)}, got {quote(value)}{meant(value, allowed)}"
    )


def either(allowed: Collection[str]) -> str:
    """Return the names as a message lists them: "a or b", or "one of a, b, c"."""
    names = list(allowed)
    return " or ".join(names) if len(names) == 2 else f"one of {', '.join(names)}"


def join(names: Iterable[str], word: str = "and") -> str:
    """Return names as a sentence lists them: "a, b and c"."""
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last


def choices(values: Iterable[str]) -> str:
    """Return the values of an option as its help lists them: "int64, int32 or float32"."""
    words = {value: f"'{value}'" if " " in value else value for value in values}
    if isinstance(values, Mapping):
        words = {value: f"{words[value]} ({meaning})" for value, meaning in values.items()}
    return join(words.values(), "or")


def meant(value: object, allowed: Collection[str]) -> str:
    """Return the end of a message, with the name that was probably meant; "" if none is near."""
    spelled = str(value).lower().replace("_", "-").removeprefix("torch.").removeprefix("np.")
    elsewhere = ELSEWHERE.get(spelled)
    if elsewhere in allowed:
        return f"; {value} is {elsewhere}"
    by_spelling = {name.lower().replace("_", "-"): name for name in allowed}
    near = [name for name in by_spelling if len(spelled) > 3 and name.startswith(spelled)]
    near = near or get_close_matches(spelled, by_spelling, n=1, cutoff=0.7)
    return f"; did you mean {by_spelling[near[0]]}?" if near else ""


def quote(value: object) -> str:
    """Spell out a rejected value, short enough for a message."""
    if isinstance(value, int) and abs(value) >= 10**40:  # Python refuses to spell out the longest
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
