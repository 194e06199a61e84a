"""Page, table and figure of `precision`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.render import Table
from ropecli.render.console import Screen, wrapped
from ropecli.render.figure import blank_figure, column_title, curve_style, ink, legend_below, styled
from ropecli.render.labels import curve_label
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ropecli.analyses.precision import PolicyPrecision, Precision, Precisions
    from ropecli.arrays import Array


#: Fields of one policy in a document, after its name, encoding and dtypes.
FIELDS = (
    "positions",
    "max_phase_error",
    "phase_error",
    "max_table_error",
    "worst_position",
    "worst_pair",
    "deviation",
    "shift_violation",
    "table_error",
    "score_error",
    "score_shift_violation",
    "first_collision",
    "distinct_positions",
    "largest_group",
)
MOST_CURVES = 6  #: Curves that a terminal can tell apart.
LINE = 0.22  #: Inches of a line of the legend.
ROUNDING = 1e-9  #: A smaller part of the largest score is the rounding of float64.


def as_json(result: Precisions) -> dict[str, Any]:
    """Return the `result` of the document."""
    return {
        "policies": [
            {
                "name": each.policy.name,
                "label": curve_label(one),
                "context_length": one.context_length,
                "dtype": each.policy.dtypes,
                **{name: getattr(one if name == "positions" else each, name) for name in FIELDS},
                "safe_context": {f"{t:g}": length for t, length in each.safe_context.items()},
            }
            for one in result.results
            for each in one.policies
        ]
    }


def table(result: Precisions) -> Table:
    """Return the curves, a row for each encoding, policy and position."""
    names = ("phase_error", "max_phase_error", "max_table_error")
    columns: dict[str, list[Any]] = {
        name: [] for name in ("encoding", "policy", "position", *names)
    }
    for one in result.results:
        for each in one.policies:
            columns["encoding"] += [curve_label(one)] * len(one.positions)
            columns["policy"] += [each.policy.name] * len(one.positions)
            columns["position"] += one.positions.tolist()
            for name in names:
                columns[name] += getattr(each, name).tolist()
    return columns


def page(result: Precisions, screen: Screen) -> list[str]:
    """Return two rows for each policy, angles and scores; on a terminal, a plot above them."""
    lines = ["Errors that the dtypes of each stage make in RoPE"]
    for one in result.results:
        extent = f"positions 0 to {one.context_length - 1:,}, seed {one.seed}"
        lines += [f"{curve_label(one)}, {extent}", ""]
        if screen.braille and (plot := _plot(one, screen.width)):
            lines += [plot, ""]
        lines += [*_angles(one), "", *_scores(one), ""]
    if not screen.brief:
        for sentence in _sentences(result):
            lines += wrapped(sentence, min(screen.width, 80), indent=2)
        if screen.saved is None:
            lines += ["", "Save the figure: -o precision.png    the numbers: -o precision.csv"]
    return lines


def _angles(result: Precision) -> list[str]:
    """Return the rows of errors of angles, in radians."""
    headings = [
        ["", "phase", "worst at", "shift", *["safe to" for _ in result.tolerances]],
        ["policy", "error", "position", "violation", *[f"{each:g}" for each in result.tolerances]],
    ]
    rows = [
        [
            each.policy.name,
            _number(each.deviation),
            f"{each.worst_position:,}",
            _number(each.shift_violation),
            *(spell_length(length, result) for length in each.safe_context.values()),
        ]
        for each in result.policies
    ]
    return ["Angles, in radians", *aligned([*headings, *rows], left=1)]


def _scores(result: Precision) -> list[str]:
    """Return the rows of errors of tables and scores, and of positions that become the same."""
    headings = [
        ["", "table", "score", "score shift", "first", "distinct", "largest"],
        ["policy", "error", "error", "violation", "collision", "positions", "group"],
    ]
    rows = [
        [
            each.policy.name,
            _number(each.table_error),
            _number(each.score_error, rounding=ROUNDING),
            _number(each.score_shift_violation, rounding=ROUNDING),
            spell_collision(each.first_collision),
            f"{each.distinct_positions:,}",
            f"{each.largest_group:,}",
        ]
        for each in result.policies
    ]
    return ["Tables, scores and positions", *aligned([*headings, *rows], left=1)]


def _number(value: float, rounding: float = 0.0) -> str:
    if value < rounding:
        return "0"
    return f"{value:.4g}"


def spell_length(length: int, result: Precision) -> str:
    """Return a safe context; that of all positions in words."""
    return "all" if length == result.context_length else f"{length:,}"


def spell_collision(position: int) -> str:
    """Return a position; one past a large power of two as such."""
    return f"{position:,}" if position < 10**6 else f"2^{(position - 1).bit_length() - 1} + 1"


def _sentences(result: Precisions) -> list[str]:
    sentences = [
        '"all": no position of the context is beyond the tolerance. Errors of scores are parts of '
        "the largest score, A^2 |q||k|, at sampled positions."
    ]
    invariant = dict.fromkeys(
        each.policy.name
        for one in result.results
        for each in one.policies
        if each.deviation > 0 and each.score_shift_violation < ROUNDING
    )
    if invariant:
        sentences.append(
            "Shift-invariant, with frequencies that are not the encoding's: "
            f"{', '.join(invariant)}."
        )
    return sentences


def _plot(result: Precision, width: int) -> str | None:
    """Return the phase errors on a logarithmic scale; None where all are 0."""
    from ropecli.render.curves import Curve, draw

    x = result.positions[1:].astype(np.float64)
    groups = _same_curves(result.policies, "max_phase_error")
    errors = {names: values[1:] for names, values in groups.items() if values.any()}
    finite = np.concatenate([np.zeros(1), *errors.values()])
    finite = finite[np.isfinite(finite) & (finite > 0)]
    if len(x) < 2 or not len(finite):
        return None
    low, high = float(finite.min()), float(finite.max())
    curves = [Curve(label=names, x=x, y=y.clip(low, high)) for names, y in errors.items()]
    plots = [
        draw(curves[i : i + MOST_CURVES], x_label="position", columns=width, least=low, log="xy")
        for i in range(0, len(curves), MOST_CURVES)
    ]
    return "\n\n".join(["  largest phase error up to a position (rad)", *plots])


def _same_curves(policies: tuple[PolicyPrecision, ...], name: str) -> dict[str, Array]:
    """Return curves by the names of the policies that have them."""
    names: dict[bytes, list[str]] = {}
    curves: dict[bytes, Array] = {}
    for each in policies:
        values: Array = getattr(each, name)
        names.setdefault(values.tobytes(), []).append(each.policy.name)
        curves[values.tobytes()] = values
    return {", ".join(names[key]): values for key, values in curves.items()}


@styled
def figure(result: Precisions) -> Figure:
    """Return phase and table errors against position, a column of panels for each encoding."""
    results = result.results
    names = dict.fromkeys(
        each.policy.name for one in results for each in one.policies if each.max_table_error.any()
    )
    styles = {name: curve_style(index) | {"label": name} for index, name in enumerate(names)}
    picture = blank_figure(2.4 + 4.0 * len(results), 6.4 + LINE * -(-len(names) // 2))
    panels = picture.subplots(2, len(results), sharex="col", sharey="row", squeeze=False)
    for (above, below), one in zip(panels.T, results, strict=True):
        above.set_title(column_title(one), parse_math=False)
        _panel(above, one, "max_phase_error", styles)
        for tolerance in one.tolerances:
            above.axhline(tolerance, color=ink(), linewidth=0.5, linestyle=":")
        _panel(below, one, "max_table_error", styles)
        below.set_xlabel("position")
    panels[0, 0].set_ylabel("largest phase error so far (rad)")
    panels[1, 0].set_ylabel("largest |Δcos|, |Δsin| so far")
    curves = {line.get_label(): line for axes in panels.flat for line in axes.get_lines()}
    legend_below(picture, [curves[name] for name in names if name in curves], columns=2)
    return picture


def _panel(axes: Axes, result: Precision, name: str, styles: dict[str, dict[str, Any]]) -> None:
    """Plot a staircase of every policy that has an error; what is not finite is left out."""
    axes.set_xscale("log")
    axes.set_xlim(1, max(2, result.context_length - 1))
    for each in result.policies:
        values: Array = getattr(each, name)
        shown = np.where(np.isfinite(values) & (values > 0), values, np.nan)[1:]
        if not np.isnan(shown).all():
            axes.set_yscale("log")
            axes.step(result.positions[1:], shown, where="post", **styles[each.policy.name])
