"""The usage command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ropecli.cli.command import Help, argument, command, option
from ropecli.cli.encoding import NamedRotary
from ropecli.cli.options import EncodingOptions, OutputOptions
from ropecli.errors import ArgumentError, FileError

if TYPE_CHECKING:
    from ropecli.analyses.usage import Usage

#: Models whose fused projections have an order of their own.
OTHER_ORDERS = ("chatglm", "codegen")


@command(
    excludes={"weights": ("q", "k", "q_tensor", "k_tensor", "sequence_axis", "average")},
)
def usage(
    q: Path | None = argument("Q", "Queries, a tensor dump in any supported format."),
    k: Path | None = argument("K", "Keys, also a dump; may be the same file."),
    weights: Path | None = option(
        "FILE",
        "Weights in place of Q and K: .safetensors, or a folder of them; of --model, or of the "
        "config.json next to them.",
    ),
    q_tensor: str | None = option("GLOB", "Tensor of the queries, or of each layer's, by name."),
    k_tensor: str | None = option("GLOB", "Tensor of the keys, or of each layer's, by name."),
    sequence_axis: int | None = option(
        "N", "Axis of the tokens. [default: the one before the last]"
    ),
    average: list[int] | None = option("N", "Axis to average over, e.g. of the batch; repeatable."),
    *,
    rope: Annotated[
        EncodingOptions,
        Help(
            dim="Head dim, of which the last axis may hold several. [default: the last axis]",
            layout="Pairing of the vectors: interleaved (2i, 2i+1) or half (i, i + dim/2). "
            "[default: interleaved]",
        ),
    ],
    output: OutputOptions,
) -> None:
    """\b
    Examples:
      ropecli construct --dim 8 --pair 1 --write-q q.npy --write-k k.npy
      ropecli usage q.npy k.npy
        layer  head  pairs for half  largest pair  wavelength   share  massive
            0     0               1             1       62.83  100.0%        2
      ropecli usage q.npy k.npy --layout half
      ropecli usage q.npy k.npy --model config.json -o usage.png
      ropecli usage dump.h5 dump.h5 --q-tensor "*.q" --k-tensor "*.k"
      ropecli usage q.npy k.npy --average 0 -o usage.csv
      ropecli usage --weights model.safetensors --model config.json

    Show which frequencies carry a head. Average the length of every pair of queries and keys over
    the tokens, by layer, head and frequency. The tensors have the axes (layers, heads, tokens,
    head dim), of which the first may be missing, before rotation or after it. Massive are
    coordinates above 5 times the mean of their head. With --weights, the lengths are those that
    white input is expected to have.
    """
    if weights is not None:
        named = (rope if rope.model else _of_neighbour(rope, weights)).encoding()
        result = _of_weights(weights, named, output)
        output.show(result, output.parameters(result))
        return
    if q is None or k is None:
        raise ArgumentError(f"Q and K are needed, or --weights, got {'only Q' if q else 'none'}")
    from ropecli.analyses.usage import usage as analyse
    from ropecli.files.load import read_layers

    known = rope.model is not None or rope.dim is not None
    dim = rope.encoding().rope.head_dim if known else None
    queries, keys = (
        read_layers(path, pattern, head_dim=dim, sequence_axis=sequence_axis)
        for path, pattern in ((q, q_tensor), (k, k_tensor))
    )
    named = rope.encoding(dim=queries.shape[-1])
    output.note(*named.notes)
    result = analyse(
        named.rope,
        queries,
        keys,
        average=average or (),
        context_length=_trained_length(named),
        name=named.name,
    )
    output.show(result, output.parameters(result))


def _trained_length(named: NamedRotary) -> int | None:
    """Return the positions of training, of the model or else of --context."""
    from ropecli.models.load import trained_length

    if named.layer is None or named.described is None:
        return named.context
    return trained_length(named.layer, named.described)


def _of_neighbour(rope: EncodingOptions, weights: Path) -> EncodingOptions:
    """Return the options with the config.json next to weights as their model."""
    if not weights.exists():
        raise FileError(f"cannot read {weights}: No such file or directory")
    near = (weights if weights.is_dir() else weights.parent) / "config.json"
    if not near.exists():
        raise ArgumentError(f"--weights requires --model, as there is no {near}")
    return replace(rope, model=str(near))


def _of_weights(weights: Path, named: NamedRotary, output: OutputOptions) -> Usage:
    """Return the usage of a model's weights, in the layers of one encoding."""
    from ropecli.files.weights import usage_of_weights
    from ropecli.models.model import heads_of
    from ropecli.render.labels import quantity

    model, layer = named.model, named.layer
    assert model is not None
    assert layer is not None
    if model.model_type in OTHER_ORDERS:
        raise ArgumentError(
            f"the order of the fused projections of {model.model_type} is not supported"
        )
    if layer.settings.part:
        raise ArgumentError(f"--weights reads the layers of text models, got layer {layer.name}")
    sizes = heads_of(model, layer.name)
    output.note(*named.notes)
    for shown_layer in model.layers:
        count = len(shown_layer.settings.layers or ())
        if count and shown_layer is not layer and not shown_layer.settings.part:
            why = "no rotation" if shown_layer.rotary is None else "another encoding"
            output.note(f"not read: {quantity(count, f'{shown_layer.name} layer')}, {why}")
    return usage_of_weights(
        named.rope,
        weights,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        hidden_size=sizes.hidden_size,
        layers=layer.settings.layers,
        centered_norms=bool(layer.settings.facts.get("centered_norms")),
        context_length=_trained_length(named),
        name=named.name,
    )
