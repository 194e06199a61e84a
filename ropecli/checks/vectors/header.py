"""The C header next to raw files: sizes, file names, the pairs, and the tolerance of one case."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ropecli._version import __version__
from ropecli.arrays import dtype_name

if TYPE_CHECKING:
    from ropecli.checks.vectors.case import Case

HEADER = "rope_case.h"  #: Its name, in the folder of each case.
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


def c_header(case: Case) -> str:
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
        for key, each in value.items():
            yield from _declare(f"{name}_{key}", each)
    elif isinstance(value, list | tuple):
        sizes, kind = _sizes(value)
        brackets = "".join(f"[{size}]" for size in sizes)
        yield f"static const {kind} {_macro(name)}{brackets} = {_braces(value)};"
    elif isinstance(value, bool):
        yield f"#define {_macro(name)} {int(value)}"
    elif isinstance(value, str):
        yield f"#define {_macro(name)} {json.dumps(value)}"
    elif value is not None:
        yield f"#define {_macro(name)} {_number(value)}"


def _macro(name: str) -> str:
    return f"ROPE_{name.upper().replace('.', '_')}"


def _sizes(value: Any) -> tuple[list[int], str]:
    sizes = []
    while isinstance(value, list | tuple):
        sizes.append(len(value))
        kind = "int" if all(isinstance(each, int) for each in value) else "double"
        value = value[0]
    return sizes, kind


def _braces(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "{" + ", ".join(map(_braces, value)) + "}"
    return _number(value)


def _number(value: float) -> str:
    """Return a literal that gives this number again; a negative one in parentheses."""
    text = repr(value)
    return f"({text})" if value < 0 else text
