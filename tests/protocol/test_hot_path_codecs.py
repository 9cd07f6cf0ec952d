"""The hand-written codecs of Produce and Fetch say what the declared messages say, for good bytes
and for broken ones."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutation import mutated

from tallymark.broker.requests.decode import decode_request
from tallymark.errors import RemoteProtocolError
from tallymark.protocol.codec import decode, encode
from tallymark.protocol.frames import encode_response
from tallymark.protocol.messages import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponseAbortedTransaction,
    FetchResponseEpochEndOffset,
    FetchResponseLeader,
    FetchResponsePartition,
    FetchResponseTopic,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from tallymark.protocol.schema import ZERO_UUID
from tallymark.protocol.wire import fetch as fetch_wire
from tallymark.protocol.wire import produce as produce_wire
from tallymark.protocol.wire.fetch import Found, partition_tags, read_fetch, write_fetched
from tallymark.protocol.wire.produce import Appended, read_produce, write_produced

PRODUCE = range(produce_wire.LOWEST, produce_wire.HIGHEST + 1)
FETCH = range(fetch_wire.LOWEST, fetch_wire.HIGHEST + 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
NAMES = st.text("abc-_.é€𝄞", max_size=150)


def plain_produce(request: ProduceRequest) -> Any:
    topics = [
        (topic.name, [(part.index, part.records) for part in topic.partition_data])
        for topic in request.topic_data
    ]
    return (request.transactional_id, request.acks, request.timeout_ms, topics)


def plain_fetch(request: FetchRequest, version: int) -> Any:
    def key(topic: Any) -> Any:
        return topic.topic if version <= 12 else topic.topic_id

    topics = [
        (
            key(topic),
            [
                (
                    part.partition,
                    part.current_leader_epoch,
                    part.fetch_offset,
                    part.last_fetched_epoch,
                    part.partition_max_bytes,
                    part.log_start_offset,
                    part.high_watermark,
                    part.corrupt,
                )
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    forgotten = [(key(each), tuple(each.partitions)) for each in request.forgotten_topics_data]
    return (
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        topics,
        forgotten,
        (request.replica_id, -1)
        if version < 15
        else (request.replica_state.replica_id, request.replica_state.replica_epoch),
        request.rack_id,
    )


def broken(body: bytes, random: Random) -> bytes:
    return mutated(bytes(12) + body, bytes(40), random)[12:]


def outcome(read: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return read(*arguments)
    except RemoteProtocolError:
        return "refused"


@pytest.mark.parametrize("version", PRODUCE)
def test_produce_requests_read_alike(version: int, make_message: Any) -> None:
    random = Random(version)
    for seed in range(25):
        good = encode(make_message(ProduceRequest, version, seed), version)
        for data in [good, good + b"spare", *(broken(good, random) for _ in range(15))]:
            body = memoryview(data)
            declared = outcome(decode_request, ProduceRequest, version, body)
            expected = declared if declared == "refused" else plain_produce(declared)
            got = outcome(read_produce, body, version)
            assert got == expected, (seed, data.hex())


@pytest.mark.parametrize("version", PRODUCE)
@given(name=NAMES, index=INT32, size=st.integers(0, 300), acks=st.integers(-1, 1))
@settings(max_examples=20, deadline=None)
def test_the_usual_produce_request_reads_alike(
    version: int, name: str, index: int, size: int, acks: int
) -> None:
    """One batch for one partition has a way of its own."""
    part = ProduceRequestPartition(index=index, records=bytes(size))
    request = ProduceRequest(
        acks=acks,
        timeout_ms=7,
        topic_data=(ProduceRequestTopic(name=name, partition_data=(part,)),),
    )
    body = memoryview(encode(request, version))
    assert tuple(read_produce(body, version)) == plain_produce(request)
    for cut in range(len(body)):
        assert outcome(read_produce, body[:cut], version) == "refused"


@pytest.mark.parametrize("version", FETCH)
def test_fetch_requests_read_alike(version: int, make_message: Any) -> None:
    random = Random(version)
    for seed in range(25):
        good = encode(make_message(FetchRequest, version, seed), version)
        for data in [good, good + b"spare", *(broken(good, random) for _ in range(15))]:
            body = memoryview(data)
            declared = outcome(decode_request, FetchRequest, version, body)
            got = outcome(read_fetch, body, version)
            if declared == "refused":
                # Tagged fields (cluster id, follower) are skipped, not looked into.
                assert version >= 12 or got == "refused", (seed, data.hex())
            else:
                assert got == plain_fetch(declared, version), (seed, data.hex())


@pytest.mark.parametrize("version", PRODUCE)
@given(
    st.lists(
        st.tuples(NAMES, st.lists(st.builds(Appended, INT32, INT64, INT64, INT64), max_size=3)),
        max_size=3,
    ),
    st.integers(0, 2**31 - 1),
)
@settings(max_examples=30, deadline=None)
def test_produce_answers_are_written_alike(version: int, topics: Any, throttle: int) -> None:
    declared = ProduceResponse(
        responses=[
            ProduceResponseTopic(
                name=name,
                partition_responses=[
                    ProduceResponsePartition(
                        index=each.partition,
                        base_offset=each.base_offset,
                        log_append_time_ms=each.log_append_time_ms,
                        log_start_offset=each.log_start_offset,
                    )
                    for each in partitions
                ],
            )
            for name, partitions in topics
        ],
        throttle_time_ms=throttle,
    )
    assert write_produced(version, 9, topics, throttle) == encode_response(declared, version, 9)


@pytest.mark.parametrize("version", FETCH)
@given(
    st.lists(
        st.lists(
            st.builds(
                Found,
                INT32,
                st.integers(0, 99),
                INT64,
                INT64,
                INT64,
                st.binary(max_size=200),
                st.just(b"\0"),
                st.lists(st.tuples(INT64, INT64), max_size=3),
            ),
            max_size=3,
        ),
        max_size=3,
    ),
    st.booleans(),
)
@settings(max_examples=30, deadline=None)
@pytest.mark.slow
def test_fetch_answers_are_written_alike(version: int, topics: Any, committed: bool) -> None:
    keys: list[Any] = ["orders", "", "é" * 140] if version <= 12 else [uuid.uuid4(), ZERO_UUID] * 2
    named = list(zip(keys, topics, strict=False))
    declared = FetchResponse(
        session_id=77 if version >= 7 else 0,
        error_code=3 if version >= 7 else 0,
        throttle_time_ms=5,
        responses=[
            FetchResponseTopic(
                topic=key if isinstance(key, str) else "",
                topic_id=key if isinstance(key, uuid.UUID) else ZERO_UUID,
                partitions=[
                    FetchResponsePartition(
                        partition_index=each.partition,
                        error_code=each.error_code,
                        high_watermark=each.high_watermark,
                        last_stable_offset=each.last_stable_offset,
                        log_start_offset=each.log_start_offset,
                        aborted_transactions=[
                            FetchResponseAbortedTransaction(*aborted) for aborted in each.aborted
                        ]
                        if committed
                        else None,
                        records=each.records,
                    )
                    for each in partitions
                ],
            )
            for key, partitions in named
        ],
    )
    written = write_fetched(version, 9, 77, named, error_code=3, committed=committed, throttle_ms=5)
    assert b"".join(written) == encode_response(declared, version, 9)


@pytest.mark.parametrize("version", [12, 18])
@pytest.mark.parametrize("diverging", [None, (3, 2**40), (-1, 0)])
@pytest.mark.parametrize("leader", [None, (2, 7)])
def test_what_followers_are_told_is_written_alike(
    version: int, diverging: tuple[int, int] | None, leader: tuple[int, int] | None
) -> None:
    """Where the logs part (KIP-595), and who leads now (KIP-951)."""
    tags: dict[str, Any] = {}
    if diverging:
        tags["diverging_epoch"] = FetchResponseEpochEndOffset(
            epoch=diverging[0], end_offset=diverging[1]
        )
    if leader:
        tags["current_leader"] = FetchResponseLeader(leader_id=leader[0], leader_epoch=leader[1])
    part = FetchResponsePartition(
        partition_index=1,
        error_code=6,
        high_watermark=5,
        last_stable_offset=5,
        log_start_offset=0,
        aborted_transactions=None,
        records=b"ab",
        **tags,
    )
    key: Any = "t" if version <= 12 else uuid.UUID(int=5)
    name = {"topic": key} if version <= 12 else {"topic_id": key}
    declared = FetchResponse(responses=[FetchResponseTopic(partitions=[part], **name)])
    expected = encode_response(declared, version, 9)
    found = Found(1, 6, 5, 5, 0, b"ab", partition_tags(diverging, leader))
    written = b"".join(write_fetched(version, 9, 0, [(key, [found])]))
    assert written == expected


def test_slices_of_files_count_into_the_size_of_a_fetch_answer() -> None:
    class Slice:
        size = 1000

    found = [("t", [Found(0, 0, 1, 1, 0, Slice()), Found(1, 0, 1, 1, 0, b"abc")])]
    parts = write_fetched(11, 9, 0, found)
    size = sum(getattr(part, "size", None) or len(part) for part in parts)
    assert struct.unpack(">i", parts[0][:4])[0] == size - 4
    assert sum(isinstance(part, Slice) for part in parts) == 1


@pytest.mark.parametrize("version", [8, 9])
def test_a_produce_request_may_not_name_millions(version: int) -> None:
    """100 MB of partitions of seven bytes each would become gigabytes of objects."""
    part = ProduceRequestPartition(index=0, records=b"")
    parts = (part,) * (produce_wire.MOST_NAMED + 1)
    topic = ProduceRequestTopic(name="t", partition_data=parts)
    body = memoryview(encode(ProduceRequest(topic_data=(topic,)), version))
    with pytest.raises(RemoteProtocolError, match="are allowed"):
        read_produce(body, version)


def test_a_batch_that_came_corrupt_is_named_by_a_tag_that_kafka_does_not_have() -> None:
    """Where none came corrupt nothing more is sent (``test_kio_agrees`` compares the bytes)."""
    part = FetchRequestPartition(partition=3, fetch_offset=7, corrupt=True)
    request = FetchRequest(topics=[FetchRequestTopic(partitions=[part])])
    for version in (15, 18):
        data = encode(request, version)
        (_, (ask,)) = read_fetch(memoryview(data), version).topics[0]
        assert (ask.fetch_offset, ask.corrupt) == (7, True)
        assert decode(FetchRequest, version, data).topics[0].partitions[0].corrupt
    assert not read_fetch(memoryview(encode(request, 14)), 14).topics[0][1][0].corrupt
