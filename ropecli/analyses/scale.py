"""Methods of context extension side by side on one encoding."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.base_bound import LONGEST, BaseBound, base_bound
from ropecli.analyses.decay import decay
from ropecli.analyses.encoding_result import EncodingResult
from ropecli.analyses.frequencies import FrequencyTable, frequency_table
from ropecli.errors import ArgumentError
from ropecli.names import one_of
from ropecli.numbers import at_least, between, positive
from ropecli.rotary.factors import softmax_factor
from ropecli.rotary.formula import Formula
from ropecli.rotary.pairs import Placement
from ropecli.rotary.riflex import riflex
from ropecli.rotary.rotary import Rotary, check_rope

#: Methods, each with its rope type and the values of that type that it fixes.
METHODS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "linear": ("linear", {}),
    "ntk": ("ntk", {}),
    "dynamic": ("dynamic", {}),
    "ntk_by_parts": ("ntk_by_parts", {}),
    "yarn_paper": ("yarn", {"ramp": "paper"}),
    "yarn": ("yarn", {}),
    "llama3": ("llama3", {"low_freq_factor": 1.0, "high_freq_factor": 4.0}),
    "longrope": ("longrope", {}),
    "riflex": ("axial", {}),
}
UNSCALED, OWN = "unscaled", "own"  #: Rows in front of those of the methods.
ORIGINAL, CONTEXT = "original_max_position_embeddings", "max_position_embeddings"
#: Parameters that a method takes from the lengths and the factor, and not from the encoding.
_OF_METHOD = ("factor", ORIGINAL, CONTEXT, "sequence_length", "alpha", "ramp", "attention_factor")
FACTORS = ("short_factor", "long_factor")  #: Of LongRoPE, searched for each model.
FROM_LENGTHS = ("longrope",)  #: Rope types of which released files have no factor but the lengths.
#: Rope types that start from base^(-2i/d), as the methods do.
TYPES = (
    *("default", "linear", "ntk", "ntk_mixed", "dynamic", "ntk_by_parts", "llama3", "longrope"),
    *("yarn", "deepseek_yarn", "telechat3_yarn"),
)
#: Methods that files name, the likeliest to work without training first: YaRN surpasses the others
#: with it and without, dynamic NTK works without, linear needs it (Peng et al. 2023, Sections 3.1
#: to 3.4). Of Llama 3's is no such comparison, and factors of LongRoPE are searched for a length.
RANKED = ("yarn", "dynamic", "llama3", "linear", "longrope")
ROUNDING = 1e-12  #: A relative difference below it is rounding.
PARTS = 4  #: Of the bound's curve, for each doubling of the distance.
WHOLE = 2**20  #: Distance below which the bound is taken at every whole distance.
SAMPLES = 2**16  #: Distances of a part beyond.
BEYOND = 2  #: Distances are searched up to this multiple of the context.


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaledEncoding:
    """An encoding that one method stretched."""

    method: str  #: A name of `METHODS`; "unscaled", or "own" for the encoding as it was given.
    rope: Rotary  #: The encoding.
    frequency_ratio: NDArray[np.float64]  #: Frequency without scaling over that with it, (pairs,).
    new_angles: tuple[int, ...]  #: Pairs that take angles in the context that training lacked.
    upper_bound: NDArray[np.float64]  #: Mean of |S_j| over j and each part's distances, (parts,).
    coverage: FrequencyTable  #: Turns and angles within the context.
    base_bound: BaseBound  #: The longest context by the sum of cosines.

    @property
    def attention_factor(self) -> float:
        """The factor of cos and sin; a score has its square."""
        return self.rope.attention_factor


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A change of a model's config.json for a longer context."""

    file: str  #: The file.
    method: str  #: A name of `METHODS`.
    keys: Mapping[str, Any]  #: Keys that change, nested as in the file; null for those that leave.
    context_before: int | None  #: max_position_embeddings of the file.
    vllm: Mapping[str, Any] | None  #: --hf-overrides of vLLM; None where they give another table.
    read_by: str  #: Who reads the file, or what an unknown model type is assumed to be like.
    #: By stack with its release: True if it reads the table shown; None where it refuses the file.
    reads: Mapping[str, bool | None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Stretched:
    """An encoding stretched by several methods, with nothing analysed yet."""

    rope: Rotary  #: The encoding as it was given.
    original_length: int  #: Positions of the training without scaling.
    context_length: int  #: Positions wanted.
    factor: float  #: What the methods were given.
    sequence_length: int  #: Positions in use, for dynamic NTK and LongRoPE.
    ropes: Mapping[str, Rotary]  #: By method; "unscaled" first, and "own" for the one given.


@dataclass(frozen=True, kw_only=True, eq=False)
class Scale(EncodingResult):
    """Methods of context extension, on one encoding."""

    original_length: int  #: Positions of the training without scaling.
    context_length: int  #: Positions wanted.
    factor: float  #: What the methods were given.
    distance: NDArray[np.float64]  #: Middle of each part of the curves of the bound, (parts,).
    methods: tuple[ScaledEncoding, ...]  #: The first one is unscaled.
    proposal: Proposal | None = None  #: What to write into a model's file; None without one.
    unwritable: str | None = None  #: Why there is nothing to write into it.

    def unchanged(self, method: ScaledEncoding) -> int:
        """Return the number of pairs that keep their frequency."""
        return int(np.count_nonzero(np.abs(method.frequency_ratio - 1) <= ROUNDING))

    def stretched(self, method: ScaledEncoding) -> int:
        """Return the number of pairs whose frequency is divided by the factor, or by more."""
        full = method.frequency_ratio >= self.factor * (1 - ROUNDING)
        return int(np.count_nonzero(full & (method.frequency_ratio > 1 + ROUNDING)))


def scale(
    rope: Rotary,
    *,
    context_length: int | None = None,
    factor: float | None = None,
    original_length: int | None = None,
    methods: Iterable[str] | None = None,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    sequence_length: int | None = None,
    name: str | None = None,
) -> Scale:
    """Stretch the context of an encoding by several methods, and compare the results.

    Every method starts from the encoding without its scaling, base^(-2i/d). That comes first in
    the result, and then, if it differs, the encoding as it was given. The method of the encoding's
    own rope type keeps its other parameters, such as beta_fast, unless `parameters` has them.

    Args:
        rope: The encoding, plain or scaled.
        context_length: Positions wanted, up to 2^32; by default the original length times factor.
        factor: Factor of the methods; by default the context length over the original one.
        original_length: Positions of the training without scaling; by default those that the
            formula of the encoding names.
        methods: Names of `METHODS`; all by default, longrope only where its factors are known.
        parameters: Values of a method's rope type, named as in config.json, by method. LongRoPE
            has its factors from here, or from an encoding of that type.
        sequence_length: Positions in use, for dynamic NTK and LongRoPE; the context by default.
        name: Name of the encoding, such as a model's.

    Raises:
        ArgumentError: A value out of range or missing, no such method or parameter, or an
            encoding that does not start from base^(-2i/d).
        ArgumentTypeError: A value of the wrong type.
    """
    stretched = stretch(
        rope,
        context_length=context_length,
        factor=factor,
        original_length=original_length,
        methods=methods,
        parameters=parameters,
        sequence_length=sequence_length,
    )
    return compare(stretched, name=name)


def stretch(
    rope: Rotary,
    *,
    context_length: int | None,
    factor: float | None,
    original_length: int | None,
    methods: Iterable[str] | None,
    parameters: Mapping[str, Mapping[str, Any]] | None,
    sequence_length: int | None,
) -> Stretched:
    """Stretch an encoding, as `scale` describes it."""
    check_rope(rope)
    if methods is not None and "riflex" in ([methods] if isinstance(methods, str) else methods):
        return _stretch_axis(rope, context_length, original_length, parameters or {})
    if rope.formula is None or rope.formula.rope_type not in TYPES:
        raise ArgumentError(
            f"methods start from base^(-2i/d) or a scaling of it, got rope type {rope.rope_type}"
        )
    original = _original(rope.formula, original_length)
    context, by = _stretch(original, context_length, factor)
    used = context if sequence_length is None else at_least("sequence_length", sequence_length, 1)
    kept = _kept_parameters(rope.formula, original, by)
    given = _own_values(rope.formula, kept, parameters or {})
    ropes = {UNSCALED: _place(rope, rope.formula.unscaled)}
    if not rope.formula.is_plain:
        ropes[OWN] = rope.at_length(used)
    values = {"factor": by, ORIGINAL: original, "sequence_length": used}
    for name in _chosen(methods, given, parameters or {}):
        ropes[name] = _place(rope, _formula(name, rope.formula, values, given.get(name, {})))
    return Stretched(
        rope=rope,
        original_length=original,
        context_length=context,
        factor=by,
        sequence_length=used,
        ropes=ropes,
    )


def _stretch_axis(
    rope: Rotary,
    context: int | None,
    original: int | None,
    parameters: Mapping[str, Mapping[str, Any]],
) -> Stretched:
    """Stretch one axis of an encoding by RIFLEx; the others have no part in what is shown."""
    given = {"axis": 0, **parameters.get("riflex", {})}
    several = len(set(rope.axis or ())) > 1
    if not (several and given.keys() == {"axis", "pair"} and original and context):
        raise ArgumentError(
            "method riflex is for one axis of several, and needs lengths and a pair of that axis",
            "give `original`, `context` and `set` riflex.pair=K, with riflex.axis=A if not 0",
        )
    between("original length", original, 1, between("context length", context, 1, LONGEST))
    slowed = riflex(rope, sequence_length=context, **given)
    own = [i for i, axis in enumerate(rope.axis or ()) if axis == given["axis"]]
    ropes = {UNSCALED: rope, "riflex": slowed}
    return Stretched(
        rope=rope,
        original_length=original,
        context_length=context,
        factor=context / original,
        sequence_length=context,
        ropes={k: Rotary.from_inv_freq(v.diagonal_inv_freq[own]) for k, v in ropes.items()},
    )


def compare(stretched: Stretched, *, name: str | None = None) -> Scale:
    """Analyse the methods of a stretched encoding side by side."""
    plain, context = stretched.ropes[UNSCALED], stretched.context_length
    original, parts = stretched.original_length, _parts(context)
    trained = frequency_table(plain, context_length=original)
    methods: list[ScaledEncoding] = []
    for method, rope in stretched.ropes.items():
        found = frequency_table(rope, context_length=context, trained_length=original)
        with np.errstate(divide="ignore"):
            ratio = plain.diagonal_inv_freq / rope.diagonal_inv_freq
        beyond = found.angle > trained.angle * (1 + ROUNDING)
        searched = min(BEYOND * context, LONGEST)
        methods.append(
            ScaledEncoding(
                method=method,
                rope=rope,
                frequency_ratio=ratio,
                new_angles=tuple(np.flatnonzero(beyond).tolist()),
                upper_bound=mean_bounds(rope, parts),
                coverage=found,
                base_bound=base_bound(rope, context_length=context, positions=searched),
            )
        )
    return Scale(
        rope=stretched.rope,
        name=name,
        original_length=original,
        context_length=context,
        factor=stretched.factor,
        distance=np.sqrt(parts[:, 0] * parts[:, 1]),
        methods=tuple(methods),
    )


def own_factor(formula: Formula) -> float:
    """Return the factor of an encoding's own scaling; 1 without one."""
    factor, original, context = (formula.get(key) for key in ("factor", ORIGINAL, CONTEXT))
    if factor is None and original and context:
        factor = context / original
    return float(factor or 1.0)


def _original(formula: Formula, given: int | None) -> int:
    known = formula.get(ORIGINAL)
    if known is None and formula.rope_type == "dynamic":
        known = formula.get(CONTEXT)
    original = known if given is None else given
    if original is None:
        raise ArgumentError(
            f"rope type {formula.rope_type} names no original length; give original_length"
        )
    return between("original length", original, 1, LONGEST)


def _stretch(original: int, context: int | None, factor: float | None) -> tuple[int, float]:
    """Return the context length and the factor, of which one may follow from the other."""
    if factor is not None and positive("factor", factor) < 1:
        raise ArgumentError(f"factor must be at least 1, got {factor:g}")
    if context is None:
        if factor is None:
            raise ArgumentError("the context length or the factor must be given")
        context = min(round(original * float(factor)), LONGEST + 1)
    if between("context length", context, 1, LONGEST) < original:
        raise ArgumentError(
            f"context length must be at least the original, {original:,}, got {context:,}"
        )
    return context, context / original if factor is None else float(factor)


def _kept_parameters(formula: Formula, original: int, factor: float) -> dict[str, Any]:
    """Return the parameters that the method of the encoding's own rope type keeps.

    An attention factor belongs to the factor and the length that it was given with.
    """
    kept = {key: value for key, value in formula.own.items() if key not in _OF_METHOD}
    same = factor == own_factor(formula) and formula.get(ORIGINAL) in (None, original)
    if same and formula.get("attention_factor") is not None:
        kept["attention_factor"] = formula["attention_factor"]
    return kept


def _own_values(
    formula: Formula, kept: Mapping[str, Any], given: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the values of each method's own, with the searched factors of the encoding."""
    found = {_method(given_name): dict(values) for given_name, values in given.items()}
    if formula.rope_type in METHODS:
        found[formula.rope_type] = {**kept, **found.get(formula.rope_type, {})}
    own = {key: formula.get(key) for key in FACTORS if formula.get(key) is not None}
    lists = own | found.get("longrope", {})
    if lists:
        # The long one counts beyond the original length, and is enough.
        found["longrope"] = dict.fromkeys(FACTORS, lists.get(FACTORS[1])) | lists
    return found


def _chosen(
    methods: Iterable[str] | None,
    given: Mapping[str, Any],
    parameters: Mapping[str, Any],
) -> list[str]:
    if methods is None:
        return [
            method for method in METHODS if method not in ("longrope", "riflex") or method in given
        ]
    if isinstance(methods, str):
        methods = (methods,)
    chosen = list(dict.fromkeys(map(_method, methods)))
    for name in map(_method, parameters):
        if name not in chosen:
            raise ArgumentError(
                f"parameters of {name} have no effect on {', '.join(chosen) or 'no method'}"
            )
    if "longrope" in chosen and "longrope" not in given:
        raise ArgumentError("method longrope needs long_factor, a number for each pair")
    return chosen


def _method(name: str) -> str:
    spelled = str(name).replace("-", "_")
    return spelled if spelled in METHODS else one_of("method", name, METHODS)


def _formula(
    method: str, start: Formula, values: Mapping[str, Any], given: Mapping[str, Any]
) -> Formula:
    from ropecli.rotary.types import own_parameters

    rope_type, fixed = METHODS[method]
    own = {key: value for key, value in values.items() if key in own_parameters(rope_type)}
    if rope_type == "dynamic":
        own[CONTEXT] = values[ORIGINAL]
    return Formula.from_parameters(
        rope_type, dim=start["dim"], base=start["base"], own={**own, **fixed, **given}
    )


def _place(rope: Rotary, formula: Formula) -> Rotary:
    """Return the encoding of a formula on the pairs of another."""
    placement = Placement(
        head_dim=rope.head_dim,
        rotary_offset=rope.rotary_offset,
        pairs_in=rope.pairs_in,
        pairs_out=rope.pairs_out,
    )
    table = replace(formula.table(), axis=rope.axis)
    if formula.rope_type == "yarn" and rope.softmax_factor != 1:  # DeepSeek's factor on the score
        softmax = softmax_factor(formula["factor"], formula.get("mscale_all_dim"))
        table = replace(table, softmax_factor=softmax)
    return Rotary.from_table(table, placement, rope.direction, formula)


def _parts(context: int) -> NDArray[np.float64]:
    """Return first and last distance of parts of 1 ... context, (parts, 2)."""
    edges = np.exp2(np.arange(0, math.log2(context) * PARTS) / PARTS).round()
    starts = np.unique(np.append(edges, 1.0))
    return np.stack([starts, np.append(starts[1:] - 1, float(context))], axis=1)


def mean_bounds(rope: Rotary, parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean over each part of the mean over j of |S_j|, (parts,)."""
    near = parts[parts[:, 1] < WHOLE]
    bounds = decay(rope, start=1, max_distance=near[-1, 1]).relative_upper_bound
    means = np.add.reduceat(bounds, near[:, 0].astype(np.int64) - 1) / (np.ptp(near, axis=1) + 1)
    far = [
        decay(rope, start=first, max_distance=last, step=(last - first) / SAMPLES)
        for first, last in parts[len(near) :]
    ]
    return np.append(means, [curve.relative_upper_bound.mean() for curve in far])
