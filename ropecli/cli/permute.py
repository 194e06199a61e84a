"""The permute command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ropecli.cli import options
from ropecli.cli.command import argument, command, option
from ropecli.cli.options import Force, PageOptions, Seed
from ropecli.errors import ArgumentError


@command(
    needs={"layer": "model"},
    excludes={
        "model": ("heads", "kv_heads", "head_dim", "rotary_dim", "rotary_offset"),
        "check": ("output", "force"),
    },
)
def permute(
    input: Path = argument("INPUT", "Weights, .safetensors."),
    output: Path | None = option(
        "FILE", "Output file, .safetensors.", "-o", "--output", under="Output"
    ),
    to: str | None = option("LAYOUT", "Layout of the output, half or interleaved."),
    check: Path | None = option("OUT", "Prove a conversion of INPUT that was done elsewhere."),
    heads: int | None = option("N", "Number of query heads."),
    kv_heads: int | None = option("N", "Number of key heads. [default: --heads]"),
    head_dim: int | None = option("N", "Head dim. [default: rows of q / --heads]"),
    rotary_dim: int | None = option("N", "Number of rotated rows of a head. [default: all]"),
    rotary_offset: int | None = option("N", "First rotated row. [default: 0]"),
    tensor: list[str] | None = option(
        "GLOB",
        "Tensors whose rows move; repeatable. [default: *q_proj*, *q_norm*, "
        "*q_layernorm*, *query_layernorm* and those of k and key]",
    ),
    model: str | None = option(
        "SOURCE", "Model that sets all sizes: config.json, its folder or example:NAME."
    ),
    layer: options.Layer = None,
    seed: Seed = 0,
    force: Force = False,
    *,
    page: PageOptions,
) -> bool:
    """\b
    Examples:
      ropecli permute a.safetensors -o b.safetensors --to half --model config.json
      ropecli permute a.safetensors -o b.safetensors --to interleaved --heads 32
      ropecli permute a.safetensors --check b.safetensors --to half --heads 8

    Convert query and key weights between layouts, and prove it. Rows are moved unchanged, and all
    else is copied. Then the scores of the old weights in the old layout are compared with those of
    the new weights in the new layout. Exit code 1, and no file, if scores differ. With --check,
    a file that was converted elsewhere is verified in the same way.
    """
    from ropecli.cli.progress import progress_bar
    from ropecli.files.permute.moves import DEFAULT
    from ropecli.files.permute.permute import check_permuted
    from ropecli.files.permute.permute import permute as convert

    if model is not None:
        from ropecli.models.load import load_model
        from ropecli.models.model import heads_of

        of_model = heads_of(load_model(model), layer)
        heads, kv_heads, head_dim = of_model.heads, of_model.kv_heads, of_model.head_dim
        rotary_dim, rotary_offset = of_model.rotary_dim, of_model.rotary_offset
        if of_model.layout == to:
            page.note(f"{model} has weights in layout {to}: these may have it already")
    if heads is None:
        raise ArgumentError(
            "the number of heads is needed", "pass `heads` and `kv_heads`, or `model`"
        )
    if to is None:
        raise ArgumentError("--to must be half or interleaved, got none")
    globs = tuple(tensor) if tensor else DEFAULT
    numbers: dict[str, Any] = {
        "to": to,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "rotary_dim": rotary_dim,
        "rotary_offset": rotary_offset or 0,
        "tensors": globs,
        "seed": seed,
    }
    if check is not None:
        result = check_permuted(input, check, **numbers)
    elif output is None:
        raise ArgumentError("-o FILE or --check FILE is needed, got neither")
    else:
        with progress_bar(input.name, wanted=not page.quiet) as progress:
            result = convert(input, output, **numbers, force=force, progress=progress)
    page.show(result, page.parameters(result, omit=["force"], tensor=list(globs)))
    return result.proof.holds
