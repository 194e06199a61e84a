"""Words for `encode`."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, Any

from ropecli.arrays import dtype_name
from ropecli.render import console
from ropecli.render.labels import frequencies

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ropecli.files.axes import Axes
    from ropecli.files.encoded import Encoded, EncodedArray
    from ropecli.rotary import Rotary

LISTED = 8  #: Notes that are shown; many files may have one each, all in --json.
RATED = 10**8  #: Bytes above which the rate says something: below, starting up takes longest.


def as_json(result: Encoded, notes: tuple[str, ...], tables: float | None) -> dict[str, Any]:
    """The fields as they are, with the notes of the command."""
    return {**dataclasses.asdict(result), "notes": notes, "float32_table_error": tables}


def show_notes(notes: tuple[str, ...]) -> None:
    """Say what could be silently wrong."""
    for note in notes:
        console.note(note)


def show_plan(axes: Axes, rope: Rotary, *, positions: Path | None, offset: int) -> None:
    """Say what the axes were taken to be, before the work begins."""
    file, label = axes.stored, console.visible(axes.stored.label)
    heads = f"{axes.heads} head{'s' * (axes.heads != 1)} of {axes.head_dim}"
    start = f"from {offset}" if positions is None else f"from {console.visible(positions.name)}"
    shifted = f" plus {offset}" if positions is not None and offset else ""
    partial = ""
    if rope.rotary_dim != rope.head_dim:
        partial = f", {rope.rotary_dim} coordinates from {rope.rotary_offset}"
    out = console.out()
    out.print(
        f"{label}  {file.shape} {dtype_name(file.dtype)}  {_size(file.nbytes)}\n"
        f"positions run along axis {axes.sequence_axis} ({axes.sequence:,} long), "
        f"{start}{shifted}, {heads}\n"
        f"{_layout(rope)}, {_frequencies(rope)}{partial}",
        markup=False,
    )


def show_warnings(result: Encoded) -> None:
    """Count what is not finite, before and after, and what was left out."""
    show_warnings_of(result.arrays)
    if result.left_out:
        count = len(result.left_out)
        console.note(
            f"{count:,} other tensor{'s' * (count != 1)} of {result.input} "
            f"{'are' if count != 1 else 'is'} not in {result.output}, which is of another format"
        )


def show_warnings_of(arrays: Iterable[EncodedArray]) -> None:
    """Count what is not finite before, and after by dtype."""
    nonfinite, overflowed = 0, Counter[str]()
    for array in arrays:
        nonfinite += array.nonfinite
        overflowed[array.dtype] += array.overflowed
    if nonfinite:
        values = "value" if nonfinite == 1 else "values"
        console.note(
            f"{nonfinite:,} NaN or infinite {values} in the input; each stays in its own pair",
            kind="warning",
        )
    for dtype, count in overflowed.items():
        if count:
            pairs = "pair is" if count == 1 else "pairs are"
            console.note(
                f"{count:,} {pairs} too large for {dtype} once turned and became infinite",
                kind="warning",
            )


def later_notes(results: Iterable[Encoded], said: tuple[str, ...]) -> tuple[str, ...]:
    """What could be silently wrong about files and tensors beyond the first.

    Args:
        results: What was done.
        said: Notes that stand for all of them.

    Returns:
        Each note once, with the name of the first that it is about.
    """
    found: dict[str, str] = {}
    for result in results:
        for array in result.arrays:
            label = f"{result.input}: {array.name}" if array.name else str(result.input)
            for note in array.notes:
                if note not in said:
                    found.setdefault(note, f"{label}: {note}")
    return tuple(found.values())


def show_later_notes(notes: tuple[str, ...]) -> None:
    """Say the first of them, and how many more there are."""
    show_notes(notes[:LISTED])
    if len(notes) > LISTED:
        console.note(f"and {len(notes) - LISTED:,} more such notes, all in --json")


def show(result: Encoded) -> None:
    """Say what was written."""
    name = str(result.output)
    target = "stdout" if name == "-" else console.visible(name)
    console.out().print(
        f"{target} written in {result.seconds:.1f} s{rate(result.bytes, result.seconds)}",
        markup=False,
    )


def rate(count: int, seconds: float) -> str:
    """Bytes a second, where they say something."""
    return f" ({count / seconds / 1e9:.2f} GB/s)" if count > RATED else ""


def show_tables(error: float | None) -> None:
    """Say how far a model's own float32 tables may be from these angles."""
    if error is not None:
        console.note(
            f"angles are exact; a model that keeps them in float32 is off by up to {error:.2g} "
            "radian at these positions"
        )


def _layout(rope: Rotary) -> str:
    return f"{rope.layout} in, reordered out" if rope.reorders else rope.layout


def _frequencies(rope: Rotary) -> str:
    factor = rope.attention_factor
    return frequencies(rope) + ("" if factor == 1 else f", attention factor {factor:g}")


def _size(count: int) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:g} {unit}" if unit == "bytes" else f"{count:.3g} {unit}"
        count = count / 1000  # type: ignore[assignment]
    return f"{count:,.3g} TB"
