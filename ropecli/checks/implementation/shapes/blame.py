"""What wrong rows have in common: the simplest statement that fits all that was seen."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Table = Mapping[str, NDArray[Any]]
Mask = NDArray[np.bool_]

EVERY = "every row"
#: Share of the rows that a statement is true of which must be wrong, where no statement is true of
#: the wrong ones alone.
SOME = 0.25
NEARLY = 0.8  #: Share of them that may be right by chance: another head's vectors may be its own.
#: Sizes of tiles and blocks of which a rest may be forgotten.
TILES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
#: Attributes that are words, as a sentence says them of calls.
WORDS = {
    "dtype": "calls of {}",
    "memory": "calls of {} input",
    "mode": "calls of {}",
    "positions": "calls with {} positions",
}
EQUAL = {"batch": "sequences", "heads": "heads", "length": "tokens"}
INDICES = {
    "head": "heads from the {} on",
    "sequence": "sequences of a batch from the {} on",
    "row": "rows of a sequence from the {} on",
    "position": "positions from {} on",
    "flat": "rows of the whole call from the {} on",
}
SIZES = {
    "heads": ("calls with more than {} heads", "calls with {} heads", "number of heads"),
    "key_heads": ("calls with more than {} heads of keys", "calls with {} heads of keys", ""),
    "batch": ("batches of more than {}", "batches of {}", "number of sequences"),
    "length": ("sequences of more than {} tokens", "sequences of {} tokens", "number of tokens"),
    "rows": ("calls of more than {} rows", "calls of {} rows", "number of rows"),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Statement:
    """A statement about rows: what it says, and which rows it is true of."""

    words: str
    mask: Mask
    cost: int  #: How much has to be believed: 1 for a value, more for each part.

    @property
    def is_of_calls(self) -> bool:
        """Whether it is true of whole calls."""
        return self.words.startswith(("calls", "batches", "sequences of more", "sequences whose"))


def blame(rows: Table, wrong: Mask) -> str | None:
    """Say which rows are wrong, if one statement is true of them and of no other row.

    Args:
        rows: Attributes of each row that was judged, each (rows,), those of its call: `batch`,
            `heads`, `key_heads`, `length`, `rows`, `dtype`, `memory`, `mode`, `positions`; and its
            own: `array`, `sequence`, `head`, `row`, `position` and `flat`, its index in the call.
            Any of them may be missing.
        wrong: Which rows are wrong, (rows,).

    Returns:
        Words such as "heads from the 9th on"; "some of" those where wrong rows are but a good
        share; None if nothing simple fits.
    """
    if not wrong.any():
        return None
    if wrong.all():
        return EVERY
    # A row at position 0 looks right where it is not turned at all.
    if "position" in rows and not wrong[rows["position"] == 0].any():
        told = rows["position"] != 0
        if wrong[told].all():
            return f"{EVERY} but those at position 0"
        rows, wrong = {name: values[told] for name, values in rows.items()}, wrong[told]
    # Expanded input has the same vectors everywhere, so that it matters less which are turned.
    if "memory" in rows and not wrong[rows["memory"] == "expanded"].any():
        told = rows["memory"] != "expanded"
        rows, wrong = {name: values[told] for name, values in rows.items()}, wrong[told]
    simple = [
        each for each in _statements(rows, wrong) if each.mask[wrong].all() and not each.mask.all()
    ]
    exact = [each for each in simple if np.array_equal(each.mask, wrong)]
    exact = exact or [each for each in _both(simple) if np.array_equal(each.mask, wrong)]
    if exact:
        return min(exact, key=lambda each: each.cost).words
    return _closest(simple, wrong)


def as_sentence(words: str) -> str:
    """Return the sentence that says so of wrong rows."""
    single = re.match(r"(position|every row|the last row|the [\d,]+(st|nd|rd|th)) ", words + " ")
    rows, joint, calls = words.partition(", in ")
    return f"{rows} {'comes' if single else 'come'} out wrong{joint}{calls}"


def about(sentence: str) -> str:
    """Return what a sentence about wrong rows is about.

    Returns:
        "heads" for heads, batches and memory, which show in large calls alone; "shape" for what any
        call shows; "" for positions, or where no statement is true of the wrong rows alone.
    """
    if sentence.startswith("every row of"):  # an error of all rows
        return "shape"
    if not sentence.endswith("out wrong") or re.search(
        "position|calls in|some of|no simple", sentence
    ):
        return ""
    return "heads" if re.search("head|batch|number of sequences|input|keys", sentence) else "shape"


def _closest(simple: Sequence[Statement], wrong: Mask) -> str | None:
    """Return what all wrong rows have in common, if enough of such rows are wrong."""
    count = int(wrong.sum())
    best = min(
        (each for each in (*simple, *_both(simple)) if count >= SOME * each.mask.sum()),
        key=lambda each: (round(2 * float(each.mask.sum() / count)), each.cost),
        default=None,
    )
    if best is None:
        return None
    if count >= NEARLY * best.mask.sum():
        return best.words
    return f"some of the {best.words.removeprefix('the ')}"


def _statements(rows: Table, wrong: Mask) -> Iterator[Statement]:
    """Yield statements of one part that may be true of every wrong row, the tightest of a kind."""
    if "array" in rows:
        for name, words in (("q", "the queries"), ("k", "the keys")):
            yield Statement(words=words, mask=rows["array"] == name, cost=1)
    for name, pattern in WORDS.items():
        if name in rows:
            values = sorted(set(rows[name][wrong].tolist()))
            words = pattern.format(" or ".join(map(str, values)))
            yield Statement(words=words, mask=np.isin(rows[name], values), cost=len(values))
    for name in SIZES:
        if name in rows:
            yield from _sizes(rows[name], wrong, name)
    for one, other in itertools.combinations(EQUAL, 2):
        if one in rows and other in rows:
            words = f"calls with as many {EQUAL[one]} as {EQUAL[other]}"
            yield Statement(words=words, mask=rows[one] == rows[other], cost=2)
    for name, pattern in INDICES.items():
        if name in rows:
            yield from _indices(rows[name], wrong, name, pattern)
    if "row" in rows and "length" in rows:
        yield from _tails(rows)


def _sizes(values: NDArray[Any], wrong: Mask, name: str) -> Iterator[Statement]:
    """Yield what sizes wrong calls have: above a limit, one alone, not a multiple of a tile."""
    more, exactly, number = SIZES[name]
    least, most = int(values[wrong].min()), int(values[wrong].max())
    smaller = values[values < least]
    if len(smaller):
        words = more.format(f"{int(smaller.max()):,}")
        yield Statement(words=words, mask=values >= least, cost=2)
    if least == most:
        words = (
            exactly.format(f"{most:,}")
            .replace("1 heads", "1 head")
            .replace(" 1 tokens", " 1 token")
        )
        yield Statement(words=words, mask=values == most, cost=2)
    elif (values > most).any():
        words = more.replace("more than", "at most").format(f"{most:,}")
        yield Statement(words=words, mask=values <= most, cost=2)
    for tile in TILES if number else ():
        whole = values % tile == 0
        words = f"calls whose {number} is not a multiple of {tile}"
        yield Statement(words=words, mask=~whole, cost=3)
        words = f"calls whose {number} is a multiple of {tile}"
        yield Statement(words=words, mask=whole, cost=3)


def _indices(values: NDArray[Any], wrong: Mask, name: str, pattern: str) -> Iterator[Statement]:
    """Yield what indices wrong rows have: from one on, up to one, one alone."""
    least, most = int(values[wrong].min()), int(values[wrong].max())
    shown = f"{least:,}" if name == "position" else _ordinal(least + 1)
    if least > values.min():
        yield Statement(words=pattern.format(shown), mask=values >= least, cost=2)
    if most < values.max():
        end = f"{most:,}" if name == "position" else _ordinal(most + 1)
        words = pattern.replace("from {} on", "up to {}").replace("from the {} on", "up to the {}")
        yield Statement(words=words.format(end), mask=values <= most, cost=2)
    if least == most:
        one = f"position {shown}" if name == "position" else f"the {shown} {_SINGULAR[name]}"
        yield Statement(words=one, mask=values == least, cost=1)
    for tile in TILES[1:] if name in {"row", "position", "flat"} else ():
        remainder = least % tile
        if (values[wrong] % tile == remainder).all() and least != most:
            one = "positions" if name == "position" else pattern.partition(" from")[0]
            words = f"{one} {tile}n + {remainder}" if remainder else f"{one} {tile}n"
            yield Statement(words=words, mask=values % tile == remainder, cost=3)


_SINGULAR = {
    "head": "head",
    "sequence": "sequence of a batch",
    "row": "row of a sequence",
    "flat": "row of the whole call",
}


def _tails(rows: Table) -> Iterator[Statement]:
    """Yield the rests of tiles: the last n mod tile rows."""
    row, length = rows["row"], rows["length"]
    for tile in TILES:
        words = f"the last n mod {tile} rows of a sequence of n"
        yield Statement(words=words, mask=row >= length - length % tile, cost=2)
    yield Statement(words="the last row of a sequence", mask=row == length - 1, cost=2)
    if "flat" in rows and "rows" in rows:
        for tile in TILES:
            words = f"the last n mod {tile} rows of a call of n"
            mask = rows["flat"] >= rows["rows"] - rows["rows"] % tile
            yield Statement(words=words, mask=mask, cost=3)


def _both(statements: Sequence[Statement]) -> Iterator[Statement]:
    """Yield what two statements say together, rows before the calls that they are in."""
    for pair in itertools.combinations(statements, 2):
        one, other = sorted(pair, key=lambda each: each.is_of_calls)
        joint = ", in " if other.is_of_calls else " and "
        mask = one.mask & other.mask
        cost = one.cost + other.cost
        yield Statement(words=one.words + joint + other.words, mask=mask, cost=cost)


def _ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, 11th, 1,001st."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{'th' if 10 < number % 100 < 14 else ending}"
