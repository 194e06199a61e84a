"""The reading of mlx-lm, which starts from its model classes: mlx_lm.toml has their facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from ropecli.errors import ArgumentError, NoRotaryError
from ropecli.models.keys import FULL, MOST_LAYERS, ORIGINAL, SLIDING, check_kind_count
from ropecli.models.settings import Description, Settings
from ropecli.models.stacks.build import build, score_factor
from ropecli.models.stacks.stack import Stack
from ropecli.models.tables import read_table
from ropecli.names import quote
from ropecli.numbers import at_least, length, number, positive
from ropecli.rotary import Rotary
from ropecli.rotary.factors import Temperature, longrope_factor, mscale

table = partial(read_table, __file__)  #: As it is written.

VERSION = "0.32.2"
NOPE, ROPE = "nope", "rope"
#: What every class does for a type, unless its facts say otherwise.
_TYPES = {
    "default": "default",
    "linear": "linear",
    "dynamic": "dynamic",
    "llama3": "llama3",
    "yarn": "yarn",
    "deepseek_yarn": "yarn",
    "telechat3-yarn": "yarn",
    "longrope": "longrope",
    "proportional": "proportional",
    "mrope": "mrope",
}


def read(described: Description) -> tuple[Settings, ...]:
    """Return what the model class reads from a file; mlx-lm runs its text only."""
    if described.format != "config.json":
        raise ArgumentError(f"mlx-lm reads a config.json, got {described.format}")
    model = _find_class(described.raw)
    kinds_of_layers = _kinds(model)
    check_kind_count(kinds_of_layers)
    every = [_settings(model.kind(kind), kind) for kind in kinds_of_layers]
    for name, facts in model.facts.get("extra", {}).items():
        every.append(_settings(model.kind(kinds_of_layers[0]).with_facts(facts), _Kind(name=name)))
    return tuple(every)


def rotary(settings: Settings, sequence_length: int | None) -> Rotary:
    """The rotation of mlx-lm. The base of dynamic NTK is that of each call's length."""
    return build(settings, settings.rope_type, settings.scaling, sequence_length)


MLX_LM = Stack(name="mlx-lm", version=VERSION, rotary=rotary, read=read)


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """One kind of layer."""

    name: str
    label: str = FULL  #: What the file, or a rule, calls these layers.
    layers: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class _Class:
    """A model class with its arguments: the keys of a file, else the defaults of the class."""

    name: str
    facts: Mapping[str, Any]
    given: Mapping[str, Any]  #: The keys of the file.

    def get(self, path: str) -> Any:
        """Return the argument of a key; of "a.b", the key b in the object a."""
        key, _, inner = path.partition(".")
        default = self.facts.get("defaults", {}).get(key)
        value = self.given.get(key, default)
        if not inner:
            return value
        return value.get(inner) if isinstance(value, Mapping) else None

    def find(self, fact: str, usual: Any = None) -> tuple[Any, str | None]:
        """Return the value of a fact that is a key, a number or a list of these, and the key."""
        choices = self.facts.get(fact, usual)
        for choice in choices if isinstance(choices, list) else [choices]:
            if not isinstance(choice, str):
                return choice, None
            value = self._quotient(choice) if " // " in choice else self.get(choice)
            if value is not None:
                return value, choice
        return None, None

    def value(self, fact: str, usual: Any = None) -> Any:
        """Return the value of such a fact."""
        return self.find(fact, usual)[0]

    def kind(self, kind: _Kind) -> _Class:
        """Return the class as the layers of one kind use it."""
        given = dict(self.given)
        if self.facts.get("nested"):
            objects = self.get("rope_parameters")
            given["rope_parameters"] = (
                objects.get(kind.label) if isinstance(objects, Mapping) else None
            )
        for key in self.facts.get("per_layer", ()):
            if isinstance(values := self.get(key), list):
                first = kind.layers[0] if kind.layers else 0
                given[key] = values[first] if first < len(values) else None
        names = self.facts.get("kinds", {})
        facts = dict(names.get(kind.name, names.get(kind.label, {})))
        scaled = self.get(self.facts["scaled"]) if "scaled" in self.facts else None
        if scaled and kind.label not in scaled:
            facts["scaling"] = None
        return _Class(name=self.name, facts=self.facts, given=given).with_facts(facts)

    def with_facts(self, facts: Mapping[str, Any]) -> _Class:
        """Return the class with some facts replaced."""
        return _Class(name=self.name, facts={**self.facts, **facts}, given=self.given)

    def _quotient(self, rule: str) -> int | None:
        names = rule.split(" // ")
        values = [self.get(name) for name in names]
        if None in values:
            return None
        size, divisor = (at_least(n, v, 1) for n, v in zip(names, values, strict=True))
        return size // divisor


