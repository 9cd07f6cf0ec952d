"""Codecs: what goes in comes out, in the forms that Kafka's clients read, and never too much."""

from __future__ import annotations

import contextlib
import gzip
import random
import tracemalloc
import zlib

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import CorruptRecordError, LocalProtocolError
from tallymark.protocol.records.compression import CODECS, compress, decompress

COMPRESSING = CODECS[1:]


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(CODECS), st.binary(max_size=500), st.integers(1, 2000))
def test_round_trip(codec: str, unit: bytes, times: int) -> None:
    data = unit * times
    for form in (data, bytearray(data), memoryview(data)):
        assert bytes(decompress(codec, compress(codec, form), len(data))) == data


@pytest.mark.parametrize("codec", CODECS)
def test_what_does_not_compress_comes_back_too(codec: str) -> None:
    data = random.Random(1).randbytes(200_000)
    assert bytes(decompress(codec, compress(codec, data), len(data))) == data


@pytest.mark.parametrize("codec", COMPRESSING)
def test_one_byte_too_much_is_refused(codec: str) -> None:
    data = b"tally" * 20_000
    packed = compress(codec, data)
    assert len(packed) < len(data) / 5
    assert len(decompress(codec, packed, len(data))) == len(data)
    with pytest.raises(CorruptRecordError, match="size allowed"):
        decompress(codec, packed, len(data) - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_bombs_do_not_go_off(codec: str) -> None:
    """A few kilobytes that unpack to 40 MB must not take 40 MB to refuse."""
    bomb = compress(codec, bytes(40_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecordError):
            decompress(codec, bomb, 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


def test_a_snappy_block_cannot_claim_more_than_snappy_can_do() -> None:
    """The length is the block's first bytes: ten bytes could ask for 200 MB before any is read."""
    claim = b"\x80\x84\xaf\x5f" + b"\x00" * 6
    with pytest.raises(CorruptRecordError, match="claims to hold"):
        decompress("snappy", claim, 1 << 30)


@pytest.mark.parametrize("codec", COMPRESSING)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_bad_data_is_refused(codec: str, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, b"tally" * 200))
    for place in data.draw(st.lists(st.integers(0, len(packed) - 1), max_size=3)):
        packed[place] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(packed)))
    try:
        result = decompress(codec, packed[:end], 10_000)
    except CorruptRecordError:
        return
    assert len(result) <= 10_000


@given(st.sampled_from(COMPRESSING), st.binary(max_size=60))
def test_random_data_is_refused_or_small(codec: str, data: bytes) -> None:
    with contextlib.suppress(CorruptRecordError):
        assert len(decompress(codec, data, 10_000)) <= 10_000


def test_snappy_is_framed_as_snappy_java_does() -> None:
    packed = bytes(compress("snappy", bytes(40_000)))
    assert packed[:16] == b"\x82SNAPPY\x00" + b"\0\0\0\x01" * 2
    first = int.from_bytes(packed[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + first])) == bytes(32 * 1024)


def test_plain_snappy_is_read() -> None:
    plain = bytes(cramjam.snappy.compress_raw(b"abc" * 100))
    assert bytes(decompress("snappy", plain, 1000)) == b"abc" * 100


def test_lz4_frames_have_independent_blocks() -> None:
    """Kafka's Java client refuses frames whose blocks lean on one another, and cramjam's own frame
    writer sets exactly that flag: a batch it compressed could not be consumed from Java."""
    packed = bytes(compress("lz4", b"abc" * 100_000))
    assert packed[:4].hex() == "04224d18"
    assert packed[4] >> 6 == 1  # version
    assert packed[4] & 0x20  # independent
    assert packed[:7] == _lz4_header_by_the_book()
    assert bytes(cramjam.lz4.decompress(packed)) == b"abc" * 100_000


def _lz4_header_by_the_book() -> bytes:
    """The header checksum is byte 1 of xxHash32 over the descriptor; short inputs hash like so."""
    mask, prime3, prime5 = 0xFFFFFFFF, 3266489917, 374761393
    h = (prime5 + 2) & mask
    for byte in b"\x60\x40":
        h = (h + byte * prime5) & mask
        h = ((h << 11 | h >> 21) & mask) * 2654435761 & mask
    h = (h ^ h >> 15) * 2246822519 & mask
    h = (h ^ h >> 13) * prime3 & mask
    h ^= h >> 16
    return bytes.fromhex("04224d186040") + bytes([h >> 8 & 0xFF])


def test_arrow_agrees() -> None:
    """Arrow carries the reference implementations of the same formats."""
    pyarrow = pytest.importorskip("pyarrow")
    data = b"tally" * 30_000
    for codec in ("gzip", "lz4", "zstd"):
        theirs = pyarrow.compress(data, codec, asbytes=True)
        assert bytes(decompress(codec, theirs, len(data))) == data
        ours = bytes(compress(codec, data))
        assert pyarrow.decompress(ours, len(data), codec, asbytes=True) == data
    theirs = pyarrow.compress(data, "snappy", asbytes=True)
    assert bytes(decompress("snappy", theirs, len(data))) == data


def test_gzip_members_may_follow_one_another() -> None:
    assert decompress("gzip", gzip.compress(b"one ") + gzip.compress(b"two"), 7) == b"one two"
    with pytest.raises(CorruptRecordError, match="cut short"):
        decompress("gzip", gzip.compress(b"one")[:-3], 100)
    with pytest.raises(CorruptRecordError):
        decompress("gzip", zlib.compress(b"one"), 100)


def test_unknown_codecs_are_named() -> None:
    with pytest.raises(LocalProtocolError, match="no codec 'lzma'; there are none, gzip"):
        compress("lzma", b"")
