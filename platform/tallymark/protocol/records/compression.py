"""The five codecs of record batches, with bounded decompression.

====  ======  ======================================================================
code  name    form on the wire
====  ======  ======================================================================
0     none    as it is
1     gzip    RFC 1952
2     snappy  xerial framing (what snappy-java writes); plain snappy is read too
3     lz4     LZ4 frame, independent blocks of 64 KiB (Kafka's Java client reads no others)
4     zstd    RFC 8878
====  ======  ======================================================================

Batches come from the network, so a few bytes may claim to hold gigabytes: no function here produces
more than ``max_size`` bytes, or allocates memory for a claim.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

import cramjam

from tallymark.errors import CorruptRecordError, LocalProtocolError
from tallymark.protocol.schema import Buffer

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names by code, the lowest three bits of a batch's attributes."""

DEFAULT_MAX_SIZE: Final = 256 * 1024 * 1024
"""How much a consumer decompresses of one batch at most."""
USUAL_MAX_SIZE: Final = 64 * 1024 * 1024
"""The same for readers of all topics (see :func:`usual_max_size`)."""
USUAL_RATIO: Final = 16

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK: Final = 32 * 1024
# Snappy's densest element makes 64 bytes of 3.
_SNAPPY_RATIO: Final = 22
# Magic number, version 1 with independent blocks, blocks of 64 KiB, checksum of these two bytes.
_LZ4_HEADER: Final = bytes.fromhex("04224d18 60 40 82")
_LZ4_BLOCK: Final = 64 * 1024
_LZ4_STORED: Final = 1 << 31
_LARGE: Final = 64 * 1024
"""From this size on it is worth reading the content size of a frame."""
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_LENGTH: Final = struct.Struct(">i")


class DecompressedTooLargeError(CorruptRecordError):
    """The data holds more than the ``max_size`` that was allowed."""


def usual_max_size(size: int) -> int:
    """How many bytes of a batch of ``size`` bytes are decompressed by readers of all topics:
    mirrors, collectors, Spark, ``verify-log``. One producer must not use up their memory, so it is
    :data:`USUAL_MAX_SIZE`. A batch that is large on the wire, too, may be :data:`USUAL_RATIO` times
    as large, up to the bound of consumers."""
    return min(DEFAULT_MAX_SIZE, max(USUAL_MAX_SIZE, USUAL_RATIO * size))


def codec_number(name: str) -> int:
    """The code of a codec's name; LocalProtocolError names the codecs that exist."""
    try:
        return CODECS.index(name)
    except ValueError:
        raise LocalProtocolError(f"no codec {name!r}; there are {', '.join(CODECS)}") from None


LEVELS: Final = {"gzip": (1, 9), "zstd": (-7, 22)}
"""Codecs that have levels: the smallest and the largest."""


def compress(codec: str, data: Buffer, level: int | None = None) -> Buffer:
    """``data`` in the form of ``codec``; ``level`` (None: its default) as :data:`LEVELS` has it."""
    if level is not None and codec in LEVELS:
        return _gzip(data, level) if codec == "gzip" else _zstd(data, level)
    compressor = _COMPRESS[codec_number(codec)]
    return data if compressor is None else compressor(data)


def decompress(codec: str, data: Buffer, max_size: int = DEFAULT_MAX_SIZE) -> Buffer:
    """The content of ``data``, at most ``max_size`` bytes.

    Raises CorruptRecordError for bad data and for more than ``max_size`` bytes.
    """
    decompressor = _DECOMPRESS[codec_number(codec)]
    if decompressor is None:
        return data
    try:
        return decompressor(data, max_size)
    except (cramjam.DecompressionError, zlib.error, struct.error) as error:
        raise CorruptRecordError(f"{codec} data does not decompress: {error}") from error


def _gzip(data: Buffer, level: int = zlib.Z_DEFAULT_COMPRESSION) -> bytes:
    compressor = zlib.compressobj(level, wbits=31)
    return compressor.compress(data) + compressor.flush()


def _gunzip(data: Buffer, max_size: int) -> bytes:
    chunks: list[bytes] = []
    rest: Any = data
    while rest:  # RFC 1952: members may follow one another
        member = zlib.decompressobj(wbits=31)
        chunk = member.decompress(rest, max_size + 1)
        max_size -= len(chunk)
        if max_size < 0:
            raise _too_large()
        if not member.eof:
            raise CorruptRecordError("gzip data is cut short")
        chunks.append(chunk)
        rest = member.unused_data
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    chunks = [_XERIAL_HEADER]
    for pos in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[pos : pos + _XERIAL_BLOCK]))
        chunks += (_LENGTH.pack(len(block)), block)
    return b"".join(chunks)