def refuse(what: str) -> NoReturn:
    """Raise the error for a file that mlx-lm refuses."""
    raise ArgumentError(f"mlx-lm {VERSION} refuses this file: {what}")


def _find_class(keys: Mapping[str, Any], *, name: str | None = None) -> _Class:
    """Return the model class of a file that reads its text."""
    model_type = keys.get("model_type")
    if name is None:
        name = model_type if isinstance(model_type, str) else ""
        class_facts = table()["architectures"].get(name, {})
        named = keys.get("architectures")
        named = named if isinstance(named, list) else []
        matches = [
            class_facts[node] for node in named if isinstance(node, str) and node in class_facts
        ]
        name = matches[0] if matches else table()["models"].get(name, name)
    facts = table()["classes"].get(name)
    if facts is None:
        refuse(f"it has no model class for model_type {quote(model_type)}")
    missing = [key for key in facts.get("requires", ()) if key not in keys]
    if missing:
        refuse(f"its class {name} needs {', '.join(missing)}")
    either = facts.get("either")
    if either and all(keys.get(key) is None for key in either):
        refuse(f"its class {name} needs {' or '.join(either)}, and not null")
    for key, only in facts.get("only", {}).items():
        if keys.get(key, only) != only:
            refuse(f"{key} must be {str(only).lower()} in its class {name}")
    model = _Class(name=name, facts=facts, given=keys)
    inner = facts.get("text")
    if inner is not None:
        text = keys.get("text_config")
        if not isinstance(text, Mapping):
            if not facts.get("text_or_top"):
                refuse("text_config must be an object")
            text = keys
        if isinstance(inner, Mapping):
            inner = inner.get(str(text.get("model_type")), inner["*"])
        text = {**facts.get("text_defaults", {}), **text}
        if inner != name:
            return _find_class(text, name=inner)
        model = _Class(name=name, facts=facts, given=text)
    off = facts.get("none_where", {})
    if facts.get("none") or any(model.get(key) == value for key, value in off.items()):
        raise NoRotaryError(f"no rotary position embedding: the class {name} of mlx-lm has none")
    return model


def _kinds(model: _Class) -> list[_Kind]:
    """Return the kinds of layers, in the order of the layers."""
    labels = _labels(model)
    values = _values_by_layer(model)
    if labels is None:
        if len(set(values)) < 2:
            return [_Kind(name="all")]
        labels = [FULL] * len(values)
    names = model.facts.get("names", {})
    by_kind: dict[tuple[str, tuple[str, ...]], tuple[str, list[int]]] = {}
    for i, label in enumerate(labels):
        name = names.get(label, names.get("*", label))
        by_kind.setdefault((name, values[i] if i < len(values) else ()), (label, []))[1].append(i)
    if [name for name, _ in by_kind] in ([ROPE], ["all"]):
        return [_Kind(name="all", label=labels[0])]
    kinds_of_layers: list[_Kind] = []
    for (name, _), (label, layers) in by_kind.items():
        same = sum(kind.label == label for kind in kinds_of_layers)
        own = f"{name}-{same + 1}" if same else name
        kinds_of_layers.append(_Kind(name=own, label=label, layers=tuple(layers)))
    return kinds_of_layers


def _values_by_layer(model: _Class) -> list[tuple[str, ...]]:
    """Return the values of each layer under the keys that may have a list of them, as text."""
    lists = [model.get(key) for key in model.facts.get("per_layer", ())]
    texts = [[repr(value) for value in each] for each in lists if isinstance(each, list)]
    return list(zip(*texts, strict=False))


