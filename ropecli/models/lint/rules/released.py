"""Values that no released file of the architecture has."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ropecli.models.architectures import released_values, table
from ropecli.models.keys import ALIASES, ORIGINAL
from ropecli.models.lint.readings import by_stack
from ropecli.models.lint.rule import Match, PartRule
from ropecli.models.lint.subjects import Subject
from ropecli.models.lint.values import number, positive
from ropecli.models.settings import Settings
from ropecli.names import join

#: What the formulas take where a file has no such key.
_DEFAULTS: Mapping[str, Any] = {
    "truncate": True,
    "beta_fast": 32.0,
    "mscale_all_dim": 0.0,
    "mrope_interleaved": False,
    "partial_rotary_factor": 1.0,
}
_SIZES = ("head_dim", "hidden_size", "num_attention_heads", "num_hidden_layers", "qk_rope_head_dim")
#: Of a shape, as the table has them.
_SHAPE = ("hidden_size", "num_attention_heads", "num_hidden_layers", "head_dim")
_NEAR = 0.5  #: Doublings, of all sizes together; the next size of a family is one or more away.
_TOP = ("rope_interleave", "no_rope_layer_interval")
#: Keys that are next to the scaling keys in the old form, and among them in the new.
_EITHER = ("rope_theta", "partial_rotary_factor")


@PartRule(
    "R005",
    "warning",
    "differs from every released file like it",
    why="Weights work with the rotation of their training. Where all released files agree, "
    "another value is more likely lost or mistyped than meant.",
    hint="Restore the value of the released file, unless the model was trained with this one.",
    threads=(
        "huggingface/transformers#42189",
        "unslothai/unsloth#6197",
        "unslothai/unsloth#7028",
        "ggml-org/llama.cpp#2768",
        "NVIDIA/Megatron-LM#1418",
    ),
)
def unlike_released(part: Subject) -> Iterator[Match]:
    """A value that no released file of the model_type has, and that changes the rotation.

    For example gpt-oss without `truncate: false`, Llama 3.1 without its scaling, SmolLM3 with
    other layers without position. A base is compared with the released model of the nearest
    shape: any other base of the same shape, one more than 10 times off of nearly the same.
    """
    rotating = part.rotating
    whole_file = part.get_all("num_hidden_layers")  # a few keys of a file are of any model
    if not whole_file or any(layer_settings.refused for layer_settings in rotating):
        return
    found: set[str] = set()
    rows = released_values(part.architecture.model_type)
    for row in (*rows, *_nearest_base(part, rotating[:1])):
        for settings in rotating[:1] if "layer" not in row else rotating:
            if row.get("layer", settings.kind) == settings.kind:
                for match in _compare(part, settings, row):
                    if match.key not in found or "near" not in row:
                        yield match
                    found.add(match.key)


def _nearest_base(part: Subject, rotating: list[Settings]) -> Iterator[Mapping[str, Any]]:
    """Yield a row with the bases of the nearest released shape, where they are to be compared.

    Sizes of models grow by factors, so their distance is how often they double, in all: half the
    layers are as far away as twice as many.
    """
    released = table()["shapes"].get(part.architecture.model_type)
    for settings in rotating if released else ():
        *shape, base = (positive(_value(part, settings, key)) for key in (*_SHAPE, "rope_theta"))
        if None in shape or base is None:
            return
        far = [
            (sum(abs(math.log2(x / y)) for x, y in zip(shape, value, strict=False)), value)
            for value in released
        ]
        distance, nearest = min(far)
        bases = sorted(nearest[len(shape) :], key=lambda each: abs(math.log(each / base)))
        lost = abs(math.log10(bases[0] / base)) > 1
        if distance == 0 or (distance <= _NEAR and lost):
            near = dict(zip(_SHAPE, nearest, strict=False))
            yield {"near": near, "has": {"rope_theta": bases}}


def _compare(part: Subject, settings: Settings, row: Mapping[str, Any]) -> Iterator[Match]:
    for key, value in row.get("when", {}).items():
        if _value(part, settings, key) not in (value if isinstance(value, list) else [value]):
            return
    has: Mapping[str, list[Any]] = row["has"]
    used = {key: _value(part, settings, key) for key in has}
    wrong = {key: has[key][0] for key in has if used[key] not in has[key]}
    if not wrong:
        return
    changes = dict(_change(part, settings, key, value) for key, value in wrong.items())
    texts = by_stack(part.effects_at(changes))
    if not texts:
        return
    near = row.get("near", {})
    like = near or {key: _value(part, settings, key) for key in row.get("when", {})}
    values = [f"{key} {_written([value])}" for key, value in like.items()]
    alike = f" with {', '.join(values)}" if values else ""
    model_type = part.architecture.model_type
    said = ", ".join(f"{key} {_written(has[key])}" for key in wrong)
    first = next(iter(wrong))
    now = "other layers" if used[first] is None and first in _TOP else _written([used[first]])
    who = "The nearest released" if near else "Released"
    yield Match(
        next(iter(changes)),
        f"{who} files of {model_type}{alike} have {said}; here {first} is {now}. As released, "
        f"{texts}.",
        f"Restore {', '.join(f'{path}: {_written([v])}' for path, v in changes.items())}."
        if first not in _TOP and not near
        else "",
    )


def _value(part: Subject, settings: Settings, key: str) -> Any:
    """Return the value in use, whichever key of the file it is from."""
    placed = settings.geometry
    of_file = {
        "rope_type": settings.rope_type,
        "max_position_embeddings": settings.context_length,
        "tie_word_embeddings": part.config.get("tie_word_embeddings") is True,
        "rope_interleave": placed.get("layout") == "interleaved",
    }
    if key in of_file:
        return of_file[key]
    if key == "no_rope_layer_interval":
        return _interval(part)
    if key == "partial_rotary_factor" and "rotary_dim" in placed:
        return placed["rotary_dim"] / placed["head_dim"]
    if key in _SIZES:
        size = part.integer(key)
        return placed.get(key) if size is None else size
    if key == "mrope_section":  # as written: some stacks have no default for it
        value = part.held.get(key)
        return part.config.get(key) if value is None else value
    if key == "mrope_interleaved":  # as written: not every stack reads it
        placed = {}
    value = placed.get(key, settings.scaling.get(key))
    return _DEFAULTS.get(key) if value is None else value


def _interval(part: Subject) -> int | None:
    """Return n where layers n, 2n, ... have no position; None of another pattern."""
    rotates = {i: s.rotates for s in part.layers for i in s.layers or ()}
    static = sorted(i for i, rotate in rotates.items() if not rotate)
    if not static or not rotates:
        return None
    step = static[0] + 1
    return step if static == list(range(static[0], max(rotates) + 1, step)) else None


def _change(part: Subject, settings: Settings, key: str, value: Any) -> tuple[str, Any]:
    """Return the dotted path of a key, where the file has it or should have it, and its value."""
    if key == "no_rope_layer_interval" and part.config.get("no_rope_layers") is not None:
        count = max((i for s in part.layers for i in s.layers or ()), default=-1) + 1
        count = count or part.integer("num_hidden_layers") or 0
        return part.key("no_rope_layers"), [int((i + 1) % value != 0) for i in range(count)]
    if key in (*_TOP, *_SIZES) or (key == ORIGINAL and part.config.get(key) is not None):
        return part.key(key), value
    if part.nested:
        return part.key(f"{part.holder}.{settings.kind}.{key}"), value
    if key not in _EITHER or key in part.held:
        return part.key(f"{part.holder or 'rope_scaling'}.{key}"), value
    bases = part.keys.facts.get("bases", {}) if key == "rope_theta" else {}
    names = (bases.get(settings.kind, key), *ALIASES.get(key, ()))
    given = next((name for name in names if part.config.get(name) is not None), None)
    if given is None and part.holder == "rope_parameters":
        return part.key(f"{part.holder}.{key}"), value
    return part.key(given or names[0]), value


def _written(values: list[Any]) -> str:
    """Return values as a file has them."""
    said = [
        str(v).lower()
        if isinstance(v, bool)
        else f"{n:.10g}"
        if (n := number(v)) is not None
        else "missing"
        if v is None
        else f"{v!r:.60}"
        for v in values
    ]
    return join(said, "or")
