"""Files of PyTorch, against PyTorch itself."""

from __future__ import annotations

import collections
import os
import pickle
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from files.folders import names, refusal_of, to_be_rotated
from files.hostile import Payload
from files.hostile_torch import assert_hostile_files_do_nothing, payloads
from helpers import assert_same_bits, soon

from ropecli import Rotary, encode_file, rotate
from ropecli.arrays import as_array
from ropecli.files.arrays import read_whole
from ropecli.files.formats.registry import open_source

pytestmark = pytest.mark.oracle

ROPE = Rotary(head_dim=8)
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def random_tensor(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def quantize(x: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings(action="ignore"):  # PyTorch is about to give them up
        return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)


def assert_rotated(got: torch.Tensor, before: torch.Tensor) -> None:
    __tracebackhide__ = True
    expected = rotate(as_array("before", before), ROPE)
    assert_same_bits("the tensor", got=as_array("got", got), expected=expected)


def test_one_tensor(tmp_path: Path) -> None:
    x = random_tensor(50, 8, dtype=torch.bfloat16)
    torch.save(x, tmp_path / "x.pt")
    encode_file(tmp_path / "x.pt", tmp_path / "y.pth", ROPE)
    assert_rotated(torch.load(tmp_path / "y.pth"), x)
    encode_file(tmp_path / "x.pt", tmp_path / "y.safetensors", ROPE)
    encode_file(tmp_path / "y.safetensors", tmp_path / "z.pt", ROPE, inverse=True)
    assert list(torch.load(tmp_path / "z.pt")) == ["x"]


def test_structure_and_all_else_are_kept(tmp_path: Path) -> None:
    shared = random_tensor(6, 8, seed=9)
    structure = collections.OrderedDict(
        q=random_tensor(50, 8),
        layer={"q": random_tensor(50, 8, dtype=torch.float16), 1: {"q": random_tensor(5, 8)}},
        parameter=torch.nn.Parameter(random_tensor(50, 8)),
        turned=random_tensor(8, 50).t(),
        ids=torch.arange(50),
        float8=random_tensor(5, 8, dtype=torch.float8_e4m3fn),
        within=[random_tensor(5, 8)],
        tied=[shared, shared[1:]],
        epoch=3,
        words=("a", None, True, 0.5),
    )
    torch.save(structure, tmp_path / "x.pt")
    result = encode_file(tmp_path / "x.pt", tmp_path / "y.pt", ROPE, tensor="*q")
    assert [array.name for array in result.arrays] == ["q", "layer.q", "layer.1.q"]
    assert result.kept == ("parameter", "turned", "ids", "float8")
    got = torch.load(tmp_path / "y.pt", weights_only=True)
    assert (type(got), list(got)) == (collections.OrderedDict, list(structure))
    assert_rotated(got["q"], structure["q"])
    assert_rotated(got["layer"]["q"], structure["layer"]["q"])
    assert_rotated(got["layer"][1]["q"], structure["layer"][1]["q"])
    assert isinstance(got["parameter"], torch.nn.Parameter)
    for name in ("parameter", "turned", "ids"):
        assert torch.equal(got[name], structure[name])
    assert torch.equal(got["float8"].view(torch.uint8), structure["float8"].view(torch.uint8))
    assert torch.equal(got["within"][0], structure["within"][0])
    first, second = got["tied"]
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert (got["epoch"], got["words"]) == (3, ("a", None, True, 0.5))
    for name in ("parameter", "turned"):
        encode_file(tmp_path / "x.pt", tmp_path / "z.pt", ROPE, tensor=name, force=True)
        got = torch.load(tmp_path / "z.pt", weights_only=True)
        assert type(got[name]) is type(structure[name])
        assert_rotated(got[name].detach(), structure[name].detach())


@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize("place", ["alone", "next to", "key", "attribute", "within"])
@pytest.mark.parametrize("variable", ["", "1"])
def test_no_code_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_zip: bool, place: str, variable: str
) -> None:
    mark = tmp_path / "code ran"
    x = random_tensor(5, 8)
    structures: dict[str, Any] = {
        "alone": Payload(mark),
        "next to": {"q": x, "other": Payload(mark)},
        "key": {"q": x, (1, Payload(mark)): 2},
        "attribute": collections.OrderedDict(q=x),
        "within": {"q": x, "list": [{"a": (Payload(mark),)}]},
    }
    structures["attribute"]._metadata = Payload(mark)
    path = tmp_path / "x.pt"
    torch.save(structures[place], path, _use_new_zipfile_serialization=is_zip)
    torch.load(path, weights_only=False)
    assert mark.exists(), "the payload must work, or the test proves nothing"
    mark.unlink()
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", variable)
    message = refusal_of(encode_file, path, tmp_path / "y.pt", ROPE, tensor="q")
    assert ("PyTorch refuses its pickle" if is_zip else "not a file of PyTorch 1.6") in message
    assert names(tmp_path) == ["x.pt"]


