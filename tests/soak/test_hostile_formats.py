"""Hostile files of every format by the thousand: `pytest -s tests/soak/test_hostile_formats.py`.

Each format has a process of its own, whose highest resident set is held against what is allowed.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from files.hostile import (
    MUTATED,
    archive,
    bomb,
    nested_safetensors,
    npy,
    saved_bytes,
)
from helpers import ROOT, run_python

from ropecli.files.formats.safetensors import LONGEST

ALLOWED = 400  #: MiB of a process that reads hostile files.
SOUND = saved_bytes(np.ones((3, 8), "f4"))

MUTATIONS = """
import tempfile, time, warnings
from pathlib import Path
import numpy as np
from files.hostile import MUTATED, assert_refused_or_rotated
from files.memory import peak
warnings.simplefilter("error")
rotated, slowest = 0, 0.0
for seed in range(1_000, 3_000):
    with tempfile.TemporaryDirectory() as folder:
        content = MUTATED[{name!r}](np.random.default_rng(seed))
        begin = time.process_time()
        rotated += assert_refused_or_rotated(Path(folder), {name!r}, content)
        if rotated > 1:  # the first ones compile
            slowest = max(slowest, time.process_time() - begin)
print(rotated, slowest, peak())
"""


@pytest.mark.parametrize("name", MUTATED)
def test_two_thousand_mutations(name: str) -> None:
    done = run_python(
        MUTATIONS.format(name=name), timeout=1_200, PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}"
    )
    assert done.returncode == 0, done.stderr
    rotated, slowest, peak = map(float, done.stdout.split())
    print(  # noqa: T201
        f"{name}: {rotated:g} of 2,000 still readable, the slowest took {slowest:.2f} s, "
        f"the process {peak:.0f} MiB"
    )
    assert 0 < rotated < 1_000
    assert slowest < 1
    assert peak < ALLOWED


def long_index(count: int) -> bytes:
    """Return an archive whose index lists members that do not exist."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, *[0] * 8, 9, *[0] * 6)
    entries = b"".join(entry + f"{number:05x}.npy".encode() for number in range(count))
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, *[count % 65_536] * 2, len(entries), 0, 0)
    return entries + last


def dictionary() -> bytes:
    """An archive with an LZMA member that asks for a dictionary of 4 GiB."""
    content = bytearray(archive({"q.npy": SOUND}, zipfile.ZIP_LZMA))
    place = 30 + len("q.npy") + 4 + 1  # local header, name, version and length, first property
    content[place : place + 4] = struct.pack("<L", 2**32 - 1)
    return bytes(content)


def header_of(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


AXES_END = b'1],"data_offsets":[0,0]}}'


def longest(begin: bytes, part: Callable[[int], bytes], end: bytes) -> bytes:
    """Return the longest header that is read."""
    count = (LONGEST - len(begin) - len(end)) // len(part(LONGEST))
    return header_of(begin + b"".join(part(number) for number in range(count)) + end)


def promise(order: bool, shape: str = "(134217728, 8)") -> bytes:
    return npy(f"{{'descr': '<f8', 'fortran_order': {order}, 'shape': {shape}}}\n", bytes(999))


def stored_zeros() -> bytes:
    """Return the densest archive that is accepted."""
    stream = io.BytesIO()
    np.savez_compressed(stream, q=np.zeros((1 << 20, 8), "f4"))  # 32 MiB
    return stream.getvalue()


GIB = 1 << 30
BOMBS: dict[str, Callable[[], tuple[str, bytes]]] = {
    "deflated": lambda: ("x.npz", bomb(SOUND, zipfile.ZIP_DEFLATED, GIB)),
    "deflated, lying": lambda: (
        "x.npz",
        bomb(SOUND, zipfile.ZIP_DEFLATED, GIB, claimed=len(SOUND)),
    ),
    "bzip2": lambda: ("x.npz", bomb(SOUND, zipfile.ZIP_BZIP2, GIB)),
    "bzip2, lying": lambda: ("x.npz", bomb(SOUND, zipfile.ZIP_BZIP2, GIB, claimed=len(SOUND))),
    "lzma": lambda: ("x.npz", bomb(SOUND, zipfile.ZIP_LZMA, GIB)),
    "lzma, lying": lambda: ("x.npz", bomb(SOUND, zipfile.ZIP_LZMA, GIB, claimed=len(SOUND))),
    "dictionary": lambda: ("x.npz", dictionary()),
    "zeros": lambda: ("x.npz", stored_zeros()),
    "60,000 members": lambda: ("x.npz", long_index(60_000)),
    "1,000,000 members": lambda: ("x.npz", long_index(1_000_000)),
    "shape": lambda: ("x.npy", promise(order=False)),
    "stream": lambda: ("-", promise(order=False)),
    "stream of a petabyte": lambda: ("-", promise(order=False, shape="(4398046511104, 5, 8)")),
    "stream in Fortran order": lambda: ("-", promise(order=True)),
    "safetensors of 2^60 bytes": lambda: (
        "x.safetensors",
        nested_safetensors({"q": {"dtype": "F32", "shape": [2**58], "data_offsets": [0, 2**60]}}),
    ),
    "lists": lambda: ("x.safetensors", longest(b'{"q":[', lambda _: b"[],", b"[]]}")),
    "words": lambda: ("x.safetensors", longest(b"{", lambda n: b'"%x":1,' % n, b'"":1}')),
    "axes": lambda: (
        "x.safetensors",
        longest(b'{"q":{"dtype":"F32","shape":[', lambda _: b"9223372036854775807,", AXES_END),
    ),
    "deep JSON": lambda: ("x.safetensors", header_of(b"[" * (1 << 22))),
}

ONE = """
import time
from pathlib import Path
import numpy as np
from files.hostile import ROPE, feed_stdin
from files.memory import peak
from ropecli import encode_file, errors
np.save("sound.npy", np.ones((3, 8), "f4"))
encode_file("sound.npy", "warm.npy", ROPE)
name = {name!r}
begin = time.process_time()
try:
    if name == "-":
        with feed_stdin(Path("x").read_bytes()):
            encode_file("-", "y.npy", ROPE)
    else:
        encode_file(name, "y" + Path(name).suffix, ROPE)
    said = "rotated"
except errors.RopecliError as error:
    said = str(error)
print(time.process_time() - begin)
print(peak())
print(said)
"""


@pytest.mark.parametrize("kind", BOMBS)
def test_bombs(tmp_path: Path, kind: str) -> None:
    name, content = BOMBS[kind]()
    (tmp_path / ("x" if name == "-" else name)).write_bytes(content)
    done = run_python(ONE.format(name=name), cwd=tmp_path, PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}")
    assert done.returncode == 0, done.stderr
    took, peak, said = done.stdout.splitlines()
    print(f"{kind}: {float(took):.2f} s, {float(peak):.0f} MiB: {said[:150]}")  # noqa: T201
    assert (said == "rotated") == (kind == "zeros")
    assert float(took) < 1
    assert float(peak) < ALLOWED
    left = {path.name for path in tmp_path.iterdir()} - {"sound.npy", "warm.npy"}
    assert len(left) == 1 + (said == "rotated")
