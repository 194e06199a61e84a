"""T5's buckets of distances, and the bias that each has (Raffel et al. 2020; RoFormer Eq. 8)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from ropecli.arrays import Array
from ropecli.checks.encoding.asked import Asked
from ropecli.checks.encoding.reading import Difference, Reading, Values, exact, rounded

SETTINGS: dict[str, Any] = {"num_buckets": 32, "max_distance": 128, "bidirectional": True}
#: A share of the logarithm this near to a whole number may be rounded to either side in float32.
EDGE = 2.0**-17
#: A bias times sqrt(d) is released, and a bias that is doubled is not one of head dim 4.
LEAST_DIM = 7.5


def buckets(
    relative: Array,
    num_buckets: int,
    max_distance: float,
    *,
    bidirectional: bool,
    late: float = 0,
    rounding: Callable[[Array], Array] = np.floor,
    of_exact: int = 2,
    sign: int = 1,
    future_first: bool = False,
    last: int = 1,
    widest: int = 0,
    future: bool = True,
) -> Array:
    """Return the bucket of each key position minus query position.

    Half of a direction's buckets hold one distance each, the others grow as its logarithm. The
    further arguments are ways to miss that.
    """
    relative = sign * relative
    first = np.zeros_like(relative)
    count = num_buckets
    if bidirectional:
        count = num_buckets // 2 if future else num_buckets
        is_first = relative <= 0 if future_first else relative > 0
        first = np.where(is_first, num_buckets // 2, 0.0)
        distance = np.abs(relative)
    else:
        distance = np.maximum(-relative, 0)
    near = count // of_exact
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.log((distance - late) / near) / math.log(max_distance / near)
        steps = rounding(share * (count - near) + (1e-9 if rounding is np.floor else 0.0))
    far = np.minimum(near + np.nan_to_num(steps, neginf=0), count - last + widest)
    return np.asarray(first + np.where(distance < near, distance, far))


def undecided(
    relative: Array, num_buckets: int, max_distance: float, *, bidirectional: bool
) -> Any:
    """Return True where rounding decides between two buckets."""
    count = num_buckets // 2 if bidirectional else num_buckets
    near = count // 2
    distance = np.abs(relative)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.log(distance / near) / math.log(max_distance / near) * (count - near)
        return (distance > near) & (np.abs(share - np.round(share)) < EDGE * (count - near))


#: Ways to read the rule, by arguments of `buckets`.
RULES: dict[str, tuple[dict[str, Any], str]] = {
    "": ({}, ""),
    "late": ({"late": 1}, "borders are one late"),
    "early": ({"late": -1}, "borders are one early"),
    "ceil": ({"rounding": np.ceil}, "logarithms are rounded up"),
    "nearest": ({"rounding": np.round}, "logarithms are rounded to the nearest"),
    "quarter": ({"of_exact": 4}, "a quarter of the buckets holds one distance each, expected half"),
    "sign": ({"sign": -1}, "distances are query minus key, expected key minus query"),
    "future first": ({"future_first": True}, "past and future are exchanged"),
    "last": ({"last": 2}, "the last bucket is never used"),
    "beyond": ({"widest": 10**6}, "buckets go on beyond the last one"),
    "not halved": ({"future": False}, "each direction counts all buckets, expected half of them"),
}


def bucket_readings(_got: Array, asked: Asked) -> Iterator[Reading]:
    """Yield the rules of buckets."""
    for options, said in _rules(asked):
        yield Reading(compute=partial(_exact_buckets, options), said=said, options=options)


def bias_readings(got: Array, asked: Asked) -> Iterator[Reading]:
    """Yield the biases of the rules, and the bias times a number that all values share."""
    for options, said in _rules(asked):
        yield Reading(compute=partial(_bias, options), said=said, options=options)
    options = {"rule": ""}
    plain, *_ = _bias(options, asked)
    if got.shape != plain.shape or not np.isfinite(got).all():
        return
    factor = float(np.nanmedian(got / plain))
    if factor not in (0.0, 1.0):
        of_dim = abs(factor**2 - round(factor**2)) < 1e-3 and factor**2 >= LEAST_DIM
        yield Reading(
            compute=partial(_scale_bias, factor, options),
            said=f"the bias is multiplied by {factor:.6g}",
            released="x-transformers" if of_dim else None,
        )


def _rules(asked: Asked) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the rule of the settings, then what differs, likely things first."""
    both = bool(asked.setting("bidirectional", True))
    known = "bidirectional" in asked.settings
    other = "bidirectional" if not both else "causal"
    for direction, (name, (_, said)) in itertools.product((both, not both), RULES.items()):
        turned = f"buckets are {other}" if direction != both and known else ""
        options = {"rule": name, "bidirectional": direction}
        yield options, ", ".join(filter(None, [turned, said]))
    for key, factor in itertools.product(("max_distance", "num_buckets"), (2, 0.5)):
        value = int(_setting(asked, {}, key) * factor)
        yield {"rule": "", "bidirectional": both, key: value}, f"{key} {value}"


