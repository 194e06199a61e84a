"""Text and JSON of `encode --check`."""

from __future__ import annotations

import dataclasses
import shlex
from typing import TYPE_CHECKING, Any

from ropecli.render import console
from ropecli.render.encode import rate

if TYPE_CHECKING:
    from ropecli.checks.rotated_file import Compared
    from ropecli.files.axes import Axes
    from ropecli.rotary import Rotary


def as_json(result: Compared, axes: Axes, rope: Rotary) -> dict[str, Any]:
    """Return the fields of a result, with those that `encode` has besides."""
    return {
        **dataclasses.asdict(result),
        "layout": rope.layout,
        "sequence_axis": axes.sequence_axis,
        "heads": axes.heads,
        "head_dim": axes.head_dim,
    }


def show(result: Compared, rope: Rotary, options: dict[str, object] | None) -> None:
    """Show whether it is the rotation, and where it differs first.

    Args:
        result: The comparison.
        rope: The encoding.
        options: Those that `identify` needs besides, by name; None where it can't read the files.
    """
    out = console.out()
    before, after = (console.visible(str(path)) for path in (result.input, result.output))
    took = f"compared in {result.seconds:.1f} s{rate(result.bytes, result.seconds)}"
    if result.passed:
        how = "to the bit" if result.identical else "within rounding"
        out.print(f"{after} is the rotation of {before}, {how}", markup=False)
        if not result.identical:
            out.print(
                f"angles are off by up to {result.max_phase_error:.2g} radian, "
                f"lengths by {result.max_length_error:.2g} of themselves",
                markup=False,
            )
    else:
        first = result.first
        assert first is not None
        out.print(f"{after} is not the rotation of {before}", markup=False)
        tensor = f" of {console.visible(result.first_tensor)}" if result.first_tensor else ""
        index = ", ".join(map(str, first.index))
        position = ", ".join(f"{each:.15g}" for each in first.position)
        out.print(
            f"{result.differing:,} of {result.vectors:,} vectors differ; the first{tensor} "
            f"is row ({index}), head {first.head}, at position {position}:\n"
            f"coordinate {first.coordinate} should be {first.expected:.9g} and is {first.got:.9g}",
            markup=False,
        )
        if options is not None:
            command = _identify(result, {"--dim": rope.head_dim, **options})
            out.print(f"which RoPE made it, if any: {console.visible(command)}", markup=False)
    out.print(took, markup=False)


def _identify(result: Compared, options: dict[str, object]) -> str:
    """Return the command that finds out, as a shell takes it."""
    words: list[object] = ["ropecli", "identify", result.input, result.output]
    for name, value in {"--tensor": result.first_tensor or None, **options}.items():
        words += [] if value is None else [name, value]
    return shlex.join(map(str, words))
