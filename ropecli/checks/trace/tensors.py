"""Queries and keys that `watch` saw: as arrays of all calls, and the lengths of their pairs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.usage import Usage, usage
from ropecli.checks.trace.verdict import (
    ROLES,
    blindness,
    joined_calls,
    joined_positions,
    layer_index,
)
from ropecli.checks.trace.watch import Seen, Vectors
from ropecli.errors import ArgumentError
from ropecli.rotary import Rotary


def tensors(seen: Seen) -> dict[str, NDArray[Any]]:
    """Return queries and keys before and after their rotation by name, as `Seen.tensors`."""
    found: dict[str, NDArray[Any]] = {}
    for module, both in _rotated_tensors(seen).items():
        for role, vectors in both.items():
            for when in ("before", "after"):
                name = ".".join(filter(None, (module, role, when)))
                found[name] = joined_calls([(each, getattr(each, when)) for each in vectors], None)
    return found | {"positions": joined_positions(seen.calls)}


def pair_lengths(seen: Seen, rope: Rotary, layers: Iterable[int] | None) -> Usage:
    """Return the mean lengths of the pairs of each layer, as `Seen.chunks`."""
    by_module = _rotated_tensors(seen)
    indices = {module: layer_index(module) for module in by_module}
    wanted = None if layers is None else [*layers]
    missing = {*(wanted or ())} - {*indices.values()}
    if missing:
        known = ", ".join(str(each) for each in indices.values())
        raise ArgumentError(
            f"layers must be some of those that rotate, {known}, got {min(missing)}"
        )
    chosen = [each for each in by_module if wanted is None or indices[each] in wanted]
    parts = [_of_layer(rope, module, by_module[module]) for module in chosen]
    shapes = {(part.q_norms.shape, part.k_norms.shape) for part in parts}
    if len(shapes) > 1:
        raise ArgumentError("all layers must have as many heads; choose some of them with `layers`")
    places = [indices[module] for module in chosen]
    return replace(
        parts[0],
        q_norms=np.concatenate([part.q_norms for part in parts]),
        k_norms=np.concatenate([part.k_norms for part in parts]),
        layers=tuple(row if place is None else place for row, place in enumerate(places)),
    )


def _rotated_tensors(seen: Seen) -> dict[str, dict[str, list[Vectors]]]:
    """Return queries and keys of all calls, by module and role, of modules that rotate both."""
    if not seen.vectors:
        raise ArgumentError(*blindness(seen))
    found: dict[str, dict[str, list[Vectors]]] = {}
    for each in seen.vectors:
        if each.before is not None:
            found.setdefault(each.module, {}).setdefault(each.role, []).append(each)
    found = {module: both for module, both in found.items() if len(both) == len(ROLES)}
    if not found:
        raise ArgumentError("no layer rotates its queries and keys")
    return found


def _of_layer(rope: Rotary, module: str, both: dict[str, list[Vectors]]) -> Usage:
    for each in (vectors for role in both.values() for vectors in role):
        kept = 0 if each.before is None else len(each.before)
        if each.heads is not None and each.heads > kept:
            raise ArgumentError(
                f"{kept} of {each.heads} heads were kept in {module}, and all are needed",
                f"watch the model with heads={each.heads}",
            )
    q, k = (joined_calls([(v, v.before) for v in both[role]], rope) for role in ROLES)
    return usage(rope, q, k)