def _labels(model: _Class) -> list[str] | None:
    """Return the label of each layer; None where nothing distinguishes them."""
    rule = model.facts.get("labels")
    if rule is None:
        return None
    given = model.get(rule["key"]) if "key" in rule else None
    count = model.get("num_hidden_layers")
    if count is not None:
        count = at_least("num_hidden_layers", count, 1)
        if count > MOST_LAYERS:
            raise ArgumentError(f"num_hidden_layers must be at most {MOST_LAYERS}, got {count}")
    if isinstance(given, str) and given:
        _check_present(rule, list(given))
        return [given[i % len(given)] for i in range(count or len(given))]
    if isinstance(given, list) and given:
        labels = [label if isinstance(label, str) else str(int(bool(label))) for label in given]
        _check_present(rule, labels)
        if rule.get("exact") and count not in (None, len(labels)):
            refuse(f"{rule['key']} must have {count} entries, got {len(labels)}")
        labels = labels[: count or len(given)]
        if count is not None and len(labels) < count:
            if "rest" not in rule:
                refuse(f"{rule['key']} must have {count} entries, got {len(labels)}")
            labels += [rule["rest"]] * (count - len(labels))
        return None if "needs" in rule and rule["needs"] not in labels else labels
    if "every" not in rule and given:
        refuse(f"{rule['key']} must be a list or a string, got {quote(given)}")
    if "rest" in rule:
        return [rule["rest"]] * (count or 1)
    if "every" not in rule:
        return None
    period = rule["every"]
    if isinstance(period, str):
        period = at_least(period, model.get(period), 1)
    other = rule.get("other", SLIDING)
    return [other if (i + 1) % period else FULL for i in range(count or min(period, MOST_LAYERS))]


def _check_present(rule: Mapping[str, Any], labels: list[str]) -> None:
    missing = [label for label in rule.get("present", ()) if label not in labels]
    if missing:
        refuse(f"{rule['key']} must have {' and '.join(missing)} in it")


def _settings(model: _Class, kind: _Kind) -> Settings:
    """Return the settings of one kind of layer."""
    context = model.get("max_position_embeddings")
    context = None if context is None else length("max_position_embeddings", context)
    if kind.name == NOPE:
        return Settings(
            name=NOPE,
            rope_type=None,
            context_length=context,
            layers=kind.layers,
            temperature=_nope_temperature(model),
        )
    base, key = model.find("base", "rope_theta")
    if base is None:
        refuse(f"its class {model.name} needs {_first(model.facts.get('base', 'rope_theta'))}")
    entry = model.value("scaling")
    if entry is not None and not isinstance(entry, Mapping):
        refuse(f"{model.facts['scaling']} must be an object, got {quote(entry)}")
    if entry is not None and "fallback" in model.facts:
        entry = {**model.facts["fallback"], **entry}
    geometry = _geometry(model)
    rope_type, scaling = _scaling(model, entry, geometry)
    if rope_type == "longrope":  # one class for all of them, which has the half layout only
        geometry["layout"] = "half"
    if model.facts.get("softmax") and entry and (k := entry.get("mscale_all_dim")):
        k = number("mscale_all_dim", k)
        geometry["softmax_factor"] = score_factor(_get(entry, "factor"), "mscale_all_dim", k)
    original = scaling.get(ORIGINAL)
    window = model.get("sliding_window") if kind.name == SLIDING else None
    return Settings(
        name=kind.name,
        rope_type=rope_type,
        geometry=geometry,
        scaling={"rope_theta": positive("rope_theta", base), **scaling},
        context_length=context,
        original_context_length=original,
        window=window if isinstance(window, int) and window > 0 else None,
        temperature=_temperature(model, entry),
        layers=kind.layers,
        assumed=_assumptions(model, base, key),
    )


def _first(choices: Any) -> str:
    return str(choices[0] if isinstance(choices, list) else choices)


