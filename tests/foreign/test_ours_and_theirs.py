"""What our clients write others read, and the other way round: every codec; null, empty and binary
keys, values and headers; timestamps; on our broker and on Apache Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from broker_kinds import new_topic
from foreign_clients import aio, confluent, kafka_python, kcat, ours
from foreign_clients.rows import COUNT, FIRST_TIMESTAMP, Row, rows, stored_codecs

from tallymark.client.producing.stamps import STAMP_HEADER, Stamp, decode_stamp
from tallymark.protocol.compression import CODECS

pytestmark = pytest.mark.process

CLIENTS: dict[str, Any] = {"confluent": confluent, "kafka-python": kafka_python, "aiokafka": aio}
EVERY_CODEC = pytest.mark.parametrize("codec", CODECS)


@pytest.fixture(scope="module")
def by_us(place: tuple[str, Path]) -> dict[str, tuple[str, list[Row]]]:
    """Codec to (topic, rows), written by our producer."""
    written: dict[str, tuple[str, list[Row]]] = {}
    for codec in CODECS:
        topic, some = new_topic("by-us"), rows(codec)
        ours.write(place[0], topic, some, codec)
        written[codec] = topic, some
    return written


def skip_without_codec(client: str, codec: str) -> None:
    if client == "kafka-python" and not kafka_python.has_codec(codec):
        pytest.skip("kafka-python's package for this codec is not installed")


@EVERY_CODEC
@pytest.mark.parametrize("client", CLIENTS)
def test_they_read_what_we_write(
    place: tuple[str, Path], by_us: dict[str, tuple[str, list[Row]]], client: str, codec: str
) -> None:
    skip_without_codec(client, codec)
    topic, some = by_us[codec]
    # A batch of one short message, which a slow machine makes, is stored as it is.
    assert codec in stored_codecs(place[1], topic)
    assert CLIENTS[client].read(place[0], topic, COUNT) == some


@kcat.needs_kcat
@EVERY_CODEC
def test_kcat_reads_what_we_write(
    place: tuple[str, Path], by_us: dict[str, tuple[str, list[Row]]], codec: str
) -> None:
    topic, some = by_us[codec]
    assert kcat.printed(place[0], topic) == kcat.expected(some)


@EVERY_CODEC
@pytest.mark.parametrize("client", CLIENTS)
def test_we_read_what_they_write(place: tuple[str, Path], client: str, codec: str) -> None:
    skip_without_codec(client, codec)
    topic, some = new_topic("by-them"), rows(client)
    CLIENTS[client].write(place[0], topic, some, codec)
    # A batch of one short message, which a slow machine makes, is stored as it is.
    assert codec in stored_codecs(place[1], topic)
    assert ours.read(place[0], topic, COUNT) == some


@kcat.needs_kcat
@EVERY_CODEC
def test_we_read_what_kcat_writes(place: tuple[str, Path], codec: str) -> None:
    plain: list[Row] = [
        (b"k%d" % n, b"value %d" % n, [kcat.HEADER], FIRST_TIMESTAMP) for n in range(COUNT)
    ]
    topic = new_topic("by-kcat")
    kcat.write(place[0], topic, plain, codec)
    found = ours.read(place[0], topic, COUNT)
    assert [row[:3] for row in found] == [row[:3] for row in plain]
    assert all(row[3] > FIRST_TIMESTAMP for row in found)


@pytest.mark.parametrize("client", CLIENTS)
def test_they_see_our_stamp_behind_the_headers_of_the_application(
    place: tuple[str, Path], client: str
) -> None:
    topic, some = new_topic("stamped"), rows("stamped")
    ours.write(place[0], topic, some, stamp=True, server="here")
    found = CLIENTS[client].read(place[0], topic, COUNT)
    stamps = [row[2].pop() for row in found]
    assert found == some
    assert {name for name, _ in stamps} == {STAMP_HEADER}
    decoded = [decode_stamp(data) for _, data in stamps]
    (instance,) = {stamp.instance if stamp else None for stamp in decoded}
    assert instance is not None
    assert decoded == [Stamp(instance, 0, number, "here") for number in range(COUNT)]
