"""Words, numbers and pictures for `decay`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.errors import ArgumentError
from ropecli.render import console
from ropecli.render.labels import called, exact
from ropecli.render.output import write_output
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from ropecli.analyses.decay import Decay
    from ropecli.files.vector import Vector

#: What the columns of one curve are called.
FIELDS = ("relative_upper_bound", "score", "abel_bound", "max_bound")


def values(curve: Decay) -> dict[str, NDArray[np.float64]]:
    """The columns of one curve by name."""
    columns = {name: getattr(curve, name) for name in FIELDS}
    return {name: column for name, column in columns.items() if column is not None}


def as_json(curves: list[Decay]) -> dict[str, Any]:
    """The result of `--json`."""
    return {
        "curves": [
            {
                "label": called(curve),
                "dim": curve.rope.head_dim,
                "base": curve.rope.base,
                "rope_type": curve.rope.rope_type,
                "relative_distance": curve.relative_distance,
                **values(curve),
            }
            for curve in curves
        ]
    }


def show_notes(*vectors: Vector | None) -> None:
    """Say which row of a sequence was taken where nobody chose one."""
    for vector in vectors:
        if vector is not None and vector.rows is not None and vector.rows > 1:
            console.note(f"{vector.path}: row {vector.row} of {vector.rows:,} taken")


def write(
    curves: list[Decay], output: Path, parameters: dict[str, Any], *, force: bool, figure2: bool
) -> None:
    """Write the figure or the numbers, whole or not at all."""
    suffix = output.suffix.lower()
    if suffix == ".csv":
        content = _csv(curves).encode()
    elif suffix == ".json":
        from ropecli.render import document

        content = (document.text("decay", parameters, as_json(curves)) + "\n").encode()
    else:
        from ropecli.render.decay_figure import drawn

        content = drawn(curves, suffix=suffix, figure2=figure2, command=command(parameters))
    write_output(output, content, force=force)


def _csv(curves: list[Decay]) -> str:
    """Distance, then the columns of each curve; several curves name theirs.

    Raises:
        ArgumentError: Two columns of one name.
    """
    columns = {"relative_distance": curves[0].relative_distance}
    for curve in curves:
        suffix = "" if len(curves) == 1 else f" ({called(curve).replace(',', '')})"
        for name, column in values(curve).items():
            if name + suffix in columns:
                msg = f"two columns would be called {name + suffix!r}: rename one of the files"
                raise ArgumentError(msg)
            columns[name + suffix] = column
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    lines = [",".join(columns), *(",".join(map(repr, row)) for row in rows)]
    return "\n".join(lines) + "\n"


def command(parameters: dict[str, Any]) -> str:
    """A command line that draws the figure again."""
    words = ["ropecli decay"]
    for name, value in parameters.items():
        for each in value if isinstance(value, list) else [value]:
            option = f"--{name.replace('_', '-')}"
            if each is True:
                words.append(option)
            elif each is not None and each is not False:
                words.append(f"{option} {exact(each) if isinstance(each, float) else each}")
    return " ".join(words)


def show(curves: list[Decay], *, figure2: bool, saved: Path | None, brief: bool) -> None:
    """Print what the curves say, with a plot on a terminal and a table elsewhere."""
    out = console.out()
    vectors = curves[0].score is not None
    what = "The score and RoPE's upper bounds" if vectors else "RoPE's upper bound"
    source = "Eq. 35-37" if vectors else "Eq. 37, Figure 2"
    lines = [f"{what} against distance (RoFormer {source})"]
    if len(curves) == 1:
        lines.append(f"{called(curves[0])}, {_count(curves[0].rope.rotary_dim // 2, 'pair')}")
    lines.append("")
    if console.draws_braille():
        lines += [*_plots(curves, figure2=figure2, columns=out.width), ""]
    else:
        lines += [*_table(curves), ""]
    for curve in curves:
        lines += [*_summary(curve, named=len(curves) > 1), ""]
    if not brief:
        lines += ["However far the bound falls, the score below it may rise or fall.", ""]
    if saved is not None:
        lines.append(f"Written: {console.visible(str(saved))}")
    elif not brief:
        lines.append("Save the figure: -o figure2.png    the numbers: -o decay.csv")
        if not figure2 and not vectors:
            lines.append("The paper's own frame: --figure2")
    out.print("\n".join(lines).rstrip(), markup=False)


def _plots(curves: list[Decay], *, figure2: bool, columns: int) -> list[str]:
    """One plot of all bounds; with vectors, two of each curve, for they lie far apart."""
    from ropecli.render.curves import Curve, draw
    from ropecli.render.decay_figure import CLIPPED_AT

    if curves[0].score is None:
        lines = [
            Curve(
                label=called(curve),
                x=curve.relative_distance,
                y=np.minimum(curve.relative_upper_bound, CLIPPED_AT if figure2 else np.inf),
            )
            for curve in curves
        ]
        least = None if figure2 else 0.0
        return [draw(lines, x_label="relative distance", columns=columns, least=least)]
    plots = []
    for curve in curves:
        suffix = f" ({called(curve)})" if len(curves) > 1 else ""
        for names in (("max_bound", "abel_bound"), ("score",)):
            lines = [
                Curve(label=_spoken(name) + suffix, x=curve.relative_distance, y=column)
                for name in names
                if (column := values(curve).get(name)) is not None
            ]
            drawing = draw(lines, x_label="relative distance", columns=columns)
            plots += [f"  {' and '.join(map(_spoken, names))}{suffix}", drawing, ""]
    return plots[:-1]


def _table(curves: list[Decay]) -> list[str]:
    """The values at distances that double from step to step, every digit of them."""
    distances = curves[0].relative_distance
    count = len(distances)
    chosen = sorted({0, count - 1, *(2**power for power in range(40) if 2**power < count)})
    columns = [["relative distance", *(exact(distances[i]) for i in chosen)]]
    for curve in curves:
        suffix = f" ({called(curve)})" if len(curves) > 1 else ""
        for name, column in values(curve).items():
            columns.append([_spoken(name) + suffix, *(exact(column[i]) for i in chosen)])
    lines = aligned(list(zip(*columns, strict=True)))
    if len(chosen) < count:
        lines += ["", f"{len(chosen)} of {count:,} values; all of them: --json, or -o decay.csv"]
    return lines


def _summary(curve: Decay, *, named: bool) -> list[str]:
    first, last = curve.relative_distance[[0, -1]]
    lowest, where = curve.lowest
    early, late = curve.quarters
    known = "    = (pairs + 1) / 2, exactly" if first == 0 and curve.reduce == "mean" else ""
    facts = [(f"at distance {first:.10g}", f"{curve.start:<8.4g}{known}")]
    if len(curve.relative_distance) > 1:
        facts += [
            ("halved by", _distance(curve.halved_at)),
            ("rises first at", _distance(curve.first_rise)),
            (f"at distance {last:.10g}", f"{curve.relative_upper_bound[-1]:.4g}"),
            ("lowest", f"{lowest:<8.4g} at {where:.10g}"),
            ("on average", f"{early:.4g} in the first quarter, {late:.4g} in the last"),
        ]
    if curve.score is not None and curve.abel_bound is not None and curve.max_bound is not None:
        for name, index in (("highest", curve.score.argmax()), ("lowest", curve.score.argmin())):
            at = curve.relative_distance[index]
            facts.append((f"{name} score", f"{curve.score[index]:<8.4g} at {at:.10g}"))
        facts.append(("largest Abel bound", f"{curve.abel_bound.max():.4g}"))
        facts.append(("largest max bound", f"{curve.max_bound.max():.4g}"))
    width = max(len(name) for name, _ in facts)
    lines = [f"  {name:<{width}}    {value}".rstrip() for name, value in facts]
    return [called(curve), *lines] if named else lines


def _spoken(name: str) -> str:
    return name.replace("_", " ").replace("abel", "Abel")


def _distance(distance: float | None) -> str:
    return "not in this range" if distance is None else f"{distance:.10g}"


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'s' * (number != 1)}"
