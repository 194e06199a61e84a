"""Untrusted files of PyTorch: damaged ones, and pickles that run code."""

from __future__ import annotations

import collections
import io
import pickletools
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from files.hostile import damage
from helpers import ROOT, run_python

from ropecli.arrays import as_array

Members = dict[str, bytes]  #: Of an archive, by name.

READ = """
import resource, time
from pathlib import Path
import numpy as np
from ropecli import Rotary, encode_file
from ropecli.errors import FileError
from ropecli.files.arrays import read_whole
from ropecli.files.formats.registry import open_source
from files.memory import peak

def arrays(path):
    with open_source(path) as source:
        for name, stored in source.arrays.items():
            if not stored.unreadable and stored.nbytes < 1 << 27:
                yield name, read_whole(source.reader(stored))

rope = Rotary(head_dim=8)
slowest, read, written = 0.0, 0, 0
for path in sorted(Path({folder!r}).glob("*.pt")):
    begin = time.process_time()
    try:
        found = dict(arrays(path))
        np.savez(path.with_suffix(".npz"), *found.values(), names=list(found))
        read += 1
        encode_file(path, path.with_suffix(".pth"), rope, tensor="q")
        written += 1
    except FileError as error:
        assert str(error).isprintable(), (path, str(error))
    if written > 1:  # compiling is none of the file's doing
        slowest = max(slowest, time.process_time() - begin)
print(read, written, slowest, peak())
"""


def assert_hostile_files_do_nothing(folder: Path, first: int, count: int) -> str:
    """Assert that files are refused in a line, or read as PyTorch reads them; report how many.

    They are read in a process of its own, which is measured. Its memory is PyTorch's affair.
    """
    __tracebackhide__ = True
    mark = folder / "code ran"
    for seed in range(first, first + count):
        (folder / f"{seed}.pt").write_bytes(hostile(np.random.default_rng(seed), mark))
    ran = run_python(
        READ.format(folder=str(folder)), timeout=1_200, PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}"
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert not mark.exists(), "code ran"
    read, written, slowest, peak = map(float, ran.stdout.split())
    assert 0 < written <= read < count
    assert slowest < 1
    same = sum(_is_read_alike(path) for path in sorted(folder.glob("*.npz")))
    assert same > 0
    assert not mark.exists()
    return (
        f"{read:g} of {count} still readable, {written:g} rotated, {same} read alike by PyTorch; "
        f"the slowest took {slowest:.2f} s, the process {peak:.0f} MiB"
    )


def hostile(random: np.random.Generator, mark: Path) -> bytes:
    """A file that is damaged, or leaves a mark when its pickle is run."""
    members = _sound_members()
    kind = random.integers(6)
    if kind == 0:
        return damage(_archive(members), random)
    if kind == 1:
        members["data.pkl"] = damage(members["data.pkl"], random)
    elif kind == 2:
        members["data.pkl"] = _shuffle(members["data.pkl"], random)
    elif kind == 3:
        name = str(random.choice(["version", "byteorder", "data/0", ".data/serialization_id"]))
        members[name] = b"\x80\x02" + _payload(mark, random) + b"."
    elif kind == 4 and random.integers(4) == 0:
        code = b"\x80\x02" + _payload(mark, random)
        return code + b"." if random.integers(2) else _legacy(code)
    else:
        members["data.pkl"] = _with_payload(members["data.pkl"], mark, random)
    return _archive(members)


def payloads(mark: Path) -> dict[str, bytes]:
    """Operations that leave a mark, and a value, by what runs them."""
    text = _text(str(mark))
    code = _text(f"__import__('os').mkdir({str(mark)!r})")
    return {
        "reduce": b"cposix\nmkdir\n" + text + b"\x85R",
        "imported": b"cos\nmkdir\n" + text + b"\x85R",
        "instance": b"(" + text + b"iposix\nmkdir\n",
        "object": b"(cposix\nmkdir\n" + text + b"o",
        "stack": b"\x8c\x05posix\x8c\x05mkdir\x93" + text + b"\x85R",
        "eval": b"cbuiltins\neval\n" + code + b"\x85R",
        "old eval": b"c__builtin__\neval\n" + code + b"\x85R",
        "partial": b"cfunctools\npartial\n(cposix\nmkdir\n" + text + b"tR)R",
        "map": b"cbuiltins\nlist\ncbuiltins\nmap\ncposix\nmkdir\n" + text + b"\x85\x86R\x85R",
        "set": b"cbuiltins\nset\ncbuiltins\nmap\ncposix\nmkdir\n" + text + b"\x85\x86R\x85R",
        "put": b"cposix\nmkdir\nq\xf9" + text + b"q\xfa0h\xf9h\xfa\x85R",
    }


