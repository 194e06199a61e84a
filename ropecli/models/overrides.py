"""Overrides on top of a model: other values in the keys of its file, read again as it is read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from ropecli.errors import ArgumentError
from ropecli.models.classes import needed_keys
from ropecli.models.entries import BASE, entries, nested_entries
from ropecli.models.gguf import describe_gguf, read_gguf
from ropecli.models.gguf.metadata import Metadata
from ropecli.models.keys import CONTEXT, FULL, ORIGINAL, SHARE, SLIDING, Keys
from ropecli.models.load import describe_config, read_settings
from ropecli.models.parts import parts
from ropecli.models.refusals import accepted_types
from ropecli.models.settings import Description, Settings
from ropecli.models.stacks import find_stack
from ropecli.models.stacks.stack import Stack
from ropecli.names import join, one_of
from ropecli.numbers import length, number, positive
from ropecli.rotary.pairs import NAMED
from ropecli.rotary.types import PLAIN, ROPE_TYPES, canonical, own_parameters

#: Parameters of rope types that say something about the model, whatever its rope type is.
_OF_MODEL = (CONTEXT, ORIGINAL, SHARE, "sequence_length")
#: Parameters of rope types that only some code reads: llama.cpp and vLLM, and Phi-3.5-MoE's.
_OF_SOME_CODE = (
    *("attn_factor", "extrapolation_factor", "max_trained_positions", "short_mscale"),
    "long_mscale",
)
#: All others, which leave with the rope type that they belong to.
_OF_TYPE = frozenset(
    (*(key for name in ROPE_TYPES for key in own_parameters(name)), *_OF_SOME_CODE)
) - {*_OF_MODEL}
#: Rope types whose factor may be missing in a file.
_FACTOR_OPTIONAL = ("longrope", "proportional")
#: Facts and keys of an architecture's own rope types, which another type does not have.
_OF_CODE = ("mscales", "base_in", "base_seqlen", "training_seqlen")
_LENGTHS = (CONTEXT, "training_seqlen")  #: Of all layers of a part.


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Values that take the place of those of a model; None where the model's counts.

    Raises:
        ArgumentError: A value out of range, or no such rope type.
        ArgumentTypeError: A value of the wrong type.
    """

    base: float | None = None
    rope_type: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)  #: Of the rope type.
    context_length: int | None = None
    layout: str | None = None
    fresh: bool = False  #: Drop the parameters of the file's rope type, even where it stays.

    def __post_init__(self) -> None:
        if self.base is not None:
            positive("base", self.base)
        if self.rope_type is not None:
            object.__setattr__(self, "rope_type", canonical(self.rope_type))
        if self.context_length is not None:
            length("context", self.context_length)
        if self.layout is not None:
            one_of("layout", self.layout, NAMED)

    def __bool__(self) -> bool:
        return self != Overrides()


@dataclass(frozen=True, kw_only=True)
class Overridden:
    """A description with other values, of which `raw` is the configuration to write."""

    description: Description
    notes: tuple[str, ...] = ()  #: Layers that were changed, and values that follow from others.
    unwritable: str | None = None  #: Why no file gives these settings; None where `raw` does.


def override(
    described: Description, overrides: Overrides, *, layer: str | None = None
) -> Overridden:
    """Override values of a model.

    They are written into the keys of its configuration in the place where its values are read,
    and the result is read as a file is. Types that Transformers does not have, and a layout that
    no key gives, take effect on what was read instead.
    """
    is_gguf = described.format == "gguf"
    unwritable = "only a config.json can be written, and it is a GGUF" if is_gguf else None
    if not overrides:
        return Overridden(description=described, unwritable=unwritable)
    if described.format == "diffusers":
        raise ArgumentError(
            "only a config.json of Transformers or a GGUF can be overridden, "
            f"got {described.source}"
        )
    before = read_settings(described)
    stack = find_stack(described)
    chosen = _chosen(described, before, layer)
    kind = f"model_type {described.model_type}" if described.model_type else described.source
    change = _override_gguf if is_gguf else _override_config
    changed, foreign, notes = change(described, chosen, overrides)
    after = list(read_settings(changed))
    for old in chosen:
        place = _place(after, old)
        if foreign:
            after[place], more = _with_foreign_type(after[place], old, overrides)
            notes += more
            unwritable = f"Transformers has no rope type {overrides.rope_type} for {kind}"
        if overrides.layout not in (None, after[place].geometry.get("layout")):
            after[place] = _with_layout(after[place], overrides.layout)
            unwritable = unwritable or f"no key of the file gives the layout of {kind}"
        _check_effect(stack, after[place], old, overrides, alone=len(chosen) == 1)
    unchanged = _check_others(described, before, chosen, after)
    rotating = [settings.name for settings in before if settings.rotates]
    if len(rotating) > 1:
        changed_names = [name for name in rotating if name not in unchanged]
        others = [name for name in rotating if name in unchanged]
        note = f"overrides are for {join(changed_names)}"
        notes.insert(0, f"{note}; {join(others)} as in the file" if others else note)
    return Overridden(
        description=replace(changed, read=lambda _: tuple(after)),
        notes=tuple(dict.fromkeys(notes)),
        unwritable=unwritable,
    )


