"""The decay command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ropecli.cli.command import Help, command
from ropecli.cli.options import EncodingListOptions, OutputOptions, Seed
from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    from ropecli.analyses.decay import Decay
    from ropecli.cli.encoding import NamedRotary
    from ropecli.files.load import Vector

DEFAULT = {"start": 0.0, "max_distance": 512.0, "step": 1.0}
FIGURE_2 = {"start": 0.0, "max_distance": 256.0, "step": 0.02}  #: The paper's frame.


@command
def decay(
    max_dist: Annotated[
        float | None,
        typer.Option(metavar="R", help="Last relative distance, included. [default: 512]"),
    ] = None,
    start: Annotated[
        float | None, typer.Option(metavar="R", help="First relative distance. [default: 0]")
    ] = None,
    step: Annotated[
        float | None, typer.Option(metavar="R", help="Spacing of relative distances. [default: 1]")
    ] = None,
    reduce: Annotated[
        str | None,
        typer.Option(
            metavar="mean|sum",
            help="Aggregate |S_j| by mean (as in the paper) or sum. [default: mean]",
        ),
    ] = None,
    figure2: Annotated[
        bool,
        typer.Option(
            "--figure2", help="Frame of the paper's Figure 2: 0 to 256, continuous, clipped."
        ),
    ] = False,
    q: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Query before rotation, .npy; needs --k.")
    ] = None,
    k: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Key before rotation, .npy; needs --q.")
    ] = None,
    contributions: Annotated[
        bool,
        typer.Option("--contributions", help="Show what each pair adds to the score."),
    ] = False,
    q_row: Annotated[
        int | None, typer.Option(metavar="N", help="Row of a --q file with several vectors.")
    ] = None,
    k_row: Annotated[
        int | None, typer.Option(metavar="N", help="Row of a --k file with several vectors.")
    ] = None,
    *,
    rope: Annotated[
        EncodingListOptions, Help(dim="Head dim, even; repeatable. [default: 128, or that of --q]")
    ],
    encoding: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,...",
            help="Encodings whose expected score is shown, e.g. rope,t5, or all; repeatable.",
        ),
    ] = None,
    seed: Seed = 0,
    output: OutputOptions,
) -> None:
    """\b
    Examples:
      ropecli decay --dim 128 --max-dist 512
        at distance 0      32.5        = (pairs + 1) / 2, exactly
        halved by          16
        rises first at     19
        at distance 512    5.311
        lowest             4.871    at 482
      ropecli decay --base 10000 --base 500000 --max-dist 4096 -o bases.svg
      ropecli decay --figure2 -o figure2.png
      ropecli decay --q q.npy --k k.npy -o scores.csv
      ropecli decay --model example:llama-3.1-8b --max-dist 4096
      ropecli decay --dim 16 --contributions -o contributions.png
      ropecli decay --encoding all --dim 16 -o expected.png

    Show how RoPE's relative upper bound falls with distance. It is the factor of the bound of
    RoFormer Eq. 37 that depends on distance alone, the curve of its Figure 2. With --q and --k,
    also show the score of those vectors (Eq. 35) and both bounds of Eq. 37.
    """
    from ropecli.analyses.decay import DecayCurves
    from ropecli.analyses.decay import decay as analyse
    from ropecli.cli.encoding import named_notes, refuse_beside_encoding
    from ropecli.numbers import at_least

    at_least("seed", seed, 0)
    vectors = {"q": q, "k": k, "q_row": q_row, "k_row": k_row}
    frame = _frame(start, max_dist, step, figure2=figure2)
    if encoding:
        bound_alone = {"start": start, "step": step, "reduce": reduce, "figure2": figure2 or None}
        refuse_beside_encoding(**bound_alone, **vectors, contributions=contributions or None)
    elif figure2 and (reduce not in (None, "mean") or q or k):
        _refuse("--figure2 is a frame for the mean bound alone; leave --reduce, --q and --k out")
    elif figure2 and contributions:
        _refuse("--figure2 is a frame for the mean bound alone; leave --contributions out")
    query, key = _load("q", q, q_row), _load("k", k, k_row)
    ropes = rope.encodings(dim=128 if query is None else len(query.values), uses_context=False)
    for vector in (query, key):
        if vector is not None and vector.rows is not None and vector.rows > 1:
            output.note(f"{vector.path}: row {vector.row} of {vector.rows:,} taken")
    output.note(*named_notes(ropes))
    resolved: dict[str, Any] = {
        "dim": None if rope.model else list(dict.fromkeys(e.rope.head_dim for e in ropes)),
        "base": rope.base if rope.model else list(dict.fromkeys(e.rope.base for e in ropes)),
        "layout": rope.layout if rope.model else rope.layout or "interleaved",
    }
    if encoding:
        _show_expected(encoding, ropes, frame["max_distance"], seed, output, resolved)
        return
    curves: list[Decay] = [
        analyse(
            each.rope,
            **frame,
            reduce=reduce or "mean",
            q=None if query is None else query.values,
            k=None if key is None else key.values,
            contributions=contributions,
            name=each.name,
        )
        for each in ropes
    ]
    resolved |= {
        "start": frame["start"],
        "max_dist": frame["max_distance"],
        "step": frame["step"],
        "reduce": reduce or "mean",
        "q_row": None if query is None else query.row,
        "k_row": None if key is None else key.row,
    }
    parameters = output.parameters("encoding", "seed", **resolved)
    output.show(DecayCurves(curves=tuple(curves), figure2=figure2), parameters)


def _show_expected(
    names: list[str],
    ropes: list[NamedRotary],
    max_distance: float,
    seed: int,
    output: OutputOptions,
    resolved: dict[str, Any],
) -> None:
    """Show the expected scores of encodings, and RoPE's bound."""
    from ropecli.analyses.decay import decay as analyse
    from ropecli.analyses.expected import ExpectedCurves, expected_score
    from ropecli.cli.encoding import encoding_names
    from ropecli.cli.progress import progress_bar
    from ropecli.encodings import with_table

    last = int(max_distance) if abs(max_distance) < 2**53 else 0
    if last != max_distance or len(ropes) != 1:
        _refuse("--encoding takes whole distances, and one --dim, --base, --model or --layer")
    rope = ropes[0].rope
    bound = analyse(rope, max_distance=last, name=ropes[0].name)
    chosen = encoding_names(names)
    curves = []
    for name in chosen:
        own = {"rotary": rope} if name == "rope" else {}
        sizes = {"model_dim": 4 * rope.head_dim, "head_dim": rope.head_dim}
        encoding = with_table(name, last + 1, **sizes, seed=seed, **own)
        with progress_bar(name, wanted=not output.quiet, of="steps") as progress:
            curve = expected_score(encoding, max_distance=last, seed=seed, progress=progress)
        curves.append(curve)
    resolved |= {
        "encoding": chosen,
        "max_dist": last,
        "dim": rope.head_dim,
        "base": rope.base,
    }
    unused = ("start", "step", "reduce", "figure2", "q", "k", "q_row", "k_row", "contributions")
    parameters = output.parameters(*unused, **resolved)
    output.show(ExpectedCurves(curves=tuple(curves), bound=bound), parameters)


def _frame(
    start: float | None, max_dist: float | None, step: float | None, *, figure2: bool
) -> dict[str, float]:
    given = {"start": start, "max_distance": max_dist, "step": step}
    frame = {name: value for name, value in given.items() if value is not None}
    if figure2 and FIGURE_2 | frame != FIGURE_2:
        _refuse("--figure2 sets --start, --max-dist and --step itself; leave them out")
    return (FIGURE_2 if figure2 else DEFAULT) | frame


def _load(name: str, path: Path | None, row: int | None) -> Vector | None:
    if path is None:
        if row is not None:
            _refuse(f"--{name}-row needs --{name}, got row {row} of no file")
        return None
    from ropecli.files.load import load_vector

    return load_vector(path, row)


def _refuse(problem: str) -> None:
    raise ArgumentError(problem)
