"""The verdict on a watched model: the RoPE that each layer applies, next to the one expected."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.usage import Usage, usage
from ropecli.arrays import dtype_name
from ropecli.checks.accuracy import phase_tolerance, table_roundings
from ropecli.checks.identify.agreement import vector_errors
from ropecli.checks.identify.observe import validate_inputs
from ropecli.checks.identify.parting import list_indices
from ropecli.checks.identify.precision import FULL
from ropecli.checks.identify.recover import Identification, identify_rows
from ropecli.checks.positions.check import PositionIds
from ropecli.checks.positions.check import judge as judge_positions
from ropecli.checks.positions.recover import RecoveredPositions, recover_positions
from ropecli.checks.positions.rows import Called
from ropecli.checks.trace.differences import EXPECTED, differences_of
from ropecli.checks.trace.tensors import (
    CALLS,
    ModelCall,
    Vectors,
    join_positions,
    join_vectors,
)
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.models.architectures import architecture
from ropecli.models.load import load_model
from ropecli.models.model import Layer, Model
from ropecli.models.parts import parts
from ropecli.results import Result
from ropecli.rotary import Rotary
from ropecli.rotary.factors import Temperature
from ropecli.units import SINGLE, UNIT

_FACTOR = 1e-5  #: Relative difference of two factors that are one, in sums of float32 products.
_EXPLAINED = 0.02  #: Of a pair's length; an angle that is off by one position leaves more.
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
    expected_scale: float | None  #: None where no head was seen whole, or the weights say it.
    agrees: bool | None  #: None where it could not be seen.
    note: str | None  #: Where it parts from what is expected, or why it could not be seen.


@dataclass(eq=False, repr=False)
class Recording:
    """Record of a watched model so far."""

    calls: list[ModelCall] = field(default_factory=list)  #: Calls of the model, in order.
    vectors: list[Vectors] = field(default_factory=list)  #: In the order of their scores.
    unseen: set[str] = field(default_factory=set)  #: Modules whose scores are of unknown vectors.
    functions: tuple[str, ...] = ()  #: Names of those that were wrapped.
    config: Any = None  #: The configuration of a text model of Transformers.

    def verdict(self, expected: Rotary | Model) -> Trace:
        """Judge each layer by the RoPE that is expected of it.

        Args:
            expected: One encoding for all layers, or a model from `load_model`.

        Raises:
            ArgumentError: Nothing was seen.
            ArgumentTypeError: Neither an encoding nor a model.
        """
        return judge(self, expected)

    def positions(self, expected: Any) -> dict[str, PositionIds]:
        """Recover the positions that queries and keys were rotated by, next to those of the calls.

        They are named after the module that scores them, as "layers.0.self_attn.query".

        Args:
            expected: The encoding of all layers, a model from `load_model`, or the watched model
                itself, if it has the `config` of a model of Transformers.

        Raises:
            ArgumentError: Nothing was seen, or no layer rotates.
            ArgumentTypeError: Neither an encoding nor a model.
        """
        return recovered_positions(self, expected)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return queries and keys before and after their rotation, all calls in a row.

        They are named after the module that scores them, as "layers.0.self_attn.query.before", of
        shape (heads, tokens, head_dim), the sequences of a call in a row. Coordinates that the
        rotation is not given are 1. The tokens have the "positions", (tokens,) or (tokens, axes).

        Raises:
            ArgumentError: Nothing was seen.
        """
        arrays = {
            ".".join(filter(None, (module, role, when))): array
            for module, both in self._rotated_vectors().items()
            for role, vectors in both.items()
            for when, array in zip(("before", "after"), join_vectors(vectors), strict=True)
        }
        return arrays | {"positions": join_positions(self.calls)}

    def usage(self, rope: Rotary, *, layers: Iterable[int] | None = None) -> Usage:
        """Average the length of each pair over the tokens, for every layer that rotates.

        The result is that of `ropecli.usage` on the queries and keys before their rotation.

        Args:
            rope: The encoding of the layers.
            layers: Indices of layers, where others have another encoding; all by default.

        Raises:
            ArgumentError: Nothing was seen, a layer without rotation, or vectors that the encoding
                does not fit.
        """
        by_module = self._rotated_vectors()
        indices = {module: layer_index(module) for module in by_module}
        wanted = None if layers is None else {*layers}
        if missing := (wanted or set()) - {*indices.values()}:
            known = ", ".join(str(index) for index in indices.values())
            raise ArgumentError(
                f"layers must be some of those that rotate, {known}, got {min(missing)}"
            )
        chosen = [module for module in by_module if wanted is None or indices[module] in wanted]
        parts = [
            usage(rope, *(join_vectors(by_module[module][role], rope)[0] for role in ROLES))
            for module in chosen
        ]
        if len({(part.q_norms.shape, part.k_norms.shape) for part in parts}) > 1:
            raise ArgumentError(
                "all layers must have as many heads; choose some of them with `layers`"
            )
        places = [indices[module] for module in chosen]
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("q_norms", "k_norms", "q_massive", "k_massive")
        }
        return replace(
            parts[0],
            **joined,
            layers=tuple(row if place is None else place for row, place in enumerate(places)),
        )

    def _rotated_vectors(self) -> dict[str, dict[str, list[Vectors]]]:
        """Return queries and keys of all calls, by module and role, where both are rotated."""
        _check_sight(self)
        by_module: dict[str, dict[str, list[Vectors]]] = {}
        for vectors in self.vectors:
            if vectors.before is not None:
                by_module.setdefault(vectors.module, {}).setdefault(vectors.role, []).append(
                    vectors
                )
        by_module = {module: both for module, both in by_module.items() if len(both) == len(ROLES)}
        if not by_module:
            raise ArgumentError("no layer rotates its queries and keys")
        return by_module


