"""The scale command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ropecli.cli.command import Help, command, flag, option
from ropecli.cli.options import EncodingListOptions, OutputOptions
from ropecli.errors import ArgumentError, RopecliError

if TYPE_CHECKING:
    from ropecli.analyses.scale import Scale, ScaledEncoding
    from ropecli.cli.encoding import NamedRotary
    from ropecli.models.overrides import Overrides

ORIGINAL = 4096
KEY, CONTEXT = "original_max_position_embeddings", "max_position_embeddings"


@command()
def scale(
    method: list[str] | None = option(
        "NAME",
        "Method: linear, ntk, dynamic, ntk_by_parts, yarn_paper, yarn, llama3 or "
        "longrope; repeatable. [default: all, longrope if its factors are known]",
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
    from ropecli.analyses.scale import METHODS
    from ropecli.analyses.scale import scale as analyse

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
    if rope.write is not None:
        for name in method or ():
            _check_method(rope.write, name)
    found: list[Scale] = []
    stretched = _stretchable(ropes, rope.layer, output)
    for each in stretched:
        before, own_factor = _original(each, original, output)
        context, stretch = rope.context, factor
        if context is None and factor is None and each.context is not None:
            context = each.context if each.context > before else None
        if context and each.context and factor is None and own_factor is not None:
            stretch = max(own_factor * context / each.context, 1.0)  # `before` is rounded
        with output.working():
            result = analyse(
                each.rope,
                context_length=context,
                factor=stretch,
                original_length=before,
                methods=method,
                parameters=parameters,
                sequence_length=rope.sequence_length,
                name=each.name,
            )
        found.append(result)
    if rope.write is not None:
        others = _write(rope, stretched, found)
        output.note(f"configuration written to {rope.write}", *others)
    names = [each.method for one in found for each in one.methods]
    resolved = {
        "method": [each for each in dict.fromkeys(names) if each in METHODS],
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
    for each in ropes:
        if layer is not None or each.model is None or each.layer in each.model.stretchable_layers():
            kept.append(each)
        else:
            reach = f"no distance is beyond its window of {each.reach:,}"
            output.note(f"{each.name}: left out, {reach}")
    return kept


def _original(
    each: NamedRotary, given: int | None, output: OutputOptions
) -> tuple[int, float | None]:
    """Return the original length, and the factor of the file where it follows from that."""
    if given is not None:
        return given, None
    if each.layer is None:
        return int((each.rope.formula and each.rope.formula.get(KEY)) or ORIGINAL), None
    known, factor = each.layer.trained_length, each.layer.stretch
    if known is None:
        raise ArgumentError(f"{each.name}: the file has no context length; give it with --original")
    if factor is not None:
        why = f"the context length {each.layer.context_length:,} over the {each.rope.rope_type} "
        why += f"factor {factor:g}"
        output.note(f"{each.name}: original {known:,}, {why}; --original N gives another")
    return known, factor


def _check_method(target: Path, method: str) -> None:
    """Refuse a method that no file names, before it is computed."""
    from ropecli.analyses.scale import METHODS
    from ropecli.cli.encoding import refuse_to_write
    from ropecli.models.refusals import NEEDED

    spelled = method.replace("-", "_")
    rope_type, fixed = METHODS.get(spelled, ("default", {}))
    if "ramp" in fixed:
        refuse_to_write(target, f"no file has the ramp of {spelled}")
    if rope_type not in NEEDED:
        refuse_to_write(target, f"Transformers has no rope type {rope_type}")


def _write(
    rope: EncodingListOptions, stretched: list[NamedRotary], found: list[Scale]
) -> list[str]:
    """Write the configuration of the only method, and return notes on stacks that differ."""
    from ropecli.analyses.scale import METHODS
    from ropecli.cli.encoding import refuse_to_write, write_configuration
    from ropecli.models.load import compute, describe_config
    from ropecli.models.overrides import override
    from ropecli.models.read_back import other_readings

    methods = [each for one in found for each in one.methods if each.method in METHODS]
    target, model = rope.write, stretched[0].model
    if len(methods) != 1 or target is None or model is None:
        several = len({each.name for each in stretched}) > len(rope.model or ())
        raise ArgumentError(
            f"--write takes one --model and one --method, got {len(methods)} results",
            "choose one of the layers with `layer`" if several else "",
        )
    (made,), (one,), (each,) = methods, found, stretched
    if model.format != "config.json":
        refuse_to_write(target, "only a config.json can be written, and it is a GGUF")
    assert made.rope.formula is not None
    if made.rope.formula.get("ramp") is not None:
        refuse_to_write(target, "no file has the parameter ramp")
    why = _why_wrong(each, one, chosen=rope.context is not None)
    if why is not None:
        refuse_to_write(target, why)
    described = describe_config(model.source, model.raw)
    own = {known.name for known in model.rotating_layers() if known.reach == each.reach}
    own &= {known.name for known in model.layers if known.rotary == each.rope}
    layer = rope.layer
    if layer is None and each.layer is not None and len(own) < len(model.rotating_layers()):
        layer = each.layer.name
    try:
        written = override(described, _overrides(made, one), layer=layer)
    except RopecliError as error:
        refuse_to_write(target, error.problem)
    used = rope.sequence_length or one.context_length
    layers = [
        replace(known, rotary=made.rope) if known.name in ({layer} if layer else own) else known
        for known in compute(described, sequence_length=used).layers
    ]
    write_configuration(target, written, layers, sequence_length=used)
    scaled = [known for known in layers if known.rotary == made.rope]
    others = other_readings(written.description, scaled, sequence_length=used)
    return [f"{target}: {each}" for each in others]


def _why_wrong(each: NamedRotary, one: Scale, *, chosen: bool) -> str | None:
    """Return why a scaling would take back some of the file's own; None where it does not."""
    from ropecli.analyses.scale import own_factor

    formula, before = each.rope.formula, each.context
    assert formula is not None
    factor = own_factor(formula)
    if formula.get("alpha") is not None or factor < 1:
        return f"the file's own scaling, {formula.rope_type}, has no factor to start from"
    if before is None:
        return None
    given = f"factor {one.factor:g} over the original {one.original_length:,} positions"
    if one.context_length < before and not chosen:
        shorter = f"gives {one.context_length:,}, fewer than the file's {before:,}"
        return f"{given} {shorter}; --context N sets another length"
    if one.factor < factor and one.context_length >= before:
        return f"{given} is below the file's own, {factor:g}; --factor S sets a larger one"
    return None


def _overrides(made: ScaledEncoding, one: Scale) -> Overrides:
    """Return what the file gets: the rope type, all of its parameters, and the context length."""
    from ropecli.analyses.scale import FROM_LENGTHS
    from ropecli.models.overrides import Overrides

    formula = made.rope.formula
    assert formula is not None
    values = {k: v for k, v in formula.own.items() if k not in ("sequence_length", CONTEXT)}
    follows = one.factor == one.context_length / one.original_length
    if follows and formula.rope_type in FROM_LENGTHS:
        del values["factor"]
    return Overrides(
        rope_type=formula.rope_type,
        parameters={k: list(v) if isinstance(v, tuple) else v for k, v in values.items()},
        # Dynamic NTK goes by the length that it starts from, and has no other.
        context_length=formula.get(CONTEXT) or one.context_length,
        fresh=True,
    )
