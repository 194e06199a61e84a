"""Rope types and the names of keys."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ropecli.models.fope import KEYS as FOPE
from ropecli.models.keys import CONTEXT
from ropecli.models.lint.readings import join_stacks, sentence, without_it
from ropecli.models.lint.rule import Match, Rule
from ropecli.models.lint.subjects import Subject
from ropecli.models.lint.values import number, shown, value_or_none
from ropecli.models.lint.vocabulary import (
    ELSEWHERE,
    MOST_NAMES,
    SPELT,
    TOP,
    intended_name,
    of_any_type,
    of_type,
)
from ropecli.models.refusals import NEEDED
from ropecli.names import meant
from ropecli.rotary.factors import mscale
from ropecli.rotary.types import ROPE_TYPES, canonical

#: Rope types of one stack, or of the code of a few models.
_LOCAL = {
    "su": "the old name of longrope",
    "mrope": "the old name of default with mrope_section",
    "xdrope": "dynamic with alpha and xdrope_section",
}


@Rule(
    "R010",
    "error",
    "a misspelt key",
    why="The default is used, or the file is refused. With beta_fst: 64, YaRN uses 32; with "
    "rope_teta: 500000, a model of head dim 128 rotates its slowest pair 47 times too fast.",
    hint="Correct the name.",
    of="part or scaling",
    threads=("deepseek-ai/DeepSeek-R1#684",),
)
def misspelt(subject: Subject) -> Iterator[Match]:
    """A key one or two letters off a missing one, which would have an effect under that name."""
    if subject.of == "part":
        read, names = TOP, list(SPELT)
    else:
        own = of_any_type() if subject.rope_type is None else of_type(subject.rope_type)
        read, names = of_any_type() | ELSEWHERE, sorted(own | {"rope_type"})
    for name in islice(subject.values, MOST_NAMES):
        right = None if name in read else intended_name(name, names)
        if right is not None and not subject.has(right) and not subject.get_all(right):
            value, key = subject.values[name], subject.key(name)
            asked = subject.effects(**{name: ...})
            effects = subject.effects(**{name: ..., right: value})
            texts = sentence("Under that name", effects)
            refused = not effects and subject.text and right not in TOP  # for another reason
            if not any(asked.values()) and (texts or refused or right == CONTEXT):
                said = f"It has no effect in {join_stacks(asked)}; " if asked else ""
                message = f"{said}{right} is missing.{texts}"
                fix = {key: None, subject.key(right): value}
                yield Match(key, message, f"Rename it to {right}.", fix)


@Rule(
    "R133",
    "note",
    "FoPE, which is not a RoPE",
    why="FoPE (arXiv:2412.17739) has a Fourier series with learned coefficients in place of each "
    "frequency of each head, as in Intern-S1-Pro. Frequencies of a RoPE say nothing about it.",
    hint="Run it by code that reads these keys, its own or vLLM's class of Intern-S1-Pro.",
    of="part",
)
def fope(part: Subject) -> Iterator[Match]:
    """A model whose keys ask for FoPE, and whose class is not in Transformers."""
    for layer in part.layers:
        if layer.encoding is not None:
            names = [name for name in FOPE if layer.scaling.get(name) not in (None, False)]
            key = part.key(f"{part.holder}.{names[0]}" if part.holder else names[0])
            yield Match(key, f"It has {layer.encoding}: no rule on frequencies is applied.")
            return


@Rule(
    "R012",
    "error",
    "attn_factor is not a key of config.json",
    why="YaRN's authors multiply their factor by attn_factor. Stacks ignore it; attention_factor "
    "of Transformers replaces the factor. In DeepSeek-R1-0528-Qwen3-8B, 0.8782 was meant to "
    "give 1, and 1.1386 is used: 14 % on cos and sin, 30 % on scores.",
    hint="Replace it by attention_factor, with the intended value.",
    threads=("deepseek-ai/DeepSeek-R1#684", "vllm-project/vllm#46280"),
)
def attn_factor(entry: Subject) -> Iterator[Match]:
    """`attn_factor` among the scaling keys, other than 1."""
    given = number(entry.values.get("attn_factor"))
    if "attn_factor" not in entry.values or given == 1:
        return
    table = entry.table() if entry.rope_type == "yarn" else None
    unread = without_it(entry.effects(attn_factor=...)) or "No rope type reads it."
    if given is None or table is None:
        has_one = entry.rope_type in ("yarn", "longrope")
        hint = "" if has_one else f"Remove it: {entry.rope_type} has no attention factor."
        yield Match(entry.key("attn_factor"), unread, hint if entry.rope_type else "")
        return
    factor, used = entry.numbers.get("factor"), table.attention_factor
    formula = f" (0.1 ln {shown(factor)} + 1)" if factor and used == mscale(factor) else ""
    product = used * given
    yield Match(
        entry.key("attn_factor"),
        f"{unread} Transformers uses {shown(used)}{formula}; multiplied, as YaRN's authors do, it "
        f"gives {shown(product)}.",
        f"Replace it by attention_factor: {round(product, 6)!r} if that is the intended value.",
    )


@Rule(
    "R015",
    "error",
    "type and rope_type differ",
    why="Transformers takes rope_type and silently ignores type, most classes of mlx-lm take type, "
    "and vLLM refuses the file.",
    hint="Remove type, the old name of rope_type.",
)
def two_types(entry: Subject) -> Iterator[Match]:
    """`type` and `rope_type` with different meanings; two names of the same type are fine."""
    old, new = entry.values.get("type"), entry.values.get("rope_type")
    if not isinstance(old, str) or not isinstance(new, str) or _plain(old) == _plain(new):
        return
    yield Match(
        entry.key("type"),
        f"type is {old!r} and rope_type {new!r}. {without_it(entry.effects(type=...))}".strip(),
    )


@Rule(
    "R016",
    "note",
    "a rope type that only some stacks know",
    why="Stacks know different names, and refuse the others.",
    hint="Use the name that all stacks know, if there is one.",
)
def local_name(entry: Subject) -> Iterator[Match]:
    """An old name of a rope type, or a type of vLLM's own."""
    written = entry.written_type
    if not isinstance(written, str) or entry.rope_type is None or written in (*NEEDED, "axial"):
        return
    said = _LOCAL.get(written, "a type that Transformers does not have")
    refused = entry.refusals
    by = f" The file is refused by {join_stacks(refused)}." if refused else ""
    yield Match(entry.type_key, f"{written!r} is {said}.{by}")


