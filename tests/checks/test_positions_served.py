"""Position ids as trainers and engines have them: what nobody says is tried, named, or asked."""

from __future__ import annotations

import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packed_rows import CP, IMAGE, LENGTHS, PACKED, VIDEO

import ropecli
from ropecli import ArgumentError

RANK: dict[str, Any] = {"context_parallel": 2, "rank": 0, "scheme": "zigzag"}
TWO: dict[str, Any] = {"lengths": [4, 4], **RANK}


@pytest.mark.parametrize(
    ("ids", "reading"),
    [([0, 3, 0, 3], "each document is divided"), ([0, 1, 2, 3], "the row is divided")],
)
def test_ranks_share_documents_or_the_row(ids: list[int], reading: str) -> None:
    found = ropecli.positions(ids, **TWO)
    assert found.passed
    assert found.reading == reading
    other = {"each document is divided": "row", "the row is divided": "documents"}[reading]
    judged = ropecli.positions(ids, **TWO, divide=other)
    assert reading.replace(" is divided", " is divided, not ") in str(judged.cause)
    named = {"row": "documents", "documents": "row"}[other]
    alone = ropecli.positions(ids, **TWO, divide=named)
    assert alone.passed
    assert alone.reading is None
    assert judged.scores_change is None  # other ranks have the rest of each document


def test_chunks_of_the_row_are_the_usual_ones_where_ranks_are_not_balanced() -> None:
    found = ropecli.positions(lengths=[4, 4], context_parallel=2, rank=0)
    assert found.ids.tolist() == [0, 1, 2, 3]
    assert found.reading == "the row is divided"


def test_documents_that_count_on_are_named_where_each_is_divided() -> None:
    found = ropecli.positions([0, 3, 4, 7], **TWO)
    assert found.cause == (
        "documents continue the count of the one before: expected 0 at token 2, got 4"
    )


def test_the_reading_that_has_a_cause_is_named() -> None:
    share: dict[str, Any] = {"context_parallel": 4, "rank": 1, "scheme": "zigzag"}
    one = ropecli.positions(lengths=[96], **share).ids
    found = ropecli.positions(one, lengths=[16, 32, 48], **share)
    assert str(found.cause).startswith("documents continue the count of the one before")
    assert found.reading == "the row is divided"


