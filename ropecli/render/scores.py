"""Words, numbers and pictures for `scores`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ropecli.render import console
from ropecli.render.output import write_output
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from pathlib import Path

    from ropecli.analyses.invariance import Invariance, Property
    from ropecli.analyses.score_map import ScoreMap

HEADINGS = {
    "translation_invariance": "invariant",
    "symmetry": "symmetric",
    "boundedness": "bounded",
    "decay": "decaying",
    "linear_shift": "linear",
}
WORDS = {True: "yes", False: "no", None: "-"}


def as_json(maps: list[ScoreMap], judged: list[Invariance]) -> dict[str, Any]:
    """The result of `--json`."""
    return {
        "agrees": all(each.agrees for each in judged),
        "encodings": [
            {
                "name": shown.name,
                "equation": shown.equation,
                "agrees": each.agrees,
                "scores": shown.scores,
                **{name: _property(found) for name, found in each.properties.items()},
            }
            for shown, each in zip(maps, judged, strict=True)
        ],
    }


def _property(found: Property) -> dict[str, Any]:
    return {
        "holds": found.holds,
        "max_error": found.max_error,
        "tolerance": found.tolerance,
        "theory": found.theory,
        "agrees": found.agrees,
    }


def write(
    maps: list[ScoreMap],
    judged: list[Invariance],
    output: Path,
    parameters: dict[str, Any],
    *,
    force: bool,
) -> None:
    """Write the figure or the numbers, whole or not at all.

    Raises:
        FileError: It can't be written.
    """
    suffix = output.suffix.lower()
    if suffix == ".csv":
        content = _csv(maps).encode()
    elif suffix == ".json":
        from ropecli.render import document

        content = (document.text("scores", parameters, as_json(maps, judged)) + "\n").encode()
    else:
        from ropecli.render.scores_figure import drawn

        title = f"scores of head {parameters['head']}, seed {parameters['seed']}"
        content = drawn(maps, title=title, suffix=suffix, command=_command(parameters))
    write_output(output, content, force=force)


def _csv(maps: list[ScoreMap]) -> str:
    lines = ["query_position,key_position," + ",".join(shown.name for shown in maps)]
    queries, keys = maps[0].scores.shape
    for m in range(queries):
        for n in range(keys):
            values = (repr(float(shown.scores[m, n])) for shown in maps)
            lines.append(f"{m},{n}," + ",".join(values))
    return "\n".join(lines) + "\n"


def _command(parameters: dict[str, Any]) -> str:
    """A command line that draws the figure again."""
    options = [
        f"--{name.replace('_', '-')} {each}"
        for name, value in parameters.items()
        for each in (value if isinstance(value, list) else [value])
        if each is not None
    ]
    return " ".join(["ropecli scores", *options])


def show(judged: list[Invariance], *, seed: int, saved: Path | None, brief: bool) -> None:
    """Print the verdict, then what was measured and, below it, what theory says."""
    out = console.out()
    count = f"{len(judged)} encoding{'s' * (len(judged) != 1)}"
    wrong = [line for each in judged for line in _disagreements(each)]
    if wrong:
        lines = [
            f"FAIL: {len(wrong)} disagreement{'s' * (len(wrong) != 1)} with theory, seed {seed}"
        ]
        lines.append("")
        lines += wrong
    else:
        lines = [f"PASS: measurement and theory agree on {count}, seed {seed}"]
    if not brief:
        lines += ["", *table(judged)]
        lines += ["", "The number is the largest error; decaying: the largest rise over a step."]
    if saved is not None:
        lines += ["", f"Written: {console.visible(str(saved))}"]
    elif not brief:
        lines += ["", "Save the heat maps: -o scores.png    all of it: --json"]
    for line in lines:
        fits = len(line) <= out.width  # a line of the table keeps its gaps
        for part in [line] if fits else console.wrapped(line, out.width, indent=4):
            out.print(part, markup=False)


def table(judged: list[Invariance]) -> list[str]:
    """Two lines for each encoding: measured, and theory."""
    rows = [["", *HEADINGS.values()]]
    for each in judged:
        found = [each.properties[name] for name in HEADINGS]
        rows.append([each.name, *(_measured(one) for one in found)])
        rows.append(["  theory", *(f"{WORDS[one.theory]:<8}" for one in found)])
    return aligned(rows, left=1)


def _measured(found: Property) -> str:
    if found.max_error is None:
        return f"{WORDS[None]:<8}"
    return f"{WORDS[found.holds]:<3} {found.max_error:<.0e}"


def _disagreements(each: Invariance) -> list[str]:
    return [
        f"  {each.name}: {HEADINGS[name]} was measured {WORDS[found.holds]} "
        f"(error {found.max_error:.3g}, tolerance {found.tolerance:.3g}), "
        f"theory says {WORDS[found.theory]}"
        for name, found in each.properties.items()
        if not found.agrees
    ]