def _assumptions(model: _Class, base: float, key: str | None) -> tuple[str, ...]:
    """Return a sentence for a base that is not the file's, and for keys that stay unread."""
    notes = []
    if key is None:
        notes.append(f"base {base:g}: the class {model.name} of mlx-lm fixes it")
    elif key.partition(".")[0] not in model.given:
        notes.append(f"base {base:g}: the class {model.name} of mlx-lm has it for want of {key}")
    for name in ("rope_scaling", "rope_parameters"):
        paths = [model.facts.get(fact) for fact in ("scaling", "base", "share")]
        read = any(str(path).find(name) >= 0 for path in paths)
        if model.given.get(name) and not read:
            notes.append(f"{name} is not read: the class {model.name} of mlx-lm has no such key")
    return tuple(notes)


def _geometry(model: _Class) -> dict[str, Any]:
    """Return the place of the rotation in a head, as `ropecli.rope` has it."""
    interleaved = model.facts.get("interleaved", False)
    if not isinstance(interleaved, bool):
        interleaved = model.value("interleaved")
    facts: dict[str, Any] = {"layout": "interleaved" if interleaved else "half"}
    if "direction" in model.facts:
        facts["direction"] = model.facts["direction"]
    if model.facts.get("latent"):
        latent = at_least("qk_rope_head_dim", model.get("qk_rope_head_dim"), 1)
        before = at_least("qk_nope_head_dim", model.get("qk_nope_head_dim"), 0)
        place = {"head_dim": before + latent, "rotary_dim": latent, "rotary_offset": before}
        return facts | place
    head_dim = at_least("head_dim", model.value("head_dim", "head_dim"), 1)
    facts["head_dim"] = head_dim
    rotated: int | None = model.value("rotary_dim")
    share = model.value("share")
    if rotated is None and share is not None:
        rotated = int(head_dim * positive("partial_rotary_factor", share))
    if rotated is not None and rotated != head_dim:
        facts["rotary_dim"] = at_least("rotary_dim", rotated, 1)
        if model.facts.get("trailing"):
            facts["rotary_offset"] = head_dim - rotated
    return facts


