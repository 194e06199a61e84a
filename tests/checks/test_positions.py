"""Position ids: right ones against a plain loop, and what is said of wrong ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from packed_rows import CP, IMAGE, LENGTHS, PACKED, VIDEO

import ropecli
from ropecli import ArgumentError, ArgumentTypeError

MASK = [[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]]
TOKENS = [7, 8, 2, 9, 2, 5, 5]


def zigzag(rank: int, ranks: int, total: int) -> list[int]:
    size = total // (2 * ranks)
    chunks = [list(range(i * size, (i + 1) * size)) for i in range(2 * ranks)]
    return chunks[rank] + chunks[2 * ranks - 1 - rank]


def count(labels: Sequence[int]) -> list[int]:
    seen: dict[int, int] = {}
    ids = []
    for label in labels:
        ids.append(0 if label == 0 else seen.get(label, 0))
        seen[label] = seen.get(label, 0) + 1
    return ids


documents = st.lists(st.tuples(st.booleans(), st.integers(1, 4)), min_size=1, max_size=8)


@given(documents, st.integers(0, 3))
def test_positions_count_within_each_document(runs: list[tuple[bool, int]], hole: int) -> None:
    """Of any documents and padding, and of a document with a hole."""
    labels, number = [], 0
    for padding, length in runs:
        number += not padding
        labels += [0 if padding else number] * length
    labels += [0] * hole + [number] * hole
    assume(number)
    found = ropecli.positions(mask=[labels, labels[::-1] if number < 2 else labels])
    assert found.expected[0].tolist() == count(labels)
    assert found.counted[0].tolist() == [label > 0 for label in labels]
    assert found.documents.length[:number].tolist() == [
        labels.count(each) for each in range(1, number + 1)
    ]


def test_sources_of_one_row_agree() -> None:
    made = [
        ropecli.positions(lengths=LENGTHS),
        ropecli.positions(cu_seqlens=np.array([0, 5, 8, 16], np.int32)),
        ropecli.positions(mask=[1] * 5 + [2] * 3 + [3] * 8),
        ropecli.positions(tokens=[1, 1, 1, 1, 9, 1, 1, 9, *[1] * 8], separator=9),
    ]
    for each in made:
        assert each.ids.tolist() == PACKED
        assert [column.tolist() for column in each.documents] == [[0] * 3, [0, 5, 8], LENGTHS]
        assert ropecli.positions(PACKED, lengths=LENGTHS).passed


def test_ids_of_text_may_stand_before_those_of_the_axes() -> None:
    """As Transformers hands them to Qwen2-VL: (4, rows, tokens)."""
    ids = ropecli.positions(**IMAGE).ids
    assert ropecli.positions(np.stack([np.arange(11), *ids])[:, None], **IMAGE).passed


def test_padding_is_not_judged() -> None:
    ids = [[1, 1, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5], [0, 1, 2, 9, 9, 9]]
    found = ropecli.positions(ids, mask=MASK)
    assert found.passed
    assert found.tokens == 13


@pytest.mark.parametrize(
    ("scheme", "shares"),
    [
        ("contiguous", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("zigzag", [[0, 1, 6, 7], [2, 3, 4, 5]]),
        ("striped", [[0, 2, 4, 6], [1, 3, 5, 7]]),
    ],
)
def test_ranks_share_a_row(scheme: str, shares: list[list[int]]) -> None:
    for rank, ids in enumerate(shares):
        found = ropecli.positions(ids, lengths=[8], context_parallel=2, rank=rank, scheme=scheme)
        assert found.passed
        assert found.ids.tolist() == ids


def test_chunk_continues() -> None:
    assert ropecli.positions([4, 5, 6], chunk_from=4).passed
    assert ropecli.positions(lengths=LENGTHS, chunk_from=4, chunk_to=7).ids.tolist() == [4, 0, 1]


def test_grid_of_the_paper() -> None:
    """Qwen2-VL, section 2.1: text counts on from the largest id of an image."""
    found = ropecli.positions(**IMAGE).ids
    assert found[0].tolist() == [0, 1, 2, *[3] * 6, 6, 7]
    assert found[1].tolist() == [0, 1, 2, 3, 3, 3, 4, 4, 4, 6, 7]
    assert found[2].tolist() == [0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7]


def test_config_says_how_patches_are_merged() -> None:
    config = {"vision_config": {"spatial_merge_size": 1, "tokens_per_second": 5}}
    found = ropecli.positions(grids=[[2, 1, 2]], mrope="qwen2.5-vl", config=config)
    assert found.ids.tolist() == [[0, 0, 5, 5], [0] * 4, [0, 1, 0, 1]]


CHUNK: dict[str, Any] = {"lengths": [32], "chunk_from": 16}
MISTAKES: list[tuple[str, Any, dict[str, Any]]] = [
    (
        "documents continue the count of the one before: expected 0 at token 5, got 5",
        np.arange(16),
        {"lengths": LENGTHS},
    ),
    ("padding is counted: expected 0 at row 0, token 2, got 2", [range(6)] * 3, {"mask": MASK}),
    ("padding is counted", [0, 1, 2, 3, 0, 1], {"mask": [0, 0, 1, 1, 2, 2]}),
    (
        "padding is counted, and documents continue the count of the one before",
        np.arange(6),
        {"mask": [0, 0, 1, 1, 2, 2]},
    ),
    (
        "the count restarts at the separator, not after it",
        [0, 1, 0, 1, 0, 1, 2],
        {"tokens": TOKENS, "separator": 2},
    ),
    (
        "the count restarts one token late",
        [0, 1, 2, 3, 4, 5, 0, 1],
        {"lengths": [5, 3]},
    ),
    (
        "the count restarts at token 4, where no document begins",
        [0, 1, 2, 3, 0, 1, 2, 3],
        {"lengths": [8]},
    ),
    ("tokens are counted from the end", [4, 3, 2, 1, 0, 2, 1, 0], {"lengths": [5, 3]}),
    ("ids are counted from 1, not from 0", np.array(PACKED) + 1, {"lengths": LENGTHS}),
    ("off by one from token 3 on, too small", [0, 1, 2, 2, 3, 4], {"lengths": [6]}),
    ("off by 7 from token 2 to 3, too large", [0, 1, 9, 10, 4, 5], {"lengths": [6]}),
    (
        "ids were rounded to bfloat16",
        np.arange(600).astype(ml_dtypes.bfloat16),
        {"lengths": [600]},
    ),
    ("ids were rounded to float16", np.arange(3000).astype(np.float16), {"lengths": [3000]}),
    ("all of them are 0, as if nothing were rotated", np.zeros(9, int), {"lengths": [9]}),
    (
        "rows continue the count of the row before",
        np.arange(8).reshape(2, 4),
        {"mask": np.ones((2, 4), int)},
    ),
    ("ids overflow int8", np.arange(200).astype(np.int8), {"lengths": [200]}),
    ("ids overflow uint8", np.arange(300).astype(np.uint8), {"lengths": [300]}),
    ("ids overflow int16", np.arange(40_000).astype(np.int16), {"lengths": [40_000]}),
    ("the two halves of rank 2 are exchanged", [*range(20, 24), *range(8, 12)], CP),
    (
        "rank 2 has the second half of rank 3: expected 20 at token 4, got 16",
        [*range(8, 12), *range(16, 20)],
        CP,
    ),
    (
        "rank 2 has the first half of rank 3 as its second",
        [*range(8, 12), *range(12, 16)],
        {**CP, "rank": 2},
    ),
    ("rank 2 has the first half of rank 0", [*range(4), *range(20, 24)], CP),
    ("rank 2 has the ids of rank 1", zigzag(1, 4, 32), CP),
    ("rank 2 counts its own tokens from 0", range(8), CP),
    ("either the row is divided contiguous, not zigzag, or rank 2 has", range(16, 24), CP),
    ("the row is divided striped, not zigzag", range(2, 32, 4), CP),
    ("either rank 1 has the ids of rank 0, or rank 1 counts its own tokens from 0", range(4), {
        "lengths": [8], "context_parallel": 2, "rank": 1, "scheme": "contiguous"}),
    ("the chunk counts from 0, without its offset of 16", range(16), CHUNK),
    ("the offset of 16 is added twice", range(32, 48), CHUNK),
]  # fmt: skip


def grid(t: int, h: int, w: int, start: int, step: int = 1) -> list[list[int]]:
    """Ids of patches in order, written out."""
    every = [(i, j, k) for i in range(t) for j in range(h) for k in range(w)]
    return [[i * step + start, j + start, k + start] for i, j, k in every]


def with_text(patches: list[list[int]], after: int) -> np.ndarray[Any, Any]:
    before = [[i] * 3 for i in range(3)]
    return np.array([*before, *patches, [after] * 3, [after + 1] * 3]).T


VISION: list[tuple[str, Any, dict[str, Any]]] = [
    (
        "height and width are exchanged",
        with_text([[t, w, h] for t, h, w in grid(1, 2, 3, 3)], 6),
        IMAGE,
    ),
    (
        "ids are those of the grid with height and width exchanged",
        with_text(grid(1, 3, 2, 3), 6),
        IMAGE,
    ),
    ("time and width are exchanged", with_text([g[::-1] for g in grid(1, 2, 3, 3)], 6), IMAGE),
    (
        "time and height are exchanged",
        with_text([[h, t, w] for t, h, w in grid(1, 2, 3, 3)], 6),
        IMAGE,
    ),
    ("patches are counted like text, on all axes", np.tile(np.arange(11), (3, 1)), IMAGE),
    ("grids begin with 0", with_text(grid(1, 2, 3, 0), 6), IMAGE),
    (
        "text goes on after a grid from the count of its tokens",
        with_text(grid(1, 2, 3, 3), 9),
        IMAGE,
    ),
    (
        "text goes on after a grid from its largest id, as in vLLM and Transformers 4, not from",
        with_text(grid(3, 1, 2, 3, step=4), 12),
        {**VIDEO, "stack": "transformers"},
    ),
    (
        "frames are counted from 1",
        with_text([[t + 1, h, w] for t, h, w in grid(3, 1, 2, 3, step=4)], 5),
        VIDEO,
    ),
    ("ids are those of qwen2-vl, not of qwen2.5-vl", with_text(grid(3, 1, 2, 3), 5), VIDEO),
    (
        "off by one from token 9 on, too large",
        with_text(grid(1, 2, 3, 3), 7),
        IMAGE,
    ),
]


@pytest.mark.slow
def test_ids_rounded_to_float32_are_named() -> None:
    ids = np.arange(2**24 - 2, 2**24 + 6).astype(np.float32)
    found = ropecli.positions(ids, chunk_from=2**24 - 2)
    assert str(found.cause).startswith("ids were rounded to float32")


@pytest.mark.parametrize(
    ("sentence", "ids", "asked"), [*MISTAKES, *VISION], ids=[m[0] for m in [*MISTAKES, *VISION]]
)
def test_cause_is_named(sentence: str, ids: Any, asked: dict[str, Any]) -> None:
    found = ropecli.positions(ids, **asked)
    assert not found.passed
    assert str(found.cause).startswith(sentence)


def test_a_little_off_far_from_0_is_not_a_factor() -> None:
    ids = 10**6 + np.arange(8) + np.array([0, 1, 0, -1, 2, 0, 1, 0])
    assert ropecli.positions(ids, chunk_from=10**6).cause is None


def test_unknown_mistake_has_no_cause() -> None:
    found = ropecli.positions([0, 1, 5, 3, 2], lengths=[5])
    assert found.cause is None
    assert found.first_wrong is not None
    assert (found.wrong, found.first_wrong.token, found.first_wrong.got) == (2, 2, 5)
    assert "no mistake that is known" in str(found)


def test_wrong_tokens_are_counted_by_document() -> None:
    ids = np.array([PACKED, PACKED])
    ids[1, 6] = 9
    found = ropecli.positions(ids, mask=np.tile([1] * 5 + [2] * 3 + [3] * 8, (2, 1)))
    assert found.wrong_in.tolist() == [0, 0, 0, 0, 1, 0]
    assert found.first_wrong is not None
    assert (found.first_wrong.row, found.first_wrong.token) == (1, 6)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "nothing says what the rows hold"),
        ({"lengths": [4], "mask": [1]}, "one thing says where documents are, got lengths and mask"),
        ({"lengths": []}, "lengths must add up to 1 to 2^32 tokens, got 0 of 0"),
        ({"lengths": [3, 0]}, "lengths must be at least 1, got 0"),
        ({"cu_seqlens": [1, 3]}, "cu_seqlens must be one row that begins with 0, got 1 first"),
        ({"cu_seqlens": [0, 3, 2]}, "cu_seqlens must rise, got 3 before 2 at index 2"),
        ({"mask": [0, 0]}, "mask must have a token that is not padding, got 0 everywhere"),
        ({"mask": [0, 2]}, "mask must be 0 and 1, or 0 and the numbers of documents"),
        ({"mask": [1, 2, 1]}, "in order, got 1 at row 0, token 2"),
        ({"mask": [0.5]}, "mask must be whole numbers, got 0.5 at index 0"),
        ({"tokens": [1]}, "tokens need the separator"),
        ({"lengths": [4], "rank": 1}, "rank has no effect without context_parallel"),
        ({"lengths": [4], "scheme": "zigzag"}, "scheme has no effect without context_parallel"),
        ({"lengths": [4], "chunk_to": 2}, "chunk_to has no effect without chunk_from"),
        ({"lengths": [4], "text": [2]}, "text has no effect without grids"),
        ({"lengths": [4], "separator": 2}, "separator has no effect without tokens"),
        ({"grids": [[1, 2, 2]]}, "grids need mrope"),
        ({"grids": [[1, 2]], "mrope": "glm4v"}, "grid must be time, height and width, got [1, 2]"),
        ({"grids": [[1, 3, 2]], "mrope": "glm4v"}, "must be multiples of 2"),
        ({"grids": [[2, 2, 2]], "mrope": "glm4v"}, "glm4v has a time stamp before each frame"),
        ({"grids": [[3, 2, 2]], "mrope": "ernie4.5-vl"}, "must be a multiple of 2"),
        ({"grids": [[2, 4, 4]], "mrope": "minicpm-v"}, "each frame of minicpm-v is a grid of"),
        ({"grids": [[1, 4, 4, 1, 2]], "mrope": "minicpm-v"}, "height and width of slices, got 5"),
        ({"grids": [[1, 4, 4, -1]], "mrope": "minicpm-v"}, "newlines must be at least 0, got -1"),
        ({"grids": [[1, 4, 4, 0, 0, 1, 4, 4]], "mrope": "minicpm-v"}, "slices must be at least 1"),
        ({"grids": [[1, 4, 4, 0, 1, 1, 4, 6]], "mrope": "minicpm-v"}, "must be multiples of 4"),
        ({"grids": [[1, 2, 2, 0]], "mrope": "qwen2-vl"}, "grid must be time, height and width"),
        ({"grids": [[1, 2, 2]], "mrope": "x"}, "mrope must be one of qwen2-vl"),
        ({**IMAGE, "text": [1, 1, 1]}, "text must have at most 2 lengths"),
        ({"grids": [], "mrope": "glm4v"}, "grids and text must have at least one token, got none"),
        ({"lengths": [4], "context_parallel": 2}, "context_parallel needs the rank"),
        ({"lengths": [4], "context_parallel": 2, "rank": 2}, "rank must be from 0 to 1, got 2"),
        ({**CP, "lengths": [30]}, "a row must divide into 8 pieces for 4 ranks (zigzag), got 30"),
        ({**CP, "chunk_from": 2}, "context_parallel and chunk_from cannot be combined"),
        ({"lengths": [4], "chunk_from": 4}, "chunk must be within the row's 4 tokens, got 4 to 4"),
        ({"ids": [0, 1], "lengths": [3]}, "ids must have shape (1, 3) or (3,), got (2,)"),
        ({"ids": [0, 0.5]}, "ids must be whole numbers, got 0.5 at index 1"),
        ({"ids": 3}, "ids must have shape (tokens,) or (rows, tokens) without grids, got ()"),
        ({"ids": [[0, 1]], **IMAGE}, "ids must have shape (3, 1, 11) or (3, 11), got (1, 2)"),
    ],
)
def test_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        ropecli.positions(**asked)
    assert message in str(caught.value)
