"""The scaling of a GGUF's frequencies, as llama.cpp's loader and context determine it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ropecli.models.gguf.blocks import Blocks
from ropecli.models.gguf.ggml import Rotation, loaded_attn_factor, own_factor
from ropecli.models.gguf.metadata import Metadata

TYPES = ("none", "linear", "yarn", "longrope")
_BASE = 10_000.0
_BETA_FAST, _BETA_SLOW = 32.0, 1.0


class Scaling:
    """The scaling of one kind of block."""

    original: int  #: Positions before the frequencies were scaled; 0 where no key gives them.
    log_multiplier: float  #: YaRN's; 0 where the architecture does not use it.
    assumed: list[str]

    def __init__(self, keys: Metadata, blocks: Blocks) -> None:
        """Read the values that all kinds of blocks share."""
        self._keys, self._facts, self._blocks = keys, keys.facts, blocks
        self.assumed = []
        self.original = (
            keys.integer("rope.scaling.original_context_length", least=0)
            or keys.integer("context_length", least=0)
            or 0
        )
        self.log_multiplier = self._log_multiplier()
        self._type = keys.text("rope.scaling.type")
        if self._type not in (None, *TYPES):
            keys.refuse("rope.scaling.type", self._type, f"one of {', '.join(TYPES)}")

    def rotation(self, n_rot: int, key_length: int) -> Rotation:
        """Return the arguments of ggml's rotation."""
        beta_fast = self._facts.get("beta_fast", _BETA_FAST)
        plain = Rotation(
            n_rot=n_rot,
            base=_BASE,
            factor=1.0,
            ext_factor=0.0,
            attn_factor=1.0,
            beta_fast=self._yarn_key("beta_fast", beta_fast),
            beta_slow=self._yarn_key("beta_slow", _BETA_SLOW),
            original=self.original,
        )
        if self._facts.get("fixed"):
            return plain
        base = self._base(key_length)
        if self._facts.get("compress") and not self._blocks.compress:
            return replace(plain, base=base)
        scaling_type = self._facts.get("sliding_scaling") if self._blocks.sliding else None
        if scaling_type == "plain":
            return replace(plain, base=base)
        factor, ext_factor = self._factor(), self._ext_factor()
        if ext_factor:
            self._check_yarn(base, factor)
        attn_factor = self._attn_factor(factor, ext_factor)
        shared = not self._blocks.sliding or self._facts.get("sliding_base") == "same"
        if scaling_type == "none" or (self._type == "none" and shared):
            factor = 1.0  # the loader drops the factor of type none only where it is shared
        return replace(
            plain, base=base, factor=factor, ext_factor=ext_factor, attn_factor=attn_factor
        )

    def _base(self, key_length: int) -> float:
        keys = self._keys
        if self._blocks.compress:
            name = "attention.compress_rope_freq_base"
            if keys.get(name) is None:
                keys.refuse(name, None, "a number above 0")
            return keys.positive(name, _BASE)
        base = keys.positive("rope.freq_base", _BASE)
        alpha = keys.real("rope.scaling.alpha") if self._facts.get("alpha") else None
        if alpha is not None and alpha > 0:
            if key_length == 2:
                keys.refuse("attention.key_length", 2, "a number above 2 with rope.scaling.alpha")
            base *= alpha ** (key_length / (key_length - 2))
        usual = self._facts.get("sliding_base")
        given = keys.get("rope.freq_base") is not None
        if self._blocks.sliding and usual != "same":
            default = base if usual is None else usual
            if keys.get("rope.freq_base_swa") is None and not (usual is None and given):
                self._assume("rope_theta", default, "rope.freq_base_swa")
            return keys.positive("rope.freq_base_swa", default)
        if not given:
            self._assume("rope_theta", _BASE, "rope.freq_base")
        return base

    def _factor(self) -> float:
        """Return the divisor of the frequencies; 0 counts as 1, as does no factor."""
        keys = self._keys
        factor = None
        for name in ("rope.scaling.factor", "rope.scale_linear"):
            if factor is None and keys.get(name) is not None:
                factor = 0.0 if keys.real(name) == 0 else keys.positive(name, 1.0)
        if factor is None and self._type in {"linear", "yarn"}:
            self._assume("factor", 1.0, "rope.scaling.factor")
        if factor and self._type is None:
            self._assume("scaling type", "linear", "rope.scaling.type")
        return factor or 1.0

    def _ext_factor(self) -> float:
        given = self._yarn_key("ext_factor", -1.0)
        if given >= 0:
            return given
        return 1.0 if self._type == "yarn" else 0.0

    def _attn_factor(self, factor: float, ext_factor: float) -> float:
        if self._facts.get("compress"):
            return 1.0 / own_factor(factor) if ext_factor else 1.0
        given = self._keys.positive("rope.scaling.attn_factor", 1.0)
        if not ext_factor:
            return given * self._yarn_key("attn_factor", 1.0)
        if self._type == "none":
            factor = 1.0
        deepseek2 = self._keys.name == "deepseek2"
        return given * loaded_attn_factor(factor, self.log_multiplier, deepseek2=deepseek2)

    def _yarn_key(self, name: str, default: float) -> float:
        if name not in self._facts.get("yarn", ()):
            return default
        key = f"rope.scaling.yarn_{name}"
        if name == "ext_factor":
            value = self._keys.real(key)
            return default if value is None else value
        return self._keys.positive(key, default)

    def _log_multiplier(self) -> float:
        divisor = self._facts.get("log_multiplier")
        value = self._keys.real("rope.scaling.yarn_log_multiplier", least=0.0)
        if divisor is None or value is None:
            return 0.0
        # In float32, so that 0.1 gives 1 and not 1.0000000149, as the loader compares it with 1.
        return float(np.float32(value) / np.float32(divisor))

    def _check_yarn(self, base: float, factor: float) -> None:
        """Refuse numbers for which YaRN's formulas have no value."""
        keys = self._keys
        if not self.original:
            keys.refuse("context_length", 0, "a number above 0 with scaling type yarn")
        if base == 1:
            keys.refuse("rope.freq_base", base, "a number other than 1 with scaling type yarn")
        if own_factor(factor) <= 0:
            keys.refuse(
                "rope.scaling.factor", factor, "a number above e^-10 with scaling type yarn"
            )

    def _assume(self, what: str, value: object, name: str) -> None:
        shown = f"{value:g}" if isinstance(value, float) else value
        self.assumed.append(f"{what} {shown}: the file has no {self._keys.key(name)}")