def _check_sight(seen: Recording) -> None:
    """Refuse a record without queries and keys."""
    if seen.vectors:
        return
    if not seen.calls:
        raise ArgumentError("the model was not called", "call it within the block of `watch`")
    where = f" in {min(seen.unseen)}" if seen.unseen else ""
    raise ArgumentError(
        f"no queries or keys could be captured{where}, as in a fused or compiled kernel",
        "name the function that rotates in `wrap`, or run the model uncompiled, with eager "
        "attention",
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace(Result, view="trace"):
    """The RoPE that the layers of a running model really apply."""

    source: str | None  #: The file; None for a model of one's own.
    model_type: str | None  #: As the file has it.
    built: str | None  #: What built the model, such as "Transformers 5.0.0"; None for one's own.
    calls: tuple[str, ...]  #: The calls of the model, such as "40 positions from 0".
    faults: tuple[str, ...] = ()  #: Calls whose positions are not those of their cache.
    skipped: tuple[str, ...] = ()  #: Calls, positions and code that were not looked at.
    layers: tuple[TracedLayer, ...]  #: In the order in which they ran.
    seen: Recording  #: The vectors that show it.

    @property
    def passed(self) -> bool:
        """True if no layer parts from what is expected of it, and no call from its cache."""
        return not self.faults and all(layer.agrees is not False for layer in self.layers)


def recovered_positions(seen: Recording, expected: object) -> dict[str, PositionIds]:
    """Recover the positions of each layer; arguments as in `Recording.positions`."""
    judgement = _Judgement(seen=seen, expected=_check_expected(expected))
    total, by_role = sum(call.sequences * call.count for call in seen.calls), {}
    for module, both in seen._rotated_vectors().items():
        rope = judgement.rope_of(judgement.kinds(layer_index(module), None)[0])
        if rope is None:
            continue
        for role, vectors in both.items():
            calls = judgement.calls(vectors)
            asked = Called(
                ids=join_positions(calls).astype(np.int64)[None], calls=_number_sequences(calls)
            )
            judged = judge_positions(_recover(rope, vectors, calls), asked)
            by_role[f"{module}.{role}".lstrip(".")] = replace(judged, called_with=total)
    return by_role


def _recover(
    rope: Rotary, vectors: Sequence[Vectors], calls: Sequence[ModelCall]
) -> RecoveredPositions:
    """Recover the positions of calls in a row, all together where they have the same table."""
    tables = [rope.at_length(call.length) for call in calls]
    parts = [
        recover_positions(table, *join_vectors([vectors[i] for i in index], rope))
        for table, index in groupby(range(len(calls)), key=tables.__getitem__)
    ]
    return replace(
        parts[0],
        positions=np.concatenate([part.positions for part in parts]),
        error=np.concatenate([part.error for part in parts]),
        noise=max(part.noise for part in parts),
    )


def _number_sequences(calls: Sequence[ModelCall]) -> NDArray[np.int64]:
    """Return a number for each token: that of its sequence, counted on from call to call."""
    lengths = [len(call.kept) for call in calls for _ in range(call.sequences)]
    return np.repeat(np.arange(len(lengths)), lengths)


def _check_expected(expected: Any) -> Rotary | Model:
    if hasattr(getattr(expected, "config", None), "to_dict"):
        return load_model(expected.config.to_dict())
    if isinstance(expected, Rotary | Model):
        return expected
    raise ArgumentTypeError(f"expected must be a Rotary or a Model, got {type(expected).__name__}")


def judge(
    seen: Recording, expected: object, *, source: str | None = None, built: str | None = None
) -> Trace:
    """Judge each layer of a model that was watched; arguments as in `Recording.verdict`."""
    checked = _check_expected(expected)
    if isinstance(checked, Model):
        check_rotates(checked)
    _check_sight(seen)
    judgement = _Judgement(seen=seen, expected=checked)
    return Trace(
        source=source,
        model_type=checked.model_type if isinstance(checked, Model) else None,
        built=built,
        calls=tuple(_describe_calls(seen.calls)),
        faults=tuple(_cache_faults(seen.calls)),
        skipped=tuple(_describe_skipped(seen.calls)),
        layers=judgement.layers(),
        seen=seen,
    )


def check_rotates(model: Model) -> None:
    """Refuse a model with an encoding that is not a RoPE: nothing can be compared with it."""
    if model.other_encoding is not None:
        raise ArgumentError(
            f"trace compares rotations, and {model.source} has {model.other_encoding}"
        )


@dataclass(kw_only=True, eq=False)
class _Judgement:
    """The expectations of a model that was watched, and what was identified so far."""

    seen: Recording
    expected: Rotary | Model
    known: dict[Any, Identification] = field(default_factory=dict)

    def layers(self) -> tuple[TracedLayer, ...]:
        """Return the verdict on every module, in the order of the layers."""
        seen = [vectors.module for vectors in self.seen.vectors]
        modules = list(dict.fromkeys([*seen, *sorted(self.seen.unseen)]))
        traced = []
        for module in modules:
            index = layer_index(module)
            within = any(module.startswith(f"{name}.") for name in modules)
            part = module.rpartition(".")[2] if within else None  # such as an indexer
            tries = [self._layer(module, index, part, kind) for kind in self.kinds(index, part)]
            traced.append(next((attempt for attempt in tries if attempt.agrees), tries[0]))
        return tuple(sorted(traced, key=lambda each: -1 if each.index is None else each.index))

    def kinds(self, index: int | None, part: str | None) -> list[Layer | None]:
        """Return the kinds of text layer that an index may have, by the file, or by the model."""
        if isinstance(self.expected, Rotary):
            return [None]
        layers = [
            layer
            for layer in text_layers(self.expected)
            if (layer.name == part) is (part is not None)
        ]
        listed = [layer for layer in layers if index in (layer.settings.layers or ())]
        types = getattr(self.seen.config, "layer_types", None) or ()
        type_name = types[index] if index is not None and index < len(types) else None
        named = [layer for layer in layers if layer.name == type_name]
        free = [layer for layer in layers if layer.settings.layers is None]
        return [*(listed or named or free)] or [None]

    def rope_of(self, kind: Layer | None) -> Rotary | None:
        """Return the encoding that is expected of a kind of layer."""
        if isinstance(self.expected, Rotary):
            return self.expected
        return None if kind is None else kind.rotary

    @property
    def knows_class(self) -> bool:
        """True if nothing that is expected was assumed, as of a model type that is not known."""
        expected = self.expected
        return isinstance(expected, Rotary) or architecture(expected.model_type).known

    def _layer(
        self, module: str, index: int | None, part: str | None, kind: Layer | None
    ) -> TracedLayer:
        """Judge the queries and keys of one module as a kind of layer."""
        rope = self.rope_of(kind)
        own = [captured for captured in self.seen.vectors if captured.module == module]
        by_role = {role: [captured for captured in own if captured.role == role] for role in ROLES}
        judged = {role: self._judge(vectors, rope) for role, vectors in by_role.items()}
        free = {
            role: [] if self.knows_class else _assumed_by_class(wrong)
            for role, (_, wrong) in judged.items()
        }
        head_dim = next(
            (captured.head_dim for captured in own if captured.head_dim is not None), None
        )
        scale, wrong = self._scale(own, None if kind is None else kind.settings.temperature)
        wanted = None if head_dim is None else _expected_scale(head_dim, rope, self.seen.config)
        if scale is not None and wanted is not None and abs(scale / wanted - 1) > _rounding(own):
            wrong.append(f"the score is multiplied by {scale:.6g}, not {wanted:.6g}")
        by_file = {
            role: [word for word in words if word not in free[role]]
            for role, (_, words) in judged.items()
        }
        notes = [*_merge(by_file), *wrong]
        agrees: bool | None = not notes
        alike = not any(np.ptp(call.positions, axis=-1).any() for call in self.calls(own))
        if part is not None and kind is None:
            agrees, notes = None, [f"part of a layer, of which nothing is expected: {part}"]
        elif agrees and (module in self.seen.unseen or not all(by_role.values())):
            agrees, notes = None, ["its queries or keys were not seen: name in `wrap` what rotates"]
        elif agrees and not any(call.positions.any() for call in self.calls(own)):
            agrees, notes = None, ["called only at position 0, where nothing is rotated"]
        elif agrees and rope is not None and rope.axes > 1 and alike:
            grid = f"({rope.axes}, batch, sequence)"
            same = "positions were the same on all axes: call it with position_ids of a grid"
            agrees, notes = None, [f"{same}, {grid}"]
        elif agrees:
            notes = [f"{axis}: assumed, and compared with nothing" for axis in _merge(free)]
        return TracedLayer(
            index=index,
            module=module,
            name=None if kind is None else kind.name,
            expected=rope,
            query=judged["query"][0],
            key=judged["key"][0],
            softmax_scale=scale,
            expected_scale=wanted,
            agrees=agrees,
            note="; ".join(notes) or None,
        )

    def _judge(
        self, vectors: Sequence[Vectors], rope: Rotary | None
    ) -> tuple[Identification | None, list[str]]:
        """Return what queries or keys get in all calls, and where it parts from the expected."""
        rotated = [captured for captured in vectors if captured.before is not None]
        if not rotated:
            return None, ["not rotated"] if rope is not None and vectors else []
        if len(rotated) < len(vectors):
            return None, [f"rotated in {len(rotated)} of {len(vectors)} calls"]
        groups: dict[Rotary | None, list[Vectors]] = {}
        for captured in rotated:
            table = rope and rope.at_length(self.seen.calls[captured.call].length)
            groups.setdefault(table, []).append(captured)
        attempts, notes, single = None, [], []
        for table, group in sorted(groups.items(), key=lambda each: self._reach(each[1])):
            if table is not None and not np.ptp(join_positions(self.calls(group)), axis=0).any():
                single += [(table, captured) for captured in group]
                continue
            attempts = self._identify(group, table)
            wrong = differences_of(attempts, table)
            if wrong and self._restarts(group, table):
                wrong = ["positions restart at 0 with a cache"]
            elif wrong:
                wrong = self._by_part(group, table) or self._by_call(group, table) or wrong
            notes += [reason for reason in wrong if reason not in notes]
        if rope is not None and single:  # one position shows whether its rows are right, no more
            attempts = attempts or self._identify([single[-1][1]], single[-1][0])
            notes = notes or self._judge_steps(rope, single)
        return attempts, notes  # of the longest sequences

    def _judge_steps(self, rope: Rotary, steps: Sequence[tuple[Rotary, Vectors]]) -> list[str]:
        """Return what is wrong with calls whose length alone has a table of its own."""
        wrong = [(table, step) for table, step in steps if not self._fits([step], table)]
        if not wrong:
            return []
        first = self.seen.calls[wrong[0][1].call].length
        for length in sorted({1, *(call.length for call in self.seen.calls)}):
            other = rope.at_length(length)
            if all(self._fits([vectors], other) for _, vectors in wrong):
                table = "short sequences" if length == 1 else f"{length:,} positions"
                return [f"rotated by the table of {table}, where {first:,} or more are in use"]
        return [f"not rotated as expected at position {first - 1:,}"]

    def calls(self, group: Sequence[Vectors]) -> list[ModelCall]:
        """Return the call of the model that each of some vectors is from."""
        return [self.seen.calls[vectors.call] for vectors in group]

    def _reach(self, group: Sequence[Vectors]) -> int:
        return max(call.length for call in self.calls(group))

    def _by_part(self, group: Sequence[Vectors], rope: Rotary | None) -> list[str]:
        """Return what is wrong in some heads, or in some sequences of a batch, if not in all."""
        errors = None if rope is None else self._errors(group, rope, self.calls(group))
        if rope is None or errors is None:
            return []
        calls, wrong = self.calls(group), errors > self._tolerance(group, rope)
        heads: NDArray[np.bool_] = np.any(wrong, axis=1)
        if heads.any() and not heads.all():
            words = self._judge_part(group, rope, heads=np.flatnonzero(heads))
            return [
                f"{_name_indices('head', np.flatnonzero(heads), len(heads))}: {', '.join(words)}"
            ]
        if len({call.sequences for call in calls}) > 1:
            return []
        count = calls[0].sequences
        sequence_of_row = np.concatenate(
            [np.repeat(np.arange(count), len(call.kept)) for call in calls]
        )
        sequences = [bool(wrong[:, sequence_of_row == sequence].any()) for sequence in range(count)]
        if all(sequences):
            return []
        by_words: dict[str, list[int]] = {}
        for sequence in np.flatnonzero(sequences).tolist():
            words = self._judge_part(group, rope, sequence=sequence)
            by_words.setdefault(", ".join(words), []).append(sequence)
        return [
            f"{_name_indices('sequence', np.array(which), count)}: {words}"
            for words, which in by_words.items()
        ]

    def _judge_part(
        self,
        group: Sequence[Vectors],
        rope: Rotary,
        *,
        heads: NDArray[np.int64] | None = None,
        sequence: int | None = None,
    ) -> list[str]:
        """Return what is wrong with some heads, or with one sequence, judged by themselves."""
        calls, vectors = self.calls(group), []
        for index, captured in enumerate(group):
            kept = slice(None) if heads is None else heads
            tokens = slice(None)
            if sequence is not None:
                length = len(calls[index].kept)
                tokens = slice(sequence * length, (sequence + 1) * length)
            assert captured.before is not None
            assert captured.after is not None
            before, after = captured.before[kept, tokens], captured.after[kept, tokens]
            vectors.append(replace(captured, call=index, before=before, after=after))
        if sequence is not None:
            for other in range(calls[0].sequences):
                moved = [replace(call, positions=call.positions[[other]]) for call in calls]
                if other != sequence and self._fits(vectors, rope, moved):
                    return [f"rotated by the positions of sequence {other}"]
            calls = [replace(call, positions=call.positions[[sequence]]) for call in calls]
        alone = _Judgement(seen=Recording(calls=calls, vectors=vectors), expected=rope)
        return alone._judge(vectors, rope)[1]

    def _fits(
        self, group: Sequence[Vectors], rope: Rotary, calls: Sequence[ModelCall] | None = None
    ) -> bool:
        """Return whether a RoPE explains all rows, at the positions of their calls or of others."""
        errors = self._errors(group, rope, calls or self.calls(group))
        return errors is not None and bool((errors <= self._tolerance(group, rope)).all())

    def _errors(
        self, group: Sequence[Vectors], rope: Rotary, calls: Sequence[ModelCall]
    ) -> NDArray[np.float64] | None:
        """Return the errors of vectors by a RoPE, (heads, tokens); None if it has another size."""
        before, after = join_vectors(group, rope)
        if before.shape[-1] != rope.head_dim:
            return None
        positions = join_positions(calls)
        if positions.ndim == 1 and rope.axes > 1:
            positions = np.repeat(positions[:, None], rope.axes, axis=1)
        elif positions.ndim > 1:
            positions = positions[:, : rope.axes] if rope.axes > 1 else positions[:, 0]
        return vector_errors(before, after, rope, positions)

    def _tolerance(self, group: Sequence[Vectors], rope: Rotary) -> float:
        """Return the error of a vector up to which it is explained, with that of float32 angles."""
        furthest = max(float(np.abs(call.positions).max()) for call in self.calls(group))
        roundings = np.maximum(table_roundings(rope), 1)
        return _EXPLAINED + float(phase_tolerance(furthest, rope.inv_freq_norm, roundings).max())

    def _by_call(self, group: Sequence[Vectors], rope: Rotary | None) -> list[str]:
        """Return what is wrong in prefill or decode, if the two differ."""
        wrong = []
        for single in (False, True):
            part = [v for v in group if (self.seen.calls[v.call].count == 1) is single]
            if not part or len(part) == len(group):
                return []
            words = differences_of(self._identify(part, rope), rope)
            if words and self._restarts(part, rope):
                words = ["positions are always 0" if single else "positions restart at 0"]
            wrong.append(words)
        if wrong[0] == wrong[1]:
            return wrong[0]
        where = ("of several positions at once", "one position at a time")
        return [f"{', '.join(words)} {at}" for words, at in zip(wrong, where, strict=True) if words]

    def _restarts(self, group: Sequence[Vectors], rope: Rotary | None) -> bool:
        """Return whether the expected RoPE explains all calls with positions from 0 in each one."""
        calls = self.calls(group)
        if rope is None or all(not call.positions[:, 0].any() for call in calls):
            return False
        moved = [replace(call, positions=call.positions - call.positions[:, :1]) for call in calls]
        return self._fits(group, rope, moved)

    def _identify(self, group: Sequence[Vectors], rope: Rotary | None) -> Identification:
        """Return the RoPE of vectors from several calls; that of another layer if it fits."""
        before, after = join_vectors(group, rope)
        where = join_positions(self.calls(group))
        key = (rope, before.shape, where.tobytes())
        if key not in self.known or not _does_the_same(self.known[key], before, after, where):
            candidates = None if rope is None else {EXPECTED: rope}
            self.known[key] = identify_rows(before, after, where, candidates=candidates)
        return self.known[key]

    def _scale(
        self, vectors: Sequence[Vectors], temperature: Temperature | None
    ) -> tuple[float | None, list[str]]:
        """Return the factor on the score, and what is wrong with how it depends on the position."""
        scales, wrong, rounding = [], [], _rounding(vectors)
        for index in dict.fromkeys(captured.call for captured in vectors):
            both = [captured for captured in vectors if captured.call == index]
            scale = next((captured.scale for captured in both if captured.scale is not None), None)
            call = self.seen.calls[index]
            for captured in both if scale is not None else ():
                if captured.factor is None:
                    continue
                expected = np.ones(captured.factor.shape[1])
                if captured.role == "query" and temperature is not None:
                    expected = temperature(call.tokens[: len(expected), 0])
                ratio = captured.factor / expected
                if np.ptp(ratio, axis=0).max() > rounding * ratio.max():
                    return None, []  # each head by a factor of its own
                if np.ptp(ratio) > rounding * ratio.max():
                    least, most = ratio.min(), ratio.max()
                    wrong.append(f"{captured.role} multiplied by {least:.6g} to {most:.6g}")
                scale = scale and scale * float(ratio[0, -1])
            scales += [] if scale is None else [scale]
        if scales and np.ptp(scales) > rounding * max(scales):
            wrong.append(f"the score is multiplied by {min(scales):.6g} to {max(scales):.6g}")
        return (scales[0] if scales else None), list(dict.fromkeys(wrong))


def _rounding(vectors: Sequence[Vectors]) -> float:
    """Return the relative difference of two factors that are one."""
    # They are quotients of vectors rounded to their dtype twice, times a scale in float32.
    units = [UNIT[str(dtype_name(v.after.dtype))] for v in vectors if v.after is not None]
    return 4 * max([SINGLE, *units]) + _FACTOR


def _assumed_by_class(wrong: Sequence[str]) -> list[str]:
    """Return the differences in what only the class of a model decides, not its file."""
    return [reason for reason in wrong if re.match("layout |not rotated|rotated, where", reason)]


def _name_indices(name: str, indices: NDArray[np.int64], count: int) -> str:
    """Return some of several heads or sequences by their numbers."""
    return f"{name}{'s' * (len(indices) > 1)} {list_indices(indices)} of {count}"


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
        layer
        for layer in model.layers
        if not any(f"{layer.name}.".startswith(f"{name}.") for name in other)
    ]
    return text or [layer for layer in model.layers if not re.search("vision|audio", layer.name)]


