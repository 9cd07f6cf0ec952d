"""What is in a topic, for a test to look at."""

from __future__ import annotations

from tallymark.client.reading.isolation import Isolation
from tallymark.client.reading.message import Message
from tallymark.client.reading.simple_consumer import SimpleConsumer


def read_topic(
    bootstrap_servers: str, topic: str, *, isolation: Isolation = "read_uncommitted"
) -> list[Message]:
    """All messages that are in ``topic`` now, partition after partition, from the first one on;
    with ``isolation`` read_committed up to the first open transaction. Empty when there is no such
    topic.

    Raises KafkaError for what cannot be read, ConnectError when no broker answers.
    """
    messages: list[Message] = []
    with SimpleConsumer(
        bootstrap_servers=bootstrap_servers, client_id="read_topic", isolation=isolation
    ) as consumer:
        if topic not in consumer.topics():
            return messages
        starts = consumer.start_offsets(topic)
        for partition, end in consumer.end_offsets(topic).items():
            offset, epoch = starts[partition], -1
            while offset < end:
                fetched = consumer.fetch(topic, partition, offset, last_epoch=epoch)
                messages += [
                    Message(topic, partition, *record, -1)
                    for record in fetched.records()
                    if record.offset < end
                ]
                offset, epoch = fetched.next_offset, fetched.last_epoch
    return messages
