"""Text and JSON of `encode --check`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ropecli.files.array_axes import Axes
from ropecli.render import View, console, fields
from ropecli.render.console import Screen
from ropecli.render.encode import rate
from ropecli.render.labels import frequencies, quantity
from ropecli.rotary import Rotary

if TYPE_CHECKING:
    from ropecli.checks.encode_check import Compared


def _document(result: Compared, *, axes: Axes, rope: Rotary, **_others: object) -> dict[str, Any]:
    """Return the fields of a result, with those that `encode` has besides."""
    arguments = {"layout": rope.layout, "sequence_axis": axes.sequence_axis}
    return vars(result) | arguments | fields(axes, "heads", "head_dim")


def page(
    result: Compared,
    _: Screen,
    *,
    rope: Rotary | None = None,
    axes: Axes | None = None,
    assumed: str = "",
    options: dict[str, object] | None = None,
    plan: Sequence[str] = (),
    **_others: object,
) -> list[str]:
    """Return whether it is the rotation, where it differs first, and how it was rotated."""
    before, after = (console.visible(str(path)) for path in (result.input, result.output))
    if result.passed:
        how = "to the bit" if result.identical else "within rounding"
        verdict, lines = f"PASS  {after} is the rotation of {before}, {how}", []
        if not result.identical:
            lines.append(
                f"angles are off by up to {result.max_phase_error:.2g} radian, "
                f"lengths by {result.max_length_error:.2g} of themselves"
            )
    else:
        first = result.first
        assert first is not None
        tensor = f" of {console.visible(result.first_tensor)}" if result.first_tensor else ""
        index = ", ".join(map(str, first.index))
        where = f"row ({index}), " if index else ""
        position = ", ".join(f"{value:.15g}" for value in first.position)
        verdict = f"FAIL  {after} is not the rotation of {before}"
        if rope is not None and axes is not None:
            heads = f"{quantity(axes.heads, 'head')} of {axes.head_dim}"
            verdict += f" by {frequencies(rope)}, {rope.layout}, {heads}"
        verdict += f"; assumed: {assumed}" if assumed else ""
        lines = [
            f"{result.differing:,} of {result.vectors:,} vectors differ; the first{tensor} "
            f"is {where}head {first.head}, at position {position}:",
            f"coordinate {first.coordinate} should be {first.expected:.9g} and is {first.got:.9g}",
        ]
        if index and options is not None and rope is not None:  # of one vector nothing is known
            command = _identify(result, options)
            lines.append(f"which RoPE made it, if any: {console.visible(command)}")
    compared = f"compared in {result.seconds:.1f} s{rate(result.bytes, result.seconds)}"
    return console.paragraphs([verdict], lines, [*plan, compared])


VIEW = View(page=page, document=_document)


def _identify(result: Compared, options: dict[str, object]) -> str:
    """Return the command that finds out, as a shell takes it."""
    words: list[object] = ["ropecli", "identify", result.input, result.output]
    for name, value in {"--tensor": result.first_tensor or None, **options}.items():
        words += [] if value is None else [name, value]
    return shlex.join(map(str, words))