def _does_the_same(found: Identification, before: Any, after: Any, positions: Any) -> bool:
    """True if what rotates one layer rotates another within twice the error that it has there."""
    if found.rotary is None or found.max_residual is None or found.positions is None:
        return False
    if found.precision not in FULL:
        return False  # its error is large enough to hide that this layer has none
    inputs = validate_inputs(before, after, positions)
    error = float(vector_errors(before, after, found.rotary, found.positions).max())
    return error <= 2 * (2 * found.max_residual * inputs.unit)


def _expected_scale(head_dim: int, rope: Rotary | None, config: Any) -> float | None:
    """Return 1 / sqrt(d), or what a configuration has instead, times the encoding's factor.

    None where the weights say it.
    """
    factor = 1.0 if rope is None else rope.softmax_factor
    facts = architecture(getattr(config, "model_type", None)).facts
    multiplier = getattr(config, "attention_multiplier", facts.get("scale"))
    if multiplier == "learned":
        return None
    if multiplier is not None:
        return float(multiplier) * factor
    dim = facts.get("scale_share", 1.0) * head_dim
    return factor / math.sqrt(getattr(config, "query_pre_attn_scalar", None) or dim)


def _describe_calls(calls: Sequence[ModelCall]) -> Iterator[str]:
    """Yield the calls of several positions, then those of one together."""
    steps = [call for call in calls if call.count == 1]
    for call in calls:
        if call.count > 1:
            yield f"{call.count} positions{_of_sequences([call])}, {_range(call, call)}"
    if steps:
        one_by_one = f"{len(steps)} positions{_of_sequences(steps)} one by one"
        yield f"{one_by_one}, {_range(steps[0], steps[-1])}"


