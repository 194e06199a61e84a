"""The search for a call of code that a positional encoding explains."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.checks.encoding.asked import ROLES, Asked, Layout, canonical, layout_of
from ropecli.checks.encoding.calls import Spelled, calls
from ropecli.checks.encoding.known import Known
from ropecli.checks.encoding.reading import Compared, Reading, compare
from ropecli.checks.implementation.call import (
    Evaluation,
    ImplementationError,
    Unsupported,
    WrongResult,
)
from ropecli.checks.implementation.calling.engine import ALIAS
from ropecli.checks.implementation.calling.run import Caller
from ropecli.checks.implementation.convention import Convention

MOST_TRIALS = 300
#: Values of which each sequence has its own.
BATCHED = {"x", "q", "k", "by_distance", "by_distance_first", "ids", "mask", "batch"}
FEW_RIGHT = 0.3  #: Share of right values from which the nearest reading says something.


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluator:
    """Calls of one expression, in whatever sizes."""

    caller: Caller
    known: Known
    spelled: Spelled
    framework: str
    layout: Layout = ()  #: The axes of results, once they are known.
    added: bool = False  #: Whether the code is added to vectors that it is given.
    changed: list[str] = field(default_factory=list)  #: Arguments that were written into.

    def with_settings(self, more: Mapping[str, Any]) -> Evaluator:
        """Return calls that hand over further arguments by name."""
        name = self.caller.describe().name
        name = ALIAS if self.spelled.text.startswith(f"{ALIAS}(") else name
        text = Convention(call=self.spelled.text).with_keywords(name, more).call
        return replace(self, spelled=replace(self.spelled, text=text))

    def call(self, asked: Asked, *, instance: int = 0) -> tuple[NDArray[Any], Asked]:
        """Return a canonical result, and the call with the weights that the code has."""
        result, asked, weights = self.result(asked, instance=instance)
        return canonical(result, self.layout, asked), with_weights(asked, self.known, weights)

    def result(
        self, asked: Asked, *, instance: int = 0
    ) -> tuple[NDArray[Any], Asked, Mapping[str, NDArray[Any]]]:
        """Return a result as it is, the call with what it handed over, and the code's weights."""
        names = self.spelled.names
        if {"length", "positions"} & {*names} and not {"queries", "keys"} & {*names}:
            asked = replace(asked, queries=asked.length, keys=asked.length)
        if "m" in names and "n" not in names:
            asked = replace(asked, keys=asked.queries)
        if "grid" in names:
            asked = replace(asked, width=asked.height)
        asked = _with_handed(asked, self.known, names)
        defaults = {
            name: self.known.settings[name] for name in names if name in self.known.settings
        }
        values = defaults | asked.values(names)
        answer = self.caller.evaluate(
            Evaluation(
                text=self.spelled.text,
                framework=self.framework,
                values=values,
                instance=instance,
                weights=asked.seed if self.known.weights else None,
            )
        )
        self.changed.extend(words for _, words in answer.changed)
        if not answer.results:
            raise WrongResult("it returned nothing")
        result = _join_results(answer.results, asked)
        if result.dtype.kind not in "fiub" and result.dtype.kind != "V":
            raise WrongResult(f"it returned {result.dtype}")
        if self.added:
            plain = result.astype(np.float64) - values["x"].astype(np.float64)
            result = plain.astype(np.float32)
        return result, asked, answer.weights


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """A call that returned something of the right shape."""

    evaluator: Evaluator
    asked: Asked
    reading: Reading
    compared: Compared

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """The quality of the explanation: wholly and rightly, wholly, or by a share."""
        whole = self.compared.share_right == 1
        return whole and self.reading.is_right, whole, self.compared.share_right


def _with_handed(asked: Asked, known: Known, names: Sequence[str]) -> Asked:
    """Return a call with the weights that it hands over."""
    wanted = [name for name in names if name in known.weights]
    shapes = known.shapes(asked)
    fresh = replace(asked, weights={})
    return replace(asked, weights={name: fresh.weight(name, shapes[name]) for name in wanted})


def with_weights(asked: Asked, known: Known, weights: Mapping[str, NDArray[Any]]) -> Asked:
    """Return a call with the parameters of a module, which names and shapes tell apart."""
    if not weights:
        return asked
    shapes, found = known.shapes(asked), dict[str, NDArray[Any]]()
    free = dict(weights)
    for name, words in known.weights.items():
        wanted = sorted(size for size in shapes[name] if size != 1)
        fitting = [
            key
            for key, value in free.items()
            if _fits(value.shape, wanted, loose=len(weights) == 1)
        ]
        told = [key for key in fitting if key.rpartition(".")[2].lower() in (name, *words)]
        if chosen := [*told, *fitting][:1]:
            value = np.asarray(free.pop(chosen[0]), dtype=np.float64)
            found[name] = _as_shape(value, shapes[name])
    return replace(asked, weights={**asked.weights, **found})


