"""The scores command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ropecli.cli.command import command
from ropecli.cli.options import OutputOptions, Seed
from ropecli.errors import ArgumentError, FileError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LENGTH = 32  #: Random tokens.
MODEL_DIM = 64


@command
def scores(
    encodings: Annotated[
        str, typer.Option(metavar="NAME,...", help="Names of encodings, or all.")
    ] = "all",
    x: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Tokens (tokens, model dim), .npy. [default: random]"),
    ] = None,
    model_dim: Annotated[
        int | None,
        typer.Option(metavar="N", help="Model dim. [default: 64, or that of --x]"),
    ] = None,
    head: Annotated[int, typer.Option(metavar="N", help="Index of the head to show.")] = 0,
    heads: Annotated[int, typer.Option(metavar="N", help="Number of heads.")] = 4,
    head_dim: Annotated[
        int | None, typer.Option(metavar="N", help="Head dim. [default: model dim / heads]")
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of queries and keys. [default: 32, or all of --x]"),
    ] = None,
    queries: Annotated[
        int | None, typer.Option(metavar="N", help="Number of queries. [default: --length]")
    ] = None,
    keys: Annotated[
        int | None, typer.Option(metavar="N", help="Number of keys. [default: --length]")
    ] = None,
    shift: Annotated[
        int, typer.Option(metavar="N", help="Shift used by the translation-invariance check.")
    ] = 37,
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Weights named NAME.WEIGHT, .npz or .safetensors. [default: random]",
        ),
    ] = None,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME.KEY=VALUE", help="Option of an encoding; repeatable."),
    ] = None,
    seed: Seed = 0,
    *,
    output: OutputOptions,
) -> bool:
    """\b
    Examples:
      ropecli scores --encodings rope,nope
      ropecli scores --encodings rope,nope --length 64 -o scores.png
      ropecli scores --encodings rope --x tokens.npy --weights weights.npz --json

    Compare positional encodings on the same tokens. Show heat maps of score against position
    side by side, and which encodings are translation invariant, symmetric, bounded, decaying and
    linear under shift, as measured and in theory. Exit code 1 if measurement and theory disagree.
    """
    from ropecli.analyses.scores import random_tokens
    from ropecli.analyses.scores import scores as analyse
    from ropecli.encodings import encoding
    from ropecli.numbers import at_least

    names = _names(encodings)
    tokens = _load(x, model_dim)
    if length is None:
        length = LENGTH if tokens is None else len(tokens)
    at_least("--length", length, 1)
    queries = length if queries is None else queries
    keys = length if keys is None else keys
    if tokens is None:
        tokens = random_tokens(
            max(queries, keys), MODEL_DIM if model_dim is None else model_dim, seed
        )
    rows = {"queries": queries, "keys": keys}
    sizes = {"model_dim": tokens.shape[1], "heads": heads, "head_dim": head_dim}
    arrays, own = _weights(weights, names), _options(set, names)
    made = [encoding(n, **sizes, seed=seed, weights=arrays[n], **own[n]) for n in names]
    result = analyse(made, tokens, **rows, head=head, shift=shift, seed=seed)
    resolved = {"encodings": ",".join(names), **sizes, **rows}
    output.show(result, output.parameters("length", **resolved))
    return result.agrees


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
    from ropecli.files.load import load_tokens

    if path is None:
        return None
    tokens = load_tokens(path)
    if model_dim is not None and model_dim != tokens.shape[1]:
        msg = f"--model-dim must be that of {path}, {tokens.shape[1]}, got {model_dim}"
        raise ArgumentError(msg)
    return tokens


def _weights(path: Path | None, names: list[str]) -> dict[str, dict[str, Any]]:
    from ropecli.files.load import load_weights

    found, rest = _by_encoding({} if path is None else load_weights(path), names)
    if rest:
        msg = f"{path}: {rest[0]!r} must be NAME.WEIGHT, NAME one of {', '.join(names)}"
        raise FileError(msg)
    return found


def _options(words: list[str] | None, names: list[str]) -> dict[str, dict[str, Any]]:
    from ropecli.cli.encoding import parameters
    from ropecli.encodings.by_name import class_of

    found, rest = _by_encoding(parameters(words), names)
    if rest:
        msg = f"--set {rest[0]}: must be NAME.KEY, NAME one of {', '.join(names)}"
        raise ArgumentError(msg)
    for name, own in found.items():
        for key in own:
            # An option whose default is not a plain value has no spelling on a command line.
            if not isinstance(getattr(class_of(name), key, 0), bool | int | float | str):
                msg = f"--set {name}.{key}: only the Python API takes it"
                raise ArgumentError(msg)
    return found


def _by_encoding(
    named: dict[str, Any], names: list[str]
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Sort NAME.KEY, or KEY where there is one encoding, by name; and return the other keys."""
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
