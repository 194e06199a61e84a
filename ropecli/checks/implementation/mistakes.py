"""Parameters that are often mistaken, and the frequencies that come of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.errors import RopecliError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ropecli.rotary.formula import Formula
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
    formula = expect.formula
    if formula is None:
        return
    plain, name, base = formula.unscaled, formula.rope_type, formula["base"]
    tries: list[tuple[str, Formula]] = []
    if not formula.is_plain:
        tries.append((f"{name} is left out, base {base:.10g} alone", plain))
    if base != 10_000:
        tries.append((f"base 10000, expected {base:.10g}", formula.replace(base=10_000.0)))
        tries.append(
            (
                f"base 10000 without {name}, expected {base:.10g} with it",
                plain.replace(base=10_000.0),
            )
        )
    if formula.is_plain:
        heads = formula.replace(dim=expect.head_dim)
        tries.append((f"exponents over the head dim {expect.head_dim}", heads))
    factor, original = formula.get("factor"), formula.get("original_max_position_embeddings")
    if factor:
        twice = formula.replace(factor=factor**2)
        tries.append((f"the factor {factor:g} is applied twice", twice))
        scaled = base * factor
        tries.append((f"base {scaled:.10g}: the factor is in the base", plain.replace(base=scaled)))
    if factor and original:
        key = "original_max_position_embeddings"
        wrong = int(original * factor)
        tries.append((f"{key} {wrong}, expected {original}", formula.replace(**{key: wrong})))
    if "truncate" in formula.defaults:
        kept = dict(formula.parameters).get("truncate", True)
        other = formula.replace(truncate=not kept)
        tries.append((f"truncate {not kept}, expected {kept}", other))
    for words, mistake in tries:
        try:
            table = mistake.table().inv_freq
        except RopecliError:
            continue
        yield words, table
    yield from _reshaped(expect, formula)


def _reshaped(expect: Rotary, formula: Formula) -> Iterator[tuple[str, Array]]:
    """Tables that no parameter gives."""
    table = expect.inv_freq
    count = len(table)
    if formula.is_plain and count > 2:
        exponents = np.arange(count) / (count - 1)
        yield "exponents over one pair fewer, d/2 - 1", formula["base"] ** -exponents
    unscaled = formula.unscaled.table().inv_freq
    factor = formula.get("factor")
    if factor and len(unscaled) == count:
        share = (table / unscaled - 1 / factor) / (1 - 1 / factor) if factor != 1 else 0 * table
        yield (
            "the ramp is upside down: fast pairs are slowed, slow ones kept",
            unscaled * (1 / factor + (1 - share) * (1 - 1 / factor)),
        )
