"""Page, table and figure of `precision`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ropecli.analyses.precision import PolicyPrecision, Precision
from ropecli.arrays import Array
from ropecli.render import Table, fields
from ropecli.render import figure as style
from ropecli.render.console import Screen
from ropecli.render.curves import Curve, draw
from ropecli.render.encoding_view import encoding_view
from ropecli.render.labels import curve_label, quantity
from ropecli.render.table import Cell, Column, texts
from ropecli.results import Axes, Figure

#: Fields of one policy in a document, after its name, encoding and dtypes.
FIELDS = (
    *("max_phase_error", "phase_error", "max_table_error", "worst_position", "worst_pair"),
    *("deviation", "shift_violation", "table_error", "score_error", "score_shift_violation"),
    *("first_collision", "distinct_positions", "largest_group"),
)
MOST_CURVES = 6  #: Curves that a terminal can tell apart.
ROUNDING = 1e-9  #: A smaller part of the largest score is the rounding of float64.


HEADING = "Errors that the dtypes of each stage make in RoPE"
SAVE = "Save the figure: -o precision.png    the numbers: -o precision.csv"


def as_json(result: Precision) -> list[dict[str, Any]]:
    """Return an object for each policy."""
    return [
        {
            "name": policy.policy.name,
            "label": curve_label(result),
            "context_length": result.context_length,
            "dtype": policy.policy.dtypes,
            "positions": result.positions,
            **fields(policy, *FIELDS),
            "safe_context": {f"{t:g}": length for t, length in policy.safe_context.items()},
        }
        for policy in result.policies
    ]


def table(result: Precision) -> Table:
    """Return the curves, a row for each policy and position."""
    policies, count = result.policies, len(result.positions)
    curves = ("phase_error", "max_phase_error", "max_table_error")
    return {
        "encoding": [curve_label(result)] * count * len(policies),
        "policy": [policy.policy.name for policy in policies for _ in range(count)],
        "position": np.tile(result.positions, len(policies)),
        **{name: np.concatenate([getattr(policy, name) for policy in policies]) for name in curves},
    }


def blocks(shown: Sequence[Precision], screen: Screen) -> list[list[str]]:
    """Return the errors of each encoding, and what the rows mean."""
    title, *others = [part for precision in shown for part in _errors(precision, screen)]
    meaning = [] if screen.brief else screen.wrap(*_meaning(shown))
    return [[HEADING, *title], *others, meaning, screen.offer(SAVE)]


def _errors(result: Precision, screen: Screen) -> list[list[str]]:
    """Return two rows for each policy, angles and scores; on a terminal, a plot above them."""
    extent = f"positions 0 to {result.context_length - 1:,}, seed {result.seed}"
    plot = _plot(result, screen.width) if screen.braille else None
    scores = screen.align(texts((POLICY, *SCORES), facts(result)), left=1)
    return [
        [f"{curve_label(result)}, {extent}"],
        [plot] if plot else [],
        ["Angles, in radians", *screen.align(texts(angles(result), facts(result)), left=1)],
        ["Tables, scores and positions", *scores],
    ]


def verdict(result: Precision) -> str:
    """Return which policies keep the angles of an encoding, and the one that is worst."""
    tolerance, threshold = min(result.tolerances), result.context_length
    safe = {policy.policy.name: policy.safe_context[tolerance] for policy in result.policies}
    kept = [name for name, length in safe.items() if length == threshold]
    if len(safe) == 1:
        (name,) = safe
        within = f"the first {safe[name]:,} of" if safe[name] < threshold else "all"
        error = result.policies[0].score_error
        off = f"off by up to {100 * error:.2g} %" if np.isfinite(error) else "infinite or NaN"
        said = f"angles of {name} are within {tolerance:g} rad for {within} {threshold:,} positions"
        return f"{said}; scores are {off}"
    within = f"within {tolerance:g} rad over all {threshold:,} positions"
    said = f"{within}: {', '.join(kept)}" if kept else f"no scheme stays {within}"
    if len(kept) == len(safe):
        return said
    worst = min(safe, key=lambda name: safe[name])
    return f"{said}; {worst}: only the first {quantity(safe[worst], 'position')}"


def facts(result: Precision) -> Iterator[dict[Any, Any]]:
    """Yield the numbers of each policy."""
    for policy in result.policies:
        safe = {
            tolerance: Cell("all" if n == result.context_length else f"{n:,}", n)
            for tolerance, n in policy.safe_context.items()
        }
        named = {"encoding": str(result.name), "policy": policy.policy.name}
        yield named | safe | fields(policy, *FIELDS)


def _spell_score(error: float) -> str:
    return "0" if error < ROUNDING else f"{error:.4g}"


def _spell_collision(position: int) -> str:
    """Return a position; one past a large power of two as such."""
    return f"{position:,}" if position < 10**6 else f"2^{(position - 1).bit_length() - 1} + 1"


POLICY = Column("policy", "policy")
SCORES = (
    Column("table\nerror", "table_error", ".4g"),
    Column("score\nerror", "score_error", _spell_score),
    Column("score shift\nviolation", "score_shift_violation", _spell_score),
    Column("first\ncollision", "first_collision", _spell_collision),
    Column("distinct\npositions", "distinct_positions", ","),
    Column("largest\ngroup", "largest_group", ","),
)


def angles(result: Precision) -> list[Column]:
    """Return the columns of errors of angles."""
    return [
        POLICY,
        Column("phase\nerror", "deviation", ".4g"),
        Column("worst at\nposition", "worst_position", ","),
        Column("shift\nviolation", "shift_violation", ".4g"),
        *(Column(f"safe to\n{tolerance:g}", tolerance) for tolerance in result.tolerances),
    ]


def _meaning(results: Sequence[Precision]) -> list[str]:
    """Return what the rows mean, and which policies only change frequencies."""
    sentences = [
        '"safe to": number of positions from 0 on within the tolerance, or "all" of the context. '
        "Score errors are relative to the largest score, A^2 |q||k|, at sampled positions."
    ]
    invariant = dict.fromkeys(
        policy.policy.name
        for one in results
        for policy in one.policies
        if policy.deviation > 0 and policy.score_shift_violation < ROUNDING
    )
    if invariant:
        sentences.append(
            "Shift-invariant, with frequencies that are not the encoding's: "
            f"{', '.join(invariant)}."
        )
    return sentences


def _plot(result: Precision, width: int) -> str | None:
    """Return the phase errors on a logarithmic scale; None where all are 0."""
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
    for policy in policies:
        values: Array = getattr(policy, name)
        names.setdefault(values.tobytes(), []).append(policy.policy.name)
        curves[values.tobytes()] = values
    return {", ".join(names[key]): values for key, values in curves.items()}


def figure(*results: Precision) -> Figure:
    """Return phase and table errors against position, a column of panels for each encoding."""
    names = dict.fromkeys(
        policy.policy.name
        for one in results
        for policy in one.policies
        if policy.max_table_error.any()
    )
    styles = {name: style.curve_style(index) | {"label": name} for index, name in enumerate(names)}
    picture, panels = style.columns_of_panels([curve_label(one) for one in results], [3.2, 3.2])
    for (above, below), one in zip(panels.T, results, strict=True):
        _panel(above, one, "max_phase_error", styles)
        for tolerance in one.tolerances:
            above.axhline(tolerance, color=style.ink(), linewidth=0.5, linestyle=":")
        _panel(below, one, "max_table_error", styles)
        for axes in (above, below):
            axes.set_xlabel("position")
    style.label_rows(panels, "largest phase error so far (rad)", "largest |Δcos|, |Δsin| so far")
    curves = {line.get_label(): line for axes in panels.flat for line in axes.get_lines()}
    style.legend_below(picture, [curves[name] for name in names if name in curves])
    return picture


def _panel(axes: Axes, result: Precision, name: str, styles: dict[str, dict[str, Any]]) -> None:
    """Plot a staircase of every policy that has an error; what is not finite is left out."""
    axes.set_xscale("log")
    axes.set_xlim(1, max(2, result.context_length - 1))
    for policy in result.policies:
        values: Array = getattr(policy, name)
        shown = np.where(np.isfinite(values) & (values > 0), values, np.nan)[1:]
        if not np.isnan(shown).all():
            axes.set_yscale("log")
            axes.step(result.positions[1:], shown, where="post", **styles[policy.policy.name])


VIEW = encoding_view(
    document=as_json, table=table, figure=figure, verdict=verdict, blocks=blocks, key="policies"
)
