"""Query and key weights from one layout to the other: bits, heads, the proof, and refusals."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import assert_same_bits, random_array
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from ropecli import ArgumentError, FileError, Permuted, permute, rotate
from ropecli.arrays import DTYPES
from ropecli.files.formats.safetensors import read_header, serialize
from ropecli.files.permute.moves import LAYOUTS, find_moves, old_rows
from ropecli.files.permute.permute import check_permuted
from ropecli.files.permute.proof import PermutationProof, Side, prove
from ropecli.regular import COPY_BYTES
from ropecli.rotary import Rotary

Array = NDArray[Any]
HEADS, KV_HEADS, HEAD_DIM, WIDTH = 4, 2, 8, 6
ATTENTION = "model.layers.0.self_attn."


def layer(dtype: str = "float32", prefix: str = ATTENTION) -> dict[str, Array]:
    """One layer with every kind of tensor that moves, and one that does not."""
    shapes = {
        "q_proj.weight": (HEADS * HEAD_DIM, WIDTH),
        "k_proj.weight": (KV_HEADS * HEAD_DIM, WIDTH),
        "v_proj.weight": (KV_HEADS * HEAD_DIM, WIDTH),
        "q_proj.bias": (HEADS * HEAD_DIM,),
        "k_proj.bias": (KV_HEADS * HEAD_DIM,),
        "q_norm.weight": (HEAD_DIM,),
        "k_norm.weight": (HEAD_DIM,),
    }
    return {
        prefix + name: random_array(*shape, dtype=dtype, seed=seed)
        for seed, (name, shape) in enumerate(shapes.items())
    }


def convert(
    folder: Path, arrays: dict[str, Array], **options: Any
) -> tuple[dict[str, Array], Permuted]:
    given: dict[str, Any] = {"to": "half", "heads": HEADS, "kv_heads": KV_HEADS} | options
    (folder / "in.safetensors").write_bytes(serialize(arrays))
    result = permute(folder / "in.safetensors", folder / "out.safetensors", force=True, **given)
    return load_file(folder / "out.safetensors"), result


def half_of(weight: Array, heads: int) -> Array:
    """Rows of an interleaved weight in halves: the reshape that converters to Transformers use."""
    pairs = weight.reshape(heads, HEAD_DIM // 2, 2, -1).swapaxes(1, 2)
    return np.ascontiguousarray(pairs).reshape(weight.shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_go_where_converters_put_them(dtype: str, tmp_path: Path) -> None:
    arrays = layer(dtype)
    got, result = convert(tmp_path, arrays)
    assert set(got) == set(arrays)
    for name, array in arrays.items():
        heads = KV_HEADS if "k_proj" in name else HEADS if "q_proj" in name else 1
        expected = array if "v_proj" in name else half_of(array, heads)
        assert_same_bits(name, got=got[name], expected=expected)
    by_name = {tensor.name: tensor for tensor in result.tensors}
    assert by_name[f"{ATTENTION}v_proj.weight"].heads is None
    assert by_name[f"{ATTENTION}q_norm.weight"].heads == 1
    assert [t.permuted for t in result.tensors].count(True) == 6
    assert result.written
    assert result.proof.scores == HEADS * 25
    assert 0 < result.proof.max_share < 1


@pytest.mark.parametrize(
    ("query", "key"), [("q_layernorm", "k_layernorm"), ("query_layernorm", "key_layernorm")]
)
def test_norms_move_with_their_projections_under_every_name(
    query: str, key: str, tmp_path: Path
) -> None:
    arrays = {
        name.replace("q_norm", query).replace("k_norm", key): array
        for name, array in layer().items()
    }
    got, _ = convert(tmp_path, arrays)
    for name in (f"{ATTENTION}{query}.weight", f"{ATTENTION}{key}.weight"):
        assert_same_bits(name, got=got[name], expected=half_of(arrays[name], 1))


@given(
    heads=st.sampled_from([(1, 1), (4, 4), (4, 1), (6, 3)]),
    pairs=st.integers(1, 8),
    data=st.data(),
    dtype=st.sampled_from(list(DTYPES)),
    to=st.sampled_from(LAYOUTS),
)
def test_there_and_back_gives_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    heads: tuple[int, int],
    pairs: int,
    data: st.DataObject,
    dtype: str,
    to: str,
) -> None:
    folder = tmp_path_factory.mktemp("x")
    rotated = data.draw(st.integers(1, pairs))
    offset = data.draw(st.integers(0, 2 * (pairs - rotated)))
    width = data.draw(st.integers(1, 5))
    arrays: dict[str, Array] = {}
    for role, count in zip("qk", heads, strict=True):
        rows = count * 2 * pairs
        arrays[f"l.{role}_proj.weight"] = random_array(rows, width, dtype=dtype)
        if data.draw(st.booleans()):
            arrays[f"l.{role}_proj.bias"] = random_array(rows, dtype=dtype)
        shape = data.draw(st.sampled_from([None, (2 * pairs,), (count, 2 * pairs), (rows,)]))
        if shape is not None:
            arrays[f"l.{role}_norm.weight"] = random_array(*shape, dtype=dtype)
    paths = [folder / f"{name}.safetensors" for name in ("a", "b", "c")]
    paths[0].write_bytes(serialize(arrays))
    sizes: dict[str, Any] = {
        "heads": heads[0],
        "kv_heads": heads[1],
        "rotary_dim": 2 * rotated,
        "rotary_offset": offset,
    }
    for source, target, layout in zip(
        paths, paths[1:], (to, LAYOUTS[1 - LAYOUTS.index(to)]), strict=False
    ):
        assert permute(source, target, to=layout, **sizes).written
    assert paths[2].read_bytes() == paths[0].read_bytes()
    if rotated > 1:
        assert paths[1].read_bytes() != paths[0].read_bytes()


@given(
    pairs=st.integers(1, 32), to=st.sampled_from(LAYOUTS), rest=st.integers(0, 8), data=st.data()
)
def test_moved_rows_turn_as_the_old_did(
    pairs: int, to: str, rest: int, data: st.DataObject
) -> None:
    head_dim = 2 * pairs + 2 * rest
    offset = data.draw(st.integers(0, 2 * rest))
    place: dict[str, Any] = {"rotary_dim": 2 * pairs, "rotary_offset": offset}
    rows = old_rows(head_dim, to=to, **place)
    x = random_array(3, head_dim, dtype="float64")
    old = Rotary(head_dim=head_dim, layout=LAYOUTS[1 - LAYOUTS.index(to)], **place)
    new = Rotary(head_dim=head_dim, layout=to, **place)
    # The same arithmetic on the same numbers, elsewhere.
    assert_same_bits("rows", got=rotate(x[:, rows], new), expected=rotate(x, old)[:, rows])


@pytest.mark.parametrize("shape", [(HEADS, HEAD_DIM), (HEADS * HEAD_DIM,)])
def test_norms_of_each_head_and_across_heads(shape: tuple[int, ...], tmp_path: Path) -> None:
    arrays = layer() | {f"{ATTENTION}q_norm.weight": random_array(*shape)}
    got, result = convert(tmp_path, arrays)
    expected = half_of(arrays[f"{ATTENTION}q_norm.weight"], HEADS)
    assert_same_bits("q_norm", got=got[f"{ATTENTION}q_norm.weight"], expected=expected)
    assert result.written


def test_metadata_order_and_other_bytes_are_kept(tmp_path: Path) -> None:
    arrays = layer() | {"experts": random_array(3).astype(ml_dtypes.bfloat16), "i": np.arange(2)}
    source, target = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    save_file(arrays, source, metadata={"format": "pt", "who": "me"})
    permute(source, target, to="half", heads=HEADS, kv_heads=KV_HEADS)
    before, after = source.read_bytes(), target.read_bytes()
    start = 8 + int.from_bytes(before[:8], "little")
    assert before[:start] == after[:start]
    assert len(before) == len(after)


def test_tensors_of_other_dtypes_are_copied(tmp_path: Path) -> None:
    import json
    import struct

    arrays = layer() | {"scale": np.arange(2)}
    content = serialize(arrays)
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    header["scale"] |= {"dtype": "F8_E4M3", "shape": [16]}
    text = json.dumps(header).encode()
    source, target = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    source.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])
    sizes: dict[str, Any] = {"to": "half", "heads": HEADS, "kv_heads": KV_HEADS}
    assert permute(source, target, **sizes).written
    assert target.read_bytes().endswith(np.arange(2).tobytes())
    with pytest.raises(FileError, match="is neither of a query nor of a key"):
        permute(source, target, force=True, tensors=["*scale*"], **sizes)


def test_other_names_by_globs(tmp_path: Path) -> None:
    arrays = {
        "layers.0.attention.wq.weight": random_array(HEADS * HEAD_DIM, WIDTH),
        "layers.0.attention.wk.weight": random_array(KV_HEADS * HEAD_DIM, WIDTH),
        "encoder.query.weight": random_array(3, WIDTH),
    }
    got, result = convert(tmp_path, arrays, tensors=["*.wq.*", "*.wk.*"])
    moved = {tensor.name for tensor in result.tensors if tensor.permuted}
    assert moved == {name for name in arrays if "wq" in name or "wk" in name}
    name = "layers.0.attention.wk.weight"
    assert_same_bits("wk", got=got[name], expected=half_of(arrays[name], KV_HEADS))


def test_queries_without_keys_are_proven_too(tmp_path: Path) -> None:
    arrays = {name: array for name, array in layer().items() if ".k_" not in name}
    _, result = convert(tmp_path, arrays)
    assert result.written
    assert result.proof.scores == HEADS * 25


def proof_of(folder: Path, before: dict[str, Array], after: dict[str, Array]) -> PermutationProof:
    """Prove that `after`, in halves, has the scores of `before`, interleaved."""
    paths = [folder / "before.safetensors", folder / "after.safetensors"]
    for path, arrays in zip(paths, (before, after), strict=True):
        path.write_bytes(serialize(arrays))
    sizes: dict[str, Any] = {"heads": HEADS, "kv_heads": KV_HEADS}
    with paths[0].open("rb") as old, paths[1].open("rb") as new:
        moves = find_moves(read_header(paths[0], old.fileno()), **sizes)
        sides = [
            Side(
                path=path,
                fd=stream.fileno(),
                rope=Rotary(head_dim=HEAD_DIM, layout=layout),
                rows=rows,
            )
            for path, stream, layout, rows in (
                (paths[0], old, "interleaved", np.arange(HEAD_DIM)),
                (paths[1], new, "half", old_rows(HEAD_DIM, to="half")),
            )
        ]
        return prove(moves, *sides, **sizes, seed=0)


def reorder_rows(arrays: dict[str, Array], rows: Array) -> dict[str, Array]:
    """All that moves, with each head's rows in the given order."""
    return {
        name: array
        if "v_proj" in name
        else array.reshape(-1, HEAD_DIM, *array.shape[1:])[:, rows].reshape(array.shape)
        for name, array in arrays.items()
    }


