"""The file as a whole."""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from ropecli.models.keys import names_of
from ropecli.models.lint.rule import FileRule, Match, PartRule
from ropecli.models.lint.subjects import Subject
from ropecli.models.lint.vocabulary import LONGEST_NAME
from ropecli.models.source import RepeatedKeys

_DTYPE = re.compile(r"(rope|rotary|inv_freq).*(dtype|precision)$")
_IN_FLOAT32 = re.compile(r"(rope|rotary|inv_freq).*(fp32|float32)|(fp32|float32).*(rope|rotary)")
_WORD = re.compile(r"[A-Za-z]\w*_\w+|factor|alpha|truncate|base")  #: As keys are named.
_OLDER = {"base": names_of("rope_theta"), "rope_type": ("rope_type", "type")}
_NARROW = ("bf16", "bfloat16", "fp16", "float16", "half", "torch.bfloat16", "torch.float16")

#: Of bfloat16, and of float16.
_EFFECT = {
    True: "bfloat16 positions coincide from 257 on, and angles are off by up to half a turn.",
    False: "float16 positions coincide from 2,049 on.",
}


@FileRule(
    "R001",
    "error",
    "the rotation cannot be computed",
    why="A value is missing, of the wrong kind or out of range. Stacks refuse the file, or "
    "compute something unintended.",
    hint="Correct or add the value; the model's own repository has the one it was trained with.",
    requires=("rotates", "problem"),
)
def uncomputable(file: Subject, problem: str) -> Iterator[Match]:
    """A file that can be read, with a rotary embedding that cannot be computed."""
    key, value = _place(file.values, problem)
    if isinstance(value, str) and _is_number(value):
        hint = f"Write it without quotation marks: {value}."
        yield Match(key, f"{problem}.", hint, {key: json.loads(value)})
    else:
        yield Match(key, f"{problem}.")


def _place(raw: Mapping[str, Any], problem: str) -> tuple[str, Any]:
    """Return path and value of the key that a message names, first one whose value it quotes."""
    for word in _WORD.findall(problem):
        names = _OLDER.get(word) or names_of(word)
        keys = [(path, value) for path, name, value in _walk(raw) if name in names]
        if keys:
            quoted = (key for key in keys if repr(key[1])[:20] in problem)
            return next(quoted, keys[0])
    return "", None


def _walk(raw: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield the dotted path, the name and the value of every key, outer ones first."""
    waiting: deque[tuple[str, Any]] = deque([("", raw)])
    while waiting:
        path, value = waiting.popleft()
        for name, child in value.items() if isinstance(value, dict) else ():
            place = f"{path}.{name}".lstrip(".")
            yield place, name, child
            waiting.append((place, child))


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


@FileRule(
    "R002",
    "note",
    "no rotary embedding",
    why="There was nothing to check.",
    hint="Pass the file of a model with rotary embeddings.",
)
def nothing_rotary(file: Subject) -> Iterator[Match]:
    """A file of a model without a rotation, by its keys and its architecture."""
    if not file.rotates:
        why = file.readings.problem or "no block of its architecture rotates"
        yield Match("", f"{why[0].upper()}{why[1:]}, so nothing was checked.")


@FileRule(
    "R003",
    "warning",
    "a repeated key",
    why="JSON parsers silently take the last value; people read the first.",
    hint="Remove all but one.",
)
def repeated_key(file: Subject) -> Iterator[Match]:
    """A JSON object with a key more than once."""
    for path, value in (
        ("", file.values),
        *((path, child) for path, _, child in _walk(file.values)),
    ):
        for name in value.repeated if isinstance(value, RepeatedKeys) else ():
            message = f"It is repeated; parsers take the last value, {value[name]!r:.60}."
            yield Match(f"{path}.{name}".lstrip("."), message)


@FileRule(
    "R004",
    "note",
    "an unknown architecture",
    why="No key of a config.json gives the layout of pairs: (i, i + d/2) or (2i, 2i+1). The most "
    "common one is assumed. A wrong one passes every test of norms and relative positions, "
    "and ruins the model.",
    hint="Compare the assumptions with the model's code: look for rotate_half, or for complex "
    "numbers or strides of 2.",
    requires=("rotates", "config_json"),
    threads=("ggml-org/llama.cpp#13260", "ikawrakow/ik_llama.cpp#2290", "paiml/aprender#2084"),
)
def unknown_architecture(file: Subject) -> Iterator[Match]:
    """A config.json whose model_type is missing or not in the table of architectures."""
    assumed = dict.fromkeys(
        sentence
        for settings in file.layers
        for sentence in settings.assumed
        if not sentence.startswith("base ")
    )
    if assumed:
        yield Match("model_type", f"Assumed: {'; '.join(assumed)}.")


@PartRule(
    "R093",
    "warning",
    "rotary tables in 16 bits",
    why="bfloat16 has no odd integers above 256: positions coincide from 257 on. Frequencies in "
    "bfloat16 are off by 0.62 rad at position 512 and by half a turn at 4,096.",
    hint="Compute positions, frequencies and angles in float32; cos and sin may be rounded.",
    threads=(
        "huggingface/transformers#29285",
        "EleutherAI/gpt-neox#1003",
        "Modalities/modalities#462",
        "huggingface/candle#3520",
        "okoge-kaz/llm-recipes#6",
    ),
)
def narrow_tables(part: Subject) -> Iterator[Match]:
    """A key that makes stacks compute rotary tables in 16 bits.

    For example `rope_dtype: bfloat16` or `apply_rope_in_fp32: false`; the dtype of the weights
    does not count.
    """
    for name, value in part.config.items():
        if len(name) > LONGEST_NAME:
            continue
        if _DTYPE.search(name) and isinstance(value, str) and value.lower() in _NARROW:
            yield Match(part.key(name), _EFFECT["b" in value.lower()])
        elif _IN_FLOAT32.search(name) and value is False:
            yield Match(part.key(name), f"They are in the dtype of the weights: {_EFFECT[True]}")
