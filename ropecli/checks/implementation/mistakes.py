"""Parameters that are often mistaken, and the frequencies that come of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.errors import RopecliError
from ropecli.rotary.types import formula, own_parameters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ropecli.rotary.rotary import Rotary

    Array = NDArray[np.float64]

SURE = 1e-4  #: Relative difference of frequencies that are said to be the same.


def mistaken(expect: Rotary, theta: Array, uncertainty: Array | None) -> str | None:
    """Which one mistake makes the frequencies found of those expected; None if none known does."""
    unsure = 0.0 if uncertainty is None else 4 * uncertainty
    for words, table in _mistakes(expect):
        if len(table) != len(theta):
            continue
        if (np.abs(table - theta) <= SURE * np.abs(table) + unsure).all():
            return words
    return _divided(expect.inv_freq, theta, unsure)


def _divided(table: Array, theta: Array, unsure: Array | float) -> str | None:
    """One factor for all pairs."""
    if len(table) != len(theta) or theta[0] <= 0:
        return None
    factor = float(table[0] / theta[0])
    if not (np.abs(table / factor - theta) <= SURE * np.abs(theta) + unsure).all():
        return None
    return f"every frequency is divided by {factor:.6g}, as by a linear factor"


def _mistakes(expect: Rotary) -> Iterator[tuple[str, Array]]:
    given = dict(expect.parameters)
    if expect.rope_type == "custom" or "dim" not in given or "base" not in given:
        return
    plain = {"dim": given["dim"], "base": given["base"]}
    name = expect.rope_type
    tries: list[tuple[str, str, dict[str, Any]]] = []
    if name != "default":
        tries.append((f"{name} is left out, base {given['base']:.10g} alone", "default", plain))
    if given["base"] != 10_000:
        changed = {**given, "base": 10_000.0}
        tries.append((f"base 10000, expected {given['base']:.10g}", name, changed))
        tries.append(
            (
                f"base 10000 without {name}, expected {given['base']:.10g} with it",
                "default",
                {**plain, "base": 10_000.0},
            )
        )
    if name == "default":
        heads = {**given, "dim": expect.head_dim}
        tries.append((f"exponents over the head dim {expect.head_dim}", name, heads))
    factor, original = given.get("factor"), given.get("original_max_position_embeddings")
    if factor:
        tries.append(
            (f"the factor {factor:g} is applied twice", name, {**given, "factor": factor**2})
        )
        scaled = {**plain, "base": plain["base"] * factor}
        tries.append((f"base {scaled['base']:.10g}: the factor is in the base", "default", scaled))
    if factor and original:
        key = "original_max_position_embeddings"
        wrong = int(original * factor)
        tries.append((f"{key} {wrong}, expected {original}", name, {**given, key: wrong}))
    if "truncate" in own_parameters(name):
        kept = given.get("truncate", True)
        tries.append(
            (f"truncate {not kept}, expected {kept}", name, {**given, "truncate": not kept})
        )
    for words, rope_type, parameters in tries:
        try:
            table = formula(rope_type)(**parameters).inv_freq
        except (RopecliError, ArithmeticError, ValueError, TypeError):
            continue
        yield words, table
    yield from _reshaped(expect, plain)


def _reshaped(expect: Rotary, plain: dict[str, Any]) -> Iterator[tuple[str, Array]]:
    """Tables that no parameter gives."""
    table = expect.inv_freq
    count = len(table)
    if expect.rope_type == "default" and count > 2:
        exponents = np.arange(count) / (count - 1)
        yield "exponents over one pair fewer, d/2 - 1", plain["base"] ** -exponents
    unscaled = formula("default")(**plain).inv_freq
    factor = dict(expect.parameters).get("factor")
    if factor and len(unscaled) == count:
        share = (table / unscaled - 1 / factor) / (1 - 1 / factor) if factor != 1 else 0 * table
        yield (
            "the ramp is upside down: fast pairs are slowed, slow ones kept",
            unscaled * (1 / factor + (1 - share) * (1 - 1 / factor)),
        )
