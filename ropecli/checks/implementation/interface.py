"""The only way from the laws to the implementation under test.

An `Implementation` describes itself in small data and makes instances; an `Instance` is called.
Every argument and every result is a NumPy array or small data, so that the implementation itself
may be anything, and anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ropecli.arrays import DTYPES, Array, on_all_axes
from ropecli.checks.implementation.call import (
    NOTHING_WRITTEN,
    Call,
    Died,
    ImplementationError,
    Response,
    Setup,
    Unsupported,
    real_numbers,
)
from ropecli.checks.implementation.calling.describe import Description
from ropecli.checks.implementation.calling.discover import Search
from ropecli.checks.implementation.calling.expressions import PLACES
from ropecli.checks.implementation.calling.vocabulary import BASES
from ropecli.checks.implementation.calling.vocabulary import DTYPES as DTYPE_NAMES
from ropecli.checks.implementation.convention import CACHES, TABLES, Convention

PROGRAM = "program"  #: By which calls name a command.
ONE_LIST = "takes no separate positions for each sequence"
#: Sizes of a call that shows if each sequence may have its positions, no two alike.
BATCH, HEADS, LENGTH = 2, 3, 5


@dataclass(frozen=True, kw_only=True)
class BaseParameter:
    """The parameter of an implementation that is the base."""

    name: str
    value: float | None  #: Its value; None if it is None, or not a number.
    numeric: bool  #: Whether its value is a number or None.


class Instance:
    """One instance of the implementation, with whatever it keeps between calls."""

    def __init__(self, owner: Implementation, number: int, convention: Convention) -> None:
        self._owner = owner
        self._number = number
        self._convention = convention

    def call(self, call: Call) -> Response:
        """Make a call of any kind."""
        if call.per_sequence and not self._owner.takes_positions_per_sequence(self._convention):
            raise Unsupported(ONE_LIST)
        response = self._owner.caller.call(self._number, call)
        self._owner.ignored = max(self._owner.ignored, response.ignored)
        return response

    def rows(self, call: Call) -> Array:
        """Return the rows of the queries as float64, (rows, head_dim)."""
        result = real_numbers(self.call(call).q, call.dtype)
        return result.reshape(-1, result.shape[-1])


class Implementation:
    """The implementation under test, of which instances are made."""

    def __init__(
        self,
        search: Search,
        conventions: Sequence[Convention],
        init: Mapping[str, Any],
    ) -> None:
        self.caller = search.caller
        self.description = description = self.caller.describe()
        self.convention = convention = conventions[0]  #: How it is called.
        self.arrangements = tuple(conventions)  #: The axes in which it is called.
        self.ignored = 0  #: Further arrays that a call returned, which are not judged.
        self._takes_per_sequence: dict[Convention, bool] = {}
        self._rope, self._context, self._axes = search.rope, search.context, search.axes
        self._init = init
        self.form = "decoder" if convention.step else "apply"
        self.kind = description.kind  #: "function", "class" or "instance".
        #: The encoding of the cos and sin that it is given; None if it makes them.
        self.tables = search.rope if convention.names & {*TABLES, *CACHES} else None
        #: True if a call in a new shape takes long: each operation is compiled for it.
        self.compiles = convention.framework == "jax"
        #: True if each call takes long, or does in a new shape.
        self.costly = description.name == PROGRAM or self.compiles
        #: Name of a parameter that is a dtype, and its default where that is half precision.
        self.half_by_default = _half_by_default(description, init)
        #: True if a new instance is free of what earlier calls left behind.
        self.renewable = description.kind == "class" and not convention.step

    @property
    def is_given_positions(self) -> bool:
        """False if it counts positions itself."""
        return bool(self.convention.names & {*PLACES, *TABLES, *CACHES, "cu_seqlens"})

    @property
    def base(self) -> BaseParameter | None:
        """The parameter that is the base; None if it takes none, or was made already."""
        if self.description.kind == "instance":
            return None
        known = {
            parameter.name: parameter.default for parameter in self.description.parameters or ()
        }
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
    ) -> Instance:
        """Return a new instance, called in one of the arrangements; of a function, the function."""
        convention = arrangement or self.convention
        convention = convention.with_keywords(self.description.name, parameters or {})
        number = self.caller.make(self.setup(convention))
        return Instance(self, number, convention)

    def setup(self, convention: Convention) -> Setup:
        """Return how an instance is made that is called by a convention."""
        return Setup(convention=convention, rope=self._rope, context=self._context)

    def restart(self) -> bool:
        """Forget what earlier calls left behind; False if it runs in this process, which can't."""
        return self.caller.restart()

    def takes(self, arrangement: Convention, *, batch: int, heads: int, per_sequence: bool) -> bool:
        """Return False for a call that an arrangement of axes cannot express, or is refused."""
        axes = arrangement.axes_of_x
        fits = ("b" in axes or (batch == 1 and not per_sequence)) and (heads == 1 or "h" in axes)
        return fits and (not per_sequence or self.takes_positions_per_sequence(arrangement))

    def takes_positions_per_sequence(self, convention: Convention) -> bool:
        """Return False if positions of (batch, sequence) are refused, no two lengths alike.

        A function of positions (sequence,) may take (batch, sequence) for something else, without a
        word, where there are as many heads as sequences, or one token.
        """
        if convention not in self._takes_per_sequence:
            self._takes_per_sequence[convention] = self._try_positions_per_sequence(convention)
        return self._takes_per_sequence[convention]

    def _try_positions_per_sequence(self, convention: Convention) -> bool:
        names = convention.names
        one_list = "positions" in names and "b" not in convention.axes_of_positions
        # Tables with an axis of sequences may be taken with one sequence only, or of all.
        if not one_list and not names & {*TABLES}:
            return True
        if self.form != "apply" or self._context < BATCH + LENGTH:
            return True
        axes = convention.axes_of_x
        sizes = BATCH if "b" in axes else 1, HEADS if "h" in axes else 1
        dtype = DTYPES[self.caller.dtypes(convention.framework)[0]]
        places = on_all_axes(np.arange(LENGTH) + np.arange(sizes[0])[:, None], self._axes)
        call = Call(
            vectors=np.ones((1, self._rope.head_dim), dtype),  # zeros would not be written over
            scales=np.ones(sizes),
            positions=places,
            per_sequence=True,
        )
        number = self.caller.make(self.setup(convention))
        try:
            self.caller.call(number, call)
        except Died:
            return True
        except ImplementationError as error:
            return str(error) == NOTHING_WRITTEN  # it ran, and did nothing
        finally:
            self.caller.drop(number)
        return True


def _half_by_default(description: Description, init: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the parameter that is a dtype, and its default where that is half precision."""
    every = [] if description.kind == "instance" else description.parameters or ()
    for parameter in every:
        dtype = re.search(r"b?float16", str(parameter.default))
        if parameter.name.lower() in DTYPE_NAMES and parameter.name not in init and dtype:
            return parameter.name, dtype[0]
    return None
