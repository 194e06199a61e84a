"""Keys that stacks do not read, found by experiment."""

# Each key is removed, and given another value, and every stack reads the file again. So a key that
# no rule has heard of is found, and a sentence about a stack says what its reading did.

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from typing import Any

from ropecli.models.keys import FULL, HOLDERS, ORIGINAL, SHARE, names_of
from ropecli.models.lint.readings import FIRST, difference, join_stacks, same, without_it
from ropecli.models.lint.rule import Match, PartRule
from ropecli.models.lint.subjects import Subject
from ropecli.models.lint.values import number, shown, value_or_none
from ropecli.models.lint.vocabulary import COMMON, ELSEWHERE, FOREIGN, TOP, of_any_type, of_type
from ropecli.models.model import Layer, Model
from ropecli.models.parts import stray_keys
from ropecli.models.refusals import NEEDED
from ropecli.names import join
from ropecli.rotary.types import canonical

MOST_KEYS = 48  #: Of a file that are changed one by one; real files have up to twenty.
MOST_PAIRS = 2**16  #: Of all layers, times the keys; a model of 20 keys and two kinds has 2,560.
#: Keys outside the scaling keys, under all of their names, and those of other formats.
_CANONICAL = {
    name: key
    for key in ("rope_theta", SHARE, "rotary_dim", ORIGINAL, "mrope_section")
    for name in names_of(key)
} | FOREIGN
_Experiment = partial(PartRule, requires=("text", "config_json"), experiment=True)
_TYPES = ("rope_type", "type")  #: Without them all other scaling keys change their meaning.
_CLASS = ("model_type", "architectures")  #: Keys that name the class that reads a file.
#: Put in the place of an object of scaling keys.
_OTHER_SCALING = {"rope_type": "linear", "factor": 3.0, "rope_theta": 12_345.0}


@dataclass(frozen=True, kw_only=True, eq=False)
class _Trial:
    """A key, and what stacks do without it and with another value."""

    path: str
    value: Any
    rope_type: str | None  #: Of the scaling keys that it is among; None of other keys.
    effects: Mapping[str, str]  #: Of its removal, on the stacks that take the file.
    readers: Set[str]  #: The stacks for which anything changes.
    parts: bool  #: True if stacks differ because of it.
    used: Any  #: The value that Transformers uses instead of it, if another.

    @property
    def key(self) -> str:
        """The name of the key."""
        return self.path.rpartition(".")[2]

    @property
    def ignoring(self) -> list[str]:
        """The stacks that take the file and do not read it."""
        return [stack for stack in self.effects if stack not in self.readers]

    @property
    def has_type(self) -> bool:
        """True if it is a scaling key that some rope types read."""
        return self.rope_type is not None and self.key in of_any_type() - COMMON

    @property
    def used_instead(self) -> str:
        """A sentence on the value that is used instead; nothing where there is none."""
        if self.used is None:
            return ""
        used = number(self.used)
        said = f"{self.used!r:.60}" if used is None else shown(used)
        return f" It is {self.value!r:.60}, and Transformers uses {said}."