def _scaling(
    model: _Class, entry: Mapping[str, Any] | None, geometry: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the rope type and its parameters."""
    if entry is None or not (entry or "fallback" in model.facts):
        if model.facts.get("needs_scaling"):
            refuse(f"its class {model.name} needs {_first(model.facts['scaling'])}")
        scale = model.value("position_scale", 1.0)
        return (
            ("default", {}) if scale == 1 else ("linear", {"factor": 1 / positive("scale", scale)})
        )
    missing = [key for key in model.facts.get("needs", ()) if key not in entry]
    if missing:
        refuse(f"{_first(model.facts['scaling'])} needs {', '.join(missing)}")
    kind = _type(model, entry)
    parameters = _parameters(kind, model, entry, geometry)
    return {"mrope": "default", "alpha": "dynamic"}.get(kind, kind), parameters


def _type(model: _Class, entry: Mapping[str, Any]) -> str:
    """Return what the class does for the type that the file gives."""
    types = model.facts.get("types", _TYPES)
    if set(types) == {"*"}:
        return str(types["*"])
    key = model.facts.get("type_key")
    if key is None:
        given = entry.get("type") or entry.get("rope_type", "default")
    else:
        given = entry.get(key, "default" if "default" in types else None)
    rope_type = types.get(given) if isinstance(given, str) else None
    if rope_type is None:
        rope_type = types.get("*") if key is None or key in entry else None
    if rope_type is None:
        refuse(f"{key or 'rope_type'} {quote(given)} is not one of {', '.join(types)}")
    return str(rope_type)


def _parameters(
    kind: str, model: _Class, entry: Mapping[str, Any], geometry: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parameters of what the class does, from its scaling keys and place in the head."""
    parameters: dict[str, Any] = {}
    match kind:
        case "linear":
            factor = entry.get("factor")
            if model.facts.get("float_factor") and not isinstance(factor, float):
                refuse(f"factor must be written with a decimal point, got {quote(factor)}")
            parameters = {"factor": _get(entry, "factor")}
        case "dynamic":
            parameters = {
                "factor": _get(entry, "factor"),
                "max_position_embeddings": _context(model),
            }
        case "alpha":
            parameters = {"alpha": _get(entry, "alpha")}
        case "mrope":
            section = entry.get("mrope_section", [])
            if not isinstance(section, list) or len(section) != 3:
                refuse(f"mrope_section must have three entries, got {quote(section)}")
        case "llama3":
            parameters = {
                "factor": _get(entry, "factor"),
                "low_freq_factor": _get(entry, "low_freq_factor", 1.0),
                "high_freq_factor": _get(entry, "high_freq_factor", 4.0),
                ORIGINAL: _original(model, entry, 8192),
            }
        case "proportional":
            dim = geometry["head_dim"]
            share = number("partial_rotary_factor", entry.get("partial_rotary_factor", 1.0))
            pairs = (int(dim * share) + 1) // 2
            parameters = {
                "partial_rotary_factor": 2 * pairs / dim,
                "factor": _get(entry, "factor", 1.0),
            }
        case "yarn":
            parameters = _yarn(model, entry)
        case "longrope":
            parameters = _longrope(model, entry, geometry)
    return parameters


def _yarn(model: _Class, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return YaRN's parameters: the ramp's ends are rounded, and a lone mscale counts."""
    factor = _get(entry, "factor")
    usual = {"mscale": 1.0, "mscale_all_dim": 0.0}
    k, k_all_dim = (number(key, entry.get(key, value)) for key, value in usual.items())
    attention = model.value("attention_factor")
    if attention is None:
        attention = mscale(factor, k) / mscale(factor, k_all_dim)
    return {
        "factor": factor,
        ORIGINAL: _original(model, entry, 4096),
        "beta_fast": _get(entry, "beta_fast", 32.0),
        "beta_slow": _get(entry, "beta_slow", 1.0),
        "truncate": True,
        "attention_factor": attention,
    }


def _longrope(
    model: _Class, entry: Mapping[str, Any], geometry: Mapping[str, Any]
) -> dict[str, Any]:
    """Return LongRoPE's parameters: the long list at every length, and its factor is not read."""
    pairs = geometry.get("rotary_dim", geometry["head_dim"]) // 2
    for key in ("short_factor", "long_factor"):
        if key not in entry:
            refuse(f"longrope needs {key}")
    factors = entry["long_factor"]
    if not isinstance(factors, list):
        factors = [number("long_factor", factors)] * pairs
    original = _original(model, entry, None)
    factor = _context(model) / original
    return {
        "short_factor": factors,
        "long_factor": factors,
        ORIGINAL: original,
        "attention_factor": model.value("attention_factor") or longrope_factor(factor, original),
    }


def _original(model: _Class, entry: Mapping[str, Any], usual: int | None) -> int:
    value = model.value("original") if "original" in model.facts else entry.get(ORIGINAL, usual)
    if value is None:
        refuse(f"{_first(model.facts.get('scaling'))} needs {ORIGINAL}")
    return length(ORIGINAL, value)


def _context(model: _Class) -> int:
    """Return the context length that the class hands to the scaling."""
    if model.facts.get("context") is False:
        refuse(f"its class {model.name} hands no context length to the scaling")
    value = model.get("max_position_embeddings")
    if value is None:
        refuse("the scaling needs max_position_embeddings")
    return length("max_position_embeddings", value)


def _get(entry: Mapping[str, Any], key: str, usual: float | None = None) -> float:
    """Return a scaling key, above 0; null is not the default."""
    if key not in entry and usual is None:
        refuse(f"the scaling needs {key}")
    value = entry.get(key, usual)
    return value if isinstance(value, float) and value > 0 else positive(key, value)


def _temperature(model: _Class, entry: Mapping[str, Any] | None) -> Temperature | None:
    """Return the temperature of Ministral 3, which every layer has."""
    if model.facts.get("temperature") != "all" or entry is None:
        return None
    beta = number("llama_4_scaling_beta", entry["llama_4_scaling_beta"])
    original = positive("original length", entry[ORIGINAL])
    return Temperature(beta=beta, length=original) if beta else None


def _nope_temperature(model: _Class) -> Temperature | None:
    """Return Llama 4's temperature, which its layers without position have."""
    if model.facts.get("temperature") != NOPE or not model.get("attn_temperature_tuning"):
        return None
    scale, floor = (model.get(key) for key in ("attn_scale", "floor_scale"))
    return Temperature(
        beta=number("attn_scale", scale), length=positive("floor_scale", floor), shift=1
    )
