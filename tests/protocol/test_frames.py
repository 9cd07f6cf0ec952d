"""Frames: headers, sizes, and a stream cut anywhere."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import LocalProtocolError, RemoteProtocolError
from tallymark.protocol.api import ApiKey
from tallymark.protocol.codec import decode, encode, is_flexible
from tallymark.protocol.frames import (
    FrameBuffer,
    RequestHeader,
    decode_correlation_id,
    decode_request_header,
    decode_response,
    encode_request,
    encode_request_parts,
    encode_response,
    encode_response_parts,
)
from tallymark.protocol.messages import (
    RESPONSE_OF,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseKey,
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
    MetadataRequest,
    MetadataResponse,
)
from tallymark.protocol.schema import Message, Request

Case = tuple[type[Message], int]
MakeMessage = Callable[[type[Message], int, int], Any]


def test_request_and_response_round_trip(all_cases: list[Case], make_message: MakeMessage) -> None:
    for cls, version in all_cases:
        if not issubclass(cls, Request):
            continue
        request = make_message(cls, version, 3)
        [frame] = FrameBuffer().receive(encode_request(request, version, 77, "me"))
        header, body = decode_request_header(frame)
        assert header == RequestHeader(cls.api_key, version, 77, "me")
        assert decode(cls, version, frame, body) == request
        response = make_message(RESPONSE_OF[cls], version, 3)
        if isinstance(response, ApiVersionsResponse):
            response = replace(response, error_code=0)
        [frame] = FrameBuffer().receive(encode_response(response, version, 77))
        assert decode_response(frame, cls, version) == (77, response)


def test_request_header_bytes() -> None:
    """The client id is a classic string even where the header ends with tagged fields."""
    assert encode_request(MetadataRequest(topics=None), 1, 5, "ab").hex(" ") == (
        "00 00 00 10 00 03 00 01 00 00 00 05 00 02 61 62 ff ff ff ff"
    )
    flexible = encode_request(MetadataRequest(topics=None), 12, 5, None)
    assert flexible.hex(" ") == "00 00 00 0f 00 03 00 0c 00 00 00 05 ff ff 00 00 01 00 00"


def test_api_versions_answers_with_the_oldest_header() -> None:
    """A client asks with v3 or v4 before it knows the broker; a tag buffer in the header of the
    answer made old clients misread every field after it (KIP-511)."""
    data = encode_response(ApiVersionsResponse(), 3, 9)
    assert data.hex(" ") == "00 00 00 0c 00 00 00 09 00 00 01 00 00 00 00 00"
    tagged = encode_response(MetadataResponse(), 9, 9)
    assert tagged[8:9] == b"\0"
    assert len(tagged) == 9 + len(encode(MetadataResponse(), 9))


def test_unsupported_api_versions_is_read_in_the_form_of_version_0() -> None:
    """kafka-python sends v4 first, librdkafka v3; a broker that knows less says so in v0."""
    answer = ApiVersionsResponse(error_code=35, api_keys=(ApiVersionsResponseKey(18, 0, 2),))
    frame = encode_response(answer, 0, 1)[4:]
    for version in range(5):
        assert decode_response(frame, ApiVersionsRequest, version) == (1, answer)


def test_tagged_fields_of_headers_are_skipped() -> None:
    data = encode_response(FetchResponse(), 12, 1)[4:]
    tagged = data[:4] + b"\x01\x05\x03abc" + data[5:]
    assert decode_response(tagged, FetchRequest, 12) == (1, FetchResponse())
    with pytest.raises(RemoteProtocolError, match="header is cut"):
        decode_response(data[:4] + b"\x01\x05\x7fabc", FetchRequest, 12)


def test_parts_count_what_is_in_a_file() -> None:
    class Slice:
        size = 1000

    file_slice: Any = Slice()
    partition = FetchResponsePartition(records=file_slice)
    response = FetchResponse(responses=[FetchResponseTopic(topic="t", partitions=[partition])])
    parts = encode_response_parts(response, 12, 4)
    assert file_slice in parts
    data = b"".join(bytes(1000) if part is file_slice else part for part in parts)
    [frame] = FrameBuffer().receive(data)
    _, decoded = decode_response(frame, FetchRequest, 12)
    records = decoded.responses[0].partitions[0].records
    assert records is not None
    assert len(records) == 1000


def test_parts_joined_are_the_frame() -> None:
    request = MetadataRequest(topics=None)
    parts = encode_request_parts(request, 9, 1, "c")
    assert b"".join(parts) == encode_request(request, 9, 1, "c")


def test_client_ids() -> None:
    long = encode_request(MetadataRequest(), 1, 1, "é" * 16383)
    assert decode_request_header(memoryview(long)[4:])[0].client_id == "é" * 16383
    with pytest.raises(LocalProtocolError, match="32767 are allowed"):
        encode_request(MetadataRequest(), 1, 1, "é" * 16384)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\0\x03\0\x01\0\0\0",
        struct.pack(">hhih", 3, 1, 1, -2),
        struct.pack(">hhih", 3, 1, 1, 5) + b"four",
        struct.pack(">hhih", 3, 1, 1, 1) + b"\xff",
        struct.pack(">hhih", 3, 9, 1, -1),
        struct.pack(">hhih", 3, 9, 1, -1) + b"\x80\x80\x80\x80\x80\x80",
        struct.pack(">hhih", 3, 9, 1, -1) + b"\x01\x01\x09",
    ],
)
def test_bad_request_headers(header: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_request_header(header)


def test_unknown_keys_have_a_header_all_the_same() -> None:
    frame = struct.pack(">hhih", 999, 40, 8, 1) + b"c"
    assert decode_request_header(frame) == (RequestHeader(999, 40, 8, "c"), len(frame))


def test_a_response_needs_a_correlation_id() -> None:
    assert decode_correlation_id(b"\0\0\0\x07rest") == 7
    with pytest.raises(RemoteProtocolError):
        decode_correlation_id(b"\0\0\0")


@settings(deadline=None)
@given(
    st.lists(st.binary(max_size=300), max_size=8),
    st.lists(st.integers(1, 400), min_size=1, max_size=8),
    st.booleans(),
)
def test_frames_come_out_however_the_stream_is_cut(
    bodies: list[bytes], cuts: list[int], reuse_memory: bool
) -> None:
    stream = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    buffer = FrameBuffer()
    frames: list[memoryview] = []
    pos = turn = 0
    while pos < len(stream):
        chunk = bytearray(stream[pos : pos + cuts[turn % len(cuts)]])
        pos += len(chunk)
        turn += 1
        frames += buffer.receive(chunk if reuse_memory else bytes(chunk))
        chunk[:] = bytes(len(chunk))
    assert [bytes(frame) for frame in frames] == bodies
    assert buffer.held == 0


def test_frames_are_writable_and_ours() -> None:
    data = b"\0\0\0\x02ab\0\0\0\x01c"
    first, second = FrameBuffer().receive(data)
    first[0] = ord("z")
    assert (bytes(first), bytes(second), data[4:6]) == (b"zb", b"c", b"ab")


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_sizes_out_of_bounds_are_refused_at_once(size: int) -> None:
    buffer = FrameBuffer(max_size=100)
    assert len(buffer.receive(b"\0\0\0\x64" + bytes(100))) == 1
    with pytest.raises(RemoteProtocolError, match="100 are allowed"):
        buffer.receive(struct.pack(">i", size))


def test_http_on_the_port_is_refused() -> None:
    """A browser's "GET " reads as a frame of 1.2 GB: say no, do not wait for it."""
    with pytest.raises(RemoteProtocolError):
        FrameBuffer().receive(b"GET / HTTP/1.1\r\n")