def _payload(mark: Path, random: np.random.Generator) -> bytes:
    found = list(payloads(mark).values())
    return found[random.integers(len(found))]


def _text(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text.encode())) + text.encode()


def _sound_members() -> Members:
    """The members of a file as PyTorch writes it."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(12, 8, generator=generator)
    structure = collections.OrderedDict(
        q=x,
        parameter=torch.nn.Parameter(x.double()),
        layer={"k": x[1:, ::2], 1: x.bfloat16()},
        state=torch.nn.Linear(2, 2).state_dict(),
        other=[3, 0.5, ("a", None, True), {4, 5}, b"bytes"],
        x=x.to(torch.float8_e4m3fn),
    )
    stream = io.BytesIO()
    torch.save(structure, stream)
    with zipfile.ZipFile(stream) as archive:
        names = archive.namelist()
        return {name.partition("/")[2]: archive.read(name) for name in names}


def _archive(members: Members) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"x/{name}", content)
    return stream.getvalue()


def _legacy(code: bytes) -> bytes:
    """The format before archives: several pickles, the last of which is ours."""
    stream = io.BytesIO()
    torch.save({}, stream, _use_new_zipfile_serialization=False)
    pickles = stream.getvalue().split(b"\x80\x02")[:4]  # nothing, and three of what wrote it
    return b"\x80\x02".join(pickles) + code + b"."


def _operations(data: bytes) -> list[tuple[str, bytes]]:
    """The operations of a pickle, by name, and their bytes."""
    found = list(pickletools.genops(data))
    places = [place for _, _, place in found if place is not None] + [len(data)]
    return [
        (code.name, data[begin:end])
        for (code, _, _), begin, end in zip(found, places, places[1:], strict=False)
    ]


VALUES = {"BINUNICODE", "BININT", "BININT1", "NEWFALSE", "NONE", "EMPTY_TUPLE", "BINGET", "GLOBAL"}


def _with_payload(data: bytes, mark: Path, random: np.random.Generator) -> bytes:
    """A pickle that runs code in place of one of its values, or between two operations."""
    parts = _operations(data)
    code = _payload(mark, random)
    if random.integers(3) == 0:
        parts.insert(int(random.integers(1, len(parts))), ("", code + b"0"))
    else:
        places = [place for place, (name, _) in enumerate(parts) if name in VALUES]
        parts[int(random.choice(places))] = ("", code)
    return b"".join(part for _, part in parts)


def _shuffle(data: bytes, random: np.random.Generator) -> bytes:
    """A pickle of which some operations are left out, doubled or somewhere else."""
    parts = _operations(data)
    for _ in range(random.integers(1, 4)):
        here, there = (int(random.integers(1, len(parts) - 1)) for _ in range(2))
        kind = random.integers(3)
        if kind == 0:
            del parts[here]
        elif kind == 1:
            parts.insert(here, parts[there])
        else:
            parts[here], parts[there] = parts[there], parts[here]
    return b"".join(part for _, part in parts)


def _is_read_alike(path: Path) -> bool:
    """Return whether PyTorch reads the file too; then it must read the same."""
    __tracebackhide__ = True
    try:
        found = torch.load(path.with_suffix(".pt"), weights_only=True)
    # What it was seen to raise for damaged files has no common base below Exception.
    except Exception:
        return False
    tensors = dict(_tensors(found, ""))
    with np.load(path) as arrays:
        for number, name in enumerate(arrays["names"]):
            got, expected = arrays[f"arr_{number}"], as_array(name, tensors[name].resolve_neg())
            assert got.shape == expected.shape, f"{path}: {name}"
            assert got.tobytes() == np.ascontiguousarray(expected).tobytes(), f"{path}: {name}"
    return True


def _tensors(found: Any, name: str) -> Any:
    if isinstance(found, torch.Tensor):
        yield name, found.detach()
    elif isinstance(found, dict):
        for key, value in found.items():
            yield from _tensors(value, f"{name}.{key}" if name else str(key))
