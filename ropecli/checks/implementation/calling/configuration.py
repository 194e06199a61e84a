"""A configuration of no class: sizes by whatever name a model's code asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ropecli.checks.implementation.calling.vocabulary import NEUTRAL, roles

#: Fields that a model of one head and one layer has, as expressions of the sizes.
FIELDS = {
    **dict.fromkeys(
        (
            "num_attention_heads",
            "num_heads",
            "n_heads",
            "n_head",
            "num_key_value_heads",
            "n_kv_heads",
            "num_layers",
            "num_hidden_layers",
            "n_layers",
            "n_layer",
        ),
        "1",
    ),
    "rope_parameters": "{'rope_type': 'default', 'rope_theta': base}",
}


class Configuration:
    """Object with sizes as attributes and as items, by the names that models use."""

    def __init__(self, sizes: Mapping[str, Any]) -> None:
        """Take the sizes by their names in calls."""
        self._sizes = dict(sizes)

    def __getattr__(self, name: str) -> Any:
        if name in FIELDS:
            return eval(FIELDS[name], dict(self._sizes))
        meant = "head_dim" if name == "n_embd" else size_of(name)
        if meant in self._sizes:
            return self._sizes[meant]
        if meant in NEUTRAL and not name.startswith("_"):
            return eval(meant)
        raise AttributeError(f"a configuration of sizes has no {name!r}")

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError as error:
            raise KeyError(str(error)) from None

    def get(self, name: str, default: Any = None) -> Any:
        """Return a size, or the default."""
        return getattr(self, name, default)


def size_of(name: str) -> str:
    """Return the size that a parameter means where an instance is made; empty if it is none."""
    meant = next(iter(roles(name, 1)), "")
    return {"length": "context", "positions": ""}.get(meant, meant)
