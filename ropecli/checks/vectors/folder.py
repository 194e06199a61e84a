"""A folder of golden vectors: arrays in one of four formats, a manifest, a README, C headers."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli._version import __version__
from ropecli.arrays import BFLOAT16, dtype_name
from ropecli.checks.accuracy import ACCURACY
from ropecli.checks.vectors.case import Case
from ropecli.checks.vectors.cases import vectors
from ropecli.checks.vectors.readme import readme
from ropecli.files.atomic import MANIFEST, check_folder, write_folder
from ropecli.files.formats.safetensors import serialize
from ropecli.names import one_of
from ropecli.results import Result
from ropecli.units import UNIT

FORMATS = ("npy", "safetensors", "bin", "json")
README = "README.md"
_HEADER = "rope_case.h"  #: The C header, in the folder of each case.
_C_TYPES = {
    "float64": "double",
    "float32": "float",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "int64": "int64_t",
}
_ABOUT = """\
/* Golden vectors of "{name}", written by ropecli {version}; see README.md.
 *
 * Files are little-endian and in C order, next to this header. Those of float16 and bfloat16
 * hold the 16 bits of each number.
 */
#ifndef ROPE_CASE_H
#define ROPE_CASE_H
"""


@dataclass(frozen=True, kw_only=True)
class VectorFolder(Result, view="vectors"):
    """A folder of golden vectors that was written."""

    output: Path
    cases: tuple[Case, ...]
    files: Mapping[str, bytes]  #: Contents by path.
    seed: int

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(map(len, self.files.values()))


def write_vectors(
    output: Path,
    make: Callable[..., Iterable[Case]] = vectors,
    *,
    format: str,
    seed: int,
    force: bool = False,
) -> VectorFolder:
    """Write golden vectors into a folder, whole or not at all."""
    one_of("format", format, FORMATS)
    check_folder(output, force=force)
    cases = tuple(make(seed=seed))
    files = contents(cases, format=format, seed=seed)
    write_folder(output, files, force=force)
    return VectorFolder(output=output, cases=cases, files=files, seed=seed)


def contents(cases: Sequence[Case], *, format: str, seed: int) -> dict[str, bytes]:
    """Return every file of the folder by its path, the same bytes from run to run."""
    files: dict[str, bytes] = {}
    listed = []
    for case in cases:
        members, arrays = _files(case, format)
        files |= members
        listed.append({"name": case.name, "kind": case.kind, **case.facts, "arrays": arrays})
    files[README] = readme(cases, format).encode()
    dtypes = {
        name: {"unit": UNIT[name], "floor": accuracy.floor} for name, accuracy in ACCURACY.items()
    }
    manifest = {
        "about": "Golden test vectors of rotary position embeddings; see README.md.",
        "ropecli": __version__,
        "format": format,
        "seed": seed,
        "dtypes": dtypes,
        "cases": listed,
        "files": [
            {"path": path, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for path, content in files.items()
        ],
    }
    files[MANIFEST] = _lines(manifest).encode()
    return files


def _lines(manifest: dict[str, Any]) -> str:
    """Return JSON with a line for each key, and for each entry of its lists."""
    lines = []
    for key, value in manifest.items():
        entries = value if isinstance(value, list) else None
        inner = ",\n  ".join(json.dumps(entry, allow_nan=False) for entry in entries or [])
        shown = json.dumps(value, allow_nan=False) if entries is None else f"[\n  {inner}\n ]"
        lines.append(f" {json.dumps(key)}: {shown}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _files(case: Case, format: str) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the files of one case, and where each of its arrays is."""
    if format in ("npy", "bin"):
        paths = {name: f"{case.name}/{name}.{format}" for name in case.arrays}
        write = _npy if format == "npy" else _raw
        files = {paths[name]: write(array) for name, array in case.arrays.items()}
        keys: dict[str, str | None] = dict.fromkeys(case.arrays)
        if format == "bin":
            files[f"{case.name}/{_HEADER}"] = _c_header(case).encode()
    else:
        path = f"{case.name}.{format}"
        paths, keys = dict.fromkeys(case.arrays, path), {name: name for name in case.arrays}
        files = {path: serialize(case.arrays) if format == "safetensors" else _json(case.arrays)}
    arrays = {
        name: {
            "file": paths[name],
            "key": keys[name],
            "dtype": dtype_name(array.dtype) or str(array.dtype),
            "shape": list(array.shape),
        }
        for name, array in case.arrays.items()
    }
    return files, arrays


def _npy(array: NDArray[Any]) -> bytes:
    """Return a .npy file, version 1.0; bfloat16 as its bits, for which the format has no name."""
    plain = array.view("<u2") if array.dtype == BFLOAT16 else array
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.ascontiguousarray(plain), version=(1, 0))
    return stream.getvalue()


def _raw(array: NDArray[Any]) -> bytes:
    """Return only the numbers, little-endian and in C order."""
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


def _json(arrays: Any) -> bytes:
    """Return nested lists of numbers; the smaller dtypes as float64, exactly."""
    exact = {
        name: (array if array.dtype.kind == "i" else array.astype(np.float64)).tolist()
        for name, array in arrays.items()
    }
    return (json.dumps(exact, allow_nan=False) + "\n").encode()


def _c_header(case: Case) -> str:
    """Return the header, in C99."""
    lines = [_ABOUT.format(name=case.name, version=__version__)]
    lines += [f'#define ROPE_CASE "{case.name}"']
    for key, value in case.facts.items():
        lines += _declare(key, value)
    for name, array in case.arrays.items():
        dtype = dtype_name(array.dtype) or str(array.dtype)
        shape = ", ".join(map(str, array.shape))
        macro = _macro(name)
        lines += [
            "",
            f"/* {_C_TYPES[dtype]} ({shape}), {dtype} */",
            f'#define {macro}_FILE "{name}.bin"',
            f"#define {macro}_COUNT {array.size}",
        ]
    return "\n".join([*lines, "", "#endif", ""])


def _declare(name: str, value: Any) -> Iterator[str]:
    """Yield a macro for a number or a word, a constant array for a list; nothing for null."""
    if name == "direction":
        yield f"#define ROPE_SIGN {_number(-1 if value == 'reversed' else 1)}"
    elif name == "shape":  # the sizes have names of their own
        for key, size in value.items():
            yield from _declare(key, size)
    elif isinstance(value, dict):
        yield ""
        for key, item in value.items():
            yield from _declare(f"{name}_{key}", item)
    elif isinstance(value, list | tuple):
        array = np.array(value)
        kind = "int" if array.dtype.kind == "i" else "double"
        brackets = "".join(f"[{size}]" for size in array.shape)
        yield f"static const {kind} {_macro(name)}{brackets} = {_braces(value)};"
    elif isinstance(value, bool):
        yield f"#define {_macro(name)} {int(value)}"
    elif isinstance(value, str):
        yield f"#define {_macro(name)} {json.dumps(value)}"
    elif value is not None:
        yield f"#define {_macro(name)} {_number(value)}"


def _macro(name: str) -> str:
    return f"ROPE_{name.upper().replace('.', '_')}"


def _braces(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "{" + ", ".join(map(_braces, value)) + "}"
    return _number(value)


def _number(value: float) -> str:
    """Return a literal that gives this number again; a negative one in parentheses."""
    text = repr(value)
    return f"({text})" if value < 0 else text