def _setting(asked: Asked, options: Mapping[str, Any], name: str) -> Any:
    return options.get(name, asked.setting(name, SETTINGS[name]))


def _buckets(asked: Asked, options: Mapping[str, Any]) -> Array:
    """Return the buckets by a reading; NaN where rounding decides."""
    count, longest, both = (_setting(asked, options, name) for name in SETTINGS)
    more, _ = RULES[options["rule"]]
    rows = buckets(asked.relative, int(count), longest, bidirectional=both, **more)
    free = undecided(asked.relative, int(count), longest, bidirectional=both)
    return np.where(free, np.nan, rows)


def _exact_buckets(options: Mapping[str, Any], asked: Asked) -> Values:
    return exact(_buckets(asked, options))


def _bias(options: Mapping[str, Any], asked: Asked) -> Values:
    """Return the bias by the code's table of a value for each bucket and head."""
    count = int(_setting(asked, options, "num_buckets"))
    table = asked.weight("bias", (count, asked.heads))
    rows = _buckets(asked, options)
    free = np.isnan(rows) | (rows >= len(table)) | (rows < 0)
    values = table[np.where(free, 0, rows).astype(int)].transpose(2, 0, 1)
    return rounded(np.where(free, np.nan, values), 2.0)


def _scale_bias(factor: float, options: Mapping[str, Any], asked: Asked) -> Values:
    values, own, inner = _bias(options, asked)
    return factor * values, 2 * abs(factor) * own, inner


def deberta_buckets(_got: Array, _asked: Asked) -> Iterator[Reading]:
    """Yield DeBERTa v2's buckets of query minus key (He et al. 2021, its released code)."""
    turned = Difference("distances are key minus query, expected query minus key", None, -1)
    down = Difference("logarithms are rounded down", None, np.floor)
    for sign, rounding in itertools.product(
        (Difference("", None, 1), turned), (Difference("", None, np.ceil), down)
    ):
        yield Reading.of(partial(_deberta, sign.value, rounding.value), sign, rounding)
    yield Reading(
        compute=lambda asked: exact(-asked.relative),
        said="distances themselves, without buckets",
        released="DeBERTa",
    )


def _deberta(sign: int, rounding: Callable[[Array], Array], asked: Asked) -> Values:
    count = int(asked.setting("num_buckets", 32))
    longest = float(asked.setting("max_distance", 128))
    relative = -sign * asked.relative
    if count <= 1 or longest <= 1:  # as released for models without buckets
        return exact(relative)
    middle, distance = count // 2, np.abs(relative)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.log(distance / middle) / math.log((longest - 1) / middle)
        steps = share * (middle - 1)
        free = (distance > middle) & (np.abs(steps - np.round(steps)) < EDGE * middle)
        far = np.sign(relative) * (rounding(steps) + middle)
    rows = np.where(distance <= middle, relative, far)
    return exact(np.where(free, np.nan, rows))
