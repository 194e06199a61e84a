"""Architectures of Transformers that `trace` is tried on: the defaults of their configurations."""

from __future__ import annotations

from typing import Any

from oracle.transformers_classes import TWEAKS

LAYERS = 6  #: At most; the kinds of layers are all among the first ones.
#: Those that cannot be cut: their last layers read what the first ones keep.
WHOLE = ("gemma3n", "gemma3n_text")


def config_of(model_type: str) -> dict[str, Any]:
    """Return the config.json of an architecture, with few layers."""
    from transformers import CONFIG_MAPPING

    kind = CONFIG_MAPPING[model_type]
    config = kind(**TWEAKS.get(kind.__name__, {}))
    keys: dict[str, Any] = config.to_dict() | {"model_type": model_type}
    text = config.get_text_config()
    part = keys
    if text is not config:
        own = (keys[name] for name in config.sub_configs if getattr(config, name) is text)
        part = next(own, {})  # deeper parts are not cut
    key = text.attribute_map.get("num_hidden_layers", "num_hidden_layers")
    count = part.get(key)
    if isinstance(count, int) and count > LAYERS and model_type not in WHOLE:
        lists = {k: v for k, v in part.items() if isinstance(v, list) and len(v) == count}
        part |= {name: value[:LAYERS] for name, value in lists.items()} | {key: LAYERS}
        layers = part.get("per_layer_config") or {}
        part["per_layer_config"] = {k: v for k, v in layers.items() if int(k) < LAYERS} or None
    return keys


def rotary_types() -> list[str]:
    """Return the architectures whose text model has a key of rotary embeddings."""
    from transformers import CONFIG_MAPPING

    found = []
    for name in sorted(CONFIG_MAPPING.keys()):
        try:
            keys = CONFIG_MAPPING[name]().get_text_config().to_dict()
        except Exception:  # needs parts, or has several
            continue
        if any("rope" in key or "rotary" in key for key in keys):
            found.append(name)
    return found
