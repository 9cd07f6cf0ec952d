"""What our clients write others read, and the other way round: every codec; null, empty, binary and
large keys, values and headers; timestamps; one by one and as columns; with stamps and without; on
our broker and on Apache Kafka."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from broker_kinds import new_topic
from foreign_clients import aio, confluent, kafka_python, kcat, ours
from foreign_clients.rows import COUNT, FIRST_TIMESTAMP, Row, columns, rows, stored_codecs

from tallymark.client.producing.stamps import STAMP_HEADER, Stamp, decode_stamp
from tallymark.protocol.records.compression import CODECS

pytestmark = [pytest.mark.process, pytest.mark.soak_cases("gzip", "snappy", "lz4")]

CLIENTS: dict[str, Any] = {"confluent": confluent, "kafka-python": kafka_python, "aiokafka": aio}
EVERY_CODEC = pytest.mark.parametrize("codec", CODECS)


@dataclass(frozen=True)
class Part:
    """What one producer of ours wrote; ``instance`` is in its stamps, None: it stamps nothing."""

    rows: list[Row]
    instance: bytes | None


@dataclass(frozen=True)
class Written:
    """A topic of ours, whose partition 0 is these parts one after another."""

    topic: str
    parts: tuple[Part, ...]

    @property
    def count(self) -> int:
        return sum(len(part.rows) for part in self.parts)

    def check(self, found: list[Row]) -> None:
        """What somebody read is what was written, with the stamps of each producer."""
        assert len(found) == self.count
        for part in self.parts:
            some, found = found[: len(part.rows)], found[len(part.rows) :]
            if part.instance is not None:
                stamps = [row[2][-1] for row in some]
                some = [(key, value, headers[:-1], time) for key, value, headers, time in some]
                assert {name for name, _ in stamps} == {STAMP_HEADER}
                assert [decode_stamp(data or b"") for _, data in stamps] == [
                    Stamp(part.instance, 0, number, "here") for number in range(len(some))
                ]
            assert some == part.rows


@pytest.fixture(scope="module")
def by_us(place: tuple[str, Path]) -> dict[str, Written]:
    """By codec."""
    found: dict[str, Written] = {}
    for codec in CODECS:
        topic, parts = new_topic("by-us"), list[Part]()
        for write, some in ((ours.write, rows(codec)), (ours.write_columns, columns(codec))):
            write(place[0], topic, some, codec)
            parts.append(Part(some, None))
            # Small batches: several to a request, and some of one record.
            small: dict[str, Any] = {"batch_size": 4000, "stamp": True, "server": "here"}
            parts.append(Part(some, write(place[0], topic, some, codec, **small)))
        found[codec] = Written(topic, tuple(parts))
    return found


def skip_without_codec(client: str, codec: str) -> None:
    if client == "kafka-python" and not kafka_python.has_codec(codec):
        pytest.skip("kafka-python's package for this codec is not installed")


@EVERY_CODEC
@pytest.mark.parametrize("client", CLIENTS)
def test_they_read_what_we_write(
    place: tuple[str, Path], by_us: dict[str, Written], client: str, codec: str
) -> None:
    skip_without_codec(client, codec)
    written = by_us[codec]
    # A batch of one short message, which a slow machine makes, is stored as it is.
    assert codec in stored_codecs(place[1], written.topic)
    written.check(CLIENTS[client].read(place[0], written.topic, written.count))


@EVERY_CODEC
@pytest.mark.parametrize("reader", ours.READERS)
def test_we_read_what_we_write(
    place: tuple[str, Path], by_us: dict[str, Written], reader: str, codec: str
) -> None:
    written = by_us[codec]
    written.check(ours.READERS[reader](place[0], written.topic, written.count))


@kcat.needs_kcat
@EVERY_CODEC
def test_kcat_reads_what_we_write(
    place: tuple[str, Path], by_us: dict[str, Written], codec: str
) -> None:
    """Its stamps are in the way of comparing text: they are taken from what we read ourselves,
    which the test above compares with what was written."""
    written = by_us[codec]
    read_by_us = ours.read(place[0], written.topic, written.count)
    assert kcat.printed(place[0], written.topic) == kcat.expected(read_by_us)


@EVERY_CODEC
@pytest.mark.parametrize("client", CLIENTS)
def test_we_read_what_they_write(place: tuple[str, Path], client: str, codec: str) -> None:
    skip_without_codec(client, codec)
    topic = new_topic("by-them")
    some = rows(client, null_headers=client != "kafka-python")
    CLIENTS[client].write(place[0], topic, some, codec)
    # A batch of one short message, which a slow machine makes, is stored as it is.
    assert codec in stored_codecs(place[1], topic)
    for name, read in ours.READERS.items():
        assert read(place[0], topic, COUNT) == some, name


@kcat.needs_kcat
@EVERY_CODEC
def test_we_read_what_kcat_writes(place: tuple[str, Path], codec: str) -> None:
    plain: list[Row] = [
        (b"k%d" % n, b"value %d" % n, [kcat.HEADER], FIRST_TIMESTAMP) for n in range(COUNT)
    ]
    topic = new_topic("by-kcat")
    kcat.write(place[0], topic, plain, codec)
    for name, read in ours.READERS.items():
        found = read(place[0], topic, COUNT)
        assert [row[:3] for row in found] == [row[:3] for row in plain], name
        assert all(row[3] > FIRST_TIMESTAMP for row in found)
