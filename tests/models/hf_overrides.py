"""How vLLM 0.33.0 applies --hf-overrides: on the configuration as Transformers has loaded it.

Objects replace what is at the top of the configuration, and are merged into its parts; read in
`_apply_dict_overrides` and `_update_nested` of vllm/config/model.py.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

Values = dict[str, Any]


def loaded_by_vllm(config: Values, overrides: Values) -> Values:
    """Return keys that stand for the configuration of a file after the overrides."""
    found = deepcopy(config)
    for key, value in overrides.items():
        found[key] = _merge(found[key], value) if key.endswith("_config") else value
    if "rope_parameters" in overrides:
        found.pop("rope_scaling", None)
    return found


def _merge(part: Values, value: Values) -> Values:
    made = deepcopy(part)
    for key, each in value.items():
        old = made.get(key)
        made[key] = _merge(old, each) if isinstance(old, dict) and isinstance(each, dict) else each
    if "rope_parameters" in value:
        made["rope_parameters"] = (made.pop("rope_scaling", None) or {}) | made["rope_parameters"]
    return made