def _chosen(
    described: Description, settings: tuple[Settings, ...], layer: str | None
) -> list[Settings]:
    """Return the kinds of layers that overrides are for, all of them with a rotation."""
    if layer is None:
        rotating = [
            layer_settings
            for layer_settings in settings
            if layer_settings.rotates and not layer_settings.is_indexer
        ]
        rotating = [
            layer_settings for layer_settings in rotating if not layer_settings.part
        ] or rotating
    else:
        one_of("layer", layer, [layer_settings.name for layer_settings in settings])
        rotating = [
            layer_settings
            for layer_settings in settings
            if layer_settings.rotates and layer_settings.name == layer
        ]
    if not rotating:
        which = "" if layer is None else f" {layer}"
        raise ArgumentError(
            f"{described.source} has no layer{which} with a rotary position embedding"
        )
    return rotating


# The keys of a config.json.


def _override_config(
    described: Description, chosen: list[Settings], overrides: Overrides
) -> tuple[Description, bool, list[str]]:
    """Return the changed file, whether its rope type is still to be overridden, and notes."""
    raw = deepcopy(dict(described.raw))
    foreign, notes = False, list[str]()
    for part in parts(raw):
        kinds = [settings for settings in chosen if settings.part == part.name]
        if kinds:
            accepted = accepted_types(part.keys)
            foreign |= accepted is not None and overrides.rope_type not in (None, *accepted)
            written = replace(overrides, rope_type=None, parameters={}) if foreign else overrides
            notes += _Writer(part.keys, written).write(kinds)
    return describe_config(described.source, raw), foreign, notes


