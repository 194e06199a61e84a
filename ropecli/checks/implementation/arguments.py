"""Arguments of `check`, validated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ropecli.arrays import DTYPES
from ropecli.checks.expectation import GIVEN, Expectation
from ropecli.checks.implementation.convention import FORMS, FRAMEWORKS
from ropecli.checks.implementation.laws import GONE
from ropecli.checks.implementation.options import ANY, Options
from ropecli.checks.implementation.oracle import Tolerances, rounding_tolerance
from ropecli.checks.law import Law, refuse_growth
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.names import meant, one_of, quote
from ropecli.numbers import at_least, even, length, number
from ropecli.rotary.rotary import Rotary, rotary_of
from ropecli.units import UNIT

S = TypeVar("S")
#: Options that are fields of a convention, and the fields that have another name.
OF_CONVENTION = (
    *("framework", "call", "axes_of_x", "axes_of_positions", "positions_dtype"),
    *("axes_of_tables", "freqs", "tables", "tables_dtype"),
)
FIELDS = {"tables": "columns"}


def convention(options: Options) -> dict[str, str]:
    """Return the fields of the convention that are given, and refuse names that are not known."""
    for name in (*OF_CONVENTION, "form", "device", "result_dtype"):
        if not isinstance(value := getattr(options, name), str | None):
            raise ArgumentTypeError(f"{name} must be a string, got {quote(value)}")
    for name, known in (("framework", FRAMEWORKS), ("form", FORMS), ("result_dtype", DTYPES)):
        if getattr(options, name) is not None:
            one_of(name.replace("_", " "), getattr(options, name), known)
    given = {name: getattr(options, name) for name in OF_CONVENTION}
    return {FIELDS.get(name, name): value for name, value in given.items() if value is not None}


def laws(
    known: Sequence[Law[S]], select: str | Sequence[str] | None, ignore: str | Sequence[str]
) -> list[Law[S]]:
    """Return the laws to judge by, in their order."""
    names = {law.name for law in known}
    kept = names if select is None else _as_names(select)
    left_out = _as_names(ignore)
    for name in sorted((kept | left_out) - names):
        if name in GONE:
            raise ArgumentError(f"check {name!r} is gone: {GONE[name]}")
        listed = ", ".join(repr(key) if "," in key else key for key in sorted(names))
        raise ArgumentError(f"check must be one of {listed}, got {quote(name)}{meant(name, names)}")
    chosen = [law for law in known if law.name in kept - left_out]
    if not chosen:
        raise ArgumentError("no check is left to make")
    return chosen


def left_out(kept: Sequence[Law[S]], known: Sequence[Law[S]]) -> list[str]:
    """Describe which laws were not judged by, in the shorter way."""
    names = list(dict.fromkeys(law.name for law in kept))
    absent = list(dict.fromkeys(law.name for law in known if law.name not in names))
    if not absent:
        return []
    if len(names) < len(absent):
        return [f"judged only by {_list_names(names)}"]
    return [f"not judged by {_list_names(absent)}"]


def _list_names(names: Sequence[str]) -> str:
    """Return names with commas between them, in quotes where one holds a comma itself."""
    return ", ".join(repr(name) if "," in name else name for name in names)


def _as_names(given: str | Sequence[str]) -> set[str]:
    return {given} if isinstance(given, str) else {*given}


def tolerances(
    given: float | str | Sequence[str] | Mapping[str, float | str] | None,
    dtypes: Sequence[str],
    result_dtype: str | None,
    tables_dtype: str | None = None,
) -> tuple[Tolerances, tuple[str, ...]]:
    """Return the tolerances to judge by, and a sentence for each dtype that one was given for."""
    chosen: dict[str, str] = {}
    for dtype, text in _split_tolerances(given):
        for dtype_name in [dtype] if dtype else dtypes:
            if dtype_name not in dtypes:
                msg = f"tolerance must be for a dtype of the data, {', '.join(dtypes)}, "
                msg += f"got {dtype_name!r}"
                raise ArgumentError(msg)
            if dtype_name in chosen:
                raise ArgumentError(
                    f"tolerance of {dtype_name} is given twice: {chosen[dtype_name]} and {text}"
                )
            chosen[dtype_name] = text
    relative, absolute, said = {}, {}, []
    for dtype, text in chosen.items():
        number, ulps = _tolerance(text)
        words = f"{number:g} ulp" if ulps else f"{number:g}"
        idle = ""
        if ulps:
            relative[dtype] = number * 2 * UNIT[result_dtype or dtype]
            if relative[dtype] <= rounding_tolerance(result_dtype or dtype):
                idle = ", which is no more than the derived one"
        else:
            absolute[dtype] = number
        said.append(f"tolerance of {dtype} at least {words}{idle}")
    derived = Tolerances(
        relative=relative,
        absolute=absolute,
        result_dtype=result_dtype,
        tables_dtype=tables_dtype,
    )
    return derived, tuple(said)


def _split_tolerances(
    given: float | str | Sequence[str] | Mapping[str, float | str] | None,
) -> list[tuple[str, str]]:
    """Return dtype and text of each tolerance; an empty dtype is all of them."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [(str(dtype), str(value)) for dtype, value in given.items()]
    several = [given] if isinstance(given, str | float | int) else [*given]
    pairs = []
    for item in several:
        dtype, _, text = str(item).rpartition("=")
        pairs.append((dtype.strip(), text.strip()))
    return pairs


