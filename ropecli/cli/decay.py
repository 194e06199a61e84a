"""The decay command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ropecli.cli import options
from ropecli.cli.options import Force, Json, Layout, Output, Quiet, RotaryDim

if TYPE_CHECKING:
    from ropecli.analyses.decay import Decay
    from ropecli.cli.encoding import Encoding
    from ropecli.files.vector import Vector

DEFAULT = {"start": 0.0, "max_distance": 512.0, "step": 1.0}
FIGURE_2 = {"start": 0.0, "max_distance": 256.0, "step": 0.02}  #: The paper's frame.


def decay(
    dim: Annotated[
        list[int] | None,
        typer.Option(
            metavar="N", help="Head dim, even; 128 by default; repeat it for more curves."
        ),
    ] = None,
    base: Annotated[
        list[float] | None,
        typer.Option(metavar="B", help="Base, 10000 by default; repeat it for more curves."),
    ] = None,
    max_dist: Annotated[
        float | None,
        typer.Option(metavar="R", help="Last relative distance, included; 512 by default."),
    ] = None,
    start: Annotated[
        float | None, typer.Option(metavar="R", help="First relative distance; 0 by default.")
    ] = None,
    step: Annotated[
        float | None,
        typer.Option(metavar="R", help="Between distances, 0.02 for instance; 1 by default."),
    ] = None,
    reduce: Annotated[
        str | None,
        typer.Option(metavar="mean|sum", help="Over j of |S_j|; the paper's mean by default."),
    ] = None,
    figure2: Annotated[
        bool, typer.Option("--figure2", help="The paper's frame: 0 to 256, continuous, clipped.")
    ] = False,
    q: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A query before rotation, .npy; with --k.")
    ] = None,
    k: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A key before rotation, .npy; with --q.")
    ] = None,
    q_row: Annotated[
        int | None, typer.Option(metavar="N", help="Row of a --q file that holds a sequence.")
    ] = None,
    k_row: Annotated[
        int | None, typer.Option(metavar="N", help="Row of a --k file that holds a sequence.")
    ] = None,
    layout: Layout = None,
    rotary_dim: RotaryDim = None,
    rope_type: options.RopeType = None,
    set: options.Set = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE",
            help="config.json, a folder with one, .gguf, or -; repeat it for more curves.",
        ),
    ] = None,
    layer: options.Layer = None,
    sequence_length: options.SequenceLength = None,
    encoding: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Expected score of t5, alibi, ...; repeat it for more, or all for each.",
        ),
    ] = None,
    seed: options.Seed = 0,
    output: Output = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """\b
    Examples:
      ropecli decay --dim 128 --max-dist 512
      ropecli decay --base 10000 --base 500000 --max-dist 4096 -o bases.svg
      ropecli decay --figure2 -o figure2.png
      ropecli decay --q q.npy --k k.npy -o scores.csv
      ropecli decay --model config.json --max-dist 4096
      ropecli decay --encoding all --dim 16 -o expected.png

    Show how RoPE's upper bound falls with distance. It is the Abel-summation bound of RoFormer
    Eq. 36-37, the curve of its Figure 2. With --q and --k the score of those vectors (Eq. 35)
    and both bounds of Eq. 37 stand beside it.
    """
    from ropecli.analyses.decay import decay as analyse
    from ropecli.cli.decay_encoding import show_expected
    from ropecli.cli.inputs import files
    from ropecli.cli.verify_encoding import refuse_beside_encoding
    from ropecli.numbers import at_least
    from ropecli.render import console, document
    from ropecli.render import decay as pages
    from ropecli.render.output import check_output

    check_output(output, force=force, sources=files(q, k, models=model))
    named = (("start", start), ("max_distance", max_dist), ("step", step))
    given = {name: value for name, value in named if value is not None}
    at_least("seed", seed, 0)
    if encoding:
        bound_alone = {"start": start, "step": step, "reduce": reduce, "figure2": figure2 or None}
        refuse_beside_encoding(**bound_alone, q=q, k=k, q_row=q_row, k_row=k_row)
    reduce = "mean" if reduce is None else reduce
    if figure2:
        _check_figure2(given, plain=reduce == "mean" and q is None and k is None)
    frame = (FIGURE_2 if figure2 else DEFAULT) | given
    query, key = _load("q", q, q_row), _load("k", k, k_row)
    encodings = _encodings(
        model,
        by_model={"layer": layer, "sequence_length": sequence_length},
        by_number={
            "dim": dim,
            "base": base,
            "layout": layout,
            "rotary_dim": rotary_dim,
            "rope_type": rope_type,
            "set": set,
        },
        width=128 if query is None else len(query.values),
    )
    if not quiet:
        pages.show_notes(query, key)
        for each in encodings:
            for note in each.notes:
                console.note(f"{each.name}: {note}")
    rope_options = {
        "dim": None if model else list(dict.fromkeys(e.rope.head_dim for e in encodings)),
        "base": None if model else list(dict.fromkeys(base or [10_000.0])),
        "layout": None if model else layout or "interleaved",
        "rotary_dim": rotary_dim,
        "rope_type": rope_type,
        "set": set,
        "model": model,
        "layer": layer,
        "sequence_length": sequence_length,
    }
    if encoding:
        show_expected(
            encoding,
            encodings,
            frame["max_distance"],
            rope_options,
            seed=seed,
            output=output,
            force=force,
            json=json,
            quiet=quiet,
        )
        return
    curves: list[Decay] = [
        analyse(
            each.rope,
            **frame,
            reduce=reduce,
            q=None if query is None else query.values,
            k=None if key is None else key.values,
            name=each.name,
        )
        for each in encodings
    ]
    parameters = rope_options | {
        "start": frame["start"],
        "max_dist": frame["max_distance"],
        "step": frame["step"],
        "reduce": reduce,
        "figure2": figure2,
        "q": q,
        "k": k,
        "q_row": None if query is None else query.row,
        "k_row": None if key is None else key.row,
    }
    if output is not None:
        pages.write(curves, output, parameters, force=force, figure2=figure2)
    if json:
        document.show("decay", parameters, pages.as_json(curves))
    else:
        pages.show(curves, figure2=figure2, saved=output, brief=quiet)


def _encodings(
    models: list[str] | None,
    *,
    by_model: dict[str, Any],
    by_number: dict[str, Any],
    width: int,
) -> list[Encoding]:
    """One for each curve."""
    from ropecli.cli.encoding import (
        from_model,
        from_parameters,
        refuse_beside_model,
        refuse_without_model,
    )
    from ropecli.cli.names import told_apart

    if models:
        refuse_beside_model(**by_number)
        sources = list(dict.fromkeys(models))
        return told_apart([from_model(source, **by_model) for source in sources], sources)
    refuse_without_model(layer=by_model["layer"])
    dims, bases = by_number.pop("dim") or [width], by_number.pop("base") or [None]
    return [
        from_parameters(dim=d, base=b, sequence_length=by_model["sequence_length"], **by_number)
        for d in dict.fromkeys(dims)
        for b in dict.fromkeys(bases)
    ]


def _check_figure2(given: dict[str, float], *, plain: bool) -> None:
    from ropecli.errors import ArgumentError

    if FIGURE_2 | given != FIGURE_2:
        msg = "--figure2 sets --start, --max-dist and --step itself; leave them out"
        raise ArgumentError(msg)
    if not plain:
        msg = "--figure2 is a frame for the mean bound alone; leave --reduce, --q and --k out"
        raise ArgumentError(msg)


def _load(name: str, path: Path | None, row: int | None) -> Vector | None:
    from ropecli.errors import ArgumentError
    from ropecli.files.vector import load_vector

    if path is not None:
        return load_vector(path, row)
    if row is not None:
        msg = f"--{name}-row needs --{name}, got row {row} of no file"
        raise ArgumentError(msg)
    return None