@Rule(
    "R017",
    "error",
    "an unknown rope type",
    why="Transformers fails with a KeyError, or warns and fails later.",
    hint=f"The types are {', '.join(ROPE_TYPES)}.",
)
def unknown_type(entry: Subject) -> Iterator[Match]:
    """A rope_type that is not one of these."""
    if entry.rope_type is None and entry.written_type is not None:
        meaning = meant(entry.written_type, ROPE_TYPES) or "."
        by = f" The file is refused by {join_stacks(entry.refusals)}." if entry.refusals else ""
        yield Match(entry.type_key, f"{entry.written_type!r:.60} is not a rope type{meaning}{by}")


@Rule(
    "R018",
    "error",
    "a scaling key is missing",
    why="Transformers refuses the file with a KeyError.",
    hint="Add it, with the value of the released model.",
    requires=("rope_type",),
)
def missing(entry: Subject, rope_type: str) -> Iterator[Match]:
    """A key that the rope type requires.

    The factor of linear, dynamic, yarn and llama3, the other two of llama3, the lists of longrope.
    """
    if not entry.values or (rope_type == "dynamic" and entry.has("alpha")):
        return
    for name in NEEDED.get(rope_type, ()):
        if name not in entry.values:
            message = f"Rope type {rope_type} requires it."
            yield Match(entry.key(name), message)


def _plain(name: str) -> str:
    return value_or_none(lambda: canonical(name)) or name
