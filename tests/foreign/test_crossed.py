"""What one client writes another reads, byte for byte."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from foreign_clients import aio, confluent, kafka_python, kcat
from foreign_clients.group import PARTITIONS, Member, Story
from foreign_clients.rows import COUNT, FIRST_TIMESTAMP, Row, rows

from tallymark import Producer
from tallymark.client.admin.admin import Admin

pytestmark = pytest.mark.process

CLIENTS: dict[str, Any] = {"confluent": confluent, "kafka-python": kafka_python, "aiokafka": aio}
WRITTEN = (
    *(("confluent", "gzip"), ("confluent", "zstd"), ("kafka-python", "gzip")),
    *(("aiokafka", "none"), ("aiokafka", "snappy"), ("aiokafka", "lz4")),
)


@pytest.fixture(scope="module")
def written(servers: str) -> dict[str, list[Row]]:
    """Topic to rows."""
    topics = {f"{writer}-{codec}": rows(writer) for writer, codec in WRITTEN}
    for writer, codec in WRITTEN:
        CLIENTS[writer].write(servers, f"{writer}-{codec}", rows(writer), codec)
    return topics


@pytest.mark.parametrize("reader", CLIENTS)
@pytest.mark.parametrize(("writer", "codec"), WRITTEN)
def test_one_writes_another_reads(
    servers: str, written: dict[str, list[Row]], writer: str, codec: str, reader: str
) -> None:
    if reader == "kafka-python" and not kafka_python.has_codec(codec):
        pytest.skip("kafka-python's package for this codec is not installed")
    topic = f"{writer}-{codec}"
    assert CLIENTS[reader].read(servers, topic, COUNT) == written[topic]


@kcat.needs_kcat
def test_kcat_reads_them_all(servers: str, written: dict[str, list[Row]]) -> None:
    for topic, some in written.items():
        assert kcat.printed(servers, topic) == kcat.expected(some), topic


@kcat.needs_kcat
def test_all_read_what_kcat_writes(servers: str) -> None:
    plain: list[Row] = [
        (b"k%d" % n, b"value %d" % n, [kcat.HEADER], FIRST_TIMESTAMP) for n in range(COUNT)
    ]
    kcat.write(servers, "from-kcat", plain, "gzip")
    for reader in CLIENTS.values():
        found = reader.read(servers, "from-kcat", COUNT)
        assert [row[:3] for row in found] == [row[:3] for row in plain]


@pytest.mark.parametrize(
    "pair", [("confluent", "kafka-python"), ("kafka-python", "aiokafka"), ("aiokafka", "confluent")]
)
def test_members_of_one_group(servers: str, pair: tuple[str, str]) -> None:
    """The one who was first assigns partitions to the other, whose words it must understand."""
    topic = f"group-{pair[0]}-{pair[1]}"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, PARTITIONS)
    joining = iter(pair)
    with asyncio.Runner() as runner, Producer(bootstrap_servers=servers) as producer:
        # aiokafka knows round-robin only, unless told otherwise; the broker finds what all know.
        more: dict[str, list[Any]] = {
            "aiokafka": [runner],
            "confluent": ["range,roundrobin"],
            "kafka-python": [],
        }

        def join() -> Member:
            name = next(joining)
            member: Member = CLIENTS[name].Member(servers, topic, *more[name])
            return member

        story = Story(
            join=join,
            send=lambda partition, value: producer.send(topic, value, partition=partition),
            flush=producer.flush,
        )
        story.run()
    story.check()