ROWS = old_rows(HEAD_DIM, to="half")


@pytest.mark.parametrize(
    "rows",
    [np.arange(HEAD_DIM)[::-1], np.arange(HEAD_DIM), old_rows(HEAD_DIM, to="interleaved")],
    ids=["reversed", "as they were", "the other direction"],
)
@pytest.mark.parametrize("norms", [True, False])
def test_wrong_rows_are_not_proven(rows: Array, norms: bool, tmp_path: Path) -> None:
    arrays = {name: a for name, a in layer().items() if norms or "norm" not in name}
    assert proof_of(tmp_path, arrays, reorder_rows(arrays, rows)).max_share > 1e6


@pytest.mark.parametrize("part", ["q_proj.weight", "k_proj.bias", "q_norm.weight"])
def test_one_tensor_left_behind_is_not_proven(part: str, tmp_path: Path) -> None:
    after = reorder_rows(layer(), ROWS)
    after[ATTENTION + part] = layer()[ATTENTION + part]
    assert not proof_of(tmp_path, layer(), after).holds


def test_nothing_is_written_without_a_proof(tmp_path: Path) -> None:
    arrays = layer()
    arrays[f"{ATTENTION}q_proj.weight"][3, 2] = np.nan
    (tmp_path / "in.safetensors").write_bytes(serialize(arrays))
    begin = time.perf_counter()
    result = permute(
        tmp_path / "in.safetensors",
        tmp_path / "out.safetensors",
        to="half",
        heads=HEADS,
        kv_heads=KV_HEADS,
    )
    assert 0 < result.seconds < time.perf_counter() - begin
    assert np.isnan(result.proof.max_score_error)
    assert not result.written
    assert {path.name for path in tmp_path.iterdir()} == {"in.safetensors"}


