"""Which tensors of a file have rows to be moved, and in heads of what size."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ropecli.errors import ArgumentError, FileError
from ropecli.numbers import even

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ropecli.files.formats.safetensors import Header, Tensor

#: Norms go with their projections: one that stayed would be on neither side of the proof.
DEFAULT = (
    *("*q_proj*", "*k_proj*", "*q_norm*", "*k_norm*", "*q_layernorm*", "*k_layernorm*"),
    *("*query_layernorm*", "*key_layernorm*"),
)
FLOATS = ("F64", "F32", "F16", "BF16")
#: A part of a name, between dots, that says whose rows they are: one group holds the letter.
_ROLE = re.compile(r"(?:(q|k)(?:_.*)?|.*_(q|k)|w(q|k)|(?=query(?:_|$))(q).*|(k)ey(?:_.*)?)")
_FUSED = re.compile(r"qkv|query_key_value|c_attn|kv_")


@dataclass(frozen=True, kw_only=True)
class Move:
    """A tensor whose rows are moved, head by head."""

    tensor: Tensor
    group: str  #: What stands in its name before the query or key: one layer's attention.
    role: str  #: "query" or "key".
    kind: str  #: "weight", "bias" or "norm".
    heads: int  #: 1 where all heads share it.
    head_dim: int

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return (self.tensor.end - self.tensor.begin) // (self.heads * self.head_dim)


def moves(
    header: Header,
    *,
    heads: int,
    kv_heads: int,
    head_dim: int | None = None,
    globs: Sequence[str] = DEFAULT,
) -> tuple[Move, ...]:
    """The tensors that match, in the order of the file.

    Args:
        header: Of the file.
        heads: Of the queries.
        kv_heads: Of the keys, a divisor of heads.
        head_dim: Rows of a head; what the first projection's rows make of it by default.
        globs: Patterns of names.

    Raises:
        ArgumentError: Numbers of heads, or a head dim, that are not allowed.
        FileError: No tensor matches, or one whose rows are no such heads.
    """
    if kv_heads < 1 or heads < 1 or heads % kv_heads:
        msg = f"heads must be a multiple of kv heads, both at least 1, got {heads} and {kv_heads}"
        raise ArgumentError(msg)
    chosen = [t for t in header.tensors if any(fnmatchcase(t.name, glob) for glob in globs)]
    if not chosen:
        raise _nothing(header, globs)
    counts = {"query": heads, "key": kv_heads}
    found = [(tensor, *_role(tensor)) for tensor in chosen]
    for tensor, *_ in found:
        _check_dtype(tensor)
    by_role = sorted(found, key=lambda each: each[1] != "query")
    if head_dim is not None:
        width = even("head dim", head_dim)
    else:
        width = _head_dim([(t, counts[role]) for t, role, _, norm in by_role if not norm])
    return tuple(
        _move(tensor, role, group, width, counts[role], norm=norm)
        for tensor, role, group, norm in found
    )


def _nothing(header: Header, globs: Sequence[str]) -> FileError:
    fused = next((t.name for t in header.tensors if _FUSED.search(t.name)), None)
    msg = f"{header.path} has no tensor whose name matches {', '.join(globs)}"
    if fused is not None:
        msg += f"; {fused} looks like several projections in one, which must be split first"
    return FileError(msg)


def _role(tensor: Tensor) -> tuple[str, str, bool]:
    """Whose rows they are, the layer, and whether they are a norm's: from the name."""
    parts = tensor.name.split(".")
    for place in reversed(range(len(parts))):
        match = _ROLE.fullmatch(parts[place])
        if match is not None and not _FUSED.search(parts[place]):
            letter = next(group for group in match.groups() if group)
            role = "query" if letter == "q" else "key"
            return role, ".".join(parts[:place]), "norm" in parts[place]
    msg = (
        f"the name {tensor.name} says neither query nor key; allowed are names with a part such "
        "as q_proj, k_proj, q_norm, wk, query"
    )
    raise FileError(msg)


def _check_dtype(tensor: Tensor) -> None:
    if tensor.dtype not in FLOATS:
        msg = (
            f"{tensor.name} holds {tensor.dtype}: quantised weights have scales and packed rows "
            f"that would have to move with them; allowed are {', '.join(FLOATS)}"
        )
        raise FileError(msg)


def _head_dim(found: list[tuple[Tensor, int]]) -> int:
    """Rows of the first projection over its heads, queries before keys."""
    for tensor, count in found:
        if len(tensor.shape) == 2:
            if tensor.shape[0] % count or not tensor.shape[0]:
                msg = (
                    f"{tensor.name} has {tensor.shape[0]} rows, which {count} heads do not divide; "
                    "check the number of heads"
                )
                raise FileError(msg)
            return tensor.shape[0] // count
    msg = "no projection tells the head dim: give --head-dim"
    raise ArgumentError(msg)


def _move(tensor: Tensor, role: str, group: str, head_dim: int, heads: int, *, norm: bool) -> Move:
    shape, rows = tensor.shape, heads * head_dim
    if norm and shape == (head_dim,):
        heads = 1
    elif not ((norm and shape == (heads, head_dim)) or (len(shape) in {1, 2} and shape[0] == rows)):
        msg = (
            f"{tensor.name} has shape {shape}, but {heads} {role} heads of {head_dim} have {rows} "
            "rows; check the number of heads, or choose tensors with --tensor"
        )
        raise FileError(msg)
    kind = "norm" if norm else "weight" if len(shape) == 2 else "bias"
    return Move(tensor=tensor, group=group, role=role, kind=kind, heads=heads, head_dim=head_dim)
