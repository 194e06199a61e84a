"""A rope type with the arguments of its formula: how a table of frequencies was made."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.errors import ArgumentError, RopecliError
from ropecli.names import quote
from ropecli.rotary.types import PLAIN, TITLES, canonical, formula, own_parameters

if TYPE_CHECKING:
    from ropecli.rotary.frequencies import Table

#: Arguments of the formulas that `ropecli.rope` takes under other names, as in config.json.
_NAMES_IN_ROPE = {"base": "rope_theta", "dim": "head_dim or rotary_dim"}
_LENGTH = "sequence_length"
_LONGEST = 2**53


@functools.cache
def _parameters(rope_type: str) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a formula by name: reading them takes longer than a table."""
    return inspect.signature(formula(rope_type)).parameters


@dataclass(frozen=True)
class Formula:
    """A rope type and the arguments that its formula was given."""

    rope_type: str  #: A file of `ropecli.rotary.types`.
    parameters: tuple[tuple[str, Any], ...]  #: dim, base and the type's own, sorted by name.

    @classmethod
    def from_parameters(
        cls, rope_type: str, *, dim: int, base: float, own: Mapping[str, Any]
    ) -> Formula:
        """Return the formula with these arguments, whose values `table` checks."""
        name = canonical(rope_type)
        for key, other in _NAMES_IN_ROPE.items():
            if key in own:
                raise ArgumentError(
                    f"rope type {name} has no parameter {key!r}; give it as {other}"
                )
        known = _parameters(name)
        arguments = {"dim": dim, "base": base} | dict(own)
        unknown = [key for key in arguments if key not in known]
        missing = [key for key, p in known.items() if p.default is p.empty and key not in arguments]
        if unknown or missing:
            wrong = f"has no parameter {', '.join(unknown)}" if unknown else f"needs {missing[0]}"
            expected = ", ".join(own_parameters(name)) or "none"
            raise ArgumentError(f"rope type {name} {wrong}; its parameters are {expected}")
        return cls(name, tuple(sorted((key, _hashable(v)) for key, v in arguments.items())))

    def __getitem__(self, name: str) -> Any:
        return dict(self.parameters)[name]

    def get(self, name: str) -> Any:
        """Return a parameter, None where it was not given."""
        return dict(self.parameters).get(name)

    @property
    def own(self) -> dict[str, Any]:
        """The type's own parameters, without dim and base."""
        return {key: value for key, value in self.parameters if key not in ("dim", "base")}

    @property
    def defaults(self) -> dict[str, Any]:
        """Default values of the type's parameters."""
        known = _parameters(self.rope_type)
        return {key: p.default for key, p in known.items() if p.default is not p.empty}

    @property
    def title(self) -> str:
        """Name of the rope type in prose, such as "YaRN scaling"."""
        return TITLES.get(self.rope_type, self.rope_type)

    @property
    def is_plain(self) -> bool:
        """True if it is base^(-2i/dim), without scaling (RoFormer Eq. 15)."""
        return self.rope_type == PLAIN

    @property
    def unscaled(self) -> Formula:
        """Plain RoPE of the same dim and base."""
        return Formula(PLAIN, (("base", self["base"]), ("dim", self["dim"])))

    @property
    def sets_axes(self) -> bool:
        """True if it says which axis of a position rotates each pair."""
        return self.table().axis is not None

    @functools.cached_property
    def depends_on_length(self) -> bool:
        """True if sequences of another length have another table."""
        if _LENGTH not in own_parameters(self.rope_type):
            return False
        try:
            short, long = (self.replace(sequence_length=n).table() for n in (1, _LONGEST))
        except ArgumentError:  # a base beyond float64, which only a longer sequence makes
            return True
        return not np.array_equal(short.inv_freq, long.inv_freq)

    def replace(self, **parameters: Any) -> Formula:
        """Return the formula with other values of some parameters."""
        arguments = dict(self.parameters) | parameters
        dim, base = arguments.pop("dim"), arguments.pop("base")
        return Formula.from_parameters(self.rope_type, dim=dim, base=base, own=arguments)

    def table(self) -> Table:
        """Compute the frequencies, factors and axes."""
        arguments = dict(self.parameters)
        try:
            with np.errstate(all="ignore"):  # overflow is refused below
                table = formula(self.rope_type)(**arguments)
        except RopecliError:
            raise
        except (ArithmeticError, ValueError):  # a logarithm of 0, a power beyond every float
            given = ", ".join(f"{key}={quote(value)}" for key, value in arguments.items())
            raise ArgumentError(
                f"rope type {self.rope_type}: its formula has no finite value for {given}"
            ) from None
        if not np.isfinite(table.inv_freq).all():
            base = f"{self['base']:g}"
            msg = f"rope type {self.rope_type}: no finite frequencies of base {base} "
            msg += "and its parameters"
            if self.is_plain:
                msg = f"base must be large enough for finite frequencies, got {base}"
            raise ArgumentError(msg)
        return table


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