def test_flexible_versions_of_each_api() -> None:
    """Kafka's table of the first flexible versions. SaslHandshake and OffsetDelete never are."""
    never = 99
    first = {
        ApiKey.PRODUCE: 9,
        ApiKey.FETCH: 12,
        ApiKey.LIST_OFFSETS: 6,
        ApiKey.METADATA: 9,
        ApiKey.OFFSET_COMMIT: 8,
        ApiKey.OFFSET_FETCH: 6,
        ApiKey.FIND_COORDINATOR: 3,
        ApiKey.API_VERSIONS: 3,
        ApiKey.CREATE_TOPICS: 5,
        ApiKey.DELETE_TOPICS: 4,
        ApiKey.INIT_PRODUCER_ID: 2,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
        ApiKey.ADD_PARTITIONS_TO_TXN: 3,
        ApiKey.ADD_OFFSETS_TO_TXN: 3,
        ApiKey.END_TXN: 3,
        ApiKey.WRITE_TXN_MARKERS: 1,
        ApiKey.TXN_OFFSET_COMMIT: 3,
        ApiKey.DESCRIBE_TRANSACTIONS: 0,
        ApiKey.LIST_TRANSACTIONS: 0,
        ApiKey.JOIN_GROUP: 6,
        ApiKey.HEARTBEAT: 4,
        ApiKey.LEAVE_GROUP: 4,
        ApiKey.SYNC_GROUP: 4,
        ApiKey.DESCRIBE_GROUPS: 5,
        ApiKey.LIST_GROUPS: 3,
        ApiKey.SASL_HANDSHAKE: never,
        ApiKey.DELETE_RECORDS: 2,
        ApiKey.DESCRIBE_ACLS: 2,
        ApiKey.CREATE_ACLS: 2,
        ApiKey.DELETE_ACLS: 2,
        ApiKey.DESCRIBE_CONFIGS: 4,
        ApiKey.ALTER_CONFIGS: 2,
        ApiKey.DESCRIBE_LOG_DIRS: 2,
        ApiKey.SASL_AUTHENTICATE: 2,
        ApiKey.CREATE_PARTITIONS: 2,
        ApiKey.DELETE_GROUPS: 2,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
        ApiKey.OFFSET_DELETE: never,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: 1,
        ApiKey.ALTER_CLIENT_QUOTAS: 1,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: 0,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 0,
        ApiKey.DESCRIBE_CLUSTER: 0,
        ApiKey.DESCRIBE_PRODUCERS: 0,
        ApiKey.ALTER_REPLICA_LOG_DIRS: 2,
        ApiKey.ELECT_LEADERS: 2,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
        ApiKey.UPDATE_FEATURES: 0,
        ApiKey.LIST_CONFIG_RESOURCES: 0,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: 0,
    }
    for request, response in RESPONSE_OF.items():
        for cls in (request, response):
            low, high = cls.valid_versions
            for version in range(low, high + 1):
                assert is_flexible(cls, version) == (version >= first[cls.api_key]), (cls, version)