def _unsnappy(data: Buffer, max_size: int) -> Buffer:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _unsnappy_block(view, max_size)
    chunks: list[Buffer] = []
    pos = len(_XERIAL_HEADER)
    while pos < len(view):
        (size,) = _LENGTH.unpack_from(view, pos)
        pos += 4
        if not 0 <= size <= len(view) - pos:
            raise CorruptRecordError(f"snappy block of {size} bytes at {pos} is cut short")
        chunk = _unsnappy_block(view[pos : pos + size], max_size)
        chunks.append(chunk)
        max_size -= len(chunk)
        pos += size
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _unsnappy_block(block: memoryview, max_size: int) -> Buffer:
    size = cramjam.snappy.decompress_raw_len(block)
    if size > max_size:
        raise _too_large()
    if size > _SNAPPY_RATIO * len(block):
        raise CorruptRecordError(f"snappy block of {len(block)} bytes claims to hold {size}")
    return memoryview(cramjam.snappy.decompress_raw(block)).cast("B")


def _lz4(data: Buffer) -> bytes:
    view = memoryview(data)
    chunks = [_LZ4_HEADER]
    for pos in range(0, len(view), _LZ4_BLOCK):
        block = view[pos : pos + _LZ4_BLOCK]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            chunks += (len(packed).to_bytes(4, "little"), packed)
        else:
            chunks += ((len(block) | _LZ4_STORED).to_bytes(4, "little"), bytes(block))
    chunks.append(bytes(4))  # end mark
    return b"".join(chunks)


def _unlz4(data: Buffer, max_size: int) -> Buffer:
    return _grow(cramjam.lz4.decompress_into, data, max_size)


def _zstd(data: Buffer, level: int | None = None) -> Buffer:
    return memoryview(cramjam.zstd.compress(data, level)).cast("B")


def _unzstd(data: Buffer, max_size: int) -> Buffer:
    return _grow(cramjam.zstd.decompress_into, data, max_size)


def _zstd_content_size(data: Buffer) -> int:
    """The content size in the header of the first frame (RFC 8878, 3.1.1.1), 0 where there is none.
    A frame with another content size does not decompress, so a frame that claims too much may be
    refused before it is decompressed::

        magic u32 | descriptor u8: 7-6 size of the content size, 5 single segment, 1-0 of the id
        | window u8, unless single segment | dictionary id | content size, little-endian
    """
    head = bytes(memoryview(data)[:18])
    if len(head) < 6 or head[:4] != _ZSTD_MAGIC:
        return 0
    single, code = head[4] >> 5 & 1, head[4] >> 6
    size = (single, 2, 4, 8)[code]
    start = 5 + (not single) + (0, 1, 2, 4)[head[4] & 3]
    return int.from_bytes(head[start : start + size], "little") + (256 if size == 2 else 0)


def _grow(into: Callable[[Any, bytearray], int], data: Buffer, max_size: int) -> Buffer:
    """Decompress into a buffer that grows until the data fits or ``max_size`` is reached."""
    room = min(max_size, max(1024, 6 * len(data)))
    while True:
        out = bytearray(room)
        try:
            size = into(data, out)
        except cramjam.DecompressionError as error:
            # cramjam has one exception; only this text says that the buffer was too small.
            if "write whole buffer" not in str(error):
                raise
            if room == max_size or (room >= _LARGE and _zstd_content_size(data) > max_size):
                raise _too_large() from None
            room = min(max_size, 4 * room)
            del out  # or both are there at once
        else:
            return memoryview(out)[:size]


def _too_large() -> DecompressedTooLargeError:
    return DecompressedTooLargeError("compressed records exceed the size allowed")


_COMPRESS: Final[tuple[Callable[[Buffer], Buffer] | None, ...]] = (
    None,
    _gzip,
    _snappy,
    _lz4,
    _zstd,
)
_DECOMPRESS: Final[tuple[Callable[[Buffer, int], Buffer] | None, ...]] = (
    None,
    _gunzip,
    _unsnappy,
    _unlz4,
    _unzstd,
)
