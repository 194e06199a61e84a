"""Biases by distance with parameters of each head: KERPLE (Chi et al.) and FIRE (Li et al.)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ropecli.arrays import Array
from ropecli.checks.encoding.asked import Asked
from ropecli.checks.encoding.reading import Reading, Values

LEAST = 0.01  #: What KERPLE's released code clamps its parameters to.
#: Roundings of a logarithm, a product and a clamp, of the bias; of FIRE, of its network too.
KERPLE, FIRE = 16.0, 64.0

#: What KERPLE's bias is of r1, r2 and the distance, and what is said of it.
FORMS: dict[str, tuple[Callable[[Array, Array, Array], Array], str]] = {
    "log": (lambda r1, r2, d: -r1 * np.log1p(r2 * d), ""),
    "power": (lambda r1, r2, d: -r1 * d ** np.minimum(r2, 2.0), ""),
    "log of distance": (lambda r1, r2, d: -r1 * r2 * np.log1p(d), "r2 is outside of the logarithm"),
    "sign": (lambda r1, r2, d: r1 * np.log1p(r2 * d), "the sign is +, expected -"),
    "inside": (lambda r1, r2, d: -np.log1p(r1 * r2 * d), "r1 is inside of the logarithm"),
    "no 1": (
        lambda r1, r2, d: -r1 * np.log(np.maximum(r2 * d, 1e-6)),
        "1 is not added inside of the logarithm",
    ),
    "base 2": (lambda r1, r2, d: -r1 * np.log2(1 + r2 * d), "the logarithm has base 2"),
    "late": (lambda r1, r2, d: -r1 * np.log1p(r2 * (d + 1)), "distances are 1 more"),
    "linear": (lambda r1, r2, d: -r1 * r2 * d, "there is no logarithm"),
    "power sign": (lambda r1, r2, d: r1 * d ** np.minimum(r2, 2.0), "the sign is +, expected -"),
}


def kerple_readings(_got: Array, asked: Asked) -> Iterator[Reading]:
    """Yield the forms of KERPLE's bias."""
    wanted = asked.settings.get("kind")
    for (form, (of, said)), exchanged, clamped in itertools.product(
        FORMS.items(), (False, True), (True, False)
    ):
        words = [said] if said else []
        words += ["r1 and r2 are exchanged"] if exchanged else []
        of_paper = form == "power" and wanted is None and not words
        if of_paper:
            words = ["the power form"]
        elif wanted is not None and form in ("log", "power") and form != wanted:
            words.append(f"the {form} form, expected {wanted}")
        yield Reading(
            compute=partial(_kerple, of, ("r2", "r1") if exchanged else ("r1", "r2"), clamped),
            said=", ".join(words),
            released="the paper" if of_paper else None,
            options={"kind": form},
        )


def _kerple(
    of: Callable[[Array, Array, Array], Array], names: tuple[str, str], clamped: bool, asked: Asked
) -> Values:
    r1, r2 = (asked.weight(name, (asked.heads,)).reshape(-1, 1, 1) for name in names)
    if clamped:
        r1, r2 = np.maximum(r1, LEAST), np.maximum(r2, LEAST)
    with np.errstate(all="ignore"):
        values = of(r1, r2, np.abs(asked.relative))
    values = np.where(asked.relative > 0, np.nan, values)
    # 1 + r2 d is rounded before its logarithm, which may be near 0.
    own = KERPLE * (np.abs(values) + np.abs(r1))
    return values, own, np.zeros_like(values)


#: Ways of FIRE: what is taken of L and m, the function of both distances, and what is said of it.
WAYS: dict[str, tuple[Callable[[float, Array], Array], Callable[[Array], Array], str]] = {
    "": (np.maximum, np.log1p, ""),
    "min": (np.minimum, np.log1p, "min(L, m) in place of max(L, m)"),
    "no log": (np.maximum, lambda x: x, "no logarithm is taken"),
    "base": (np.maximum, lambda x: np.log(np.maximum(x, 1e-6)), "1 is not added inside of ln"),
    "no threshold": (lambda _, m: m, np.log1p, "the threshold L is not used"),
    "length": (lambda far, m: 0 * m + far, np.log1p, "m is not used, only the threshold L"),
}


def fire_readings(_got: Array, _asked: Asked) -> Iterator[Reading]:
    """Yield FIRE's bias, by a network of two layers on a ratio of logarithms."""
    for name, (either, psi, said) in WAYS.items():
        yield Reading(compute=partial(_fire, either, psi), said=said, options={"way": name})


def _fire(
    either: Callable[[float, Array], Array], psi: Callable[[Array], Array], asked: Asked
) -> Values:
    c, far = (float(np.ravel(asked.weight(name, (1,)))[0]) for name in ("c", "threshold"))
    with np.errstate(all="ignore"):
        ratio = psi(c * np.abs(asked.relative)) / psi(c * either(far, asked.m))
        units = ratio[..., None] * asked.weight("hidden", (1, 8)).reshape(-1)
        units = np.maximum(units + asked.weight("hidden_bias", (8,)), 0)
        output = asked.weight("output", (8, asked.heads))
        values = units @ output + asked.weight("output_bias", (asked.heads,))
        size = np.abs(units) @ np.abs(output) + np.abs(values)
    values = np.where((asked.relative > 0)[..., None], np.nan, values)
    values, size = values.transpose(2, 0, 1), size.transpose(2, 0, 1)
    return values, FIRE * size, np.zeros_like(values)
