"""The verdict on a watched model: the RoPE that each layer applies, next to the one expected."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import dtype_name
from ropecli.checks.identify.agreement import vector_errors
from ropecli.checks.identify.observe import validate_inputs
from ropecli.checks.identify.precision import FULL
from ropecli.checks.identify.recover import Identification, identify_rows
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.models.architectures import architecture
from ropecli.models.model import Layer, Model
from ropecli.models.parts import parts
from ropecli.results import Result
from ropecli.rotary import Rotary
from ropecli.rotary.factors import Temperature
from ropecli.units import SINGLE, UNIT

if TYPE_CHECKING:
    from ropecli.checks.trace.watch import Call, Seen, Vectors

_OFFSET = 0.01  #: Positions; one that is off is off by a half at least.
_FACTOR = 1e-5  #: Relative difference of two factors that are one, in sums of float32 products.
_CLOSE = 1e-3  #: Relative difference from which one is named.
_EXPLAINED = 0.02  #: Of a pair's length; an angle that is off by one position leaves more.
_EXPECTED = "expected"  #: Name of the candidate.
ROLES = ("query", "key")


@dataclass(frozen=True, kw_only=True, eq=False)
class TracedLayer:
    """Rotations that one layer applies to its queries and keys."""

    index: int | None  #: Of the layer in its model; None where its path has no number.
    module: str  #: Path of the module that scores.
    name: str | None  #: The kind of layer, as `inspect` names it.
    expected: Rotary | None  #: None for a layer without position.
    query: Identification | None  #: None where nothing is rotated.
    key: Identification | None  #: The same of keys.
    softmax_scale: float | None  #: What the product of query and key is multiplied by.
    expected_scale: float | None  #: None where the size of a head was not seen.
    agrees: bool | None  #: None where it could not be seen.
    note: str | None  #: Where it parts from what is expected, or why it could not be seen.


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace(Result, view="trace"):
    """The RoPE that the layers of a running model really apply."""

    source: str | None  #: The file; None for a model of one's own.
    model_type: str | None  #: As the file has it.
    built: str | None  #: What built the model, such as "Transformers 5.0.0"; None for one's own.
    calls: tuple[str, ...]  #: The calls of the model, such as "40 positions from 0".
    layers: tuple[TracedLayer, ...]  #: In the order in which they ran.
    seen: Seen  #: The vectors that show it.

    @property
    def passed(self) -> bool:
        """True if no layer parts from what is expected of it."""
        return all(layer.agrees is not False for layer in self.layers)


def judge(
    seen: Seen, expected: object, *, source: str | None = None, built: str | None = None
) -> Trace:
    """Judge each layer of a model that was watched; arguments as in `Seen.verdict`."""
    if not isinstance(expected, Rotary | Model):
        raise ArgumentTypeError(
            f"expected must be a Rotary or a Model, got {type(expected).__name__}"
        )
    if not seen.vectors:
        raise ArgumentError(*blindness(seen))
    judgement = _Judgement(seen=seen, expected=expected)
    return Trace(
        source=source,
        model_type=expected.model_type if isinstance(expected, Model) else None,
        built=built,
        calls=tuple(_describe_calls(seen.calls)),
        layers=judgement.layers(),
        seen=seen,
    )


def blindness(seen: Seen) -> tuple[str, str]:
    """Return why nothing was seen, and what to do."""
    if not seen.calls:
        return "the model was not called", "call it within the block of `watch`"
    where = f" in {sorted(seen.unseen)[0]}" if seen.unseen else ""
    return (
        f"cannot look: no queries and keys were seen{where}, as in a fused or compiled kernel",
        "name the function that rotates in `wrap`, or run the model uncompiled, with eager "
        "attention",
    )


@dataclass(kw_only=True, eq=False)
class _Judgement:
    """The expectations of a model that was watched, and what was identified so far."""

    seen: Seen
    expected: Rotary | Model
    known: dict[Any, Identification] = field(default_factory=dict)

    def layers(self) -> tuple[TracedLayer, ...]:
        """Return the verdict on every module, in the order of the layers."""
        seen = [each.module for each in self.seen.vectors]
        modules = list(dict.fromkeys([*seen, *sorted(self.seen.unseen)]))
        found = []
        for module in modules:
            index = layer_index(module)
            within = any(module.startswith(f"{each}.") for each in modules)
            part = module.rpartition(".")[2] if within else None  # such as an indexer
            tries = [self._layer(module, index, part, kind) for kind in self._kinds(index, part)]
            found.append(next((each for each in tries if each.agrees), tries[0]))
        return tuple(sorted(found, key=lambda each: -1 if each.index is None else each.index))

    def _kinds(self, index: int | None, part: str | None) -> list[Layer | None]:
        """Return the kind of text layer that an index has, by the file, or else by the model.

        There are several where neither distinguishes them, and None where there is none.
        """
        if isinstance(self.expected, Rotary):
            return [None]
        kinds = [
            each for each in text_layers(self.expected) if (each.name == part) is (part is not None)
        ]
        listed = [each for each in kinds if index in (each.settings.layers or ())]
        types = getattr(self.seen.config, "layer_types", None) or ()
        own = types[index] if index is not None and index < len(types) else None
        named = [each for each in kinds if each.name == own]
        free = [each for each in kinds if each.settings.layers is None]
        return [*(listed or named or free)] or [None]

    def _layer(
        self, module: str, index: int | None, part: str | None, kind: Layer | None
    ) -> TracedLayer:
        """Judge the queries and keys of one module as a kind of layer."""
        rope = None if kind is None else kind.rotary
        rope = self.expected if isinstance(self.expected, Rotary) else rope
        own = [each for each in self.seen.vectors if each.module == module]
        by_role = {role: [each for each in own if each.role == role] for role in ROLES}
        found = {role: self._judge(vectors, rope) for role, vectors in by_role.items()}
        head_dim = next((each.head_dim for each in own if each.head_dim is not None), None)
        scale, wrong = self._scale(own, None if kind is None else kind.settings.temperature)
        wanted = None if head_dim is None else _expected_scale(head_dim, rope, self.seen.config)
        if scale is not None and wanted is not None and abs(scale / wanted - 1) > _rounding(own):
            wrong.append(f"the score is multiplied by {scale:.6g}, not {wanted:.6g}")
        notes = [*_merge({role: wrong for role, (_, wrong) in found.items()}), *wrong]
        agrees: bool | None = not notes
        if part is not None and kind is None:
            agrees, notes = None, [f"part of a layer, of which nothing is expected: {part}"]
        elif agrees and (module in self.seen.unseen or not all(by_role.values())):
            agrees, notes = None, ["its queries or keys were not seen: name in `wrap` what rotates"]
        elif agrees and rope is not None and rope.axes > 1 and not self._shows_axes(own):
            agrees, notes = (
                None,
                [
                    "positions were the same on all axes: call it with position_ids of a grid, "
                    f"({rope.axes}, batch, sequence)"
                ],
            )
        return TracedLayer(
            index=index,
            module=module,
            name=None if kind is None else kind.name,
            expected=rope,
            query=found["query"][0],
            key=found["key"][0],
            softmax_scale=scale,
            expected_scale=wanted,
            agrees=agrees,
            note="; ".join(notes) or None,
        )

    def _shows_axes(self, vectors: Sequence[Vectors]) -> bool:
        """Return whether a position differed from axis to axis in some call."""
        return any(np.ptp(self.seen.calls[v.call].positions, axis=1).any() for v in vectors)

    def _judge(
        self, vectors: Sequence[Vectors], rope: Rotary | None
    ) -> tuple[Identification | None, list[str]]:
        """Return what queries or keys get in all calls, and where it parts from the expected."""
        rotated = [each for each in vectors if each.before is not None]
        if not rotated:
            return None, ["not rotated"] if rope is not None and vectors else []
        if len(rotated) < len(vectors):
            return None, [f"rotated in {len(rotated)} of {len(vectors)} calls"]
        groups: dict[Rotary | None, list[Vectors]] = {}
        for each in rotated:
            table = rope and rope.at_length(self.seen.calls[each.call].length)
            groups.setdefault(table, []).append(each)
        found, notes = None, []
        for table, group in sorted(groups.items(), key=lambda each: self._reach(each[1])):
            found = self._identify(group, table)
            wrong = _differences(found, table)
            if wrong and self._restarts(group, table):
                wrong = ["positions restart at 0 with a cache"]
            elif wrong and len(group) > 1:
                wrong = self._by_call(group, table) or wrong
            notes += [each for each in wrong if each not in notes]
        return found, notes  # of the longest sequences

    def _reach(self, group: Sequence[Vectors]) -> int:
        return max(self.seen.calls[each.call].length for each in group)

    def _by_call(self, group: Sequence[Vectors], rope: Rotary | None) -> list[str]:
        """Return where calls part, if those of several positions and those of one do not alike."""
        wrong = []
        for single in (False, True):
            part = [v for v in group if (len(self.seen.calls[v.call].kept) == 1) is single]
            if not part or len(part) == len(group):
                return []
            words = _differences(self._identify(part, rope), rope)
            if words and self._restarts(part, rope):
                words = ["positions are always 0" if single else "positions restart at 0"]
            wrong.append(", ".join(words))
        if wrong[0] == wrong[1]:
            return [wrong[0]] if wrong[0] else []
        where = ("of several positions at once", "one position at a time")
        return [f"{text} {words}" for text, words in zip(wrong, where, strict=True) if text]

    def _restarts(self, group: Sequence[Vectors], rope: Rotary | None) -> bool:
        """Return whether the expected RoPE explains all calls with positions from 0 in each one."""
        calls = [self.seen.calls[each.call] for each in group]
        if rope is None or all(not call.positions[0].any() for call in calls):
            return False
        before = joined_calls([(each, each.before) for each in group], rope)
        after = joined_calls([(each, each.after) for each in group], rope)
        moved = [replace(call, positions=call.positions - call.positions[0]) for call in calls]
        try:
            inputs = validate_inputs(before, after, joined_positions(moved))
            errors = vector_errors(inputs.before, inputs.after, rope, inputs.positions)
        except ArgumentError:
            return False
        return float(errors.max()) <= _EXPLAINED

    def _identify(self, group: Sequence[Vectors], rope: Rotary | None) -> Identification:
        """Return the RoPE of vectors from several calls; that of another layer if it fits."""
        before = joined_calls([(each, each.before) for each in group], rope)
        after = joined_calls([(each, each.after) for each in group], rope)
        where = joined_positions([self.seen.calls[each.call] for each in group])
        key = (rope, before.shape, where.tobytes())
        if key not in self.known or not _does_the_same(self.known[key], before, after, where):
            candidates = None if rope is None else {_EXPECTED: rope}
            self.known[key] = identify_rows(before, after, where, candidates=candidates)
        return self.known[key]

    def _scale(
        self, vectors: Sequence[Vectors], temperature: Temperature | None
    ) -> tuple[float | None, list[str]]:
        """Return the factor on the score, and what is wrong with how it depends on the position.

        It is None where it was not seen, or where vectors are normalized after the rotation.
        """
        scales, wrong, rounding = [], [], _rounding(vectors)
        for index in dict.fromkeys(each.call for each in vectors):
            both = [each for each in vectors if each.call == index]
            scale = next((each.scale for each in both if each.scale is not None), None)
            call = self.seen.calls[index]
            for each in both if scale is not None else ():
                if each.factor is None:
                    continue
                expected = np.ones(each.factor.shape[1])
                if each.role == "query" and temperature is not None:
                    expected = temperature(call.positions[call.kept][:, 0])
                ratio = each.factor / expected
                if np.ptp(ratio, axis=0).max() > rounding * ratio.max():
                    return None, []  # each head by a factor of its own
                if np.ptp(ratio) > rounding * ratio.max():
                    least, most = ratio.min(), ratio.max()
                    wrong.append(f"{each.role} multiplied by {least:.6g} to {most:.6g}")
                scale = scale and scale * float(ratio[0, -1])
            scales += [] if scale is None else [scale]
        if scales and np.ptp(scales) > rounding * max(scales):
            wrong.append(f"the score is multiplied by {min(scales):.6g} to {max(scales):.6g}")
        return (scales[0] if scales else None), list(dict.fromkeys(wrong))


def _rounding(vectors: Sequence[Vectors]) -> float:
    """Return the relative difference of two factors that are one.

    They are quotients of vectors rounded to their dtype twice, times a scale in float32.
    """
    units = [UNIT[str(dtype_name(v.after.dtype))] for v in vectors if v.after is not None]
    return 4 * max([SINGLE, *units]) + _FACTOR


def _merge(notes: dict[str, list[str]]) -> list[str]:
    """Return what is wrong with queries and keys, once where it is the same."""
    query, key = (", ".join(notes[role]) for role in ROLES)
    if query == key:
        return [f"query and key: {query}"] if query else []
    return [f"{role}: {text}" for role, text in zip(ROLES, (query, key), strict=True) if text]


def layer_index(module: str) -> int | None:
    """Return the number in the path of a module; None if it has none."""
    number = re.search(r"(?:^|\.)(\d+)(?:\.|$)", module)
    return None if number is None else int(number[1])


def text_layers(model: Model) -> list[Layer]:
    """Return the kinds of layers of a model's text part, or of another that takes tokens."""
    other = {part.name for part in parts(model.raw)} - {""}
    text = [
        each
        for each in model.layers
        if not any(f"{each.name}.".startswith(f"{name}.") for name in other)
    ]
    return text or [each for each in model.layers if not re.search("vision|audio", each.name)]


