"""FoPE (arXiv:2412.17739), an encoding that takes the place of a RoPE where its keys are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ropecli.models.settings import Settings

SWITCH = "use_fope"
KEYS = (SWITCH, "fope_init_factor", "fope_sep_head", "num_inv_freq")  #: Among the scaling keys.


def asks_for_fope(scaling: Mapping[str, Any]) -> bool:
    """True if one of its keys has a value."""
    return any(scaling.get(key) not in (None, False) for key in KEYS)


def with_fope(settings: Settings, *assumed: str) -> Settings:
    """Return a kind of layer that has FoPE, with the values of its keys, and no rotation."""
    given = {key: settings.scaling[key] for key in KEYS if settings.scaling.get(key) is not None}
    values = ", ".join(f"{key} {str(value).lower()[:40]}" for key, value in given.items())
    return replace(settings, rope_type=None, encoding=f"FoPE with {values}", assumed=assumed)