@lru_cache(maxsize=1)
def _trials(part: Subject) -> tuple[_Trial, ...]:
    """Return a trial of each key of the text model that may be about its rotation."""
    first = part.readings.models[FIRST]
    if isinstance(first, str):
        return ()
    pairs = sum(len(layer.rotary.inv_freq) for layer in first.layers if layer.rotary is not None)
    found: list[_Trial] = []
    for path, value, rope_type in islice(_keys(part), min(MOST_KEYS, MOST_PAIRS // (pairs or 1))):
        around = [trial for trial in found if path.startswith(f"{trial.path}.")]
        if all(trial.readers or not _is_apart(part, trial) for trial in around):
            found.append(_try(part, first, path, value, rope_type, around))
    return tuple(found)


def _keys(part: Subject) -> Iterator[tuple[str, Any, str | None]]:
    """Yield path and value of each key, and the rope type of those among scaling keys."""
    for holder in HOLDERS:
        given = part.config.get(holder)
        if isinstance(given, dict):
            yield part.key(holder), given, None
            yield from _scaling_keys(part.key(holder), given)
    for name in _CANONICAL:
        if part.config.get(name) not in (None, False):
            yield part.key(name), part.config[name], None
    stray = stray_keys(part.readings.described.raw) if part.outer else None
    yield from ((name, value, None) for name, value in (stray[0] if stray else {}).items())


def _scaling_keys(path: str, given: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    rope_type = _type(given)
    for name, value in given.items():
        if name not in _TYPES and "." not in name:
            yield f"{path}.{name}", value, rope_type
            if isinstance(value, dict):
                yield from _scaling_keys(f"{path}.{name}", value)


def _type(given: Mapping[str, Any]) -> str:
    """Return the rope type of scaling keys; an empty string without one that is known."""
    written = str(given.get("rope_type") or given.get("type"))
    return value_or_none(lambda: canonical(written)) or ""


def _try(
    part: Subject, first: Model, path: str, value: Any, rope_type: str | None, around: list[_Trial]
) -> _Trial:
    whole, without = part.readings.models, part.readings.changed({path: ...}).models
    effects = {s: difference(a, without[s]) for s, a in whole.items() if isinstance(a, Model)}
    readers = {s for s, a in whole.items() if not same(a, without[s])}
    if (given := _another(value)) is not None:
        other = part.readings.changed({path: given})
        readers |= {s for s in whole.keys() - readers if not same(whole[s], other.read_as(s))}
    key = path.rpartition(".")[2]
    values = [n for layer in first.layers if (n := _value(layer, key)) is not None]
    if not values and rope_type is None and key in part.held:
        values = [part.held[key]]
    used = None if FIRST in readers or not values or value in values else values[0]
    # One of the two stacks reads it, and they differ, but not without it. A stack that does not
    # read an object reads none of its keys, which is said once.
    if FIRST in readers:
        others = [x for x in effects if x not in readers and all(x in e.readers for e in around)]
    else:
        others = [stack for stack in readers.intersection(effects) if effects[stack]]
    parts = any(
        difference(first, whole[stack])
        and (used is not None or _agree(without[FIRST], without[stack]))
        for stack in others
    )
    return _Trial(
        path=path,
        value=value,
        rope_type=rope_type,
        effects=effects,
        readers=readers,
        parts=parts,
        used=used,
    )


def _agree(a: Model | str, b: Model | str) -> bool:
    return isinstance(a, Model) and isinstance(b, Model) and not difference(a, b)


def _another(value: object) -> Any:
    """Return another value of the same kind; None where there is none that all keys have."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, dict):
        return _OTHER_SCALING
    if number(value) is not None and isinstance(value, int | float):
        return 2 * value + 1
    return value[::-1] if isinstance(value, list) and value != value[::-1] else None


def _value(layer: Layer, key: str) -> float | None:
    """Return the value in a layer's rotation that a key of a file may give."""
    rope, settings = layer.rotary, layer.settings
    if rope is None:
        return None
    share = number(settings.scaling.get(SHARE, settings.geometry.get(SHARE)))
    values = {
        "rope_theta": rope.base,
        SHARE: rope.rotary_dim / rope.head_dim if share is None else share,
        "rotary_dim": rope.rotary_dim,
        ORIGINAL: settings.original_context_length or settings.context_length,
    }
    return values.get(_CANONICAL.get(key, key))


def _is_dead(part: Subject, trial: _Trial) -> bool:
    """True of a key that no stack reads, and that should not stay as it is."""
    key, rope_type = trial.key, trial.rope_type
    released = key == "rotary_dim" and key in part.keys.facts.get("ignores", ())
    if trial.readers or trial.path in _refusals(part) or key in ELSEWHERE or released:
        return False
    if trial.value is None:
        return False
    if isinstance(trial.value, dict) or not trial.path.startswith(part.outer):
        return _is_apart(part, trial) and trial.key not in part.architecture.scaling
    if rope_type is None and key in FOREIGN:
        meant = FOREIGN[key]
        scales = meant == "rope_scaling" and part.holder
        return not (scales or part.get_all(meant) or meant in part.held)
    if rope_type is None or key in COMMON or (rope_type and key in of_type(rope_type)):
        return trial.used is not None
    return trial.value != 1 or rope_type not in ("", "default") or not trial.has_type


def _is_apart(part: Subject, trial: _Trial) -> bool:
    """True of an object that a rotation does not need, and of a key outside the text model.

    One of two objects is such an object, that of a layer type, and one that scales.
    """
    if not trial.path.startswith(part.outer) or trial.rope_type is not None:
        return True
    scales = _type(trial.value) not in ("", "default")
    return scales or all(isinstance(part.config.get(name), dict) for name in HOLDERS)


def _better_place(part: Subject, trial: _Trial) -> str:
    """Return where stacks that do not read a key would read it; Transformers before others."""
    if isinstance(trial.value, dict) and trial.path.startswith(part.outer):
        return ""
    whole, remove = part.readings.models, {} if FIRST in trial.readers else {trial.path: ...}
    nested = [f"{part.holder}.{k}." for k, value in part.held.items() if isinstance(value, dict)]
    for place in ("", *([f"{part.holder}."] if part.holder else []), *nested):
        for name in names_of(_CANONICAL.get(trial.key, trial.key)):
            path = part.key(f"{place}{name}")
            if part.readings.value(path) is None:
                moved = part.readings.changed({**remove, path: trial.value}).models
                wanted = [FIRST] if remove else trial.ignoring
                if all(
                    isinstance(moved[s], Model) and not same(whole[s], moved[s]) for s in wanted
                ):
                    return path
    return ""


def _by_layer_type(part: Subject, given: dict[str, Any]) -> str:
    """Return flat scaling keys as an object by layer type."""
    scaled, kinds = part.keys.facts.get("scaled", (FULL,)), [x.kind for x in part.rotating]
    bases = [{"rope_theta": settings.scaling["rope_theta"]} for settings in part.rotating]
    plain = {k: {"rope_type": "default", **v} for k, v in zip(kinds, bases, strict=True)}
    return json.dumps({k: v | (given if k in scaled else {}) for k, v in plain.items()})


@_Experiment(
    "R129",
    "warning",
    "a key that no stack reads",
    why="It has no effect, and most stacks are silent about it.",
    hint="Remove it.",
    threads=("huggingface/transformers#48594", "unslothai/unsloth#6197", "ggml-org/llama.cpp#2768"),
)
def unread(part: Subject) -> Iterator[Match]:
    """A key about the rotation without which, and with another value of which, no stack changes.

    Not one that is for other code, such as `finetuned`. Elsewhere than among the scaling keys: a
    base, share, rotary dim or original length other than the one in use, or a key of another
    format in place of a missing one.
    """
    groups: dict[tuple[str, bool, str], list[_Trial]] = {}
    for trial in _trials(part):
        if _is_dead(part, trial):
            place = _better_place(part, trial)
            alone = place or trial.used is not None or isinstance(trial.value, dict)
            outer = trial.path if alone else trial.path.rpartition(".")[0]
            groups.setdefault((outer, trial.has_type, place), []).append(trial)
    for (_, has_type, place), trials in groups.items():
        first, *more = trials
        keys, them = (join([attempt.key for attempt in trials]), "them") if more else ("it", "it")
        message = f"{join_stacks(first.effects)} {'do' if len(first.effects) > 1 else 'does'} not "
        message += f"read {keys}: nothing changes without {them}.{first.used_instead}"
        hint = f"Remove {them}."
        if place:
            hint = f"Write it as {place}, where Transformers reads it, or remove it."
        elif first.rope_type is None and first.key in FOREIGN:
            hint = f"Write {FOREIGN[first.key]} instead."
        elif isinstance(first.value, dict):
            if first.rope_type is not None:
                hint = "Remove it, or use a name of layer_types."
            elif part.architecture.scaling_is_nested:
                hint = f"Its class reads it by layer type: {_by_layer_type(part, first.value)}."
        elif first.rope_type == "" and part.nested:
            hint = f"Remove {them}, or write {them} under the layer types."
        elif has_type:
            types = [
                name for name in NEEDED if all(attempt.key in of_type(name) for attempt in trials)
            ]
            hint = f"Remove {them}, or set a rope_type that reads {them}: {', '.join(types)}."
        # A key of another type may be meant, where no type or one without scaling is set.
        meant = has_type and first.rope_type in ("", "default")
        unsure = meant or first.used is not None or place or isinstance(first.value, dict)
        safe = first.rope_type is not None and not unsure
        yield Match(
            first.path, message, hint, {attempt.path: None for attempt in trials} if safe else {}
        )


@_Experiment(
    "R130",
    "warning",
    "a key that other stacks than Transformers read",
    why="A released model was trained as Transformers reads its file. A stack that reads this key "
    "rotates differently.",
    hint="Remove it: Transformers rotates the same without it.",
    threads=(
        "huggingface/transformers#48682",
        "vllm-project/vllm#48623",
        "deepspeedai/DeepSpeed#8345",
    ),
)
def read_elsewhere(part: Subject) -> Iterator[Match]:
    """A key that Transformers does not read, and because of which another stack differs from it."""
    for trial in _trials(part):
        if trial.parts and FIRST not in trial.readers:
            place = _better_place(part, trial)
            hint = f"Write it as {place}, where Transformers reads it, or remove it."
            message = f"{without_it(trial.effects)}{trial.used_instead}"
            yield Match(trial.path, message, hint if place else "")


@_Experiment(
    "R131",
    "warning",
    "a key for which a stack refuses the file",
    why="Transformers takes the file and does not read the key.",
    hint="Remove it for that stack, or run another one.",
    threads=("vllm-project/vllm#49296", "vllm-project/vllm#33470"),
)
def refused_key(part: Subject) -> Iterator[Match]:
    """A key that Transformers does not read, and without which another stack takes the file."""
    causes = _refusals(part)
    for stacks in dict.fromkeys(causes.values()):
        paths = [path for path, refusing in causes.items() if refusing == stacks]
        keys = join([path.rpartition(".")[2] for path in paths])
        reasons = "; ".join(part.readings.refusals[stack] for stack in stacks)
        message = f"The file is refused by {join_stacks(stacks)} ({reasons}), and not without "
        yield Match(paths[0], f"{message}{keys}.")


@lru_cache(maxsize=1)
def _refusals(part: Subject) -> dict[str, tuple[str, ...]]:
    """Return by path the keys each of which alone makes some stacks refuse the file."""
    trials = _trials(part)
    suspects = [trial.path for trial in trials if FIRST not in trial.readers]
    suspects = [path for path in suspects if not isinstance(part.readings.value(path), dict)]
    known = {*TOP, *HOLDERS, *_CLASS}
    suspects += [part.key(name) for name in part.config if name not in known and "." not in name]
    without: dict[str, Any] = dict.fromkeys(suspects[: 2 * MOST_KEYS], ...)
    cleaned = part.readings.changed(without)
    stacks = [stack for stack in part.readings.refusals if stack not in cleaned.refusals]
    found: dict[str, tuple[str, ...]] = {}
    for path in without if trials and stacks else ():
        other = part.readings.changed({k: ... for k in without if k != path})
        refusing = tuple(stack for stack in stacks if isinstance(other.read_as(stack), str))
        alone = part.readings.changed({path: ...}).read_as(FIRST) if refusing else ""
        if same(part.readings.read_as(FIRST), alone):  # two texts would be the same
            found[path] = refusing
    return found


@_Experiment(
    "R132",
    "note",
    "a key that not every stack reads",
    why="Stacks that do not read it rotate as if it were not there: the model runs, and is worse.",
    hint="Check that the stack that you run reads it.",
    threads=("vllm-project/vllm#46280", "vllm-project/vllm#28244", "ml-explore/mlx-lm#1507"),
)
def read_by_some(part: Subject) -> Iterator[Match]:
    """A key that Transformers reads, and without which it agrees with a stack that does not."""
    trials = [trial for trial in _trials(part) if trial.parts]
    done = {trial.key for trial in trials if FIRST not in trial.readers}  # by R130, with both keys
    for trial in trials:
        inside = {*trial.value} if isinstance(trial.value, dict) else set()
        pair = f"{trial.path.rpartition('.')[0]}: {trial.effects[FIRST]}"  # such as the mscales
        if not done & {trial.key, pair, *inside}:
            done.add(pair)
            place = _better_place(part, trial)
            hint = f"Write it as {place} as well, for {join_stacks(trial.ignoring)}."
            yield Match(trial.path, without_it(trial.effects), hint if place else "")
