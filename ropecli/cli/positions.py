"""The positions command."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from ropecli.cli.command import Help, Section, argument, command, flag, option, whole
from ropecli.cli.encoding import BASE, LAYOUT
from ropecli.cli.options import EncodingOptions, OutputOptions
from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.positions.check import PositionIds
    from ropecli.cli.encoding import NamedRotary

#: Headings of the options in the help.
HELD = "What the rows hold"
PART = "Part of the rows"
VECTORS = "From vectors"
SOURCES = ("lengths", "cu_seqlens", "seq_idx")


@dataclass(frozen=True, kw_only=True)
class IdsOptions(OutputOptions):
    """The options of output, which may also be the right ids."""

    output: Path | None = option(
        "FILE",
        "The right ids, or those recovered (.npy); a figure, table or .json; - for stdout.",
        "-o",
        "--output",
    )
    suffixes: ClassVar[tuple[str, ...]] = (".npy", *OutputOptions.suffixes)

    def _content(
        self, result: PositionIds, parameters: dict[str, Any], options: dict[str, Any]
    ) -> bytes:
        import numpy as np

        from ropecli.checks.positions.recover import SHOWN
        from ropecli.render.save import npy

        if self._suffix != ".npy":
            return super()._content(result, parameters, options)
        ids: NDArray[Any] = result.ids
        if result.error is not None and result.got is not None:
            ids = np.where(result.error < SHOWN, result.got, np.nan)
        return npy(ids.astype("int64") if (ids == ids.round()).all() else ids)


@command(
    needs={
        "separator": "tokens",
        "tokens": "separator",
        **dict.fromkeys(("text", "mrope", "seconds", "stack"), "grid"),
        "rank": "context_parallel",
        "context_parallel": "rank",
        **dict.fromkeys(("scheme", "divide"), "context_parallel"),
        "before": "after",
        "after": "before",
        "sequence_axis": "before",
        "all_shown": "before",
        "tensor": "before",
        **dict.fromkeys(("dim", "base", "layout", "rotary_dim", "rope_type"), "before"),
    },
    excludes={
        **{
            name: (*(source for source in SOURCES if source != name), "mask", "tokens")
            for name in SOURCES
        },
        "before": ("ids",),
        "chunk": ("context_parallel",),
    },
)
def positions(
    ids: str | None = argument(
        "IDS", "Position ids to judge: a file, (tokens,) or (rows, tokens), or numbers: 0,1,2,0."
    ),
    *,
    lengths: list[str] | None = option(
        "N,N,...", "Tokens of each document of a packed row; repeatable, for each row.", under=HELD
    ),
    cu_seqlens: Path | None = option("FILE", "The same as cumulative lengths, from 0.", under=HELD),
    row_length: int | None = option(
        "N", "Tokens of a packed row with the padding at its end.", under=HELD
    ),
    mask: Path | None = option(
        "FILE", "Attention mask: 0 is padding, 1, 2, ... documents.", under=HELD
    ),
    seq_idx: Path | None = option(
        "FILE",
        "Number of each token's document, from 0 as in Mamba; below 0 is padding.",
        under=HELD,
    ),
    tokens: Path | None = option(
        "FILE", "Token ids of documents that end with --separator.", under=HELD
    ),
    separator: int | None = option("ID", "Token that ends a document.", under=HELD),
    grid: list[str] | None = option(
        "T,H,W",
        "Time, height, width of an image or video in patches, also MiniCPM-V's slices; repeatable.",
        under=HELD,
    ),
    text: list[str] | None = option(
        "N,N,...",
        "Tokens of text before the first grid, after it, ...; repeatable, for each document.",
        under=HELD,
    ),
    mrope: str | None = option(
        "FAMILY",
        "qwen2-vl, qwen2.5-vl, qwen2.5-omni, qwen3-omni, qwen3-vl, glm4v, glm-image, ernie4.5-vl, "
        "hunyuan-vl, hy-v4-vl, minicpm-v or wan. [default: the model's]",
        under=HELD,
    ),
    seconds: str | None = option(
        "S,S,...",
        "Seconds between two steps in time, one or for each grid. [default: 1]",
        under=HELD,
    ),
    stack: str | None = option(
        "STACK",
        "Stack that numbers grids: transformers, transformers-4, vllm or llama.cpp. "
        "[default: what fits, Transformers first]",
        "--as",
        under=HELD,
    ),
    context_parallel: int | None = option("N", "Ranks that share each row.", under=PART),
    rank: int | None = option("R", "The rank whose ids these are.", under=PART),
    scheme: str | None = option(
        "SCHEME", "contiguous, zigzag or striped. [default: contiguous]", under=PART
    ),
    divide: str | None = option(
        "WHAT", "What ranks share: documents, or the row. [default: what fits]", under=PART
    ),
    chunk: str | None = option(
        "FROM[,TO]", "Tokens of a chunk of each row, without TO itself.", under=PART
    ),
    before: Path | None = option(
        "FILE", "Vectors before rotation, of which positions are recovered.", under=VECTORS
    ),
    after: Path | None = option("FILE", "The same after it.", under=VECTORS),
    tensor: str | None = option("GLOB", "Tensors of both files, by name.", under=VECTORS),
    sequence_axis: int | None = option(
        "N", "Axis of the tokens. [default: the one before the last]", under=VECTORS
    ),
    all_shown: bool = flag(
        "--all-shown", "Fail if the vectors do not show a position.", under=VECTORS
    ),
    rope: Annotated[
        EncodingOptions,
        Section("Encoding"),
        Help(dim="Head dim, even. [default: the last axis of the vectors]"),
    ],
    output: IdsOptions,
) -> bool:
    """\b
    Examples:
      ropecli positions --lengths 5,3,8 -o ids.npy
      ropecli positions ids.npy --lengths 5,3,8
      ropecli positions 0,1,2,0 --lengths 3,1
      ropecli positions ids.npy --mask attention_mask.npy
      ropecli positions ids.npy --tokens input_ids.npy --separator 2
      ropecli positions --lengths 4096 --context-parallel 4 --rank 2 -o ids.npy
      ropecli positions ids.npy --lengths 8,8 --context-parallel 2 --rank 0
      ropecli positions ids.npy --chunk 4096
      ropecli positions ids.npy --grid 1,28,28 --text 12,30 --mrope qwen2-vl
      ropecli positions --before q.npy --after q_rot.npy --model config.json

    Make position ids, check them, or recover them from vectors. Rows are packed or padded, shared
    by ranks, chunks of a prefill, or have images in them. Exit code 1 if an id is wrong; not where
    vectors do not show a position, unless --all-shown is given.
    """
    from ropecli.checks.positions.check import positions as judge
    from ropecli.files.load import read_layers

    config = _configuration(rope) if grid else None
    if grid and mrope is None:
        mrope = _family(config)
    ends = _numbers("--chunk", chunk) or []
    if len(ends) > 2:
        raise ArgumentError(f"--chunk must be FROM or FROM,TO, got {chunk!r}")
    start, stop = (*ends, None, None)[:2]
    asked: dict[str, Any] = {
        "lengths": _rows_of_numbers("--lengths", lengths),
        "row_length": row_length,
        "seq_idx": _read(seq_idx),
        "cu_seqlens": _read(cu_seqlens),
        "mask": _read(mask),
        "tokens": _read(tokens),
        "separator": separator,
        "grids": [_numbers("--grid", image) for image in grid] if grid else None,
        "mrope": mrope,
        "text": _rows_of_numbers("--text", text) or (),
        "seconds": None if seconds is None else _seconds(seconds),
        "stack": stack,
        "config": config,
        "context_parallel": context_parallel,
        "rank": rank,
        "scheme": scheme or "contiguous",
        "divide": divide,
        "chunk_from": start,
        "chunk_to": stop,
        "all_shown": all_shown,
    }
    if before is None or after is None:
        result = judge(_given_ids(ids), **asked)
    else:
        from ropecli.checks.positions.recover import LONGEST, recover_positions

        x, y = (
            read_layers(path, tensor, sequence_axis=sequence_axis, head_dim=rope.dim)
            for path in (before, after)
        )
        named = rope.encoding(dim=x.shape[-1])
        output.note(*named.notes)
        with output.working():
            longest = rope.context or max(LONGEST, named.context or 0)
            recovered = recover_positions(named.rope, x, y, longest=longest)
        result = judge(recovered, **asked)
        assumed = _assumed_defaults(rope, named)
        if assumed and (result.unexplained or 0) > result.wrong:
            raise ArgumentError(
                f"no position explains the vectors of {result.unexplained:,} of {result.tokens:,} "
                f"tokens; assumed: {assumed}",
                "give the encoding with `model`, or `base` and `layout`",
            )
        if assumed and not rope.model:
            output.note(f"assumed: {assumed}; --model, or --base and --layout, give the encoding")
    output.show(result, output.parameters(mrope=mrope))
    return result.passed


def _read(path: str | Path | None) -> Any:
    from ropecli.files.load import read_tensor

    return None if path is None else read_tensor(path, booleans=True)


def _given_ids(ids: str | None) -> Any:
    """Return the ids of a file, or of one row of numbers."""
    if ids is None or "," not in ids or os.path.lexists(ids):
        return _read(ids)
    return _numbers("IDS", ids)


def _assumed_defaults(rope: EncodingOptions, named: NamedRotary) -> str:
    """Return the defaults that the encoding has for what was not given."""
    if named.layer is not None:
        return "; ".join(named.layer.settings.assumed)
    free = {
        f"base {BASE:.0f}": rope.base is None and rope.inv_freq is None,
        f"layout {LAYOUT}": rope.layout is None,
    }
    return ", ".join(name for name, is_free in free.items() if is_free)


def _numbers(name: str, text: str | None) -> list[int] | None:
    """Parse whole numbers with commas between them, such as 5,3,8k."""
    if text is None:
        return None
    try:
        return [whole(part.strip()) for part in text.split(",")]
    except typer.BadParameter:
        raise ArgumentError(f"{name} must be whole numbers such as 5,3,8, got {text!r}") from None


def _rows_of_numbers(name: str, texts: list[str] | None) -> list[int] | list[list[int]] | None:
    """Parse whole numbers of one row, or of several."""
    rows = [_numbers(name, text) or [] for text in texts or ()]
    return rows if len(rows) > 1 else rows[0] if rows else None


def _seconds(text: str) -> float | list[float]:
    """Parse a number of seconds, or several."""
    try:
        every = [float(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentError(f"--seconds must be numbers such as 0.5,1, got {text!r}") from None
    return every if len(every) > 1 else every[0]


def _configuration(rope: EncodingOptions) -> dict[str, Any] | None:
    """Return the config.json of the model, if one is given."""
    from ropecli.models.load import load_model

    return None if rope.model is None else dict(load_model(rope.model).raw)


def _family(config: dict[str, Any] | None) -> str:
    """Return the family of models that numbers grids."""
    from ropecli.checks.positions.vision import FAMILIES, family_of

    known = ", ".join(FAMILIES)
    if config is None:
        raise ArgumentError(f"--grid requires --mrope, one of {known}, or --model")
    model_type = config.get("model_type", config.get("_class_name"))
    family = family_of(model_type)
    if family is None:
        raise ArgumentError(f"the ids of {model_type} are not known: give --mrope, one of {known}")
    return family