def _tolerance(text: str) -> tuple[float, bool]:
    """Return a number above 0, and whether it counts ulps."""
    digits = text.removesuffix("ulp")
    try:
        number = float(digits)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        msg = "tolerance must be a number above 0 such as 1e-3, or 2ulp, or for one dtype "
        msg += f"float16=1e-3, got {text!r}"
        raise ArgumentError(msg)
    return number, digits != text


def expectation(options: Options) -> Expectation:
    """Return what is expected of an implementation."""
    expect, model = options.expect, options.model
    if model is not None and expect is not None:
        raise ArgumentError("either expect or model can be given, got both")
    expected = Expectation()
    if model is not None:
        expected = _of_model(model)
    elif isinstance(expect, Expectation):
        expected = expect
    elif isinstance(expect, Rotary):
        expected = Expectation.whole(expect)
    elif expect is not None and expect != ANY:
        msg = f'expect must be a Rotary or "{ANY}", got {quote(expect)}'
        raise ArgumentTypeError(msg, rotary_of(expect))
    if expected.rope is not None:
        refuse_growth(expected.rope)
    if options.offset is None:
        return expected
    return replace(expected, offset=number("offset", options.offset), offset_ground=GIVEN)


def _of_model(model: Any) -> Expectation:
    """Return the expectation of the only layer type of a model that rotates."""
    from ropecli.models.load import load_model
    from ropecli.models.model import Model

    loaded = model if isinstance(model, Model) else load_model(model)
    return Expectation.of_layer(loaded, loaded.layer())


def example(expected: Expectation, dim: int, tables: str | None) -> Rotary:
    """Return an encoding that meets what is expected, for tables and sizes that code is given."""
    layout = "interleaved" if tables == "interleaved" else "half"
    known = expected.candidates(None)
    return next(
        (rope for rope in known if rope.layout == layout),
        known[0] if known else Rotary(head_dim=dim, layout=layout),
    )


def head_dim(given: object, expected: Expectation) -> int | None:
    """Return the head dim that is given or expected; None if there is none."""
    known = expected.head_dim
    if given is None:
        return known
    dim = even("head dim", given)
    if known is not None and dim != known:
        raise ArgumentError(f"head dim must be the {known} of what is expected, got {dim}")
    return dim


def axes(given: object, expected: Expectation, form: str | None) -> int:
    """Return the coordinates of a position; those of the encoding expected, or 1, by default."""
    wanted = None
    if expected.rope is not None and expected.requires("rope_type"):
        wanted = expected.rope.axes
    count = (wanted or 1) if given is None else at_least("axes", given, 1)
    if wanted is not None and count != wanted:
        raise ArgumentError(f"axes must be the {wanted} of what is expected, got {count}")
    if form == "decoder" and count > 1:
        raise ArgumentError(f"form decoder counts positions of one axis, got axes {count}")
    if form == "tables" and count > 1 and wanted is None:
        raise ArgumentError(
            f"form tables needs to know what is expected with axes {count}, got nothing"
        )
    return count


def original_length(given: object, expected: Expectation) -> int | None:
    """Return the context length of the training; None if it is unknown."""
    if given is not None:
        return length("original context length", given)
    if expected.rope is None or not expected.requires("rope_type"):
        return None
    known = dict(expected.rope.parameters)
    # The longest context is the original one in a formula that has no other.
    names = ("original_max_position_embeddings", "max_position_embeddings")
    return next((int(known[name]) for name in names if known.get(name) is not None), None)


def keywords(init: object) -> dict[str, Any]:
    """Return keyword arguments of the implementation."""
    if init is None:
        return {}
    if not isinstance(init, Mapping):
        raise ArgumentTypeError(f"init must be a mapping, got {quote(init)}")
    for key in init:
        if not isinstance(key, str):
            raise ArgumentTypeError(f"init must have names as keys, got {quote(key)}")
    return dict(init)


def dtypes(given: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the dtypes of the data, the first for all laws; None if the framework says them."""
    if given is None:
        return None
    try:
        chosen = (given,) if isinstance(given, str) else tuple(given)
    except TypeError:
        raise ArgumentTypeError(
            f"dtypes must be a sequence of strings, got {quote(given)}"
        ) from None
    for name in chosen:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"dtypes must be a string, got {quote(name)}")
        if name not in DTYPES:
            raise ArgumentError(f"dtypes must be of {', '.join(DTYPES)}, got {name!r}")
    if not chosen:
        raise ArgumentError("dtypes must name at least one, got none")
    return chosen
