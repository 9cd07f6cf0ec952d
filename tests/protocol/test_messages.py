"""Every message class in every version: what is encoded decodes to the same."""

from __future__ import annotations

import ast
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import LocalProtocolError, RemoteProtocolError
from tallymark.protocol import messages
from tallymark.protocol.api import ADVERTISED, ApiKey
from tallymark.protocol.codec import decode, encode, encode_parts
from tallymark.protocol.messages import (
    REQUEST_CLASSES,
    RESPONSE_OF,
    ApiVersionsResponse,
    ApiVersionsResponseSupportedFeature,
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponseEpochEndOffset,
    FetchResponsePartition,
    FetchResponseTopic,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseRecordError,
    ProduceResponseTopic,
)
from tallymark.protocol.schema import Array, Message, Struct, wire_fields

Case = tuple[type[Message], int]
MakeMessage = Callable[[type[Message], int, int], Any]
Facts = Callable[[Any, int], Any]


@pytest.mark.slow
def test_round_trip(case: Case, make_message: MakeMessage) -> None:
    cls, version = case
    assert decode(cls, version, encode(cls(), version)) == cls()
    for seed in range(3):
        message = make_message(cls, version, seed)
        data = encode(message, version)
        assert decode(cls, version, data) == message
        assert b"".join(encode_parts(message, version)) == data
        with pytest.raises(RemoteProtocolError, match="1 spare byte"):
            decode(cls, version, data + b"\0")
        for end in {0, len(data) // 2, len(data) - 1} - {len(data), -1}:
            with pytest.raises(RemoteProtocolError):
                decode(cls, version, data[:end])


@settings(max_examples=100, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_round_trip_of_any(
    data: st.DataObject, seed: int, all_cases: list[Case], make_message: MakeMessage, facts: Facts
) -> None:
    cls, version = data.draw(st.sampled_from(all_cases))
    message = make_message(cls, version, seed)
    again = decode(cls, version, b"before" + encode(message, version), 6)
    assert facts(again, version) == facts(message, version)


def test_versions_outside_the_declared_are_refused() -> None:
    for cls in (ProduceRequest, MetadataResponse):
        for version in (-1, cls.valid_versions[1] + 1, 32767):
            with pytest.raises(LocalProtocolError, match="no such version"):
                encode(cls(), version)
            with pytest.raises(RemoteProtocolError, match="no such version"):
                decode(cls, version, b"")


def test_what_is_advertised_is_declared() -> None:
    for key, (low, high) in ADVERTISED.items():
        request = REQUEST_CLASSES[key]
        for cls in (request, RESPONSE_OF[request]):
            assert cls.api_key == key
            assert cls.valid_versions[0] <= low <= high <= cls.valid_versions[1]
            assert cls.flexible_from >= 0


def test_produce_is_advertised_from_zero() -> None:
    """librdkafka before 2.11.1 sends gzip, snappy and lz4 uncompressed to a broker whose lowest
    Produce version is above 0, although it would use version 7 anyway (KAFKA-18659)."""
    assert ADVERTISED[ApiKey.PRODUCE][0] == 0


def test_every_field_says_what_it_is() -> None:
    for cls in _classes():
        assert cls.__doc__
        for field in wire_fields(cls):
            assert field.about.endswith("."), f"{cls.__name__}.{field.name}"
            assert field.until is None or field.until >= field.since


def _classes() -> set[type[Struct]]:
    found: set[type[Struct]] = set()
    waiting: list[type[Struct]] = [*RESPONSE_OF, *RESPONSE_OF.values()]
    while waiting:
        cls = waiting.pop()
        found.add(cls)
        for field in wire_fields(cls):
            kind = field.kind.element if isinstance(field.kind, Array) else field.kind
            if isinstance(kind, type) and kind not in found:
                waiting.append(kind)
    return found


def test_arrays_encode_from_any_sequence() -> None:
    as_lists = ProduceRequest(
        topic_data=[ProduceRequestTopic(name="t", partition_data=[ProduceRequestPartition()])]
    )
    as_tuples = ProduceRequest(
        topic_data=(ProduceRequestTopic(name="t", partition_data=(ProduceRequestPartition(),)),)
    )
    assert encode(as_lists, 9) == encode(as_tuples, 9)
    assert decode(ProduceRequest, 9, encode(as_lists, 9)) == as_tuples


def test_records_are_views_of_the_frame() -> None:
    partition = FetchResponsePartition(records=b"batch", aborted_transactions=None)
    response = FetchResponse(responses=[FetchResponseTopic(partitions=[partition])])
    frame = bytearray(encode(response, 16))
    records = decode(FetchResponse, 16, frame).responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    frame[frame.index(b"batch")] = ord("c")
    assert bytes(records) == b"catch"


def test_records_of_a_file_stand_in_the_parts_as_they_are() -> None:
    class Slice:
        size = 300

    file_slice: Any = Slice()
    partition = ProduceRequestPartition(index=1, records=file_slice)
    request = ProduceRequest(topic_data=[ProduceRequestTopic(partition_data=[partition])])
    parts = encode_parts(request, 9)
    place = parts.index(file_slice)
    whole = b"".join([*parts[:place], bytes(300), *parts[place + 1 :]])
    records = decode(ProduceRequest, 9, whole).topic_data[0].partition_data[0].records
    assert records is not None
    assert len(records) == 300


def test_fields_of_other_versions_are_left_out() -> None:
    topic = MetadataResponseTopic(name="t", topic_id=uuid.UUID(int=5))
    response = MetadataResponse(cluster_id="c", topics=[topic])
    old = decode(MetadataResponse, 1, encode(response, 1))
    assert (old.cluster_id, old.topics[0].topic_id) == (None, uuid.UUID(int=0))
    assert decode(MetadataResponse, 10, encode(response, 10)).topics[0].topic_id == topic.topic_id


def test_null_where_none_may_be_is_our_error_when_sent_and_theirs_when_received() -> None:
    with pytest.raises(LocalProtocolError, match="topics may not be null"):
        encode(MetadataRequest(topics=None), 0)
    with pytest.raises(RemoteProtocolError):
        decode(MetadataRequest, 0, b"\xff\xff\xff\xff")
    assert decode(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None
    with pytest.raises(LocalProtocolError, match="name may not be null"):
        encode(MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9)


@pytest.mark.parametrize(
    "request_",
    [
        ProduceRequest(acks=40_000),
        ProduceRequest(transactional_id="x" * 32_768),
        ProduceRequest(transactional_id="\ud800"),
        ProduceRequest(transactional_id=b"bytes"),  # type: ignore[arg-type]  # what callers do
        ProduceRequest(topic_data=[b"no topic"]),  # type: ignore[list-item]  # what callers do
        ProduceRequest(topic_data=7),  # type: ignore[arg-type]  # what callers do
        ProduceRequest(
            topic_data=[ProduceRequestTopic(partition_data=[ProduceRequestPartition(records=3)])]  # type: ignore[arg-type]  # what callers do
        ),
    ],
)
@pytest.mark.parametrize("version", [7, 9])
def test_values_that_do_not_fit_are_local_errors(request_: ProduceRequest, version: int) -> None:
    with pytest.raises(LocalProtocolError, match="ProduceRequest v"):
        encode(request_, version)


def test_tagged_fields_are_written_when_they_differ_from_the_default() -> None:
    plain = FetchResponse(responses=[FetchResponseTopic(partitions=[FetchResponsePartition()])])
    cut = FetchResponsePartition(diverging_epoch=FetchResponseEpochEndOffset(3, 100))
    diverging = FetchResponse(responses=(FetchResponseTopic(partitions=(cut,)),))
    # A tag, a size, epoch i32, end offset i64, and the nested struct's own empty tag buffer.
    assert len(encode(diverging, 12)) - len(encode(plain, 12)) == 2 + 4 + 8 + 1
    assert encode(diverging, 11) == encode(plain, 11)
    assert decode(FetchResponse, 12, encode(diverging, 12)) == diverging


def test_tags_that_are_not_known_are_skipped() -> None:
    response = ApiVersionsResponse(
        supported_features=(ApiVersionsResponseSupportedFeature("f", 0, 1),)
    )
    data = encode(response, 3)
    bare = encode(ApiVersionsResponse(), 3)
    known = data[len(bare) :]
    two = bare[:-1] + b"\x02" + known + b"\x63\x05extra"
    assert decode(ApiVersionsResponse, 3, two) == response
    with pytest.raises(RemoteProtocolError, match="tagged field 99 is cut short"):
        decode(ApiVersionsResponse, 3, two[:-1])


def test_a_known_tag_must_fill_its_size() -> None:
    bare = encode(ApiVersionsResponse(), 3)[:-1]
    with pytest.raises(RemoteProtocolError, match="does not fill its size 9"):
        decode(ApiVersionsResponse, 3, bare + b"\x01\x01\x09" + bytes(9))


def test_a_count_that_the_bytes_cannot_hold_is_refused_before_it_is_believed() -> None:
    """Two billion partitions in a request of 40 bytes: nothing may be allocated for them."""
    topic = FetchRequestTopic(topic="t", partitions=[FetchRequestPartition()])
    data = encode(FetchRequest(topics=[topic]), 4)
    count = data.index(b"\0\0\0\x01", data.index(b"t"))
    for lie in (b"\x7f\xff\xff\xff", b"\0\0\0\x02", b"\x80\0\0\0"):
        with pytest.raises(RemoteProtocolError, match="array at byte"):
            decode(FetchRequest, 4, data[:count] + lie + data[count + 4 :])


def test_bytes_as_the_protocol_guide_gives_them() -> None:
    """Worked by hand from the message format, so that no codec of ours vouches for itself."""
    partition = ProduceResponsePartition(
        index=1,
        error_code=87,
        base_offset=-1,
        record_errors=[ProduceResponseRecordError(2, None)],
        error_message="bad",
    )
    topic = ProduceResponseTopic(name="ab", partition_responses=[partition])
    data = encode(ProduceResponse(responses=[topic], throttle_time_ms=5), 9)
    assert data.hex(" ") == (
        "02 03 61 62 02 00 00 00 01 00 57"
        " ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff"
        " 02 00 00 00 02 00 00 04 62 61 64 00 00 00 00 00 05 00"
    )


def test_every_name_that_type_checkers_read_is_there_at_run_time() -> None:
    """Classes are found by the name of their API when they are first asked for; DescribeTopic-
    PartitionsCursor, neither a request nor a response, was not."""
    tree = ast.parse(Path(messages.__file__).read_text())
    names = [
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(messages.__name__)
        for alias in node.names
    ]
    assert len(names) > 100
    for module, name in names:
        assert getattr(messages, name).__module__ == module
    with pytest.raises(AttributeError):
        messages.FetchNonsense  # type: ignore[attr-defined]  # noqa: B018