def joined_calls(pairs: Sequence[tuple[Vectors, Any]], rope: Rotary | None) -> NDArray[Any]:
    """Return vectors of several calls one after another, of as many heads as all of them have."""
    heads = min(len(array) for _, array in pairs)
    return np.concatenate([whole_heads(v, array[:heads], rope) for v, array in pairs], axis=1)


def joined_positions(calls: Sequence[Call]) -> NDArray[np.float64]:
    """Return the positions that are kept of several calls, (tokens,) or (tokens, axes)."""
    axes = max(each.positions.shape[1] for each in calls)
    positions = np.concatenate(
        [np.broadcast_to(c.positions[c.kept], (len(c.kept), axes)) for c in calls]
    )
    return positions[:, 0] if axes == 1 else positions


def whole_heads(vectors: Vectors, array: Any, rope: Rotary | None) -> NDArray[Any]:
    """Return vectors of a whole head, with coordinates that are not handed to the rotation as 1."""
    width = array.shape[-1]
    head_dim, offset = vectors.head_dim or width, vectors.offset
    if vectors.head_dim is None and rope is not None and width == rope.rotary_dim:
        head_dim, offset = rope.head_dim, rope.rotary_offset
    whole = np.ones((*array.shape[:-1], head_dim), array.dtype)
    whole[..., offset : offset + width] = array
    return whole


