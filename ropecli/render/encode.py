"""Text and JSON of `encode`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ropecli.arrays import dtype_name
from ropecli.errors import RopecliError
from ropecli.files.array_axes import Axes
from ropecli.files.atomic import left_over
from ropecli.files.dry_run import DryRun, PlannedFile
from ropecli.files.encoded import Encoded, EncodedArray, EncodedFiles, Failure
from ropecli.files.formats.stored import short
from ropecli.render import View, console, fields
from ropecli.render.console import Screen
from ropecli.render.labels import frequencies, quantity, with_unit
from ropecli.render.table import align
from ropecli.rotary import Rotary

NAMED = 3  #: Files, or tensors that are copied, that a line names.
LISTED = 8  #: Notes that are shown; many files may have one each, all in --json.
RATED = 10**8  #: Bytes above which the rate means something: below, starting up takes longest.


def page(
    result: Encoded | EncodedFiles, screen: Screen, *, where: str = "", **_others: object
) -> list[str]:
    """Return what was written, where if that is given, and how fast."""
    speed = f"{result.seconds:.1f} s{rate(result.bytes, result.seconds)}"
    if isinstance(result, EncodedFiles):
        count = quantity(len(result.files), "file")
        rows = [(console.visible(_name(file.output)), _ends(file)) for file in result.files]
        more = len(rows) - LISTED
        listed = [*align(rows[:LISTED], left=2), *([f"and {more:,} more"] if more > 0 else [])]
        return [f"{count} written{console.visible(where)} in {speed}", "", *listed]
    target = console.visible(_name(result.output))
    if not screen.brief:
        others = f" and {len(result.kept) - NAMED:,} more" if len(result.kept) > NAMED else ""
        kept = f"; copied as they are: {', '.join(map(short, result.kept[:NAMED]))}{others}"
        return [f"{target} written in {speed}{kept if result.kept else ''}"]
    heads = f"{quantity(result.heads, 'head')} of {result.head_dim}"
    what = console.visible(str(result.input))
    if len(result.arrays) > 1:
        what = f"{len(result.arrays)} tensors of {what}"
    return [f"{target} written: {what} at {_ends(result)}, {heads}, {result.layout}, in {speed}"]


def _ends(file: Encoded) -> str:
    """Return the first and the last position of a file."""
    if file.positions is None:
        return "no positions"
    first, last = file.positions
    return f"positions {first:,.10g} to {last:,.10g}"


def _dry_page(result: DryRun, _: Screen, *, plan: Sequence[str] = ()) -> list[str]:
    """Return what would be written, and at which cost."""
    several = len(result.files) > 1
    target = f"{len(result.files)} files" if several else _name(result.files[0].output)
    size, memory = _size(result.bytes), _size(result.memory)
    answer = f"Would write {console.visible(target)}, {size}: {_time(result.seconds)} of rotation "
    answer += f"besides reading and writing, {memory} of memory"
    rows = [
        (console.visible(_name(file.input)), "to", console.visible(_name(file.output)), _of(file))
        for file in result.files[:LISTED]
    ]
    more = len(result.files) - len(rows)
    listed = [*align(rows, left=4), *([f"and {more:,} more, all in --json"] if more else [])]
    names = several or len(result.files[0].arrays) > 1 or result.files[0].kept
    return console.paragraphs([answer], plan, listed if names else [])


def _of(planned: PlannedFile) -> str:
    """Return the names of what would be rotated, copied and left out of a file."""
    named = {"": planned.arrays, "copied: ": planned.kept, "left out: ": planned.left_out}
    return "; ".join(
        f"{how}{', '.join(map(short, names[:LISTED]))}{', ...' if len(names) > LISTED else ''}"
        for how, names in named.items()
        if any(names)
    )


def _time(seconds: float) -> str:
    if seconds < 0.1:
        return "less than 0.1 s"
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds / 60:,.0f} min"


def _size(count: int) -> str:
    return with_unit(count, ("bytes", "kB", "MB", "GB", "TB"))


def _document(
    result: Encoded | EncodedFiles,
    *,
    notes: tuple[str, ...] = (),
    tables: float | None = None,
    **_others: object,
) -> dict[str, Any]:
    """Return the fields of a result, with the notes of the command."""
    if isinstance(result, Encoded):
        return vars(result) | {"notes": notes, "float32_table_error": tables}
    return {
        "files": result.files,
        "failures": [fields(failure, "input", "message") for failure in result.failures],
        **fields(result, "bytes", "seconds"),
        "notes": notes,
    }


VIEW = View(page=page, document=_document)
DRY_RUN = View(page=_dry_page, document=("files", "bytes", "seconds", "memory"))


def plan_lines(
    axes: Axes,
    rope: Rotary,
    *,
    target: Path | None,
    positions: Path | None,
    offset: int,
    model: str | None,
    inverse: bool,
) -> list[str]:
    """Return input, output, axes and encoding, which are shown before the work begins."""
    file, label = axes.stored, console.visible(axes.stored.label)
    heads = f"{quantity(axes.heads, 'head')} of {axes.head_dim}"
    start = f"from {offset}" if positions is None else f"from {console.visible(positions.name)}"
    shifted = f" plus {offset}" if positions is not None and offset else ""
    partial = ""
    if rope.rotary_dim != rope.head_dim:
        partial = f", {rope.rotary_dim} coordinates from {rope.rotary_offset}"
    along = f"positions along axis {axes.sequence_axis} ({axes.sequence:,} long), {start}"
    if axes.sequence_axis is None:
        along = "one vector at position " + start.removeprefix("from ")
    turned = f"{label} turned back" if inverse else label
    into = turned if target is None else f"{turned} into {console.visible(_name(target))}"
    into += f" by {console.visible(model)}" if model is not None else ""
    into += f" at {console.visible(positions.name)}" if positions is not None else ""
    return [
        f"{into}: {file.shape} {dtype_name(file.dtype)}, {_size(file.nbytes)}",
        f"{along}{shifted}, {heads}",
        f"{_layout(rope)}, {_frequencies(rope)}{partial}",
    ]


def first_of_files(
    inputs: Sequence[Path], outputs: Sequence[Path], *, positions_continue: bool
) -> list[str]:
    """Return the lines above the first file: which there are, and where positions begin."""
    if len(inputs) == 1:
        return []
    how = "continue from one to the next" if positions_continue else "begin anew in each"
    pairs = [f"{_name(a)} into {_name(b)}" for a, b in zip(inputs, outputs, strict=True)]
    named = ", ".join([*pairs[:NAMED], *(["..."] if len(pairs) > NAMED else [])])
    return [f"{len(pairs):,} files, positions {how}: {console.visible(named)}", ""]


def warnings(arrays: Iterable[EncodedArray]) -> list[str]:
    """Return counts of what is not finite before, and after by dtype."""
    nonfinite, overflowed = 0, Counter[str]()
    for array in arrays:
        nonfinite += array.nonfinite
        overflowed[array.dtype] += array.overflowed
    lines = []
    if nonfinite:
        values = quantity(nonfinite, "NaN or infinite value")
        lines.append(f"{values} in the input; each affects only its own pair")
    for dtype, count in overflowed.items():
        if count:
            lines.append(f"{quantity(count, 'pair')} overflowed {dtype} after rotation")
    return lines


def left_out_notes(result: Encoded) -> list[str]:
    """Return a note on tensors that the output has no place for."""
    count = len(result.left_out)
    if not count:
        return []
    return [
        f"{quantity(count, 'other tensor')} of {result.input} "
        f"{'are' if count != 1 else 'is'} not in {_name(result.output)}, which is of another format"
    ]


def left_over_notes(output: Path) -> list[str]:
    """Return a note on what a run left that was killed: the next one begins again."""
    size = left_over(output)
    if size is None:
        return []
    return [f"a run that was killed left {_size(size)} of {output.name}: it is written again"]


def _name(output: Path) -> str:
    return "stdout" if str(output) == "-" else str(output)


def float32_notes(error: float | None) -> list[str]:
    """Return a note on how far a model's own float32 tables may be from these angles."""
    if error is None:
        return []
    return [
        f"angles are exact; a model that keeps them in float32 is off by up to {error:.2g} "
        "radian at these positions"
    ]


