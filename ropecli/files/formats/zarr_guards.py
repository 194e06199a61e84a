"""Zarr's own store and codecs, for stores that nobody should trust.

This is loaded where a store is opened: it needs zarr.
"""

from __future__ import annotations

import stat
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zarr.codecs import BloscCodec, GzipCodec, ShardingCodec, ZstdCodec
from zarr.storage import LocalStore

from ropecli.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zarr.abc.store import ByteRequest
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, BufferPrototype

#: Beyond what a chunk should unpack to: what only can be bounded is bounded generously.
_SLACK = 1 << 26
_MOST_INNER_CHUNKS = 100_000  #: Of a shard; each takes memory of its own.
_PLAIN = {"bytes", "crc32c", "transpose"}  #: Codecs that make nothing larger.
_ZSTD_FRAME = b"\x28\xb5\x2f\xfd"
_ZSTD_BLOCK = 1 << 17  #: Bytes that a block unpacks to at most.
_ZSTD_RLE = 1  #: The type of a block of one repeated byte.
_GZIP = 31  #: What tells zlib to read the format of gzip.


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
    """A folder whose files are read only if they are in it."""

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """As `LocalStore.get`."""
        check_no_link(self.root, key)
        return await super().get(key, prototype, byte_range)


class _Zstd(ZstdCodec):
    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        _check(_zstd_bound(chunk_bytes.to_bytes()), chunk_spec)
        return super()._decode_sync(chunk_bytes, chunk_spec)


class _Blosc(BloscCodec):
    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        header = chunk_bytes.to_bytes()[:16]
        _check(int.from_bytes(header[4:8], "little"), chunk_spec)
        if len(header) < 16 or int.from_bytes(header[12:16], "little") != len(chunk_bytes):
            msg = "a chunk is cut short"
            raise ValueError(msg)
        return super()._decode_sync(chunk_bytes, chunk_spec)


class _Gzip(GzipCodec):
    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        rest, parts, limit = chunk_bytes.to_bytes(), [], _nbytes(chunk_spec) + _SLACK
        while rest:
            member = zlib.decompressobj(_GZIP)
            parts.append(member.decompress(rest, limit + 1))
            limit -= len(parts[-1])
            if limit < 0:
                raise _too_large()
            if not member.eof:
                msg = "a chunk is cut short"
                raise ValueError(msg)
            rest = member.unused_data
        return chunk_spec.prototype.buffer.from_bytes(b"".join(parts))


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
    return ShardingCodec.from_dict({"name": codec["name"], "configuration": configuration})


def _nbytes(chunk: ArraySpec) -> int:
    size = int(chunk.dtype.to_native_dtype().itemsize)
    for length in chunk.shape:
        size *= length
    return size


def _check(length: int, chunk: ArraySpec) -> None:
    if length > _nbytes(chunk) + _SLACK:
        raise _too_large()


def _too_large() -> ValueError:
    return ValueError("a chunk would unpack to more than its shape holds")


def _zstd_bound(data: bytes) -> int:
    """The most that Zstandard's frames can unpack to, or say that they do (RFC 8878, 3.1.1)."""
    place, bound = 0, 0
    while data[place : place + 4] == _ZSTD_FRAME:
        flags = data[place + 4] if place + 4 < len(data) else 0
        single, dictionary = flags >> 5 & 1, (0, 1, 2, 4)[flags & 3]
        width = (single, 2, 4, 8)[flags >> 6]
        place += 5 + (not single) + dictionary
        claimed = int.from_bytes(data[place : place + width], "little")
        place, last, unpacked = place + width, False, 0
        while not last and place + 3 <= len(data):
            block = int.from_bytes(data[place : place + 3], "little")
            last, kind, length = bool(block & 1), block >> 1 & 3, block >> 3
            # Of a compressed block only the size of what is packed is known.
            unpacked += max(length, _ZSTD_BLOCK if kind > _ZSTD_RLE else 0)
            place += 3 + (1 if kind == _ZSTD_RLE else length)
        place += 4 * (flags >> 2 & 1)
        bound += max(claimed, unpacked)
    return bound