def _does_the_same(found: Identification, before: Any, after: Any, positions: Any) -> bool:
    """True if what rotates one layer rotates another within twice the error that it has there."""
    if found.rotary is None or found.max_residual is None or found.positions is None:
        return False
    if found.precision not in FULL:
        return False  # its error is large enough to hide that this layer has none
    inputs = validate_inputs(before, after, positions)
    error = float(vector_errors(before, after, found.rotary, found.positions).max())
    return error <= 2 * (2 * found.max_residual * inputs.unit)


def _differences(found: Identification, rope: Rotary | None) -> list[str]:
    """Return the fields in which a rotation differs from the expected."""
    if rope is None:
        return ["rotated, where no position is expected"]
    rotary = found.rotary
    if rotary is None:
        return [found.reason or "not a rotation by position"]
    wrong = []
    if found.position_offset is None:
        wrong.append("positions are off, differently on each axis")
    elif abs(found.position_offset) > _OFFSET:
        wrong.append(f"positions are off by {found.position_offset:+.4g}")
    if found.position_step not in (None, 1.0):
        wrong.append(_multiplied(found.position_step))
    rounded = [] if found.precision in FULL else [_rounding_error(found)]
    if any(match.name == _EXPECTED and match.matches for match in found.matches):
        return wrong + rounded
    for name in ("head_dim", "layout", "rotary_dim", "rotary_offset", "direction"):
        ours, theirs = getattr(rotary, name), getattr(rope, name)
        if ours != theirs:
            wrong.append(f"{name.replace('_', ' ')} {ours}, not {theirs}")
    if abs(rotary.attention_factor / rope.attention_factor - 1) > _CLOSE:
        wrong.append(
            f"attention factor {rotary.attention_factor:.6g}, not {rope.attention_factor:.6g}"
        )
    wrong += rounded + _table_differences(rotary, rope)
    return wrong or _axis_differences(rotary, rope) or ["another order of pairs, or other axes"]


