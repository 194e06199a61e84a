"""The header of the GGUF that llama.cpp's converter writes for a config.json.

Only what is about positions. What the converter leaves out, such as a share of the head, a rope
type or YaRN's bounds, llama.cpp does not know of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import as_real
from ropecli.errors import ArgumentError
from ropecli.models.entries import BASE, entries
from ropecli.models.gguf.reader import GgufFile, TensorInfo, Value
from ropecli.models.gguf.settings import FREQS, LONG, SHORT
from ropecli.models.keys import FULL, MOST_LAYERS, ORIGINAL, SLIDING
from ropecli.models.layers import dense_layers, layer_pattern
from ropecli.models.parts import Part
from ropecli.models.tables import read_table
from ropecli.names import quote
from ropecli.numbers import number, positive
from ropecli.rotary.factors import longrope_factor

table = partial(read_table, __file__)  #: As it is written.

_SUFFIX = re.compile("(ForCausalLM|ForConditionalGeneration|LMHeadModel|Model)$")
_STOPPED = 1e30  #: A divisor that stops a pair.
_BOTH = ("base", "scaling")
#: Keys whose numbers are floating-point, whatever they are in a config.json.
_REALS = (
    "attention.temperature_scale",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.alpha",
    "attention.compress_rope_freq_base",
    *(f"rope.scaling.{name}" for name in ("attn_factor", "factor", "yarn_log_multiplier")),
    *(
        f"rope.scaling.yarn_{name}"
        for name in ("attn_factor", "beta_fast", "beta_slow", "ext_factor")
    ),
)
#: Keys of YaRN by their names in a GGUF. An attention factor has two names in a config.json.
_YARN = {
    "ext_factor": ("extrapolation_factor",),
    "attn_factor": ("attention_factor", "attn_factor"),
    "beta_fast": ("beta_fast",),
    "beta_slow": ("beta_slow",),
}


def entry_name(part: Part, config: Mapping[str, Any]) -> str | None:
    """Return the name of a text model's entry; None where the table has none.

    The converter goes by the first class of architectures, the text model's or else the file's,
    and not by model_type. Classes are named as model types are, all but those that an entry lists.
    """
    classes = part.keys.config.get("architectures") or config.get("architectures")
    first = classes[0] if isinstance(classes, list) and classes else None
    if isinstance(first, str):
        plain = _SUFFIX.sub("", first)
        named = (n for n in table() if plain != first and _join(n) == _join(plain))
        listed = (name for name, facts in table().items() if first in facts.get("classes", ()))
        own = next(listed, None) or next(named, None)
        if own is not None:
            return own
    model_type = part.keys.architecture.model_type
    return model_type if model_type in table() else None


def _join(name: str) -> str:
    return name.removesuffix("_text").replace("_", "").replace("-", "").lower()


@dataclass(frozen=True, kw_only=True, eq=False)
class Converted(GgufFile):
    """A GGUF that is not on a disk."""

    values: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)  #: Of each tensor.

    def tensor(self, name: str) -> NDArray[np.float64]:
        """Return the elements of a tensor."""
        return self.values[name]


def convert(part: Part, name: str, source: str, head_dims: Mapping[str, int]) -> Converted:
    """Return the GGUF of the text model of a config.json."""
    writing = _Writing(part, table()[name], head_dims)
    writing.write()
    return Converted(
        path=Path(source),
        version=3,
        order="<",
        metadata=writing.metadata,
        tensors={
            name: TensorInfo(name=name, shape=values.shape, type=0, offset=0)
            for name, values in writing.tensors.items()
        },
        data_offset=0,
        values=writing.tensors,
    )


class _Writing:
    """The keys and tensors of one GGUF while they are written."""

    def __init__(self, part: Part, facts: Mapping[str, Any], head_dims: Mapping[str, int]) -> None:
        self.keys, self.facts, self.head_dims = part.keys, facts, head_dims
        self.metadata: dict[str, Value] = {"general.architecture": facts["arch"]}
        self.tensors: dict[str, NDArray[np.float64]] = {}
        entries_by_type = entries(part.keys)
        self.entry: Mapping[str, Any] = entries_by_type.get(FULL, entries_by_type.get("all")) or {}
        if facts.get("flat"):
            given = part.keys.own("rope_scaling") or {}
            self.entry = {
                "rope_theta": part.keys.real("rope_theta"),
                "rope_type": given.get("type", "default"),
                **given,
            }
        self.local: Mapping[str, Any] = entries_by_type.get(SLIDING) or {}
        self.context = part.keys.integer("max_position_embeddings")
        first = next(iter(head_dims.values()))
        self.head_dim = head_dims.get(FULL, first)
        self.rope_type = str(self.entry.get("rope_type", "default"))

    def add(self, name: str, value: Value | None) -> None:
        """Write a key that has a value; numbers of rope.scaling as the writer does."""
        if isinstance(value, int) and not isinstance(value, bool) and name in _REALS:
            value = number(name, value)
        if value is not None:
            self.metadata[f"{self.facts['arch']}.{name}"] = value

    def write(self) -> None:
        """Write everything."""
        keys = self.keys
        self.add("block_count", keys.integer("num_hidden_layers"))
        self.add("context_length", self.context)
        self.add("embedding_length", keys.integer("hidden_size"))
        self.add("attention.head_count", keys.integer("num_attention_heads"))
        writes = self.facts.get("writes", _BOTH)
        if "scaling" in writes:
            self._scaling()
        sections = self._sections or self.facts.get("sections")
        if isinstance(sections, list | tuple) and all(isinstance(n, int) for n in sections):
            self.add("rope.dimension_sections", (*sections, 0, 0, 0, 0)[:4])
        if "base" in writes:
            self.add("rope.freq_base", self._base())
            self.add("rope.freq_base_swa", self.local.get("rope_theta"))
        self._heads()
        self._layers()
        self._tensors()

    @property
    def _original(self) -> int | None:
        """The original length: Phi-3's is at the top level, that of others among the keys."""
        inner = self.entry.get(ORIGINAL)
        outer = self.keys.integer(ORIGINAL)
        phi = self.facts.get("tensors") == "phi3"
        original = (outer or inner if phi else inner or outer) or self.context
        return None if original is None else int(number(ORIGINAL, original))

    @property
    def _sections(self) -> list[int] | None:
        names = (
            ("xdrope_section", "mrope_section") if self.facts.get("xdrope") else ("mrope_section",)
        )
        return next((self.entry[name] for name in names if self.entry.get(name)), None)

    def _base(self) -> float | None:
        base: float | None = self.entry.get("rope_theta")
        if base is None and self.keys.architecture.in_transformers:
            base = BASE
        if self.facts.get("base") == "rope_ratio":
            base = BASE * (self.keys.config.get("rope_ratio") or 1.0)
        usual = self.facts.get("alpha")
        if base is None or usual is None or self.rope_type != "dynamic":
            return base
        if self.facts.get("xdrope") and self._sections is not None:
            alpha = self._require("alpha", self.entry, "rope_scaling.alpha")
            self.add("rope.scaling.alpha", number("alpha", alpha))
            return base
        alpha = positive("alpha", self.entry.get("alpha") or usual)
        return float(base * alpha ** (self.head_dim / (self.head_dim - 2)))

    def _require(self, name: str, given: Mapping[str, Any], path: str) -> Any:
        """Return a value without which the converter fails."""
        if given.get(name) is None:
            kind = quote(self.keys.architecture.model_type)
            raise ArgumentError(f"the conversion of model_type {kind} to a GGUF needs {path}")
        return given[name]

    def _scaling(self) -> None:
        scaling_type, factor = self.facts.get("scaling"), self.entry.get("factor")
        if self.rope_type == "linear" and factor is not None:
            self.add("rope.scaling.type", "linear")
            self.add("rope.scaling.factor", factor)
        elif self.rope_type == "yarn" and factor is not None:
            self.add("rope.scaling.type", "yarn")
            self.add("rope.scaling.factor", factor)
            self.add("rope.scaling.original_context_length", self._original)
            for name, given in _YARN.items():
                value = next((self.entry[k] for k in given if self.entry.get(k) is not None), None)
                self.add(f"rope.scaling.yarn_{name}", value)
        elif self.rope_type in ("su", "longrope"):
            self.add("rope.scaling.type", "longrope")
        if scaling_type == "linear or none":
            scaling_type = "none" if factor is None else "linear"
            self.add("rope.scaling.factor", factor)
        self.add("rope.scaling.type", scaling_type)
        multiplier, k_all_dim = self.facts.get("log_multiplier"), self.entry.get("mscale_all_dim")
        if multiplier is not None and k_all_dim is not None:
            self.add(
                "rope.scaling.yarn_log_multiplier", multiplier * number("mscale_all_dim", k_all_dim)
            )
        if self.facts.get("temperature"):
            self.add("attention.temperature_scale", self.entry.get("llama_4_scaling_beta"))
            self.add("attention.temperature_length", self._original)

    def _heads(self) -> None:
        keys, count = self.keys, self.facts.get("count")
        rope_dim = keys.integer("qk_rope_head_dim", least=0)
        if count == "latent" and rope_dim is not None:
            rank = keys.integer("kv_lora_rank")
            self.add("attention.key_length", self.head_dim if rank is None else rank + rope_dim)
            self.add("attention.key_length_mla", self.head_dim)
            self.add("attention.key_length_mla_swa", self.head_dims.get(SLIDING))
            self.add("rope.dimension_count", rope_dim)
            return
        self.add("attention.key_length", self.head_dim)
        if count == "rope":
            self.add("rope.dimension_count", rope_dim)
        local_dim = self.head_dims.get(SLIDING, self.head_dim)
        if local_dim != self.head_dim:
            self.add("attention.key_length_swa", local_dim)
        if count == "head":
            self.add("rope.dimension_count", self.head_dim)
            if local_dim != self.head_dim:
                self.add("rope.dimension_count_swa", local_dim)
        elif count == "rotary_pct":  # without another name, or a default
            share = number(count, self._require(count, keys.config, count))
            self.add("rope.dimension_count", _rotated_dim(self.head_dim, share))
        elif count == "share":
            self.add("rope.dimension_count", _rotated_dim(self.head_dim, self._share(self.entry)))
            if self.local.get("partial_rotary_factor") is not None:
                rotated = _rotated_dim(local_dim, self._share(self.local))
                self.add("rope.dimension_count_swa", rotated)

    def _share(self, entry: Mapping[str, Any]) -> float:
        given = entry.get("partial_rotary_factor")
        given = self.keys.real("partial_rotary_factor") if given is None else given
        rotary_dim = self.keys.integer("rotary_dim")
        if given is None and rotary_dim is not None:
            return rotary_dim / self.head_dim
        return float(self.facts.get("share", 1.0) if given is None else given)

    def _layers(self) -> None:
        keys = self.keys
        count = keys.integer("num_hidden_layers", most=MOST_LAYERS) or 0
        types = keys.per_layer("layer_types") or layer_pattern(keys, count)
        # Its length does not matter here: a default of Transformers counts as 1.
        usual = 1 if self.facts.get("window") is True else None
        window = keys.config.get(self.facts.get("window_key", "sliding_window"), usual)
        if self.facts.get("window") and isinstance(window, int):
            self.add("attention.sliding_window", int(window))
            if self.facts.get("pattern") and types:
                flags = tuple(kind == SLIDING for kind in types)
                self.add("attention.sliding_window_pattern", flags)
        if "period_key" in self.facts:
            self.add("attention.sliding_window_pattern", keys.integer(self.facts["period_key"]))
        if self.facts.get("dense"):
            self.add("leading_dense_block_count", dense_layers(keys))
        if self.facts.get("rope_pattern") and keys.per_layer("no_rope_layers"):
            flags = tuple(bool(flag) for flag in keys.per_layer("no_rope_layers"))
            self.add("attention.rope_pattern", flags)
        if self.facts.get("compress"):
            self._require("compress_ratios", keys.config, "compress_ratios")
            self._require("compress_rope_theta", keys.config, "compress_rope_theta")
            self.add("attention.compress_ratios", tuple(keys.per_layer("compress_ratios")))
            self.add("attention.compress_rope_freq_base", keys.real("compress_rope_theta"))
        if self.facts["arch"] == "llama4" and types and set(types) == {FULL}:
            self.add("attention.sliding_window", 0)
        if self.facts.get("switch"):
            rotates = keys.architecture.model_type == "bamba" or "mamba" not in types
            self.add("rope.scaling.finetuned", rotates)

    def _tensors(self) -> None:
        how, entry = self.facts.get("tensors"), self.entry
        if how in ("llama3", "half of llama3") and self.rope_type == "llama3":
            known = self.keys.architecture.in_transformers  # which fills the length in
            original = self._original if known else entry.get(ORIGINAL)
            dim = self.head_dim if how == "llama3" else self.head_dim // 2
            divisors = _llama3_divisors(entry, dim, float(original or 8192))
            ones = np.ones(self.head_dim // 2 - len(divisors))
            self.tensors[FREQS] = np.concatenate([divisors, ones])
        elif how == "proportional" and self.rope_type == "proportional":
            turning = int(self.head_dim * self._share(entry) / 2)
            stopped = np.arange(self.head_dim // 2) >= turning
            self.tensors[FREQS] = np.where(stopped, _STOPPED, 1.0)
        elif how in ("longrope", "phi3") and entry.get("long_factor"):
            for name, key in ((LONG, "long_factor"), (SHORT, "short_factor")):
                self.tensors[name] = as_real(key, entry.get(key)).astype(np.float64)
        if how == "phi3":
            self.add("rope.scaling.original_context_length", self._original)
            if entry.get("long_factor") and self._original and self.context:
                factor = longrope_factor(self.context / self._original, self._original)
                self.add("rope.scaling.attn_factor", factor)


def _llama3_divisors(entry: Mapping[str, Any], dim: int, original: float) -> NDArray[np.float64]:
    """Return what divides each pair's frequency in Llama 3.1; null and text are refused."""
    usual = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    factor, low, high = (number(key, entry.get(key, value)) for key, value in usual.items())
    base = float(entry.get("rope_theta") or 1e4)
    with np.errstate(all="ignore"):
        turns = original * base ** (-2.0 * np.arange(dim // 2) / dim) / (2 * np.pi)
        smooth = (turns - low) / (high - low)
        blended = 1.0 / ((1.0 - smooth) / factor + smooth)
    return np.where(turns > high, 1.0, np.where(turns < low, factor, blended))


def _rotated_dim(head_dim: int, share: float) -> int:
    return int(number("the rotated share of the head dim", head_dim * share))
