"""Files that `linear` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ropecli.render.linear import as_json
from ropecli.render.output import write_output

if TYPE_CHECKING:
    from pathlib import Path

    from ropecli.analyses.linear import Linear
    from ropecli.analyses.linear_cost import Cost
    from ropecli.rotary import Rotary


def write(
    result: Linear,
    cost: tuple[Cost, ...],
    rope: Rotary,
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
        content = csv(cost).encode()
    elif suffix == ".json":
        from ropecli.render import document

        content = (document.text("linear", parameters, as_json(result, cost)) + "\n").encode()
    else:
        from ropecli.render.linear_figure import drawn

        content = drawn(cost, result.feature_map, rope, suffix=suffix, command=command(parameters))
    write_output(output, content, force=force)


def csv(cost: tuple[Cost, ...]) -> str:
    """A line for each form and number of tokens; where rows are fewer, the rest is reckoned."""
    lines = ["form,sequence_length,rows,seconds,peak_bytes"]
    for each in cost:
        columns = (each.sequence_length, each.rows, each.seconds, each.peak_bytes)
        lines += [f"{each.form},{n},{r},{s!r},{b}" for n, r, s, b in zip(*columns, strict=True)]
    return "\n".join(lines) + "\n"


def command(parameters: dict[str, Any]) -> str:
    """A command line that measures the same again."""
    options = [
        f"--{name.replace('_', '-')} {each}"
        for name, value in parameters.items()
        for each in (value if isinstance(value, list) else [value])
        if each is not None
    ]
    return " ".join(["ropecli linear", *options])