def _axis_differences(rotary: Rotary, rope: Rotary) -> list[str]:
    """Return how the pairs are shared out to the axes, where that differs."""
    ours, theirs = ([*each.axis] for each in (rotary, rope))
    if ours == theirs:
        return []
    return [f"axes of the pairs {_runs(ours)}, not {_runs(theirs)}"]


def _runs(axes: Sequence[int]) -> str:
    """Return the lengths of the runs of one axis each, or the number of pairs that take turns."""
    runs = [len([*group]) for _, group in itertools.groupby(axes)]
    if len(runs) == len(set(axes)):
        return "/".join(map(str, runs))
    return "/".join(str(axes.count(each)) for each in sorted(set(axes))) + " in turns"


def _multiplied(step: float) -> str:
    if abs(step / 2 - 1) <= _CLOSE:
        return "rotated twice: angles are multiplied by 2"
    return f"positions are multiplied by {step:.6g}"


def _rounding_error(found: Identification) -> str:
    """Return what was rounded to half precision, or how large an error nothing explains."""
    if found.precision == "unexplained":
        return f"off by up to {found.max_residual:,.2g} ulp of {found.dtype}, by no known rounding"
    return f"computed with {found.precision}"


def _table_differences(rotary: Rotary, rope: Rotary) -> list[str]:
    """Return how two tables of frequencies differ: by base, by formula, or by their first pair."""
    ours, theirs = rotary.inv_freq, rope.inv_freq
    if ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=_CLOSE, atol=0):
        return []
    bases = [each.base for each in (rotary, rope)]
    names = [None if each.formula is None else each.formula.title for each in (rotary, rope)]
    wrong = []
    if None not in names and names[0] != names[1]:
        wrong.append(f"{names[0]}, not {names[1]}")
    if None not in bases and bases[0] != bases[1]:
        wrong.append(f"base {bases[0]:,.10g}, not {bases[1]:,.10g}")
    if wrong:
        return wrong
    if ours.shape != theirs.shape:
        return []
    ratios = ours / np.where(theirs == 0, np.inf, theirs)
    if np.ptp(ratios) <= _CLOSE * ratios.max():
        return [_multiplied(float(ratios.mean()))]
    pair = int(np.argmin(np.isclose(ours, theirs, rtol=_CLOSE, atol=0)))
    return [f"frequency {ours[pair]:.6g} of pair {pair}, not {theirs[pair]:.6g}"]


def _expected_scale(head_dim: int, rope: Rotary | None, config: Any) -> float:
    """Return 1 / sqrt(d), or what a configuration has instead, times the encoding's factor."""
    factor = 1.0 if rope is None else rope.softmax_factor
    facts = architecture(getattr(config, "model_type", None)).facts
    multiplier = getattr(config, "attention_multiplier", facts.get("scale"))
    if multiplier is not None:
        return float(multiplier) * factor
    dim = facts.get("scale_share", 1.0) * head_dim
    return factor / math.sqrt(getattr(config, "query_pre_attn_scalar", None) or dim)


def _describe_calls(calls: Sequence[Call]) -> Iterator[str]:
    """Yield the calls of several positions, then those of one together."""
    steps = [call for call in calls if len(call.positions) == 1]
    for call in calls:
        if len(call.positions) > 1:
            first, last = call.positions[[0, -1], 0]
            yield f"{len(call.positions)} positions, {first:,.0f} to {last:,.0f}"
    if steps:
        first, last = (steps[i].positions[0, 0] for i in (0, -1))
        yield f"{len(steps)} positions one by one, {first:,.0f} to {last:,.0f}"
