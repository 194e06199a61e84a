"""An implementation that an engine calls by its convention, as the laws see it."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import DTYPES
from ropecli.checks.implementation.calling.convention import CACHES, TABLES
from ropecli.checks.implementation.calling.discover import FEWER, LENGTH
from ropecli.checks.implementation.calling.request import Request
from ropecli.checks.implementation.calling.vocabulary import BASES
from ropecli.checks.implementation.interface import (
    BaseParameter,
    Died,
    Implementation,
    ImplementationError,
    Instance,
    Unsupported,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ropecli.checks.implementation.calling.convention import Convention
    from ropecli.checks.implementation.calling.discover import Engine
    from ropecli.checks.implementation.calling.request import (
        Description,
        Response,
        ScaledRequest,
    )
    from ropecli.rotary.rotary import Rotary


PROGRAM = "program"  #: By which calls name a command.


class CalledInstance(Instance):
    """One instance in an engine."""

    def __init__(self, owner: CalledImplementation, number: int, convention: Convention) -> None:
        self._owner = owner
        self._number = number
        self._scores = convention.scores

    def request(self, request: Request | ScaledRequest) -> Response:
        """Make a call of any kind.

        Raises:
            ImplementationError: It raised, or returned what cannot be judged.
            Unsupported: Its convention cannot say this request.
        """
        if request.own and self._owner.refusal_of_own_positions is not None:
            raise ImplementationError(self._owner.refusal_of_own_positions)
        return self._owner.engine.call(self._number, request)

    def announce(self, request: Request | ScaledRequest) -> None:
        """Begin with the next call, if it can run while the last one is judged."""
        if request.own and self._owner.refusal_of_own_positions is not None:
            return
        self._owner.engine.announce(self._number, request)

    def call(self, x: NDArray[Any], positions: NDArray[np.int64]) -> NDArray[Any]:
        """Return the result for x (..., sequence, head_dim); for scores, x is q and k."""
        if self._scores:
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
        convention: Convention,
        description: Description,
        rope: Rotary,
        context: int,
        init: Mapping[str, Any],
    ) -> None:
        self.engine = engine
        self.convention = convention
        self.description = description
        self._rope = rope
        self._context = context
        self._init = init
        self.form = "decoder" if convention.step else "score" if convention.scores else "apply"
        self.kind = description.kind
        self.takes_tables = bool(convention.names & {*TABLES, *CACHES})
        self.costly = description.name == PROGRAM or convention.framework == "jax"
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

    def fresh(self, parameters: Mapping[str, float] | None = None) -> CalledInstance:
        """Return a new instance, made with further parameters."""
        convention = self.convention.with_keywords(self.description.name, parameters or {})
        number = self.engine.make(convention, self._rope, self._context)
        return CalledInstance(self, number, convention)

    @functools.cached_property
    def refusal_of_own_positions(self) -> str | None:
        """The error by which it refuses own positions, no two lengths alike, or None.

        A function of positions (sequence,) may take (batch, sequence) for something else, without a
        word, where there are as many heads as sequences.
        """
        convention = self.convention
        if "positions" not in convention.names or convention.axes_of_positions != "s":
            return None
        batch, heads = FEWER[0]
        if self.form != "apply" or self._rope.axes > 1 or self._context < batch + LENGTH:
            return None
        shape = (batch, heads if "h" in convention.axes_of_x else 1, LENGTH, self._rope.head_dim)
        x = np.zeros(shape, dtype=DTYPES[self.engine.dtypes(convention.framework)[0]])
        places = np.arange(LENGTH) + np.arange(batch)[:, None]
        number = self.engine.make(convention, self._rope, self._context)
        try:
            self.engine.call(number, Request(q=x, positions=places, own=True))
        except Died:
            return None
        except ImplementationError as error:
            return str(error)
        except Unsupported:
            return None
        finally:
            self.engine.drop(number)
        return None

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


def canonical(x: NDArray[Any]) -> NDArray[Any]:
    """Return x (..., sequence, head_dim) as (batch, heads, sequence, head_dim)."""
    lead = x.shape[:-2]
    batch = lead[0] if lead else 1
    return x.reshape(batch, math.prod(lead[1:]), *x.shape[-2:])
