"""Convert a file's query and key projections from one layout to the other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ropecli.errors import FileError
from ropecli.files.atomic import check_target, replacing
from ropecli.files.formats.safetensors import SUFFIX, Header, read_header
from ropecli.files.permute.moves import DEFAULT, FLOATS, Move, find_moves, old_rows, other_layout
from ropecli.files.permute.proof import PermutationProof, Side, prove, read_head
from ropecli.numbers import at_least
from ropecli.regular import COPY_BYTES, read_bytes, regular_file, write_stream
from ropecli.results import Result
from ropecli.rotary import Rotary

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class PermutedTensor:
    """One tensor of a converted file."""

    name: str  #: Its name.
    shape: tuple[int, ...]  #: Lengths of its axes.
    dtype: str  #: Name of the dtype in the file, F32, BF16, ...
    heads: int | None  #: Heads whose rows were moved; 1 if all share them, None if none moved.
    permuted: bool  #: True if its rows were moved.
    found: str | None = None  #: In a checked file, its rows are moved, unmoved or other.


@dataclass(frozen=True, kw_only=True)
class Permuted(Result):
    """The conversion of one file, and its proof."""

    input: Path  #: The file read.
    output: Path  #: The file written.
    to: str  #: The layout of the output, "half" or "interleaved".
    heads: int  #: Of the queries.
    kv_heads: int  #: Of the keys.
    head_dim: int  #: Rows of a head.
    rotary_dim: int  #: Rows of a head that are rotated.
    rotary_offset: int  #: The first of them.
    tensors: tuple[PermutedTensor, ...]  #: All of the file, in its order.
    proof: PermutationProof  #: The errors of the scores.
    written: bool  #: True if the proof holds; else there is no output. False for a check.
    checked: bool = False  #: True if the output was there before, and only checked.
    seed: int  #: Of the random hidden states of the proof.
    bytes: int  #: Of the file.
    seconds: float  #: Time taken.


def permute(
    input: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    to: str,
    heads: int,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    rotary_dim: int | None = None,
    rotary_offset: int = 0,
    tensors: Sequence[str] = DEFAULT,
    seed: int = 0,
    force: bool = False,
    progress: Progress | None = None,
) -> Permuted:
    """Convert query and key weights so that the other layout gives the same scores.

    Rows move within each head, bit by bit; the header and all other tensors are copied. The output
    is read again, and appears only if the scores of both files are equal (`PermutationProof`).
    Memory is that of one head's rows.

    Args:
        input: A .safetensors file; it may be larger than memory.
        output: The .safetensors file to write.
        to: The layout to convert to, "half" or "interleaved", from the other.
        heads: Of the queries.
        kv_heads: Of the keys, a divisor of heads; as many as heads by default.
        head_dim: Rows of a head; by default the rows of the first projection over its heads.
        rotary_dim: Rows of a head that are rotated; all by default.
        rotary_offset: The first of them.
        tensors: Patterns (`fnmatch`) of the names of tensors whose rows move; by default the
            projections and norms of queries and keys under their usual names.
        seed: Seed of the random hidden states of the proof.
        force: Replace the output if it exists.
        progress: Called after each block with the bytes done and the bytes in all.

    Raises:
        ArgumentError: Numbers or a layout that cannot be used.
        FileError: A file that cannot be read or written, or tensors whose rows do not make up the
            heads.
    """
    begin = time.perf_counter()
    seed = at_least("seed", seed, 0)
    kv_heads = heads if kv_heads is None else kv_heads
    old_layout = other_layout(to)
    source, target = Path(input), Path(output)
    _check_suffix(source, "read")
    _check_suffix(target, "write")
    check_target(output, force=force, sources=[source])
    with regular_file(source, "a .safetensors file") as fd:
        header = read_header(source, fd)
        chosen = find_moves(
            header, heads=heads, kv_heads=kv_heads, head_dim=head_dim, globs=tensors
        )
        width = chosen[0].head_dim
        rows = old_rows(width, to=to, rotary_dim=rotary_dim, rotary_offset=rotary_offset)
        rotated = width if rotary_dim is None else rotary_dim
        old_rope, new_rope = (
            Rotary(head_dim=width, layout=layout, rotary_dim=rotated, rotary_offset=rotary_offset)
            for layout in (old_layout, to)
        )
        proof = None
        try:
            with replacing(output, force=force) as stream:
                _copy(header, fd, chosen, rows, stream, progress)
                stream.flush()
                proof = prove(
                    chosen,
                    Side(path=source, fd=fd, rope=old_rope, rows=np.arange(width)),
                    Side(path=target, fd=stream.fileno(), rope=new_rope, rows=rows),
                    heads=heads,
                    kv_heads=kv_heads,
                    seed=seed,
                )
                if not proof.holds:
                    raise _UnprovenError
        except _UnprovenError:
            pass
        size = os.fstat(fd).st_size
    assert proof is not None
    by_name = {move.tensor.name: move for move in chosen}
    return Permuted(
        input=source,
        output=target,
        to=to,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=width,
        rotary_dim=rotated,
        rotary_offset=rotary_offset,
        tensors=tuple(
            PermutedTensor(
                name=tensor.name,
                shape=tensor.shape,
                dtype=tensor.dtype,
                heads=by_name[tensor.name].heads if tensor.name in by_name else None,
                permuted=tensor.name in by_name,
            )
            for tensor in header.tensors
        ),
        proof=proof,
        written=proof.holds,
        seed=seed,
        bytes=size,
        seconds=time.perf_counter() - begin,
    )


def check_permuted(
    input: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    to: str,
    heads: int,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    rotary_dim: int | None = None,
    rotary_offset: int = 0,
    tensors: Sequence[str] = DEFAULT,
    seed: int = 0,
) -> Permuted:
    """Prove that a file has the weights of another in the other layout, whoever converted it.

    The scores of both files are compared, as `permute` does, and the rows of each tensor.

    Args:
        input: The .safetensors file before the conversion.
        output: The .safetensors file after it; its tensors may be in another order.
        to: The layout of the output, "half" or "interleaved"; the input has the other.
        heads: As for `permute`.
        kv_heads: As for `permute`.
        head_dim: As for `permute`.
        rotary_dim: As for `permute`.
        rotary_offset: As for `permute`.
        tensors: As for `permute`.
        seed: As for `permute`.

    Raises:
        ArgumentError: As `permute`.
        FileError: As `permute`, or an output without a tensor of the input, or of another shape.
    """
    begin = time.perf_counter()
    seed = at_least("seed", seed, 0)
    kv_heads = heads if kv_heads is None else kv_heads
    old_layout = other_layout(to)
    source, target = Path(input), Path(output)
    for path in (source, target):
        _check_suffix(path, "read")
    name = "a .safetensors file"
    with regular_file(source, name) as old_fd, regular_file(target, name) as new_fd:
        header, other = read_header(source, old_fd), read_header(target, new_fd)
        moves = find_moves(header, heads=heads, kv_heads=kv_heads, head_dim=head_dim, globs=tensors)
        width = moves[0].head_dim
        rows = old_rows(width, to=to, rotary_dim=rotary_dim, rotary_offset=rotary_offset)
        rotated = width if rotary_dim is None else rotary_dim
        placed = _matching(moves, other)
        old_rope, new_rope = (
            Rotary(head_dim=width, layout=layout, rotary_dim=rotated, rotary_offset=rotary_offset)
            for layout in (old_layout, to)
        )
        old = Side(path=source, fd=old_fd, rope=old_rope, rows=np.arange(width))
        new = Side(path=target, fd=new_fd, rope=new_rope, rows=rows, moves=placed)
        proof = prove(moves, old, new, heads=heads, kv_heads=kv_heads, seed=seed)
        checked = tuple(
            PermutedTensor(
                name=move.tensor.name,
                shape=move.tensor.shape,
                dtype=placed[move.tensor.name].tensor.dtype,
                heads=move.heads,
                permuted=True,
                found=_found(move, old, new),
            )
            for move in moves
        )
        size = os.fstat(new_fd).st_size
    return Permuted(
        input=source,
        output=target,
        to=to,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=width,
        rotary_dim=rotated,
        rotary_offset=rotary_offset,
        tensors=checked,
        proof=proof,
        written=False,
        checked=True,
        seed=seed,
        bytes=size,
        seconds=time.perf_counter() - begin,
    )


def _matching(moves: Sequence[Move], other: Header) -> dict[str, Move]:
    """Return the tensors of another file that stand for those that move, by name."""
    by_name = {tensor.name: tensor for tensor in other.tensors}
    placed = {}
    for move in moves:
        tensor = by_name.get(move.tensor.name)
        if tensor is None or tensor.shape != move.tensor.shape or tensor.dtype not in FLOATS:
            got = "none" if tensor is None else f"{tensor.dtype} {tensor.shape}"
            raise FileError(
                f"{other.path} must have {move.tensor.name} of {move.tensor.shape}, got {got}"
            )
        placed[tensor.name] = replace(move, tensor=tensor)
    return placed


def _found(move: Move, old: Side, new: Side) -> str:
    """Return the state of a tensor's rows in the new file: moved, unmoved, or other."""
    outcomes = {"moved", "unmoved"}
    for head in range(move.heads):
        before, after = read_head(old, move, head), read_head(new, move, head)
        outcomes -= set() if np.array_equal(after, before[new.rows]) else {"moved"}
        outcomes -= set() if np.array_equal(after, before) else {"unmoved"}
    return min(outcomes, default="other")


