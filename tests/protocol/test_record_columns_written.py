"""Batches that are encoded column by column are the bytes that the declared encoder writes."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import LocalProtocolError
from tallymark.protocol import frames
from tallymark.protocol.messages import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from tallymark.protocol.records.batch import Header, encode_batch, split_batches
from tallymark.protocol.records.column_writer import Columns, RunningHeader, encode_columns
from tallymark.protocol.records.writer import (
    BatchBuilder,
    batch_header,
    encode_headers,
    header_key,
)
from tallymark.protocol.varint import encode_uvarint
from tallymark.protocol.wire.produce_client import (
    PartitionResponse,
    Topic,
    read_produced,
    write_produce,
)

PREFIX, SUFFIX = b"\1\2\3instance", b"server"


def running(first: int) -> RunningHeader:
    return RunningHeader(header_key("tm"), PREFIX, first, SUFFIX)


def declared(
    times: Sequence[int],
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    headers: Sequence[Sequence[Header]] | None,
    first: int | None,
) -> bytes:
    """The same records through the encoder that writes one by one."""
    builder = BatchBuilder()
    for index, value in enumerate(values):
        own = list(headers[index]) if headers else []
        if first is not None:
            own.append(("tm", PREFIX + encode_uvarint(first + index) + SUFFIX))
        builder.append(keys[index] if keys else None, value, own, times[index])
    return builder.records()


def written(
    times: Sequence[int],
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    headers: Sequence[Sequence[Header]] | None,
    first: int | None,
) -> bytes:
    more = first is not None
    own = None if headers is None else [encode_headers(one, more) for one in headers]
    return encode_columns(
        Columns(times, values, keys, own, None if first is None else running(first))
    )


EDGES = (0, 2**7, 2**14, 2**15, 3 * 2**14, 2**21, 2**21 + 2**14, 2**28, 2**35, 2**62)
"""Of sequences: where they take another byte, and where their upper bytes change."""
COUNTER_EDGES = (64, 512, 8192)
"""Of places in a batch: where the offset delta takes another byte, and where tables end."""


@st.composite
def first_sequences(draw: st.DrawFn, count: int) -> int | None:
    """Any, and above all those that have an edge within the batch or next to it: nothing that the
    shape of a batch rests on is as rare as chance makes it."""
    near = st.integers(max(-count - 1, -150), 1)
    place = st.one_of(near, st.sampled_from([-64, -65, -63, -count, 1 - count]))
    at_edge = st.builds(lambda edge, by: max(0, edge + by), st.sampled_from(EDGES), place)
    return draw(st.one_of(st.none(), at_edge, at_edge, st.integers(0, 2**62)))


@st.composite
def time_columns(draw: st.DrawFn, count: int) -> list[int]:
    """Stretches of one timestamp that end anywhere, at the edges too; and what goes back, jumps
    far ahead, or is another one in each record."""
    inside = st.integers(0, count)
    cuts = draw(st.lists(st.one_of(inside, st.sampled_from(COUNTER_EDGES)), max_size=12))
    steps = st.sampled_from([0, 1, 1, 1, 40, 63, 64, 8191, 8192, -1, 10**12])
    every = draw(st.sampled_from([count, count, count, 1, 3, 5]))
    times, now = [], 1_700_000_000_000
    edges = set(cuts) | set(range(every, count, every))
    for index in range(count):
        if index in edges:
            now += draw(steps)
        times.append(now)
    return times


@settings(max_examples=80)
@given(st.data())
def test_it_is_what_the_declared_encoder_writes(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 150))
    if data.draw(st.booleans()):
        values: list[bytes | None] = [b"v" * data.draw(st.integers(0, 300))] * count
    else:
        sizes = st.one_of(st.integers(0, 300), st.integers(7000, 9000))
        some = data.draw(st.lists(st.one_of(st.none(), sizes), min_size=1, max_size=5))
        values = [None if s is None else b"v" * s for s in some] * count
        values = values[:count]
    keys = data.draw(st.sampled_from([None, [b"k"], [None, b"key", b""]]))
    names = data.draw(st.sampled_from([None, [()], [(), (("h", b"1"), ("g", None))]]))
    arguments = (
        data.draw(time_columns(count)),
        values,
        None if keys is None else [keys[i % len(keys)] for i in range(count)],
        None if names is None else [names[i % len(names)] for i in range(count)],
        data.draw(first_sequences(count)),
    )
    assert written(*arguments) == declared(*arguments)


@pytest.mark.parametrize("edge", EDGES[1:])
@pytest.mark.parametrize("beside", [-1, 0, 1])
def test_two_counters_take_another_byte_in_the_same_record(edge: int, beside: int) -> None:
    """Half a million records sent to four partitions killed the producer's thread with an
    IndexError: batches had 65 records, and the second of a partition began with sequence 64, so
    offset delta and sequence grew by a byte in the same record. That place was then counted twice,
    and between the two stood a run of no records. The generator drew sequences, sizes and times
    each on its own and never met the coincidence."""
    first, count = edge - 64 + beside, 100
    values: list[bytes | None] = [b"x" * 20] * count
    for change in (0, 63, 64, 65):
        times = [5] * change + [6] * (count - change)
        for some in (values, [*values[:-1], b"y"]):
            expected = declared(times, some, None, None, first)
            assert written(times, some, None, None, first) == expected


@pytest.mark.parametrize("count", [63, 64, 65, 512, 513, 8192, 8193])
@pytest.mark.parametrize("first", [None, 100, 16_300])
def test_where_counters_take_another_byte(count: int, first: int | None) -> None:
    values = [b"x" * 20] * count
    times = [5] * (count // 2) + [6] * (count - count // 2)
    assert written(times, values, None, None, first) == declared(times, values, None, None, first)


def test_a_batch_of_header_and_columns_is_a_batch() -> None:
    rows = [(b"k", b"v%d" % number, (), 1000 + number) for number in range(5)]
    body = written([row[3] for row in rows], [row[1] for row in rows], [b"k"] * 5, None, None)
    header = batch_header(
        body,
        attributes=0,
        count=5,
        base_timestamp=1000,
        max_timestamp=1004,
        producer=(7, 1, 40),
    )
    expected = encode_batch(rows, producer_id=7, producer_epoch=1, base_sequence=40)
    assert header + body == expected
    (batch,) = split_batches(header + body)
    batch.check_crc()
    with pytest.raises(LocalProtocolError, match="batch header"):
        batch_header(
            body,
            attributes=0,
            count=5,
            base_timestamp=2**64,
            max_timestamp=0,
            producer=(-1, -1, -1),
        )


def test_headers_that_are_none_are_refused() -> None:
    with pytest.raises((TypeError, AttributeError)):
        encode_headers((("name", 5),))  # type: ignore[arg-type] # that is the test
    with pytest.raises(LocalProtocolError, match="not Unicode"):
        encode_headers((("\ud800", b""),))


# --- requests and answers ---------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("client_id", ["producer", None])
@pytest.mark.parametrize("parts", [{"t": [0]}, {"t": [2, 0]}, {"t": [1], "another": [0, 3]}])
def test_requests_are_those_of_the_declared_message(
    version: int, client_id: str | None, parts: dict[str, list[int]]
) -> None:
    ids = {name: uuid.uuid5(uuid.NAMESPACE_DNS, name) for name in parts}
    header, records = b"h" * 61, b"r" * 300
    message = ProduceRequest(
        acks=-1,
        timeout_ms=1500,
        topic_data=[
            ProduceRequestTopic(
                name=name,
                topic_id=ids[name],
                partition_data=[
                    ProduceRequestPartition(index=index, records=header + records)
                    for index in indexes
                ],
            )
            for name, indexes in parts.items()
        ],
    )
    topics: list[Topic] = [
        (name, ids[name], [(index, header, records) for index in indexes])
        for name, indexes in parts.items()
    ]
    found = b"".join(write_produce(version, 77, client_id, -1, 1500, topics))
    assert found == frames.encode_request(message, version, 77, client_id)


def test_what_is_too_long_or_too_old_is_refused() -> None:
    topic: Topic = ("t", uuid.UUID(int=0), [(0, b"h", b"r")])
    with pytest.raises(LocalProtocolError, match="v2 cannot"):
        write_produce(2, 1, None, 1, 1, [topic])
    for version in (3, 11):
        with pytest.raises(LocalProtocolError):
            write_produce(version, 1, "c" * 40_000, 1, 1, [topic])
        with pytest.raises(LocalProtocolError, match="too long"):
            write_produce(version, 1, None, 1, 1, [("t" * 40_000, topic[1], topic[2])])


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("name", ["t", "n" * 200])
def test_answers_are_read_short_or_whole(version: int, name: str) -> None:
    def frame(*parts: ProduceResponsePartition) -> memoryview:
        topic = ProduceResponseTopic(
            name=name, topic_id=uuid.UUID(int=9), partition_responses=parts
        )
        answer = ProduceResponse(responses=[topic], throttle_time_ms=3)
        return memoryview(frames.encode_response(answer, version, 5))[4:]

    good = ProduceResponsePartition(
        index=3, error_code=0, base_offset=70, log_append_time_ms=-1, log_start_offset=0
    )
    bad = ProduceResponsePartition(index=4, error_code=6, base_offset=-1)
    found = read_produced(frame(good), version)
    if version >= 9 and (len(name) < 127 or version >= 13):
        assert found == [PartitionResponse(3, 70, -1)]
        another = ProduceResponsePartition(index=1, base_offset=5, log_append_time_ms=9)
        assert read_produced(frame(another, good), version) == [(1, 5, 9), (3, 70, -1)]
    else:
        assert isinstance(found, ProduceResponse)
        assert found.responses[0].partition_responses[0].base_offset == 70
    for parts in ((bad,), (good, bad), (bad, good)):
        whole = read_produced(frame(*parts), version)
        assert isinstance(whole, ProduceResponse)
        assert [p.error_code for p in whole.responses[0].partition_responses] == [
            p.error_code for p in parts
        ]