@pytest.mark.parametrize("name", payloads(Path()))
def test_payloads_leave_their_mark(tmp_path: Path, name: str) -> None:
    mark = tmp_path / "code ran"
    pickle.loads(b"\x80\x02" + payloads(mark)[name] + b".")
    assert mark.exists(), "the payload must work, or hostile files prove nothing"


def test_hostile_files_do_nothing(tmp_path: Path) -> None:
    assert_hostile_files_do_nothing(tmp_path, first=0, count=100)


def test_a_plain_pickle_is_refused(tmp_path: Path) -> None:
    mark = tmp_path / "code ran"
    (tmp_path / "x.pt").write_bytes(pickle.dumps(Payload(mark)))
    refusal_of(to_be_rotated, tmp_path / "x.pt")
    assert not mark.exists()


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_everything_that_a_pickle_may_hold_is_kept(tmp_path: Path) -> None:
    x = random_tensor(5, 8)
    structure: dict[Any, Any] = {
        "q": x,
        "parameter": torch.nn.Parameter(x, requires_grad=False),
        "needs": random_tensor(5, 8).requires_grad_(),
        "sparse": x.to_sparse(),
        "quantized": quantize(x),
        "complex": x.to(torch.complex64).conj(),
        "negative": torch.imag(x.to(torch.complex64).conj()),
        "size": x.shape,
        "dtype": torch.float16,
        "device": torch.device("cpu"),
        "layout": torch.sparse_coo,
        "set": {1, 2},
        "bytes": b"abc",
        "bytearray": bytearray(b"abc"),
        "number": 1 - 2j,
        "long": 2**1_000,
        "counter": collections.Counter("aab"),
        "state": torch.nn.Linear(8, 8).state_dict(),
        ("tuple", 1): x,
        1.5: None,
    }
    structure["attribute"] = x.clone()
    structure["attribute"].note = "by hand"
    torch.save(structure, tmp_path / "x.pt")
    expected = torch.load(tmp_path / "x.pt", weights_only=True)
    encode_file(tmp_path / "x.pt", tmp_path / "y.pt", ROPE, tensor="q")
    got = torch.load(tmp_path / "y.pt", weights_only=True)
    assert list(got) == list(expected)
    assert_rotated(got.pop("q"), x)
    del expected["q"]
    assert got["negative"].is_neg()
    assert got["attribute"].note == "by hand"
    assert got["state"]._metadata == expected["state"]._metadata
    for name, value in expected.items():
        assert type(got[name]) is type(value)
        if isinstance(value, torch.Tensor):
            assert got[name].requires_grad == value.requires_grad
            value, got[name] = value.detach(), got[name].detach()  # noqa: PLW2901
            if value.layout == torch.strided and not value.is_quantized:
                assert torch.equal(got[name], value)
            else:
                assert torch.equal(got[name].to_dense(), value.to_dense())
        elif name != "state":
            assert got[name] == value
    again = tmp_path / "z.pt"
    encode_file(tmp_path / "y.pt", again, ROPE, tensor="q", inverse=True)
    assert list(torch.load(again, weights_only=True)) == list(structure)


@pytest.mark.parametrize("gradient", [True, False])
def test_a_parameter_alone_stays_one(tmp_path: Path, gradient: bool) -> None:
    x = random_tensor(5, 8)
    torch.save(torch.nn.Parameter(x, requires_grad=gradient), tmp_path / "x.pt")
    encode_file(tmp_path / "x.pt", tmp_path / "y.pt", ROPE)
    got = torch.load(tmp_path / "y.pt", weights_only=True)
    assert type(got) is torch.nn.Parameter
    assert got.requires_grad == gradient
    assert_rotated(got.detach(), x)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.int64, torch.uint16, torch.bool], ids=str)