def later_notes(results: Iterable[Encoded], said: tuple[str, ...]) -> tuple[str, ...]:
    """Return notes on files and tensors beyond the first, once each with the name of its first."""
    notes: dict[str, str] = {}
    for result in results:
        for array in result.arrays:
            label = f"{result.input}: {array.name}" if array.name else str(result.input)
            for note in array.notes:
                if note not in said:
                    notes.setdefault(note, f"{label}: {note}")
        of_arrays = {note for array in result.arrays for note in array.notes}
        notes |= {note: note for note in result.notes if note not in of_arrays.union(said)}
    return tuple(notes.values())


def shorten(notes: tuple[str, ...]) -> list[str]:
    """Return the first of many notes, and how many more there are."""
    more = len(notes) - LISTED
    return [
        *notes[:LISTED],
        *([f"and {more:,} more such notes, all in --json"] if more > 0 else []),
    ]


def rate(count: int, seconds: float) -> str:
    """Return the rate in GB/s, where it means something."""
    return f" ({count / seconds / 1e9:.2f} GB/s)" if count > RATED else ""


def show_failures(failures: Iterable[Failure], option: Callable[[str], str]) -> None:
    """Show which files were not rotated, and why, one a line."""
    for failure in failures:
        error = failure.error
        text = error.spell(option) if isinstance(error, RopecliError) else failure.message
        named = str(failure.input) in text
        console.note(text if named else f"{failure.input}: {text}", kind="error")


def _layout(rope: Rotary) -> str:
    return f"{rope.layout} in, reordered out" if rope.reorders else rope.layout


def _frequencies(rope: Rotary) -> str:
    factor = rope.attention_factor
    return frequencies(rope) + ("" if factor == 1 else f", attention factor {factor:g}")
