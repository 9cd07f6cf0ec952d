"""Every API that is served, asked for badly: answered by its own rules or closed, never silent, and
the broker has no traceback to show for it."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from random_requests import TOPICS, NastyRandom, random_request

from tallymark.client import Admin
from tallymark.errors import CODES
from tallymark.protocol import frames
from tallymark.protocol.api import ADVERTISED, ApiKey
from tallymark.protocol.messages import (
    REQUEST_CLASSES,
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    MetadataRequest,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponsePartition,
)
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

SILENT: frozenset[ApiKey] = frozenset({ApiKey.PRODUCE, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""Produce has no answer with acks=0; joining and syncing wait for other members."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    settings: dict[str, Any] = {"auto_create_topics_enable": False, "message_max_bytes": 2_000_000}
    with BrokerThread(tmp_path_factory.mktemp("data"), **settings) as running:
        with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            for topic in TOPICS:
                admin.create_topic(topic, 1, {})
            admin.create_topic("compacted", 1, {"cleanup.policy": "compact"})
            admin.create_topic("plain", 1, {})
        yield running


@pytest.fixture(autouse=True)
def _others_are_served_and_nothing_breaks(
    broker: BrokerThread, caplog: pytest.LogCaptureFixture
) -> Iterator[None]:
    with WireClient(broker.bootstrap_servers) as other:
        yield
        other.ask(MetadataRequest(topics=[]), 1)
    broken = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert broken == [], caplog.text


def frame_of(key: ApiKey, version: int, random: Random) -> bytes:
    request = random_request(key, version, random)
    return frames.encode_request(request, version, 7, "bad")


def answered_or_closed(broker: BrokerThread, data: bytes, key: ApiKey, version: int) -> Any:
    """The answer to the frame, None where the connection was closed."""
    with WireClient(broker.bootstrap_servers, timeout=5.0) as wire:
        wire.send_bytes(data)
        try:
            frame = wire.frame()
        except ConnectionError:
            return None
    correlation, answer = frames.decode_response(frame, REQUEST_CLASSES[key], version)
    assert correlation == 7
    return answer


@pytest.mark.parametrize("key", sorted(ADVERTISED), ids=lambda key: ApiKey(key).name.lower())
def test_a_body_that_is_cut_short(broker: BrokerThread, key: ApiKey) -> None:
    """Cut in the middle under a size that fits. Nothing that is left of it may be carried out."""
    random = Random(f"cut {key}")
    for version in {*ADVERTISED[key]}:
        data = frame_of(key, version, random)
        for _ in range(4):
            cut = data[4 : random.randrange(14, max(len(data), 15))]
            whole = struct.pack(">i", len(cut)) + cut
            if key in SILENT:
                whole += struct.pack(">i", 0)  # ends the connection in any case
            answered_or_closed(broker, whole, key, version)


@pytest.mark.parametrize("key", sorted(ADVERTISED), ids=lambda key: ApiKey(key).name.lower())
def test_versions_that_are_not_served(broker: BrokerThread, key: ApiKey) -> None:
    low, high = ADVERTISED[key]
    for version in (high + 1, low - 1, 32767, -1):
        if low <= version <= high:
            continue
        body = struct.pack(">hhih", key, version, 7, -1) + b"\0"  # no tagged fields
        with WireClient(broker.bootstrap_servers, timeout=5.0) as wire:
            wire.send_bytes(struct.pack(">i", len(body)) + body)
            if key == ApiKey.API_VERSIONS:
                assert wire.frame()[:4] == struct.pack(">i", 7), "KIP-511: answered as v0"
            else:
                assert wire.closed_by_peer()


@pytest.mark.parametrize(
    "key", sorted(set(ADVERTISED) - SILENT), ids=lambda key: ApiKey(key).name.lower()
)
def test_well_formed_requests_of_strange_content_are_answered(
    broker: BrokerThread, key: ApiKey
) -> None:
    """What decodes is the handler's, and it answers: with an error code in the right place, in the
    version that was asked for. Silence would make clients wait for their time-outs."""
    random = NastyRandom(f"strange {key}")
    low, high = ADVERTISED[key]
    for _ in range(12):
        version = random.randint(low, high)
        request = random_request(key, version, random)
        if isinstance(request, FetchRequest):
            request = FetchRequest(topics=request.topics, max_wait_ms=0, session_epoch=-1)
        data = frames.encode_request(request, version, 7, "bad")
        answer = answered_or_closed(broker, data, key, version)
        # Metadata of a name with a zero byte, SASL where there is none: closing is an answer, too.
        assert answer is not None or key in (ApiKey.SASL_AUTHENTICATE, ApiKey.SASL_HANDSHAKE), (
            request
        )


# --- batches


def produce(
    broker: BrokerThread, records: bytes | None, topic: str = "plain", version: int = 9
) -> ProduceResponsePartition:
    partition = ProduceRequestPartition(index=0, records=records)
    topics = [ProduceRequestTopic(name=topic, partition_data=[partition])]
    with WireClient(broker.bootstrap_servers) as wire:
        answer = wire.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), version)
        return answer.responses[0].partition_responses[0]


def with_byte(data: bytes, place: int, value: int) -> bytes:
    changed = bytearray(data)
    changed[place] = value
    return bytes(changed)


GOOD = encode_batch([(b"k", b"v", (), 1), (b"k", b"w", (), 2)])


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (None, "INVALID_RECORD"),
        (b"", "INVALID_RECORD"),
        (GOOD[:40], "CORRUPT_MESSAGE"),
        (GOOD[:-1], "CORRUPT_MESSAGE"),
        (GOOD + b"x", "INVALID_RECORD"),
        (GOOD * 2, "INVALID_RECORD"),
        (with_byte(GOOD, len(GOOD) - 1, 99), "CORRUPT_MESSAGE"),
        (with_byte(GOOD, 17, GOOD[17] ^ 1), "CORRUPT_MESSAGE"),
        (with_byte(GOOD, 16, 1), "UNSUPPORTED_FOR_MESSAGE_FORMAT"),
        (with_byte(GOOD, 16, 3), "CORRUPT_MESSAGE"),
        (with_byte(GOOD, 8, 0x80), "CORRUPT_MESSAGE"),
        (bytes(200), "UNSUPPORTED_FOR_MESSAGE_FORMAT"),
        (b"\xff" * 200, "INVALID_TXN_STATE"),
        (with_byte(b"\xff" * 200, 22, 0), "CORRUPT_MESSAGE"),
        (encode_batch([(b"k", bytes(2_100_000), (), 1)]), "MESSAGE_TOO_LARGE"),
    ],
    ids=range(15),
)
def test_batches_that_are_none(broker: BrokerThread, records: bytes | None, error: str) -> None:
    before = produce(broker, GOOD).base_offset
    assert produce(broker, records).error_code == CODES[error]
    assert produce(broker, GOOD).base_offset == before + 2, "nothing of it was written"


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_decompression_bomb(broker: BrokerThread, codec: str) -> None:
    """Some kilobytes that hold a gigabyte. Where keys must be looked at (compaction) it is refused
    before it is unpacked; elsewhere nobody unpacks it."""
    size = {"zstd": 300, "gzip": 150, "lz4": 150, "snappy": 35}[codec] * 1_000_000
    bomb = encode_batch([(b"k", bytes(size), (), 1)], compression=codec)
    assert len(bomb) < 2_000_000
    assert produce(broker, bomb, "compacted").error_code == CODES["MESSAGE_TOO_LARGE"]
    assert produce(broker, bomb, "plain").error_code == 0
    asked = ListOffsetsRequestPartition(partition_index=0, timestamp=1)
    topic = ListOffsetsRequestTopic(name="plain", partitions=[asked])
    with WireClient(broker.bootstrap_servers, timeout=20) as wire:
        answer = wire.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 5)
        assert answer.topics[0].partitions[0].error_code == 0


def test_a_partition_named_twice_is_written_once_and_read_as_often_as_asked(
    broker: BrokerThread,
) -> None:
    partition = ProduceRequestPartition(index=0, records=GOOD)
    topics = [
        ProduceRequestTopic(name="plain", partition_data=[partition, partition]),
        ProduceRequestTopic(name="plain", partition_data=[partition]),
    ]
    with WireClient(broker.bootstrap_servers) as wire:
        answer = wire.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 9)
        told = [p for topic in answer.responses for p in topic.partition_responses]
        offsets = {p.base_offset for p in told if p.error_code == 0}
        assert len(offsets) == 1
        assert produce(broker, GOOD).base_offset == max(offsets) + 2
        wanted = FetchRequestPartition(
            partition=0, fetch_offset=max(offsets), partition_max_bytes=9999
        )
        topic = FetchRequestTopic(topic="plain", partitions=[wanted, wanted])
        fetched = wire.ask(FetchRequest(max_wait_ms=0, topics=[topic]), 11)
        for found in fetched.responses[0].partitions:
            assert found.error_code == 0
            assert split_batches(found.records or b"")[0].header.base_offset == max(offsets)
