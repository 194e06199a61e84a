"""The `parameters` of a JSON document: what was given, and what the library took for the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

#: Names of the library that options have another name for.
OPTION_OF = {
    "head_dim": "dim",
    "max_distance": "max_dist",
    "context_length": "context",
    "original_length": "original",
    "original_context_length": "original",
    "dtypes": "dtype",
    "tensors": "tensor",
}


@dataclass(frozen=True)
class Parsed:
    """A command line as it was parsed."""

    command: str  #: Name of the command.
    parameters: dict[str, Any]  #: Values of all arguments and options, defaults included.
    arguments: frozenset[str]  #: Names of those that are arguments.
    several: frozenset[str]  #: Names of those that take several values.

    def with_values_of(self, taken: object, left_out: Collection[str]) -> dict[str, Any]:
        """Return the parameters, and for each that was not given the value that the library took.

        Args:
            taken: A result, an encoding, or a list of such. Where they differ in a value, an option
                that takes several gets all, and another none.
            left_out: Names of parameters that are not wanted.
        """
        given = {name: value for name, value in self.parameters.items() if name not in left_out}
        for name, value in given.items():
            if value is None:
                values = list(dict.fromkeys(_values(taken, name)))
                if name in self.several:
                    given[name] = values or None
                elif len(values) == 1:
                    given[name] = values[0]
        return given


def _values(taken: Any, name: str) -> Iterator[Any]:
    """Yield the plain values of what stands for an option in results or encodings."""
    if isinstance(taken, list | tuple):
        for item in taken:
            yield from _values(item, name)
        return
    names = [name, *(field for field, option in OPTION_OF.items() if option == name)]
    owners = (taken, getattr(taken, "rope", None))
    values = (getattr(owner, key, None) for owner in owners for key in names)
    value = next((item for item in values if isinstance(item, str | int | float | tuple)), None)
    yield from value if isinstance(value, tuple) else () if value is None else (value,)
