"""Messages of any client, as the audit reads them. No message raises an error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tallymark.client.producing.stamps import STAMP_HEADER, decode_stamp
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.model.cells import CellKey, window_of
from tallymark_audit.model.record_runs import SeenRun

_MOST: int = 2**63 - 1


class ConsumedMessage(NamedTuple):
    """One message: where it was read (``offset`` -1: not known), its timestamp in ms (-1: none),
    the bytes of its stamp (None: it has none), and the size of key and value."""

    place: TopicPartition
    offset: int
    timestamp: int
    stamp: bytes | None
    size: int = 0


def consumed_message(message: object) -> ConsumedMessage | None:
    """A message of confluent-kafka (whose fields are methods), kafka-python, aiokafka or our own,
    or ``(topic, partition, headers, timestamp)``. None: it is no message, or only an error."""
    try:
        if isinstance(message, tuple) and not hasattr(message, "_fields"):
            topic, partition, headers, timestamp = message
            return _checked_message(topic, partition, -1, timestamp, headers, 0)
        error = getattr(message, "error", None)
        if callable(error) and error() is not None:
            return None
        timestamp = _field(message, "timestamp")
        if isinstance(timestamp, tuple):  # of librdkafka: what kind of time, and when
            timestamp = timestamp[1] if timestamp[0] else -1
        size = len(_field(message, "key") or b"") + len(_field(message, "value") or b"")
        place = _field(message, "topic"), _field(message, "partition")
        return _checked_message(
            *place, _field(message, "offset"), timestamp, _field(message, "headers"), size
        )
    except (AttributeError, TypeError, ValueError):
        return None


def run_of(message: ConsumedMessage, window_ms: int) -> SeenRun:
    """The message as a run of one; one without a readable stamp is in the cell of its log."""
    topic, partition = message.place
    window = window_of(message.timestamp, window_ms)
    when = max(-1, message.timestamp)
    stamp = decode_stamp(message.stamp) if message.stamp is not None else None
    if stamp is None or "\0" in stamp.server:
        key = CellKey(topic, partition, window, "", "")
        first, malformed = -1, int(message.stamp is not None)
    else:
        key = CellKey(topic, stamp.partition, window, stamp.server, stamp.instance.hex())
        first, malformed = stamp.sequence, 0
    return SeenRun(
        key,
        first,
        message.offset,
        count=1,
        bytes=message.size,
        min_timestamp=when,
        max_timestamp=when,
        malformed=malformed,
    )


def _checked_message(
    topic: object, partition: object, offset: object, timestamp: object, headers: Any, size: int
) -> ConsumedMessage:
    if not isinstance(topic, str) or not topic.isascii() or "\0" in topic:
        raise ValueError("no topic")
    if type(partition) is not int or not 0 <= partition < 2**31:
        raise ValueError("no partition")
    if timestamp is None:
        timestamp = -1
    if type(timestamp) is not int or abs(timestamp) > _MOST:
        raise ValueError("no timestamp")
    at = offset if type(offset) is int and abs(offset) <= _MOST else -1
    return ConsumedMessage((topic, partition), at, timestamp, _last_stamp(headers), size)


def _last_stamp(headers: Any) -> bytes | None:
    """The last header of the stamp's name; a value that is not bytes is a stamp that cannot be
    read."""
    pairs: Iterable[Any] = headers.items() if isinstance(headers, dict) else headers or ()
    found: bytes | None = None
    for name, value in pairs:
        if name == STAMP_HEADER:
            found = bytes(value) if isinstance(value, bytes | bytearray | memoryview) else b""
    return found


def _field(message: object, name: str) -> Any:
    value = getattr(message, name)
    return value() if callable(value) else value
