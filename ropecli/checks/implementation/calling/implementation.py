"""An implementation that an engine calls by its convention, as the laws see it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES
from ropecli.checks.implementation.calling.convention import CACHES, TABLES, Convention
from ropecli.checks.implementation.calling.discover import FEWER, LENGTH, Engine
from ropecli.checks.implementation.calling.request import (
    Description,
    Request,
    Response,
    ScaledRequest,
)
from ropecli.checks.implementation.calling.vocabulary import BASES
from ropecli.checks.implementation.calling.vocabulary import DTYPES as DTYPE_NAMES
from ropecli.checks.implementation.interface import (
    NOTHING_WRITTEN,
    BaseParameter,
    Died,
    Implementation,
    ImplementationError,
    Instance,
    Unsupported,
)
from ropecli.rotary.rotary import Rotary

PROGRAM = "program"  #: By which calls name a command.
ONE_LIST = "takes no separate positions for each sequence"


class CalledInstance(Instance):
    """One instance in an engine."""

    def __init__(self, owner: CalledImplementation, number: int, convention: Convention) -> None:
        self._owner = owner
        self._number = number
        self._convention = convention

    def request(self, request: Request | ScaledRequest) -> Response:
        """Make a call of any kind."""
        if request.own and not self._owner.takes_own_positions(self._convention):
            raise Unsupported(ONE_LIST)
        return self._owner.engine.call(self._number, request)

    def announce(self, request: Request | ScaledRequest) -> None:
        """Begin with the next call, if it can run while the last one is judged."""
        if not request.own or self._owner.takes_own_positions(self._convention):
            self._owner.engine.announce(self._number, request)

    def call(self, x: NDArray[Any], positions: NDArray[np.int64]) -> NDArray[Any]:
        """Return the result for x (..., sequence, head_dim); for scores, x is q and k."""
        if self._convention.scores:
            q, k = (each[None, None] for each in x)
            return self.request(Request(q=q, k=k, positions=positions)).q
        given = canonical(x)
        own = positions.ndim > 1 and positions.shape[:2] == (len(x), x.shape[-2]) and x.ndim > 2
        response = self.request(Request(q=given, positions=positions, own=own))
        return response.q.reshape(x.shape)


class CalledImplementation(Implementation):
    """An implementation of which an engine makes instances."""

    def __init__(
        self,
        engine: Engine,
        conventions: Sequence[Convention],
        description: Description,
        rope: Rotary,
        context: int,
        init: Mapping[str, Any],
        axes: int = 1,
    ) -> None:
        self.engine = engine
        self.convention = convention = conventions[0]
        self.arrangements = tuple(conventions)
        self._takes_own: dict[Convention, bool] = {}
        self.description = description
        self._rope = rope
        self._context = context
        self._init = init
        self._axes = axes
        self.form = "decoder" if convention.step else "score" if convention.scores else "apply"
        self.kind = description.kind
        self.tables = rope if convention.names & {*TABLES, *CACHES} else None
        self.costly = description.name == PROGRAM or convention.framework == "jax"
        self.half_by_default = _half_by_default(description, init)
        self.renewable = description.kind == "class" and not convention.step

    @property
    def base(self) -> BaseParameter | None:
        """The parameter that is the base; None if it takes none, or was made already."""
        if self.description.kind == "instance":
            return None
        known = {each.name: each.default for each in self.description.parameters or ()}
        name = next((name for name in known if name in BASES), None)
        if name is None:
            return None
        value = self._init.get(name, known[name])
        numeric = value is None or (isinstance(value, int | float) and not isinstance(value, bool))
        return BaseParameter(
            name=name,
            value=float(value) if numeric and value is not None else None,
            numeric=numeric,
        )

    def fresh(
        self, parameters: Mapping[str, float] | None = None, arrangement: Convention | None = None
    ) -> CalledInstance:
        """Return a new instance, called in one of the arrangements."""
        convention = arrangement or self.convention
        convention = convention.with_keywords(self.description.name, parameters or {})
        number = self.engine.make(convention, self._rope, self._context)
        return CalledInstance(self, number, convention)

    def restart(self) -> bool:
        """Forget what earlier calls left behind; False if it runs in this process, which can't."""
        return self.engine.restart()

    def takes(self, arrangement: Convention, *, batch: int, heads: int, own: bool) -> bool:
        """Return False for a call that an arrangement of axes cannot express, or is refused."""
        axes = arrangement.axes_of_x
        fits = ("b" in axes or (batch == 1 and not own)) and (heads == 1 or "h" in axes)
        return fits and (not own or self.takes_own_positions(arrangement))

    def takes_own_positions(self, convention: Convention) -> bool:
        """Return False if positions of (batch, sequence) are refused, no two lengths alike.

        A function of positions (sequence,) may take (batch, sequence) for something else, without a
        word, where there are as many heads as sequences.
        """
        if convention not in self._takes_own:
            self._takes_own[convention] = self._try_own_positions(convention)
        return self._takes_own[convention]

    def _try_own_positions(self, convention: Convention) -> bool:
        names = convention.names
        one_list = "positions" in names and convention.axes_of_positions == "s"
        if not one_list and not (names & {*TABLES} and "b" not in convention.axes_of_tables):
            return True
        batch, heads = FEWER[0]
        if self.form != "apply" or self._context < batch + LENGTH:
            return True
        axes = convention.axes_of_x
        shape = (batch if "b" in axes else 1, heads if "h" in axes else 1, LENGTH)
        dtype = DTYPES[self.engine.dtypes(convention.framework)[0]]
        x = np.ones((*shape, self._rope.head_dim), dtype=dtype)  # zeros would not be written over
        places = np.arange(LENGTH) + np.arange(len(x))[:, None]
        if self._axes > 1:
            places = np.repeat(places[..., None], self._axes, axis=-1)
        number = self.engine.make(convention, self._rope, self._context)
        try:
            self.engine.call(number, Request(q=x, positions=places, own=True))
        except Died:
            return True
        except ImplementationError as error:
            return str(error) == NOTHING_WRITTEN  # it ran, and did nothing
        finally:
            self.engine.drop(number)
        return True

    def decode(self, x: NDArray[Any], prefilled: int) -> NDArray[np.float64]:
        """Return a new decoder's rows for x (..., sequence, head_dim)."""
        given = canonical(x)
        places = np.arange(x.shape[-2])
        request = Request(q=given, positions=places, stepwise=True, prefilled=prefilled)
        return self.fresh().request(request).q.astype(np.float64).reshape(x.shape)

    def changed_arguments(
        self, x: NDArray[Any], positions: NDArray[np.int64]
    ) -> tuple[bool, Sequence[tuple[str, str]]]:
        """Call a new instance, and return what it wrote into."""
        response = self.fresh().request(Request(q=canonical(x), positions=positions, watch=True))
        return response.in_place, response.changed


def _half_by_default(description: Description, init: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the parameter that is a dtype, and its default where that is half precision."""
    every = [] if description.kind == "instance" else description.parameters or ()
    for each in every:
        dtype = re.search(r"b?float16", str(each.default))
        if each.name.lower() in DTYPE_NAMES and each.name not in init and dtype:
            return each.name, dtype[0]
    return None


def canonical(x: NDArray[Any]) -> NDArray[Any]:
    """Return x (..., sequence, head_dim) as (batch, heads, sequence, head_dim)."""
    lead = x.shape[:-2]
    batch = lead[0] if lead else 1
    return x.reshape(batch, math.prod(lead[1:]), *x.shape[-2:])
