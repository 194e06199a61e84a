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
        str, typer.Option(metavar="mean|sum", help="Over j of |S_j|; the paper's is the mean.")
    ] = "mean",
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
    from ropecli.render import console, document
    from ropecli.render import decay as pages

    pages.check_output(output, force=force)
    named = (("start", start), ("max_distance", max_dist), ("step", step))
    given = {name: value for name, value in named if value is not None}
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
    if encoding:
        _show_expected(encoding, encodings, frame, seed=seed, output=output, force=force, json=json)
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
    parameters = {
        "dim": None if model else list(dict.fromkeys(e.rope.head_dim for e in encodings)),
        "base": None if model else list(dict.fromkeys(base or [10_000.0])),
        "start": frame["start"],
        "max_dist": frame["max_distance"],
        "step": frame["step"],
        "reduce": reduce,
        "figure2": figure2,
        "q": q,
        "k": k,
        "q_row": None if query is None else query.row,
        "k_row": None if key is None else key.row,
        "layout": None if model else layout or "interleaved",
        "rotary_dim": rotary_dim,
        "rope_type": rope_type,
        "set": set,
        "model": model,
        "layer": layer,
        "sequence_length": sequence_length,
    }
    if not quiet:
        pages.show_notes(query, key)
        for each in encodings:
            for note in each.notes:
                console.note(f"{each.name}: {note}")
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

    if models:
        refuse_beside_model(**by_number)
        return [from_model(source, **by_model) for source in dict.fromkeys(models)]
    refuse_without_model(layer=by_model["layer"])
    dims, bases = by_number.pop("dim") or [width], by_number.pop("base") or [None]
    return [
        from_parameters(dim=d, base=b, sequence_length=by_model["sequence_length"], **by_number)
        for d in dict.fromkeys(dims)
        for b in dict.fromkeys(bases)
    ]


def _show_expected(
    names: list[str],
    encodings: list[Encoding],
    frame: dict[str, float],
    *,
    seed: int,
    output: Path | None,
    force: bool,
    json: bool,
) -> None:
    """The expected scores of encodings, beside RoPE's bound."""
    from ropecli.analyses.decay import decay as analyse
    from ropecli.analyses.expected import expected_score
    from ropecli.encodings import ENCODINGS, with_table
    from ropecli.errors import ArgumentError
    from ropecli.files.atomic import replacing
    from ropecli.render import document
    from ropecli.render import expected as pages

    last = int(frame["max_distance"])
    if frame != DEFAULT | {"max_distance": last} or len(encodings) != 1:
        msg = "--encoding takes whole distances from 0, and one --dim, --base or --model"
        raise ArgumentError(msg)
    rope = encodings[0].rope
    chosen = ENCODINGS if names == ["all"] else tuple(dict.fromkeys(names))
    bound = analyse(rope, max_distance=last, name=encodings[0].name)
    curves = []
    for name in chosen:
        own = {"rotary": rope} if name == "rope" else {}
        made = with_table(
            name, last + 1, model_dim=4 * rope.head_dim, head_dim=rope.head_dim, seed=seed, **own
        )
        curves.append(expected_score(made, max_distance=last, seed=seed))
    parameters = {"encoding": list(chosen), "max_dist": last, "dim": rope.head_dim, "seed": seed}
    if output is not None:
        suffix = output.suffix.lower()
        if suffix == ".json":
            whole = document.text("decay", parameters, pages.as_json(bound, curves))
            content = (whole + "\n").encode()
        elif suffix == ".csv":
            content = pages.csv(bound, curves)
        else:
            command = f"ropecli decay --encoding {' --encoding '.join(names)} --max-dist {last}"
            content = pages.drawn(bound, curves, suffix=suffix, command=command)
        with replacing(output, force=force) as stream:
            stream.write(content)
    if json:
        document.show("decay", parameters, pages.as_json(bound, curves))
    else:
        pages.show(bound, curves, saved_as=output)


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