class _Writer:
    """Writes into the rotary keys of one part of a config.json, where their values are read."""

    def __init__(self, keys: Keys, overrides: Overrides) -> None:
        self._keys, self._overrides = keys, overrides
        self._config = cast("dict[str, Any]", keys.config)
        self._usual: dict[str, Any] = deepcopy(dict(keys.architecture.scaling))
        self._kinds = set(entries(keys))

    def write(self, chosen: list[Settings]) -> list[str]:
        """Write the overrides for kinds of layers, and return notes on values that follow."""
        notes: list[str] = []
        overrides = self._overrides
        if overrides.context_length is not None:
            self._config[self._name_in_file(CONTEXT)] = overrides.context_length
        for settings in chosen:
            # The name of the entry from which it is read.
            kind = settings.kind if settings.kind in self._kinds else "all"
            if overrides.base is not None:
                self._write_base(settings, kind, overrides.base)
            notes += self._write_scaling(settings, kind)
        for name in ("rope_interleave", "rotary_emb_interleaved"):  # keys of some architectures
            if overrides.layout is not None and self._keys.get(name) is not None:
                self._config[name] = overrides.layout == "interleaved"
                break
        return [*notes, *self._write_head_dim(chosen[0])]

    def _write_head_dim(self, settings: Settings) -> Iterator[str]:
        """Write the head dim for a rope type that its class does not take without the key."""
        architecture = self._keys.architecture
        needed = needed_keys(architecture.model_type, self._overrides.rope_type)
        if (
            architecture.in_transformers
            and "head_dim" in needed
            and not self._config.get("head_dim")
        ):
            self._config["head_dim"] = size = settings.geometry["head_dim"]
            rope_type = self._overrides.rope_type
            yield f"head_dim {size} is added: rope type {rope_type} needs it in this model_type"

    def _name_in_file(self, name: str) -> str:
        """Return the name under which a key is in the file, or else its newest."""
        found = self._keys.find(name)
        return name if found is None else found[0]

    @property
    def _name(self) -> str:
        """The key of the scaling keys: of those in the file, or of those to be added."""
        is_new = not self._keys.own("rope_scaling") and "rope_parameters" in self._config
        return "rope_parameters" if is_new else "rope_scaling"

    @property
    def _given(self) -> dict[str, Any]:
        return self._keys.own(self._name) or {}

    @property
    def _held(self) -> tuple[str, dict[str, Any]]:
        """The scaling keys and the key that holds them, or those of the class if there are none."""
        has_bases = self._keys.architecture.scaling_is_nested and self._keys.facts.get("bases")
        if not self._given and self._usual and not has_bases:
            return "rope_parameters", deepcopy(self._usual)
        return self._name, self._given

    def _entry(self, kind: str) -> dict[str, Any]:
        """Return the scaling keys of a kind of layer, or those to be added."""
        _, held = self._held
        entry = held.get(kind) if nested_entries(held, self._keys) else held
        return entry if isinstance(entry, dict) else self._usual.get(kind) or {"rope_type": PLAIN}

    def _write_entry(self, kind: str, entry: dict[str, Any]) -> None:
        name, held = self._held
        self._config[name] = held | {kind: entry} if nested_entries(held, self._keys) else entry

    def _write_base(self, settings: Settings, kind: str, base: float) -> None:
        for name in ("layer_rope_theta", "rope_theta"):  # one number for each layer
            listed = self._keys.own(name)
            if isinstance(listed, list) and listed:
                layers = range(len(listed)) if settings.layers is None else settings.layers
                changed = [base if old and i in layers else old for i, old in enumerate(listed)]
                self._config[name] = changed
                return
        key = self._base_key(kind)
        if key is None:
            self._write_entry(kind, self._entry(kind) | {"rope_theta": base})
        else:
            self._config[key] = base / BASE if key == "rope_ratio" else base

    def _base_key(self, kind: str) -> str | None:
        """Return the key of the part that holds a base; None if the scaling keys hold it."""
        given, own_key = self._given, self._keys.facts.get("bases", {}).get(kind)
        if (
            nested_entries(given, self._keys)
            or (given.get("rope_theta") is not None and kind in ("all", FULL))
            or (self._keys.architecture.scaling_is_nested and own_key is None)
            or (self._usual.get("rope_theta") is not None and not given)
        ):
            return None
        if own_key is not None:
            return str(own_key)
        local = ("rope_local_base_freq", "local_rope_theta") if kind == SLIDING else ()
        for name in (*local, "global_rope_theta", "rope_theta"):
            read = self._keys.find(name)
            if read is not None and read[0] in self._config:
                return "local_rope_theta" if local and name not in local else read[0]
        if self._keys.real("rope_ratio") is not None:
            return "rope_ratio"
        return None if self._name == "rope_parameters" else self._keys.read_name("rope_theta")

    def _write_scaling(self, settings: Settings, kind: str) -> list[str]:
        overrides = self._overrides
        parameters = dict(overrides.parameters)
        outer = None if settings.nested else self._keys.integer(ORIGINAL)  # read there first
        if outer is not None:
            outer = parameters.pop(ORIGINAL, outer)
        if SHARE in parameters and self._name == "rope_scaling" and SHARE not in self._given:
            self._config[self._name_in_file(SHARE)] = parameters.pop(SHARE)
        old = self._entry(kind)
        new, notes = _scale(old, settings, replace(overrides, parameters=parameters), outer)
        if outer is not None:
            self._config[ORIGINAL] = outer
        if overrides.rope_type not in (None, _type_of(settings)):
            spelled = [key for key in ("rope_type", "type") if key in old] or ["rope_type"]
            named = dict.fromkeys(spelled, overrides.rope_type)
            new = named | {key: value for key, value in new.items() if key not in spelled}
        only_names = new.keys() <= {"rope_type", "type"}
        if new != old and only_names and overrides.rope_type == PLAIN and not self._usual:
            self._config[self._name] = None
        elif new != old:
            self._write_entry(kind, new)
        return notes


def _type_of(settings: Settings) -> str:
    return canonical(str(settings.rope_type))