def _range(begin: ModelCall, end: ModelCall) -> str:
    """Return the first and the last position of calls, on the first axis of the first sequence."""
    return f"{begin.positions[0, 0, 0]:,.0f} to {end.positions[0, -1, 0]:,.0f}"


def _of_sequences(calls: Sequence[ModelCall]) -> str:
    """Return of how many sequences calls are, if of several."""
    most = max(call.sequences for call in calls)
    return f" of {most} sequences" if most > 1 else ""


def _cache_faults(calls: Sequence[ModelCall]) -> Iterator[str]:
    """Yield the calls whose positions go on after the cache was cropped."""
    for call in calls:
        if call.cropped_to is not None:
            first = call.positions[0, 0, 0]
            yield (
                f"position ids go on at {first:,.0f} after the cache was cropped to "
                f"{call.cropped_to:,} positions"
            )


def _describe_skipped(calls: Sequence[ModelCall]) -> Iterator[str]:
    """Yield the number of calls, and of positions in others, that were not looked at."""
    seen = calls[:CALLS]
    if len(calls) > len(seen):
        yield f"{len(calls) - len(seen):,} of {len(calls):,} calls"
    total, kept = (
        sum(counts) for counts in zip(*((c.count, len(c.kept)) for c in seen), strict=True)
    )
    if total > kept:
        yield f"{total - kept:,} of {total:,} positions of each head"