def test_documents_that_do_not_divide_leave_the_row() -> None:
    found = ropecli.positions(lengths=[5, 3], **RANK)
    assert found.ids.tolist() == [0, 1, 1, 2]
    with pytest.raises(ArgumentError, match="a document must divide into 4 pieces for 2 ranks"):
        ropecli.positions(lengths=[5, 3], **RANK, divide="documents")


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=4),
    st.integers(1, 3),
    st.sampled_from(["contiguous", "zigzag", "striped"]),
    st.sampled_from(["documents", "row"]),
)
def test_ranks_have_every_token_once(
    sizes: list[int], ranks: int, scheme: str, divide: str
) -> None:
    lengths = [2 * ranks * size for size in sizes]
    whole = [i for length in lengths for i in range(length)]
    shares = [
        ropecli.positions(
            lengths=lengths, context_parallel=ranks, rank=rank, scheme=scheme, divide=divide
        ).ids.tolist()
        for rank in range(ranks)
    ]
    assert sorted(i for share in shares for i in share) == sorted(whole)
    assert {len(share) for share in shares} == {len(whole) // ranks}


CAUSES: list[tuple[str, Any, dict[str, Any]]] = [
    (
        "the count goes on over token 8, where a document begins",
        [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        {"lengths": LENGTHS},
    ),
    (
        "the count goes on over token 8, where a document begins, and the count restarts at "
        "token 12, where no document begins",
        [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3],
        {"lengths": LENGTHS},
    ),
    ("ids are the numbers of the documents, counted from 0", [0] * 5 + [1] * 3 + [2] * 8, {
        "lengths": LENGTHS}),
    ("ids are the numbers of the documents, counted from 1", [1] * 5 + [2] * 3 + [3] * 8, {
        "lengths": LENGTHS}),
    ("ids are held at 5, the largest", np.minimum(PACKED, 5), {"lengths": LENGTHS}),
    (
        "ids are counted from 1, not from 0 (document 0); tokens are counted from the end "
        "(document 1): expected 0 at row 0, token 0, got 1",
        [[1, 2, 3, 4], [3, 2, 1, 0]],
        {"mask": np.ones((2, 4), int)},
    ),
    (
        "off by 9 from token 0 to 2, too large (document 0); "
        "positions are multiplied by 2 (document 2)",
        [9, 10, 11, 0, 1, 0, 2, 4, 6],
        {"lengths": [3, 2, 4]},
    ),
    (
        "either the chunk counts from 0, without its offset of 17, or tokens are counted from "
        "the end, or 1 more: expected 17 at token 0, got 0",
        [0],
        {"chunk_from": 17},
    ),
    (
        "either the chunk is counted one token too far, or ids are counted from 1, not from 0",
        [18],
        {"chunk_from": 17},
    ),
    ("the chunk is counted one token too early", [16, 17], {"chunk_from": 17}),
    ("off by 14, too small", [3], {"chunk_from": 17}),
]  # fmt: skip


def of_video(time: list[int], after: int) -> Any:
    """Ids of `VIDEO`, of which each frame has one row of two tokens."""
    before = [[i] * 3 for i in range(3)]
    patches = [[t, 3, 3 + k] for t in time for k in range(2)]
    return np.array([*before, *patches, [after] * 3, [after + 1] * 3]).T


VIDEO_CAUSES: list[tuple[str, Any, dict[str, Any]]] = [
    ("frames begin at the count so far times their step", [12, 16, 20], VIDEO),
    ("seconds are not passed, so that a step is one second", [3, 5, 7], VIDEO),
    ("fractions of seconds are cut", [3, 5, 7], {**VIDEO, "seconds": 1.5}),
]


@pytest.mark.parametrize(("sentence", "ids", "asked"), CAUSES, ids=[each[0] for each in CAUSES])
def test_cause_is_named(sentence: str, ids: Any, asked: dict[str, Any]) -> None:
    found = ropecli.positions(ids, **asked)
    assert not found.passed
    assert str(found.cause).startswith(sentence)


@pytest.mark.parametrize(("sentence", "time", "asked"), VIDEO_CAUSES)
def test_cause_of_a_video_is_named(sentence: str, time: list[int], asked: dict[str, Any]) -> None:
    assert sentence in str(ropecli.positions(of_video(time, 5), **asked).cause)


def test_ids_alone_are_asked_about() -> None:
    """A packed row is not wrong because nobody says where documents begin."""
    found = ropecli.positions(PACKED)
    assert found.assumed
    assert found.passed
    assert "3 runs that start at 0: packed right if documents begin at tokens 0, 5, 8" in str(found)
    one = ropecli.positions(np.arange(4))
    assert one.assumed
    assert "4 ids that count from 0 in 1 row: right if the row is one document" in str(one)
    chunk = ropecli.positions([[2, 3, 4]] * 2)
    assert chunk.assumed
    assert "6 ids that count from 2: right if this is a chunk from there on" in str(chunk)
    assert not ropecli.positions([0, 1, 3, 4]).assumed
    decoded = ropecli.positions([[17], [3], [9]])
    assert decoded.assumed
    assert "3 ids that count from 3, 9, 17: right if each row is a chunk" in str(decoded)
    packed = ropecli.positions([3, 4, 0, 1, 2])
    assert packed.assumed
    assert "2 runs that start at 0, but for the first, at 3: right if this is a chunk" in str(
        packed
    )
    assert not ropecli.positions(PACKED, lengths=LENGTHS).assumed


@pytest.mark.parametrize("scheme", ["zigzag", "striped"])
@pytest.mark.parametrize(("rank", "ranks"), [(0, 2), (1, 3), (3, 4)])
def test_ids_of_a_rank_alone_are_asked_about(scheme: str, rank: int, ranks: int) -> None:
    share: dict[str, Any] = {"context_parallel": ranks, "rank": rank, "scheme": scheme}
    ids = ropecli.positions(lengths=[8 * ranks], **share).ids
    found = ropecli.positions(ids)
    assert found.assumed
    if scheme == "zigzag" and rank == ranks - 1:
        assert "8 ids that count from" in str(found)  # its two chunks are neighbours
    else:
        assert found.reading == f"rank {rank} of {ranks} of a row ({scheme})"
    ids[-1] += 1
    assert not ropecli.positions(ids).assumed


@pytest.mark.parametrize("dtype", ["float32", ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    ("points", "says"),
    [
        (PACKED, "3 runs that start at 0: packed right if documents begin at tokens 0, 5, 8"),
        (None, "11 positions that differ between axes: right if images explain them"),
    ],
)
def test_vectors_of_several_axes_are_asked_about(points: Any, says: str, dtype: Any) -> None:
    """Right vectors of M-RoPE do not fail because nobody says what the rows hold."""
    rope = ropecli.rope("default", head_dim=128, rope_theta=1e6, mrope_section=[16, 24, 24])
    ids = ropecli.positions(**IMAGE).ids.T if points is None else np.tile(points, (3, 1)).T
    x = np.random.default_rng(0).standard_normal((4, len(ids), 128)).astype(dtype)
    found = ropecli.recover_positions(rope, x, ropecli.rotate(x, rope, ids))
    judged = ropecli.positions(found)
    assert judged.assumed
    assert judged.passed
    assert str(judged).startswith(says)
    strict = ropecli.positions(found, all_shown=True)
    assert strict.passed is (dtype == "float32")
    assert str(strict).startswith("FAIL  right where shown") is not strict.passed


def test_vectors_of_padding_that_are_0_are_asked_about() -> None:
    rope, x = ropecli.Rotary(head_dim=64), np.random.default_rng(0).standard_normal((1, 4, 9, 64))
    x[:, :, :3] = 0
    y = ropecli.rotate(x, rope, np.maximum(np.arange(9) - 3, 0))
    judged = ropecli.positions(ropecli.recover_positions(rope, x, y))
    assert judged.assumed
    assert judged.counted.tolist() == [[False] * 3 + [True] * 6]


def test_fractions_that_are_cut_are_named() -> None:
    asked: dict[str, Any] = {"grids": [[3, 4, 4]], "mrope": "qwen3-omni", "seconds": 0.33}
    found = ropecli.positions(np.floor(ropecli.positions(**asked).ids), **asked)
    assert str(found.cause).startswith("fractions of ids are cut")


def test_vectors_that_nothing_explains_fail_in_rows_that_nobody_described() -> None:
    rope, x = ropecli.Rotary(head_dim=64), np.random.default_rng(0).standard_normal((16, 64))
    y = ropecli.rotate(x, rope, np.array(PACKED))
    y[3] = y[3, ::-1]
    judged = ropecli.positions(ropecli.recover_positions(rope, x, y))
    assert str(judged).startswith("FAIL  no position explains the vectors of 1 of 16 positions")


def test_vectors_of_a_packed_row_are_asked_about() -> None:
    """Right vectors do not fail because nobody says where documents begin."""
    rope, x = ropecli.Rotary(head_dim=64), np.random.default_rng(0).standard_normal((4, 16, 64))
    found = ropecli.recover_positions(rope, x, ropecli.rotate(x, rope, np.array(PACKED)))
    judged = ropecli.positions(found)
    assert judged.assumed
    assert judged.passed
    assert "3 runs that start at 0" in str(judged)
    chunk = ropecli.recover_positions(rope, x, ropecli.rotate(x, rope, np.arange(5, 21)))
    assert "16 positions that count from 5" in str(ropecli.positions(chunk))


@pytest.mark.parametrize(
    ("ids", "counted"),
    [
        ([1, 1, 0, 1, 2], [False, False, True, True, True]),
        ([0, 0, 0, 1, 2], [False, False, True, True, True]),
        ([0, 1, 2, 0, 0], [True, True, True, False, False]),
        ([0, 1, 2, 1, 1], [True, True, True, False, False]),
        ([0, 1, 0, 1, 0], [True] * 5),
        ([0], [True]),
        ([-1, -1, 0, 1, 2], [False, False, True, True, True]),
        ([0, 0, 1, 2, 2, 2], [False, True, True, True, False, False]),  # verl's clipped sum
        ([1, 2, 3], [True] * 3),
    ],
)
def test_what_pads_rows_is_not_a_mistake(ids: list[int], counted: list[bool]) -> None:
    found = ropecli.positions(ids)
    assert found.assumed
    assert found.counted.tolist() == [counted]
    assert (not all(counted)) is ("tokens around them are padding" in str(found))


@pytest.mark.parametrize(
    "ids",
    [[0, 0, 0], [1, 1, 1], [0, 1, 1, 2], [0, 1, 2, 9, 9], [3, 1, 2], [-1, -1]],
)
def test_ids_that_no_rows_have_fail(ids: list[int]) -> None:
    found = ropecli.positions(ids)
    assert not found.passed
    assert found.notes == ("assumed: each row is one document",)


@pytest.mark.parametrize(
    ("ids", "change"),
    [
        (np.arange(16), False),
        (np.array(PACKED) + 7, False),
        ([0, 1, 0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7], True),
        (np.array(PACKED) * 2, True),
    ],
)
def test_constants_leave_scores_as_they_are(ids: Any, change: bool) -> None:
    """RoFormer Eq. 16: a score has the difference of two positions of one document."""
    found = ropecli.positions(ids, lengths=LENGTHS)
    assert found.scores_change is change
    rope = ropecli.Rotary(head_dim=8)
    q, k = np.random.default_rng(0).standard_normal((2, 16, 8))
    scores, right = (
        ropecli.rotate(q, rope, at) @ ropecli.rotate(k, rope, at).T
        for at in (np.asarray(ids), np.array(PACKED))
    )
    inside = np.equal.outer(*[np.repeat([0, 1, 2], LENGTHS)] * 2)
    assert bool(np.abs(scores - right)[inside].max() > 1e-9) is change


def test_rows_of_several_lengths_and_their_padding() -> None:
    found = ropecli.positions(lengths=[[2, 3], [4]], row_length=6)
    assert found.ids.tolist() == [[0, 1, 0, 1, 2, 0], [0, 1, 2, 3, 0, 0]]
    assert found.counted.tolist() == [[True] * 5 + [False], [True] * 4 + [False] * 2]
    padded = ropecli.positions([0, 1, 0, 9, 9], cu_seqlens=[0, 2, 3], row_length=5)
    assert padded.passed
    assert padded.tokens == 3


def test_tokens_of_padding_end_no_document() -> None:
    tokens, mask = [[2, 2, 7, 2, 8], [7, 8, 2, 9, 2]], [[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]]
    found = ropecli.positions(tokens=tokens, mask=mask, separator=2)
    assert found.ids.tolist() == [[0, 0, 0, 1, 0], [0, 1, 2, 0, 0]]
    assert found.documents.length.tolist() == [2, 1, 3, 1]
    wrong = [[0, 0, 0, 1, 9], [0, 1, 2, 0, 0]]
    found = ropecli.positions(wrong, tokens=tokens, mask=mask, separator=2)
    assert found.wrong_in.tolist() == [0, 1, 0, 0]


def test_documents_may_be_numbered_from_0() -> None:
    found = ropecli.positions(seq_idx=[0, 0, 1, 1, 1, -1])
    assert found.ids.tolist() == [0, 1, 0, 1, 2, 0]
    assert found.counted.tolist() == [[True] * 5 + [False]]
    assert ropecli.positions(mask=[0, 0, 1, 1, 2]).notes == (
        "0 in the mask is padding; documents that are numbered from 0 are seq_idx",
    )
    assert ropecli.positions(mask=[0, 0, 1, 1]).notes == ()
    assert ropecli.positions(mask=[0, 1, 2, 0]).notes == ()
    note = ropecli.positions(mask=[0, 0, 1, 1, 2]).notes
    assert ropecli.positions([0, 1, 2, 0, 1], mask=[0, 0, 0, 1, 1]).notes == note
    assert ropecli.positions([0, 0, 0, 0, 1], mask=[0, 0, 0, 1, 1]).notes == ()
    assert ropecli.positions([0, 0, 1], mask=[0, 1, 1]).notes == ()
    hole = ropecli.positions([0, 1, 5, 0, 9], seq_idx=[4, 4, -1, 5, 5])
    assert hole.wrong_in.tolist() == [0, 1]


PACKED_IMAGES: dict[str, Any] = {
    "grids": [[1, 4, 6], [1, 2, 2]],
    "text": [[3, 2], [1, 2]],
    "mrope": "qwen2-vl",
}


def test_samples_with_images_are_packed() -> None:
    first = ropecli.positions(**IMAGE).ids
    second = ropecli.positions(grids=[[1, 2, 2]], text=[1, 2], mrope="qwen2-vl").ids
    both = np.concatenate([first, second], axis=1)
    assert ropecli.positions(**PACKED_IMAGES).ids.tolist() == both.tolist()
    batch = ropecli.positions(**PACKED_IMAGES, lengths=[[11], [4]])
    assert batch.ids[:, 0].tolist() == first.tolist()
    assert batch.ids[:, 1, :4].tolist() == second.tolist()
    joined = ropecli.positions(grids=PACKED_IMAGES["grids"], text=[3, 3, 2], mrope="qwen2-vl").ids
    found = ropecli.positions(joined, **PACKED_IMAGES)
    assert str(found.cause).startswith("documents continue the count of the one before")
    found = ropecli.positions(np.stack([np.arange(15), *joined]), **PACKED_IMAGES)
    assert str(found.cause).startswith("documents continue the count of the one before")


def test_seconds_of_each_video() -> None:
    grids = [[2, 2, 2], [2, 2, 2]]
    found = ropecli.positions(grids=grids, text=[0, 1], seconds=[1, 2.5], mrope="qwen2.5-vl")
    assert found.ids[0].tolist() == [0, 2, 1, 2, 7]
    assert found.notes == ("assumed: 2 ids in a second, as no configuration says it",)


def test_missing_keys_have_the_default_of_the_class() -> None:
    """4 in Qwen2.5-VL's class, where released files say 2."""
    made = ropecli.positions(grids=[[2, 2, 2]], mrope="qwen2.5-vl", config={"vision_config": {}})
    assert made.ids[0].tolist() == [0, 4]
    assert made.notes == ("assumed: 1 second between steps in time, as no seconds are given",)


def test_ids_in_a_second_that_nobody_says_fail_nothing() -> None:
    """Released files say 2, and a file without the key has the 4 of its class."""
    video = {**VIDEO, "grids": [[3, 2, 4]], "seconds": 1.5}
    for rate, reading in ((2, None), (4, "4 ids in a second")):
        config = {"vision_config": {"tokens_per_second": rate}}
        ids = ropecli.positions(**video, config=config).ids
        found = ropecli.positions(ids, **video)
        assert found.passed
        assert found.reading == reading
        assert found.notes == ("assumed: 2 or 4 ids in a second, as no configuration says it",)
        other = {"vision_config": {"tokens_per_second": 6 - rate}}
        cause = str(ropecli.positions(ids, **video, config=other).cause)
        assert f"a second has {rate} ids, not {6 - rate}" in cause
        assert not ropecli.positions(ids + np.eye(3, ids.shape[1], 4, int), **video).passed


def test_seconds_without_effect_are_said() -> None:
    assert ropecli.positions(**IMAGE, seconds=2).notes == ("seconds have no effect on qwen2-vl",)


def sliced(**asked: Any) -> dict[str, Any]:
    """Return an image of 1 x 2 tokens over two rows of slices, with two newlines after it."""
    return {"grids": [[1, 4, 8, 2, 2, 1, 4, 8]], "text": [0, 1], "mrope": "minicpm-v", **asked}


#: Height and width of the marks, the image, its slices, and the newline between these.
CANVAS = [
    *[(-1, -1), (0, 0), (0, 1), (2, 2)],
    *[(0, 0), (0, 0), (0, 1), (0, 1)],
    (0, 2),
    *[(1, 0), (1, 0), (1, 1), (1, 1)],
]


@pytest.mark.parametrize("before", [0, 1, 5])
def test_slices_are_on_the_canvas_of_their_image(before: int) -> None:
    """The mark in front of an image is outside of the canvas, unless the document begins there."""
    time, height, width = ropecli.positions(**sliced(text=[before, 1])).ids
    expected = [(max(before + h, 0), max(before + w, 0)) for h, w in [*CANVAS, (0, 0), (0, 0)]]
    assert [*zip(height.tolist(), width.tolist(), strict=True)][before:-1] == expected
    assert time.tolist() == [*range(before), *[before] * 15, before + 3]
    assert height[-1] == width[-1] == before + 3


def test_a_configuration_says_how_patches_of_slices_are_merged() -> None:
    for mode, merged in (("16x", 4), ("4x", 2), (None, 4)):
        ids = ropecli.positions(
            grids=[[1, 8, 16]], mrope="minicpm-v", config={"downsample_mode": mode}
        ).ids
        assert ids.shape == (3, 2 + 8 * 16 // merged**2)


@pytest.mark.parametrize(("rows", "canvas", "middle"), [(15, 30, 14), (27, 8, 3)])
def test_an_image_is_stretched_in_float32(rows: int, canvas: int, middle: int) -> None:
    """The row in the middle is at a half, which float64, or counting from 0 alone, rounds up."""
    grid = [1, 4 * rows, 4, 0, 2, 1, 2 * canvas, 4]
    height = ropecli.positions(grids=[grid], mrope="minicpm-v").ids[1, 1 : rows + 1]
    assert height[rows // 2] == middle
    assert height[[0, -1]].tolist() == [0, canvas - 1]


def test_newlines_that_are_counted_or_not_given_are_named() -> None:
    plain = sliced(grids=[[1, 4, 8, 1], [1, 4, 8, 1], [1, 4, 8]], text=[2, 3, 0, 2])
    given = sliced(grids=[[1, 4, 8], [1, 4, 8], [1, 4, 8]], text=[2, 4, 1, 2])
    counted = ropecli.positions(ropecli.positions(**given).ids, **plain)
    assert str(counted.cause).startswith("newlines after images are counted like text")
    one = {"grids": [[1, 4, 8]], "text": [2, 3]}
    with_it = ropecli.positions(**sliced(grids=[[1, 4, 8, 1]], text=[2, 2])).ids
    assert str(ropecli.positions(with_it, **sliced(**one)).cause).startswith(
        "a newline follows each image, which no grid has"
    )


def test_documents_with_slices_that_continue_a_count_are_named() -> None:
    two = sliced(grids=[[1, 4, 8, 1], [1, 4, 8, 0, 1, 2, 4, 4]], text=[[2, 3], [1, 2]])
    ids = ropecli.positions(**{**two, "text": [2, 4, 2]}).ids
    found = ropecli.positions(ids, **two)
    assert str(found.cause).startswith("documents continue the count of the one before")


def test_families_without_slices_are_not_taken_for_one_with_them() -> None:
    """A mistake of time is named after a family whose grids have the same tokens."""
    video = {**VIDEO, "seconds": 1.5}
    causes = str(
        ropecli.positions(ropecli.positions(**VIDEO | {"mrope": "qwen2-vl"}).ids, **video).cause
    )
    assert "qwen2-vl" in causes
    assert "minicpm-v" not in causes


def test_engines_count_on_after_a_video() -> None:
    video = {**VIDEO, "text": [3, 2]}
    right = ropecli.positions(**video).ids
    served = ropecli.positions(**video, stack="vllm").ids
    assert (right[0, -1], served[0, -1]) == (6, 13)
    found = ropecli.positions(served, **video)
    assert found.passed
    assert found.reading == "text goes on from the largest id, as in vLLM and Transformers 4"
    assert not ropecli.positions(served, **video, stack="transformers").passed
    assert not ropecli.positions(right, **video, stack="transformers-4").passed
    assert ropecli.positions(right, **video).reading is None
    assert "; as vllm counts" in str(ropecli.positions(served, **video, stack="vllm"))


def test_text_has_the_same_ids_on_all_axes() -> None:
    """As models with M-RoPE are handed a batch without images."""
    asked: dict[str, Any] = {"mask": [[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]}
    ids = np.tile(ropecli.positions(**asked).ids, (3, 1, 1))
    assert ropecli.positions(ids, **asked).passed
    assert ropecli.positions(ids[:, :1], lengths=[1, 1, 3]).wrong == 0
    ids[1, 0] = np.arange(5)
    found = ropecli.positions(ids, **asked)
    assert str(found.cause).startswith("off by 2 in height from token 2 on, too large")
    assert found.wrong_in.tolist() == [3, 0]


def test_the_size_of_ids_says_how_many_axes_they_have() -> None:
    """4 tokens of 3 axes are not 3 tokens of 4 axes."""
    asked: dict[str, Any] = {"grids": [[1, 4, 2]], "text": [1, 1], "mrope": "qwen2-vl"}
    ids = ropecli.positions(**asked).ids
    assert ids.shape == (3, 4)
    for each in (ids, ids.T, ids[:, None]):
        assert ropecli.positions(each, **asked).passed
    with pytest.raises(ArgumentError, match=r"ids of shape \(4, 4\) have their axes first or last"):
        ropecli.positions(np.stack([np.arange(4), *ids]), **asked)


def test_a_fourth_axis_is_the_text_or_zeros() -> None:
    ids = ropecli.positions(**IMAGE).ids
    with_text = np.stack([np.arange(11), *ids])
    assert ropecli.positions(with_text, **IMAGE).passed
    assert ropecli.positions(with_text[:, None], **IMAGE).passed
    wrong = ropecli.positions(with_text + np.array([[1], [0], [0], [0]]), **IMAGE)
    assert str(wrong.cause).startswith("off by one in text, too large: expected 0 at token 0, text")
    unused = np.stack([*ids, np.zeros(11, int)])
    assert ropecli.positions(unused, **IMAGE).reading == "with a last axis of 0, as in llama.cpp"
    assert ropecli.positions(**IMAGE, stack="llama.cpp").ids.tolist() == unused.tolist()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"ids": np.arange(9).reshape(3, 3), "grids": [], "text": [3], "mrope": "qwen2-vl"},
            "ids of shape (3, 3) have their axes first or last",
        ),
        ({"lengths": [4], "divide": "row"}, "divide has no effect without context_parallel"),
        ({**CP, "divide": "rows"}, "divide must be documents or row, got 'rows'"),
        ({"mask": [1], "row_length": 3}, "row_length has no effect without lengths"),
        ({"lengths": [4], "row_length": 3}, "row_length must be at least 4, got 3"),
        ({"lengths": [4], "stack": "vllm"}, "stack has no effect without grids"),
        ({**IMAGE, "stack": "tgi"}, "stack must be one of transformers"),
        (
            {**IMAGE, "seconds": [1, 2]},
            "seconds must be one number, or one for each of 1 grids, got 2",
        ),
        ({**PACKED_IMAGES, "text": [[3, 2], [1]]}, "text must have a length more than there are"),
        (
            {**PACKED_IMAGES, "lengths": [11, 5]},
            "documents must be as long as their text and grids, 11, 4, got 11, 5 tokens",
        ),
        ({"tokens": [1, 2], "separator": 2, "mask": [1]}, "mask of tokens must be 0 and 1"),
        ({"tokens": [1, 2], "separator": 2, "mask": [1, 2]}, "mask of tokens must be 0 and 1"),
        ({"seq_idx": [-1]}, "seq_idx must have a token that is not padding"),
        (
            {"grids": [[2, 2, 2]], "mrope": "glm-image"},
            "glm-image has images only, so that a grid must have one frame",
        ),
    ],
)
def test_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        ropecli.positions(**asked)
    assert message in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [{"chunk_from": 2**26}, {"context_parallel": 64, "rank": 3, "scheme": "zigzag"}],
)
def test_memory_is_that_of_the_ids(asked: dict[str, Any]) -> None:
    """Of wrong ones too, for which every mistake is made: nothing before a chunk, no other rank."""
    ids = np.arange(16_384) * 3
    ropecli.positions(ids[:128], **asked)
    tracemalloc.start()
    ropecli.positions(ids, **asked)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    row = ids.nbytes * asked.get("context_parallel", 1)
    assert peak < 6 * row + 2**21, f"{peak:,}"