def _scale(
    entry: Mapping[str, Any], settings: Settings, overrides: Overrides, outer: int | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Return the scaling keys of a kind of layer with overrides, and notes on what follows.

    Another rope type drops the parameters of the old one. A type with an original context length
    keeps that of the file, which is `outer` where it counts outside the scaling keys, or else the
    context length of the file. A type that needs a factor and has none gets the ratio of the two.
    """
    changes_type = overrides.fresh or overrides.rope_type not in (None, _type_of(settings))
    rope_type = overrides.rope_type or _type_of(settings)
    own = own_parameters(rope_type)
    _check_parameters(settings, rope_type, overrides.parameters)
    dropped = _OF_TYPE if changes_type else ()
    new = {key: value for key, value in entry.items() if key not in dropped}
    new |= overrides.parameters
    notes: list[str] = []
    if not changes_type and overrides.context_length is None:
        return new, notes
    before = outer or new.get(ORIGINAL) or settings.context_length
    if ORIGINAL not in own:
        new = {key: value for key, value in new.items() if key != ORIGINAL or not changes_type}
    elif before is not None and outer is None and new.get(ORIGINAL) is None:
        new[ORIGINAL] = before
        notes.append(f"{ORIGINAL} {before:,}, the context length of the file")
    if "factor" not in own or rope_type in _FACTOR_OPTIONAL or new.get("alpha") is not None:
        return new, notes
    context = overrides.context_length or settings.context_length
    if new.get("factor") is not None:
        factor = number("factor", new["factor"])
        reach = None if before is None else factor * before
        if context is not None and reach not in (None, context):
            notes.append(f"factor {factor:g} is for {reach:,.15g} positions, not for {context:,}")
    elif context is None or before is None or context <= before:
        above = "" if before is None else f" above {before:,}"
        advice = f"pass `set` factor=F, or `context` N{above}"
        raise ArgumentError(f"rope type {rope_type} needs factor", advice)
    else:
        new["factor"] = context / before
        notes.append(f"factor {new['factor']:g}, the context length {context:,} over {before:,}")
    if rope_type == "dynamic" and overrides.context_length is not None:
        notes.append(f"rope type dynamic stretches sequences longer than {context:,} only")
    return new, notes


def _check_parameters(settings: Settings, rope_type: str, given: Mapping[str, Any]) -> None:
    """Refuse parameters that a rope type does not have, and the file neither."""
    own = [key for key in own_parameters(rope_type) if key not in (CONTEXT, "sequence_length")]
    known = {*own, SHARE}
    if rope_type == _type_of(settings):
        known |= settings.scaling.keys() - {CONTEXT, "rope_theta"}
    unknown = [key for key in given if key not in known]
    if unknown:
        where = "" if settings.name == "all" else f"layer {settings.name}: "
        msg = f"{where}rope type {rope_type} has no parameter {', '.join(unknown)}; "
        msg += f"its parameters are {', '.join(own) or 'none'}"
        raise ArgumentError(msg, "choose another with `layer`" if where else "")


# The keys of a GGUF.

#: The rope types of a GGUF, by their names here.
_GGUF_TYPES = {PLAIN: "none", "linear": "linear", "yarn": "yarn"}
#: Parameters of rope types that a GGUF has.
_GGUF_KEYS = {
    "factor": "rope.scaling.factor",
    ORIGINAL: "rope.scaling.original_context_length",
    "beta_fast": "rope.scaling.yarn_beta_fast",
    "beta_slow": "rope.scaling.yarn_beta_slow",
}
_GGUF_BASES = {SLIDING: "rope.freq_base_swa", "compress": "attention.compress_rope_freq_base"}


def _override_gguf(
    described: Description, chosen: list[Settings], overrides: Overrides
) -> tuple[Description, bool, list[str]]:
    """Do the same for the metadata of a GGUF, as llama.cpp's own options change it."""
    file = read_gguf(Path(described.source))
    keys, values = Metadata(file), dict[str, Any]()
    if overrides.base is not None:
        for settings in chosen:
            values[_GGUF_BASES.get(settings.name, "rope.freq_base")] = float(overrides.base)
    if overrides.context_length is not None:
        values["context_length"] = overrides.context_length
    notes: list[str] = []
    named = keys.get("rope.scaling.type") == "yarn"
    if overrides.rope_type is not None or overrides.parameters or named:
        entry = {key: value for key, name in _GGUF_KEYS.items() if (value := keys.get(name))}
        new, notes = _scale(entry, chosen[0], overrides)
        foreign = [key for key in new if key not in _GGUF_KEYS]
        if overrides.rope_type not in (None, *_GGUF_TYPES):
            foreign.insert(0, f"rope type {overrides.rope_type}")
        if foreign:
            known = f"{', '.join(_GGUF_TYPES)} with {', '.join(_GGUF_KEYS)}"
            raise ArgumentError(f"a GGUF has rope types {known}, got {', '.join(foreign)}")
        for key, name in _GGUF_KEYS.items():
            value = new.get(key)
            values[name] = float(value) if type(value) is int and key != ORIGINAL else value
        if overrides.rope_type is not None:
            values["rope.scaling.type"] = _GGUF_TYPES[overrides.rope_type]
    merged = {**file.metadata, **{keys.key(name): value for name, value in values.items()}}
    metadata = {key: value for key, value in merged.items() if value is not None}
    return describe_gguf(replace(file, metadata=metadata)), False, notes


# What no key of a file gives.


def _with_foreign_type(
    settings: Settings, old: Settings, overrides: Overrides
) -> tuple[Settings, list[str]]:
    """Return settings with a rope type that their file cannot name."""
    scaling, notes = _scale(old.scaling, old, overrides)
    scaling |= {"rope_theta": settings.scaling["rope_theta"], CONTEXT: settings.context_length}
    return replace(
        settings,
        rope_type=overrides.rope_type,
        scaling={key: value for key, value in scaling.items() if key not in _OF_CODE},
        original_context_length=scaling.get(ORIGINAL),
        facts={key: value for key, value in settings.facts.items() if key not in _OF_CODE},
        softmax=None,
        refused=None,
    ), notes


def _with_layout(settings: Settings, layout: str) -> Settings:
    """Return settings with a layout."""
    if "pairs_in" in settings.geometry:
        raise ArgumentError(
            f"layer {settings.name} has pairs that are not in one layout, got layout {layout}"
        )
    geometry = {key: value for key, value in settings.geometry.items() if key != "output"}
    return replace(settings, geometry=geometry | {"layout": layout})


# The effect.


def _place(after: list[Settings], old: Settings) -> int:
    """Return the index of a kind of layer, whose name may go by its base."""
    places = [i for i, settings in enumerate(after) if settings.name == old.name] or [
        i
        for i, settings in enumerate(after)
        if settings.part == old.part and settings.rotates
        if settings.layers is None or set(old.layers or ()) <= set(settings.layers)
    ]
    if not places:
        raise ArgumentError(f"layer {old.name} cannot be told from others with these values")
    return places[0]


def _check_effect(
    stack: Stack, settings: Settings, old: Settings, overrides: Overrides, *, alone: bool
) -> None:
    """Refuse a value that the architecture does not read from its file for a kind of layer."""
    rotary = stack.rotary(settings, None)
    base = rotary.base if rotary.formula is None else rotary.formula["base"]
    if overrides.base is not None and math.isclose(base or 0, overrides.base, rel_tol=1e-15):
        base = overrides.base
    used = {"base": base, "rope_type": rotary.rope_type, "context": settings.context_length}
    given = (overrides.base, overrides.rope_type, overrides.context_length)
    wanted: dict[str, Any] = {k: v for k, v in zip(used, given, strict=True) if v is not None}
    read = {**settings.geometry, **settings.scaling, **used}
    for name, value in {**wanted, **overrides.parameters}.items():
        if read.get(name) != value:
            shown, got = (f"{v:g}" if isinstance(v, float) else v for v in (value, read.get(name)))
            what = name.replace("_", " ", 1)
            raise ArgumentError(
                f"layer {old.name} takes no {what} {shown} from its file: it has {what} {got}",
                f"leave `{name if name in wanted else 'set'}` out"
                if alone
                else "choose one with `layer`",
            )


def _check_others(
    described: Description,
    before: tuple[Settings, ...],
    chosen: list[Settings],
    after: list[Settings],
) -> set[str]:
    """Refuse values that reach other layers, indexers apart, and return the layers that stay."""

    def rotation(settings: Settings) -> tuple[Any, ...]:
        scaling = {key: v for key, v in settings.scaling.items() if key not in _LENGTHS}
        return settings.rope_type, dict(settings.geometry), scaling

    rotations = {layer_settings.name: rotation(layer_settings) for layer_settings in after}
    others = [layer_settings for layer_settings in before if layer_settings not in chosen]
    unchanged = {
        layer_settings.name
        for layer_settings in others
        if rotations.get(layer_settings.name) == rotation(layer_settings)
    }
    for other in others:
        if other.name not in unchanged and not other.is_indexer:
            names = join([*(layer_settings.name for layer_settings in chosen), other.name])
            raise ArgumentError(
                f"layers {names} of {described.source} share the keys of these values",
                "leave `layer` out",
            )
    return unchanged
