"""The scores command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ropecli.cli import options
from ropecli.cli.options import Force, Json, Quiet, Seed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ropecli.analyses.invariance import Invariance
    from ropecli.encodings import Encoding

LENGTH = 32  #: Tokens that are drawn.
MODEL_DIM = 64


def scores(
    encodings: Annotated[
        str, typer.Option(metavar="NAME,...", help="Encodings, or all, the default.")
    ] = "all",
    x: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Tokens (tokens, model dim), .npy.")
    ] = None,
    model_dim: Annotated[
        int | None, typer.Option(metavar="N", help="Coordinates of a token; 64, or of --x.")
    ] = None,
    head: Annotated[int, typer.Option(metavar="N", help="The head that is shown, from 0.")] = 0,
    heads: Annotated[int, typer.Option(metavar="N", help="Heads side by side.")] = 4,
    head_dim: Annotated[
        int | None, typer.Option(metavar="N", help="Of a head, even; model dim / heads by default.")
    ] = None,
    length: Annotated[
        int | None, typer.Option(metavar="N", help="Queries and keys; 32, or all of --x.")
    ] = None,
    queries: Annotated[
        int | None, typer.Option(metavar="N", help="Queries, at 0 ... N-1; --length by default.")
    ] = None,
    keys: Annotated[
        int | None, typer.Option(metavar="N", help="Keys, at 0 ... N-1; --length by default.")
    ] = None,
    shift: Annotated[
        int, typer.Option(metavar="N", help="By which translation invariance is tried.")
    ] = 37,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=".npz or .safetensors with NAME.WEIGHT; else drawn."),
    ] = None,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME.KEY=VALUE", help="An encoding's option; repeatable."),
    ] = None,
    seed: Seed = 0,
    output: options.Output = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """\b
    Examples:
      ropecli scores --encodings rope,nope
      ropecli scores --encodings rope,nope --length 64 -o scores.png
      ropecli scores --encodings rope --x tokens.npy --weights weights.npz --json

    Compare positional encodings on the same tokens. Heat maps of score against position side
    by side, and who is translation invariant, symmetric, bounded, decaying and linear under
    shift: measured, beside what theory says. Exit code 1 where they disagree.
    """
    from ropecli.analyses.score_map import check_map, drawn_tokens, score_map
    from ropecli.cli.inputs import files
    from ropecli.encodings import encoding
    from ropecli.errors import ArgumentError
    from ropecli.render import document
    from ropecli.render import scores as pages
    from ropecli.render.output import check_output

    check_output(output, force=force, sources=files(x, weights))
    names = _names(encodings)
    tokens = _load(x, model_dim)
    if length is None:
        length = LENGTH if tokens is None else len(tokens)
    named = {"length": length, "queries": queries, "keys": keys}
    for option, count in named.items():
        if count is not None and count < 1:
            msg = f"--{option} must be at least 1, got {count}"
            raise ArgumentError(msg)
    rows = [length if each is None else each for each in (queries, keys)]
    if tokens is None:
        tokens = drawn_tokens(max(rows), MODEL_DIM if model_dim is None else model_dim, seed)
    sizes = {"model_dim": tokens.shape[1], "heads": heads, "head_dim": head_dim}
    check_map(tokens, rows, heads=heads, head=head)
    given = _weights(weights, names)
    own = _options(set, names)
    made = [encoding(n, **sizes, seed=seed, weights=given[n], **own[n]) for n in names]
    maps = [score_map(each, tokens, rows[0], rows[1], head=head) for each in made]
    judged = [_judged(each, shift=shift, seed=seed) for each in made]
    parameters = {
        "encodings": ",".join(names),
        "x": x,
        **sizes,
        "head": head,
        "queries": rows[0],
        "keys": rows[1],
        "shift": shift,
        "weights": weights,
        "set": set,
        "seed": seed,
    }
    if output is not None:
        pages.write(maps, judged, output, parameters, force=force)
    if json:
        document.show("scores", parameters, pages.as_json(maps, judged))
    else:
        pages.show(judged, seed=seed, saved=output, brief=quiet)
    if not all(each.agrees for each in judged):
        raise typer.Exit(1)


def _judged(made: Encoding, *, shift: int, seed: int) -> Invariance:
    from ropecli.analyses.invariance import invariance
    from ropecli.errors import ArgumentError

    try:
        return invariance(made, shift=shift, seed=seed)
    except ArgumentError as error:
        if shift < 1:
            raise
        msg = f"--shift {shift} is too far for {made.name}: {error}"
        raise ArgumentError(msg) from None


def _names(text: str) -> list[str]:
    from ropecli.encodings import ENCODINGS
    from ropecli.encodings.by_name import class_of

    if text == "all":
        return list(ENCODINGS)
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        class_of(name)
    return names


def _load(path: Path | None, model_dim: int | None) -> NDArray[np.float64] | None:
    from ropecli.errors import ArgumentError
    from ropecli.files.tokens import load_tokens

    if path is None:
        return None
    tokens = load_tokens(path)
    if model_dim is not None and model_dim != tokens.shape[1]:
        msg = f"--model-dim must be that of {path}, {tokens.shape[1]}, got {model_dim}"
        raise ArgumentError(msg)
    return tokens


def _weights(path: Path | None, names: list[str]) -> dict[str, dict[str, Any]]:
    from ropecli.errors import FileError
    from ropecli.files.weights import load_weights

    found, rest = _by_encoding({} if path is None else load_weights(path), names)
    if rest:
        msg = f"{path}: {rest[0]!r} must be NAME.WEIGHT, NAME one of {', '.join(names)}"
        raise FileError(msg)
    return found


def _options(words: list[str] | None, names: list[str]) -> dict[str, dict[str, Any]]:
    from ropecli.cli.encoding import parameters
    from ropecli.encodings.by_name import class_of
    from ropecli.errors import ArgumentError

    found, rest = _by_encoding(parameters(words), names)
    if rest:
        msg = f"--set {rest[0]}: must be NAME.KEY, NAME one of {', '.join(names)}"
        raise ArgumentError(msg)
    for name, own in found.items():
        for key in own:
            # An option whose default is no plain value can't be spelt on a command line.
            if not isinstance(getattr(class_of(name), key, 0), bool | int | float | str):
                msg = f"--set {name}.{key}: only the Python API takes it"
                raise ArgumentError(msg)
    return found


def _by_encoding(
    named: dict[str, Any], names: list[str]
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """What is called NAME.KEY, or KEY where there is one encoding; and what is neither."""
    from ropecli.encodings import ENCODINGS

    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    rest = []
    for full, value in named.items():
        name, dot, key = full.partition(".")
        if dot and name in ENCODINGS:
            if name in found:  # one file of weights may serve several runs
                found[name][key] = value
        elif len(names) == 1:
            found[names[0]][full] = value
        else:
            rest.append(full)
    return found, rest
