"""The scale command."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from ropecli.cli.command import Help, command, flag, option
from ropecli.cli.options import EncodingListOptions, OutputOptions
from ropecli.errors import ArgumentError, RopecliError

if TYPE_CHECKING:
    from ropecli.analyses.scale import Scale, Stretched
    from ropecli.cli.encoding import NamedRotary

ORIGINAL = 4096
KEY = "original_max_position_embeddings"


@command()
def scale(
    method: list[str] | None = option(
        "NAME",
        "Method: linear, ntk, dynamic, ntk_by_parts, yarn_paper, yarn, llama3, longrope, or riflex "
        "for an axis; repeatable. [default: all but riflex, longrope if its factors are known; of "
        "these the model's own is written, or else yarn]",
    ),
    factor: float | None = option("S", "Factor of the methods. [default: --context over original]"),
    original: int | None = option(
        "N", "Context length before scaling. [default: the model's, or 4096]"
    ),
    pairs: bool = flag("--pairs", "Show the frequency ratio of each pair."),
    *,
    rope: Annotated[
        EncodingListOptions,
        Help(
            context="Context length wanted. [default: --factor times original, or the model's]",
            set="Parameter of the scaling type, or METHOD.KEY=VALUE of a method; repeatable.",
            sequence_length="Sequence length, for dynamic NTK and LongRoPE. [default: --context]",
            write="Write the model's config.json for the longer context to a new file.",
        ),
    ],
    output: OutputOptions,
) -> None:
    """\b
    Examples:
      ropecli scale --model example:qwen2.5-7b --factor 4
      ropecli scale --base 500000 --original 8192 --context 131072
        method        kept  ramp  full  new angles  attention   bound  holds up to
        unscaled        64     0     0          29          1  4.8888       18,437
        linear           0     0    64           0          1  6.3872     262,144+
        ntk              1    62     1          28          1  5.8438      102,995
        yarn            19    16    29           0    1.27726  6.4453      199,046
        llama3          29     6    29           0          1  6.3403      186,543
      ropecli scale --model config.json --context 131072 --write long.json
      ropecli scale --model llama.json --model qwen.json --factor 4 -o scale.png
      ropecli scale --factor 8 --set yarn.beta_fast=64 --pairs -o pairs.csv

    Extend the context: what to write, methods side by side. It prints the keys of the config.json,
    the option of vLLM, and which stacks read the table back; of each method what it does to the
    frequencies, which pairs take angles that training lacked, the bound of decay, the longest
    context by the sum of cosines, and the factor on attention.
    """
    from ropecli.analyses.scale import METHODS, compare, stretch

    parameters, words = _of_methods(rope.set)
    # The model is read as it is, and without a note on its length, which is set below.
    own = replace(
        rope,
        set=words,
        context=None if rope.model else rope.context,
        sequence_length=1 if rope.model else None,
        write=None,
    )
    ropes = own.encodings()
    output.note_encodings(ropes)
    stretchable = _stretchable(ropes, rope.layer, output)
    if rope.write is not None and len(stretchable) != 1:
        several = len({rotary.name for rotary in stretchable}) > len(rope.model or ())
        raise ArgumentError(
            f"--write takes one --model, got {len(stretchable)} results",
            "choose one of the layers with `layer`" if several else "",
        )
    found: list[Scale] = []
    for rotary in stretchable:
        before, own_factor = _original(rotary, original, output)
        context, by = rope.context, factor
        scaled = rotary.rope.formula is not None and not rotary.rope.formula.is_plain
        if context is None and factor is None and rotary.context is not None and scaled:
            context = rotary.context if rotary.context > before else None
        if context and rotary.context and factor is None and own_factor is not None:
            by = max(own_factor * context / rotary.context, 1.0)  # `before` is rounded
        stretched = stretch(
            rotary.rope,
            context_length=context,
            factor=by,
            original_length=before,
            methods=method,
            parameters=parameters,
            sequence_length=rope.sequence_length,
        )
        if (rope.context, factor, method, rope.write) == (None, None, None, None):
            written: dict[str, Any] = {"unwritable": "neither --context nor --factor is given"}
        else:
            written = _extend(rotary, stretched, rope, output, chosen=method is not None)
        with output.working():
            found.append(replace(compare(stretched, name=rotary.name), **written))
    names = [scaled.method for one in found for scaled in one.methods]
    resolved = {
        "method": [name for name in dict.fromkeys(names) if name in METHODS],
    }
    output.show_all(found, output.parameters(found, **resolved), pairs=pairs)


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
    for rope in ropes:
        if layer is not None or rope.model is None or rope.layer in rope.model.stretchable_layers():
            kept.append(rope)
        else:
            reach = f"no distance is beyond its window of {rope.reach:,}"
            output.note(f"{rope.name}: left out, {reach}")
    return kept


def _original(
    each: NamedRotary, given: int | None, output: OutputOptions
) -> tuple[int, float | None]:
    """Return the original length, and the factor of the file where it follows from that."""
    if given is not None:
        return given, None
    if each.layer is None:
        return int((each.rope.formula and each.rope.formula.get(KEY)) or ORIGINAL), None
    known, factor, written = each.layer.trained_length, each.layer.stretch, each.context
    if known is None:
        raise ArgumentError(f"{each.name}: the file has no context length; give it with --original")
    if factor is not None:
        why = f"the context length {each.layer.context_length:,} over the {each.rope.rope_type} "
        why += f"factor {factor:g}"
        output.note(f"{each.name}: original {known:,}, {why}; --original N gives another")
    elif known != written and each.rope.formula is not None and each.rope.formula.is_plain:
        why = f"the length in training; {written:,} in the file leave room for a prompt"
        output.note(f"{each.name}: original {known:,}, {why}; --original N gives another")
    return known, factor


def _extend(
    each: NamedRotary,
    stretched: Stretched,
    rope: EncodingListOptions,
    output: OutputOptions,
    *,
    chosen: bool,
) -> dict[str, Any]:
    """Return what to write into a model's file, or why nothing, and write it with --write."""
    from ropecli.cli.encoding import refuse_to_write, write_configuration
    from ropecli.models.extend import extend

    if each.model is None or each.layer is None:
        return {}
    shorter = rope.context is not None
    try:
        proposal, overridden, layers = extend(
            each.model, each.layer, stretched, chosen=chosen, shorter=shorter
        )
    except RopecliError as error:
        if rope.write is not None:
            refuse_to_write(rope.write, error.problem, error.advice)
        return {"unwritable": error.problem}
    if rope.write is not None:
        length = stretched.sequence_length
        write_configuration(rope.write, overridden, layers, sequence_length=length)
        notes = {None: "refuses it", False: "reads another table"}
        differ = {stack: same for stack, same in proposal.reads.items() if not same}
        output.note(f"configuration written to {rope.write}")
        output.note(*(f"{rope.write}: {stack} {notes[same]}" for stack, same in differ.items()))
    return {"proposal": proposal}