def _fits(shape: tuple[int, ...], wanted: list[int], *, loose: bool) -> bool:
    sizes = sorted(size for size in shape if size != 1)
    return sizes == wanted or (loose and len(sizes) == len(wanted))


def _as_shape(value: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a parameter in the order of axes that a weight has."""
    sizes = tuple(size for size in value.shape if size != 1)
    wanted = tuple(size for size in shape if size != 1)
    value = value.reshape(sizes)
    if len(wanted) == 2 and sizes[-1] != wanted[-1] and sizes[0] == wanted[-1]:
        value = value.T
    return value.reshape(shape) if value.size == np.prod(shape) else value


def trials(
    caller: Caller,
    known: Known,
    forms: Sequence[str],
    asked: Asked,
    *,
    call: str | None,
    init: Mapping[str, Any],
    frameworks: Sequence[str],
) -> tuple[Trial | None, list[str]]:
    """Return the best explained call, and the errors of those that failed."""
    description = caller.describe()
    if description.name in {*ROLES, *known.weights, *known.settings}:
        description = replace(description, name=ALIAS)
    best: Trial | None = None
    errors: list[str] = []
    given = {*asked.settings}
    every = [
        [Spelled(text=call, form=form)] if call else calls(description, known, form, init, given)
        for form in forms
    ]
    for framework, spelled in itertools.product(
        frameworks, itertools.islice(_in_turns(every), MOST_TRIALS)
    ):
        long = "num_buckets" in known.settings and spelled.form in {"buckets", "bias"}
        # A few distances do not show buckets.
        one = replace(asked, queries=149, keys=151, length=151) if long else asked
        one = replace(one, form=spelled.form, settings={**spelled.defaults, **asked.settings})
        evaluator = Evaluator(caller=caller, known=known, spelled=spelled, framework=framework)
        try:
            result, one, weights = evaluator.result(one)
            one, layout = _take_sizes(result, one, {*spelled.names})
            one = with_weights(one, known, weights)
        except (ImplementationError, Unsupported) as error:
            errors.append(f"{spelled.text}: {error}")
            continue
        shown = _explain(result, one, replace(evaluator, layout=layout))
        if "x" in spelled.names and result.shape == one.x.shape:
            plain = (result.astype(np.float64) - one.x).astype(np.float32)
            shown += _explain(plain, one, replace(evaluator, layout=layout, added=True))
        # A call that ran and that nothing explains may not be the one that is meant.
        for trial in (attempt for attempt in shown if attempt.rank[1] or not spelled.guessed):
            if best is None or trial.rank > best.rank:
                best = trial
            if best.rank[0]:
                return best, errors
    return best, errors


def _join_results(results: Sequence[NDArray[Any]], asked: Asked) -> NDArray[Any]:
    """Return the first result; sines and cosines that are returned apart, side by side."""
    first, *rest = results
    if asked.form == "table" and len(rest) == 1 and rest[0].shape == first.shape:
        return np.concatenate([first, rest[0]], axis=-1)
    return first


def _take_sizes(result: NDArray[Any], asked: Asked, names: set[str]) -> tuple[Asked, Layout]:
    """Return the axes of a result, with the sizes of the call that the code sets by itself."""
    free = []
    if asked.form in {"table", "grid"} and not names & {"dim", "out", "x", "inv_freq"}:
        free.append("dim")
    if asked.form == "table" and not names & {"length", "positions", "x", "ids", "out"}:
        free.append("length")
    if asked.form in {"bias", "slopes"} and not names & {"heads", "q"}:
        free.append("heads")
    first: WrongResult | None = None
    known = [size for size in result.shape if size > 1]
    for sizes in itertools.product(*([getattr(asked, name), *known] for name in free)):
        one = replace(asked, **dict(zip(free, sizes, strict=True)))
        try:
            return one, layout_of(result.shape, one, batched=bool(names & BATCHED))
        except WrongResult as error:
            first = first or error
    assert first is not None
    raise first


def _in_turns(every: Sequence[Any]) -> Iterator[Spelled]:
    """Yield the likeliest call of every form before an unlikely one of the first."""
    for same_rank in itertools.zip_longest(*every):
        yield from filter(None, same_rank)


def _explain(result: NDArray[Any], asked: Asked, evaluator: Evaluator) -> list[Trial]:
    """Return the call by each reading, with queries from 0 and with the last query at the end."""
    try:
        got = canonical(result, evaluator.layout, asked)
    except WrongResult:  # such as sequences of a batch that are not alike
        return []
    aligned = [asked]
    apart = not {"relative", "m"} & {*evaluator.spelled.names}
    if asked.queries < asked.keys and apart and asked.form in {"bias", "scores", "buckets"}:
        aligned.append(replace(asked, last=asked.keys - 1))
    return [
        Trial(evaluator=evaluator, asked=one, reading=reading, compared=compare(got, reading, one))
        for one in aligned
        for reading in evaluator.known.forms[asked.form](got, one)
    ]
