"""Zarr's own store and codecs, for stores that nobody should trust.

This is loaded where a store is opened: it needs zarr.
"""

from __future__ import annotations

import asyncio
import math
import mmap
import stat
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zarr.codecs import BloscCodec, GzipCodec, ShardingCodec, ZstdCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import LocalStore

from ropecli.errors import FileError
from ropecli.regular import opened, read_into

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zarr.abc.store import ByteGetter, ByteRequest
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, BufferPrototype, NDBuffer
    from zarr.core.indexing import SelectorTuple

#: Beyond what a chunk should unpack to: what only can be bounded is bounded generously.
_SLACK = 1 << 26
_LARGE = 1 << 20  #: Bytes of a chunk for which to have pages of its own costs little.
_MOST_INNER_CHUNKS = 100_000  #: Of a shard; each takes memory of its own.
_PLAIN = {"bytes", "crc32c", "transpose"}  #: Codecs that make nothing larger.
_ZSTD_FRAME = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPED = b"\x2a\x4d\x18"  #: After a byte from 0x50 to 0x5f: a frame of anything.
_ZSTD_BLOCK = 1 << 17  #: Bytes that a block unpacks to at most.
_ZSTD_RLE = 1  #: The type of a block of one repeated byte.
_GZIP = 31  #: What tells zlib to read the format of gzip.
_PIECE = 1 << 14  #: Bytes that gzip unpacks at once.


def check_no_link(root: Path, key: str) -> None:
    """Refuse what leads out of a store, or is neither file nor folder.

    Raises:
        FileError: A link, a pipe or the like on the way to a key.
    """
    path = root
    for part in Path(key).parts:
        path /= part
        try:
            mode = path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            msg = f"{path} is neither a file nor a folder; allowed in a store is nothing else"
            raise FileError(msg)


class GuardedStore(LocalStore):
    """A folder whose files are read only if they are in it, and no larger than a chunk can be."""

    largest = 0  #: Bytes of a file.

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """As `LocalStore.get`."""
        check_no_link(self.root, key)
        path = self.root / key
        size = path.stat().st_size if path.exists() else 0
        if size > self.largest:
            msg = f"{path} has {size:,} bytes; allowed are {self.largest:,}"
            raise FileError(msg)
        if size < _LARGE or byte_range is not None:
            return await super().get(key, prototype, byte_range)
        content = await asyncio.to_thread(_paged, path, size)
        return (prototype or default_buffer_prototype()).buffer.from_bytes(content)


def _paged(path: Path, size: int) -> memoryview:
    """A file, in memory that goes back to the system as soon as nobody needs it.

    Other memory is kept for the next time, by each of the threads that read.
    """
    content = memoryview(mmap.mmap(-1, size))
    with opened(path) as fd:
        read_into(path, fd, 0, content)
    return content


class _Zstd(ZstdCodec):
    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        _check(zstd_bound(_bytes(chunk_bytes)), chunk_spec)
        return super()._decode_sync(chunk_bytes, chunk_spec)


class _Blosc(BloscCodec):
    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        header = chunk_bytes[:16].to_bytes()
        _check(int.from_bytes(header[4:8], "little"), chunk_spec)
        if len(header) < 16 or int.from_bytes(header[12:16], "little") != len(chunk_bytes):
            msg = "a chunk is cut short"
            raise ValueError(msg)
        return super()._decode_sync(chunk_bytes, chunk_spec)


class _Gzip(GzipCodec):
    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        packed, place, parts, unpacked = _bytes(chunk_bytes), 0, [], 0
        member = zlib.decompressobj(_GZIP)
        while place < len(packed):
            if member.eof:
                member = zlib.decompressobj(_GZIP)
            # A short piece: of all that follows a member, the library makes a copy.
            piece = packed[place : place + _PIECE]
            parts.append(member.decompress(piece, _allowed(chunk_spec) + 1 - unpacked))
            unpacked += len(parts[-1])
            _check(unpacked, chunk_spec)
            place += len(piece) - len(member.unused_data)
        if not member.eof:
            msg = "a chunk is cut short"
            raise ValueError(msg)
        return chunk_spec.prototype.buffer.from_bytes(b"".join(parts))


class _Shard(ShardingCodec):
    async def _decode_partial_single(
        self, byte_getter: ByteGetter, selection: SelectorTuple, shard_spec: ArraySpec
    ) -> NDBuffer | None:
        # The index may name the same bytes once for every chunk.
        counted = _Counted(byte_getter, shard_spec)
        return await super()._decode_partial_single(counted, selection, shard_spec)


