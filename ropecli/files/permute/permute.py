"""Convert a file's query and key projections from one layout to the other."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from ropecli.errors import FileError
from ropecli.files.atomic import check_target, part_of, replacing, resolved
from ropecli.files.formats.safetensors import SUFFIX, Header, read_header
from ropecli.files.permute.moves import DEFAULT, Move, moves
from ropecli.files.permute.proof import Proof, Side, prove
from ropecli.files.permute.rows import old_rows, other
from ropecli.numbers import at_least
from ropecli.regular import read_bytes, regular_file
from ropecli.rotary import Rotary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Progress = Callable[[int, int], None]

BLOCK = 2**22  #: Bytes copied at once.


@dataclass(frozen=True, kw_only=True)
class Permutation:
    """One tensor of the file."""

    name: str
    shape: tuple[int, ...]
    dtype: str  #: As the file names it.
    heads: int | None  #: Whose rows were moved; 1 where all share them, None where none were.
    permuted: bool


@dataclass(frozen=True, kw_only=True)
class Permuted:
    """What was converted, and the proof."""

    input: Path
    output: Path
    to: str  #: The layout of the output.
    heads: int
    kv_heads: int
    head_dim: int
    rotary_dim: int
    rotary_offset: int
    tensors: tuple[Permutation, ...]  #: All of the file, in its order.
    proof: Proof
    written: bool  #: Only where the proof holds.
    bytes: int  #: Of the file.
    seconds: float


def permute_file(
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
    """Move the rows of q and k so that the other layout gives the same scores.

    The header and all other bytes are those of the input. Weights are moved bit by bit. What was
    written is read again and proven by equal scores, and only then appears.

    Args:
        input: A .safetensors file; it may be larger than memory.
        output: One that doesn't exist yet.
        to: The layout to convert to, "half" or "interleaved", from the other.
        heads: Of the queries.
        kv_heads: Of the keys; as many as heads by default.
        head_dim: Rows of a head; by default what the rows of the first projection make of it.
        rotary_dim: Rows of a head that are rotated; all by default.
        rotary_offset: The first of them.
        tensors: Patterns of the names whose rows are moved.
        seed: What hidden states are drawn with.
        force: Replace the output if it exists.
        progress: Called after each block with the bytes that are done and those in all.

    Raises:
        ArgumentError: A value that is not allowed.
        FileError: A file that can't be read or written, or tensors that are no such heads.
    """
    begin = time.perf_counter()
    seed = at_least("seed", seed, 0)
    kv_heads = heads if kv_heads is None else kv_heads
    old_layout = other(to)
    source, target = Path(input), Path(output)
    check_output(source, target)
    check_target(output, force=force)
    with regular_file(source, "a .safetensors file") as fd:
        header = read_header(source, fd)
        chosen = moves(header, heads=heads, kv_heads=kv_heads, head_dim=head_dim, globs=tensors)
        width = chosen[0].head_dim
        rows = old_rows(width, to=to, rotary_dim=rotary_dim, rotary_offset=rotary_offset)
        rotated = width if rotary_dim is None else rotary_dim

        def side(path: Path, fd: int, layout: str, rows: NDArray[np.int64]) -> Side:
            rope = Rotary(
                head_dim=width, layout=layout, rotary_dim=rotated, rotary_offset=rotary_offset
            )
            return Side(path=path, fd=fd, rope=rope, rows=rows)

        proof = None
        try:
            with replacing(output, force=force) as stream:
                _copy(header, fd, chosen, rows, stream, progress)
                stream.flush()
                proof = prove(
                    chosen,
                    side(source, fd, old_layout, np.arange(width)),
                    side(target, stream.fileno(), to, rows),
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
            Permutation(
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
        bytes=size,
        seconds=time.perf_counter() - begin,
    )


class _UnprovenError(Exception):
    """Keeps a file from appearing."""


def check_output(source: Path, target: Path) -> None:
    """Refuse names of another format, and to write over what is read.

    Raises:
        FileError: Such a name.
    """
    for what, path in (("read", source), ("write", target)):
        if path.suffix.lower() != SUFFIX:
            msg = f"cannot {what} {path}: allowed is a name that ends in {SUFFIX}"
            raise FileError(msg)
    path = resolved(target)
    for written in (path, part_of(path)):
        try:
            same = written.samefile(source)
        except (OSError, ValueError):  # one isn't there, which is for others to say
            continue
        if same:
            msg = f"input and output are the same file: {source}"
            raise FileError(msg)


def _copy(
    header: Header,
    fd: int,
    chosen: Sequence[Move],
    rows: NDArray[np.int64],
    stream: BinaryIO,
    progress: Progress | None,
) -> None:
    """Write the header as it is, and each tensor, moved head by head or as it is."""
    stream.write(header.content)
    by_name = {move.tensor.name: move for move in chosen}
    end = header.tensors[-1].end
    for tensor in header.tensors:
        move = by_name.get(tensor.name)
        step = BLOCK if move is None else move.head_dim * move.row_bytes
        for place in range(tensor.begin, tensor.end, step or 1):
            data = read_bytes(header.path, fd, place, min(step, tensor.end - place))
            stream.write(data if move is None else _moved(data, rows))
            if progress is not None:
                progress(place + len(data), end)


def _moved(data: bytes, rows: NDArray[np.int64]) -> bytes:
    """The rows of one head in their new order."""
    return np.frombuffer(data, np.uint8).reshape(len(rows), -1)[rows].tobytes()
