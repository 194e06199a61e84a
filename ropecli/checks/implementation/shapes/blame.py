"""The simplest statement that is true of all wrong rows and of no right one."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.checks.law import Explains

Table = Mapping[str, NDArray[Any]]
Mask = NDArray[np.bool_]

EVERY = "every row"
#: Share of the rows that a statement is true of which must be wrong, where no statement is true of
#: the wrong ones alone.
SOME = 0.25
NEARLY = 0.8  #: Share of them that may be right by chance: another head's vectors may be its own.
#: Sizes of tiles and blocks of which a rest may be forgotten.
TILES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
#: Attributes of calls whose faults show in large calls only, and those that no shape explains.
OF_LARGE_CALLS = {"head", "heads", "key_heads", "batch", "sequence", "memory", "k"}
OF_POSITIONS = {"position", "positions"}
#: Attributes that are words, as a sentence says them of calls.
WORDS = {
    "dtype": "calls of {}",
    "memory": "calls of {} input",
    "mode": "calls of {}",
    "positions": "calls with {} positions",
    "axes": "calls of {} axes",
    "tables": "calls with tables of axes {}",
}
SPELLED = {2: "two", 3: "three", 4: "four", 5: "five"}
EQUAL = {"batch": "sequences", "heads": "heads", "length": "tokens"}
INDICES = {
    "head": "heads from the {} on",
    "sequence": "sequences of a batch from the {} on",
    "row": "rows of a sequence from the {} on",
    "position": "positions from {} on",
    "flat": "rows of the whole call from the {} on",
    "segment": "packed sequences from the {} on",
}
SIZES = {
    "length": ("sequences of more than {} tokens", "sequences of {} tokens", "number of tokens"),
    "heads": ("calls with more than {} heads", "calls with {} heads", "number of heads"),
    "key_heads": ("calls with more than {} heads of keys", "calls with {} heads of keys", ""),
    "batch": ("batches of more than {}", "batches of {}", "number of sequences"),
    "rows": ("calls of more than {} rows", "calls of {} rows", "number of rows"),
}


@dataclass(frozen=True, kw_only=True)
class Blame:
    """Properties that wrong rows share and no right one has."""

    rows: str  #: Such as "heads from the 9th on".
    calls: str = ""  #: Calls that they are in, where they are wrong only in those.
    attributes: frozenset[str] = frozenset()  #: Those of rows that the words are about.
    exact: bool = True  #: Whether rows of this kind are all wrong, or nearly.
    single: bool = False  #: Whether the rows are named in the singular.
    of_calls: bool = False  #: Whether they are all rows of some calls.

    @property
    def words(self) -> str:
        """The rows, and the calls that they are in."""
        return self.rows + self._within

    @property
    def sentence(self) -> str:
        """The sentence about wrong rows."""
        return f"{self.rows} {'comes' if self.single else 'come'} out wrong{self._within}"

    @property
    def _within(self) -> str:
        return f" in {self.calls}" if self.calls else ""

    @property
    def explains(self) -> Explains:
        """The failures of other checks that it explains."""
        if not (self.exact or "mode" in self.attributes) or self.attributes & OF_POSITIONS:
            return ""
        return "large calls" if self.attributes & OF_LARGE_CALLS else "every call"


@dataclass(frozen=True, kw_only=True, eq=False)
class Statement:
    """A statement about rows: what it says, and which rows it is true of."""

    blame: Blame
    mask: Mask
    cost: int  #: Complexity, lower is preferred: 1 for a value, more for each part.


def _state(
    rows: str,
    mask: Mask,
    cost: int,
    *attributes: str,
    single: bool = False,
    of_calls: bool = False,
) -> Statement:
    named = Blame(rows=rows, attributes=frozenset(attributes), single=single, of_calls=of_calls)
    return Statement(blame=named, mask=mask, cost=cost)


def blame(rows: Table, wrong: Mask) -> Blame | None:
    """Say which rows are wrong, if one statement is true of them and of no other row.

    It is of "some of" the rows where wrong ones are but a good share; None if nothing simple fits.
    """
    if not wrong.any():
        return None
    if wrong.all():
        return Blame(rows=EVERY, single=True)
    # A row at position 0 looks right where it is not rotated at all.
    if "position" in rows and not wrong[rows["position"] == 0].any():
        not_first = rows["position"] != 0
        if wrong[not_first].all():
            others = f"{EVERY} but those at position 0"
            return Blame(rows=others, attributes=frozenset({"position"}), single=True)
        rows, wrong = _where(rows, not_first), wrong[not_first]
    # Expanded input has the same vectors everywhere, so that it matters less which are rotated.
    if "memory" in rows and not wrong[rows["memory"] == "expanded"].any():
        not_first = rows["memory"] != "expanded"
        rows, wrong = _where(rows, not_first), wrong[not_first]
    simple = [
        statement
        for statement in _statements(rows, wrong)
        if statement.mask[wrong].all() and not statement.mask.all()
    ]
    exact = [statement for statement in simple if np.array_equal(statement.mask, wrong)]
    exact = exact or [
        statement for statement in _both(simple) if np.array_equal(statement.mask, wrong)
    ]
    if exact:
        return _with_axes(min(exact, key=lambda each: each.cost).blame, rows, wrong)
    alike = _of_as_many_axes(rows, wrong)
    inner = None if alike.all() else blame(_where(rows, alike), wrong[alike])
    if inner is not None and inner.exact and not inner.of_calls:
        return _with_axes(inner, rows, wrong)
    return _closest(simple, wrong)


def _where(rows: Table, chosen: Mask) -> Table:
    return {name: values[chosen] for name, values in rows.items()}


def _of_as_many_axes(rows: Table, wrong: Mask) -> Mask:
    """Return which rows are of calls with as many axes as some wrong one."""
    return np.isin(rows["axes"], rows["axes"][wrong]) if "axes" in rows else np.ones_like(wrong)


def _with_axes(found: Blame, rows: Table, wrong: Mask) -> Blame:
    """Say the number of axes of wrong calls, where those of another number are right."""
    axes = np.unique(rows["axes"][wrong]) if "axes" in rows else np.array([])
    others = len(axes) == 1 and (rows["axes"] != axes[0]).any()
    named = found.calls and not found.calls.startswith("calls ")
    if not others or named or found.of_calls or "axes" in found.attributes:
        return found
    calls = WORDS["axes"].format(SPELLED[int(axes[0])]) + found.calls.removeprefix("calls")
    return replace(found, calls=calls, attributes=found.attributes | {"axes"})


def _closest(simple: Sequence[Statement], wrong: Mask) -> Blame | None:
    """Return what all wrong rows have in common, if enough of such rows are wrong."""
    count = int(wrong.sum())
    best = min(
        (
            statement
            for statement in (*simple, *_both(simple))
            if count >= SOME * statement.mask.sum()
        ),
        key=lambda each: (round(8 * float(each.mask.sum() / count)), each.cost),
        default=None,
    )
    if best is None:
        return None
    if count >= NEARLY * best.mask.sum():
        return best.blame
    some = f"some of the {best.blame.rows.removeprefix('the ')}"
    return replace(best.blame, rows=some, exact=False, single=False)


def _statements(rows: Table, wrong: Mask) -> Iterator[Statement]:
    """Yield statements of one part that may be true of every wrong row, the tightest of a kind."""
    if "array" in rows:
        for name, words in (("q", "the queries"), ("k", "the keys"), ("v", "the values")):
            yield _state(words, rows["array"] == name, 1, name)
    for name, pattern in WORDS.items():
        if name in rows:
            values = sorted(set(rows[name][wrong].tolist()))
            words = pattern.format(" or ".join(SPELLED.get(value, str(value)) for value in values))
            mask = np.isin(rows[name], values)
            # How many axes there are comes after anything else.
            yield _state(words, mask, len(values) + 2 * (name == "axes"), name, of_calls=True)
    for name in SIZES:
        if name in rows:
            yield from _sizes(rows[name], wrong, name)
    for one, other in itertools.combinations(EQUAL, 2):
        if one in rows and other in rows:
            words = f"calls with as many {EQUAL[one]} as {EQUAL[other]}"
            yield _state(words, rows[one] == rows[other], 2, one, other, of_calls=True)
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
        words = _singular(more.format(f"{int(smaller.max()):,}"))
        yield _state(words, values >= least, 2, name, of_calls=True)
    if least == most:
        words = _singular(exactly.format(f"{most:,}"))
        yield _state(words, values == most, 2, name, of_calls=True)
    elif (values > most).any():
        words = _singular(more.replace("more than", "at most").format(f"{most:,}"))
        yield _state(words, values <= most, 2, name, of_calls=True)
    for tile in TILES if number else ():
        divisible = values % tile == 0
        words = f"calls whose {number} is not a multiple of {tile}"
        yield _state(words, ~divisible, 3, name, of_calls=True)
        words = f"calls whose {number} is a multiple of {tile}"
        yield _state(words, divisible, 3, name, of_calls=True)


def _singular(words: str) -> str:
    """Return words about sizes with the nouns after a 1 in the singular."""
    return re.sub(r"(?<!\S)1 (head|token|row)s\b", r"1 \1", words)


def _indices(values: NDArray[Any], wrong: Mask, name: str, pattern: str) -> Iterator[Statement]:
    """Yield what indices wrong rows have: from one on, up to one, one alone."""
    least, most = int(values[wrong].min()), int(values[wrong].max())
    shown = f"{least:,}" if name == "position" else _ordinal(least + 1)
    if least > values.min():
        yield _state(pattern.format(shown), values >= least, 2, name)
    if most < values.max():
        end = f"{most:,}" if name == "position" else _ordinal(most + 1)
        words = pattern.replace("from {} on", "up to {}").replace("from the {} on", "up to the {}")
        yield _state(words.format(end), values <= most, 2, name)
    if least == most:
        one = f"position {shown}" if name == "position" else f"the {shown} {_SINGULAR[name]}"
        yield _state(one, values == least, 1, name, single=True)
    for tile in TILES if name != "segment" else ():
        remainder = least % tile
        if (values[wrong] % tile == remainder).all() and least != most:
            one = pattern.partition(" from")[0]
            words = f"{one} {tile}n + {remainder}" if remainder else f"{one} {tile}n"
            yield _state(words, values % tile == remainder, 3, f"{name} modulo {tile}")


_SINGULAR = {
    "head": "head",
    "sequence": "sequence of a batch",
    "row": "row of a sequence",
    "flat": "row of the whole call",
    "segment": "packed sequence",
}
#: Indices of which the last ones may be forgotten, and the sizes that they end at.
ENDS = {"head": "heads", "sequence": "batch"}


def _tails(rows: Table) -> Iterator[Statement]:
    """Yield the rests of tiles: the last n mod tile rows."""
    row, length = rows["row"], rows["length"]
    for tile in TILES:
        words = f"the last n mod {tile} rows of a sequence of n"
        yield _state(words, row >= length - length % tile, 2, "row")
    yield _state("the last row of a sequence", row == length - 1, 2, "row", single=True)
    for name, size in ENDS.items():
        if name in rows and size in rows:
            last = rows[name] == rows[size] - 1
            yield _state(f"the last {_SINGULAR[name]}", last, 2, name, single=True)
            for tile in TILES if name == "head" else ():
                words = f"the last n mod {tile} heads of n"
                mask = rows[name] >= rows[size] - rows[size] % tile
                yield _state(words, mask, 3, name)
    if "segment" in rows:
        begins = (rows["segment"] > 0) & (rows["into"] == 0)
        yield _state("the first row of a packed sequence", begins, 1, "segment", single=True)
    if "flat" in rows and "rows" in rows:
        for tile in TILES:
            words = f"the last n mod {tile} rows of a call of n"
            mask = rows["flat"] >= rows["rows"] - rows["rows"] % tile
            yield _state(words, mask, 3, "flat")


def _both(statements: Sequence[Statement]) -> Iterator[Statement]:
    """Yield what two statements say together, rows before the calls that they are in."""
    for pair in itertools.combinations(statements, 2):
        first, second = sorted(pair, key=lambda each: each.blame.of_calls)
        one, other = first.blame, second.blame
        joint = replace(one, attributes=one.attributes | other.attributes)
        if other.of_calls:
            joint = replace(joint, calls=other.rows)
        elif one.attributes <= {"q", "k", "v"}:
            joint = replace(joint, rows=f"{other.rows} of {one.rows}")
        else:
            joint = replace(joint, rows=f"{one.rows} and {other.rows}")
        yield Statement(blame=joint, mask=first.mask & second.mask, cost=first.cost + second.cost)


def _ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, 11th, 1,001st."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{'th' if 10 < number % 100 < 14 else ending}"