class _Counted:
    """What reads parts of a file, until they are more than a shard has."""

    def __init__(self, getter: ByteGetter, shard: ArraySpec) -> None:
        self._getter = getter
        self._shard = shard
        self._read = 0

    async def get(
        self, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        found = await self._getter.get(prototype, byte_range)
        self._read += 0 if found is None else len(found)
        _check(self._read, self._shard)
        return found


_GUARDED: dict[str, type[_Zstd | _Blosc | _Gzip]] = {"zstd": _Zstd, "blosc": _Blosc, "gzip": _Gzip}


def guarded(codecs: Iterable[Any], shape: tuple[int, ...]) -> list[Any]:
    """Codecs as metadata list them, those that unpack with a bound.

    Args:
        codecs: Of a chunk.
        shape: Of the chunk.

    Raises:
        ValueError: A codec that is not known.
    """
    found: list[Any] = []
    for codec in codecs:
        name = codec["name"] if isinstance(codec, dict) else codec
        if name in _GUARDED:
            found.append(_GUARDED[name].from_dict(codec))
        elif name == "sharding_indexed":
            found.append(_guarded_shard(codec, shape))
        elif name in _PLAIN:
            found.append(codec)
        else:
            allowed = ", ".join(sorted({*_PLAIN, *_GUARDED, "sharding_indexed"}))
            msg = f"the codec {name!r}; allowed are {allowed}"
            raise ValueError(msg)
    return found


def _guarded_shard(codec: dict[str, Any], shape: tuple[int, ...]) -> ShardingCodec:
    configuration = dict(codec["configuration"])
    inner = tuple(configuration["chunk_shape"])
    count = 1
    for length, part in zip(shape, inner, strict=True):
        count *= length // part
    if count > _MOST_INNER_CHUNKS:
        msg = f"{count:,} chunks in a shard; allowed are {_MOST_INNER_CHUNKS:,}"
        raise ValueError(msg)
    for key, extent in (("codecs", inner), ("index_codecs", (*shape, 2))):
        if key in configuration:
            configuration[key] = guarded(configuration[key], extent)
    return _Shard.from_dict({"name": codec["name"], "configuration": configuration})


def _bytes(chunk: Buffer) -> memoryview:
    """What a buffer holds, without a copy."""
    return chunk.as_numpy_array().data


def most_bytes(shape: Iterable[int], itemsize: int) -> int:
    """Bytes that a chunk may have, packed or unpacked."""
    return math.prod(shape) * itemsize + _SLACK


def _allowed(chunk: ArraySpec) -> int:
    return most_bytes(chunk.shape, int(chunk.dtype.to_native_dtype().itemsize))


def _check(length: int, chunk: ArraySpec) -> None:
    if length > _allowed(chunk):
        msg = f"a chunk of {length:,} bytes or more; allowed are {_allowed(chunk):,}"
        raise ValueError(msg)


def zstd_bound(data: memoryview) -> int:
    """The most that Zstandard's frames can unpack to, or say that they do (RFC 8878, 3.1).

    Raises:
        ValueError: Something else stands among them.
    """
    place, bound = 0, 0
    while place < len(data):
        if data[place : place + 4] == _ZSTD_FRAME:
            place, most = _zstd_frame(data, place + 4)
            bound += most
        elif data[place + 1 : place + 4] == _ZSTD_SKIPPED and data[place] >> 4 == 5:
            place += 8 + int.from_bytes(data[place + 4 : place + 8], "little")
        else:
            msg = f"byte {place:,} of a chunk begins no frame of Zstandard"
            raise ValueError(msg)
    return bound


def _zstd_frame(data: memoryview, place: int) -> tuple[int, int]:
    """Where a frame ends, and the most that it unpacks to; its magic number ends at `place`."""
    flags = data[place] if place < len(data) else 0
    single, dictionary = flags >> 5 & 1, (0, 1, 2, 4)[flags & 3]
    width = (single, 2, 4, 8)[flags >> 6]
    place += 1 + (not single) + dictionary
    claimed = int.from_bytes(data[place : place + width], "little")
    place, last, unpacked = place + width, False, 0
    while not last and place + 3 <= len(data):
        block = int.from_bytes(data[place : place + 3], "little")
        last, kind, length = bool(block & 1), block >> 1 & 3, block >> 3
        # Of a compressed block only the size of what is packed is known.
        unpacked += max(length, _ZSTD_BLOCK if kind > _ZSTD_RLE else 0)
        place += 3 + (1 if kind == _ZSTD_RLE else length)
    return place + 4 * (flags >> 2 & 1), max(claimed, unpacked)