class _UnprovenError(Exception):
    """Raised to keep the output from appearing."""


def _check_suffix(path: Path, what: str) -> None:
    if path.suffix.lower() != SUFFIX:
        raise FileError(f"cannot {what} {path}: expected a name that ends in {SUFFIX}")


def _copy(
    header: Header,
    fd: int,
    chosen: Sequence[Move],
    rows: NDArray[np.int64],
    stream: BinaryIO,
    progress: Progress | None,
) -> None:
    """Copy the header and the tensors, with the rows of some moved head by head."""
    stream.write(header.content)
    by_name = {move.tensor.name: move for move in chosen}
    end = header.tensors[-1].end
    for tensor in header.tensors:
        move = by_name.get(tensor.name)
        step = COPY_BYTES if move is None else move.head_dim * move.row_bytes
        for place in range(tensor.begin, tensor.end, step or 1):
            data = read_bytes(header.path, fd, place, min(step, tensor.end - place))
            write_stream(stream, data if move is None else _move_rows(data, rows))
            if progress is not None:
                progress(place + len(data), end)


def _move_rows(data: bytes, rows: NDArray[np.int64]) -> bytes:
    """Return the rows of one head in their new order."""
    return np.frombuffer(data, np.uint8).reshape(len(rows), -1)[rows].tobytes()