def test_elements_are_what_the_library_reads(tmp_path: Path, dtype: torch.dtype) -> None:
    x = (10 * random_tensor(6, 8)).abs().to(dtype)
    views = {"x": x, "t": x.t(), "s": x[1:, ::3], "e": x[:, :1].expand(6, 5), "n": x[:0]}
    torch.save(views, tmp_path / "x.pt")
    with open_source(tmp_path / "x.pt") as source:
        for name, expected in torch.load(tmp_path / "x.pt").items():
            array = np.ascontiguousarray(as_array(name, expected))
            got = read_whole(source.reader(source.arrays[name]))
            assert_same_bits(name, got=got, expected=array)


def test_output_can_be_mapped_and_checked(tmp_path: Path) -> None:
    structure = {"q": random_tensor(5, 8), "k": random_tensor(7, 8, dtype=torch.float64)}
    torch.save(structure, tmp_path / "x.pt")
    encode_file(tmp_path / "x.pt", tmp_path / "y.pt", ROPE, tensor="*")
    for options in ({"mmap": True}, {"mmap": False}, {"map_location": "meta"}):
        got = torch.load(tmp_path / "y.pt", weights_only=True, **options)
        for name, x in structure.items():
            if got[name].device.type == "meta":
                assert got[name].shape == x.shape
            else:
                assert got[name].data_ptr() % 64 == 0
                assert_rotated(got[name], x)
    with zipfile.ZipFile(tmp_path / "y.pt") as archive:
        assert archive.testzip() is None


@pytest.mark.parametrize(
    ("structure", "words"),
    [
        ({"q": torch.zeros(1, 1).expand(2**40, 8)}, "bytes of memory, expected at most"),
        ({"q": random_tensor(5, 8).to_sparse()}, "not dense"),
        ({"q": torch.imag(torch.zeros(5, 8, dtype=torch.complex64).conj())}, "negated view"),
        ({"q": random_tensor(5, 8, dtype=torch.float8_e5m2)}, "float8_e5m2"),
        ({"q": torch.zeros(5, 8, dtype=torch.complex64)}, "complex64"),
        ({"q": torch.zeros(5, 8, dtype=torch.int64)}, "int64"),
        ({"q": quantize(torch.ones(5, 8))}, "quantized"),
        ({"q": torch.empty(5, 8, device="meta")}, "meta"),
        ({"epoch": 3}, "holds no tensor"),
        ({"a.q": torch.zeros(5, 8), "a": {"q": torch.zeros(5, 8)}}, "duplicate tensor name 'a.q'"),
    ],
)
def test_other_tensors_are_refused(tmp_path: Path, structure: Any, words: str) -> None:
    torch.save(structure, tmp_path / "x.pt")
    with soon():
        assert words in refusal_of(encode_file, tmp_path / "x.pt", tmp_path / "y.pt", ROPE)
    assert names(tmp_path) == ["x.pt"]


def test_dictionary_within_itself_is_refused(tmp_path: Path) -> None:
    structure: dict[str, Any] = {"q": random_tensor(5, 8)}
    structure["again"] = structure
    torch.save(structure, tmp_path / "x.pt")
    assert refusal_of(to_be_rotated, tmp_path / "x.pt")


def twice_in_each(levels: int) -> dict[str, Any]:
    """Dictionaries each of which holds the next twice."""
    structure: dict[str, Any] = {"q": random_tensor(4, 8)}
    for _ in range(levels):
        structure = {"a": structure, "b": structure}
    return structure


def one_in_another(levels: int) -> dict[str, Any]:
    structure: dict[str, Any] = {"q": random_tensor(4, 8)}
    for _ in range(levels):
        structure = {"a": structure}
    return structure


WIDE = {(n,): n for n in range(10_000)}


def test_shared_dictionaries_are_walked_at_each_place(tmp_path: Path) -> None:
    for structure, count in ((twice_in_each(5), 32), (one_in_another(50), 1)):
        torch.save(structure, tmp_path / "x.pt")
        with open_source(tmp_path / "x.pt") as source:
            assert len(source.arrays) == count


