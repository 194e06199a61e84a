"""The scaling keys of one kind of layer in a config.json, which most rules look at."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.errors import RopecliError
from ropecli.models.layers import FULL
from ropecli.models.lint.numbers import attempt, number, positive, whole
from ropecli.rotary.types import canonical, formula, own_parameters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ropecli.models.lint.subject import Part
    from ropecli.models.settings import Settings
    from ropecli.rotary.frequencies import Table

ORIGINAL = "original_max_position_embeddings"
MOST_LAYER_TYPES = 32
#: The types that scale by an original length.
BY_ORIGINAL = ("yarn", "longrope", "llama3")


@dataclass(frozen=True, kw_only=True, eq=False)
class Entry:
    """rope_scaling or rope_parameters, or what stands in it for one layer type."""

    part: Part
    path: str  #: Where it stands in the file.
    layer: str  #: "all", or the layer type.
    values: Mapping[str, Any]
    nested: bool
    settings: Settings | None  #: What the reader made of it; None where it could not.

    def key(self, name: str) -> str:
        """The dotted path of one of its keys."""
        return f"{self.path}.{name}".lstrip(".")

    def number(self, name: str) -> float | None:
        """A finite number among its own keys."""
        return number(self.values.get(name))

    def has(self, name: str) -> bool:
        """Whether it has a key with a value."""
        return self.values.get(name) is not None

    @property
    def written_type(self) -> object:
        """rope_type as the file has it, or what it has as `type`."""
        return self.values.get("rope_type", self.values.get("type"))

    @property
    def rope_type(self) -> str | None:
        """The rope type as Transformers takes it; None of an unknown one."""
        taken = self.written_type if self.settings is None else self.settings.rope_type
        return attempt(lambda: canonical(taken)) if isinstance(taken, str) else None

    @property
    def base(self) -> float | None:
        """The base before scaling."""
        given = self.values if self.settings is None else self.settings.scaling
        return positive(given.get("rope_theta"))

    @property
    def original(self) -> int | None:
        """The original length that counts, where the file says one."""
        said = whole(self.values.get(ORIGINAL)) or whole(self.part.config.get(ORIGINAL))
        return said if self.settings is None else said and self.settings.original_context_length

    @property
    def head_dim(self) -> int | None:
        """Coordinates of a head."""
        return None if self.settings is None else whole(self.settings.geometry.get("head_dim"))

    @property
    def dim(self) -> int | None:
        """The denominator of the exponents."""
        placed = {} if self.settings is None else self.settings.geometry
        rotary_dim, share = whole(placed.get("rotary_dim")), placed.get("partial_rotary_factor")
        if rotary_dim is not None or self.head_dim is None or self.rope_type == "proportional":
            return rotary_dim or self.head_dim
        if share is None:
            return self.head_dim
        coordinates = self.head_dim * (number(share) or 0)
        return int(coordinates) if 0 <= coordinates <= self.head_dim else None

    def table(self, **changes: Any) -> Table | None:
        """The frequencies as they are, or with other values; None where there are none."""
        name, dim, base = self.rope_type, self.dim, self.base
        if name is None or dim is None or not 2 <= dim <= 1 << 16:
            return None
        own = own_parameters(name)
        given = {k: self.values[k] for k in own if self.has(k)}
        given |= {"max_position_embeddings": self.part.context, ORIGINAL: self.original} | changes
        given = {k: v for k, v in given.items() if k in own and v is not None}
        try:
            with np.errstate(all="ignore"):
                return formula(name)(dim=dim, base=base or 10_000.0, **given)
        except (RopecliError, ArithmeticError, TypeError, ValueError):
            return None


def entries(part: Part, settings: Sequence[Settings]) -> list[Entry]:
    """The scaling keys of each kind of layer that a part names; empty ones if it has none.

    Args:
        part: Of a config.json.
        settings: What the reader made of it.
    """
    holder = part.holder
    given = {} if holder is None else part.config.get(holder)
    if not isinstance(given, dict):
        return []
    path = part.path if holder is None else part.key(holder)
    turning = [each for each in settings if each.rope_type is not None]
    nested = {layer: value for layer, value in given.items() if isinstance(value, dict)}
    if not nested:
        full = [each for each in turning if each.name.endswith(FULL)]
        usual = next(iter((*full, *turning)), None)
        return [
            Entry(part=part, path=path, layer="all", values=given, nested=False, settings=usual)
        ]
    by_layer = {each.name.removeprefix(f"{part.name}."): each for each in turning}
    return [
        Entry(
            part=part,
            path=f"{path}.{layer}",
            layer=layer,
            values=value,
            nested=True,
            settings=by_layer.get(layer),
        )
        for layer, value in islice(nested.items(), MOST_LAYER_TYPES)
    ]
