"""The tensors of a file whose rows move, and the order of the rows within a head."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from ropecli.errors import ArgumentError, FileError
from ropecli.files.formats.safetensors import Header, Tensor
from ropecli.names import one_of
from ropecli.numbers import even

LAYOUTS = ("interleaved", "half")
#: Norms move with their projections: the proof does not see a norm that stays.
DEFAULT = (
    *("*q_proj*", "*k_proj*", "*q_norm*", "*k_norm*", "*q_layernorm*", "*k_layernorm*"),
    *("*query_layernorm*", "*key_layernorm*"),
)
FLOATS = ("F64", "F32", "F16", "BF16")
#: A part of a name, between dots, of a query or a key; one group holds its letter.
_ROLE = re.compile(r"(?:(q|k)(?:_.*)?|.*_(q|k)|w(q|k)|(?=query(?:_|$))(q).*|(k)ey(?:_.*)?)")
_FUSED = re.compile(r"qkv|query_key_value|c_attn|kv_")


@dataclass(frozen=True, kw_only=True)
class Move:
    """A tensor whose rows move, head by head."""

    tensor: Tensor
    group: str  #: The start of its name, up to the query or key: one layer's attention.
    role: str  #: "query" or "key".
    kind: str  #: "weight", "bias" or "norm".
    heads: int  #: 1 where all heads share it.
    head_dim: int

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return (self.tensor.end - self.tensor.begin) // (self.heads * self.head_dim)


def find_moves(
    header: Header,
    *,
    heads: int,
    kv_heads: int,
    head_dim: int | None = None,
    globs: Sequence[str] = DEFAULT,
) -> tuple[Move, ...]:
    """Return the tensors that match, in the order of the file."""
    if kv_heads < 1 or heads < 1 or heads % kv_heads:
        raise ArgumentError(
            f"heads must be a multiple of kv heads, both at least 1, got {heads} and {kv_heads}"
        )
    chosen = [t for t in header.tensors if any(fnmatchcase(t.name, glob) for glob in globs)]
    if not chosen:
        raise _no_match(header, globs)
    counts = {"query": heads, "key": kv_heads}
    moves = [(tensor, *_role(tensor)) for tensor in chosen]
    for tensor, *_ in moves:
        _check_dtype(tensor)
    by_role = sorted(moves, key=lambda each: each[1] != "query")
    if head_dim is not None:
        width = even("head dim", head_dim)
    else:
        width = _head_dim([(t, counts[role]) for t, role, _, norm in by_role if not norm])
    return tuple(
        _move(tensor, role, group, width, counts[role], norm=norm)
        for tensor, role, group, norm in moves
    )


def _no_match(header: Header, globs: Sequence[str]) -> FileError:
    fused = next((t.name for t in header.tensors if _FUSED.search(t.name)), None)
    problem = f"{header.path} has no tensor whose name matches {', '.join(globs)}"
    if fused is None:
        return FileError(problem)
    return FileError(f"{problem}; {fused} looks like several projections in one", "split it first")


def _role(tensor: Tensor) -> tuple[str, str, bool]:
    """Return from a name the role, the group, and if the tensor is a norm."""
    parts = tensor.name.split(".")
    for place in reversed(range(len(parts))):
        match = _ROLE.fullmatch(parts[place])
        if match is not None and not _FUSED.search(parts[place]):
            letter = next(group for group in match.groups() if group)
            role = "query" if letter == "q" else "key"
            return role, ".".join(parts[:place]), "norm" in parts[place]
    raise FileError(
        f"the name {tensor.name} is neither of a query nor of a key; expected a part such as "
        "q_proj, k_proj, q_norm, wk, query"
    )


def _check_dtype(tensor: Tensor) -> None:
    if tensor.dtype not in FLOATS:
        raise FileError(
            f"{tensor.name} holds {tensor.dtype}, expected {', '.join(FLOATS)}; the scales and "
            "packed rows of quantised weights do not move with them"
        )


def _head_dim(found: list[tuple[Tensor, int]]) -> int:
    """Return the rows of the first projection over its heads, queries before keys."""
    for tensor, count in found:
        if len(tensor.shape) == 2:
            if tensor.shape[0] % count or not tensor.shape[0]:
                raise FileError(
                    f"{tensor.name} has {tensor.shape[0]} rows, which {count} heads do not divide",
                    "check the number of heads",
                )
            return tensor.shape[0] // count
    raise ArgumentError("head dim cannot be inferred from the tensors", "pass `head_dim`")


def _move(tensor: Tensor, role: str, group: str, head_dim: int, heads: int, *, norm: bool) -> Move:
    shape, rows = tensor.shape, heads * head_dim
    if norm and shape == (head_dim,):
        heads = 1
    elif not ((norm and shape == (heads, head_dim)) or (len(shape) in {1, 2} and shape[0] == rows)):
        raise FileError(
            f"{tensor.name} has shape {shape}, but {heads} {role} heads of {head_dim} have {rows} "
            "rows",
            "check the number of heads, or choose tensors with `tensors`",
        )
    kind = "norm" if norm else "weight" if len(shape) == 2 else "bias"
    return Move(tensor=tensor, group=group, role=role, kind=kind, heads=heads, head_dim=head_dim)


# Rows within a head.


def other_layout(layout: str) -> str:
    """Return the layout to convert from, given the one to convert to."""
    return LAYOUTS[1 - LAYOUTS.index(one_of("layout", layout, LAYOUTS))]


def old_rows(
    head_dim: int, *, to: str, rotary_dim: int | None = None, rotary_offset: int = 0
) -> NDArray[np.int64]:
    """Return the old row of each new row of a head: new = old[rows].

    Pair i is rows (2i, 2i + 1) interleaved and rows (i, i + rotary_dim/2) in halves, from
    `rotary_offset` on; rows that are not rotated stay.
    """
    head_dim = even("head dim", head_dim)
    rotary_dim = head_dim if rotary_dim is None else even("rotary dim", rotary_dim)
    if rotary_offset < 0 or rotary_offset + rotary_dim > head_dim:
        raise ArgumentError(
            f"the rotated rows must be within a head of {head_dim}, "
            f"got {rotary_dim} from row {rotary_offset}"
        )
    other_layout(to)
    pairs = np.arange(rotary_dim).reshape(-1, 2)
    order = pairs.T if to == "half" else pairs.reshape(2, -1).T
    rows = np.arange(head_dim)
    rows[rotary_offset : rotary_offset + rotary_dim] = rotary_offset + order.ravel()
    return rows
