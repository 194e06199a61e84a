"""Words, numbers and pictures for `decay`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.errors import ArgumentError
from ropecli.files.atomic import replacing
from ropecli.render import console

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from ropecli.analyses.decay import Decay
    from ropecli.files.vector import Vector

FIGURES = (".png", ".svg", ".pdf")
NUMBERS = (".csv", ".json")
#: What the columns of one curve are called.
FIELDS = ("relative_upper_bound", "score", "abel_bound", "max_bound")


def check_output(output: Path | None) -> None:
    """Refuse a file that can't be written before anything is computed.

    Raises:
        ArgumentError: The suffix is none of those that can be written.
    """
    allowed = FIGURES + NUMBERS
    if output is not None and output.suffix.lower() not in allowed:
        msg = f"output must end in {', '.join(allowed)}, got {output.name!r}"
        raise ArgumentError(msg)


def label(curve: Decay) -> str:
    """What tells a curve from others: dim and base."""
    return f"dim {curve.rope.head_dim}, base {curve.rope.base:g}"


def values(curve: Decay) -> dict[str, NDArray[np.float64]]:
    """The columns of one curve by name."""
    columns = {name: getattr(curve, name) for name in FIELDS}
    return {name: column for name, column in columns.items() if column is not None}


def as_json(curves: list[Decay]) -> dict[str, Any]:
    """The result of `--json`."""
    return {
        "curves": [
            {
                "label": label(curve),
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


def write(curves: list[Decay], output: Path, *, force: bool, figure2: bool) -> None:
    """Write the figure or the numbers, whole or not at all."""
    suffix = output.suffix.lower()
    if suffix == ".csv":
        content = _csv(curves).encode()
    elif suffix == ".json":
        from ropecli.render import document

        content = document.text("decay", {}, as_json(curves)).encode()
    else:
        from ropecli.render.decay_figure import drawn

        content = drawn(curves, suffix=suffix, figure2=figure2)
    with replacing(output, force=force) as stream:
        stream.write(content)


def _csv(curves: list[Decay]) -> str:
    """Distance, then the columns of each curve; several curves name theirs."""
    columns = {"relative_distance": curves[0].relative_distance}
    for curve in curves:
        suffix = "" if len(curves) == 1 else f" dim={curve.rope.head_dim} base={curve.rope.base:g}"
        columns |= {f"{name}{suffix}": column for name, column in values(curve).items()}
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    lines = [",".join(columns), *(",".join(map(repr, row)) for row in rows)]
    return "\n".join(lines) + "\n"


def show(curves: list[Decay], *, figure2: bool, saved: Path | None) -> None:
    """Print what the curves say, with a plot on a terminal and a table elsewhere."""
    out = console.out()
    vectors = curves[0].score is not None
    what = "The score and RoPE's upper bounds" if vectors else "RoPE's upper bound"
    source = "Eq. 35-37" if vectors else "Eq. 37, Figure 2"
    lines = [f"{what} against distance (RoFormer {source})"]
    if len(curves) == 1:
        lines.append(f"{label(curves[0])}, {curves[0].rope.rotary_dim // 2} pairs")
    lines.append("")
    if console.draws_braille():
        lines += [*_plots(curves, figure2=figure2), ""]
    else:
        lines += [*_table(curves), ""]
    for curve in curves:
        lines += _summary(curve, named=len(curves) > 1)
    if vectors:
        lines += [line for curve in curves for line in _score_summary(curve)]
    lines += [
        "The bound falls over the first thousand or so distances and does not tend to 0;",
        "the score itself need not fall at all.",
        "",
    ]
    if saved is not None:
        lines.append(f"Written: {saved}")
    else:
        lines.append("Save the figure: -o figure2.png    the numbers: -o decay.csv")
        if not figure2:
            lines.append("The paper's own frame: --figure2")
    out.print("\n".join(lines), markup=False)


def _plots(curves: list[Decay], *, figure2: bool) -> list[str]:
    from ropecli.render.curves import Curve, draw
    from ropecli.render.decay_figure import CLIPPED_AT

    if curves[0].score is None:
        lines = [
            Curve(
                label=label(curve),
                x=curve.relative_distance,
                y=np.minimum(curve.relative_upper_bound, CLIPPED_AT if figure2 else np.inf),
            )
            for curve in curves
        ]
        return [draw(lines, x_label="relative distance")]
    return [
        draw(
            [
                Curve(label=f"{name} ({label(curve)})", x=curve.relative_distance, y=column)
                for name, column in values(curve).items()
                if name != "relative_upper_bound"
            ],
            x_label="relative distance",
        )
        for curve in curves
    ]


def _table(curves: list[Decay]) -> list[str]:
    """The values at distances that double from step to step, every digit of them."""
    distances = curves[0].relative_distance
    count = len(distances)
    chosen = sorted({0, count - 1, *(2**power for power in range(40) if 2**power < count)})
    columns = {"relative distance": [f"{distances[i]:g}" for i in chosen]}
    for curve in curves:
        suffix = "" if len(curves) == 1 else f" ({label(curve)})"
        for name, column in values(curve).items():
            heading = name.replace("_", " ") + suffix
            columns[heading] = [repr(float(column[i])) for i in chosen]
    widths = [max(len(name), *map(len, column)) for name, column in columns.items()]
    rows = [tuple(columns), *zip(*columns.values(), strict=True)]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    if len(chosen) < count:
        lines += ["", f"{len(chosen)} of {count:,} values; all of them: --json, or -o decay.csv"]
    return lines


def _summary(curve: Decay, *, named: bool) -> list[str]:
    lowest, where = curve.lowest
    early, late = curve.quarters
    first = curve.relative_distance[0]
    lines = [f"{label(curve)}"] if named else []
    exact = "    = (pairs + 1) / 2, exactly" if first == 0 and curve.reduce == "mean" else ""
    lines.append(f"  at distance {first:<8g} {curve.start:<8.4g}{exact}".rstrip())
    half = curve.halved_at
    lines.append(f"  halved by {'':<10} {'not in this range' if half is None else f'{half:g}'}")
    last = curve.relative_distance[-1]
    lines.append(f"  at distance {last:<8g} {curve.relative_upper_bound[-1]:.4g}")
    lines.append(f"  lowest {'':<13} {lowest:<8.4g} at {where:g}")
    lines.append(
        f"  trend {'':<14} {early:.4g} on average in the first quarter, {late:.4g} in the last"
    )
    return [*lines, ""]


def _score_summary(curve: Decay) -> list[str]:
    if curve.score is None or curve.abel_bound is None or curve.max_bound is None:
        return []
    high, low = int(curve.score.argmax()), int(curve.score.argmin())
    distance = curve.relative_distance
    return [
        f"  highest score        {curve.score[high]:<8.4g} at {distance[high]:g}",
        f"  lowest score         {curve.score[low]:<8.4g} at {distance[low]:g}",
        f"  largest Abel bound   {curve.abel_bound.max():.4g}",
        f"  largest max bound    {curve.max_bound.max():.4g}",
        "",
    ]
