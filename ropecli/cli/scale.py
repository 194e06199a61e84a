"""The scale command."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ropecli.cli.command import Help, command
from ropecli.cli.options import EncodingListOptions, OutputOptions
from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    from ropecli.analyses.scale import Scale
    from ropecli.cli.encoding import NamedRotary

DIM, ORIGINAL = 128, 4096
KEY, CONTEXT = "original_max_position_embeddings", "max_position_embeddings"


@command
def scale(
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Method: linear, ntk, dynamic, ntk_by_parts, yarn_paper, yarn, llama3 or "
            "longrope; repeatable. [default: all, longrope if its factors are known]",
        ),
    ] = None,
    factor: Annotated[
        float | None,
        typer.Option(metavar="S", help="Factor of the methods. [default: --context over original]"),
    ] = None,
    original: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Context length before scaling. [default: the model's, or 4096]"
        ),
    ] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Show the frequency ratio of each pair.")
    ] = False,
    *,
    rope: Annotated[
        EncodingListOptions,
        Help(
            dim="Head dim, even; repeatable. [default: 128]",
            context="Context length wanted. [default: --factor times original, or the model's]",
            set="Parameter of the scaling type, or METHOD.KEY=VALUE of a method; repeatable.",
            sequence_length="Sequence length, for dynamic NTK and LongRoPE. [default: --context]",
            write="Write the model's config.json with the one --method to a new file.",
        ),
    ],
    output: OutputOptions,
) -> None:
    """\b
    Examples:
      ropecli scale --base 500000 --original 8192 --context 131072
        method        kept  ramp  full  new angles  attention   bound  holds up to
        unscaled        64     0     0          29          1  4.8888       18,437
        linear           0     0    64           0          1  6.3872     262,144+
        ntk              1    62     1          28          1  5.8438      102,995
        yarn            19    16    29           0    1.27726  6.4453      199,046
        llama3          29     6    29           0          1  6.3403      186,543
      ropecli scale --model example:llama-3-8b --context 131072 -o scale.png
      ropecli scale --model llama.json --model qwen.json --factor 4
      ropecli scale --model config.json --factor 4 --method yarn --write long.json
      ropecli scale --factor 8 --set yarn.beta_fast=64 --pairs -o pairs.csv

    Compare methods that extend the context of a model. It shows what each one does to the
    frequencies, which pairs take angles that training lacked, the bound of decay, the longest
    context by the sum of cosines, and the factor on attention.
    """
    from ropecli.analyses.scale import METHODS, Scales
    from ropecli.analyses.scale import scale as analyse
    from ropecli.cli.encoding import named_notes, refuse_without_model

    if not rope.model:
        refuse_without_model(write=rope.write)
    parameters, words = _of_methods(rope.set)
    # The model is read as it is, and without a note on its length, which is set below.
    own = replace(
        rope,
        set=words,
        context=None if rope.model else rope.context,
        sequence_length=1 if rope.model else None,
        write=None,
    )
    ropes = own.encodings(dim=DIM)
    output.note(*named_notes(ropes))
    found: list[Scale] = []
    for each in _stretchable(ropes, rope.layer, output):
        before = _original(each, original)
        context = rope.context
        if context is None and factor is None and each.context is not None:
            context = each.context if each.context > before else None
        with output.working():
            result = analyse(
                each.rope,
                context_length=context,
                factor=factor,
                original_length=before,
                methods=method,
                parameters=parameters,
                sequence_length=rope.sequence_length,
                name=each.name,
            )
        found.append(result)
    if rope.write is not None:
        _write(replace(rope, set=words), found)
        output.note(f"configuration written to {rope.write}")
    names = [each.method for one in found for each in one.methods]
    resolved = {
        "method": [each for each in dict.fromkeys(names) if each in METHODS],
        "context": _common([one.context_length for one in found], rope.context),
        "original": _common([one.original_length for one in found], original),
        "factor": _common([one.factor for one in found], factor),
        **rope.resolved(ropes),
    }
    output.show(Scales(scales=tuple(found), pairs=pairs), output.parameters(**resolved))


def _of_methods(words: list[str] | None) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Sort METHOD.KEY=VALUE by method, and return the other words."""
    from ropecli.cli.encoding import key_values

    rest = [word for word in words or [] if "." not in word.partition("=")[0]]
    found: dict[str, dict[str, Any]] = {}
    for name, value in key_values("--set", [w for w in words or [] if w not in rest]).items():
        method, _, key = name.partition(".")
        found.setdefault(method, {})[key] = value
    return found, rest


def _stretchable(
    ropes: list[NamedRotary], layer: str | None, output: OutputOptions
) -> list[NamedRotary]:
    """Leave out layers whose window keeps distances short, of models that have others."""
    kept = []
    for each in ropes:
        if layer is not None or each.model is None or each.layer in each.model.stretchable_layers():
            kept.append(each)
        else:
            reach = f"no distance is beyond its window of {each.reach:,}"
            output.note(f"{each.name}: left out, {reach}")
    return kept


def _original(each: NamedRotary, given: int | None) -> int:
    if given is not None:
        return given
    if each.layer is None:
        return int((each.rope.formula and each.rope.formula.get(KEY)) or ORIGINAL)
    known = each.layer.original_context_length or each.layer.context_length
    if known is None:
        msg = f"{each.name}: the file has no context length; give it with --original"
        raise ArgumentError(msg)
    return known


def _common(values: list[Any], given: Any) -> Any:
    """Return the value that all have, or else what was given."""
    return values[0] if len({*values}) == 1 else given


def _write(rope: EncodingListOptions, found: list[Scale]) -> None:
    """Write the configuration of the only method.

    Raises:
        ArgumentError: Several methods or encodings, or one that no file names.
        FileError: The file exists, or can't be written.
    """
    from ropecli.analyses.scale import METHODS

    methods = [each for one in found for each in one.methods if each.method in METHODS]
    if len(methods) != 1:
        msg = f"--write takes one --model and one --method, got {len(methods)} results"
        raise ArgumentError(msg)
    (made,), (one,) = methods, found
    formula = made.rope.formula
    assert formula is not None
    if formula.get("ramp") is not None:
        msg = f"cannot write {rope.write}: no file has the ramp of {made.method}"
        raise ArgumentError(msg)
    keys = [key for key in formula.own if key not in ("sequence_length", CONTEXT)]
    values = [f"{key}={json.dumps(formula[key])}" for key in keys]
    # Dynamic NTK goes by the length that it starts from, and has no other.
    context = formula.get(CONTEXT) or one.context_length
    replace(
        rope, rope_type=formula.rope_type, set=values, context=context, sequence_length=None
    ).encodings()
