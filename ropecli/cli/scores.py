"""The scores command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ropecli.cli.command import Section, command, flag, option
from ropecli.cli.options import ENCODINGS, EncodingOptions, OutputOptions, Seed
from ropecli.errors import ArgumentError, FileError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ropecli.cli.encoding import NamedRotary

LENGTH = 32  #: Random tokens.
MODEL_DIM = 64


@command(needs={"attention": "output"}, excludes={"x": ("same_token",)})
def scores(
    encodings: list[str] | None = option(
        "NAME,...",
        f"Encodings, of {', '.join(ENCODINGS)}. [default: all]",
        "--encoding",
        "--encodings",
    ),
    x: Path | None = option("FILE", "Tokens (tokens, model dim), .npy. [default: random]"),
    model_dim: int | None = option("N", "Model dim. [default: 64, or that of --x]"),
    head: int = option("N", "Index of the head to show.", default=0),
    heads: int = option("N", "Number of heads.", default=4),
    dim: int | None = option("N", "Head dim. [default: model dim / heads]", "--head-dim", "--dim"),
    length: int | None = option("N", "Number of queries and keys. [default: 32, or all of --x]"),
    queries: int | None = option("N", "Number of queries. [default: --length]"),
    keys: int | None = option("N", "Number of keys. [default: --length]"),
    same_token: bool | None = flag(
        "--same-token/--random-tokens",
        "Repeat one random token, to isolate the effect of position, or take different ones. "
        "[default: same token]",
        default=None,
    ),
    causal: bool | None = flag(
        "--causal/--bidirectional",
        "Mask keys after the query, or none. "
        "[default: attention as in the models of each encoding]",
        default=None,
    ),
    attention: bool = flag("--attention", "Draw the softmax of the scores (Eq. 2)."),
    shift: int = option("N", "Shift used by the translation-invariance check.", default=37),
    weights: Path | None = option(
        "FILE", "Weights named NAME.WEIGHT, .npz or .safetensors. [default: random]"
    ),
    set: list[str] | None = option("NAME.KEY=VALUE", "Option of an encoding; repeatable."),
    seed: Seed = 0,
    *,
    rope: Annotated[EncodingOptions, Section("The encoding rope")],
    output: OutputOptions,
) -> bool:
    """\b
    Examples:
      ropecli scores --encoding rope,nope
               lowest  highest  entropy  own position  |output|
        rope  -0.2394    0.736    2.526        0.1373     3.107
        nope    0.478    0.478    2.549        0.1268     3.107
      ropecli scores --encoding rope,nope --length 64 -o scores.png
      ropecli scores --encoding rope --model config.json --attention -o map.png
      ropecli scores --encoding rope --x tokens.npy --weights weights.npz --json

    Compare positional encodings on the same tokens. Show heat maps of score against position
    side by side, their softmax and output (RoFormer Eq. 2), the four terms of Eq. 6, and which
    encodings are translation invariant, symmetric, bounded, decaying and linear under shift, as
    measured and in theory. Exit code 1 if measurement and theory disagree.
    """
    from ropecli.analyses.scores import check_random_tokens
    from ropecli.analyses.scores import scores as analyse
    from ropecli.cli.encoding import encoding_names, encoding_options
    from ropecli.encodings import encoding
    from ropecli.numbers import at_least

    names = encoding_names(encodings or ["all"])
    tokens = _load(x, model_dim)
    if length is None:
        length = LENGTH if tokens is None else len(tokens)
    at_least("--length", length, 1)
    queries = length if queries is None else queries
    keys = length if keys is None else keys
    width = MODEL_DIM if model_dim is None else model_dim
    if tokens is None:
        check_random_tokens(max(queries, keys), width, seed)
    else:
        width = tokens.shape[1]
    arrays, options = _weights(weights, names), encoding_options(set, names)
    rotary = _rotary(rope, dim, options, width // max(heads, 1))
    sizes: dict[str, Any] = {"model_dim": width, "heads": heads, "head_dim": dim}
    if rotary is not None:
        output.note(*rotary.notes)
        options["rope"] = {"rotary": rotary.rope}
        sizes["head_dim"] = rotary.rope.head_dim
    made = [encoding(n, **sizes, seed=seed, weights=arrays[n], **options[n]) for n in names]
    rows = {"queries": queries, "keys": keys}
    same = tokens is None and same_token is not False
    with output.working():
        result = analyse(
            made, tokens, **rows, head=head, causal=causal, same_token=same, shift=shift, seed=seed
        )
    sizes["dim"] = None if rope.model else sizes.pop("head_dim")
    resolved = {"encodings": ",".join(names), **sizes, **rows}
    if tokens is None:
        resolved["same_token"] = same
    output.show(result, output.parameters(omit=["length"], **resolved), attention=attention)
    return result.agrees


def _rotary(
    options: EncodingOptions, dim: int | None, own: dict[str, dict[str, Any]], width: int
) -> NamedRotary | None:
    """Return the encoding that options, or --set rope.KEY, describe; None where none is given."""
    set_words = [f"{key}={json.dumps(value)}" for key, value in own.get("rope", {}).items()]
    numbers = options.numbers | {"dim": None, "set": set_words or None}
    extra = {
        name: getattr(options, name) for name in ("layer", "sequence_length", "context", "write")
    }
    given = [name for name, value in (numbers | extra).items() if value is not None]
    if options.model is None and not given:
        return None
    if "rope" not in own:
        name = given[0] if options.model is None else "model"
        raise ArgumentError(
            f"--{name.replace('_', '-')} is for the encoding rope, got {', '.join(own)}"
        )
    return replace(options, dim=dim, set=set_words or None).encoding(dim=width)


def _load(path: Path | None, model_dim: int | None) -> NDArray[np.float64] | None:
    from ropecli.files.load import load_tokens

    if path is None:
        return None
    tokens = load_tokens(path)
    if model_dim is not None and model_dim != tokens.shape[1]:
        raise ArgumentError(
            f"--model-dim must be that of {path}, {tokens.shape[1]}, got {model_dim}"
        )
    return tokens


def _weights(path: Path | None, names: list[str]) -> dict[str, dict[str, Any]]:
    from ropecli.cli.encoding import by_encoding
    from ropecli.files.load import load_weights

    weights_of, unassigned = by_encoding({} if path is None else load_weights(path), names)
    if unassigned:
        raise FileError(
            f"{path}: {unassigned[0]!r} must be NAME.WEIGHT, NAME one of {', '.join(names)}"
        )
    return weights_of
