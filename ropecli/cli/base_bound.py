"""The base-bound command."""

from __future__ import annotations

from typing import Annotated

from ropecli.cli.command import Help, command, flag, option
from ropecli.cli.options import EncodingListOptions, OutputOptions
from ropecli.errors import ArgumentError


@command(
    needs={"low": "scan", "high": "scan", "grid": "scan"},
    excludes={"scan": ("positions", "base", "rope_type", "set")},
)
def base_bound(
    positions: int | None = option("N", "Last distance to search. [default: 1048576]"),
    scan: bool = flag("--scan", "Find the bases that support the context; plain RoPE only."),
    low: float | None = option("B", "First base of --scan. [default: the context]"),
    high: float | None = option("B", "Last base of --scan. [default: the least proven to hold]"),
    grid: int | None = option("N", "Number of bases of --scan. [default: 1000]"),
    *,
    rope: Annotated[
        EncodingListOptions, Help(context="Context length asked about. [default: the model's]")
    ],
    output: OutputOptions,
) -> bool:
    """\b
    Examples:
      ropecli base-bound --base 500000 --context 16384
        Holds up to distance 18,437; a context of 16,384 fits.
      ropecli base-bound --context 8192
      ropecli base-bound --model example:llama-3.1-8b -o sums.png
      ropecli base-bound --base 10000 --base 500000 --base 8e6
      ropecli base-bound --scan --context 4096
      ropecli base-bound --scan --context 8192 --low 8e4 --high 9e4 -o scan.csv

    Find the longest context of a base, or the bases for a context. A context ends where the sum of
    the pairs' cosines first turns negative (Men et al. 2024): at that distance a key that
    resembles the query is expected to score below a random one. With --scan, or a context and no
    base, find the bases that support the context. Exit code 1 if a base or a model does not support
    it.
    """
    from ropecli.analyses.base_bound import POSITIONS
    from ropecli.analyses.base_bound import base_bound as analyse

    bases = {"low": low, "high": high, "grid": grid}
    named = bool(rope.base or rope.model)
    described = named or rope.rope_type is not None or positions is not None
    if scan or (rope.context is not None and not described):
        _scan(rope, bases, output)
        return True
    ropes = rope.encodings()
    output.note_encodings(ropes)
    last = POSITIONS if positions is None else positions
    with output.working():
        bounds = [
            analyse(rotary.rope, context_length=rotary.reach, positions=last, name=rotary.name)
            for rotary in ropes
        ]
    output.show_all(bounds, output.parameters(bounds, omit=[*bases], positions=last))
    # Nobody asked about the default of a base.
    return not named or all(bound.holds is not False for bound in bounds)


def _scan(
    rope: EncodingListOptions, bases: dict[str, float | int | None], output: OutputOptions
) -> None:
    """Show which bases hold a context."""
    from ropecli.analyses.base_bound import base_scan

    ropes = rope.encodings()
    if len(ropes) != 1:
        raise ArgumentError(f"--scan takes one --dim, --model or --layer, got {len(ropes)}")
    (named,) = ropes
    if named.reach is None:
        raise ArgumentError("--scan needs --context, or a --model with a context length")
    from ropecli.cli.progress import progress_bar

    with progress_bar("base-bound", wanted=not output.quiet, of="steps", after=1.0) as progress:
        result = base_scan(
            context_length=named.reach,
            head_dim=named.rope.head_dim,
            rotary_dim=named.rope.rotary_dim,
            progress=progress,
            **{name: value for name, value in bases.items() if value is not None},  # type: ignore[arg-type]
        )
    first, *_, last = result.base.tolist()
    resolved = {"low": first, "high": last, "grid": len(result.base)}
    unused = ("positions", "base", "rope_type", "set")
    output.show(result, output.parameters(result, omit=unused, **resolved))