def test_little_memory_is_taken(tmp_path: Path) -> None:
    import tracemalloc

    arrays = {f"l.{r}_proj.weight": random_array(64 * HEAD_DIM, 2048) for r in "qk"}
    arrays["other"] = random_array(1 << 21)
    (tmp_path / "in.safetensors").write_bytes(serialize(arrays))
    size = (tmp_path / "in.safetensors").stat().st_size
    del arrays
    tracemalloc.start()
    permute(tmp_path / "in.safetensors", tmp_path / "out.safetensors", to="half", heads=64, seed=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A block of copying, twice for the joining of its parts, and a head's rows as float64 thrice.
    assert peak < 3 * COPY_BYTES < size


# Refusals.


def test_what_is_refused(tmp_path: Path) -> None:
    def assert_refused(match: str, arrays: dict[str, Array], **options: Any) -> None:
        with pytest.raises((FileError, ArgumentError), match=match) as caught:
            convert(tmp_path, arrays, **options)
        assert len(str(caught.value).splitlines()) == 1
        assert not (tmp_path / "out.safetensors").exists()

    q, k = f"{ATTENTION}q_proj.weight", f"{ATTENTION}k_proj.weight"
    plain = {name: layer()[name] for name in (q, k)}
    assert_refused("has 32 rows, which 5 heads do not divide", plain, heads=5, kv_heads=5)
    assert_refused(
        "k_proj.weight has shape .*, but 4 key heads of 8 have 32 rows", plain, kv_heads=4
    )
    assert_refused("q_proj.weight has shape .*, but 4 query heads of 16", plain, head_dim=16)
    for dim in (0, -8, 7):
        assert_refused(
            f"head dim must be an even number of at least 2, got {dim}", plain, head_dim=dim
        )
    assert_refused("heads must be a multiple of kv heads, .* got 4 and 3", plain, kv_heads=3)
    assert_refused("heads must be a multiple of kv heads, .* got 0", plain, heads=0, kv_heads=0)
    assert_refused("layout must be interleaved or half, got 'diagonal'", plain, to="diagonal")
    assert_refused("rotary dim must be an even number of at least 2, got 3", plain, rotary_dim=3)
    assert_refused("within a head of 8, got 8 from row 2", plain, rotary_dim=8, rotary_offset=2)
    assert_refused("within a head of 8, got 10 from row 0", plain, rotary_dim=10)
    assert_refused("no tensor whose name matches nothing", plain, tensors=["nothing"])
    assert_refused("seed must be at least 0, got -1", plain, seed=-1)
    assert_refused(
        "is neither of a query nor of a key",
        {"x.proj.weight": random_array(32, 6)},
        tensors=["*proj*"],
    )
    assert_refused(
        "looks like several projections in one", {"l.qkv_proj.weight": random_array(64, 6)}
    )
    assert_refused(
        "is neither of a query", {"l.query_key_value.w": random_array(64, 6)}, tensors=["*query*"]
    )
    assert_refused(
        "q_proj.weight holds I64, expected F64, F32, F16, BF16; .* quantised weights",
        {q: np.ones((32, 6), int)},
    )
    assert_refused(
        "head dim cannot be inferred from the tensors; pass head_dim",
        {"l.q_norm.weight": random_array(8)},
    )
    assert_refused("shape .4, 8, 6.", plain | {q: random_array(4, 8, 6)}, head_dim=8)
    assert_refused("has shape .8,., but", {"l.q_proj.bias": random_array(8)}, head_dim=8)


def test_names_of_files(tmp_path: Path) -> None:
    (tmp_path / "in.safetensors").write_bytes(serialize(layer()))
    sizes: dict[str, Any] = {"to": "half", "heads": HEADS, "kv_heads": KV_HEADS}
    source, before = tmp_path / "in.safetensors", (tmp_path / "in.safetensors").read_bytes()
    (tmp_path / "link.safetensors").symlink_to(source)
    for target in (source, tmp_path / "link.safetensors"):
        with pytest.raises(FileError, match="the same file"):
            permute(source, target, force=True, **sizes)
    (tmp_path / "there.safetensors").write_text("")
    for name, match in [
        ("there.safetensors", "exists; pass force"),
        ("out.npz", r"cannot write .*: expected a name that ends in \.safetensors"),
        ("none/out.safetensors", "there is no folder"),
    ]:
        with pytest.raises(FileError, match=match):
            permute(source, tmp_path / name, **sizes)
    with pytest.raises(FileError, match="No such file"):
        permute(tmp_path / "none.safetensors", tmp_path / "o.safetensors", **sizes)
    with pytest.raises(FileError, match=r"cannot read .*in\.npz: expected"):
        permute(tmp_path / "in.npz", tmp_path / "o.safetensors", **sizes)
    assert source.read_bytes() == before


# A conversion that was done elsewhere.

SIZES: dict[str, Any] = {"heads": HEADS, "kv_heads": KV_HEADS}


def check_against(folder: Path, arrays: dict[str, Array]) -> Permuted:
    """The verdict on other weights, in another order, as a conversion of those of `layer`."""
    (folder / "in.safetensors").write_bytes(serialize(layer()))
    save_file(
        {name: np.ascontiguousarray(a) for name, a in arrays.items()}, folder / "b.safetensors"
    )
    return check_permuted(folder / "in.safetensors", folder / "b.safetensors", to="half", **SIZES)


def test_a_right_conversion_by_others_is_proven(tmp_path: Path) -> None:
    new, _ = convert(tmp_path, layer())
    result = check_against(tmp_path, dict(reversed(new.items())))
    assert result.proof.holds
    assert {tensor.found for tensor in result.tensors} == {"moved"}
    assert str(result).startswith("PASS")


@pytest.mark.parametrize(
    ("wrong", "found"), [("k_proj.weight", "unmoved"), ("q_proj.weight", "other")]
)
def test_a_wrong_conversion_names_the_tensor(wrong: str, found: str, tmp_path: Path) -> None:
    old = layer()
    new, _ = convert(tmp_path, old)
    name = ATTENTION + wrong
    # Twice is another order of rows than before and than after, since these heads have 8.
    new[name] = old[name] if found == "unmoved" else half_of(new[name], HEADS)
    result = check_against(tmp_path, new)
    assert not result.proof.holds
    assert {t.name: t.found for t in result.tensors if t.found != "moved"} == {name: found}
    text = str(result)
    assert text.startswith("FAIL")
    assert name in text


def test_files_that_cannot_be_a_conversion_are_refused(tmp_path: Path) -> None:
    new, _ = convert(tmp_path, layer())
    name = ATTENTION + "k_norm.weight"
    short = {**new, name: new[name][:4]}
    with pytest.raises(FileError, match=r"must have .*k_norm.weight of \(8,\), got F32 \(4,\)"):
        check_against(tmp_path, short)
    del new[name]
    with pytest.raises(FileError, match=r"k_norm.weight of \(8,\), got none"):
        check_against(tmp_path, new)
