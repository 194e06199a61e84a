"""Words for `encode --check`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ropecli.render import console
from ropecli.render.encode import rate

if TYPE_CHECKING:
    from ropecli.files.axes import Axes
    from ropecli.files.compare import Compared
    from ropecli.rotary import Rotary


def as_json(result: Compared, axes: Axes, rope: Rotary) -> dict[str, Any]:
    """The fields as they are, with those that `encode` has besides."""
    return {
        **dataclasses.asdict(result),
        "layout": rope.layout,
        "sequence_axis": axes.sequence_axis,
        "heads": axes.heads,
        "head_dim": axes.head_dim,
    }


def show(result: Compared, rope: Rotary) -> None:
    """Say whether it is the rotation, and where it differs first."""
    out = console.out()
    took = f"compared in {result.seconds:.1f} s{rate(result.bytes, result.seconds)}"
    if result.passed:
        how = "to the bit" if result.identical else "within rounding"
        out.print(f"{result.output} is the rotation of {result.input}, {how}", markup=False)
        if not result.identical:
            out.print(
                f"angles are off by up to {result.max_phase_error:.2g} radian, "
                f"lengths by {result.max_length_error:.2g} of themselves",
                markup=False,
            )
    else:
        first = result.first
        assert first is not None
        out.print(f"{result.output} is not the rotation of {result.input}", markup=False)
        tensor = f" of {result.first_tensor}" if result.first_tensor else ""
        index = ", ".join(map(str, first.index))
        position = ", ".join(f"{each:.15g}" for each in first.position)
        out.print(
            f"{result.differing:,} of {result.vectors:,} vectors differ; the first{tensor} "
            f"is row ({index}), head {first.head}, at position {position}:\n"
            f"coordinate {first.coordinate} should be {first.expected:.9g} and is {first.got:.9g}",
            markup=False,
        )
        out.print(
            "which RoPE made it, if any: "
            f"ropecli identify {result.input} {result.output} --dim {rope.head_dim}",
            markup=False,
        )
    out.print(took, markup=False)