@pytest.mark.parametrize(
    "structure",
    [
        twice_in_each(60),
        one_in_another(200),
        {f"{n}{'k' * (1 << 20)}": twice_in_each(4) for n in range(2)},
        dict.fromkeys(range(10000), WIDE),
    ],
    ids=["2^60", "deep", "long names", "entries"],
)
def test_structures_that_take_too_long_are_refused(tmp_path: Path, structure: Any) -> None:
    torch.save(structure, tmp_path / "x.pt")
    with soon():
        said = refusal_of(to_be_rotated, tmp_path / "x.pt")
    assert "too many tensors" in said or "nested more than 100 deep" in said


def test_kept_dictionaries_are_still_shared(tmp_path: Path) -> None:
    layer = {"k": random_tensor(4, 8)}
    torch.save({"a": layer, "q": random_tensor(4, 8), "b": layer}, tmp_path / "x.pt")
    encode_file(tmp_path / "x.pt", tmp_path / "y.pt", ROPE, tensor="q")
    got = torch.load(tmp_path / "y.pt", weights_only=True)
    assert got["a"] is got["b"]


def test_a_shared_tensor_is_rotated_where_it_is_named(tmp_path: Path) -> None:
    layer = {"q": random_tensor(4, 8), "k": random_tensor(5, 8, seed=1)}
    path = tmp_path / "x.pt"
    torch.save({"model": layer, "best": layer}, path)
    result = encode_file(path, tmp_path / "y.pt", ROPE, tensor="model.q")
    assert result.kept == ("model.k", "best.q", "best.k")
    got = torch.load(tmp_path / "y.pt", weights_only=True)
    assert_rotated(got["model"]["q"], layer["q"])
    assert torch.equal(got["best"]["q"], layer["q"])
    assert torch.equal(got["model"]["k"], layer["k"])
    with zipfile.ZipFile(tmp_path / "y.pt") as archive:
        stored = [name for name in archive.namelist() if "/data/" in name]
    assert len(stored) == 3, "kept elements are stored once"
    encode_file(path, tmp_path / "z.pt", ROPE, tensor="*.q")
    assert_rotated(torch.load(tmp_path / "z.pt")["best"]["q"], layer["q"])


def test_two_views_of_the_same_elements(tmp_path: Path) -> None:
    x = random_tensor(5, 8)
    torch.save({"a": x[:4], "b": x[1:]}, tmp_path / "x.pt")
    encode_file(tmp_path / "x.pt", tmp_path / "y.pt", ROPE, tensor="a")
    got = torch.load(tmp_path / "y.pt", weights_only=True)
    assert_rotated(got["a"], x[:4])
    assert torch.equal(got["b"], x[1:])


def test_a_file_that_is_replaced_is_read_as_it_was(tmp_path: Path) -> None:
    x = random_tensor(999, 8)
    torch.save({"q": x}, tmp_path / "x.pt")
    with open_source(tmp_path / "x.pt") as source:
        torch.save({"q": x + 1}, tmp_path / "o.pt")
        (tmp_path / "o.pt").replace(tmp_path / "x.pt")
        got = read_whole(source.reader(source.arrays["q"]))
        assert_same_bits("q", got=got, expected=x.numpy())


def test_a_file_that_shrinks_after_it_was_opened_is_whole(tmp_path: Path) -> None:
    path, x = tmp_path / "x.pt", random_tensor(50_000, 8)
    torch.save(x, path)
    with open_source(path) as source:
        os.truncate(path, 4_000)
        got = read_whole(source.reader(source.arrays[""]))
    assert_same_bits("x", got=got, expected=x.numpy())


def test_lists_too_deep_to_be_saved_are_one_line(tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(600):
        deep = [deep]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        torch.save({"q": random_tensor(5, 8), "deep": deep}, tmp_path / "x.pt")
    finally:
        sys.setrecursionlimit(limit)
    said = refusal_of(encode_file, tmp_path / "x.pt", tmp_path / "y.pt", ROPE)
    assert said.startswith(f"cannot write {tmp_path}/y.pt: ")
    assert names(tmp_path) == ["x.pt"]
