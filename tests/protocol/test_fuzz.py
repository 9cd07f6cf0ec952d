"""Whatever comes from the network is a value or a RemoteProtocolError, never anything else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import CorruptRecordError, RemoteProtocolError
from tallymark.protocol.codec import decode, encode
from tallymark.protocol.frames import FrameBuffer, decode_request_header, decode_response
from tallymark.protocol.messages import RESPONSE_OF
from tallymark.protocol.records.batch import Batch, encode_batch, split_batches
from tallymark.protocol.records.message_sets import split_any
from tallymark.protocol.schema import Message

Case = tuple[type[Message], int]


def mutated(data: bytes, random: Random) -> bytes:
    """``data`` with a few bytes changed, cut out, or put in."""
    out = bytearray(data)
    for _ in range(random.randint(1, 4)):
        place = random.randrange(len(out) + 1)
        match random.randrange(4):
            case 0:
                out[place : place + 1] = random.choice((b"\xff", b"\x80", b"\0", b"\x7f"))
            case 1:
                del out[place : place + random.randint(1, 5)]
            case 2:
                out[place:place] = random.randbytes(random.randint(1, 5))
            case _:
                out[place : place + 1] = random.randbytes(1)
    return bytes(out)


def test_mutated_messages(
    all_cases: list[Case], make_message: Callable[[type[Message], int, int], Any]
) -> None:
    random = Random("any seed will do")
    for cls, version in all_cases:
        data = encode(make_message(cls, version, 0), version)
        for _ in range(15):
            bad = mutated(data, random)
            try:
                message = decode(cls, version, bad)
            except RemoteProtocolError:
                continue
            assert decode(cls, version, encode(message, version)) == message, bad.hex()


@settings(deadline=None, max_examples=100)
@given(data=st.data(), body=st.binary(max_size=200))
def test_random_messages(data: st.DataObject, all_cases: list[Case], body: bytes) -> None:
    cls, version = data.draw(st.sampled_from(all_cases))
    try:
        decode(cls, version, body)
    except RemoteProtocolError:
        return


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=60), st.sampled_from(list(RESPONSE_OF)), st.integers(-2, 20))
def test_random_frames(frame: bytes, request_class: Any, version: int) -> None:
    for read in (
        lambda: decode_request_header(frame),
        lambda: decode_response(frame, request_class, version),
        lambda: FrameBuffer(1000).receive(frame),
    ):
        try:
            read()
        except RemoteProtocolError:
            continue


def read_all(batches: list[Batch]) -> None:
    for batch in batches:
        with suppress(CorruptRecordError):
            batch.check_crc()
        batch.records(max_size=100_000)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32), st.sampled_from(("none", "none", "gzip", "snappy", "lz4", "zstd")))
def test_mutated_batches(seed: int, codec: str) -> None:
    random = Random(seed)
    inputs = [(b"key", b"v" * random.choice((1, 70)), (("tm", b"12"),), n) for n in range(3)]
    data = mutated(encode_batch(inputs, compression=codec) * 2, random)
    for split in (split_batches, split_any):
        try:
            read_all(split(data))
        except CorruptRecordError:
            continue


@settings(deadline=None)
@given(st.binary(max_size=120), st.sampled_from((0, 1, 2, 3)))
def test_random_batches(data: bytes, magic: int) -> None:
    with_magic = data[:16] + bytes([magic]) + data[17:]
    for split in (split_batches, split_any):
        try:
            read_all(split(with_magic))
        except CorruptRecordError:
            continue
