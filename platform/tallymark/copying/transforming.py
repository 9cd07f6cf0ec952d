"""What is sent for a message, and the positions behind messages. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from tallymark.client import OutgoingRecord
from tallymark.client.producing.stamps import STAMP_HEADER
from tallymark.client.reading.message import Message
from tallymark.protocol.topic_partition import TopicPartition

Transform: TypeAlias = Callable[[Message], Iterable[OutgoingRecord]]
"""What is sent for a message: none, one or several records."""


def to_topic(topic: str) -> Transform:
    """Copies each message to ``topic``: key, value, headers and time as they are, the partition as
    its key says; without a key into the partition of the same number, so that order stays. The
    audit's stamp is left out: a copy is a message of its own producer."""

    def copy(message: Message) -> list[OutgoingRecord]:
        return [
            OutgoingRecord(
                topic,
                message.value,
                message.key,
                None if message.key is not None else message.partition,
                message.timestamp,
                tuple(header for header in message.headers if header[0] != STAMP_HEADER),
            )
        ]

    return copy


def positions_after(messages: Iterable[Message]) -> dict[TopicPartition, int]:
    """The next offset to read of each partition: what ``send_offsets_to_transaction`` takes."""
    found: dict[TopicPartition, int] = {}
    for message in messages:
        place = (message.topic, message.partition)
        found[place] = max(found.get(place, 0), message.offset + 1)
    return found
