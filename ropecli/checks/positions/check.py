"""Position ids that a row of tokens asks for, and the verdict on those that are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ropecli.arrays import Array, Index, Mask, as_array
from ropecli.checks.positions.causes import cause_of, differ
from ropecli.checks.positions.parts import (
    DIVIDED,
    WHOLE,
    Chunk,
    Part,
    Share,
    parts_of,
    share_of,
)
from ropecli.checks.positions.recover import SHOWN, RecoveredPositions
from ropecli.checks.positions.rows import (
    Documents,
    Held,
    Rows,
    Seen,
    documents_of,
    of_runs,
    one_document,
    whole,
)
from ropecli.checks.positions.vision import AXES, Vision, vision
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
    expected: float  #: The right one, an int but in Qwen3-Omni's fractions of seconds.


@dataclass(frozen=True, kw_only=True, eq=False)
class PositionIds(Drawable, view="positions"):
    """Position ids that rows ask for, next to those that were given."""

    expected: NDArray[Any]  #: (rows, tokens), or (rows, tokens, axes).
    got: NDArray[Any] | None  #: In the same shape; None if only the right ones are wanted.
    axes: tuple[str, ...]  #: What the coordinates of a position are called; empty of one.
    counted: NDArray[np.bool_]  #: False for padding, whose ids are not judged, (rows, tokens).
    is_wrong: NDArray[np.bool_]  #: True for tokens whose id is wrong, (rows, tokens).
    documents: Documents  #: In the order of rows and tokens.
    wrong_in: NDArray[np.int64]  #: Tokens of each document whose id is wrong.
    cause: str | None  #: What went wrong, with the first wrong id; None if nothing, or not known.
    error: NDArray[np.float64] | None = None  #: Of recovered positions; not below 0.5: not shown.
    noise: float | None = None  #: Of the vectors that positions were recovered from, in radians.
    all_shown: bool = False  #: True if a position that is not shown fails.
    called_with: int | None = None  #: Tokens of a model's calls, of which some were looked at.
    assumed: bool = False  #: Documents begin where ids are 0, since nothing says where they do.
    reading: str | None = None  #: How ranks or engines count, as given or as only ids show it.
    scores_change: bool | None = None  #: Whether distances inside documents are wrong.
    notes: tuple[str, ...] = ()  #: What was assumed, and what had no effect.

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
        """True if no id is wrong or unexplained, nor uncertain if all must be shown."""
        return not (self.wrong or self.unexplained or (self.all_shown and self.uncertain))

    @property
    def uncertain(self) -> int | None:
        """Tokens whose position the vectors do not show on some axis, none of it wrong; or None."""
        return None if self.error is None else self._count(~(self.error < SHOWN))

    @property
    def unexplained(self) -> int | None:
        """Those of them whose vectors no position explains, as of another encoding; or None."""
        return None if self.error is None else self._count(np.isnan(self.error))

    def _count(self, where: Mask) -> int:
        some = where.reshape(*self.counted.shape, -1).any(axis=2)
        return int(np.count_nonzero(some & self.counted & ~self.is_wrong))

    @property
    def first_wrong(self) -> WrongId | None:
        """The first token whose id is wrong; None if there is none."""
        if self.got is None or not self.wrong:
            return None
        row, token = np.unravel_index(int(self.is_wrong.argmax()), self.is_wrong.shape)
        error = np.zeros(self.got.shape) if self.error is None else self.error
        got, expected, most = (
            np.atleast_1d(ids[row, token]) for ids in (self.got, self.expected, error)
        )
        axis = int((np.abs(got - expected) > most).argmax())
        return WrongId(
            row=int(row),
            token=int(token),
            axis=axis,
            got=got[axis].item(),
            expected=expected[axis].item(),
        )


def positions(
    ids: ArrayLike | RecoveredPositions | None = None,
    *,
    lengths: Sequence[int] | Sequence[Sequence[int]] | None = None,
    cu_seqlens: ArrayLike | None = None,
    row_length: int | None = None,
    mask: ArrayLike | None = None,
    seq_idx: ArrayLike | None = None,
    tokens: ArrayLike | None = None,
    separator: int | None = None,
    grids: Sequence[Sequence[int]] | None = None,
    mrope: str | None = None,
    text: Sequence[int] | Sequence[Sequence[int]] = (),
    seconds: float | Sequence[float] | None = None,
    config: dict[str, Any] | None = None,
    stack: str | None = None,
    context_parallel: int | None = None,
    rank: int | None = None,
    scheme: str = SCHEME,
    divide: str | None = None,
    chunk_from: int | None = None,
    chunk_to: int | None = None,
    all_shown: bool = False,
) -> PositionIds:
    """Make the position ids that rows of tokens ask for, and judge those that are given.

    Positions count from 0 in each document. One of lengths, cu_seqlens, mask, seq_idx and tokens
    says where documents are, and grids what images they hold; tokens may have a mask of padding.
    Without any, ids that count from 0 again and again are taken for documents, and the result says
    that this is assumed. What is not given and differs between stacks (`divide`, `stack`) is tried
    both ways, and `reading` is the one that ids show.

    Args:
        ids: Position ids, whole numbers of any dtype, (tokens,), (rows, tokens), or of text on
            several axes (axes, rows, tokens); of grids also (axes, tokens), or with the axes last.
            A fourth axis is the text's count, first, as in Transformers, or zeros, last, as in
            llama.cpp. What `recover_positions` returns is wrong where it is off by more than its
            error.
        lengths: Tokens of each document of one packed row, or a list of them for each row.
        cu_seqlens: The same as cumulative lengths, [0, 5, 8, 16].
        row_length: Tokens of each row of lengths or cu_seqlens, with the padding at its end.
        mask: (tokens,) or (rows, tokens): 0 for padding, and 1 or the numbers of documents.
        seq_idx: The number of each token's document, of any kind, as in Mamba; padding is below 0.
        tokens: Token ids, (tokens,) or (rows, tokens), of documents that end with `separator`.
        separator: The token at the end of a document.
        grids: Time, height and width of images and videos in patches, before merging; of MiniCPM-V
            also newlines after it, and rows, columns, height and width of its slices.
        mrope: How a family of models numbers them, as Transformers and diffusers do; one of
            `FAMILIES` in `ropecli.checks.positions.vision`.
        text: Tokens of text before the first grid, after it, and so on; several documents have a
            list each.
        seconds: Seconds between two steps in time of a video, 1 by default, or a number for each
            grid.
        config: The model's config.json, whose vision_config says how patches are merged.
        stack: Whose count is expected: transformers, transformers-4, vllm or llama.cpp.
        context_parallel: Ranks that share each row.
        rank: The rank whose ids these are.
        scheme: How ranks share a row: contiguous; zigzag, chunks r and 2N - 1 - r of 2N; or
            striped, tokens r, r + N, r + 2N, ...
        divide: What ranks share: each of the "documents", or the "row".
        chunk_from: First token of a chunk of each row.
        chunk_to: First token after it; the end of the row by default.
        all_shown: Whether recovered positions fail where the vectors do not show them.

    Raises:
        ArgumentError: Values that do not fit each other, or vectors that show no position at all.
        ArgumentTypeError: Not whole numbers.
    """
    for name, is_given, other, value in (
        ("separator", separator is not None, "tokens", tokens),
        (
            "row_length",
            row_length is not None,
            "lengths",
            cu_seqlens if lengths is None else lengths,
        ),
        ("mrope", mrope is not None, "grids", grids),
        ("text", text, "grids", grids),
        ("seconds", seconds is not None, "grids", grids),
        ("stack", stack is not None, "grids", grids),
        ("rank", rank is not None, "context_parallel", context_parallel),
        ("scheme", scheme != SCHEME, "context_parallel", context_parallel),
        ("divide", divide is not None, "context_parallel", context_parallel),
        ("chunk_to", chunk_to is not None, "chunk_from", chunk_from),
    ):
        if is_given and value is None:
            raise ArgumentError(f"{name} has no effect without {other}")
    parts = parts_of(context_parallel, rank, scheme, divide, chunk_from, chunk_to)
    asked = documents_of(
        lengths=lengths,
        cu_seqlens=cu_seqlens,
        row_length=row_length,
        mask=mask,
        seq_idx=seq_idx,
        tokens=tokens,
        separator=separator,
    )
    if grids is not None:
        made = vision(grids, mrope, asked, text=text, seconds=seconds, config=config, stack=stack)
        readings = made.readings(stack, () if ids is None else _shape(ids))
        notes = made.notes(given_seconds=seconds is not None, judged=ids is not None)
        return _first_that_fits(ids, readings, parts, notes, all_shown)
    if asked is not None:
        notes = ()
        if mask is not None and tokens is None:
            notes = asked.notes_on_mask(_whole_ids(ids))
        return _first_that_fits(ids, [(asked, None)], parts, notes, all_shown)
    if ids is None:
        raise ArgumentError(
            "nothing says what the rows hold",
            "give lengths, cu_seqlens, mask, tokens or grids, or ids to judge",
        )
    shape = _shape(ids)[: 2 if isinstance(ids, RecoveredPositions) else None]
    if len(shape) not in (1, 2) or not np.prod(shape):
        raise ArgumentError(
            f"ids must have shape (tokens,) or (rows, tokens) without grids, got {shape}"
        )
    count, held = (1, *shape)[-2:]
    if parts == [WHOLE]:
        seen, reading = _as_seen(ids)
        if seen is not None:
            return replace(judge(ids, seen), assumed=True, reading=reading, all_shown=all_shown)
    start = parts[0].start if isinstance(parts[0], Chunk) else 0
    asked = one_document(count, parts[0].row_length(held), start)
    notes = ("assumed: each row is one document",)
    return _first_that_fits(ids, [(asked, None)], parts, notes, all_shown)


Readings = Sequence[tuple[Rows, str | None]]


def _first_that_fits(
    ids: ArrayLike | RecoveredPositions | None,
    rows: Readings,
    parts: Sequence[Part],
    notes: tuple[str, ...],
    all_shown: bool,
) -> PositionIds:
    """Judge ids by each reading of the rows and of the part, until one fits.

    If none does, it is the first by which a known mistake gives the ids, or the first of all. The
    reading is named where it is not the only one that makes a difference.
    """
    found: list[PositionIds] = []
    refused: ArgumentError | None = None
    for part, (asked, name) in product(parts, rows):
        divide = part.divide if isinstance(part, Share) and len(parts) > 1 else None
        if divide == DIVIDED[0] and asked.is_one:
            continue  # the same as the row
        try:
            made = judge(ids, asked, part)
        except ArgumentError as refusal:
            refused = refused or refusal
            continue
        is_seen = made.error is None or (made.error < SHOWN).any()
        if not (is_seen or made.wrong or made.unexplained):
            raise ArgumentError(
                f"the vectors show no position: their angles have a noise of {made.noise:.1g} "
                "radians",
                "look among fewer positions, or at more heads",
            )
        said = [f"{_DIVIDED[divide]} is divided"] if divide and not asked.is_one else []
        reading = ", and ".join(said + ([name] if name else [])) or None
        found.append(replace(made, reading=reading, notes=notes, all_shown=all_shown))
        if made.passed:
            return found[-1]
    if not found:
        assert refused is not None
        raise refused
    return next((candidate for candidate in found if candidate.cause), found[0])


_DIVIDED = {"documents": "each document", "row": "the row"}


def judge(
    ids: ArrayLike | RecoveredPositions | None, asked: Held, part: Part = WHOLE
) -> PositionIds:
    """Compare ids with those that rows ask for; arguments as in `positions`."""
    index = part.index(asked)
    document, expected = asked.document[index], asked.ids[index]
    counted = document >= 0
    is_wrong = np.zeros_like(counted)
    got, error, noise = None, np.zeros(1), None
    if isinstance(ids, RecoveredPositions):
        noise, (got, error) = ids.noise, ids.by_row
        if expected.ndim == 2 and ids.axes > 1:  # text has the same position on all axes
            expected = np.repeat(expected[..., None], ids.axes, axis=-1)
        if got.shape != expected.shape:
            raise ArgumentError(f"positions must have shape {expected.shape}, got {got.shape}")
    elif ids is not None:
        if expected.ndim == 2 and _shape(ids)[1:] == expected.shape:
            expected = np.repeat(expected[..., None], _shape(ids)[0], axis=-1)
        got, expected = _match_shapes(ids, expected)
    if got is not None:
        is_wrong = counted & differ(got, expected, error)
    axes = axis_names(asked, expected)
    documents = asked.documents
    number = np.where(counted, document + np.searchsorted(documents.row, _rows_of(document)), -1)
    found = PositionIds(
        expected=expected,
        got=got,
        axes=axes,
        counted=counted,
        is_wrong=is_wrong,
        documents=documents,
        wrong_in=np.bincount(number[is_wrong], minlength=len(documents.row)),
        cause=None,
        error=None if noise is None else error,
        noise=noise,
    )
    if got is None or not found.wrong:
        return found
    error = np.broadcast_to(error, got.shape)
    by_axis = error.reshape(*counted.shape, -1)
    some = np.where(np.isfinite(by_axis).any(axis=2), number, -1)
    every = np.where((by_axis < SHOWN).all(axis=2), number, -1)
    cause = cause_of(got, expected, some, asked, part, axes, error)
    return replace(
        found,
        cause=None if cause is None else f"{cause}: {describe(found)}",
        scores_change=_scores_change(got - expected, every)
        if part == WHOLE and (every >= 0).any()
        else None,
    )


def _rows_of(document: Index) -> Index:
    return np.arange(len(document))[:, None]


def _scores_change(apart: NDArray[Any], number: Index) -> bool:
    """Return False if the ids of each document are off by one constant, on each axis."""
    token = np.flatnonzero(number.ravel() >= 0)
    order = token[np.argsort(number.ravel()[token], kind="stable")]
    off = apart.reshape(number.size, -1)[order]
    same = np.diff(number.ravel()[order]) == 0
    return bool((np.diff(off, axis=0)[same] != 0).any())


def describe(found: PositionIds) -> str:
    """Return the first wrong id as a sentence has it: "expected 0 at row 0, token 2, got 2"."""
    wrong, shape = found.first_wrong, found.expected.shape
    assert wrong is not None
    words = [f"row {wrong.row:,}"] if shape[0] > 1 else []
    words += [f"token {wrong.token:,}", *found.axes[wrong.axis : wrong.axis + 1]]
    right, got = (
        f"{value:,}" if isinstance(value, int) else f"{value:,.9g}"
        for value in (wrong.expected, wrong.got)
    )
    error = (
        np.zeros(1) if found.error is None else np.atleast_1d(found.error[wrong.row, wrong.token])
    )
    about = "about " if error[min(wrong.axis, len(error) - 1)] >= SHOWN else ""
    return f"expected {right} at {', '.join(words)}, got {about}{got}"


def axis_names(asked: Held, expected: NDArray[Any]) -> tuple[str, ...]:
    """Return what the coordinates of a position are called; nothing of an only one."""
    count = 0 if expected.ndim < 3 else expected.shape[2]
    if isinstance(asked, Vision):
        return asked.axes
    return AXES if count == len(AXES) else tuple(f"axis {axis}" for axis in range(count))


def _shape(ids: ArrayLike | RecoveredPositions) -> tuple[int, ...]:
    """Return the shape of ids; recovered ones are (rows, tokens), or (rows, tokens, axes)."""
    if isinstance(ids, RecoveredPositions):
        return ids.by_row[0].shape
    return as_array("ids", ids).shape


def _whole_ids(ids: ArrayLike | RecoveredPositions | None) -> Index | None:
    """Return ids as (rows, tokens); None of vectors, or of none."""
    if ids is None or isinstance(ids, RecoveredPositions):
        return None
    return np.atleast_2d(whole("ids", ids))


def _as_seen(ids: ArrayLike | RecoveredPositions) -> tuple[Seen | None, str | None]:
    """Return rows for which ids are right, and the rank that has them; None if there are none."""
    numbers = _whole_ids(ids)
    if isinstance(ids, RecoveredPositions):
        text = _text_of(ids)
        if text is None and ids.axes > 1:
            document = np.zeros(_shape(ids)[:2], np.int64)
            return Seen(document=document, numbers=np.nan_to_num(ids.by_row[0])), None
        if text is not None and (text == np.round(text)).all():
            numbers = text.astype(np.int64)
    if numbers is None:
        return None, None
    seen = of_runs(numbers)
    if seen is None and (share := share_of(numbers)) is not None:
        return Seen(document=np.zeros_like(numbers), numbers=numbers), share
    return seen, None


def _text_of(ids: RecoveredPositions) -> Array | None:
    """Return recovered positions that are the same on all axes, (rows, tokens); None of others.

    A token that is not shown counts on from the last one that is, and in front is padding, -1.
    """
    values, error = (array.reshape(*_shape(ids)[:2], -1) for array in ids.by_row)
    shown, token = error < SHOWN, np.arange(values.shape[1])
    known = shown.any(axis=2)
    near = np.maximum.accumulate(np.where(known, token, known.argmax(axis=1)[:, None]), axis=1)
    text = np.take_along_axis(values, shown.argmax(axis=2)[..., None], axis=2)[..., 0]
    text = np.maximum(np.take_along_axis(text, near, axis=1) + token - near, -1)
    return None if (np.abs(values - text[..., None]) > error).any() else text


def _match_shapes(ids: ArrayLike, expected: Index) -> tuple[NDArray[Any], Index]:
    """Return ids and expected ones in one shape: the axes of ids may be first or last."""
    array = whole("ids", ids) if expected.dtype.kind == "i" else as_array("ids", ids)
    given, last = array.shape, expected.shape
    rows, tokens, *axes = last
    first = [(*axes, rows, tokens), *[(*axes, tokens)] * (rows == 1)]
    readings = [array.reshape(last)] if given in (last, last[1:] if rows == 1 else last) else []
    if axes and given in first:
        readings.append(np.moveaxis(array, 0, -1).reshape(last))
    if not readings:
        raise ArgumentError(f"ids must have shape {' or '.join(map(str, first))}, got {given}")
    if not np.array_equal(readings[0], readings[-1]):
        raise ArgumentError(
            f"ids of shape {given} have their axes first or last",
            f"give them as (axes, rows, tokens), {(*axes, rows, tokens)}",
        )
    return readings[0], expected
