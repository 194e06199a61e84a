"""Position ids that a row of tokens asks for, and the verdict on those that are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ropecli.arrays import Index, Mask, as_array
from ropecli.checks.positions.causes import cause_of, differ
from ropecli.checks.positions.parts import WHOLE, Part, part_of
from ropecli.checks.positions.rows import (
    Called,
    Documents,
    Rows,
    of_cu_seqlens,
    of_lengths,
    of_mask,
    of_tokens,
    one_document,
    whole,
)
from ropecli.checks.positions.vision import Vision, axis_names, vision
from ropecli.errors import ArgumentError
from ropecli.results import Drawable

SCHEME = "contiguous"  #: The scheme in which ranks share a row, without another.


@dataclass(frozen=True, kw_only=True)
class WrongId:
    """A token whose position id is wrong."""

    row: int  #: Counted from 0.
    token: int  #: Counted from 0, among the tokens whose ids are given.
    axis: int  #: 0, or the coordinate of a position with several.
    got: float  #: The id that was given, an int where ids are.
    expected: int  #: The right one.


@dataclass(frozen=True, kw_only=True, eq=False)
class PositionIds(Drawable, view="positions"):
    """Position ids that rows ask for, next to those that were given."""

    expected: NDArray[np.int64]  #: (rows, tokens), or (rows, tokens, axes).
    got: NDArray[Any] | None  #: In the same shape; None if only the right ones are wanted.
    counted: NDArray[np.bool_]  #: False for padding, whose ids are not judged, (rows, tokens).
    is_wrong: NDArray[np.bool_]  #: True for tokens whose id is wrong, (rows, tokens).
    documents: Documents  #: In the order of rows and tokens.
    wrong_in: NDArray[np.int64]  #: Tokens of each document whose id is wrong.
    cause: str | None  #: What went wrong, with the first wrong id; None if nothing, or not known.
    error: NDArray[np.float64] | None = None  #: Of recovered positions, inf where uncertain.

    @property
    def ids(self) -> NDArray[np.int64]:
        """The right ids as models take them: (tokens,), (rows, tokens), or with the axes first."""
        alone = self.expected[0] if len(self.expected) == 1 else self.expected
        return np.ascontiguousarray(np.moveaxis(alone, -1, 0) if self.expected.ndim > 2 else alone)

    @property
    def tokens(self) -> int:
        """Number of tokens, without padding."""
        return int(np.count_nonzero(self.counted))

    @property
    def wrong(self) -> int:
        """Number of tokens whose id is wrong."""
        return int(np.count_nonzero(self.is_wrong))

    @property
    def passed(self) -> bool:
        """True if no id is wrong or uncertain."""
        return self.wrong == 0 and not self.uncertain

    @property
    def uncertain(self) -> int | None:
        """Tokens whose position the vectors do not show, neither right nor wrong; else None."""
        if self.error is None:
            return None
        return int(np.count_nonzero(self.counted & ~np.isfinite(self.error)))

    @property
    def first_wrong(self) -> WrongId | None:
        """The first token whose id is wrong; None if there is none."""
        if self.got is None or not self.wrong:
            return None
        row, token = np.unravel_index(int(self.is_wrong.argmax()), self.is_wrong.shape)
        got, expected = (np.atleast_1d(ids[row, token]) for ids in (self.got, self.expected))
        axis = int((got != expected).argmax())
        return WrongId(
            row=int(row),
            token=int(token),
            axis=axis,
            got=got[axis].item(),
            expected=int(expected[axis]),
        )


def positions(
    ids: ArrayLike | None = None,
    *,
    lengths: Sequence[int] | None = None,
    cu_seqlens: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    tokens: ArrayLike | None = None,
    separator: int | None = None,
    grids: Sequence[Sequence[int]] | None = None,
    mrope: str | None = None,
    text: Sequence[int] = (),
    seconds: float = 1.0,
    config: dict[str, Any] | None = None,
    context_parallel: int | None = None,
    rank: int | None = None,
    scheme: str = SCHEME,
    chunk_from: int | None = None,
    chunk_to: int | None = None,
    error: NDArray[np.float64] | None = None,
) -> PositionIds:
    """Make the position ids that rows of tokens ask for, and judge those that are given.

    Positions count from 0 in each document. At most one of lengths, cu_seqlens, mask, tokens and
    grids says what the rows hold; without any, each row of ids is one document.

    Args:
        ids: Position ids, whole numbers of any dtype, (tokens,) or (rows, tokens); of grids
            (3, tokens), (3, rows, tokens), or with the axes last.
        lengths: Tokens of each document of one packed row.
        cu_seqlens: The same as cumulative lengths, [0, 5, 8, 16].
        mask: (tokens,) or (rows, tokens): 0 for padding, and 1 or the numbers of documents.
        tokens: Token ids, (tokens,) or (rows, tokens), of documents that end with `separator`.
        separator: The token at the end of a document.
        grids: Time, height and width of images and videos in patches, before merging.
        mrope: How a family of models numbers them: qwen2-vl, qwen2.5-vl, qwen3-vl, glm4v,
            ernie4.5-vl or wan, as Transformers and diffusers do.
        text: Tokens of text before the first grid, after it, and so on.
        seconds: Seconds between two steps in time of a video (Qwen2.5-VL).
        config: The model's config.json, whose vision_config says how patches are merged.
        context_parallel: Ranks that share each row.
        rank: The rank whose ids these are.
        scheme: How ranks share a row: contiguous; zigzag, chunks r and 2N - 1 - r of 2N; or
            striped, tokens r, r + N, r + 2N, ...
        chunk_from: First token of a chunk of each row.
        chunk_to: First token after it; the end of the row by default.
        error: Of positions from `recover_positions`, in the shape of ids.

    Raises:
        ArgumentError: Values that do not fit each other.
        ArgumentTypeError: Not whole numbers.
    """
    sources = {
        "lengths": lengths,
        "cu_seqlens": cu_seqlens,
        "mask": mask,
        "tokens": tokens,
        "grids": grids,
    }
    given = [name for name, value in sources.items() if value is not None]
    if len(given) > 1:
        raise ArgumentError(f"one thing says what the rows hold, got {' and '.join(given)}")
    for name, is_given, other, value in (
        ("separator", separator is not None, "tokens", tokens),
        ("mrope", mrope is not None, "grids", grids),
        ("text", text, "grids", grids),
        ("seconds", seconds != 1, "grids", grids),
        ("rank", rank is not None, "context_parallel", context_parallel),
        ("scheme", scheme != SCHEME, "context_parallel", context_parallel),
        ("chunk_to", chunk_to is not None, "chunk_from", chunk_from),
    ):
        if is_given and value is None:
            raise ArgumentError(f"{name} has no effect without {other}")
    part = part_of(context_parallel, rank, scheme, chunk_from, chunk_to)
    asked: Rows | Vision
    if lengths is not None:
        asked = of_lengths(lengths)
    elif cu_seqlens is not None:
        asked = of_cu_seqlens(cu_seqlens)
    elif mask is not None:
        asked = of_mask(mask)
    elif tokens is not None:
        asked = of_tokens(tokens, separator)
    elif grids is not None:
        asked = vision(grids, mrope, text=text, seconds=seconds, config=config)
    elif ids is None:
        raise ArgumentError(
            "nothing says what the rows hold",
            "give lengths, cu_seqlens, mask, tokens or grids, or ids to judge",
        )
    else:
        shape = np.shape(as_array("ids", ids) if error is None else error)
        if len(shape) not in (1, 2) or not np.prod(shape):
            raise ArgumentError(
                f"ids must have shape (tokens,) or (rows, tokens) without grids, got {shape}"
            )
        rows, held = (1, *shape)[-2:]
        asked = one_document(rows, part.row_length(held))
    return judge(ids, asked, part, error=error)


def judge(
    ids: ArrayLike | None,
    asked: Rows | Vision | Called,
    part: Part = WHOLE,
    *,
    error: NDArray[np.float64] | None = None,
) -> PositionIds:
    """Compare ids with those that rows ask for; arguments as in `positions`."""
    right = asked.ids
    rows = asked if isinstance(asked, Rows) else one_document(*right.shape[:2])
    tokens = part.tokens(right.shape[1])
    document, expected = rows.document[:, tokens], right[:, tokens]
    counted = document >= 0
    is_wrong = np.zeros_like(counted)
    got = None
    if ids is not None:
        got, expected = _match_shapes(ids, expected, error)
        is_wrong = counted & differ(got, expected)
    if error is not None:
        error = _as_tokens(error, counted.shape)
        is_wrong &= np.isfinite(error)
    documents = rows.documents
    found = PositionIds(
        expected=expected,
        got=got,
        counted=counted,
        is_wrong=is_wrong,
        documents=documents,
        wrong_in=_count_by_document(is_wrong, document, documents),
        cause=None,
        error=error,
    )
    if got is None or not found.wrong:
        return found
    cause = cause_of(got, expected, counted, asked, part)
    return found if cause is None else replace(found, cause=f"{cause}: {describe(found)}")


def describe(found: PositionIds) -> str:
    """Return the first wrong id as a sentence has it: "expected 0 at row 0, token 2, got 2"."""
    wrong, shape = found.first_wrong, found.expected.shape
    assert wrong is not None
    words = [f"row {wrong.row:,}"] if shape[0] > 1 else []
    words += [f"token {wrong.token:,}", *(axis_names(count)[wrong.axis] for count in shape[2:])]
    got = f"{wrong.got:,}" if isinstance(wrong.got, int) else f"{wrong.got:,.9g}"
    return f"expected {wrong.expected:,} at {', '.join(words)}, got {got}"


def _match_shapes(
    ids: ArrayLike, expected: Index, error: NDArray[np.float64] | None
) -> tuple[NDArray[Any], Index]:
    """Return ids and expected ones in one shape: the axes of ids may be first or last."""
    array = whole("ids", ids) if error is None else np.asarray(ids)
    if error is not None and expected.ndim == 2 and array.ndim > error.ndim:
        # Text has the same position on all axes.
        expected = np.repeat(expected[..., None], array.shape[-1], axis=-1)
    given, (rows, tokens, *axes) = array.shape, expected.shape
    if axes and given[:1] == (axes[0] + 1,):
        array = array[1:]  # Transformers puts the ids of text before those of the axes
    if axes and array.shape[:1] == (axes[0],):
        array = np.moveaxis(array, 0, -1)
    if rows == 1 and array.ndim == expected.ndim - 1:
        array = array[None]
    if array.shape != expected.shape:
        shapes = [(*axes, rows, tokens), *[(*axes, tokens)] * (rows == 1)]
        raise ArgumentError(f"ids must have shape {' or '.join(map(str, shapes))}, got {given}")
    return array, expected


def _as_tokens(error: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return errors as (rows, tokens)."""
    found = np.asarray(error, np.float64)
    if found.size != np.prod(shape):
        raise ArgumentError(f"error must have shape {shape}, got {found.shape}")
    return found.reshape(shape)


def _count_by_document(wrong: Mask, document: Index, documents: Documents) -> Index:
    """Return how many tokens of each document are wrong."""
    # Numbers of documents count on from row to row, so that one histogram has all of them.
    row, token = np.nonzero(wrong)
    number = np.searchsorted(documents.row, row) + document[row, token]
    return np.bincount(number, minlength=len(documents.row))
